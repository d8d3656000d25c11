import type { TurnConfig } from '../../config/schema.ts';

/** What a human message does to a turn that is under way: one of the configuration's modes. */
export type InterruptMode = TurnConfig['humanInterruptMode'];

/** What each mode does with a message that comes during a turn, and the names under which others know it. */
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

/** Who is next when the floor is free: one of the configuration's orders. */
export type OrderPolicy = TurnConfig['order'];

/** Who says that an agent goes before the queue. */
export type Caller = 'operator' | 'person' | 'agent';

/** How the next speaker is found. */
export type Policy = {
  /** What it does, for people. */
  readonly summary: string;
  /** How an agent gets a turn, for its prompt. */
  readonly forAgents: string;
  /** Whose word puts an agent before the queue. */
  readonly heeds: readonly Caller[];
  /** A message opens an exchange; else only an operator does. */
  readonly opensForMessages: boolean;
  /** Everybody in the queue is due so many rounds; else only who was named speaks. */
  readonly goesRound: boolean;
  /** A message that names nobody is for the channel's default agent. */
  readonly needsName: boolean;
  /** The facilitator is asked when more than one agent is due. */
  readonly asksFacilitator: boolean;
  /** Whoever has had fewer turns goes first, then the smaller priority number; else the queue is the order. */
  readonly ranksByPriority: boolean;
};

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
  ranksByPriority: false,
};

/** Every order policy; each is a way to differ from taking turns in the order of assignment. */
export const POLICIES: Readonly<Record<OrderPolicy, Policy>> = {
  'round-robin': ROUND_ROBIN,
  priority: {
    ...ROUND_ROBIN,
    summary: 'the smallest priority number first',
    ranksByPriority: true,
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
    forAgents: `Somebody chooses who is next, so nobody needs to be called. ${CALLING}`,
    asksFacilitator: true,
  },
};

/** The names of the policies. */
export const ORDERS: readonly OrderPolicy[] = Object.keys(POLICIES).filter(
  (name): name is OrderPolicy => name in POLICIES,
);
