import type { ActiveTurn, Aside, Floor, Seat, Status, TrustQuestion, Turn, Wait, WaitingTurn } from './floor.ts';
import type { AgentId, ChannelId, Choice, DecidedRequest, MessageId, Question, SeatSettings } from './settings.ts';
import type { Instant } from '../../lib/time.ts';
import { defined } from '../../lib/defined.ts';

type Row = {
  readonly from: readonly Status[];
  readonly to: Status;
  readonly trigger: string;
  readonly action: string;
};

/**
 * Every transition that a seat may make: the specification's thirteen rows, then those that the specification's prose adds.
 * The README's table and diagram are generated from it, `evolve` enforces it, and logs carry its trigger names.
 */
export const TRANSITIONS = [
  { from: ['OFFLINE'], to: 'IDLE', trigger: 'AGENT_STARTED', action: 'register' },
  { from: ['IDLE'], to: 'QUEUED', trigger: 'ASSIGNED', action: "append to the channel's queue" },
  { from: ['IDLE'], to: 'OFFLINE', trigger: 'AGENT_STOPPED', action: 'deregister' },
  { from: ['QUEUED'], to: 'ACTIVE', trigger: 'TURN_GRANTED', action: 'becomes holder, agent notified' },
  { from: ['QUEUED'], to: 'IDLE', trigger: 'REMOVED', action: 'out of the queue' },
  { from: ['QUEUED'], to: 'OFFLINE', trigger: 'DISCONNECTED', action: 'out of the queue, log' },
  { from: ['ACTIVE'], to: 'QUEUED', trigger: 'TURN_COMPLETE', action: 'advance' },
  { from: ['ACTIVE'], to: 'QUEUED', trigger: 'TIMEOUT', action: 'force advance, log, announce' },
  { from: ['ACTIVE'], to: 'WAITING', trigger: 'WAIT_REQUESTED', action: 'pause the turn, start the wait timer' },
  { from: ['ACTIVE'], to: 'OFFLINE', trigger: 'CRASHED', action: 'advance, log the cause, announce' },
  { from: ['WAITING'], to: 'ACTIVE', trigger: 'WAIT_RESOLVED', action: 'resume the turn' },
  { from: ['WAITING'], to: 'QUEUED', trigger: 'WAIT_TIMEOUT', action: 'forfeit the turn, advance' },
  { from: ['WAITING'], to: 'OFFLINE', trigger: 'DISCONNECTED', action: 'remove, log, announce' },
  { from: ['ACTIVE'], to: 'IDLE', trigger: 'TURN_COMPLETE', action: 'alone in the channel: rest' },
  { from: ['IDLE'], to: 'QUEUED', trigger: 'RECALLED', action: 'the next human message came' },
  { from: ['ACTIVE'], to: 'QUEUED', trigger: 'SILENCE', action: 'auto-detected end, advance' },
  { from: ['ACTIVE', 'WAITING'], to: 'IDLE', trigger: 'REMOVED', action: 'end the turn, advance' },
  { from: ['ACTIVE'], to: 'WAITING', trigger: 'PREEMPTED', action: 'stop the generation, a human goes first' },
  { from: ['WAITING'], to: 'QUEUED', trigger: 'HUMAN_OVERRIDE', action: 'an operator gave the floor to another' },
  { from: ['WAITING'], to: 'ACTIVE', trigger: 'HUMAN_OVERRIDE', action: 'an operator resumed the turn' },
  { from: ['ACTIVE', 'WAITING'], to: 'QUEUED', trigger: 'SKIPPED', action: 'an operator ended the turn, advance' },
  { from: ['ACTIVE', 'WAITING'], to: 'QUEUED', trigger: 'STOPPED', action: 'stop: end the turn, close the exchange' },
  {
    from: ['IDLE', 'QUEUED', 'ACTIVE', 'WAITING'],
    to: 'OFFLINE',
    trigger: 'DISABLED',
    action: 'an operator disabled the agent',
  },
  { from: ['OFFLINE'], to: 'IDLE', trigger: 'ENABLED', action: 'an operator enabled the agent' },
] as const satisfies readonly Row[];

/** The name of what made a seat change its state. */
export type Trigger = (typeof TRANSITIONS)[number]['trigger'];

/** Whether the table lets a seat go from one state to another for this reason. */
export function isAllowed(from: Status, to: Status, trigger: Trigger): boolean {
  return TRANSITIONS.some((row) => row.trigger === trigger && row.to === to && row.from.some((each) => each === from));
}

/** How many earlier lines an agent that is new at a floor is given. */
const LINES_FOR_NEWCOMERS = 50;

/** The seat of an agent, or `undefined` if it has none here. */
export function findSeat(floor: Floor, agent: AgentId): Seat | undefined {
  return floor.seats.find((seat) => seat.agent === agent);
}

/** The seat of an agent; an unknown agent is a bug and throws. */
export function seatOf(floor: Floor, agent: AgentId): Seat {
  const seat = findSeat(floor, agent);
  if (seat === undefined) throw new Error(`impossible: ${agent} has no seat in ${floor.channel}`);
  return seat;
}

/** The floor with one seat changed. */
export function patchSeat(floor: Floor, agent: AgentId, patch: Partial<Seat>): Floor {
  return { ...floor, seats: patchedSeats(floor, agent, patch) };
}

/** The seats of a floor with one changed. */
export function patchedSeats(floor: Floor, agent: AgentId, patch: Partial<Seat>): readonly Seat[] {
  const changed = { ...seatOf(floor, agent), ...patch };
  return floor.seats.map((seat) => (seat.agent === agent ? changed : seat));
}

/** The seats of a floor with one line more given to an agent, if it was given every line before; else its next prompt brings them all. */
export function shownSeats(floor: Floor, agent: AgentId, line: number): readonly Seat[] {
  return seatOf(floor, agent).seenLine === line - 1 ? patchedSeats(floor, agent, { seenLine: line }) : floor.seats;
}

/** A seat in which nobody has sat yet. */
export function newSeat(floor: Floor, settings: SeatSettings): Seat {
  return {
    ...settings,
    status: 'OFFLINE',
    assigned: true,
    disabled: false,
    present: false,
    seenLine: Math.max(0, floor.lines - LINES_FOR_NEWCOMERS),
    taken: 0,
  };
}

/** A change of a seat's state, as the table allows it. */
export type Move = {
  readonly agent: AgentId;
  readonly from: Status;
  readonly to: Status;
  readonly trigger: Trigger;
  readonly place?: number;
};

/** The floor after a seat changed its state and so entered or left the queue. A change that the table lacks throws. */
export function moveSeat(floor: Floor, move: Move): Floor {
  const { agent, from, to, trigger } = move;
  const seat = seatOf(floor, agent);
  if (seat.status !== from || !isAllowed(from, to, trigger)) {
    throw new Error(
      `impossible: ${agent} in ${floor.channel} is ${seat.status}, and ${from} to ${to} by ${trigger} was asked`,
    );
  }
  const others = floor.queue.filter((queued) => queued !== agent);
  const place = move.place ?? others.length;
  return {
    ...floor,
    seats: patchedSeats(floor, agent, { status: to }),
    queue: to === 'QUEUED' ? others.toSpliced(place, 0, agent) : others,
    outage: floor.outage && to !== 'QUEUED',
    prioritised:
      to === 'IDLE' || to === 'OFFLINE'
        ? floor.prioritised.filter((named) => named.agent !== agent)
        : floor.prioritised,
  };
}

/** Every turn of a floor, the holder's first. */
export function turnsOf({ turn, parked }: Floor): readonly Turn[] {
  return turn === null ? parked : [turn, ...parked];
}

/** The turn of an agent, with or without the floor; `null` if there is none. */
export function findTurn(floor: Floor, agent: AgentId): Turn | null {
  return turnsOf(floor).find((turn) => turn.agent === agent) ?? null;
}

/** The turn of an agent, with or without the floor; it is a bug if there is none. */
export function turnOf(floor: Floor, agent: AgentId): Turn {
  const turn = findTurn(floor, agent);
  if (turn === null) throw new Error(`impossible: ${agent} has no turn in ${floor.channel}`);
  return turn;
}

/** What a turn waits for, if it does. */
export function waitOf(turn: Turn | null | undefined): Wait | null {
  return turn?.status === 'waiting' ? turn.wait : null;
}

/** The agent whose answer a turn waits for, and how far that is; `null` when it waits for none, or no more. */
export function askOf(turn: Turn): Extract<Wait, { reason: 'answer' }>['of'] | null {
  const wait = waitOf(turn);
  return wait?.reason === 'answer' && !wait.ready ? (wait.of ?? null) : null;
}

/** The turn of one that asked this agent, once that one was granted the floor, or its turn is over. */
export function askAdvanced(asker: Turn, agent: AgentId, is: 'granted' | 'answered' | 'silent'): Turn {
  if (asker.status !== 'waiting' || asker.wait.reason !== 'answer' || askOf(asker)?.agent !== agent) return asker;
  return { ...asker, wait: { ...asker.wait, ready: is !== 'granted', of: { agent, is } } };
}

/**
 * Whether a button that was drawn under an epoch is about what goes on now: the turns of the open exchange, or a turn that waits.
 * While the floor rests, it is the epoch of the last grant.
 */
export function isOfNow(floor: Floor, epoch: number): boolean {
  const { exchange } = floor;
  if (epoch >= floor.epoch) return epoch === floor.epoch;
  if (exchange !== null && epoch > exchange.since) return true;
  return turnsOf(floor).some((turn) => turn.epoch === epoch);
}

/** Whether an answer is for this question: by its number, and by its key when a button gives one. */
export function isAnswerTo(
  asked: Pick<Question, 'question' | 'key'>,
  answer: { readonly question: number; readonly key?: string },
): boolean {
  return asked.question === answer.question && (answer.key === undefined || answer.key === asked.key);
}

/** The request for permission that people may decide about now, if there is one. */
export function openQuestion({ turn }: Floor): Question | null {
  const wait = turn?.status === 'waiting' ? turn.wait : null;
  return wait?.reason === 'approval' && !wait.ready ? wait.question : null;
}

/** A question of somebody who is gone: a yes counts once, and nothing is remembered by it. */
export function goneAsking({ always: _always, ...question }: Question): Question {
  return { ...question, gone: true };
}

/** A wait whose question stands in the channel. */
export function shownWait(wait: Wait): Wait {
  return wait.reason === 'approval' ? { ...wait, question: { ...wait.question, shown: true } } : wait;
}

/** A wait whose generation has stopped. */
export function stoppedWait(wait: Wait): Wait {
  return wait.reason === 'human' ? { ...wait, graceEndAt: null } : wait;
}

/** A wait whose generation a restart has cut: nobody waits for its stop any more, and a question that was open goes with it, unless it outlasts it. */
export function cutWait(wait: Wait): Wait {
  if (wait.reason !== 'approval') return stoppedWait(wait);
  const { lasting } = wait.question;
  if (lasting === undefined) return { ...wait, ready: true };
  return { ...wait, cut: true, question: lasting === 'answer' ? goneAsking(wait.question) : wait.question };
}

/** A wait that a restart has cut, once its question is answered; `null`: none has, and its generation goes on. */
export function answeredWait(
  wait: Wait,
  { choice, reason }: Pick<DecidedRequest, 'reason'> & { readonly choice: Choice | null },
): Wait | null {
  if (wait.reason !== 'approval' || wait.cut !== true) return null;
  const { title, gone } = wait.question;
  if (choice === null || gone !== true) return { ...wait, ready: true };
  const decided = { title, choice, ...defined({ reason }) };
  return { ...wait, ready: true, decided };
}

/** Where an agent's session beside the floor of a channel is: told apart from the channel, whose id has no spaces. */
export function besideOf(channel: ChannelId): ChannelId {
  return `${channel}${BESIDE}`;
}

/** The channel of a session, and whether it is beside its floor. */
export function placeOf(id: ChannelId): { readonly channel: ChannelId; readonly aside?: true } {
  return id.endsWith(BESIDE) ? { channel: id.slice(0, -BESIDE.length), aside: true } : { channel: id };
}

const BESIDE = ' +';

/** The work of an agent beside the floor, if it has any. */
export function asideOf({ asides }: Floor, agent: AgentId): Aside | undefined {
  return asides?.find((aside) => aside.agent === agent);
}

type AskingAside = Aside & Required<Pick<Aside, 'question'>>;

/** The background run that asks this question. */
export function asideAsking(
  { asides }: Floor,
  answer: { readonly question: number; readonly key?: string },
): AskingAside | undefined {
  return asides?.find(
    (aside): aside is AskingAside => aside.question !== undefined && isAnswerTo(aside.question, answer),
  );
}

/** What becomes of a seat that ends the work of its agent beside the floor. */
export const ASIDE_ENDS = ['disabled', 'removed', 'unconfigured', 'unseated'] as const;

/** The same in words. */
export const ASIDE_END_WORDS: Readonly<Record<(typeof ASIDE_ENDS)[number], string>> = {
  disabled: 'its agent was disabled',
  removed: 'its agent was removed from the channel',
  unconfigured: 'the configuration has no seat for its agent',
  unseated: 'its agent has no seat here, or is disabled',
};

/** An open question: whose it is, and under which epoch it was asked; that of work beside the floor goes by the number of its run. */
export type FloorQuestion = {
  readonly agent: AgentId;
  readonly isAside: boolean;
  readonly epoch: number | null;
  readonly question: Question;
};

type Asking = {
  readonly holder: { readonly agent: AgentId; readonly epoch: number; readonly approval: Question | null } | null;
  readonly asides?: readonly Aside[];
};

/** What is asked at a floor as people see it: the holder's question first, then those of work beside it. */
export function askedOn({ holder, asides = [] }: Asking): readonly FloorQuestion[] {
  const ofTurn = holder?.approval == null ? [] : [{ ...holder, isAside: false, question: holder.approval }];
  const beside = asides.flatMap(({ agent, run: epoch = null, question }) =>
    question === undefined ? [] : [{ agent, isAside: true, epoch, question }],
  );
  return [...ofTurn, ...beside];
}

/** What ties the messages of a question to it: `approval:3`, or `trust:dev a1b2` for the files in an agent's folder. */
export function askedId(
  asked: { readonly question: number } | { readonly agent: AgentId; readonly id: string },
): string {
  return 'question' in asked ? `approval:${asked.question}` : `trust:${asked.agent} ${asked.id}`;
}

/** Everything at a floor that waits for people's answer, each by its id. */
export function openOn({
  trust = [],
  ...floor
}: Asking & { readonly trust?: readonly TrustQuestion[] }): readonly OpenRequest[] {
  return [
    ...askedOn(floor).map(({ agent, question }) => ({ agent, id: askedId(question), title: question.title })),
    ...trust.map(({ agent, id, folder }) => ({
      agent,
      id: askedId({ agent, id }),
      title: `trust the files in ${folder}`,
    })),
  ];
}

/** A question in a line. */
export type OpenRequest = { readonly agent: AgentId; readonly id: string; readonly title: string };

/** The open question with a number. */
export function askedAs(view: Asking, number: number): FloorQuestion | null {
  return askedOn(view).find(({ question }) => question.question === number) ?? null;
}

/** The open question with a key. */
export function askedWith(view: Asking, key: string): FloorQuestion | null {
  return askedOn(view).find(({ question }) => question.key === key) ?? null;
}

/** The open question that asks for an approval; `null`: it does not stand there. */
export function askedBy(view: Asking, approval: string): Question | null {
  return askedOn(view).find(({ question }) => question.approval === approval)?.question ?? null;
}

/** The turn that speaks now, if one does: it neither waits nor was cut by a restart. */
export function speaking({ turn }: Floor): ActiveTurn | null {
  return turn?.status === 'active' ? turn : null;
}

/** Whether text may come of the turn as it stands: it is being generated, also while it asks people something, unless a restart has cut that. */
export function isGenerating(turn: Turn): boolean {
  const wait = waitOf(turn);
  return turn.status === 'active' || (wait?.reason === 'approval' && !wait.ready && wait.cut !== true);
}

/** What a turn was to be told and was not: messages that its agent could not take, and the answers to its wait. */
export function missedBy(turn: Turn): Turn['unseen'] {
  return [...turn.unseen, ...turn.injecting, ...(waitOf(turn)?.answers ?? [])];
}

/** The turn without a message, wherever it kept it. */
export function turnWithout(turn: Turn, id: MessageId): Turn {
  const isOther = (message: { readonly id: MessageId }): boolean => message.id !== id;
  const kept = {
    injecting: turn.injecting.filter(isOther),
    unseen: turn.unseen.filter(isOther),
    given: turn.given.filter(isOther),
    answered: turn.answered.filter((answered) => answered !== id),
  };
  if (turn.status !== 'waiting') return { ...turn, ...kept };
  return { ...turn, ...kept, wait: { ...turn.wait, answers: turn.wait.answers.filter(isOther) } };
}

/** What a turn was given and said nothing to since, and no other turn has or will be given. */
export function unclaimed(floor: Floor, turn: Turn): readonly MessageId[] {
  if (turn.given.length === 0) return [];
  const turns = turnsOf(floor);
  const others = turns.filter(({ epoch }) => epoch !== turn.epoch).flatMap(({ given }) => given);
  const owed = turns.flatMap(missedBy);
  const claimed = new Set([...others, ...owed, ...floor.held].map(({ id }) => id));
  return turn.given.filter(({ id, begun }) => !begun && !claimed.has(id)).map(({ id }) => id);
}

/** The floor with the turn of an agent changed. */
export function changeTurn(floor: Floor, agent: AgentId, change: (turn: Turn) => Turn): Floor {
  const turn = change(turnOf(floor, agent));
  return floor.turn?.agent === agent
    ? { ...floor, turn }
    : { ...floor, parked: floor.parked.map((parked) => (parked.agent === agent ? turn : parked)) };
}

/** Something that happens by itself at an instant. */
export type Deadline =
  | { readonly kind: 'expire' | 'lapse' | 'force' | 'waitOver'; readonly agent: AgentId; readonly at: Instant }
  | { readonly kind: 'choose' | 'limit'; readonly at: Instant };

/**
 * Every deadline of a floor, earliest first. Until the channel's history has been read only what runs has one: a wait is
 * not over before it is known what people wrote meanwhile, nor a turn whose agent has yet to come back.
 */
export function deadlines(floor: Floor): readonly Deadline[] {
  return running(floor).toSorted((a, b) => a.at - b.at);
}

function running(floor: Floor): readonly Deadline[] {
  const found: Deadline[] = [];
  if (floor.turn !== null) found.push(...turnDeadlines(floor.turn));
  for (const parked of floor.parked) found.push(...turnDeadlines(parked));
  if (floor.facilitation !== null) found.push({ kind: 'choose', at: floor.facilitation.deadlineAt });
  if (floor.limit !== null && floor.limit.until !== null) found.push({ kind: 'limit', at: floor.limit.until });
  return floor.catchingUp ? found.filter((deadline) => isRunning(floor, deadline)) : found;
}

function isRunning({ turn }: Floor, { kind }: Deadline): boolean {
  return kind !== 'waitOver' && kind !== 'limit' && turn?.status !== 'suspended';
}

/** When the floor next changes by itself, or `null`: the one alarm of its channel. */
export function nextDeadline(floor: Floor): Instant | null {
  let next: Instant | null = null;
  for (const { at } of running(floor)) next = next === null ? at : Math.min(next, at);
  return next;
}

function turnDeadlines(turn: Turn): readonly Deadline[] {
  const { agent } = turn;
  switch (turn.status) {
    case 'waiting': {
      const { wait } = turn;
      if (wait.ready || askOf(turn)?.is === 'granted') return [];
      const over: Deadline = { kind: 'waitOver', agent, at: wait.deadlineAt };
      if (wait.reason !== 'human' || wait.graceEndAt === null) return [over];
      return [{ kind: 'force', agent, at: wait.graceEndAt }, over];
    }
    case 'active': {
      const end: Deadline = { kind: 'expire', agent, at: endOf(turn) };
      return turn.silenceAt === null ? [end] : [{ kind: 'lapse', agent, at: turn.silenceAt }, end];
    }
    case 'suspended':
      return [{ kind: 'expire', agent, at: endOf(turn) }];
  }
}

/** When an agent that has just given this sign of work has been silent for too long; `null`: not while its tools run. */
export function quietUntil(
  { openWork, deadlineAt }: Pick<ActiveTurn, 'openWork' | 'deadlineAt'>,
  { open, limitMs }: { readonly open: number; readonly limitMs?: number },
  { at, timeoutMs }: { readonly at: Instant; readonly timeoutMs: number },
): Instant | null {
  if (open === 0) return at + timeoutMs;
  if (limitMs !== undefined) return at + limitMs;
  return open === openWork ? deadlineAt : null;
}

/** When a turn ends by itself, without a further sign of work or in any case. */
export function endOf({ deadlineAt, hardEndAt }: Exclude<Turn, WaitingTurn>): Instant {
  return deadlineAt === null ? hardEndAt : Math.min(deadlineAt, hardEndAt);
}
