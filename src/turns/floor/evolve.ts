import type { Evolution, Fact, FactOf } from './fact.ts';
import type {
  BackgroundRun,
  Floor,
  Held,
  FloorTask,
  Seat,
  TrustQuestion,
  Turn,
  ActiveTurn,
  Wait,
  WaitingTurn,
} from './floor.ts';
import type { AgentId, SeatSettings, MessageId } from './settings.ts';
import type { Instant } from '../../lib/time.ts';
import {
  findBackgroundRun,
  findTurn,
  moveSeat,
  newSeat,
  patchSeat,
  shownSeats,
  turnWithout,
  answeredWait,
  askAdvanced,
  askOf,
  cutWait,
  isGenerating,
  missedBy,
  patchedSeats,
  seatOf,
  shownWait,
  stoppedWait,
  turnOf,
  quietUntil,
  withTurn,
} from './seats.ts';
import { GAP_KEY, NOTHING_OF_A_DAY, NOTHING_USED } from './floor.ts';
import type { taskTurnShape } from './floor.ts';
import { NOBODY, openMs, today } from './gate.ts';
import { defined } from '../../lib/defined.ts';

/** Returns the floor after a fact. Throws "impossible: …", with channel and details, for some facts that do not fit. */
export function evolve(floor: Floor, fact: Fact, at: Instant): Floor {
  return apply(fact.type, fact, { floor, at });
}

const EVOLUTION: Evolution = {
  configured,
  settingsChanged: (floor, { settings, queue = floor.queue }) => ({ ...floor, settings, queue }),
  seatMoved: moveSeat,
  seatMarked: (floor, { agent, mark, on }) =>
    patchSeat(floor, agent, { assigned: { assigned: on }, disabled: { disabled: on }, present: { present: on } }[mark]),
  seatDropped: (floor, { agent }) => ({ ...floor, seats: floor.seats.filter((seat) => seat.agent !== agent) }),
  seatCreated: (floor, { seat }) => ({ ...floor, seats: [...floor.seats, newSeat(floor, seat)] }),
  announced,
  epochRaised: (floor, { by }) => ({ ...floor, epoch: floor.epoch + by, questions: floor.questions + by }),
  actRefused: (floor) => floor,
  exchangeOpened: opened,
  exchangeClosed: closed,
  usageReset: reset,
  floorPaused: (floor, { on }) => ({
    ...floor,
    condition: on ? 'paused' : floor.exchange === null ? 'resting' : 'open',
  }),
  prioritised,
  facilitatorAsked: (floor, { facilitator, ask, deadlineAt }) => ({
    ...floor,
    asks: ask,
    facilitation: { facilitator, ask, deadlineAt },
  }),
  facilitatorAnswered: (floor) => ({ ...floor, facilitation: null }),
  asideBegun: (floor, { type: _type, ...run }) => ({ ...floor, asides: [...(floor.asides ?? []), run] }),
  asideAsked: (floor, { type: _type, ...request }) => ({
    ...changeBackgroundRun(floor, request.agent, (run) => ({ ...run, ...request })),
    questions: Math.max(floor.questions, request.question.question),
  }),
  asideShown: (floor, { agent }) =>
    changeBackgroundRun(floor, agent, ({ question, ...run }) =>
      question === undefined ? run : { ...run, question: { ...question, shown: true } },
    ),
  asideAnswered: (floor, { agent }) =>
    changeBackgroundRun(floor, agent, ({ question: _question, until: _until, ...run }) => run),
  asideStopped: (floor, { agent }) => changeBackgroundRun(floor, agent, () => null),
  asideEnded: (floor, { agent, report }) => {
    const over = changeBackgroundRun(floor, agent, () => null);
    return report === undefined ? over : { ...over, reports: [...(floor.reports ?? []), { agent, text: report }] };
  },
  trustAsked: (floor, { type: _type, ...trust }) => changeTrust(floor, trust, () => ({ ...trust, shown: false })),
  trustShown: (floor, { agent, id }) =>
    changeTrust(floor, { agent, id }, (question) => question && { ...question, shown: true }),
  trustAnswered: (floor, { agent, id }) => changeTrust(floor, { agent, id }, () => undefined),
  reported: ({ reports = [], ...floor }, { line }) => ({
    ...floor,
    lines: line,
    notice: null,
    ...(reports.length > 1 ? { reports: reports.slice(1) } : {}),
  }),
  messageRouted: routed,
  injectReported: reported,
  messageAmended: amended,
  turnGranted: granted,
  turnContinued: continued,
  turnWaited: waited,
  taskBegun: (floor, { type: _type, ...task }) => ({
    ...floor,
    limit: null,
    stopped: false,
    task: {
      ...task,
      next: null,
      told: 0,
      since: floor.lines,
      ...(floor.task === undefined ? {} : { outer: floor.task }),
    },
  }),
  taskTurnAsked: (floor, { type: _type, ...next }) =>
    changeTask(floor, ({ held: _held, ...task }) => ({ ...task, next, told: 1 })),
  reviewerSet: (floor, { reviewer }) => changeTask(floor, (task) => ({ ...task, reviewer })),
  taskHeld: (floor) => changeTask(floor, (task) => ({ ...task, next: null, held: true })),
  taskOver,
  turnStopped: (floor, { agent }) => changeWait(floor, agent, stoppedWait),
  turnExtended: (floor, { agent, ms, until }) =>
    withTurn(floor, { ...extended(turnOf(floor, agent), ms), ...defined({ extendedTo: until }) }),
  turnResumed: resumed,
  turnEnded: ended,
  runBegun: (floor, { agent }) => withTurn(floor, { ...turnOf(floor, agent), run: true }),
  // No change: `turnEnded` has removed the turn with its mark `run`.
  runLeft: (floor) => floor,
  questionShown: (floor, { agent }) => changeWait(floor, agent, shownWait),
  questionClosed: (floor, fact, at) => {
    const turn = waitingTurn(floor, fact.agent);
    const wait = answeredWait(turn.wait, fact);
    // Without a restart, the generation continues. After a restart, the wait is over and the agent is prompted anew.
    return withTurn(floor, wait === null ? active(floor, turn, at) : { ...turn, wait });
  },
  waitAnswered: answerWait,
  said,
  worked,
  spent,
  disconnected: (floor, fact, at) => (fact.restart ? restarted(floor, fact, at) : { ...floor, catchingUp: true }),
  stoodStill,
  caughtUp: (floor) => ({ ...floor, catchingUp: false }),
};

function changeBackgroundRun(
  { asides: backgroundRuns = [], ...floor }: Floor,
  agent: AgentId,
  change: (run: BackgroundRun) => BackgroundRun | null,
): Floor {
  if (!backgroundRuns.some((run) => run.agent === agent))
    throw new Error(`impossible: ${agent} does nothing beside ${floor.channel}`);
  const next = backgroundRuns.flatMap((run) => (run.agent === agent ? (change(run) ?? []) : run));
  return { ...floor, ...(next.length > 0 ? { asides: next } : {}) };
}

function changeTask(floor: Floor, change: (task: FloorTask) => FloorTask): Floor {
  if (floor.task === undefined) throw new Error(`impossible: no task is open in ${floor.channel}`);
  return { ...floor, task: change(floor.task) };
}

/**
 * Removes a task. After the last task, every agent has used up its rounds of the open exchange, if rounds are limited.
 */
function taskOver(before: Floor, { id }: FactOf<'taskOver'>): Floor {
  const { task, ...floor } = before;
  if (task?.outer !== undefined) {
    const { outer, ...inner } = task;
    return { ...floor, task: outer.id === id ? inner : outer };
  }
  if (floor.exchange === null) return floor;
  const { rounds } = floor.settings;
  return { ...floor, seats: floor.seats.map((seat) => ({ ...seat, taken: Math.max(seat.taken, rounds) })) };
}

function changeTrust(
  { trust = [], ...floor }: Floor,
  { agent, id }: Pick<TrustQuestion, 'agent' | 'id'>,
  change: (question: TrustQuestion | undefined) => TrustQuestion | undefined,
): Floor {
  const isSame = (each: TrustQuestion): boolean => each.agent === agent && each.id === id;
  const changed = change(trust.find(isSame));
  const next = [...trust.filter((each) => !isSame(each)), ...(changed === undefined ? [] : [changed])];
  return { ...floor, ...(next.length > 0 ? { trust: next } : {}) };
}

function apply<T extends Fact['type']>(
  type: T,
  fact: FactOf<T>,
  { floor, at }: { readonly floor: Floor; readonly at: Instant },
): Floor {
  return EVOLUTION[type](floor, fact, at);
}

function announced(before: Floor, { key, repeat, announcement }: FactOf<'announced'>, at: Instant): Floor {
  if (key === GAP_KEY) {
    // A repeated announcement of a gap edits the earlier one, so the channel's last announcement stays the same.
    const notice = repeat > 1 ? before.notice : { key, count: repeat };
    return { ...before, gap: { count: repeat, at }, notice };
  }
  if (announcement.kind === 'ticket' && announcement.goesOn === true) return before;
  if (announcement.kind === 'answered') return answered(before, announcement);
  if (announcement.kind === 'trustAnswered') return before;
  if (announcement.kind === 'aside')
    return { ...withAnnouncedRun(before, announcement), notice: { key, count: repeat } };
  const lost = lostBy(announcement);
  const isRecovery = announcement.kind === 'recovered';
  const floor = isRecovery ? withTurn(before, { ...turnOf(before, announcement.agent), recovered: repeat }) : before;
  return {
    ...floor,
    notice: { key, count: repeat, ...defined({ lost }) },
    outage: floor.outage || announcement.kind === 'nobody',
    ...(announcement.kind === 'unaddressed' ? { toldToName: true as const } : {}),
  };
}

function withAnnouncedRun(
  floor: Floor,
  { agent, failed }: Extract<FactOf<'announced'>['announcement'], { kind: 'aside' }>,
): Floor {
  if (failed === undefined || findBackgroundRun(floor, agent) === undefined) return floor;
  return changeBackgroundRun(floor, agent, ({ failed: _failed, ...run }) => (failed ? { ...run, failed } : run));
}

/**
 * Stores an allowed tool call until its outcome is known. The announcement edits the request's post, so `notice` stays.
 */
function answered(
  floor: Floor,
  { kind: _kind, agent, approval, aside: isBackground, callOutcome, ...answer }: AnsweredNotice,
): Floor {
  if (approval === undefined) return floor;
  const isAwaited = callOutcome === undefined && answer.choice === 'allow';
  const awaited = (before: readonly AllowedCall[]): readonly AllowedCall[] => {
    const others = before.filter((other) => other.approval !== approval);
    return isAwaited ? [...others, { approval, answer }].slice(-MOST_AWAITED) : others;
  };
  if (isBackground === true) {
    if (findBackgroundRun(floor, agent) === undefined) return floor;
    return changeBackgroundRun(floor, agent, ({ allowed = [], ...run }) => {
      const next = awaited(allowed);
      return { ...run, ...(next.length === 0 ? {} : { allowed: [...next] }) };
    });
  }
  const found = findTurn(floor, agent);
  if (found === null) return floor;
  const { allowed, alsoAllowed = [], ...turn } = found;
  const next = awaited([...alsoAllowed, ...(allowed === undefined ? [] : [allowed])]);
  const others = next.slice(0, -1);
  return withTurn(floor, {
    ...turn,
    ...defined({ allowed: next.at(-1) }),
    ...(others.length === 0 ? {} : { alsoAllowed: others }),
  });
}

type AllowedCall = NonNullable<Turn['allowed']>;

/**
 * The most allowed tool calls without a known outcome that the floor keeps of a turn or background run. Older ones are
 * dropped.
 */
const MOST_AWAITED = 20;

type AnsweredNotice = Extract<FactOf<'announced'>['announcement'], { kind: 'answered' }>;

function lostBy(announcement: FactOf<'announced'>['announcement']): readonly AgentId[] | undefined {
  if (announcement.kind === 'nobody') return announcement.lost?.agents;
  return announcement.kind === 'disconnect' ? [...(announcement.also ?? []), announcement.agent] : undefined;
}

function configured(floor: Floor, fact: FactOf<'configured'>): Floor {
  const { settings, seats, configuration } = fact;
  const configuredSeats = seats.map((wanted) => {
    const seat = floor.seats.find((candidate) => candidate.agent === wanted.agent);
    return seat === undefined ? addedSeat(floor, wanted) : { ...seat, ...wanted };
  });
  const others = floor.seats.filter((seat) => !seats.some((wanted) => wanted.agent === seat.agent));
  return { ...floor, settings, configured: configuration, seats: [...configuredSeats, ...others] };
}

function addedSeat(floor: Floor, wanted: SeatSettings): Seat {
  return { ...newSeat(floor, wanted), ...(floor.exchange === null ? {} : { added: true as const }) };
}

function fresh({ added: _added, ...seat }: Seat): Seat {
  return { ...seat, taken: 0 };
}

function opened(floor: Floor, { limited }: FactOf<'exchangeOpened'>, at: Instant): Floor {
  const limit = limited === true ? floor.limit : null;
  if (floor.exchange !== null) {
    const again = floor.seats.map((seat) => ({ ...seat, taken: 0 }));
    return { ...floor, seats: again, exchange: { ...floor.exchange, silent: 0 }, limit };
  }
  const seats = floor.seats.map(fresh);
  const exchange = { openedAt: at, silent: 0, since: floor.epoch };
  return { ...floor, seats, exchange, condition: 'open', limit, stopped: false };
}

function reset(floor: Floor, { why }: FactOf<'usageReset'>, at: Instant): Floor {
  if (why === 'midnight') return { ...floor, limit: null };
  const exchange = floor.exchange === null ? null : { ...floor.exchange, openedAt: at, silent: 0 };
  const day = why === 'more' && floor.limit?.until != null ? { startedAt: at, ...NOTHING_OF_A_DAY } : floor.day;
  const limit = why === 'person' && floor.limit?.until === null ? null : floor.limit;
  return { ...floor, exchange, day, limit, usageSincePerson: NOTHING_USED };
}

function closed(floor: Floor, fact: FactOf<'exchangeClosed'>, at: Instant): Floor {
  const limited = fact.reason === 'limit';
  return {
    ...floor,
    condition: floor.condition === 'paused' ? 'paused' : 'resting',
    exchange: null,
    usageSincePerson: { ...floor.usageSincePerson, ms: openMs(floor, at) },
    facilitation: null,
    seats: floor.seats.map(fresh),
    prioritised: limited ? floor.prioritised : [],
    held: floor.held.map((held) => (held.until === 'exchange' ? { ...held, until: 'prompt' } : held)),
    limit: limited ? { budget: fact.budget ?? 'turns', until: fact.until ?? null } : floor.limit,
    stopped: fact.reason === 'stopped',
  };
}

const RANK = { operator: 0, person: 1, agent: 2 } as const;

/**
 * Orders called agents by the role that called them: `operator`, `person`, `agent`. Within a role, the first called is
 * first.
 */
function prioritised(floor: Floor, fact: FactOf<'prioritised'>): Floor {
  const earlier = floor.prioritised.find((named) => named.agent === fact.agent);
  const messages = [...(earlier?.messages ?? []), ...(fact.message === undefined ? [] : [fact.message])];
  const feedback = fact.feedback ?? earlier?.feedback;
  const words = defined({ feedback });
  if (earlier !== undefined && RANK[earlier.by] <= RANK[fact.by]) {
    const more = { messages, ...words };
    return {
      ...floor,
      prioritised: floor.prioritised.map((named) => (named === earlier ? { ...named, ...more } : named)),
    };
  }
  const others = floor.prioritised.filter((named) => named.agent !== fact.agent);
  const before = others.filter((named) => RANK[named.by] <= RANK[fact.by]);
  const behind = others.filter((named) => RANK[named.by] > RANK[fact.by]);
  return { ...floor, prioritised: [...before, { agent: fact.agent, by: fact.by, messages, ...words }, ...behind] };
}

type Routed = FactOf<'messageRouted'>;
type Reported = FactOf<'injectReported'>;

/** Whether a message is from a person and not yet in the conversation. */
export function isNewFromPerson({ fromProgram, line }: Held): boolean {
  return fromProgram !== true && line === null;
}

/** Compares two sort keys of a platform. The shorter key sorts first; keys of equal length sort as text. */
export function compareOrder(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function routed(before: Floor, fact: Routed): Floor {
  const heldMessage = before.held.find((held) => held.id === fact.id);
  const floor = {
    ...before,
    lines: fact.line ?? before.lines,
    notice: fact.line === null ? before.notice : null,
    held: before.held.filter((held) => held.id !== fact.id),
  };
  const { fate } = fact;
  const { id, addressed, order, fromProgram } = fact;
  const message = { id, addressed, order, ...defined({ fromProgram }) };
  switch (fate.state) {
    case 'held':
      return hold(floor, { ...message, until: fate.until, line: heldMessage?.line ?? fact.line });
    case 'unrouted':
      return fate.why === NOBODY
        ? hold(floor, { ...message, until: 'agent', line: heldMessage?.line ?? null })
        : withoutMessage(floor, fact.id);
    case 'ignored':
      return withoutMessage(floor, fact.id);
    case 'delivered':
      return delivered(floor, { ...fact, line: fact.line ?? heldMessage?.line ?? null }, fate.via);
  }
}

function delivered(floor: Floor, fact: Routed, via: 'prompt' | 'inject' | 'interrupt' | 'observe'): Floor {
  const { turn } = floor;
  const line = fact.line ?? floor.lines;
  const message = { id: fact.id, line, addressed: fact.addressed, ...defined({ fromProgram: fact.fromProgram }) };
  if (via === 'prompt' || turn === null) return floor;
  if (via === 'interrupt') {
    if (turn.status !== 'waiting') return floor;
    return { ...floor, turn: { ...turn, wait: { ...turn.wait, answers: [...turn.wait.answers, message] } } };
  }
  if (turn.status !== 'active' || fact.line === null) return floor;
  const seats = shownSeats(floor, turn.agent, fact.line);
  if (via === 'observe') return { ...floor, seats };
  return { ...floor, seats, turn: { ...turn, injecting: [...turn.injecting, message] } };
}

function hold(floor: Floor, message: Held): Floor {
  const index = floor.held.findIndex((other) => compareOrder(message.order, other.order) < 0);
  const place = index === -1 ? floor.held.length : index;
  return { ...floor, held: [...floor.held.slice(0, place), message, ...floor.held.slice(place)] };
}

function reported(floor: Floor, fact: Reported): Floor {
  const turn = turnOf(floor, fact.agent);
  const message = messageInDelivery(floor, turn, fact);
  if (message === undefined)
    throw new Error(`impossible: ${fact.id} is not being given to ${fact.agent} in ${floor.channel}`);
  const injecting = turn.injecting.filter((candidate) => candidate.id !== fact.id);
  const given = turn.given.filter((candidate) => candidate.id !== fact.id);
  return fact.outcome === 'injected'
    ? withTurn(floor, { ...turn, injecting, given: [...given, givenMessage(fact.id, fact)] })
    : withTurn(floor, { ...turn, injecting, given, unseen: [...turn.unseen, message] });
}

function messageInDelivery(floor: Floor, turn: Turn, { id, outcome }: Reported): Turn['unseen'][number] | undefined {
  if (outcome !== 'no-room') return turn.injecting.find((message) => message.id === id);
  return turn.given.some((message) => message.id === id) ? returnedMessage(floor, turn, id) : undefined;
}

function returnedMessage({ lines }: Floor, { given }: Turn, id: MessageId): Turn['unseen'][number] {
  const { addressed = [], fromProgram } = given.find((message) => message.id === id) ?? {};
  return { id, line: lines, addressed, ...defined({ fromProgram }) };
}

function amended(before: Floor, fact: FactOf<'messageAmended'>): Floor {
  const floor = fact.change === 'deleted' ? withoutDeleted(before, fact.id) : before;
  if (fact.line === null) return floor;
  const seats = fact.holder === null ? floor.seats : shownSeats(floor, fact.holder, fact.line);
  return { ...floor, seats, lines: fact.line, notice: null };
}

function withoutDeleted(before: Floor, id: Held['id']): Floor {
  const floor = withoutMessage(before, id);
  return {
    ...floor,
    turn: floor.turn === null ? null : turnWithout(floor.turn, id),
    parked: floor.parked.map((turn) => turnWithout(turn, id)),
  };
}

function withoutMessage(floor: Floor, id: Held['id']): Floor {
  return {
    ...floor,
    held: floor.held.filter((message) => message.id !== id),
    prioritised: floor.prioritised.map((call) => ({
      ...call,
      messages: call.messages.filter((message) => message !== id),
    })),
  };
}

function continued(before: Floor, fact: FactOf<'turnContinued'>, at: Instant): Floor {
  const floor = patchSeat(before, fact.agent, { seenLine: fact.uptoLine });
  const turn = activeTurn(floor, fact.agent);
  return withTurn(floor, {
    ...turn,
    ...working(floor, turn, at),
    unseen: [],
    injecting: [],
    given: fact.messages.map((id) => givenMessage(id, fact)),
    answered: [...turn.answered, ...turn.given.map(({ id }) => id)],
    reprompts: turn.reprompts + 1,
  });
}

function answerWait(floor: Floor, fact: FactOf<'waitAnswered'>): Floor {
  const { agent, messages, ready } = fact;
  const waiting = changeWait(floor, agent, (wait) => ({ ...wait, answers: messages, ready }));
  return giveUpFloor(waiting, fact);
}

function worked(floor: Floor, fact: FactOf<'worked'>, at: Instant): Floor {
  const turn = activeTurn(floor, fact.agent);
  const next = { ...turn, openWork: fact.open };
  const quietAt = quietUntil(turn, fact, { at, timeoutMs: seatOf(floor, fact.agent).timeoutMs });
  const deadlineAt = quietAt === null ? null : noSooner(turn, quietAt);
  return withTurn(floor, { ...next, silenceAt: working(floor, next, at).silenceAt, deadlineAt });
}

function activeTurn(floor: Floor, agent: AgentId): ActiveTurn {
  const turn = turnOf(floor, agent);
  if (turn.status !== 'active') throw new Error(`impossible: ${agent} is ${turn.status} in ${floor.channel}`);
  return turn;
}

function waitingTurn(floor: Floor, agent: AgentId): WaitingTurn {
  const turn = turnOf(floor, agent);
  if (turn.status !== 'waiting') throw new Error(`impossible: ${agent} does not wait in ${floor.channel}`);
  return turn;
}

function changeWait(floor: Floor, agent: AgentId, change: (wait: Wait) => Wait): Floor {
  const turn = waitingTurn(floor, agent);
  return withTurn(floor, { ...turn, wait: change(turn.wait) });
}

function extended(turn: Turn, ms: number): Turn {
  switch (turn.status) {
    case 'active':
      return {
        ...turn,
        deadlineAt: turn.deadlineAt === null ? null : turn.deadlineAt + ms,
        hardEndAt: turn.hardEndAt + ms,
        silenceAt: turn.silenceAt === null ? null : turn.silenceAt + ms,
      };
    case 'suspended':
      return { ...turn, deadlineAt: turn.deadlineAt + ms, hardEndAt: turn.hardEndAt + ms };
    case 'waiting':
      return { ...turn, wait: { ...turn.wait, deadlineAt: turn.wait.deadlineAt + ms } };
  }
}

function stoodStill(before: Floor, fact: FactOf<'stoodStill'>): Floor {
  const { ms } = fact;
  const floor = withoutMinutes(before, ms);
  const { turn, parked, facilitation } = floor;
  return {
    ...floor,
    turn: turn === null ? null : delayed(turn, fact),
    parked: parked.map((each) => delayed(each, fact)),
    facilitation: facilitation === null ? null : { ...facilitation, deadlineAt: facilitation.deadlineAt + ms },
  };
}

function withoutMinutes(floor: Floor, ms: number): Floor {
  const { turn, parked, exchange, asides: backgroundRuns } = floor;
  const postponed = (run: BackgroundRun): BackgroundRun =>
    run.until === undefined ? run : { ...run, until: run.until + ms };
  const addStandstill = (each: Turn): Turn => ({ ...each, stoodStillMs: (each.stoodStillMs ?? 0) + ms });
  return {
    ...floor,
    turn: turn === null ? null : addStandstill(turn),
    parked: parked.map(addStandstill),
    exchange: exchange === null ? null : { ...exchange, openedAt: exchange.openedAt + ms },
    ...(backgroundRuns === undefined ? {} : { asides: backgroundRuns.map(postponed) }),
  };
}

function delayed(before: Turn, { ms, extensions }: FactOf<'stoodStill'>): Turn {
  const { extendedTo } = before;
  const isMoved = extensions === true && extendedTo !== undefined;
  const turn = { ...extended(before, ms), ...(isMoved ? { extendedTo: extendedTo + ms } : {}) };
  if (turn.status !== 'waiting' || turn.wait.reason !== 'human' || turn.wait.graceEndAt === null) return turn;
  return { ...turn, wait: { ...turn.wait, graceEndAt: turn.wait.graceEndAt + ms } };
}

type TurnBase = Omit<ActiveTurn, 'status' | 'deadlineAt' | 'hardEndAt' | 'silenceAt' | 'openWork'>;

/** The fields that a turn keeps when its status changes. `fresh` is left out: only the turn's first prompt needs it. */
function turnBase(turn: Turn): TurnBase {
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
    ...defined({
      words: turn.words,
      stoodStillMs: turn.stoodStillMs,
      extendedTo: turn.extendedTo,
      recovered: turn.recovered,
      run: turn.run,
      feedback: turn.feedback,
      brief: turn.brief,
      apart: turn.apart,
      allowed: turn.allowed,
      alsoAllowed: turn.alsoAllowed,
    }),
  };
}

/**
 * The timeout and the silence deadline of a turn after a sign of work; both `null` while tool calls or other work is
 * open. An operator's extension moves both.
 */
function working(
  floor: Floor,
  turn: Pick<ActiveTurn, 'agent' | 'said' | 'openWork' | 'extendedTo'>,
  at: Instant,
): Pick<ActiveTurn, 'deadlineAt' | 'silenceAt'> {
  const { agent, said: hasSaid, openWork } = turn;
  if (openWork > 0) return { deadlineAt: null, silenceAt: null };
  const { autoDetectTurnEnd, autoDetectSilenceMs } = floor.settings;
  const { timeoutMs } = seatOf(floor, agent);
  const deadlineAt = noSooner(turn, at + timeoutMs);
  return { deadlineAt, silenceAt: autoDetectTurnEnd && hasSaid ? deadlineAt - timeoutMs + autoDetectSilenceMs : null };
}

function noSooner({ extendedTo = 0 }: Pick<ActiveTurn, 'extendedTo'>, endsAt: Instant): Instant {
  return Math.max(extendedTo, endsAt);
}

function briefIn({ task }: Floor): { readonly [K in keyof typeof taskTurnShape]?: Turn[K] | undefined } {
  return { brief: task?.next?.brief, fresh: task?.next?.fresh, apart: task?.next?.apart };
}

function granted(before: Floor, fact: FactOf<'turnGranted'>, at: Instant): Floor {
  const { toldToName: _toldToName, ...floor } = before;
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
    given: fact.messages.map((id) => givenMessage(id, fact)),
    answered: [],
    reprompts: 0,
    place: fact.keepsPlace ? floor.queue.indexOf(fact.agent) : null,
    ...defined({ feedback: fact.feedback, ...(fact.forTask && briefIn(floor)) }),
  };
  const { usageSincePerson, task } = floor;
  const isAsked = fact.askedBy !== undefined;
  const counted = fact.forTask === true ? 0 : 1;
  return {
    ...floor,
    seats: patchedSeats(floor, fact.agent, { seenLine: fact.uptoLine, taken: seat.taken + (isAsked ? 0 : counted) }),
    epoch: fact.epoch,
    usageSincePerson: { ...usageSincePerson, turns: usageSincePerson.turns + counted },
    ...(counted === 0 && task !== undefined ? { task: { ...task, next: null } } : {}),
    prioritised: floor.prioritised.filter((named) => named.agent !== fact.agent),
    parked: floor.parked.map((asker) => (isAsked ? askAdvanced(asker, fact.agent, 'granted') : asker)),
    turn,
  };
}

function givenMessage(id: MessageId, { headers = [] }: Pick<Reported, 'headers'>): Turn['given'][number] {
  return { id, begun: false, ...headers.find((message) => message.id === id) };
}

function waited(floor: Floor, fact: FactOf<'turnWaited'>, at: Instant): Floor {
  const wait = waitFor(fact.wait);
  const questions = wait.reason === 'approval' ? Math.max(floor.questions, wait.question.question) : floor.questions;
  const turn = activeTurn(floor, fact.agent);
  const leftMs = Math.max(0, turn.hardEndAt - at);
  const waiting = withTurn(floor, { ...turnBase(turn), status: 'waiting', leftMs, wait });
  return giveUpFloor({ ...waiting, questions }, fact);
}

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

function active(floor: Floor, turn: Exclude<Turn, ActiveTurn>, at: Instant): ActiveTurn {
  const next = { ...turnBase(turn), openWork: 0 };
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
      given: fact.messages.map((id) => turn.given.find((earlier) => earlier.id === id) ?? givenMessage(id, fact)),
    },
  };
}

function oneTurnMore({ usageSincePerson, settings }: Floor): Floor['usageSincePerson'] {
  const { turns } = usageSincePerson;
  return { ...usageSincePerson, turns: Math.max(turns, Math.min(turns + 1, settings.maxTurns)) };
}

function restarted(floor: Floor, { leftMs }: FactOf<'disconnected'>, at: Instant): Floor {
  const seats = floor.seats.map((seat) => ({ ...seat, present: false }));
  const turn = floor.turn?.status === 'waiting' ? { ...floor.turn, wait: cutWait(floor.turn.wait) } : floor.turn;
  const isCut = turn !== null && turn.status !== 'waiting';
  return {
    ...floor,
    catchingUp: true,
    seats,
    turn: isCut ? suspended(turn, seatOf(floor, turn.agent), { at, knownMs: leftMs }) : turn,
  };
}

/**
 * Suspends a turn that a restart interrupted. Its agent has one timeout to return. From now, the hard end is about as
 * far away as at the last known sign of work, and at least one timeout. If work was open, the fact has the time left
 * (`knownMs`). Journals of earlier versions lack it: the turn's start then counts as the last sign.
 */
function suspended(
  turn: Exclude<Turn, WaitingTurn>,
  { timeoutMs }: Seat,
  { at, knownMs }: { readonly at: Instant; readonly knownMs: number | undefined },
): Turn {
  const isAtWork = turn.status === 'active' && turn.openWork > 0;
  const lastSignAt = isAtWork || turn.deadlineAt === null ? turn.startedAt : turn.deadlineAt - timeoutMs;
  const leftMs = Math.max(timeoutMs, knownMs ?? turn.hardEndAt - lastSignAt);
  return { ...turnBase(turn), status: 'suspended', deadlineAt: at + timeoutMs, hardEndAt: at + leftMs, leftMs };
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
      ...fact.returned.map((id): Held => ({ ...returnedMessage(floor, turn, id), order: '', until: 'next' })),
      // Another turn that ended may have given back the same message.
      ...missed
        .filter(({ id }) => !floor.held.some((held) => held.id === id))
        .map((message): Held => ({ ...message, order: '', until: 'prompt' })),
      ...floor.held,
    ],
    day: { ...day, ms: day.ms + Math.max(0, at - turn.startedAt - (turn.stoodStillMs ?? 0)) },
    exchange: exchange === null || !isCounted ? exchange : { ...exchange, silent: fact.said ? 0 : exchange.silent + 1 },
  };
  return isCounted || turn.brief !== undefined ? over : uncountTurn(over, floor, fact.agent);
}

function uncountTurn(floor: Floor, before: Floor, agent: AgentId): Floor {
  const { usageSincePerson } = floor;
  const wasAsked = before.parked.some((asker) => askOf(asker)?.is === 'granted' && askOf(asker)?.agent === agent);
  const taken = Math.max(0, seatOf(floor, agent).taken - (wasAsked ? 0 : 1));
  const turns = Math.max(0, usageSincePerson.turns - 1);
  const failed = (usageSincePerson.failed ?? 0) + 1;
  return { ...patchSeat(floor, agent, { taken }), usageSincePerson: { ...usageSincePerson, turns, failed } };
}

function said(floor: Floor, fact: FactOf<'said'>, at: Instant): Floor {
  const turn = turnOf(floor, fact.agent);
  if (!isGenerating(turn)) throw new Error(`impossible: ${fact.agent} is ${turn.status} in ${floor.channel}`);
  const given = turn.given.map((message) => ({ ...message, begun: true }));
  let next: Turn = { ...turn, said: true, words: joinedWords(turn.words, fact.text), mentions: fact.mentions, given };
  // The turn's time stops while people decide.
  if (next.status === 'active' && next.openWork === 0) {
    const { deadlineAt, silenceAt } = working(floor, next, fact.workedAt ?? at);
    const isLate = fact.workedAt !== undefined;
    next = {
      ...next,
      deadlineAt: isLate ? later(next.deadlineAt, deadlineAt) : deadlineAt,
      silenceAt: isLate ? later(next.silenceAt, silenceAt) : silenceAt,
    };
  }
  const spoken = withTurn(floor, next);
  return { ...spoken, seats: shownSeats(spoken, fact.agent, fact.line), lines: fact.line, notice: null };
}

/** The most UTF-16 units of a turn's text that the floor keeps. Of a longer text, the beginning is cut. */
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
