import type { TurnConfig } from '../../config/schema.ts';

/** How a message reaches a turn: one of the configuration's modes. */
export type InterruptMode = TurnConfig['humanInterruptMode'];

/** Each mode with its summary and its other names. */
export const MODES: Readonly<Record<InterruptMode, { readonly summary: string; readonly aliases: readonly string[] }>> =
  {
    inject: { summary: 'the agent receives messages at once, mid-turn', aliases: ['steer'] },
    queue: { summary: 'messages wait until the turn ends', aliases: ['followup', 'collect'] },
    interrupt: { summary: 'a message stops the agent and is answered first', aliases: [] },
    parallel: { summary: 'all agents see messages at once; the turn continues', aliases: ['concurrent'] },
  };

/** The names of the modes. */
export const INTERRUPT_MODES: readonly InterruptMode[] = Object.keys(MODES).filter(
  (name): name is InterruptMode => name in MODES,
);

/** How the next speaker is chosen: one of the configuration's orders. */
export type OrderPolicy = TurnConfig['order'];

/** The role that calls an agent ahead of the queue. `person`: also a program that writes a message. */
export type Caller = 'operator' | 'person' | 'agent';

/** The rules of one order of speakers (`OrderPolicy`). */
export type Policy = {
  readonly summary: string;
  /** The order's summary for agents' prompts. */
  readonly forAgents: string;
  /** Roles that can call an agent ahead of the queue. */
  readonly heeds: readonly Caller[];
  /** True when a message opens an exchange. */
  readonly opensForMessages: boolean;
  /** True when queued agents get turns without being called. */
  readonly goesRound: boolean;
  /** True when a message must name an available agent, unless there is a `defaultAgent`. */
  readonly needsName: boolean;
  /** True when the facilitator chooses among several agents. */
  readonly asksFacilitator: boolean;
  /**
   * Compares two queued agents: negative when the first one speaks first, 0 when the order of the seats decides.
   * `null`: the queue is the order.
   */
  readonly rank: ((one: Ranked, other: Ranked) => number) | null;
};

type Ranked = { readonly taken: number; readonly priority: number };

const EVERYBODY: readonly Caller[] = ['operator', 'person', 'agent'];

const CALLING = 'A mention (@id) calls: that agent has the next turn.';

const ROUND_ROBIN: Policy = {
  summary: 'agents in turn; the last speaker goes to the end',
  forAgents: `Every agent here gets its turn without being called. ${CALLING}`,
  heeds: EVERYBODY,
  opensForMessages: true,
  goesRound: true,
  needsName: false,
  asksFacilitator: false,
  rank: null,
};

/**
 * The rules while a task is open. The task chooses the next speaker; agents cannot call another agent. In a review,
 * agents that people call come first. On a ticket, calls count for nothing, because the worker's files may be under
 * test.
 */
export const TASK_POLICIES: Readonly<Record<'review' | 'ticket', Policy>> = {
  review: {
    ...ROUND_ROBIN,
    summary: 'a review chooses the next agent',
    forAgents: 'A review chooses who is next, so naming another agent calls nobody.',
    heeds: ['operator', 'person'],
    goesRound: false,
  },
  ticket: {
    ...ROUND_ROBIN,
    summary: 'the crew asks its worker for one step after another',
    forAgents:
      'The crew asks for one step after another; messages of people reach you during a step or with the next one.',
    heeds: [],
    goesRound: false,
  },
};

/** The rules of each order. */
export const POLICIES: Readonly<Record<OrderPolicy, Policy>> = {
  'round-robin': ROUND_ROBIN,
  priority: {
    ...ROUND_ROBIN,
    summary: 'the smallest priority number first',
    rank: (one, other) => one.taken - other.taken || one.priority - other.priority,
  },
  manual: {
    ...ROUND_ROBIN,
    summary: 'only agents that an operator grants a turn',
    forAgents: 'People choose who is next.',
    heeds: ['operator'],
    opensForMessages: false,
    goesRound: false,
  },
  mention: {
    ...ROUND_ROBIN,
    summary: 'only agents that a person or the holder mentions',
    forAgents: `An agent gets a turn only when it is called. ${CALLING}`,
    goesRound: false,
    needsName: true,
  },
  facilitator: {
    ...ROUND_ROBIN,
    summary: 'the facilitator chooses',
    forAgents: `The facilitator chooses: you need not mention anybody. ${CALLING}`,
    asksFacilitator: true,
  },
  review: {
    ...ROUND_ROBIN,
    summary: 'each message opens a review: one agent works, another reviews',
    forAgents: 'Each message of a person opens a review.',
    heeds: ['operator'],
    opensForMessages: false,
    goesRound: false,
  },
};

/** The names of the orders. */
export const ORDERS: readonly OrderPolicy[] = Object.keys(POLICIES).filter(
  (name): name is OrderPolicy => name in POLICIES,
);
