import type { Fact } from './fact.ts';
import type { Floor, Held, Turn } from './floor.ts';
import { today } from './limits.ts';
import { patchSeat, seatOf, showLine } from './seats.ts';
import { questionSchema } from './settings.ts';
import type { AgentId, MessageId, Question } from './settings.ts';
import type { Instant } from '../../lib/time.ts';

/** Facts about turns. */
export type TurnFact = Extract<
  Fact,
  {
    type:
      | 'turnGranted'
      | 'turnContinued'
      | 'turnWaited'
      | 'approvalShown'
      | 'approvalWithdrawn'
      | 'approvalDecided'
      | 'turnParked'
      | 'turnStopped'
      | 'waitAnswered'
      | 'waitExtended'
      | 'turnExtended'
      | 'turnResumed'
      | 'turnSuspended'
      | 'turnEnded'
      | 'said'
      | 'worked'
      | 'spent';
  }
>;

/** The part of `evolve` about turns: one period of holding the floor, with its waits. */
export function evolveTurn(floor: Floor, fact: TurnFact, at: Instant): Floor {
  switch (fact.type) {
    case 'turnGranted':
      return granted(floor, fact, at);
    case 'turnContinued':
      return changeTurn(patchSeat(floor, fact.agent, { seenLine: fact.uptoLine }), fact.agent, (turn) => ({
        ...turn,
        ...working(floor, turn, at),
        unseen: [],
        injecting: [],
        given: fact.messages.map(given),
        answered: [...turn.answered, ...turn.given.map(({ id }) => id)],
        reprompts: turn.reprompts + 1,
      }));
    case 'turnWaited':
      return waited(floor, fact, at);
    case 'approvalShown':
      return changeWait(floor, fact.agent, (wait) => ({ ...wait, approval: shown(wait.approval) }));
    case 'approvalWithdrawn':
    case 'approvalDecided':
      return changeTurn(floor, fact.agent, (turn) => decided(floor, turn, at));
    case 'turnParked':
      return { ...floor, turn: null, parked: [...floor.parked, turnOf(floor, fact.agent)] };
    case 'turnStopped':
      return changeWait(floor, fact.agent, (wait) => ({ ...wait, graceEndAt: null }));
    case 'waitAnswered':
      return changeWait(floor, fact.agent, (wait) => ({ ...wait, answers: fact.messages, ready: fact.ready }));
    case 'waitExtended':
      return changeWait(floor, fact.agent, (wait) => ({ ...wait, deadlineAt: fact.deadlineAt }));
    case 'turnExtended':
      return changeTurn(floor, fact.agent, (turn) => extended(turn, fact.ms));
    case 'turnResumed':
      return resumed(floor, fact, at);
    case 'turnSuspended':
      return changeTurn(floor, fact.agent, (turn) => suspended(floor, turn, at));
    case 'turnEnded':
      return ended(floor, fact, at);
    case 'said':
      return said(floor, fact, at);
    case 'worked':
      return changeTurn(floor, fact.agent, (turn) => {
        const next = { ...turn, openWork: fact.open };
        return { ...next, ...working(floor, next, at) };
      });
    case 'spent':
      return spent(floor, fact, at);
  }
}

/** The turn of an agent, with or without the floor; it is a bug if there is none. */
export function turnOf(floor: Floor, agent: AgentId): Turn {
  const turn = floor.turn?.agent === agent ? floor.turn : floor.parked.find((parked) => parked.agent === agent);
  if (turn === undefined) throw new Error(`impossible: ${agent} has no turn in ${floor.channel}`);
  return turn;
}

function changeTurn(floor: Floor, agent: AgentId, change: (turn: Turn) => Turn): Floor {
  const turn = change(turnOf(floor, agent));
  return floor.turn?.agent === agent
    ? { ...floor, turn }
    : { ...floor, parked: floor.parked.map((parked) => (parked.agent === agent ? turn : parked)) };
}

function changeWait(floor: Floor, agent: AgentId, change: (wait: NonNullable<Turn['wait']>) => Turn['wait']): Floor {
  return changeTurn(floor, agent, (turn) => {
    if (turn.wait === null) throw new Error(`impossible: ${agent} does not wait in ${floor.channel}`);
    return { ...turn, wait: change(turn.wait) };
  });
}

function extended(turn: Turn, ms: number): Turn {
  return { ...turn, deadlineAt: plus(turn.deadlineAt, ms), hardEndAt: plus(turn.hardEndAt, ms) };
}

function plus(instant: Instant | null, ms: number): Instant | null {
  return instant === null ? null : instant + ms;
}

/** The deadlines of a holder that has just given a sign of work. */
function working(floor: Floor, turn: Turn, at: Instant): Pick<Turn, 'deadlineAt' | 'silenceAt'> {
  if (turn.openWork > 0) return { deadlineAt: null, silenceAt: null };
  const { autoDetectTurnEnd, autoDetectSilenceMs } = floor.settings;
  return {
    deadlineAt: at + seatOf(floor, turn.agent).timeoutMs,
    silenceAt: autoDetectTurnEnd && turn.said ? at + autoDetectSilenceMs : null,
  };
}

function granted(floor: Floor, fact: Extract<TurnFact, { type: 'turnGranted' }>, at: Instant): Floor {
  if (floor.turn !== null) throw new Error(`impossible: ${floor.turn.agent} holds ${floor.channel}, not ${fact.agent}`);
  const seat = seatOf(floor, fact.agent);
  const turn: Turn = {
    agent: fact.agent,
    epoch: fact.epoch,
    startedAt: at,
    deadlineAt: at + seat.timeoutMs,
    hardEndAt: at + floor.settings.maxTurnMs,
    leftMs: null,
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
    wait: null,
    suspended: false,
  };
  const { usageSincePerson } = floor;
  return {
    ...patchSeat(floor, fact.agent, { seenLine: fact.uptoLine, taken: seat.taken + 1 }),
    epoch: fact.epoch,
    usageSincePerson: { ...usageSincePerson, turns: usageSincePerson.turns + 1 },
    called: floor.called.filter((call) => call.agent !== fact.agent),
    turn,
  };
}

function given(id: MessageId): Turn['given'][number] {
  return { id, begun: false };
}

function waited(floor: Floor, fact: Extract<TurnFact, { type: 'turnWaited' }>, at: Instant): Floor {
  const asked = fact.approval === null ? null : questionSchema.parse(fact.approval);
  const questions = Math.max(floor.questions, asked?.question ?? 0);
  return { ...changeTurn(floor, fact.agent, (turn) => waiting(turn, fact, { asked, at })), questions };
}

function waiting(
  turn: Turn,
  fact: Extract<TurnFact, { type: 'turnWaited' }>,
  { asked, at }: { readonly asked: Question | null; readonly at: Instant },
): Turn {
  const left = turn.hardEndAt === null ? turn.leftMs : Math.max(0, turn.hardEndAt - at);
  const { reason, deadlineAt, graceEndAt } = fact;
  const wait = { reason, deadlineAt, graceEndAt, ready: false, answers: [], approval: asked };
  return { ...turn, deadlineAt: null, hardEndAt: null, leftMs: left, silenceAt: null, openWork: 0, wait };
}

function shown(approval: Question | null): Question | null {
  return approval === null ? null : { ...approval, shown: true };
}

function decided(floor: Floor, turn: Turn, at: Instant): Turn {
  const left = turn.leftMs ?? floor.settings.maxTurnMs;
  return { ...turn, ...working(floor, turn, at), hardEndAt: at + left, leftMs: null, wait: null };
}

function resumed(floor: Floor, fact: Extract<TurnFact, { type: 'turnResumed' }>, at: Instant): Floor {
  const turn = turnOf(floor, fact.agent);
  const next = { ...turn, openWork: 0, mentions: [] };
  const seen = patchSeat(floor, fact.agent, { seenLine: fact.uptoLine });
  return {
    ...seen,
    epoch: fact.epoch,
    usageSincePerson: fact.fromProgram === true ? oneTurnMore(floor) : floor.usageSincePerson,
    parked: floor.parked.filter((parked) => parked.agent !== fact.agent),
    turn: {
      ...next,
      ...working(floor, next, at),
      epoch: fact.epoch,
      hardEndAt: at + (turn.leftMs ?? floor.settings.maxTurnMs),
      leftMs: null,
      injecting: [],
      unseen: [],
      given: fact.messages.map((id) => turn.given.find((earlier) => earlier.id === id) ?? given(id)),
      wait: null,
      suspended: false,
    },
  };
}

/** As far as there are turns left: what a program said before the last one was granted is still answered. */
function oneTurnMore({ usageSincePerson, settings }: Floor): Floor['usageSincePerson'] {
  const { turns } = usageSincePerson;
  return { ...usageSincePerson, turns: Math.max(turns, Math.min(turns + 1, settings.maxTurns)) };
}

/** The program went down with this turn open: its time starts again, less what it had used up to its last sign of work. */
function suspended(floor: Floor, turn: Turn, at: Instant): Turn {
  const { timeoutMs } = seatOf(floor, turn.agent);
  const lastSignAt = turn.deadlineAt === null ? turn.startedAt : turn.deadlineAt - timeoutMs;
  const left = turn.hardEndAt === null ? floor.settings.maxTurnMs : Math.max(timeoutMs, turn.hardEndAt - lastSignAt);
  return {
    ...turn,
    suspended: true,
    openWork: 0,
    silenceAt: null,
    deadlineAt: at + timeoutMs,
    hardEndAt: at + left,
    leftMs: left,
  };
}

function ended(floor: Floor, fact: Extract<TurnFact, { type: 'turnEnded' }>, at: Instant): Floor {
  const turn = turnOf(floor, fact.agent);
  const missed = [...turn.unseen, ...turn.injecting, ...(turn.wait?.answers ?? [])];
  const freed = {
    ...floor,
    turn: floor.turn?.agent === fact.agent ? null : floor.turn,
    parked: floor.parked.filter((parked) => parked.agent !== fact.agent),
    held: [
      ...fact.returned.map((id): Held => ({ id, line: floor.lines, addressed: [], order: '', until: 'next' })),
      ...missed.map((message): Held => ({ ...message, order: '', until: 'prompt' })),
      ...floor.held,
    ],
  };
  const firstMissed = missed.reduce((first, { line }) => Math.min(first, line), Infinity);
  const { seenLine } = seatOf(floor, fact.agent);
  const rewound = patchSeat(freed, fact.agent, { seenLine: Math.min(seenLine, firstMissed - 1) });
  const day = today(floor, at);
  const counted = { ...rewound, day: { ...day, ms: day.ms + Math.max(0, at - turn.startedAt) } };
  const { exchange } = counted;
  return exchange === null
    ? counted
    : { ...counted, exchange: { ...exchange, silent: fact.said ? 0 : exchange.silent + 1 } };
}

function said(floor: Floor, fact: Extract<TurnFact, { type: 'said' }>, at: Instant): Floor {
  const spoken = changeTurn(floor, fact.agent, (turn) => {
    const begun = turn.given.map((message) => ({ ...message, begun: true }));
    const next = { ...turn, said: true, mentions: fact.mentions, given: begun };
    return { ...next, ...working(floor, next, at) };
  });
  return { ...showLine(spoken, fact.agent, fact.line), lines: fact.line, notice: null };
}

function spent(floor: Floor, fact: Extract<TurnFact, { type: 'spent' }>, at: Instant): Floor {
  const { tokens, costMicros } = fact;
  const day = today(floor, at);
  const more = <T extends { readonly tokens: number; readonly costMicros: number }>(before: T): T => ({
    ...before,
    tokens: before.tokens + tokens,
    costMicros: before.costMicros + costMicros,
  });
  return { ...floor, day: more(day), usageSincePerson: more(floor.usageSincePerson) };
}
