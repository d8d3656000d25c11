/** A bug that a programmer could write: a text in one file of the core, and its replacement. */
export type Planted = {
  readonly name: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** The channel that is searched first, to save time. All other channels follow. */
  readonly near?: string;
};

const EPOCHS: readonly Planted[] = [
  {
    name: 'an act with an older epoch counts',
    file: 'decide/turns.ts',
    find: "  if (turn.epoch !== epoch) return 'stale-epoch';\n",
    replace: '',
  },
  {
    name: 'an act of anybody counts while somebody holds the floor',
    file: 'decide/turns.ts',
    find: "if (turn === null || turn.agent !== agent) return 'not-holder';",
    replace: "if (turn === null) return 'not-holder';",
  },
  {
    name: 'an agent that waits may go on talking',
    near: 'mode inject',
    file: 'decide/turns.ts',
    find: "return turn.status === 'waiting' && type === 'injected' ? null : 'not-holder';",
    replace: 'return null;',
  },
  {
    name: 'a grant does not raise the epoch of the floor',
    file: 'evolve.ts',
    find: '    epoch: fact.epoch,\n    usageSincePerson: { ...',
    replace: '    usageSincePerson: { ...',
  },
  {
    name: 'a turn resumes under its old epoch',
    near: 'mode inject',
    file: 'decide/decision-builder.ts',
    find: "const epoch = decision.floor.epoch + 1;\n  decision.record({ type: 'turnResumed'",
    replace: "const epoch = turn.epoch;\n  decision.record({ type: 'turnResumed'",
  },
  {
    name: 'the skip button of an earlier turn skips this one',
    file: 'decide/control.ts',
    find: "  if (command.epoch !== undefined && command.epoch !== turn.epoch) return 'stale-epoch';\n",
    replace: '',
  },
  {
    name: 'an answer to an earlier question to the facilitator counts',
    near: 'a facilitator',
    file: 'decide/control.ts',
    find: ' || facilitation.ask !== command.ask',
    replace: '',
  },
];

const TURNS: readonly Planted[] = [
  {
    name: 'a turn that ends without the floor stays parked',
    near: 'waits lend the floor',
    file: 'evolve.ts',
    find: '      .filter((parked) => parked.agent !== fact.agent)\n',
    replace: '',
  },
  {
    name: 'a turn that resumes stays parked as well',
    near: 'waits lend the floor',
    file: 'evolve.ts',
    find: 'parked: floor.parked.filter((parked) => parked.agent !== fact.agent),\n    turn: {',
    replace: 'parked: floor.parked,\n    turn: {',
  },
  {
    name: 'a stop leaves the exchange open',
    file: 'decide/control.ts',
    find: "  if (isBusy) decision.record({ type: 'exchangeClosed', reason: 'stopped', by });\n",
    replace: '',
  },
  {
    name: 'a stop forgets the turns that wait without the floor',
    near: 'waits lend the floor',
    file: 'decide/control.ts',
    find: 'const turns = turnsOf(decision.floor);',
    replace: 'const turns = turnsOf({ ...decision.floor, parked: [] });',
  },
  {
    name: 'an agent hands the floor over to itself',
    file: 'decide/turns.ts',
    find: "if (other !== agent) prioritise(decision, other, 'agent');",
    replace: "prioritise(decision, other, 'agent');",
  },
  {
    name: 'the responder keeps the floor of the turn that it answered for',
    near: 'a responder answers',
    file: 'decide/turns.ts',
    find: 'messages: [], ready: true, parked: true });',
    replace: 'messages: [], ready: false, parked: true });',
  },
  {
    name: 'an agent that waits lends the floor and nobody takes it',
    near: 'waits lend the floor',
    file: 'decide/waits.ts',
    find: '  if (decision.floor.turn === null) goOn(decision);\n',
    replace: '',
  },
  {
    name: 'a restart grants before the catch-up',
    near: 'restarts',
    file: 'gate.ts',
    find: "next: ['catching-up', 'paused',",
    replace: "next: ['paused',",
  },
  {
    name: 'a restart does not suspend the turn that was open',
    near: 'restarts',
    file: 'evolve.ts',
    find: "const isCut = turn !== null && turn.status !== 'waiting';",
    replace: 'const isCut = false;',
  },
];

const QUEUE: readonly Planted[] = [
  {
    name: 'a button of the card resumes no stopped floor whose order calls nobody',
    near: 'by mention',
    file: 'decide/control.ts',
    find: 'policyOf(floor).goesRound || floor.stopped;',
    replace: 'policyOf(floor).goesRound;',
  },
  {
    name: 'a button of the card resumes no stopped floor that holds a message',
    near: 'by mention',
    file: 'decide/control.ts',
    find: '(stopped || held.length === 0) && beginsAgain(decision)',
    replace: 'held.length === 0 && beginsAgain(decision)',
  },
  {
    name: 'an agent that is gone stays in the queue',
    file: 'seats.ts',
    find: 'others.toSpliced(place, 0, agent) : others,',
    replace: 'others.toSpliced(place, 0, agent) : floor.queue,',
  },
  {
    name: 'whoever spoke goes to the head of the queue',
    file: 'seats.ts',
    find: 'move.place ?? others.length',
    replace: 'move.place ?? 0',
  },
  {
    name: 'an agent that is gone stays called',
    near: 'mode inject',
    file: 'seats.ts',
    find: "to === 'IDLE' || to === 'OFFLINE'\n        ? floor.prioritised.filter((named) => named.agent !== agent)\n        : floor.prioritised",
    replace: 'floor.prioritised',
  },
  {
    name: 'every agent gets one round too many',
    near: 'mode inject',
    file: 'next-speaker.ts',
    find: 'rounds === 0 || seat.taken < rounds',
    replace: 'rounds === 0 || seat.taken <= rounds',
  },
  {
    name: "an agent's hand-over goes before a person's call",
    near: 'mode inject',
    file: 'evolve.ts',
    find: '{ operator: 0, person: 1, agent: 2 }',
    replace: '{ operator: 0, person: 2, agent: 1 }',
  },
  {
    name: 'the facilitator may name somebody who is not queued',
    near: 'a facilitator',
    file: 'decide/control.ts',
    find: 'const usable = next !== null && !isTooEarly && isGrantable(decision.floor, next);',
    replace: 'const usable = next !== null && !isTooEarly;',
  },
  {
    name: 'an agent that crashed is queued again by itself',
    file: 'decide/membership.ts',
    find: "if (seat.rejoin === 'manual' && seat.assigned)",
    replace: 'if (false)',
  },
  {
    name: 'T13: an agent that comes online goes to the end of the queue',
    file: 'decide/membership.ts',
    find: 'return behind === -1 ? queue.length : tail + behind;',
    replace: 'return behind === -1 ? tail : queue.length;',
  },
];

const ADDED: readonly Planted[] = [
  {
    name: 'an agent that is added to the list in an exchange is placed before those who wait',
    near: 'configured anew',
    file: 'decide/membership.ts',
    find: 'const tail = isAdded(agent) ? queue.findLastIndex((id) => !isAdded(id)) + 1 : 0;',
    replace: 'const tail = 0;',
  },
  {
    name: 'that an agent is added in an exchange is forgotten',
    near: 'configured anew',
    file: 'evolve.ts',
    find: '...(floor.exchange === null ? {} : { added: true as const })',
    replace: '',
  },
];

const MESSAGES: readonly Planted[] = [
  {
    name: 'a grant forgets the held messages',
    file: 'decide/decision-builder.ts',
    find: 'const messages = deliver(decision, agent, ready, calledMessages);',
    replace: 'const messages = deliver(decision, agent, decision.unplaced, calledMessages);',
  },
  {
    name: 'a message that the agent could not take is lost when its turn expires',
    file: 'evolve.ts',
    find: ".map((message): Held => ({ ...message, order: '', until: 'prompt' }))",
    replace: '.flatMap(() => [])',
  },
  {
    name: 'a change of the mode drops what is held',
    near: 'modes change',
    file: 'evolve.ts',
    find: '({ ...floor, settings, queue })',
    replace: '({ ...floor, settings, queue, held: [] })',
  },
  {
    name: 'queue mode drops the message instead of holding it',
    near: 'mode queue',
    file: 'decide/turns.ts',
    find: "  if (mode === 'queue') hold(decision, message, 'turn');\n",
    replace: "  if (mode === 'queue') {}\n",
  },
  {
    name: 'held messages are released backwards',
    near: 'mode queue',
    file: 'evolve.ts',
    find: 'compareOrder(message.order, other.order) < 0',
    replace: 'compareOrder(message.order, other.order) > 0',
  },
  {
    name: 'a message that comes twice is delivered twice',
    file: 'decide/turns.ts',
    find: "  if (isKnown(decision.floor, command.id)) return 'duplicate';\n",
    replace: '',
  },
  {
    name: 'parallel tells only those who wait for their turn',
    near: 'mode parallel',
    file: 'react.ts',
    find: "status !== 'OFFLINE' && status !== 'IDLE'",
    replace: "status === 'QUEUED'",
  },
  {
    name: 'T4: parallel takes a message for seen that nobody was given',
    near: 'mode parallel',
    file: 'decide/turns.ts',
    find: "  hold(decision, message, 'exchange');\n",
    replace:
      "  hold(decision, message, 'exchange');\n  routed(decision, message, { state: 'delivered', to: [], via: 'observe' });\n",
  },
  {
    name: 'T4: what nobody has seen by the end of the exchange stays where it is',
    near: 'mode parallel',
    file: 'decide/turns.ts',
    find: '  if (!isUnseen) return;\n',
    replace: '  if (isUnseen || !isUnseen) return;\n',
  },
  {
    name: 'a message lifts an operator’s pause',
    file: 'gate.ts',
    find: "person: ['catching-up', 'paused',",
    replace: "person: ['catching-up',",
  },
  {
    name: 'an agent that cannot take a message is prompted once more than allowed',
    near: 'prompted again',
    file: 'decide/turns.ts',
    find: 'turn.reprompts < MAX_REPROMPTS',
    replace: 'turn.reprompts <= MAX_REPROMPTS',
  },
];

const ANSWERS: readonly Planted[] = [
  {
    name: 'T2: a prompt after an interrupt holds only what came since',
    near: 'mode interrupt',
    file: 'decide/decision-builder.ts',
    find: 'const unanswered = turn.given.map(({ id }) => id);',
    replace: 'const unanswered: readonly string[] = [];',
  },
  {
    name: 'T5: a message whose answer a stop cuts short shows nothing of it',
    file: 'react.ts',
    find: "    for (const message of fact.cut ?? []) done.push({ type: 'receipt', message, receipt: 'cut', epoch });\n",
    replace: '',
  },
  {
    name: 'T2: what was given counts as answered as soon as something was said',
    near: 'mode interrupt',
    file: 'decide/decision-builder.ts',
    find: "(outcome === 'lapsed' && begun)",
    replace: 'begun',
  },
  {
    name: 'T3: a resumed prompt holds one message to answer at the most',
    near: 'mode queue',
    file: 'decide/decision-builder.ts',
    find: '...deliver(decision, agent, ready)])];',
    replace: '...deliver(decision, agent, ready)])].slice(-1);',
  },
  {
    name: 'T3: a turn that a restart cut is resumed without what it was about',
    near: 'restarts',
    file: 'decide/decision-builder.ts',
    find: 'const unanswered = turn.given.map(({ id }) => id);',
    replace: "const unanswered = why === 'restart' ? [] : turn.given.map(({ id }) => id);",
  },
  {
    name: 'an injection that is reported late takes its message out of the prompt that holds it',
    near: 'mode inject',
    file: 'decide/turns.ts',
    find: "const candidates = outcome === 'no-room' ? turn.given : turn.injecting;",
    replace: 'const candidates = [...turn.given, ...turn.injecting];',
  },
  {
    name: 'what an agent took in before it waited is not heard of any more',
    near: 'tools need a yes',
    file: 'decide/turns.ts',
    find: "return turn.status === 'waiting' && type === 'injected' ? null : 'not-holder';",
    replace: "return 'not-holder';",
  },
  {
    name: 'T3: a message for which there was no room counts as given',
    near: 'prompted again',
    file: 'evolve.ts',
    find: 'injecting, given, unseen: [...turn.unseen, message] }',
    replace: 'injecting, unseen: [...turn.unseen, message] }',
  },
  {
    name: 'a message that was taken up late in a turn is done though the turn was cut short',
    near: 'mode inject',
    file: 'seats.ts',
    find: '!begun && !claimed.has(id)',
    replace: '!turn.said && !claimed.has(id)',
  },
];

const TIME: readonly Planted[] = [
  {
    name: 'a deadline is met a millisecond early',
    file: 'decide/tick.ts',
    find: 'due.at > decision.at',
    replace: 'due.at > decision.at + 1',
  },
  {
    name: 'a deadline is met a millisecond late',
    file: 'decide/tick.ts',
    find: 'due.at > decision.at',
    replace: 'due.at >= decision.at',
  },
  {
    name: 'turns that wait without the floor have no deadline',
    near: 'waits lend the floor',
    file: 'seats.ts',
    find: '  for (const parked of floor.parked) found.push(...turnDeadlines(parked));\n',
    replace: '',
  },
  {
    name: 'work puts off the hard end of a turn',
    file: 'seats.ts',
    find: 'Math.min(deadlineAt, hardEndAt)',
    replace: 'Math.max(deadlineAt, hardEndAt)',
  },
  {
    name: 'a wait is over while the history is read',
    file: 'seats.ts',
    find: 'floor.catchingUp ? found.filter((deadline) => isRunning(floor, deadline)) : found',
    replace: 'found',
  },
  {
    name: 'a turn under way has no end while the platform cannot be heard',
    near: 'touch is lost',
    file: 'seats.ts',
    find: 'floor.catchingUp ? found.filter((deadline) => isRunning(floor, deadline)) : found',
    replace: 'floor.catchingUp ? [] : found',
  },
  {
    name: 'a sign of work does not put off the limit',
    file: 'evolve.ts',
    find: 'const deadlineAt = quietAt === null ? null : noSooner(turn, quietAt);',
    replace: 'const deadlineAt = quietAt === null ? null : fact.open > 0 ? noSooner(turn, quietAt) : turn.deadlineAt;',
  },
  {
    name: 'more time and a standstill of the process do not move the end by silence',
    file: 'evolve.ts',
    find: 'silenceAt: turn.silenceAt === null ? null : turn.silenceAt + ms,',
    replace: 'silenceAt: turn.silenceAt,',
  },
  {
    name: 'a standstill of the process counts against the holder',
    file: 'evolve.ts',
    find: 'turn: turn === null ? null : delayed(turn, fact)',
    replace: 'turn',
  },
  {
    name: 'a sign of work takes back the time that an operator gave',
    file: 'evolve.ts',
    find: 'return Math.max(extendedTo, endsAt);',
    replace: 'return endsAt;',
  },
  {
    name: 'what Conch says by itself counts as work of the agent',
    file: 'evolve.ts',
    find: 'working(floor, next, fact.workedAt ?? at)',
    replace: 'working(floor, next, at)',
  },
  {
    name: 'waiting uses up the time of the turn',
    near: 'mode interrupt',
    file: 'evolve.ts',
    find: 'hardEndAt: at + turn.leftMs }',
    replace: 'hardEndAt: turn.startedAt + floor.settings.maxTurnMs }',
  },
];

const HANGS: readonly Planted[] = [
  {
    name: 'an agent that is cut off at work counts as hung',
    near: 'everything',
    file: 'decide/tick.ts',
    find: "if (turn.status !== 'active' || turn.deadlineAt === null) return false;",
    replace: "if (turn.status !== 'active') return false;",
  },
  {
    name: 'the session of a hung agent is only interrupted, and counts no error',
    near: 'everything',
    file: 'react.ts',
    find: 'floor.settings.interruptGraceMs, hung)',
    replace: 'floor.settings.interruptGraceMs)',
  },
  {
    name: 'a hung agent may have the next turn while its session cools down',
    near: 'everything',
    file: 'decide/tick.ts',
    find: "  if (hung) decision.record({ type: 'seatMarked', agent, mark: 'present', on: false });\n",
    replace: '',
  },
];

const WORLD: readonly Planted[] = [
  {
    name: 'a timeout is announced twice',
    file: 'decide/tick.ts',
    find: "  decision.announce({ kind: 'timeout', agent });\n",
    replace: "  decision.announce({ kind: 'timeout', agent });\n".repeat(2),
  },
  {
    name: 'people are told again with every message that nobody is there',
    file: 'decide/turns.ts',
    find: 'if (!decision.floor.outage) announceNobody(decision);',
    replace: 'announceNobody(decision);',
  },
  {
    name: 'a failure uses up a turn of the exchange',
    file: 'evolve.ts',
    find: 'const turns = Math.max(0, usageSincePerson.turns - 1);',
    replace: 'const { turns } = usageSincePerson;',
  },
  {
    name: 'a failure costs an agent its round',
    file: 'evolve.ts',
    find: '- (wasAsked ? 0 : 1));',
    replace: '- 0);',
  },
  {
    name: 'a crash is not announced',
    file: 'decide/membership.ts',
    find: '      announceLoss(decision, agent, cause);\n',
    replace: '',
  },
  {
    name: 'an agent whose time is over is not told to stop',
    file: 'react.ts',
    find: "outcome === 'passed')",
    replace: "outcome === 'passed' || outcome === 'expired')",
  },
  {
    name: 'one turn more than the budget is granted',
    near: 'mode parallel',
    file: 'gate.ts',
    find: 'used.turns >= settings.maxTurns',
    replace: 'used.turns > settings.maxTurns',
  },
  {
    name: 'turns are not counted',
    near: 'mode parallel',
    file: 'evolve.ts',
    find: 'turns: usageSincePerson.turns + counted }',
    replace: 'turns: usageSincePerson.turns }',
  },
  {
    name: 'more messages are held than the channel allows',
    near: 'one held message',
    file: 'decide/turns.ts',
    find: 'held.length >= settings.maxHeld &&',
    replace: 'held.length > settings.maxHeld &&',
  },
];

const ASKS: readonly Planted[] = [
  {
    name: 'T15: whoever asked an agent that said nothing waits for ever',
    near: 'agents ask each other',
    file: 'seats.ts',
    find: "ready: is !== 'granted'",
    replace: "ready: is === 'answered'",
  },
  {
    name: 'T15: whoever asked an agent that is gone waits for it',
    near: 'agents ask each other',
    file: 'decide/turns.ts',
    find: '  releaseAskers(decision);\n',
    replace: '',
  },
  {
    name: 'T15: an agent that was asked is asked again after its turn',
    near: 'agents ask each other',
    file: 'evolve.ts',
    find: "askAdvanced(asker, fact.agent, 'granted')",
    replace: 'asker',
  },
  {
    name: 'T15: an agent that was asked waits for its place in the queue',
    near: 'agents ask each other',
    file: 'next-speaker.ts',
    find: 'if (askedAgent !== null)\n    return isGrantable(floor, askedAgent) ?',
    replace: "if (askedAgent === '')\n    return isGrantable(floor, askedAgent) ?",
  },
  {
    name: 'T15: going on after an answer costs no turn',
    near: 'agents ask each other',
    file: 'decide/decision-builder.ts',
    find: '(isAnsweredByPrograms || (askedAgent !== null && missed.length === 0))',
    replace: 'isAnsweredByPrograms',
  },
];

const TOUCH: readonly Planted[] = [
  {
    name: 'a facilitator’s answer grants though the platform cannot be heard',
    near: 'touch is lost, a facilitator',
    file: 'decide/control.ts',
    find: "if (gate(floor, decision.at, 'next') !== null) return;",
    replace: "if (floor.condition !== 'open' || floor.turn !== null) return;",
  },
  {
    name: 'an interrupted turn goes on though the platform cannot be heard',
    near: 'touch is lost, interrupted',
    file: 'decide/turns.ts',
    find: "  if (gate(decision.floor, decision.at, 'holder') !== null) return;\n",
    replace: '',
  },
  {
    name: 'an agent that waits gets the answer that it missed though the platform cannot be heard',
    near: 'touch is lost, alone',
    file: 'decide/waits.ts',
    find: "const goesOn = isAnswered && gate(decision.floor, decision.at, 'holder') === null;",
    replace: 'const goesOn = isAnswered;',
  },
  {
    name: 'the floor stays free after the history was read',
    near: 'touch is lost',
    file: 'decide/recovery.ts',
    find: 'comeBack(decision, holder);\n  goOn(decision);\n',
    replace: 'comeBack(decision, holder);\n',
  },
];

const LIMITS: readonly Planted[] = [
  {
    name: 'a limit ends when a turn that waited goes on',
    near: 'agents ask at the limit',
    file: 'decide/decision-builder.ts',
    find: '  return limit.until === null ? renews === null : at < limit.until;\n',
    replace: '  return limit.until !== null && at < limit.until;\n',
  },
  {
    name: 'the limit of a day ends when a person answers a turn that waited',
    near: 'agents wait at the limit of a day',
    file: 'decide/decision-builder.ts',
    find: '  return limit.until === null ? renews === null : at < limit.until;\n',
    replace: '  return renews === null;\n',
  },
  {
    name: 'an agent that answers for an interrupted one does not answer the agent that asked it',
    near: 'agents ask at the limit',
    file: 'decide/decision-builder.ts',
    find: '    ...defined({ askedBy: askerOf(decision.floor, agent) }),\n',
    replace: '',
  },
  {
    name: 'an agent counts as hung though its work is open',
    near: 'turns are shorter than timeouts',
    file: 'decide/tick.ts',
    find: 'turn.openWork === 0 && ',
    replace: '',
  },
];

const PROGRAMS: readonly Planted[] = [
  {
    name: 'a program’s message in the middle of a turn starts the count anew',
    near: 'programs interrupt',
    file: 'decide/turns.ts',
    find: 'if (decision.floor.exchange !== null && isNewFromPerson(message))\n    decision.record',
    replace: 'if (decision.floor.exchange !== null) decision.record',
  },
  {
    name: 'a program’s message opens an exchange with a new count',
    near: 'programs and one agent',
    file: 'evolve.ts',
    find: "exchange, condition: 'open', limit, stopped: false };",
    replace: "exchange, condition: 'open', limit, stopped: false, usageSincePerson: NOTHING_USED };",
  },
  {
    name: 'what a program’s message restarts is the count too',
    near: 'programs speak',
    file: 'decide/decision-builder.ts',
    find: "if (renews !== null) decision.record({ type: 'usageReset', why: renews });",
    replace: "decision.record({ type: 'usageReset', why: renews ?? 'operator' });",
  },
  {
    name: 'a message that an agent could not take is no longer a program’s',
    near: 'programs interrupt',
    file: 'evolve.ts',
    find: 'addressed: fact.addressed, ...defined({ fromProgram: fact.fromProgram }) };',
    replace: 'addressed: fact.addressed };',
  },
  {
    name: 'a message that waits is no longer a program’s',
    near: 'programs wait for the floor',
    file: 'evolve.ts',
    find: 'const message = { id, addressed, order, ...defined({ fromProgram }) };',
    replace: 'const message = { id, addressed, order };',
  },
  {
    name: 'a program lifts a stop',
    near: 'programs speak',
    file: 'gate.ts',
    find: "'limit', 'day-limit', 'stopped', 'nobody-available'],",
    replace: "'limit', 'day-limit', 'nobody-available'],",
  },
  {
    name: 'a program’s message opens an exchange beyond the limit',
    near: 'programs wait for the floor',
    file: 'gate.ts',
    find: "program: ['catching-up', 'paused', 'taken', 'limit',",
    replace: "program: ['catching-up', 'paused', 'taken',",
  },
  {
    name: 'a program interrupts the last turn that is allowed',
    near: 'programs interrupt',
    file: 'decide/turns.ts',
    find: "  if (message.fromProgram === true && gate(decision.floor, decision.at, 'aside') !== null) {\n    hold",
    replace: '  if (false) {\n    hold',
  },
];

const QUESTIONS: readonly Planted[] = [
  {
    name: 'an answer counts for whatever is asked when it arrives',
    near: 'tools need a yes',
    file: 'decide/waits.ts',
    find: '  if (turn === null || openRequest === null || !isAnswerTo(openRequest, command))\n    return decideBackgroundRequest(decision, command);\n',
    replace: '  if (turn === null || openRequest === null) return decideBackgroundRequest(decision, command);\n',
  },
  {
    name: 'an answer counts for any question of the same turn',
    near: 'tools need a yes',
    file: 'decide/waits.ts',
    find: '  if (turn === null || openRequest === null || !isAnswerTo(openRequest, command))\n    return decideBackgroundRequest(decision, command);\n',
    replace:
      '  if (turn === null || openRequest === null || command.question > openRequest.question) return decideBackgroundRequest(decision, command);\n',
  },
  {
    name: 'the button is looked up by number alone',
    near: 'tools need a yes',
    file: 'seats.ts',
    find: ' && (answer.key === undefined || answer.key === request.key)',
    replace: '',
  },
  {
    name: 'a button of an exchange that is over stops another',
    near: 'mode inject',
    file: 'seats.ts',
    find: 'epoch > exchange.since',
    replace: 'epoch > 0',
  },
  {
    name: 'a button of a turn that is over extends another',
    near: 'mode inject',
    file: 'decide/control.ts',
    find: 'if (epoch !== undefined && epoch !== turn.epoch)',
    replace: 'if (epoch !== undefined && epoch > turn.epoch)',
  },
  {
    name: 'a question that was answered may be answered again after a restart',
    near: 'tools need a yes',
    file: 'seats.ts',
    find: "wait?.reason === 'approval' && !wait.ready ?",
    replace: "wait?.reason === 'approval' ?",
  },
  {
    name: 'a yes is taken before the question is shown',
    near: 'tools need a yes',
    file: 'decide/waits.ts',
    find: "  if (command.choice === 'allow' && !openRequest.shown) return 'not-shown';\n",
    replace: '',
  },
  {
    name: 'the deletion of a message that no agent got is told after its turn',
    near: 'mode inject',
    file: 'decide/turns.ts',
    find: ' : isUnreadHeld(floor, held);',
    replace: ' : false;',
  },
  {
    name: 'a message that its author deleted is still in the prompt of a turn to answer',
    near: 'mode inject',
    file: 'seats.ts',
    find: '    given: turn.given.filter(isOther),\n',
    replace: '    given: turn.given,\n',
  },
  {
    name: 'a turn goes on for a message that its author deleted on its way into it',
    near: 'mode inject',
    file: 'seats.ts',
    find: '    unseen: turn.unseen.filter(isOther),\n',
    replace: '    unseen: turn.unseen,\n',
  },
  {
    name: 'a turn that an operator completes leaves its messages to the next',
    file: 'decide/turns.ts',
    find: "    outcome: 'completed',\n    trigger: isSpeaking",
    replace: "    outcome: 'revoked',\n    trigger: isSpeaking",
  },
  {
    name: 'the generation of a turn that an operator completes goes on',
    file: 'react.ts',
    find: ' && by === undefined;',
    replace: ';',
  },
  {
    name: 'every question of a floor has the same number',
    near: 'tools need a yes',
    file: 'evolve.ts',
    find: 'Math.max(floor.questions, wait.question.question)',
    replace: 'floor.questions',
  },
  {
    name: 'a question counts as shown when another one was',
    near: 'tools need a yes',
    file: 'decide/waits.ts',
    find: 'if (turn === null || openRequest === null || !isAnswerTo(openRequest, command))\n    return showBackgroundRequest',
    replace: 'if (turn === null || openRequest === null) return showBackgroundRequest',
  },
  {
    name: 'a question that is taken back leaves its agent waiting',
    near: 'tools need a yes',
    file: 'decide/waits.ts',
    find: '...runDeciderAnswer(decided) });\n  goOnAfter(decision, agent);\n',
    replace: '...runDeciderAnswer(decided) });\n',
  },
];

const NAMES: readonly Planted[] = [
  {
    name: 'a message that a waiting or suspended turn gets calls none of the agents that it names',
    near: 'restarts',
    file: 'decide/decision-builder.ts',
    find: "fate.via !== 'observe'",
    replace: "fate.via !== 'observe' && fate.via !== 'prompt'",
  },
];

const FOLDERS: readonly Planted[] = [
  {
    name: 'an answer about files that were replaced counts for the new ones',
    near: 'folders are trusted',
    file: 'decide/trust.ts',
    find: "  if (findTrustQuestion(decision, agent, id) === undefined) return 'stale-question';\n  close(",
    replace:
      "  const open = decision.floor.trust?.find((each) => each.agent === agent);\n  if (open === undefined) return 'stale-question';\n  return close(decision, open, { choice, by }), null;\n  close(",
  },
  {
    name: "an answer about one agent's files closes the question of another",
    near: 'folders are trusted',
    file: 'evolve.ts',
    find: 'each.agent === agent && each.id === id;\n  const changed',
    replace: 'each.id === id;\n  const changed',
  },
  {
    name: 'a question about files stands beside one about older files',
    near: 'folders are trusted',
    file: 'decide/trust.ts',
    find: "  dropTrust(decision, { type: 'dropTrust', agent, keeps: id });\n",
    replace: '',
  },
];

/** Bugs that the search must find. Each text must be in the core exactly once, so that the list stays up to date. */
export const PLANTED: readonly Planted[] = [
  ...EPOCHS,
  ...TURNS,
  ...QUEUE,
  ...ADDED,
  ...MESSAGES,
  ...ANSWERS,
  ...TIME,
  ...HANGS,
  ...WORLD,
  ...TOUCH,
  ...ASKS,
  ...LIMITS,
  ...PROGRAMS,
  ...QUESTIONS,
  ...NAMES,
  ...FOLDERS,
];
