import { hash } from 'node:crypto';
import type { Floor, Held, Turn } from '../../src/turns/floor/floor.ts';
import type { AgentId, MessageId } from '../../src/turns/floor/settings.ts';
import type { Instant } from '../../src/lib/time.ts';
import type { Answers } from './answers.ts';
import { waitOf } from '../../src/turns/floor/seats.ts';
import { flat } from '../turns/floor/flat-turn.ts';

/** A point of the search: a floor as it was really reached, and what the search counts beside it. */
export type Place = {
  readonly floor: Floor;
  readonly at: Instant;
  /** Human messages so far: the next one's number. */
  readonly messages: number;
  /** Agent turns since a person last wrote or allowed more, counted without the core's help. */
  readonly turns: number;
  /** What the open turns were given and have answered. */
  readonly answers: Answers;
};

/**
 * What two places must share to be searched only once. Every place that is kept was really reached by its commands, so
 * whatever is merged here can hide a bug, never invent one. What is merged, and why nothing is missed by it:
 *
 * - Epochs count from the last grant, and older than two is two: acts are only ever compared with the holder's epoch.
 * - Lines are dropped but for whether an agent has seen them all: the core copies line numbers and never decides by them.
 * - Message ids become numbers in the order in which the floor names them: the core only asks whether two are equal.
 *   A held message's sort key is dropped with its place kept, since every later message sorts behind it.
 * - Instants count from now, exactly; those that have passed are alike. The midnight at which a day's budget renews is
 *   far from every other deadline, so only its presence counts. When a turn or an exchange began is dropped:
 *   only budgets of minutes look at it, and the model sets none.
 * - `taken` is cut at one above the rounds (above three when the rounds have no end): beyond that the core only sorts by it.
 * - `silent` is cut at the number of seats: it is compared with the length of the queue.
 * - Tokens are cut at the budget. A day's use is one of nothing, something and enough.
 * - Questions count from the last one, which is the only one that may be open.
 * - `asks` is dropped: a question is only compared with the one that is open. The last announcement counts only when it is
 *   the one about held messages: the others decide nothing but the count that they carry, which each step checks.
 * - The configuration is dropped, as it is the same for the whole search, but for the settings that commands change.
 */
export function keyOf(place: Place): string {
  return hash('md5', JSON.stringify(abstractOf(place)), 'base64');
}

function abstractOf({ floor, at, turns, answers }: Place): unknown {
  const { settings, exchange, facilitation, limit, day, usageSincePerson: used } = floor;
  const tokens = settings.exchangeBudget.tokens ?? 0;
  const name = namer();
  const time = (instant: Instant | null): Instant | null => (instant === null ? null : Math.max(-1, instant - at));
  const most = settings.rounds === 0 ? 3 : settings.rounds + 1;
  return [
    [floor.configured?.seats.length, settings.mode, settings.order, floor.condition, turns],
    floor.seats.map((seat) => [
      seat.agent,
      seat.status,
      seat.assigned,
      seat.disabled,
      seat.present,
      seat.seenLine < floor.lines,
      Math.min(seat.taken, most),
      seat.added === true,
    ]),
    floor.queue,
    floor.prioritised.map(({ agent, by }) => [agent, by]),
    floor.held.map((held) => message(held, name)),
    floor.turn === null ? null : turnKey(floor, floor.turn, { name, time }),
    floor.parked.map((turn) => turnKey(floor, turn, { name, time })),
    [
      [used.turns, used.failed ?? 0],
      Math.min(used.tokens, tokens),
      exchange === null ? null : Math.min(exchange.silent, floor.seats.length),
    ],
    facilitation === null ? null : [facilitation.facilitator, time(facilitation.deadlineAt)],
    limit === null ? null : [limit.budget, limit.until !== null],
    day.tokens === 0 || settings.dayBudget.tokens === null ? 0 : 1 + Number(day.tokens >= settings.dayBudget.tokens),
    floor.trust?.map(({ agent, id, shown }) => [agent, id, shown]) ?? [],
    [floor.stopped, floor.catchingUp, floor.outage, floor.toldToName, floor.notice?.key === 'limit'],
    Object.entries(answers).map(([agent, { open, done }]) => [
      agent,
      open.map(({ id, begun }) => [name(id), begun]),
      done.map(name),
    ]),
  ];
}

type Lined = Turn['unseen'][number];
type Naming = (id: MessageId) => number;
type Relative = { readonly name: Naming; readonly time: (instant: Instant | null) => Instant | null };

function namer(): Naming {
  const names = new Map<MessageId, number>();
  return (id) => {
    const known = names.get(id) ?? names.size;
    names.set(id, known);
    return known;
  };
}

function message(held: Held, name: Naming): unknown {
  return [name(held.id), held.fromProgram === true, held.addressed, held.until, held.line === null, held.order === ''];
}

function turnKey(floor: Floor, turn: Turn, { name, time }: Relative): unknown {
  const { wait, deadlineAt, hardEndAt, leftMs, silenceAt, openWork } = flat(turn);
  const named = (messages: readonly Lined[]): readonly unknown[] =>
    messages.map(({ id, fromProgram }) => (fromProgram === true ? [name(id)] : name(id)));
  return [
    turn.agent,
    Math.min(2, floor.epoch - turn.epoch),
    [time(deadlineAt), time(hardEndAt), leftMs, time(silenceAt), time(turn.extendedTo ?? null)],
    [openWork, turn.said, turn.status === 'suspended', turn.reprompts, turn.place],
    turn.mentions,
    [
      named(turn.injecting),
      named(turn.unseen),
      turn.given.map(({ id, begun }) => [name(id), begun]),
      turn.answered.map(name),
    ],
    wait === null
      ? null
      : [
          wait.reason,
          time(wait.deadlineAt),
          time(wait.graceEndAt),
          wait.ready,
          wait.question?.shown ?? null,
          wait.question === null ? 0 : Math.min(2, floor.questions - wait.question.question),
          named(wait.answers),
          wait.of,
        ],
  ];
}

/** Every turn of a floor, the holder's first. */
export function turnsOf(floor: Floor): readonly Turn[] {
  return floor.turn === null ? floor.parked : [floor.turn, ...floor.parked];
}

/** The turn of an agent, with or without the floor. */
export function turnOf(floor: Floor, agent: AgentId): Turn | undefined {
  return turnsOf(floor).find((turn) => turn.agent === agent);
}

/** The messages that a floor still owes somebody, wherever it keeps them; an id that it keeps twice is named twice. */
export function outstanding(floor: Floor): readonly MessageId[] {
  return [
    ...floor.held,
    ...turnsOf(floor).flatMap((turn) => [...turn.injecting, ...turn.unseen, ...(waitOf(turn)?.answers ?? [])]),
  ].map(({ id }) => id);
}

/** Whether people are asked something for an agent that may write on meanwhile: its generation goes on in place. */
export function isAsking({ turn }: Floor): boolean {
  const wait = waitOf(turn);
  return wait?.reason === 'approval' && !wait.ready && wait.cut !== true;
}
