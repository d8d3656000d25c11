import { canonical } from '../../src/engine/canonical.ts';
import type { Command } from '../../src/turns/floor/command.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Floor, Seat, Turn } from '../../src/turns/floor/floor.ts';
import { deadlines, isAllowed } from '../../src/turns/floor/seats.ts';
import type { AgentId } from '../../src/turns/floor/settings.ts';
import type { Instant } from '../../src/lib/time.ts';
import { isAsking, outstanding, turnOf, turnsOf } from './abstraction.ts';
import { callable, isPresent, owed } from './floors.ts';
import { OF_PROGRAMS } from './moves.ts';
import { must } from './violation.ts';
import { waitOf } from '../../src/turns/floor/seats.ts';
import { flat, flatOrNull } from '../turns/floor/flat-turn.ts';
import type { FlatTurn } from '../turns/floor/flat-turn.ts';

/** A fact of a decision, with the floor before and after it. */
export type Recorded = {
  readonly fact: Fact;
  readonly before: Floor;
  readonly after: Floor;
  readonly at: Instant;
  readonly command: Command;
  /** The floor before the whole decision. */
  readonly first: Floor;
};

type Of<T extends Fact['type']> = Recorded & { readonly fact: Extract<Fact, { type: T }> };

/** Checks the invariants of a fact on the floor where it was recorded. */
export function checkFact(step: Recorded): void {
  const { fact } = step;
  checkKnowledge(step);
  switch (fact.type) {
    case 'seatMoved':
      return checkMove({ ...step, fact });
    case 'turnGranted':
      return checkGrant({ ...step, fact });
    case 'turnResumed':
      return checkResume({ ...step, fact });
    case 'said':
    case 'worked':
    case 'turnContinued':
      return checkAct({ ...step, fact });
    case 'turnWaited':
      return checkWait({ ...step, fact });
    case 'turnEnded':
      return checkEnd({ ...step, fact });
    case 'turnStopped':
      return checkForce({ ...step, fact });
    case 'turnExtended':
      return checkExtension({ ...step, fact });
    case 'stoodStill':
      return checkStandstill({ ...step, fact });
    case 'disconnected':
      return checkRestart({ ...step, fact });
    case 'facilitatorAsked':
      must(!step.before.catchingUp, 'I10', 'a facilitator is asked before the catch-up');
      must(
        fact.deadlineAt === step.at + timeoutOf(step.before, fact.facilitator),
        'I14',
        'the facilitator has another time',
      );
      return;
    case 'exchangeOpened':
    case 'exchangeClosed':
    case 'usageReset':
      return checkCount({ ...step, fact });
    case 'configured': {
      const known = new Set(step.before.seats.map((seat) => seat.agent));
      const fresh = step.after.seats.filter((seat) => !known.has(seat.agent));
      const isOpen = step.before.exchange !== null;
      must(
        fresh.every((seat) => (seat.added === true) === isOpen),
        'I5',
        'an agent that was added in the middle of an exchange is not known as such',
      );
      return;
    }
    case 'announced':
      return checkAnnouncement({ ...step, fact });
    case 'trustAsked':
    case 'trustShown':
    case 'trustAnswered':
      return checkTrust({ ...step, fact });
    default:
  }
}

/** I28: an answer or a change closes only the question about these files. A question gets its buttons once. */
function checkTrust({ fact, before, after, command }: Of<'trustAsked' | 'trustShown' | 'trustAnswered'>): void {
  const namesOf = ({ trust = [] }: Floor): readonly string[] =>
    trust.map(({ agent, id, shown }) => `${agent} ${id} ${shown}`).toSorted();
  const mine = `${fact.agent} ${fact.id}`;
  const open = namesOf(before).filter((one) => one.startsWith(`${mine} `));
  const others = namesOf(before).filter((one) => !one.startsWith(`${mine} `));
  must(open.length === Number(fact.type !== 'trustAsked'), 'I28', 'a question about files is not the one that is open');
  const stands = fact.type === 'trustAnswered' ? [] : [`${mine} ${fact.type === 'trustShown'}`];
  must(
    namesOf(after).join() === [...others, ...stands].toSorted().join(),
    'I28',
    'another question about files changes',
  );
  if (fact.type !== 'trustAnswered') return;
  const isAnswer = command.type === 'answerTrust';
  must((fact.choice !== null) === isAnswer, 'I28', 'a folder is decided without an answer');
  must(!isAnswer || (command.id === fact.id && command.choice === fact.choice), 'I28', 'another answer counts');
}

/** I20: only a person resets the count of turns and tokens. The beginning or end of an exchange does not. */
function checkCount(step: Of<'exchangeOpened' | 'exchangeClosed' | 'usageReset'>): void {
  const { fact, before, after } = step;
  const goesOn = fact.type !== 'usageReset' || fact.why === 'midnight';
  const { turns, tokens } = before.usageSincePerson;
  must(
    after.usageSincePerson.turns === (goesOn ? turns : 0),
    'I20',
    'a count goes on that was reset, or the other way',
  );
  must(after.usageSincePerson.tokens === (goesOn ? tokens : 0), 'I20', 'spending goes on that was reset');
  if (fact.type === 'usageReset' && fact.why === 'person') checkPerson(step);
}

/** I20: a count resets for a person only because of a message that no agent had, and that no program wrote. */
function checkPerson({ command, first }: Recorded): void {
  const isNew = command.type === 'receive' && command.fromProgram !== true && command.ignore === undefined;
  const isHeld = first.held.some((held) => held.fromProgram !== true && held.line === null);
  must(isNew || isHeld, 'I20', 'a count begins anew for a person who wrote nothing');
}

/** I8: an agent's known lines grow one by one, or by a prompt with all missing lines. */
function checkKnowledge({ command, fact, before, after }: Recorded): void {
  if (before.lines === after.lines && before.seats === after.seats) return;
  for (const seat of after.seats) {
    const seen = before.seats.find((one) => one.agent === seat.agent)?.seenLine ?? seat.seenLine;
    if (seat.seenLine <= seen) continue;
    const isPrompted = 'afterLine' in fact && fact.agent === seat.agent && fact.afterLine === seen;
    const isNext = seen === before.lines && seat.seenLine === before.lines + 1;
    const observed = fact.type === 'messageRouted' && before.held.find(({ id }) => id === fact.id);
    const isTakenIn =
      command.type === 'injected' && observed && observed.line === seen + 1 && seat.seenLine === seen + 1;
    must(isPrompted || isNext || isTakenIn === true, 'I8', 'an agent passes over a line that it was never given');
  }
}

function checkMove({ fact, before, after, command }: Of<'seatMoved'>): void {
  const { agent, from, to, trigger } = fact;
  must(seatAt(before, agent).status === from, 'I6', 'a seat moves from where it is not');
  must(isAllowed(from, to, trigger), 'I6', `${from} to ${to} by ${trigger} is not in the table`);
  const others = (floor: Floor): string => floor.queue.filter((queued) => queued !== agent).join();
  must(others(before) === others(after), 'I5', 'the others change places in the queue');
  if (to !== 'QUEUED') return;
  const last = after.queue.length - 1;
  const isListed = before.configured?.seats.some((seat) => seat.agent === agent) === true;
  if (trigger === 'ASSIGNED' && command.type === 'join' && isListed) {
    checkArrival(before, after, agent);
    return;
  }
  const isReturn = fact.place !== undefined && command.type !== 'add' && command.type !== 'join';
  must(
    after.queue.indexOf(agent) === (isReturn ? Math.min(fact.place, last) : last),
    'I5',
    'an agent enters the queue before others',
  );
}

/** I5: an agent added during an exchange stands behind all agents that were there before. */
function checkAdded(after: Floor, agent: AgentId): void {
  const isBehind = after.queue.slice(after.queue.indexOf(agent) + 1).every((id) => seatAt(after, id).added === true);
  must(isBehind, 'I5', 'an agent that was added in the middle of an exchange stands before others');
}

/** I5: an agent that comes online goes behind agents with fewer turns, or as many and an earlier seat. */
function checkArrival(before: Floor, after: Floor, agent: AgentId): void {
  if (seatAt(before, agent).added === true) return checkAdded(after, agent);
  const place = (id: AgentId): number => after.seats.findIndex((seat) => seat.agent === id);
  const comesBefore = (id: AgentId): boolean => {
    const more = seatAt(after, id).taken - seatAt(after, agent).taken;
    return more < 0 || (more === 0 && place(id) < place(agent));
  };
  const at = after.queue.indexOf(agent);
  must(before.queue.slice(0, at).every(comesBefore), 'I5', 'an agent that comes online stands too far behind');
  const next = before.queue[at];
  must(next === undefined || !comesBefore(next), 'I5', 'an agent that comes online stands too far in front');
}

function checkGrant(step: Of<'turnGranted'>): void {
  const { fact, before, after, at } = step;
  const seat = seatAt(before, fact.agent);
  must(before.turn === null, 'I1', 'the floor is granted while somebody has it');
  must(fact.epoch > before.epoch && after.epoch === fact.epoch, 'I2', 'a grant without a new epoch');
  must(after.turn?.epoch === fact.epoch, 'I2', 'the turn has another epoch than its grant');
  must(!before.catchingUp, 'I10', 'a grant before the catch-up');
  must(before.condition === 'open' && before.exchange !== null, 'I4', 'a grant without an open exchange');
  must(seat.status === 'QUEUED' && seat.present, 'I6', 'a grant to an agent that is not there');
  must(
    after.seats.every(
      (one) => one.agent !== fact.agent || one.taken === seat.taken + (fact.askedBy === undefined ? 1 : 0),
    ),
    'I20',
    'a turn is not counted, or one that another asked for is',
  );
  checkLines(step, fact);
  checkOrder(step);
  const turn = flat(after.turn);
  must(turn.deadlineAt === at + timeoutOf(before, fact.agent), 'I14', 'a turn expires at another time');
  must(turn.hardEndAt === at + before.settings.maxTurnMs, 'I14', 'a turn ends hard at another time');
  must(turn.silenceAt === null, 'I14', 'silence counts before anything was said');
  must(turn.place === null || fact.keepsPlace, 'I5', 'a turn keeps a place that it was not lent from');
  must(!fact.keepsPlace || turn.place === before.queue.indexOf(fact.agent), 'I5', 'a lent turn forgets its place');
}

/** I8: a prompt begins at the agent's last known line and ends at the last line. */
function checkLines({ before }: Recorded, fact: Extract<Fact, { type: 'turnGranted' | 'turnResumed' }>): void {
  must(fact.afterLine <= seatAt(before, fact.agent).seenLine, 'I8', 'a prompt leaves out lines');
  must(fact.afterLine >= seatAt(before, fact.agent).seenLine, 'I8', 'a prompt repeats lines');
  must(fact.uptoLine === before.lines, 'I8', 'a prompt ends before the last line');
}

/** I5: decides the next turn a second time, only from the queue, the calls and the policy. */
function checkOrder({ fact, before, command }: Of<'turnGranted'>): void {
  const { agent, keepsPlace } = fact;
  if (command.type === 'grant') {
    must(agent === command.agent, 'I5', 'an operator granted the floor to somebody else');
    return;
  }
  const ask = before.parked.findLast((turn) => flat(turn).wait?.of?.is === 'asked' && waitOf(turn)?.ready === false);
  if (ask !== undefined || fact.askedBy !== undefined) {
    must(
      fact.askedBy === ask?.agent && agent === flatOrNull(ask)?.wait?.of?.agent,
      'I5',
      'an agent that was asked is not next',
    );
    must(keepsPlace, 'I5', 'an agent that was asked loses its place');
    return;
  }
  if (keepsPlace) {
    must(agent === before.settings.interruptResponder, 'I5', 'the floor is lent to somebody else');
    return;
  }
  const isNamed = command.type === 'choose' && command.next === agent;
  must(isNamed || agent === expected(before), 'I5', 'another agent was next');
}

function expected(floor: Floor): AgentId | null {
  const called = callable(floor)[0];
  if (called !== undefined) return called;
  const place = (seat: Seat): number => floor.seats.findIndex((one) => one.agent === seat.agent);
  const due = owed(floor);
  const first =
    floor.settings.order === 'priority'
      ? due.toSorted((a, b) => a.taken - b.taken || a.priority - b.priority || place(a) - place(b))[0]
      : due[0];
  return first?.agent ?? null;
}

function checkResume(step: Of<'turnResumed'>): void {
  const { fact, before, after, at } = step;
  const paused = turnAt(before, fact.agent);
  must(
    before.turn === null || before.turn.agent === fact.agent,
    'I1',
    'a turn goes on while somebody else has the floor',
  );
  must(fact.epoch > before.epoch && after.epoch === fact.epoch, 'I2', 'a turn goes on without a new epoch');
  must(after.turn?.epoch === fact.epoch, 'I2', 'the resumed turn has another epoch');
  must(!before.catchingUp, 'I10', 'a turn goes on before the catch-up');
  must(isPresent(before, fact.agent), 'I6', 'a turn goes on whose agent is not there');
  must(paused.wait !== null || paused.status === 'suspended', 'I4', 'a turn goes on that did not stand still');
  must(paused.wait?.graceEndAt == null, 'I3', 'a turn goes on while its old generation runs');
  checkLines(step, fact);
  const turn = flat(after.turn);
  must(turn.status === 'active', 'I4', 'a resumed turn still waits');
  const expiresAt = Math.max(paused.extendedTo ?? 0, at + timeoutOf(before, fact.agent));
  must(turn.deadlineAt === expiresAt, 'I14', 'a resumed turn expires at another time');
  const left = paused.leftMs ?? before.settings.maxTurnMs;
  must(turn.hardEndAt === at + left, 'I14', 'a resumed turn is given more or less time than it had left');
  checkResumeCounted(step);
}

/** I20: a turn that resumes only for programs' messages counts as one more, while turns are left. */
function checkResumeCounted({ fact, before, after, first }: Of<'turnResumed'>): void {
  const { unseen, injecting, wait } = turnAt(before, fact.agent);
  const brings = unseen.length + injecting.length + (wait?.answers.length ?? 0) > 0;
  const isAnswer = fact.why === 'answered' || fact.why === 'interrupt';
  const others = turnsOf(first).filter(({ agent }) => agent !== fact.agent);
  const heard = [
    ...first.held.filter(({ line }) => line !== null),
    ...turnsOf(first).flatMap(({ given }) => given),
    ...others.flatMap((turn) => [...turn.injecting, ...turn.unseen, ...(waitOf(turn)?.answers ?? [])]),
  ];
  const own = new Set([...unseen, ...injecting].map(({ id }) => id));
  const isHeard = (id: string): boolean => heard.some((one) => one.id === id) && !own.has(id);
  const news = fact.messages.filter((id) => !fact.open.includes(id) && !isHeard(id));
  const isProgram = isAnswer && (brings || wait?.of != null) && news.every((id) => id.startsWith(OF_PROGRAMS));
  const { turns } = before.usageSincePerson;
  const counted = isProgram && turns < before.settings.maxTurns ? turns + 1 : turns;
  must(after.usageSincePerson.turns === counted, 'I20', 'a turn that goes on for a program is counted wrongly');
}

/** I2 and I3: only the speaker acts, under its own epoch. I14: work moves the time limit, never the hard end. */
function checkAct({ fact, before, after, at }: Of<'said' | 'worked' | 'turnContinued'>): void {
  const turn = flatOrNull(before.turn);
  must(turn !== null && turn.agent === fact.agent, 'I3', 'an agent acts without the floor');
  must(turn.epoch === fact.epoch, 'I3', 'an act of another epoch counts');
  const asks = fact.type === 'said' && isAsking(before);
  must(turn.status === 'active' || asks, 'I3', 'an agent acts in a turn that stands still');
  if (fact.type === 'said') must(fact.line === before.lines + 1 && after.lines === fact.line, 'I8', 'lines have a gap');
  const next = turnAt(after, fact.agent);
  if (asks) {
    const same = JSON.stringify([next.wait, next.leftMs]) === JSON.stringify([turn.wait, turn.leftMs]);
    return must(same && next.said, 'I14', 'what is said while people are asked moves what they are asked');
  }
  const { autoDetectTurnEnd, autoDetectSilenceMs } = before.settings;
  const isIdle = next.openWork === 0;
  must(next.openWork === (fact.type === 'worked' ? fact.open : turn.openWork), 'I14', 'open work is miscounted');
  must(next.hardEndAt === turn.hardEndAt, 'I14', 'work moved the hard end');
  const counts = isIdle && autoDetectTurnEnd && next.said;
  const notBefore = (instant: Instant): Instant => Math.max(turn.extendedTo ?? 0, instant);
  const silentFrom = (sign: Instant): Instant =>
    notBefore(sign + timeoutOf(before, fact.agent)) - timeoutOf(before, fact.agent);
  if (fact.type === 'said' && fact.workedAt !== undefined && isIdle) {
    const sign = fact.workedAt;
    const put = (was: Instant | null, ms: number): Instant => Math.max(was ?? -Infinity, sign + ms);
    must(
      next.deadlineAt === put(turn.deadlineAt, timeoutOf(before, fact.agent)),
      'I14',
      'what is said for an agent counts as its work',
    );
    must(
      next.silenceAt === (counts ? Math.max(turn.silenceAt ?? 0, silentFrom(sign) + autoDetectSilenceMs) : null),
      'I14',
      'silence begins when Conch speaks',
    );
    return;
  }
  const limitMs = fact.type === 'worked' ? fact.limitMs : undefined;
  const limitAt = limitMs === undefined ? turn.deadlineAt : notBefore(at + limitMs);
  const isKnown = next.openWork === turn.openWork || limitMs !== undefined;
  const openEnd = isKnown && fact.type !== 'turnContinued' ? limitAt : null;
  must(
    next.deadlineAt === (isIdle ? notBefore(at + timeoutOf(before, fact.agent)) : openEnd),
    'I14',
    'a sign of work does not count',
  );
  const silentAt = counts ? silentFrom(at) + autoDetectSilenceMs : null;
  must(next.silenceAt === silentAt, 'I14', 'silence is timed otherwise');
}

function checkWait({ fact, before, after, at }: Of<'turnWaited'>): void {
  const turn = turnAt(before, fact.agent);
  const next = turnAt(after, fact.agent);
  must(turn.epoch === fact.epoch && turn.wait === null, 'I2', 'a turn waits that is not under way');
  must(next.wait?.deadlineAt === at + before.settings.waitTimeoutMs, 'I14', 'a wait is limited otherwise');
  const grace = fact.wait.reason === 'human' ? at + before.settings.interruptGraceMs : null;
  must(next.wait.graceEndAt === grace, 'I14', 'an interrupted agent has another time to stop');
  must(next.leftMs === Math.max(0, (turn.hardEndAt ?? at) - at), 'I14', 'waiting uses up the turn');
  must(
    next.deadlineAt === null && next.hardEndAt === null && next.silenceAt === null,
    'I14',
    'a turn runs while it waits',
  );
}

function checkEnd({ fact, before, after, at, command }: Of<'turnEnded'>): void {
  const turn = turnAt(before, fact.agent);
  must(turn.epoch === fact.epoch, 'I2', 'a turn ends under another epoch');
  must(turnOf(after, fact.agent) === undefined, 'I1', 'a turn ended and is still there');
  must(fact.said === turn.said, 'I12', 'whether something was said is told wrongly');
  checkFailure({ fact, before, after, turn });
  const isLeft = (id: string, begun: boolean): boolean =>
    !begun && !fact.answered.includes(id) && !isWaiting(before, turn, id);
  must(
    turn.given.every(({ id, begun }) => fact.returned.includes(id) === isLeft(id, begun)),
    'I8',
    'a message that nobody answered is not left to the next, or one that somebody did is',
  );
  const lastSignAt =
    turn.deadlineAt === null || turn.openWork > 0 ? null : turn.deadlineAt - timeoutOf(before, fact.agent);
  const isOverdue = turn.deadlineAt !== null && turn.deadlineAt <= at;
  const isSilent = turn.status === 'active' && (isOverdue || (lastSignAt !== null && lastSignAt <= turn.startedAt));
  const isHung = command.type === 'tick' && fact.outcome === 'expired' && isSilent;
  must((fact.hung === true) === isHung, 'I26', 'an agent counts as hung that is not, or the other way');
  if (command.type !== 'tick') {
    must(fact.outcome !== 'expired' && fact.outcome !== 'lapsed', 'I14', 'a turn expires without a clock');
    return;
  }
  const due = (instant: Instant | null): boolean => instant !== null && instant <= at;
  must(fact.outcome === 'expired' || fact.outcome === 'lapsed', 'I14', 'the clock ends a turn in another way');
  if (fact.outcome === 'lapsed')
    must(due(turn.silenceAt) && turn.openWork === 0, 'I14', 'silence ends a turn too early');
  else if (turn.wait === null) must(due(turn.deadlineAt) || due(turn.hardEndAt), 'I14', 'a turn expires too early');
  else must(due(turn.wait.deadlineAt), 'I14', 'a wait is over too early');
}

/** I20: a turn that failed before its agent said something is not counted. Every other turn stays counted. */
function checkFailure({
  fact,
  before,
  after,
  turn,
}: Pick<Of<'turnEnded'>, 'fact' | 'before' | 'after'> & { readonly turn: FlatTurn }): void {
  const failed = before.usageSincePerson.failed ?? 0;
  const isFailure = fact.outcome === 'forfeited' && !turn.said && failed < before.settings.maxTurns;
  must((fact.uncounted === true) === isFailure, 'I20', 'a turn is counted that failed, or the other way');
  const asker = before.parked.find((parked) => {
    const of = flat(parked).wait?.of;
    return of?.agent === fact.agent && of.is === 'granted';
  });
  const less = (count: number, one: number): number => (isFailure ? Math.max(0, count - one) : count);
  const { turns } = before.usageSincePerson;
  must(after.usageSincePerson.turns === less(turns, 1), 'I20', 'a turn that failed is used up');
  must((after.usageSincePerson.failed ?? 0) === failed + Number(isFailure), 'I20', 'a failure is forgotten');
  const { taken } = seatAt(before, fact.agent);
  must(
    seatAt(after, fact.agent).taken === less(taken, asker === undefined ? 1 : 0),
    'I20',
    'a failure costs an agent its round',
  );
  const silent = (before.exchange?.silent ?? 0) + (isFailure ? 0 : 1);
  must(
    after.exchange === null || after.exchange.silent === (turn.said ? 0 : silent),
    'I20',
    'a failure counts as a turn without a word',
  );
}

/** True when the message also waits elsewhere on the floor, or another turn was given it, too. */
function isWaiting(floor: Floor, turn: Pick<Turn, 'agent'>, id: string): boolean {
  const others = turnsOf(floor).filter(({ agent }) => agent !== turn.agent);
  return outstanding(floor).includes(id) || others.some(({ given }) => given.some((one) => one.id === id));
}

function checkForce({ fact, before, at }: Of<'turnStopped'>): void {
  const graceEndAt = turnAt(before, fact.agent).wait?.graceEndAt ?? null;
  must(graceEndAt !== null, 'I14', 'a generation is stopped that was not interrupted');
  must(!fact.forced || graceEndAt <= at, 'I14', 'force is used before the grace is over');
}

function checkExtension({ fact, before, after }: Of<'turnExtended'>): void {
  const turn = turnAt(before, fact.agent);
  const next = turnAt(after, fact.agent);
  const moved = (instant: Instant | null): Instant | null => (instant === null ? null : instant + fact.ms);
  must(
    next.deadlineAt === moved(turn.deadlineAt) &&
      next.hardEndAt === moved(turn.hardEndAt) &&
      next.silenceAt === moved(turn.silenceAt) &&
      (next.wait?.deadlineAt ?? null) === moved(turn.wait?.deadlineAt ?? null),
    'I14',
    'more time was not given',
  );
  must(next.status !== 'active' || (next.deadlineAt ?? undefined) === fact.until, 'I14', 'more time does not last');
}

/** I14: deadlines move by the time for which the process stood still. */
function checkStandstill({ fact, before, after }: Of<'stoodStill'>): void {
  const ends = (floor: Floor, ms: number): readonly Instant[] =>
    deadlines({ ...floor, limit: null }).map(({ at }) => at + ms);
  must(ends(before, fact.ms).join() === ends(after, 0).join(), 'I14', 'a standstill counts against somebody');
}

function checkRestart({ fact, before, after, at }: Of<'disconnected'>): void {
  if (!fact.restart || before.turn === null) return;
  const { agent, epoch, status } = before.turn;
  const next = turnAt(after, agent);
  must(next.epoch === epoch, 'I1', 'a restart loses the turn that was open');
  must(next.wait?.graceEndAt == null, 'I1', 'a restart waits for a generation that is gone');
  if (status === 'waiting') return;
  must(next.status === 'suspended', 'I1', 'a restart leaves a turn at work whose agent is gone');
  must(next.deadlineAt === at + timeoutOf(before, agent), 'I14', 'an agent has another time to come back');
}

/** The announcement first seen under each key, without its counts. Shared by all searches. */
const TOLD = new Map<string, string>();

/** I12: announcements with the same key are equal except for counts. Outages and gaps may change. */
export function checkKey({ key, announcement }: Extract<Fact, { type: 'announced' }>): void {
  const { kind } = announcement;
  if (kind === 'approval' || kind === 'answered' || kind === 'disconnect' || kind === 'nobody' || kind === 'gap')
    return;
  if (kind === 'trust' || kind === 'trustAnswered') return;
  const {
    used: _used,
    max: _max,
    kept: _kept,
    example: _example,
    ...told
  } = {
    used: 0,
    max: 0,
    kept: 0,
    example: '',
    ...announcement,
  };
  const text = canonical(told);
  const known = TOLD.get(key) ?? text;
  TOLD.set(key, known);
  must(known === text, 'I12', 'a line of one event takes the place of that of another');
}

/** I12: a repeated announcement edits the last one and continues its count. */
function checkAnnouncement({ fact, before, after, at }: Of<'announced'>): void {
  const { announcement } = fact;
  checkKey(fact);
  if (announcement.kind === 'answered' || announcement.kind === 'trustAnswered') {
    must(fact.repeat === 2, 'I12', 'an answer does not take the place of its question');
    must(after.notice === before.notice, 'I12', 'an answer stands last in the channel');
    return;
  }
  if (announcement.kind === 'gap') {
    const isSame = before.gap !== undefined && at - before.gap.at < 600_000;
    must(fact.repeat === (isSame ? before.gap.count : 0) + 1, 'I12', 'a gap is counted wrongly');
    must(fact.repeat === 1 || after.notice === before.notice, 'I12', 'a gap that was told before stands last');
    return;
  }
  const same = before.notice?.key === fact.key ? before.notice.count : 0;
  const told = announcement.kind === 'recovered' ? (turnOf(before, announcement.agent)?.recovered ?? 0) : same;
  const repeat = told + 1;
  must(fact.repeat === repeat && after.notice?.count === repeat, 'I12', 'an announcement is counted wrongly');
}

function seatAt(floor: Floor, agent: AgentId): Seat {
  const seat = floor.seats.find((one) => one.agent === agent);
  must(seat !== undefined, 'I6', 'a fact is about an agent that has no seat');
  return seat;
}

function turnAt(floor: Floor, agent: AgentId): FlatTurn {
  const turn = turnOf(floor, agent);
  must(turn !== undefined, 'I1', 'a fact is about a turn that there is not');
  return flat(turn);
}

function timeoutOf(floor: Floor, agent: AgentId): number {
  return seatAt(floor, agent).timeoutMs;
}
