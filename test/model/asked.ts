import type { Command } from '../../src/turns/floor/command.ts';
import type { Fate } from '../../src/turns/floor/fact.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { AgentId } from '../../src/turns/floor/settings.ts';
import { outstanding, turnOf, turnsOf } from './abstraction.ts';
import { callable, isBarred, isReady, isUsedUp } from './floors.ts';
import { of, statusOf } from './step.ts';
import type { Step } from './step.ts';
import { must } from './violation.ts';
import { waitOf } from '../../src/turns/floor/seats.ts';
import { flat, flatOrNull } from '../turns/floor/flat-turn.ts';

type On<T extends Command['type']> = Step & { readonly command: Extract<Command, { type: T }> };

/** Checks the direct result of each accepted command. */
export function checkAsked(step: Step): void {
  const { command, before, after } = step;
  const isPaused = before.condition === 'paused' && command.type !== 'resume';
  must(!isPaused || after.condition === 'paused', 'I4', "an operator's pause is lifted by something else");
  switch (command.type) {
    case 'receive':
      return checkReceived({ ...step, command });
    case 'end':
      return checkEnded({ ...step, command });
    case 'join':
      return checkJoined({ ...step, command });
    case 'leave':
    case 'disable':
    case 'remove':
      return checkGone({ ...step, command });
    case 'stop':
      return checkStopped(step);
    case 'completeTurn':
      return checkCompleted({ ...step, command });
    case 'skip':
      return checkSkipped({ ...step, command });
    case 'mode':
      return checkMode(step);
    case 'pause':
      must(after.condition === 'paused' && step.effects.length === 0, 'I4', 'a pause does more than pause');
      return;
    case 'request':
      return checkRequested({ ...step, command });
    case 'decide':
    case 'withdraw':
    case 'shown':
      return checkQuestion({ ...step, command });
    case 'wait':
      return checkWaiting({ ...step, command });
    case 'restart':
      return checkRestarted(step);
    case 'disconnect':
      return checkTouchLost(step);
    case 'catchUp':
      return checkCaughtUp(step);
    case 'grant':
      return checkGranted({ ...step, command });
    default:
  }
}

function checkReceived(step: On<'receive'>): void {
  const { command, before, after, facts } = step;
  const fates = of(facts, 'messageRouted').filter((fact) => fact.id === command.id);
  const fate = fates.at(-1)?.fate;
  must(fate !== undefined && fates.length === 1, 'I7', 'a message does not have one recorded fate');
  if (command.ignore !== undefined) {
    must(fate.state === 'ignored', 'I7', 'a message that is not for agents is routed');
    return;
  }
  must(
    after.held.length <= Math.max(before.held.length, before.settings.maxHeld),
    'I20',
    'more messages are held than the channel allows',
  );
  if (before.catchingUp) {
    must(fate.state !== 'delivered', 'I10', 'a message is delivered before the catch-up');
    return;
  }
  if (command.fromProgram === true && isUsedUp(before)) {
    checkKeptBack(step, fate);
    return;
  }
  if (fate.state === 'unrouted' && fate.why === 'too many held messages') return;
  if (before.turn !== null && waitOf(before.turn) === null && before.turn.status !== 'suspended')
    checkMidTurn(step, fate);
  else if (before.turn === null) checkFree(step, fate);
}

/** I20: when a budget is used up or a person stopped the floor, a program's message waits and prompts no agent. */
function checkKeptBack({ before, after, facts, effects }: On<'receive'>, fate: Fate): void {
  must(fate.state === 'held' || fate.state === 'unrouted', 'I20', 'a program is answered beyond the limit');
  const opened = of(facts, 'exchangeOpened').length;
  must(before.limit === null || opened === 0, 'I20', 'a program opens an exchange beyond the limit');
  must(
    effects.every(({ type }) => type === 'receipt' || type === 'announce'),
    'I20',
    'a program moves an agent beyond the limit',
  );
  must(!before.stopped || after.stopped, 'I20', 'a program lifts a stop');
  const told = of(effects, 'announce').filter(
    ({ announcement }) => announcement.kind === 'limit' && announcement.budget !== 'held messages',
  );
  must(before.limit === null || told.length === 0, 'I12', "a limit is announced for every program's message");
}

/** I8: while an agent has the floor, only the mode decides the fate of a message. */
function checkMidTurn({ command, before, after, effects }: On<'receive'>, fate: Fate): void {
  const { turn } = before;
  if (turn === null || before.parked.some((parked) => command.addressed.includes(parked.agent))) return;
  const via = fate.state === 'delivered' ? fate.via : fate.state;
  const to = fate.state === 'delivered' ? fate.to.join() : '';
  const injected = of(effects, 'inject').filter((effect) => effect.message === command.id);
  const same = statusOf(after, turn.agent) === 'ACTIVE' && after.turn?.epoch === turn.epoch;
  switch (before.settings.mode) {
    case 'inject':
      must(via === 'inject' && to === turn.agent && injected.length === 1 && same, 'I8', 'inject does not inject');
      return;
    case 'queue':
      must(via === 'held' && effects.every((effect) => effect.type === 'receipt') && same, 'I8', 'queue does not hold');
      return;
    case 'interrupt':
      must(via === 'interrupt' && statusOf(after, turn.agent) === 'WAITING', 'I8', 'interrupt does not interrupt');
      return;
    case 'parallel': {
      const online = before.seats
        .filter((seat) => seat.status !== 'OFFLINE' && seat.status !== 'IDLE')
        .map((seat) => seat.agent);
      const seen = [...injected, ...of(effects, 'observe')].map((effect) => effect.agent);
      must(fate.state === 'held' && fate.until === 'exchange', 'I8', 'parallel takes a message for seen before it is');
      must(
        seen.toSorted().join() === online.toSorted().join(),
        'I8',
        'somebody observes a message not at all or twice',
      );
      must(same && flat(after.turn).deadlineAt === flat(turn).deadlineAt, 'I8', 'parallel touches the turn');
    }
  }
}

/** A person's message starts a free floor. The agent that it addresses goes first. */
function checkFree({ command, before, after, at }: On<'receive'>, fate: Fate): void {
  const { order } = before.settings;
  if (before.condition === 'paused' || isBarred(before, at) || order === 'manual') return;
  if (before.parked.length > 0 || before.facilitation !== null) return;
  const idle = before.seats.filter((seat) => seat.status === 'IDLE' && seat.assigned);
  if (before.queue.length + idle.length === 0) {
    must(fate.state === 'unrouted' && after.outage, 'I7', 'nobody is there and nobody was told');
    return;
  }
  const [first] = command.addressed;
  const isFirst = before.held.length === 0 && callable(before).length === 0;
  if (first === undefined || !isFirst || !before.seats.some((seat) => seat.agent === first && isReady(seat))) return;
  must(after.turn?.agent === first, 'I5', 'who is addressed does not go first');
}

function checkEnded(step: On<'end'>): void {
  const { command, before, after, facts } = step;
  const { agent, epoch } = command;
  const { turn } = before;
  const missed = turn === null ? 0 : turn.unseen.length + turn.injecting.length;
  const [ended] = of(facts, 'turnEnded');
  if (ended === undefined) {
    must(missed > 0 && of(facts, 'turnContinued').length === 1, 'I8', 'an agent ends its turn and keeps the floor');
    must((after.turn?.reprompts ?? 0) <= 3, 'I20', 'a turn goes on for ever');
    return;
  }
  must(missed === 0 || turn?.reprompts === 3, 'I8', 'a turn ends though its agent has not seen a message');
  must(ended.outcome === command.outcome && ended.epoch === epoch, 'I2', 'a turn ends otherwise than it was said');
  const alone = before.seats.every((seat) => seat.agent === agent || ['OFFLINE', 'IDLE'].includes(seat.status));
  must(statusOf(after, agent) !== 'IDLE' || alone, 'I6', 'an agent rests though it is not alone');
  must(
    !of(facts, 'prioritised').some((call) => call.agent === agent && call.by === 'agent'),
    'I5',
    'an agent hands over to itself',
  );
  checkHandOver(step, agent);
}

/** I5: a hand-over gets the next turn, unless a person's message, a parked turn or a budget goes first. */
function checkHandOver({ command, before, after, at }: On<'end'>, agent: AgentId): void {
  const { handTo } = command;
  const { turn, exchange, settings, usageSincePerson } = before;
  if (handTo === undefined || handTo === agent || turn === null || exchange === null) return;
  if (settings.order === 'manual' || settings.order === 'review' || before.condition !== 'open' || isBarred(before, at))
    return;
  if (before.catchingUp) return;
  if (usageSincePerson.turns >= settings.maxTurns || after.limit !== null || before.parked.length > 0) return;
  const goesFirst = callable(before).length === 0 && outstanding(before).length === 0;
  if (!goesFirst || !before.seats.some((seat) => seat.agent === handTo && isReady(seat))) return;
  must(after.turn?.agent === handTo, 'I5', 'a hand-over does not earn the next turn');
}

function checkJoined({ command, before, after }: On<'join'>): void {
  const { agent } = command;
  const seat = before.seats.find((one) => one.agent === agent);
  const now = statusOf(after, agent);
  if (seat === undefined || seat.disabled || seat.status !== 'OFFLINE') return;
  must(now !== 'OFFLINE', 'I6', 'an agent came and is OFFLINE');
  must(seat.assigned === (now !== 'IDLE'), 'I6', 'an agent came and is queued against its rule');
}

function checkGone({ command, before, after }: On<'leave' | 'disable' | 'remove'>): void {
  const { agent } = command;
  const seat = after.seats.find((one) => one.agent === agent);
  const seated = before.seats.find((one) => one.agent === agent);
  must(
    turnOf(after, agent) === undefined && !after.queue.includes(agent),
    'I6',
    'an agent is gone and still takes part',
  );
  if (command.type === 'remove')
    must(seat?.assigned === false && seat.status !== 'QUEUED', 'I6', 'a removed agent is assigned');
  else must(seat?.status === 'OFFLINE', 'I6', 'an agent is gone and not OFFLINE');
  if (command.type !== 'leave' || seat === undefined) return;
  must(!seat.present, 'I6', 'an agent left and counts as connected');
  must(seat.rejoin === 'auto' || !seat.assigned, 'I6', 'an agent that left would be queued again by itself');
  must(
    seat.rejoin === 'manual' || seat.assigned === seated?.assigned,
    'I6',
    'an agent that left lost its place for good',
  );
}

function checkStopped({ before, after, effects }: Step): void {
  must(turnsOf(after).length === 0, 'I1', 'a turn outlives a stop');
  must(
    after.exchange === null && after.condition !== 'open' && after.facilitation === null,
    'I4',
    'the exchange outlives a stop',
  );
  must(
    outstanding(before).every((id) => after.held.some((held) => held.id === id)),
    'I9',
    'a stop drops a message',
  );
  must(of(effects, 'prompt').length + of(effects, 'ask').length === 0, 'I4', 'a stop is followed by a grant');
  must(after.prioritised.length === 0, 'I4', 'a call outlives a stop');
}

/** I27: a turn that an operator completes has answered all its messages and leaves none to the next turn. */
function checkCompleted({ command, before, facts }: On<'completeTurn'>): void {
  const turn = turnOf(before, command.agent);
  const [ended, ...more] = of(facts, 'turnEnded');
  must(ended?.epoch === turn?.epoch && more.length === 0, 'I27', 'another turn is completed');
  must(ended?.outcome === 'completed' && ended.returned.length === 0, 'I27', 'a completed turn leaves messages');
  const isAnswered = (turn?.given ?? []).every(({ id }) => ended?.answered.includes(id));
  must(isAnswered, 'I27', 'a completed turn has not answered what it was given');
}

function checkSkipped({ command, before, facts }: On<'skip'>): void {
  const turn = command.agent === undefined ? before.turn : turnOf(before, command.agent);
  const [ended, ...more] = of(facts, 'turnEnded');
  must(ended?.epoch === turn?.epoch && more.length === 0, 'I2', 'a skip ends another turn');
  must(ended?.outcome === 'revoked', 'I2', 'a skipped turn is not revoked');
}

/** I9: a change of the mode changes neither held messages nor the open turn. */
function checkMode({ before, after, effects }: Step): void {
  const rest = (floor: Floor): string => JSON.stringify({ ...floor, settings: null });
  must(rest(before) === rest(after) && effects.length === 0, 'I9', 'a change of the mode changes more than the mode');
}

function checkWaiting({ command, before, after, facts }: On<'wait'>): void {
  const { agent } = command;
  const goesOn = of(facts, 'turnResumed').some((fact) => fact.agent === agent);
  must(goesOn || statusOf(after, agent) === 'WAITING', 'I6', 'an agent waits and is not WAITING');
  const keeps = before.settings.waitPolicy === 'hold' && command.of === undefined;
  if (goesOn) return;
  must((after.turn?.agent === agent) === keeps, 'I4', 'a waiting agent keeps or lends the floor against the rule');
}

/** I18: a request opens a question with its own number, or is rejected at once when nobody can be asked. */
function checkRequested({ command, before, after, effects, facts }: On<'request'>): void {
  must(after.questions === before.questions + 1, 'I18', 'a question has no number of its own');
  must(of(effects, 'prompt').length === 0, 'I4', 'a request lends the floor');
  const decisions = of(facts, 'questionClosed').map(({ choice }) => choice);
  const isAsked = command.unaskable === undefined;
  must(decisions.join() === (isAsked ? '' : 'reject'), 'I18', 'a request is answered that nobody was asked about');
  must(statusOf(after, command.agent) === (isAsked ? 'WAITING' : 'ACTIVE'), 'I6', 'a request does not wait');
  const asked = flatOrNull(after.turn)?.wait?.question ?? null;
  must(!isAsked || asked?.question === after.questions, 'I18', 'a question is not the one that was asked last');
  must(asked?.shown !== true, 'I18', 'a question counts as shown before it is');
}

/** I18: a decision counts only for the open question that it names. The turn goes on under the same epoch. */
function checkQuestion({ command, before, after, facts }: On<'decide' | 'withdraw' | 'shown'>): void {
  const { turn } = before;
  const wait = flatOrNull(turn)?.wait ?? null;
  const asked = wait?.ready === false ? wait.question : null;
  must(turn !== null && asked !== null, 'I18', 'something is decided that nobody asked');
  const isMeant = command.type === 'withdraw' || asked.question === command.question;
  must(isMeant, 'I18', 'a question is taken for another one');
  const isDrawnFor = command.type === 'withdraw' || command.key === undefined || command.key === asked.key;
  must(isDrawnFor, 'I18', 'a button answers another question than the one it was drawn for');
  must(turnOf(after, turn.agent)?.epoch === turn.epoch, 'I2', 'a decision begins another turn');
  const decisions = of(facts, 'questionClosed').filter(({ choice }) => choice !== null);
  const wanted =
    command.type === 'decide' ? command.choice : command.type === 'shown' && command.why !== undefined ? 'reject' : '';
  must(decisions.map(({ choice }) => choice).join() === wanted, 'I18', 'a decision is not told once');
  must(
    decisions.every(
      ({ agent, epoch, question }) => agent === turn.agent && epoch === turn.epoch && question === asked.question,
    ),
    'I18',
    'a decision is told to another turn',
  );
  must(wanted !== 'allow' || asked.shown, 'I18', 'something is allowed that nobody was shown');
  const isOpen = flatOrNull(after.turn)?.wait?.question != null;
  must(isOpen === (command.type === 'shown' && command.why === undefined), 'I18', 'a question outlives its answer');
}

function checkRestarted({ before, after, effects }: Step): void {
  must(
    after.catchingUp && after.seats.every((seat) => !seat.present),
    'I10',
    'a restart does not begin with the catch-up',
  );
  must(of(effects, 'prompt').length === 0, 'I10', 'a restart prompts before the catch-up');
  must(
    turnsOf(before).every((turn) => turnOf(after, turn.agent)?.epoch === turn.epoch),
    'I1',
    'a restart loses a turn',
  );
}

/** I1 and I10: after a lost connection, the open turn and a question to the facilitator stay unchanged. */
function checkTouchLost({ before, after, effects }: Step): void {
  const rest = (floor: Floor): string => JSON.stringify({ ...floor, catchingUp: true });
  must(after.catchingUp && effects.length === 0, 'I10', 'touch is lost and grants go on');
  must(rest(before) === rest(after), 'I1', 'a loss of touch changes more than that');
}

function checkCaughtUp({ before, after, facts }: Step): void {
  must(!after.catchingUp, 'I10', 'the catch-up does not end');
  must(!after.held.some((held) => held.until === 'start'), 'I9', 'a message waits for a catch-up that is over');
  const { turn } = before;
  if (turn === null || turn.status !== 'suspended') return;
  const seat = before.seats.find((one) => one.agent === turn.agent);
  const ended = of(facts, 'turnEnded').some((fact) => fact.epoch === turn.epoch);
  if (before.settings.onRestart === 'forfeit') must(ended, 'I1', 'a turn is not forfeited');
  else if (seat?.present === true)
    must(after.turn?.agent === turn.agent && after.turn.status !== 'suspended', 'I1', 'a turn does not go on');
  else must(after.turn?.status === 'suspended', 'I1', 'a turn does not wait for its agent');
}

function checkGranted({ command, before, after }: On<'grant'>): void {
  const { agent } = command;
  const hasFloor = after.turn?.agent === agent && waitOf(after.turn) === null;
  const isCalled = after.prioritised.some((call) => call.agent === agent && call.by === 'operator');
  const isPromised = waitOf(turnOf(after, agent))?.ready === true;
  must(
    before.turn === null || waitOf(before.turn) !== null ? hasFloor || isPromised : isCalled || isPromised,
    'I5',
    'a grant is lost',
  );
}
