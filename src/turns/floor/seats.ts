import type {
  ActiveTurn,
  BackgroundRun,
  Floor,
  Seat,
  Status,
  TrustQuestion,
  Turn,
  Wait,
  WaitingTurn,
} from './floor.ts';
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
 * All transitions of a seat: the specification's thirteen rows, then further rows. `evolve` throws for others.
 * The table and diagram in docs/internals.md are generated from these rows.
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

/** The name of a transition's cause. */
export type Trigger = (typeof TRANSITIONS)[number]['trigger'];

const ALLOWED: ReadonlySet<string> = new Set(
  TRANSITIONS.flatMap(({ from, to, trigger }) => from.map((each) => `${each} ${to} ${trigger}`)),
);

/** Whether `TRANSITIONS` lists a transition of a seat. */
export function isAllowed(from: Status, to: Status, trigger: Trigger): boolean {
  return ALLOWED.has(`${from} ${to} ${trigger}`);
}

/**
 * How many of the newest lines of the conversation are new to the agent of a new seat. For a new session, at least
 * these lines are new.
 */
export const LINES_FOR_NEWCOMERS = 50;

/** The seat of an agent; `undefined` when the agent has none at this floor. */
export function findSeat(floor: Floor, agent: AgentId): Seat | undefined {
  for (const seat of floor.seats) if (seat.agent === agent) return seat;
  return undefined;
}

/** The seat of an agent. Throws when the agent has none at this floor. */
export function seatOf(floor: Floor, agent: AgentId): Seat {
  const seat = findSeat(floor, agent);
  if (seat === undefined) throw new Error(`impossible: ${agent} has no seat in ${floor.channel}`);
  return seat;
}

/** The floor with one seat changed. */
export function patchSeat(floor: Floor, agent: AgentId, patch: Partial<Seat>): Floor {
  return { ...floor, seats: patchedSeats(floor, agent, patch) };
}

/** The seats with one of them changed. */
export function patchedSeats(floor: Floor, agent: AgentId, patch: Partial<Seat>): readonly Seat[] {
  const changed = { ...seatOf(floor, agent), ...patch };
  return floor.seats.map((seat) => (seat.agent === agent ? changed : seat));
}

/** The seats after an agent got or wrote a line. Changes nothing when the agent missed earlier lines. */
export function shownSeats(floor: Floor, agent: AgentId, line: number): readonly Seat[] {
  return seatOf(floor, agent).seenLine === line - 1 ? patchedSeats(floor, agent, { seenLine: line }) : floor.seats;
}

/** A seat for an agent that is not connected yet. */
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

/** A transition of a seat. */
export type Move = {
  readonly agent: AgentId;
  readonly from: Status;
  readonly to: Status;
  readonly trigger: Trigger;
  readonly place?: number;
};

/** The floor after a transition. Throws when the seat is not `from`, or `TRANSITIONS` does not list the transition. */
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

/** All turns of a floor, the holder's first. */
export function turnsOf({ turn, parked }: Floor): readonly Turn[] {
  return turn === null ? parked : [turn, ...parked];
}

/** The turn of an agent, with or without the floor; `null` for none. */
export function findTurn(floor: Floor, agent: AgentId): Turn | null {
  if (floor.turn?.agent === agent) return floor.turn;
  return floor.parked.find((turn) => turn.agent === agent) ?? null;
}

/** The turn of an agent, with or without the floor. Throws when there is none. */
export function turnOf(floor: Floor, agent: AgentId): Turn {
  const turn = findTurn(floor, agent);
  if (turn === null) throw new Error(`impossible: ${agent} has no turn in ${floor.channel}`);
  return turn;
}

/** The wait of a turn; `null` when the turn does not wait. */
export function waitOf(turn: Turn | null | undefined): Wait | null {
  return turn?.status === 'waiting' ? turn.wait : null;
}

/** The agent whose answer a turn waits for, and its progress; `null` for no agent, and when the wait is over. */
export function askOf(turn: Turn): Extract<Wait, { reason: 'answer' }>['of'] | null {
  const wait = waitOf(turn);
  return wait?.reason === 'answer' && !wait.ready ? (wait.of ?? null) : null;
}

/** The turn `asker` after `agent` got the floor or ended its turn. Unchanged when `asker` does not wait for `agent`. */
export function askAdvanced(asker: Turn, agent: AgentId, is: 'granted' | 'answered' | 'silent'): Turn {
  if (asker.status !== 'waiting' || asker.wait.reason !== 'answer' || askOf(asker)?.agent !== agent) return asker;
  return { ...asker, wait: { ...asker.wait, ready: is !== 'granted', of: { agent, is } } };
}

/**
 * Whether a button that was drawn under an epoch still applies: the epoch is the floor's last one, or one of the open
 * exchange, or that of a turn that is not over.
 */
export function isOfNow(floor: Floor, epoch: number): boolean {
  const { exchange } = floor;
  if (epoch >= floor.epoch) return epoch === floor.epoch;
  if (exchange !== null && epoch > exchange.since) return true;
  return turnsOf(floor).some((turn) => turn.epoch === epoch);
}

/** Whether an answer is for a request: the numbers are equal, and the keys too if the answer has a key. */
export function isAnswerTo(
  request: Pick<Question, 'question' | 'key'>,
  answer: { readonly question: number; readonly key?: string },
): boolean {
  return request.question === answer.question && (answer.key === undefined || answer.key === request.key);
}

/** The holder's open request; `null` for none. */
export function openQuestion({ turn }: Floor): Question | null {
  const wait = turn?.status === 'waiting' ? turn.wait : null;
  return wait?.reason === 'approval' && !wait.ready ? wait.question : null;
}

/** A request after its agent was restarted. It has no always-allow rules, because a decision then counts once. */
export function requestAfterRestart({ always: _always, ...question }: Question): Question {
  return { ...question, restarted: true };
}

/** The wait after the channel showed its request. Waits for other reasons are returned unchanged. */
export function shownWait(wait: Wait): Wait {
  return wait.reason === 'approval' ? { ...wait, question: { ...wait.question, shown: true } } : wait;
}

/** The wait after its interrupted generation stopped. Waits for other reasons are returned unchanged. */
export function stoppedWait(wait: Wait): Wait {
  return wait.reason === 'human' ? { ...wait, graceEndAt: null } : wait;
}

/**
 * The wait after a restart of Conch. A request that does not outlive the restart is over (`ready`). An interrupted
 * generation no longer needs to stop.
 */
export function cutWait(wait: Wait): Wait {
  if (wait.reason !== 'approval') return stoppedWait(wait);
  const { lasting } = wait.question;
  if (lasting === undefined) return { ...wait, ready: true };
  return { ...wait, cut: true, question: lasting === 'answer' ? requestAfterRestart(wait.question) : wait.question };
}

/**
 * Returns the ended wait of a turn that a restart interrupted, after its request was closed. `null` for other waits,
 * whose generation continues. If the agent was restarted and the request was decided, the wait has the decision
 * (`decided`) for the agent's next prompt.
 */
export function answeredWait(
  wait: Wait,
  { choice, reason }: Pick<DecidedRequest, 'reason'> & { readonly choice: Choice | null },
): Wait | null {
  if (wait.reason !== 'approval' || wait.cut !== true) return null;
  const { title, restarted } = wait.question;
  if (choice === null || restarted !== true) return { ...wait, ready: true };
  const decided = { title, choice, ...defined({ reason }) };
  return { ...wait, ready: true, decided };
}

/**
 * The id of the sessions for background runs of a channel. Channel ids contain no spaces, so no channel has this id.
 */
export function backgroundSessionIdOf(channel: ChannelId): ChannelId {
  return `${channel}${BACKGROUND_SUFFIX}`;
}

/** The channel of a session's id, and whether the session is for background runs. */
export function parseSessionId(id: ChannelId): { readonly channel: ChannelId; readonly aside?: true } {
  return id.endsWith(BACKGROUND_SUFFIX)
    ? { channel: id.slice(0, -BACKGROUND_SUFFIX.length), aside: true }
    : { channel: id };
}

const BACKGROUND_SUFFIX = ' +';

/** The background run of an agent; `undefined` for none. */
export function findBackgroundRun({ asides: backgroundRuns }: Floor, agent: AgentId): BackgroundRun | undefined {
  return backgroundRuns?.find((run) => run.agent === agent);
}

type AskingBackgroundRun = BackgroundRun & Required<Pick<BackgroundRun, 'question'>>;

/** The background run whose open request an answer is for; `undefined` for none. */
export function findAskingRun(
  { asides: backgroundRuns }: Floor,
  answer: { readonly question: number; readonly key?: string },
): AskingBackgroundRun | undefined {
  return backgroundRuns?.find(
    (run): run is AskingBackgroundRun => run.question !== undefined && isAnswerTo(run.question, answer),
  );
}

/** Why Conch stops a background run: the change or the state of its agent's seat. */
export const BACKGROUND_RUN_ENDS = ['disabled', 'removed', 'unconfigured', 'unseated'] as const;

/** Why a background run was stopped, in words for people. */
export const BACKGROUND_RUN_END_WORDS: Readonly<Record<(typeof BACKGROUND_RUN_ENDS)[number], string>> = {
  disabled: 'its agent was disabled',
  removed: 'its agent was removed from the channel',
  unconfigured: 'the configuration has no seat for its agent',
  unseated: 'its agent has no seat here, or is disabled',
};

/**
 * An open request with its agent and epoch. For a background run, the epoch is the run's number; `null` when unknown.
 */
export type FloorQuestion = {
  readonly agent: AgentId;
  readonly isBackground: boolean;
  readonly epoch: number | null;
  readonly question: Question;
};

type Asking = {
  readonly holder: { readonly agent: AgentId; readonly epoch: number; readonly approval: Question | null } | null;
  readonly asides?: readonly BackgroundRun[];
};

/** The open requests: the holder's request first, then the requests of background runs. */
export function requestsOn({ holder, asides: backgroundRuns = [] }: Asking): readonly FloorQuestion[] {
  const ofTurn = holder?.approval == null ? [] : [{ ...holder, isBackground: false, question: holder.approval }];
  const ofBackgroundRuns = backgroundRuns.flatMap(({ agent, run: epoch = null, question }) =>
    question === undefined ? [] : [{ agent, isBackground: true, epoch, question }],
  );
  return [...ofTurn, ...ofBackgroundRuns];
}

/** The id that ties posts to a request (`approval:3`) or to a question about an agent's files (`trust:dev a1b2`). */
export function requestPostId(
  request: { readonly question: number } | { readonly agent: AgentId; readonly id: string },
): string {
  return 'question' in request ? `approval:${request.question}` : `trust:${request.agent} ${request.id}`;
}

/** The open requests, and the open questions about files in agents' folders, with their ids. */
export function requestsAndTrustOn({
  trust = [],
  ...floor
}: Asking & { readonly trust?: readonly TrustQuestion[] }): readonly OpenRequest[] {
  return [
    ...requestsOn(floor).map(({ agent, question }) => ({ agent, id: requestPostId(question), title: question.title })),
    ...trust.map(({ agent, id, folder }) => ({
      agent,
      id: requestPostId({ agent, id }),
      title: `trust the files in ${folder}`,
    })),
  ];
}

/** An open request or question about files: the agent, the id that ties posts to the question, and a title. */
export type OpenRequest = { readonly agent: AgentId; readonly id: string; readonly title: string };

/** The open request with a number; `null` for none. */
export function requestByNumber(view: Asking, number: number): FloorQuestion | null {
  return requestsOn(view).find(({ question }) => question.question === number) ?? null;
}

/** The open request with a key; `null` for none. */
export function requestByKey(view: Asking, key: string): FloorQuestion | null {
  return requestsOn(view).find(({ question }) => question.key === key) ?? null;
}

/** The open request for an approval; `null` for none. */
export function requestByApproval(view: Asking, approval: string): Question | null {
  return requestsOn(view).find(({ question }) => question.approval === approval)?.question ?? null;
}

/** The holder's turn while it is active; `null` for no turn, and while the turn waits or is suspended. */
export function speaking({ turn }: Floor): ActiveTurn | null {
  return turn?.status === 'active' ? turn : null;
}

/** Whether the turn can still produce text: it is active, or waits for a decision with its generation running. */
export function isGenerating(turn: Turn): boolean {
  const wait = waitOf(turn);
  return turn.status === 'active' || (wait?.reason === 'approval' && !wait.ready && wait.cut !== true);
}

/**
 * Messages that a turn's agent may lack: messages that were not injected or had no room in a prompt, injected messages
 * whose outcome is not reported, and messages for the prompt after the turn's wait.
 */
export function missedBy(turn: Turn): Turn['unseen'] {
  return [...turn.unseen, ...turn.injecting, ...(waitOf(turn)?.answers ?? [])];
}

/** The turn without a message. */
export function turnWithout(turn: Turn, id: MessageId): Turn {
  const isOther = (message: { readonly id: MessageId }): boolean => message.id !== id;
  const otherMessages = {
    injecting: turn.injecting.filter(isOther),
    unseen: turn.unseen.filter(isOther),
    given: turn.given.filter(isOther),
    answered: turn.answered.filter((answered) => answered !== id),
  };
  if (turn.status !== 'waiting') return { ...turn, ...otherMessages };
  return { ...turn, ...otherMessages, wait: { ...turn.wait, answers: turn.wait.answers.filter(isOther) } };
}

/**
 * Messages that a turn's agent got and said nothing after. Leaves out messages that are held, or that another turn has.
 */
export function unclaimed(floor: Floor, turn: Turn): readonly MessageId[] {
  if (turn.given.length === 0) return [];
  const turns = turnsOf(floor);
  const others = turns.filter(({ epoch }) => epoch !== turn.epoch).flatMap(({ given }) => given);
  const missed = turns.flatMap(missedBy);
  const claimed = new Set([...others, ...missed, ...floor.held].map(({ id }) => id));
  return turn.given.filter(({ id, begun }) => !begun && !claimed.has(id)).map(({ id }) => id);
}

/** The floor with this turn in place of the agent's present turn. */
export function withTurn(floor: Floor, turn: Turn): Floor {
  if (floor.turn?.agent === turn.agent) return { ...floor, turn };
  return { ...floor, parked: floor.parked.map((parked) => (parked.agent === turn.agent ? turn : parked)) };
}

/** A deadline of a floor. `kind`: the event that it causes. */
export type Deadline =
  | { readonly kind: 'expire' | 'lapse' | 'force' | 'waitOver'; readonly agent: AgentId; readonly at: Instant }
  | { readonly kind: 'choose' | 'limit'; readonly at: Instant };

/**
 * The deadlines of turns, of the facilitator and of a limit, earliest first. Until the channel's history is read, waits
 * do not time out and limits do not end, because a message may have come meanwhile. If the holder's turn is suspended
 * then, the floor has no deadline.
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

/** The earliest deadline of a floor; `null` for none. */
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

/**
 * When the turn times out after this sign of work. `open`: the number of tool calls and other pieces of work that are
 * now open. `limitMs`: their longest duration from now on. Without `limitMs`, open work has no known end (`null`), and
 * a sign with an unchanged number of open pieces keeps the deadline.
 */
export function quietUntil(
  { openWork, deadlineAt }: Pick<ActiveTurn, 'openWork' | 'deadlineAt'>,
  { open, limitMs }: { readonly open: number; readonly limitMs?: number },
  { at, timeoutMs }: { readonly at: Instant; readonly timeoutMs: number },
): Instant | null {
  if (open === 0) return at + timeoutMs;
  if (limitMs !== undefined) return at + limitMs;
  return open === openWork ? deadlineAt : null;
}

/** When a turn times out or reaches its hard end, whichever is first. */
export function endOf({ deadlineAt, hardEndAt }: Exclude<Turn, WaitingTurn>): Instant {
  return deadlineAt === null ? hardEndAt : Math.min(deadlineAt, hardEndAt);
}
