import { hash } from 'node:crypto';
import type { Floor, Held, Turn } from '../../src/turns/floor/floor.ts';
import type { AgentId, MessageId } from '../../src/turns/floor/settings.ts';
import type { Instant } from '../../src/lib/time.ts';
import type { Answers } from './answers.ts';
import { waitOf } from '../../src/turns/floor/seats.ts';
import { flat } from '../turns/floor/flat-turn.ts';

/** A state of the search: a floor that commands really reached, with the search's own counts. */
export type Place = {
  readonly floor: Floor;
  readonly at: Instant;
  /** Human messages so far. It numbers the next message. */
  readonly messages: number;
  /** Agent turns since a person last wrote or allowed more. The search counts them without the core. */
  readonly turns: number;
  /** Messages that the open turns were given, and those that they have answered. */
  readonly answers: Answers;
};

/**
 * Returns the key of a place. Places with equal keys are searched once. Commands really reached each kept place,
 * so a merge can hide a bug and never invent one. What is merged, and why it hides nothing:
 *
 * - Epochs count from the last grant, at most two back: the core compares acts only with the holder's epoch.
 * - Lines only tell whether an agent has seen them all: the core copies line numbers and never decides by them.
 * - Message ids become numbers in the order in which the floor names them: the core only compares ids for equality.
 *   A held message keeps its place and loses its sort key, since every later message sorts behind it.
 * - Instants count from now, exactly. All past instants are alike. The midnight that renews a day's budget is far from
 *   every other deadline, so the key only tells whether it is set. The start of a turn or an exchange is left out: only
 *   budgets of minutes, of which the model sets none, and the check for hung agents read it.
 * - `taken` is cut at one above the rounds (at three when rounds are unlimited): beyond it the core only sorts by it.
 * - `silent` is cut at the number of seats: the core compares it with the length of the queue.
 * - Tokens are cut at the budget. A day's use is none, some or enough.
 * - Questions count from the last one: only the last one may be open.
 * - `asks` is left out: the core compares a question only with the open one. The last announcement counts only when
 *   it is about held messages: the others only carry a count, which each step checks.
 * - Of the configuration only settings that commands change are in the key: the rest is the same for the whole search.
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

/** Returns all turns of a floor, the holder's first. */
export function turnsOf(floor: Floor): readonly Turn[] {
  return floor.turn === null ? floor.parked : [floor.turn, ...floor.parked];
}

/** Returns an agent's turn, whether or not it has the floor. */
export function turnOf(floor: Floor, agent: AgentId): Turn | undefined {
  return turnsOf(floor).find((turn) => turn.agent === agent);
}

/** Messages that the floor has not handed over, from all its lists. An id in two lists is returned twice. */
export function outstanding(floor: Floor): readonly MessageId[] {
  return [
    ...floor.held,
    ...turnsOf(floor).flatMap((turn) => [...turn.injecting, ...turn.unseen, ...(waitOf(turn)?.answers ?? [])]),
  ].map(({ id }) => id);
}

/** True while people decide an agent's request and its generation goes on: the agent may still write. */
export function isAsking({ turn }: Floor): boolean {
  const wait = waitOf(turn);
  return wait?.reason === 'approval' && !wait.ready && wait.cut !== true;
}
