import type { Evolution, FactOf } from './fact.ts';
import type { ActiveTurn, Aside, Floor, Held, Turn, Wait, WaitingTurn } from './floor.ts';
import { today } from './gate.ts';
import {
  answeredWait,
  askAdvanced,
  askOf,
  changeTurn,
  cutWait,
  isGenerating,
  missedBy,
  patchSeat,
  patchedSeats,
  seatOf,
  shownSeats,
  shownWait,
  stoppedWait,
  turnOf,
  quietUntil,
} from './seats.ts';
import type { AgentId, MessageId } from './settings.ts';
import type { Instant } from '../../lib/time.ts';

/** The part of `evolve` about turns: one period of holding the floor, with its waits. */
export const TURNS = {
  turnGranted: granted,
  turnContinued: continued,
  turnWaited: waited,
  turnStopped: (floor, { agent }) => changeWait(floor, agent, stoppedWait),
  turnExtended: (floor, { agent, ms, until }) =>
    changeTurn(floor, agent, (turn) => ({
      ...extended(turn, ms),
      ...(until === undefined ? {} : { extendedTo: until }),
    })),
  turnResumed: resumed,
  turnEnded: ended,
  runBegun: (floor, { agent }) => changeTurn(floor, agent, (turn) => ({ ...turn, run: true })),
  // The turn has taken the mark with it.
  runLeft: (floor) => floor,
  questionShown: (floor, { agent }) => changeWait(floor, agent, shownWait),
  questionClosed: (floor, fact, at) =>
    // The generation goes on; when a restart has cut it, the turn may.
    changeWaiting(floor, fact.agent, (turn) => {
      const wait = answeredWait(turn.wait, fact);
      return wait === null ? active(floor, turn, at) : { ...turn, wait };
    }),
  waitAnswered: answer,
  said,
  worked,
  spent,
  disconnected: (floor, { restart }, at) => (restart ? restarted(floor, at) : { ...floor, catchingUp: true }),
  stoodStill,
  caughtUp: (floor) => ({ ...floor, catchingUp: false }),
} as const satisfies Partial<Evolution>;

function continued(before: Floor, fact: FactOf<'turnContinued'>, at: Instant): Floor {
  const floor = patchSeat(before, fact.agent, { seenLine: fact.uptoLine });
  return changeActive(floor, fact.agent, (turn) => ({
    ...turn,
    ...working(floor, turn, at),
    unseen: [],
    injecting: [],
    given: fact.messages.map(given),
    answered: [...turn.answered, ...turn.given.map(({ id }) => id)],
    reprompts: turn.reprompts + 1,
  }));
}

function answer(floor: Floor, fact: FactOf<'waitAnswered'>): Floor {
  const { agent, messages, ready } = fact;
  return giveUpFloor(
    changeWait(floor, agent, (wait) => ({ ...wait, answers: messages, ready })),
    fact,
  );
}

function worked(floor: Floor, fact: FactOf<'worked'>, at: Instant): Floor {
  return changeActive(floor, fact.agent, (turn) => {
    const next = { ...turn, openWork: fact.open };
    const quietAt = quietUntil(turn, fact, { at, timeoutMs: seatOf(floor, fact.agent).timeoutMs });
    const deadlineAt = quietAt === null ? null : noSooner(turn, quietAt);
    return { ...next, silenceAt: working(floor, next, at).silenceAt, deadlineAt };
  });
}

function changeActive(floor: Floor, agent: AgentId, change: (turn: ActiveTurn) => Turn): Floor {
  return changeTurn(floor, agent, (turn) => {
    if (turn.status !== 'active') throw new Error(`impossible: ${agent} is ${turn.status} in ${floor.channel}`);
    return change(turn);
  });
}

function changeWaiting(floor: Floor, agent: AgentId, change: (turn: WaitingTurn) => Turn): Floor {
  return changeTurn(floor, agent, (turn) => {
    if (turn.status !== 'waiting') throw new Error(`impossible: ${agent} does not wait in ${floor.channel}`);
    return change(turn);
  });
}

function changeWait(floor: Floor, agent: AgentId, change: (wait: Wait) => Wait): Floor {
  return changeWaiting(floor, agent, (turn) => ({ ...turn, wait: change(turn.wait) }));
}

function extended(turn: Turn, ms: number): Turn {
  switch (turn.status) {
    case 'active':
      return {
        ...turn,
        deadlineAt: turn.deadlineAt === null ? null : turn.deadlineAt + ms,
        hardEndAt: turn.hardEndAt + ms,
      };
    case 'suspended':
      return { ...turn, deadlineAt: turn.deadlineAt + ms, hardEndAt: turn.hardEndAt + ms };
    case 'waiting':
      return { ...turn, wait: { ...turn.wait, deadlineAt: turn.wait.deadlineAt + ms } };
  }
}

function stoodStill(before: Floor, { ms }: FactOf<'stoodStill'>): Floor {
  const floor = withoutMinutes(before, ms);
  const { turn, parked, facilitation } = floor;
  return {
    ...floor,
    turn: turn === null ? null : delayed(turn, ms),
    parked: parked.map((each) => delayed(each, ms)),
    facilitation: facilitation === null ? null : { ...facilitation, deadlineAt: facilitation.deadlineAt + ms },
  };
}

/** A floor whose budgets of minutes do not count a standstill, in which background runs have as much more time for answers. */
function withoutMinutes(floor: Floor, ms: number): Floor {
  const { turn, parked, exchange, asides } = floor;
  const stood = (each: Turn): Turn => ({ ...each, stoodStillMs: (each.stoodStillMs ?? 0) + ms });
  return {
    ...floor,
    turn: turn === null ? null : stood(turn),
    parked: parked.map(stood),
    exchange: exchange === null ? null : { ...exchange, openedAt: exchange.openedAt + ms },
    ...(asides === undefined ? {} : { asides: asides.map((aside) => laterAside(aside, ms)) }),
  };
}

function laterAside(aside: Aside, ms: number): Aside {
  return aside.until === undefined ? aside : { ...aside, until: aside.until + ms };
}

/** A turn with every deadline later. */
function delayed(before: Turn, ms: number): Turn {
  const turn = extended(before, ms);
  if (turn.status === 'active') return turn.silenceAt === null ? turn : { ...turn, silenceAt: turn.silenceAt + ms };
  if (turn.status !== 'waiting' || turn.wait.reason !== 'human' || turn.wait.graceEndAt === null) return turn;
  return { ...turn, wait: { ...turn.wait, graceEndAt: turn.wait.graceEndAt + ms } };
}

type TurnBase = Omit<ActiveTurn, 'status' | 'deadlineAt' | 'hardEndAt' | 'silenceAt' | 'openWork'>;

/** What every turn keeps, whatever its status. */
function kept(turn: Turn): TurnBase {
  return {
    agent: turn.agent,
    epoch: turn.epoch,
    startedAt: turn.startedAt,
    said: turn.said,
    mentions: turn.mentions,
    injecting: turn.injecting,
    unseen: turn.unseen,
    given: turn.given,
    answered: turn.answered,
    reprompts: turn.reprompts,
    place: turn.place,
    ...(turn.words === undefined ? {} : { words: turn.words }),
    ...(turn.stoodStillMs === undefined ? {} : { stoodStillMs: turn.stoodStillMs }),
    ...(turn.extendedTo === undefined ? {} : { extendedTo: turn.extendedTo }),
    ...(turn.recovered === undefined ? {} : { recovered: turn.recovered }),
    ...(turn.run === undefined ? {} : { run: turn.run }),
    ...(turn.allowed === undefined ? {} : { allowed: turn.allowed }),
    ...(turn.alsoAllowed === undefined ? {} : { alsoAllowed: turn.alsoAllowed }),
  };
}

/** The deadlines of a holder that has just given a sign of work. */
function working(
  floor: Floor,
  turn: Pick<ActiveTurn, 'agent' | 'said' | 'openWork' | 'extendedTo'>,
  at: Instant,
): Pick<ActiveTurn, 'deadlineAt' | 'silenceAt'> {
  const { agent, said: hasSaid, openWork } = turn;
  if (openWork > 0) return { deadlineAt: null, silenceAt: null };
  const { autoDetectTurnEnd, autoDetectSilenceMs } = floor.settings;
  return {
    deadlineAt: noSooner(turn, at + seatOf(floor, agent).timeoutMs),
    silenceAt: autoDetectTurnEnd && hasSaid ? at + autoDetectSilenceMs : null,
  };
}

/** Time that an operator gave is not taken back by a sign of work. */
function noSooner({ extendedTo = 0 }: Pick<ActiveTurn, 'extendedTo'>, endsAt: Instant): Instant {
  return Math.max(extendedTo, endsAt);
}

function granted(before: Floor, fact: FactOf<'turnGranted'>, at: Instant): Floor {
  const floor = before.toldToName === undefined ? before : untold(before);
  if (floor.turn !== null) throw new Error(`impossible: ${floor.turn.agent} holds ${floor.channel}, not ${fact.agent}`);
  const seat = seatOf(floor, fact.agent);
  const turn: Turn = {
    status: 'active',
    agent: fact.agent,
    epoch: fact.epoch,
    startedAt: at,
    deadlineAt: at + seat.timeoutMs,
    hardEndAt: at + floor.settings.maxTurnMs,
    silenceAt: null,
    openWork: 0,
    said: false,
    mentions: [],
    injecting: [],
    unseen: [],
    given: fact.messages.map(given),
    answered: [],
    reprompts: 0,
    place: fact.keepsPlace ? floor.queue.indexOf(fact.agent) : null,
    ...(fact.feedback === undefined ? {} : { feedback: fact.feedback }),
  };
  const { usageSincePerson } = floor;
  const isAsked = fact.askedBy !== undefined;
  return {
    ...floor,
    seats: patchedSeats(floor, fact.agent, { seenLine: fact.uptoLine, taken: seat.taken + (isAsked ? 0 : 1) }),
    epoch: fact.epoch,
    usageSincePerson: { ...usageSincePerson, turns: usageSincePerson.turns + 1 },
    prioritised: floor.prioritised.filter((named) => named.agent !== fact.agent),
    parked: floor.parked.map((asker) => (isAsked ? askAdvanced(asker, fact.agent, 'granted') : asker)),
    turn,
  };
}

function untold({ toldToName: _told, ...floor }: Floor): Floor {
  return floor;
}

function given(id: MessageId): Turn['given'][number] {
  return { id, begun: false };
}

function waited(floor: Floor, fact: FactOf<'turnWaited'>, at: Instant): Floor {
  const wait = waitFor(fact.wait);
  const questions = wait.reason === 'approval' ? Math.max(floor.questions, wait.question.question) : floor.questions;
  const waiting = changeActive(floor, fact.agent, (turn) => ({
    ...kept(turn),
    status: 'waiting',
    leftMs: Math.max(0, turn.hardEndAt - at),
    wait,
  }));
  return giveUpFloor({ ...waiting, questions }, fact);
}

/** The turn waits without the floor from now on, if the fact says so. */
function giveUpFloor(floor: Floor, fact: FactOf<'turnWaited' | 'waitAnswered'>): Floor {
  if (fact.parked !== true) return floor;
  return { ...floor, turn: null, parked: [...floor.parked, turnOf(floor, fact.agent)] };
}

function waitFor(wait: FactOf<'turnWaited'>['wait']): Wait {
  const waiting = { ready: false, answers: [] };
  if (wait.reason !== 'answer') return { ...wait, ...waiting };
  const { of, ...rest } = wait;
  return { ...rest, ...waiting, ...(of === undefined ? {} : { of: { agent: of, is: 'asked' } }) };
}

/** A turn that stood still goes on, with the time that it had left. */
function active(floor: Floor, turn: Exclude<Turn, ActiveTurn>, at: Instant): ActiveTurn {
  const next = { ...kept(turn), openWork: 0 };
  return { ...next, status: 'active', ...working(floor, next, at), hardEndAt: at + turn.leftMs };
}

function resumed(floor: Floor, fact: FactOf<'turnResumed'>, at: Instant): Floor {
  const turn = turnOf(floor, fact.agent);
  if (turn.status === 'active') throw new Error(`impossible: ${fact.agent} is at work in ${floor.channel}`);
  const seen = patchSeat(floor, fact.agent, { seenLine: fact.uptoLine });
  return {
    ...seen,
    epoch: fact.epoch,
    usageSincePerson: fact.fromProgram === true ? oneTurnMore(floor) : floor.usageSincePerson,
    parked: floor.parked.filter((parked) => parked.agent !== fact.agent),
    turn: {
      ...active(floor, turn, at),
      epoch: fact.epoch,
      mentions: [],
      injecting: [],
      unseen: [],
      given: fact.messages.map((id) => turn.given.find((earlier) => earlier.id === id) ?? given(id)),
    },
  };
}

/** As far as there are turns left: what a program said before the last one was granted is still answered. */
function oneTurnMore({ usageSincePerson, settings }: Floor): Floor['usageSincePerson'] {
  const { turns } = usageSincePerson;
  return { ...usageSincePerson, turns: Math.max(turns, Math.min(turns + 1, settings.maxTurns)) };
}

/** The program is up again: nobody has come back yet, and no generation that was under way runs any more. */
function restarted(floor: Floor, at: Instant): Floor {
  const seats = floor.seats.map((seat) => ({ ...seat, present: false }));
  const turn = floor.turn?.status === 'waiting' ? { ...floor.turn, wait: cutWait(floor.turn.wait) } : floor.turn;
  const isCut = turn !== null && turn.status !== 'waiting';
  return { ...floor, catchingUp: true, seats, turn: isCut ? suspended(floor, turn, at) : turn };
}

/** The program went down with this turn open: its time starts again, less what it had used up to its last sign of work. */
function suspended(floor: Floor, turn: Exclude<Turn, WaitingTurn>, at: Instant): Turn {
  const { timeoutMs } = seatOf(floor, turn.agent);
  const isAtWork = turn.status === 'active' && turn.openWork > 0;
  const lastSignAt = isAtWork || turn.deadlineAt === null ? turn.startedAt : turn.deadlineAt - timeoutMs;
  const leftMs = Math.max(timeoutMs, turn.hardEndAt - lastSignAt);
  return { ...kept(turn), status: 'suspended', deadlineAt: at + timeoutMs, hardEndAt: at + leftMs, leftMs };
}

function ended(floor: Floor, fact: FactOf<'turnEnded'>, at: Instant): Floor {
  const turn = turnOf(floor, fact.agent);
  const missed = missedBy(turn);
  const outcome = fact.said ? 'answered' : 'silent';
  const firstMissed = missed.reduce((first, { line }) => Math.min(first, line), Infinity);
  const { seenLine } = seatOf(floor, fact.agent);
  const day = today(floor, at);
  const { exchange } = floor;
  const isCounted = fact.uncounted !== true;
  const over: Floor = {
    ...floor,
    seats: patchedSeats(floor, fact.agent, { seenLine: Math.min(seenLine, firstMissed - 1) }),
    turn: floor.turn?.agent === fact.agent ? null : floor.turn,
    parked: floor.parked
      .filter((parked) => parked.agent !== fact.agent)
      .map((parked) => (askOf(parked)?.is === 'granted' ? askAdvanced(parked, fact.agent, outcome) : parked)),
    held: [
      ...fact.returned.map((id): Held => ({ id, line: floor.lines, addressed: [], order: '', until: 'next' })),
      ...missed.map((message): Held => ({ ...message, order: '', until: 'prompt' })),
      ...floor.held,
    ],
    day: { ...day, ms: day.ms + Math.max(0, at - turn.startedAt - (turn.stoodStillMs ?? 0)) },
    exchange: exchange === null || !isCounted ? exchange : { ...exchange, silent: fact.said ? 0 : exchange.silent + 1 },
  };
  return isCounted ? over : takenBack(over, floor, fact.agent);
}

/** A turn that was none gives back what its grant had counted; a round was counted unless another agent asked for it. */
function takenBack(floor: Floor, before: Floor, agent: AgentId): Floor {
  const { usageSincePerson } = floor;
  const wasAsked = before.parked.some((asker) => askOf(asker)?.is === 'granted' && askOf(asker)?.agent === agent);
  const taken = Math.max(0, seatOf(floor, agent).taken - (wasAsked ? 0 : 1));
  const turns = Math.max(0, usageSincePerson.turns - 1);
  const failed = (usageSincePerson.failed ?? 0) + 1;
  return { ...patchSeat(floor, agent, { taken }), usageSincePerson: { ...usageSincePerson, turns, failed } };
}

function said(floor: Floor, fact: FactOf<'said'>, at: Instant): Floor {
  const spoken = changeTurn(floor, fact.agent, (turn) => {
    if (!isGenerating(turn)) throw new Error(`impossible: ${fact.agent} is ${turn.status} in ${floor.channel}`);
    const begun = turn.given.map((message) => ({ ...message, begun: true }));
    const words = joinedWords(turn.words, fact.text);
    const next = { ...turn, said: true, words, mentions: fact.mentions, given: begun };
    // While people are asked its time stands still.
    if (next.status !== 'active' || next.openWork > 0) return next;
    const { deadlineAt, silenceAt } = working(floor, next, fact.workedAt ?? at);
    if (fact.workedAt === undefined) return { ...next, deadlineAt, silenceAt };
    return { ...next, deadlineAt: later(next.deadlineAt, deadlineAt), silenceAt: later(next.silenceAt, silenceAt) };
  });
  return { ...spoken, seats: shownSeats(spoken, fact.agent, fact.line), lines: fact.line, notice: null };
}

/** How many UTF-16 units of what a turn said are kept in its state. */
const LONGEST_WORDS = 32_768;

function joinedWords(before: string | undefined, text: string): string {
  const words = before === undefined ? text : `${before}\n\n${text}`;
  return words.length <= LONGEST_WORDS ? words : `…${words.slice(1 - LONGEST_WORDS).toWellFormed()}`;
}

function later(one: Instant | null, other: Instant | null): Instant | null {
  return one === null || other === null ? (one ?? other) : Math.max(one, other);
}

function spent(floor: Floor, fact: FactOf<'spent'>, at: Instant): Floor {
  const { tokens, costMicros } = fact;
  const more = <T extends { readonly tokens: number; readonly costMicros: number }>(before: T): T => ({
    ...before,
    tokens: before.tokens + tokens,
    costMicros: before.costMicros + costMicros,
  });
  return { ...floor, day: more(today(floor, at)), usageSincePerson: more(floor.usageSincePerson) };
}
