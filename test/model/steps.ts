import { breakOf } from '../../src/turns/floor/decide.ts';
import type { Decision } from '../../src/turns/floor/decide.ts';
import type { Effect } from '../../src/turns/floor/react.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Announcement } from '../../src/turns/floor/announcement.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { MessageId } from '../../src/turns/floor/settings.ts';
import type { Instant } from '../../src/lib/time.ts';
import type { FloorMachine } from '../../src/turns/floor-store.ts';
import { isAsking, outstanding, turnOf, turnsOf } from './abstraction.ts';
import { checkAsked } from './asked.ts';
import { checkFact } from './facts.ts';
import { of } from './step.ts';
import type { Step } from './step.ts';
import { must } from './violation.ts';
import { openQuestion, waitOf } from '../../src/turns/floor/seats.ts';

/** A refusal changes nothing and notifies nobody. It may record the refused command. */
export function checkRefusal(
  core: FloorMachine,
  before: Floor,
  decision: Extract<Decision, { ok: false }>,
  at: Instant,
): void {
  for (const fact of decision.facts) {
    must(fact.type === 'actRefused', 'I2', 'a refused command left a fact behind');
    must(core.evolve(before, fact, at) === before, 'I2', 'a refused command changed the floor');
    must(core.react(fact, before).length === 0, 'I2', 'a refused command had an effect');
  }
}

/** Folds an accepted command's facts, checks each of them, then the whole step. Returns the step. */
export function checkStep(
  core: FloorMachine,
  { before, command, at }: Pick<Step, 'before' | 'command' | 'at'>,
  decision: Extract<Decision, { ok: true }>,
): Step {
  const { facts, floor: after } = decision;
  let floor = before;
  for (const fact of facts) {
    const next = core.evolve(floor, fact, at);
    checkFact({ fact, before: floor, after: next, at, command, first: before });
    floor = next;
  }
  must(JSON.stringify(floor) === JSON.stringify(after), 'I16', 'folding the facts gives another floor');
  const effects = facts.flatMap((fact) => core.react(fact, after));
  const step = { command, at, before, after, facts, effects };
  checkEpochs(step);
  checkPrompts(step);
  checkEndings(step);
  checkPosts(step);
  checkDeleted(step);
  checkLimit(step);
  checkSeen(step);
  checkMessages(step);
  checkNamed(step);
  checkAnnouncements(step);
  checkAsked(step);
  return step;
}

function checkEpochs({ before, after, facts }: Step): void {
  const grants = of(facts, 'turnGranted').length + of(facts, 'turnResumed').length;
  const raised = of(facts, 'epochRaised').reduce((sum, fact) => sum + fact.by, 0);
  must(after.epoch === before.epoch + grants + raised, 'I2', 'epochs do not count the grants');
}

/** Every new epoch has one prompt, to the holder of the floor. */
function checkPrompts({ before, after, facts, effects }: Step): void {
  const prompts = of(effects, 'prompt');
  const { turn } = after;
  const began = of(facts, 'turnGranted').length + of(facts, 'turnResumed').length;
  must(prompts.length === began + of(facts, 'turnContinued').length, 'I8', 'a turn begins without its prompt');
  const last = prompts.at(-1);
  must(
    last === undefined ||
      (turn !== null && last.agent === turn.agent && last.epoch === turn.epoch && waitOf(turn) === null),
    'I1',
    'somebody is prompted who does not have the floor',
  );
  must(turn === null || turn.epoch <= before.epoch || last?.epoch === turn.epoch, 'I8', 'a turn has no prompt');
}

const BY_ITSELF: ReadonlySet<string> = new Set(['completed', 'passed']);

/** An agent that loses the floor is told to stop, and pending effects of its epoch are cancelled. */
function checkEndings({ before, after, facts, effects }: Step): void {
  for (const { agent, epoch, outcome, hung, by } of of(facts, 'turnEnded')) {
    const concerns = (effect: Effect): boolean =>
      'epoch' in effect && 'agent' in effect && effect.agent === agent && effect.epoch === epoch;
    must(
      of(effects, 'cancel').filter(concerns).length === 1,
      'I2',
      'what is owed to a turn that ended is not cancelled',
    );
    const stops = of(effects, 'interrupt').filter(concerns).length;
    must(
      stops === (BY_ITSELF.has(outcome) && by === undefined ? 0 : 1),
      'I3',
      'an agent that lost the floor is not stopped once',
    );
    const isTold = of(effects, 'interrupt').some((effect) => concerns(effect) && effect.hung === true);
    must(isTold === (hung === true), 'I26', 'the session of a hung agent is not told, or another one is');
    const isKept = after.seats.some((seat) => seat.agent === agent && seat.status === 'QUEUED' && !seat.present);
    must(hung !== true || isKept, 'I26', 'a hung agent loses its place, or is taken for present');
  }
  for (const { agent, epoch, wait } of of(facts, 'turnWaited')) {
    const stops = of(effects, 'interrupt').filter((effect) => effect.agent === agent && effect.epoch === epoch);
    must(stops.length === (wait.reason === 'human' ? 1 : 0), 'I8', 'an interrupted agent is not stopped once');
  }
  for (const turn of turnsOf(before)) {
    const survives = turnOf(after, turn.agent)?.epoch === turn.epoch;
    const ended = of(facts, 'turnEnded').filter((fact) => fact.epoch === turn.epoch).length;
    const resumed = of(facts, 'turnResumed').filter((fact) => fact.agent === turn.agent).length;
    must(survives ? ended === 0 : ended + resumed > 0, 'I1', 'a turn is gone without an end');
    must(ended <= 1, 'I1', 'a turn ended twice');
  }
}

/** I3: a post comes from the holder at that time. I19: saying something changes nothing else. */
function checkPosts({ command, before, after, facts, effects }: Step): void {
  const posts = of(effects, 'post');
  must(posts.length === of(facts, 'said').length, 'I11', 'what was said is not posted once');
  for (const { agent, epoch } of posts) {
    must(before.turn?.agent === agent && before.turn.epoch === epoch, 'I3', 'a post of somebody without the floor');
  }
  must(posts.length === (command.type === 'say' ? 1 : 0), 'I11', 'a post without words, or words without a post');
  const isTalk =
    command.type === 'say' || command.type === 'work' || command.type === 'edit' || command.type === 'delete';
  if (!isTalk) return;
  must(
    seatsOf(before) === seatsOf(after) &&
      before.turn?.epoch === after.turn?.epoch &&
      before.condition === after.condition,
    'I19',
    'words alone moved the floor',
  );
}

/** I7: after its deletion, a message waits for no agent, and no turn has to answer it. */
function checkDeleted({ command, before, after }: Step): void {
  if (command.type !== 'delete') return;
  const kept = [
    ...outstanding(after),
    ...turnsOf(after).flatMap((turn) => [...turn.given.map(({ id }) => id), ...turn.answered]),
    ...after.prioritised.flatMap(({ messages }) => messages),
  ];
  must(!kept.includes(command.id), 'I7', 'a deleted message is still to be answered');
  const held = before.held.find(({ id, until }) => id === command.id && until === 'prompt');
  const isRead = held === undefined || before.seats.some(({ seenLine }) => seenLine >= (held.line ?? 0));
  must(isRead || after.lines === before.lines, 'I7', 'a deletion is told of a message that no agent got');
}

/** I20: an operator or midnight ends a reached limit. A new message of a person ends it, too, if it is not a day's. */
function checkLimit({ command, at, before, after, facts }: Step): void {
  const { limit } = before;
  if (limit === null || after.limit !== null) return;
  const isOperator = command.type === 'start' || command.type === 'resume' || command.type === 'grant';
  const isPerson = of(facts, 'usageReset').some(({ why }) => why === 'person');
  const isOver = limit.until === null ? isPerson : at >= limit.until;
  must(isOperator || isOver, 'I20', 'a reached limit ends though nobody ended it');
}

/** I11: a command that takes the turn of a writing agent first says the part that people have seen. */
function checkSeen({ command, at, before, after }: Step): void {
  const { turn } = before;
  const writes = turn !== null && (turn.status === 'active' || isAsking(before));
  const isOwn = 'epoch' in command && !('by' in command);
  const next = turn === null ? undefined : turnOf(after, turn.agent);
  const goesOn = next !== undefined && next.epoch === turn?.epoch && (next.status === 'active' || isAsking(after));
  const isBroken = breakOf(before, command, at) !== null;
  must(isBroken === (writes && !isOwn && !goesOn), 'I11', 'what people have seen of a text is not said in time');
}

function seatsOf(floor: Floor): string {
  return JSON.stringify([
    floor.seats.map((seat) => seat.status),
    floor.queue,
    floor.prioritised.map((call) => call.agent),
    floor.parked.length,
  ]);
}

/** The messages with which an agent was called. */
function callsOf(agent: string, before: Floor, facts: readonly Fact[]): readonly string[] {
  const earlier = before.prioritised.filter((call) => call.agent === agent).flatMap((call) => call.messages);
  const now = of(facts, 'prioritised')
    .filter((fact) => fact.agent === agent)
    .map((fact) => fact.message ?? '');
  return [...earlier, ...now];
}

/**
 * I5: a queued agent that a message names is called when another agent gets the message. A message that a prompted agent
 * left unanswered calls nobody.
 */
function checkNamed({ before, after, facts }: Step): void {
  if (['manual', 'review'].includes(after.settings.order) || after.exchange === null) return;
  const queued = (floor: Floor): ReadonlySet<string> =>
    new Set(floor.seats.filter((seat) => seat.status === 'QUEUED').map((seat) => seat.agent));
  const granted = new Set(of(facts, 'turnGranted').map((fact) => fact.agent));
  const [was, is] = [queued(before), queued(after)];
  const left = new Set(of(facts, 'turnEnded').flatMap((fact) => fact.returned));
  for (const { id, until } of before.held) if (until === 'next') left.add(id);
  for (const { id, fate, addressed } of of(facts, 'messageRouted')) {
    if (fate.state !== 'delivered' || fate.via === 'observe' || left.has(id)) continue;
    const named = addressed.filter(
      (agent) => was.has(agent) && is.has(agent) && !granted.has(agent) && !fate.to.includes(agent),
    );
    const isCalled = (agent: string): boolean =>
      after.prioritised.some((call) => call.agent === agent && call.messages.includes(id));
    must(named.every(isCalled), 'I5', 'a message that names an agent goes to another agent alone');
  }
}

/**
 * I8 and I9: every message has exactly one fate. A pending message stays pending, is handed over now, or is closed with
 * a reason. A message that was handed over is pending again only when its turn was cut short. So each message is handed
 * over once. It is handed over again after a turn that was cut short, or to an agent that it called while another had
 * the floor. No message is lost. The answer that an agent waits for goes before other messages for it.
 */
function checkMessages({ command, before, after, facts, effects }: Step): void {
  const had = new Set(outstanding(before));
  if (command.type === 'receive') had.add(command.id);
  if (command.type === 'delete') had.delete(command.id);
  for (const { returned } of of(facts, 'turnEnded')) for (const id of returned) had.add(id);
  if (command.type === 'injected' && command.outcome !== 'injected') had.add(command.id);
  const keeps = new Set(outstanding(after));
  must(
    [...keeps].every((id) => had.has(id)),
    'I8',
    'a message comes out of nowhere',
  );
  const prompted = of(effects, 'prompt').flatMap((effect) => {
    const calledWith = new Set(callsOf(effect.agent, before, facts));
    const news = effect.messages.filter((id) => !effect.open.includes(id));
    return news.filter((id) => !calledWith.has(id) || (had.has(id) && !keeps.has(id)));
  });
  must(new Set(prompted).size === prompted.length, 'I8', 'a message is handed over twice');
  must(
    prompted.every((id) => had.has(id) && !keeps.has(id)),
    'I8',
    'a message is handed over that is no longer owed, or stays owed',
  );
  const closed = closedBy(facts);
  for (const id of had) {
    const fates = Number(keeps.has(id)) + Number(prompted.includes(id)) + Number(closed.has(id));
    must(fates <= 1, 'I8', 'a message has two fates');
    must(fates === 1, 'I8', 'a message is lost');
  }
  const answers = new Set(of(facts, 'waitAnswered').flatMap(({ messages }) => messages.map(({ id }) => id)));
  const released = prompted.filter(
    (id) => !answers.has(id) && before.held.some((held) => held.id === id && held.line === null),
  );
  must(
    released.every((id, index) => index === 0 || numberOf(released[index - 1] ?? id) <= numberOf(id)),
    'I9',
    "messages are released in another order than the platform's",
  );
  checkInjections(before, after, effects);
  checkObserved({ command, before, facts, effects });
}

/** I7: a message counts as observed when the agent took it in, or when a prompt with its line was sent. */
function checkObserved({
  command,
  before,
  facts,
  effects,
}: Pick<Step, 'command' | 'before' | 'facts' | 'effects'>): void {
  const lines = new Map(before.held.map((held) => [held.id, held.line]));
  for (const { id, fate, line: shown } of of(facts, 'messageRouted')) {
    const line = shown ?? lines.get(id) ?? null;
    lines.set(id, line);
    if (fate.state !== 'delivered' || fate.via !== 'observe') continue;
    const isTakenIn = command.type === 'injected' && command.id === id && command.outcome === 'injected';
    const isPrompted = of(effects, 'prompt').some(
      ({ agent, afterLine, uptoLine }) =>
        fate.to.join() === agent && line !== null && afterLine < line && line <= uptoLine,
    );
    must(isTakenIn || isPrompted, 'I7', 'a message counts as seen by somebody who was not given it');
  }
}

function numberOf(id: MessageId): number {
  return Number(id.slice(1));
}

/** Messages that these facts close without a prompt. */
function closedBy(facts: readonly Fact[]): ReadonlySet<MessageId> {
  return new Set(
    facts.flatMap((fact) => {
      if (fact.type === 'injectReported') return fact.outcome === 'injected' ? [fact.id] : [];
      if (fact.type !== 'messageRouted') return [];
      const { fate } = fact;
      if (fate.state === 'ignored') return [fact.id];
      if (fate.state === 'unrouted') return fate.why === 'no agent available' ? [] : [fact.id];
      return fate.state === 'delivered' && fate.via === 'observe' ? [fact.id] : [];
    }),
  );
}

/** A message is injected into a running turn once. The turn keeps it until the backend reports the outcome. */
function checkInjections(before: Floor, after: Floor, effects: readonly Effect[]): void {
  const injected = of(effects, 'inject').filter((effect) => !effect.observed && effect.change === undefined);
  const known = new Set(before.turn?.injecting.map(({ id }) => id));
  const fresh = (after.turn?.injecting ?? []).filter(({ id }) => !known.has(id));
  must(
    fresh.map(({ id }) => id).join() === injected.map((effect) => effect.message).join(),
    'I8',
    'what is injected is not what the turn waits for',
  );
  for (const { agent, epoch } of of(effects, 'inject')) {
    must(after.turn?.agent === agent && after.turn.epoch === epoch, 'I2', 'a message is injected under another epoch');
  }
}

/** I12: each event has exactly one announcement, and each announcement has an event. */
function checkAnnouncements(step: Step): void {
  const { command, before, after, facts, effects } = step;
  const shown = of(effects, 'announce').map((effect) => effect.announcement.kind);
  const moves = of(facts, 'seatMoved');
  const lost = moves.filter(
    ({ from, trigger }) => trigger === 'CRASHED' || (trigger === 'DISCONNECTED' && from === 'WAITING'),
  );
  // A limit that stands is not announced again.
  const isLimited = before.limit !== null && of(facts, 'usageReset').length === 0;
  const limits = isLimited ? 0 : of(facts, 'exchangeClosed').filter((fact) => fact.reason === 'limit').length;
  const refusedHeld = of(facts, 'messageRouted').filter(
    ({ fate }) => fate.state === 'unrouted' && fate.why === 'too many held messages',
  ).length;
  const unrouted = of(facts, 'messageRouted').some(
    ({ fate }) => fate.state === 'unrouted' && fate.why === 'no agent available',
  );
  const unnamed =
    before.toldToName !== true &&
    of(facts, 'messageRouted').some(({ fate }) => fate.state === 'unrouted' && fate.why.startsWith('nobody addressed'));
  const outages = after.outage && (!before.outage || moves.some(({ to }) => to === 'QUEUED'));
  must(!unrouted || before.outage || outages, 'I12', 'nobody is there and people are not told');
  const expected: Readonly<Record<Announcement['kind'], number>> = {
    approval:
      of(facts, 'turnWaited').filter((fact) => fact.wait.reason === 'approval').length -
      unasked(step) +
      cut(step).restarted,
    unasked: unasked(step),
    answered: of(facts, 'questionClosed').length - unasked(step) + unanswered(step) + cut(step).over,
    timeout: moves.filter(({ trigger }) => trigger === 'TIMEOUT').length,
    waitTimeout: moves.filter(({ trigger }) => trigger === 'WAIT_TIMEOUT').length,
    disconnect: lost.length,
    unaddressed: unnamed ? 1 : 0,
    limit: limits + (before.notice?.key === 'limit:held messages' ? 0 : refusedHeld),
    stopped: command.type === 'stop' ? 1 : 0,
    skipped: command.type === 'skip' ? 1 : 0,
    nobody: outages ? 1 : 0,
    recovered: of(facts, 'turnResumed').filter((fact) => fact.why === 'restart').length,
    undelivered: command.type === 'undelivered' ? 1 : 0,
    forbidden: command.type === 'forbidden' ? 1 : 0,
    aside: 0,
    reviewAsks: command.type === 'tellTask' && command.announcement.kind === 'reviewAsks' ? 1 : 0,
    reviewOver: command.type === 'endTask' ? 1 : 0,
    ticket: command.type === 'tellTask' && command.announcement.kind === 'ticket' ? 1 : 0,
    revoked: 0,
    toolsGone: command.type === 'tellTools' && command.why !== null ? 1 : 0,
    toolsBack: command.type === 'tellTools' && command.why === null ? 1 : 0,
    trust: of(facts, 'trustAsked').length,
    trustAnswered: of(facts, 'trustAnswered').length,
    gap: of(facts, 'caughtUp').filter((fact) => fact.gap !== null).length,
  };
  const tell = (kinds: readonly string[]): string => kinds.toSorted().join();
  const wanted = Object.entries(expected).flatMap(([kind, count]) => Array.from({ length: count }, () => kind));
  must(tell(shown) === tell(wanted), 'I12', `announced ${tell(shown) || 'nothing'}, not ${tell(wanted) || 'nothing'}`);
}

/** The number of questions that ended with their turn: 0 or 1. */
function unanswered({ before, facts }: Step): number {
  const asked = openQuestion(before);
  return of(facts, 'turnEnded').filter(({ epoch }) => asked !== null && epoch === before.turn?.epoch).length;
}

/** The question that a restart interrupted. `over`: it ended. `restarted`: it stays open and tells of the restart. */
function cut({ command, before, after }: Step): { readonly over: number; readonly restarted: number } {
  const asked = openQuestion(before);
  if (command.type !== 'restart' || asked === null) return { over: 0, restarted: 0 };
  const still = openQuestion(after);
  return { over: still === null ? 1 : 0, restarted: still?.restarted === true && asked.restarted !== true ? 1 : 0 };
}

/** Requests that were rejected at once because nobody could be asked. */
function unasked({ command, facts }: Step): number {
  return command.type === 'request' ? of(facts, 'questionClosed').length : 0;
}
