import { TURNS } from './evolve-turn.ts';
import type { Evolution, Fact, FactOf } from './fact.ts';
import type { Aside, Floor, Held, Seat, TrustQuestion, Turn } from './floor.ts';
import type { AgentId, SeatSettings } from './settings.ts';
import type { Instant } from '../../lib/time.ts';
import { asideOf, changeTurn, findTurn, moveSeat, newSeat, patchSeat, shownSeats, turnWithout } from './seats.ts';
import { GAP_KEY, NOTHING_USED } from './floor.ts';
import { NOBODY, openMs } from './gate.ts';

/**
 * The floor after a fact. Total over every fact that `decide` can produce; a fact that does not fit the floor is a bug
 * and throws "impossible: …", naming the channel, the agent and what was asked.
 */
export function evolve(floor: Floor, fact: Fact, at: Instant): Floor {
  return apply(fact.type, fact, { floor, at });
}

/** What each fact does. */
const EVOLUTION: Evolution = {
  configured,
  settingsChanged: (floor, { settings, queue = floor.queue }) => ({ ...floor, settings, queue }),
  seatMoved: moveSeat,
  seatMarked: (floor, fact) => patchSeat(floor, fact.agent, marked(fact)),
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
  asideBegun: (floor, { type: _type, ...aside }) => ({ ...floor, asides: [...(floor.asides ?? []), aside] }),
  asideAsked: (floor, { type: _type, ...asked }) => ({
    ...changeAside(floor, asked.agent, (aside) => ({ ...aside, ...asked })),
    questions: Math.max(floor.questions, asked.question.question),
  }),
  asideShown: (floor, { agent }) =>
    changeAside(floor, agent, ({ question, ...aside }) =>
      question === undefined ? aside : { ...aside, question: { ...question, shown: true } },
    ),
  asideAnswered: (floor, { agent }) =>
    changeAside(floor, agent, ({ question: _asked, until: _until, ...aside }) => aside),
  asideStopped: (floor, { agent }) => changeAside(floor, agent, () => null),
  asideEnded: (floor, { agent, report }) => {
    const over = changeAside(floor, agent, () => null);
    return report === undefined ? over : { ...over, reports: [...(floor.reports ?? []), { agent, text: report }] };
  },
  trustAsked: (floor, { type: _type, ...asked }) => changeTrust(floor, asked, () => ({ ...asked, shown: false })),
  trustShown: (floor, { agent, id }) =>
    changeTrust(floor, { agent, id }, (asked) => asked && { ...asked, shown: true }),
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
  ...TURNS,
};

/** The floor with what an agent does beside it changed, or over. */
function changeAside({ asides = [], ...floor }: Floor, agent: AgentId, change: (aside: Aside) => Aside | null): Floor {
  if (!asides.some((aside) => aside.agent === agent))
    throw new Error(`impossible: ${agent} does nothing beside ${floor.channel}`);
  const next = asides.flatMap((aside) => (aside.agent === agent ? (change(aside) ?? []) : aside));
  return { ...floor, ...(next.length > 0 ? { asides: next } : {}) };
}

/** The floor with what people are asked about the files of an agent changed, or with nothing asked about them any more. */
function changeTrust(
  { trust = [], ...floor }: Floor,
  { agent, id }: Pick<TrustQuestion, 'agent' | 'id'>,
  change: (asked: TrustQuestion | undefined) => TrustQuestion | undefined,
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

function marked({ mark, on }: FactOf<'seatMarked'>): Partial<Seat> {
  switch (mark) {
    case 'assigned':
      return { assigned: on };
    case 'disabled':
      return { disabled: on };
    case 'present':
      return { present: on };
  }
}

function announced(before: Floor, { key, repeat, announcement }: FactOf<'announced'>, at: Instant): Floor {
  if (key === GAP_KEY) {
    // One that recurs is an edit: what stands last in the channel stays what it is.
    const notice = repeat > 1 ? before.notice : { key, count: repeat };
    return { ...before, gap: { count: repeat, at }, notice };
  }
  if (announcement.kind === 'answered') return answered(before, announcement);
  if (announcement.kind === 'trustAnswered') return before;
  if (announcement.kind === 'aside') return { ...asideTold(before, announcement), notice: { key, count: repeat } };
  const lost = lostBy(announcement);
  const isRecovery = announcement.kind === 'recovered';
  const counted = (turn: Turn): Turn => ({ ...turn, recovered: repeat });
  const floor = isRecovery ? changeTurn(before, announcement.agent, counted) : before;
  return {
    ...floor,
    notice: { key, count: repeat, ...(lost === undefined ? {} : { lost }) },
    outage: floor.outage || announcement.kind === 'nobody',
    ...(announcement.kind === 'unaddressed' ? { toldToName: true as const } : {}),
  };
}

/** A background run that is told to have failed stands still until it is told to go on. */
function asideTold(
  floor: Floor,
  { agent, failed }: Extract<FactOf<'announced'>['announcement'], { kind: 'aside' }>,
): Floor {
  if (failed === undefined || asideOf(floor, agent) === undefined) return floor;
  return changeAside(floor, agent, ({ failed: _failed, ...aside }) => (failed ? { ...aside, failed } : aside));
}

/** It stands where the question stood: what stands last in the channel is what it was. */
function answered(floor: Floor, { kind: _kind, agent, approval, aside, came, ...answer }: AnsweredNotice): Floor {
  if (approval === undefined) return floor;
  const isAwaited = came === undefined && answer.choice === 'allow';
  const awaited = (before: readonly AllowedCall[]): readonly AllowedCall[] => {
    const others = before.filter((other) => other.approval !== approval);
    return isAwaited ? [...others, { approval, answer }].slice(-MOST_AWAITED) : others;
  };
  if (aside === true) {
    if (asideOf(floor, agent) === undefined) return floor;
    return changeAside(floor, agent, ({ allowed = [], ...run }) => {
      const next = awaited(allowed);
      return { ...run, ...(next.length === 0 ? {} : { allowed: [...next] }) };
    });
  }
  if (findTurn(floor, agent) === null) return floor;
  return changeTurn(floor, agent, ({ allowed, alsoAllowed = [], ...turn }) => {
    const next = awaited([...alsoAllowed, ...(allowed === undefined ? [] : [allowed])]);
    const last = next.at(-1);
    const others = next.slice(0, -1);
    return {
      ...turn,
      ...(last === undefined ? {} : { allowed: last }),
      ...(others.length === 0 ? {} : { alsoAllowed: others }),
    };
  });
}

type AllowedCall = NonNullable<Turn['allowed']>;

/** Calls of one agent that people allowed and that have not ended yet: more than that are not told of. */
const MOST_AWAITED = 20;

type AnsweredNotice = Extract<FactOf<'announced'>['announcement'], { kind: 'answered' }>;

/** Whom an announcement calls lost. */
function lostBy(announcement: FactOf<'announced'>['announcement']): readonly AgentId[] | undefined {
  if (announcement.kind === 'nobody') return announcement.lost?.agents;
  return announcement.kind === 'disconnect' ? [...(announcement.also ?? []), announcement.agent] : undefined;
}

function configured(floor: Floor, fact: FactOf<'configured'>): Floor {
  const { settings, seats, configuration } = fact;
  const kept = seats.map((wanted) => {
    const seat = floor.seats.find((candidate) => candidate.agent === wanted.agent);
    return seat === undefined ? addedSeat(floor, wanted) : { ...seat, ...wanted };
  });
  const others = floor.seats.filter((seat) => !seats.some((wanted) => wanted.agent === seat.agent));
  return { ...floor, settings, configured: configuration, seats: [...kept, ...others] };
}

/** A seat that comes into the channel's list: behind all who wait when an exchange is open. */
function addedSeat(floor: Floor, wanted: SeatSettings): Seat {
  return { ...newSeat(floor, wanted), ...(floor.exchange === null ? {} : { added: true as const }) };
}

function fresh({ added: _added, ...seat }: Seat): Seat {
  return { ...seat, taken: 0 };
}

function opened(floor: Floor, _fact: FactOf<'exchangeOpened'>, at: Instant): Floor {
  if (floor.exchange !== null) {
    const again = floor.seats.map((seat) => ({ ...seat, taken: 0 }));
    return { ...floor, seats: again, exchange: { ...floor.exchange, silent: 0 } };
  }
  const seats = floor.seats.map(fresh);
  const exchange = { openedAt: at, silent: 0, since: floor.epoch };
  return { ...floor, seats, exchange, condition: 'open', limit: null, stopped: false };
}

function reset(floor: Floor, { why }: FactOf<'usageReset'>, at: Instant): Floor {
  if (why === 'midnight') return { ...floor, limit: null };
  const exchange = floor.exchange === null ? null : { ...floor.exchange, openedAt: at, silent: 0 };
  const day = why === 'more' && floor.limit?.until != null ? { startedAt: at, ...NOTHING_OF_A_DAY } : floor.day;
  return { ...floor, exchange, day, usageSincePerson: NOTHING_USED };
}

const NOTHING_OF_A_DAY = { tokens: 0, costMicros: 0, ms: 0 };

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

/** Whom people name goes before whom agents hand over to; within a rank whoever was named first. */
function prioritised(floor: Floor, fact: FactOf<'prioritised'>): Floor {
  const earlier = floor.prioritised.find((named) => named.agent === fact.agent);
  const messages = [...(earlier?.messages ?? []), ...(fact.message === undefined ? [] : [fact.message])];
  const feedback = fact.feedback ?? earlier?.feedback;
  const said = feedback === undefined ? {} : { feedback };
  if (earlier !== undefined && RANK[earlier.by] <= RANK[fact.by]) {
    const more = { messages, ...said };
    return {
      ...floor,
      prioritised: floor.prioritised.map((named) => (named === earlier ? { ...named, ...more } : named)),
    };
  }
  const others = floor.prioritised.filter((named) => named.agent !== fact.agent);
  const before = others.filter((named) => RANK[named.by] <= RANK[fact.by]);
  const behind = others.filter((named) => RANK[named.by] > RANK[fact.by]);
  return { ...floor, prioritised: [...before, { agent: fact.agent, by: fact.by, messages, ...said }, ...behind] };
}

type Routed = FactOf<'messageRouted'>;
type Reported = FactOf<'injectReported'>;

/** Whether a message is a person's word that no agent was given yet: only such a word renews what agents may use. */
export function isNewFromPerson({ fromProgram, line }: Held): boolean {
  return fromProgram !== true && line === null;
}

/** Orders two of a platform's sort keys: numbers of any length, and texts of equal length. */
export function compareOrder(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function routed(before: Floor, fact: Routed): Floor {
  const known = before.held.find((held) => held.id === fact.id);
  const floor = {
    ...before,
    lines: fact.line ?? before.lines,
    notice: fact.line === null ? before.notice : null,
    held: before.held.filter((held) => held.id !== fact.id),
  };
  const { fate } = fact;
  switch (fate.state) {
    case 'held':
      return hold(floor, {
        id: fact.id,
        addressed: fact.addressed,
        order: fact.order,
        until: fate.until,
        line: known?.line ?? fact.line,
        ...written(fact),
      });
    case 'unrouted':
      return fate.why === NOBODY
        ? hold(floor, {
            id: fact.id,
            addressed: fact.addressed,
            order: fact.order,
            until: 'agent',
            line: known?.line ?? null,
            ...written(fact),
          })
        : withoutMessage(floor, fact.id);
    case 'ignored':
      return withoutMessage(floor, fact.id);
    case 'delivered':
      return delivered(floor, { ...fact, line: fact.line ?? known?.line ?? null }, fate.via);
  }
}

function delivered(floor: Floor, fact: Routed, via: 'prompt' | 'inject' | 'interrupt' | 'observe'): Floor {
  const { turn } = floor;
  const line = fact.line ?? floor.lines;
  const message = { id: fact.id, line, addressed: fact.addressed, ...written(fact) };
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

function written({ fromProgram }: Routed): { readonly fromProgram?: true } {
  return fromProgram === true ? { fromProgram } : {};
}

function hold(floor: Floor, message: Held): Floor {
  const index = floor.held.findIndex((other) => compareOrder(message.order, other.order) < 0);
  const place = index === -1 ? floor.held.length : index;
  return { ...floor, held: [...floor.held.slice(0, place), message, ...floor.held.slice(place)] };
}

function reported(floor: Floor, fact: Reported): Floor {
  const { turn } = floor;
  const message = turn === null ? undefined : beingGiven(floor, turn, fact);
  if (turn === null || message === undefined) {
    throw new Error(`impossible: ${fact.id} is not being given to ${fact.agent} in ${floor.channel}`);
  }
  const injecting = turn.injecting.filter((candidate) => candidate.id !== fact.id);
  const given = turn.given.filter((candidate) => candidate.id !== fact.id);
  return fact.outcome === 'injected'
    ? { ...floor, turn: { ...turn, injecting, given: [...given, { id: fact.id, begun: false }] } }
    : { ...floor, turn: { ...turn, injecting, given, unseen: [...turn.unseen, message] } };
}

/** A message on its way into the generation; one of the prompt that did not fit into it is taken back. */
function beingGiven(floor: Floor, turn: Turn, { id, outcome }: Reported): Turn['unseen'][number] | undefined {
  if (outcome !== 'no-room') return turn.injecting.find((message) => message.id === id);
  return turn.given.some((message) => message.id === id) ? { id, line: floor.lines, addressed: [] } : undefined;
}

function amended(before: Floor, fact: FactOf<'messageAmended'>): Floor {
  const floor = fact.change === 'deleted' ? withoutDeleted(before, fact.id) : before;
  if (fact.line === null) return floor;
  const seats = fact.holder === null ? floor.seats : shownSeats(floor, fact.holder, fact.line);
  return { ...floor, seats, lines: fact.line, notice: null };
}

/** No turn has a deleted message to answer any more, and no later turn is given it. */
function withoutDeleted(before: Floor, id: Held['id']): Floor {
  const floor = withoutMessage(before, id);
  return {
    ...floor,
    turn: floor.turn === null ? null : turnWithout(floor.turn, id),
    parked: floor.parked.map((turn) => turnWithout(turn, id)),
  };
}

/** Nobody waits for a message any more that is not for agents, or that its author took back. */
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
