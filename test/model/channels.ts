import type { InterruptMode } from '../../src/turns/floor/policies.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import type { Command } from '../../src/turns/floor/command.ts';
import type { AgentId, FloorSettings, SeatSettings } from '../../src/turns/floor/settings.ts';

/** Groups of commands that a search may leave out. Every search tries all other commands in every state. */
export type Family =
  | 'modes'
  | 'crash'
  | 'restart'
  | 'touch'
  | 'programs'
  | 'wait'
  | 'ask'
  | 'work'
  | 'approval'
  | 'stop'
  | 'pause'
  | 'grant'
  | 'members'
  | 'switch'
  | 'amend'
  | 'room'
  | 'orders'
  | 'spend'
  | 'extend'
  | 'reconfigure'
  | 'brink'
  | 'trust';

/** A channel to search: its configuration, its commands, and the depth of the search. */
export type Channel = {
  readonly name: string;
  readonly settings: FloorSettings;
  readonly seats: readonly SeatSettings[];
  readonly families: ReadonlySet<Family>;
  /** The commands at the beginning of every path. */
  readonly opening: readonly Command[];
  /** The agents that messages address. Every search has messages without an addressee, too. */
  readonly addressed: readonly AgentId[];
  /** The most messages that wait at once, anywhere on the floor. */
  readonly messages: number;
  /** The most messages, including those given to the open turn. */
  readonly given: number;
  /** The most commands from the empty floor. `Infinity`: searches until no new state is found. */
  readonly depth: number;
  /** The depth in the small run and for planted bugs. */
  readonly smallDepth: number;
};

/** Durations that differ so much that no two deadlines of a turn coincide. */
const SETTINGS: FloorSettings = {
  ...PLAIN_SETTINGS,
  maxTurns: 3,
  maxTurnMs: 100,
  waitTimeoutMs: 83,
  interruptGraceMs: 7,
  autoDetectSilenceMs: 23,
};
const TIMEOUT_MS = 61;

type Sketch = {
  readonly name: string;
  readonly settings?: Partial<FloorSettings>;
  readonly agents?: readonly (Partial<SeatSettings> & { readonly agent: AgentId })[];
  readonly families: readonly Family[];
  /** True to begin on the empty floor. Default: the floor is configured and its agents have joined. */
  readonly isEmpty?: boolean;
  readonly addressed?: readonly AgentId[];
  readonly messages?: number;
  readonly given?: number;
  readonly depth: number;
  readonly smallDepth: number;
};

const TRIO = [{ agent: 'pm' }, { agent: 'dev' }, { agent: 'qa' }];

function channel(sketch: Sketch): Channel {
  const { agents = TRIO, addressed = [], messages = 2, given = 2 } = sketch;
  const settings = { ...SETTINGS, ...sketch.settings };
  const seats = agents.map((seat): SeatSettings => ({
    priority: 10,
    timeoutMs: TIMEOUT_MS,
    rejoin: 'manual',
    ...seat,
  }));
  const joins = seats.map(({ agent }): Command => ({ type: 'join', agent }));
  const opening: readonly Command[] = sketch.isEmpty === true ? [] : [{ type: 'configure', settings, seats }, ...joins];
  return { ...sketch, settings, seats, opening, families: new Set(sketch.families), addressed, messages, given };
}

const ALL: readonly Family[] = [
  'modes',
  'crash',
  'restart',
  'wait',
  'work',
  'stop',
  'pause',
  'grant',
  'members',
  'switch',
  'amend',
  'extend',
];

const AUTO: readonly (Partial<SeatSettings> & { readonly agent: AgentId })[] = [
  { agent: 'pm', rejoin: 'auto' },
  { agent: 'dev', rejoin: 'auto' },
  { agent: 'qa', rejoin: 'manual' },
];

function mode(name: InterruptMode): Channel {
  return channel({
    name: `mode ${name}`,
    settings: { mode: name },
    families: ['crash', 'stop', 'wait', 'amend'],
    addressed: ['dev'],
    depth: 6,
    smallDepth: 4,
  });
}

/** The searched channels: every command on the default channel, then each rule-changing setting with its commands. */
export const CHANNELS: readonly Channel[] = [
  channel({
    name: 'everything, from nothing',
    isEmpty: true,
    families: ALL,
    addressed: ['dev'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({ name: 'everything', families: ALL, addressed: ['dev'], depth: 4, smallDepth: 3 }),
  mode('inject'),
  mode('queue'),
  mode('interrupt'),
  mode('parallel'),
  channel({ name: 'modes change', families: ['modes', 'stop'], addressed: ['qa'], depth: 6, smallDepth: 4 }),
  channel({
    name: 'waits lend the floor',
    settings: { waitPolicy: 'release' },
    families: ['wait', 'crash', 'grant', 'stop'],
    addressed: ['dev'],
    depth: 5,
    smallDepth: 4,
  }),
  channel({
    name: 'agents ask each other',
    agents: AUTO,
    settings: { maxTurns: 5 },
    families: ['ask', 'crash', 'pause'],
    addressed: ['pm'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'agents ask and are stopped',
    agents: AUTO,
    settings: { mode: 'queue', waitPolicy: 'release' },
    families: ['ask', 'wait', 'stop', 'grant', 'members', 'restart'],
    depth: 5,
    smallDepth: 4,
  }),
  channel({
    name: 'a responder answers',
    agents: AUTO,
    settings: { mode: 'interrupt', interruptResponder: 'qa' },
    families: ['wait', 'crash', 'pause'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'agents ask at the limit',
    settings: { maxTurns: 1, mode: 'interrupt', interruptResponder: 'qa' },
    families: ['ask', 'grant', 'crash'],
    depth: 5,
    smallDepth: 5,
  }),
  channel({
    name: 'agents wait at the limit of a day',
    settings: { waitPolicy: 'release', dayBudget: { tokens: 1, costMicros: null, ms: null } },
    families: ['spend', 'wait'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'by mention',
    settings: { order: 'mention', defaultAgent: 'pm', mode: 'queue' },
    families: ['crash', 'stop'],
    addressed: ['dev', 'qa'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'by mention, no default',
    settings: { order: 'mention' },
    families: ['members'],
    addressed: ['dev'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'a facilitator',
    settings: { order: 'facilitator', facilitator: 'pm' },
    families: ['crash', 'stop', 'pause'],
    addressed: ['dev'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'by priority',
    agents: [{ agent: 'pm', priority: 20 }, { agent: 'dev' }, { agent: 'qa' }],
    settings: { order: 'priority', rounds: 2, maxTurns: 4, mode: 'queue' },
    families: ['members', 'grant'],
    addressed: ['pm'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'by hand',
    settings: { order: 'manual', mode: 'queue' },
    families: ['grant', 'crash', 'stop'],
    addressed: ['dev'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'without end',
    settings: { rounds: 0, mode: 'parallel' },
    families: ['extend', 'stop', 'members'],
    addressed: ['qa'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'orders change',
    settings: { facilitator: 'pm', defaultAgent: 'dev' },
    families: ['orders', 'grant'],
    depth: 4,
    smallDepth: 3,
  }),
  channel({
    name: 'silence ends turns',
    settings: { autoDetectTurnEnd: true },
    families: ['work', 'wait', 'extend', 'brink'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'turns are shorter than timeouts',
    settings: { maxTurnMs: 40 },
    families: ['work', 'crash'],
    depth: 5,
    smallDepth: 4,
  }),
  channel({ name: 'alone', agents: [{ agent: 'pm' }], families: ALL, addressed: ['pm'], depth: 6, smallDepth: 4 }),
  channel({
    name: 'restarts',
    agents: AUTO,
    families: ['restart', 'crash', 'wait', 'stop'],
    addressed: ['dev'],
    depth: 5,
    smallDepth: 4,
  }),
  channel({
    name: 'restarts, interrupted',
    agents: AUTO,
    settings: { mode: 'interrupt', interruptResponder: 'qa' },
    families: ['restart', 'crash'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'restarts forfeit',
    agents: AUTO,
    settings: { onRestart: 'forfeit', mode: 'queue', waitPolicy: 'release' },
    families: ['restart', 'crash', 'wait'],
    depth: 5,
    smallDepth: 4,
  }),
  channel({
    name: 'touch is lost',
    agents: AUTO,
    families: ['touch', 'crash', 'wait', 'stop', 'restart'],
    addressed: ['dev'],
    depth: 5,
    smallDepth: 4,
  }),
  channel({
    name: 'touch is lost, lent',
    agents: AUTO,
    settings: { mode: 'queue', waitPolicy: 'release' },
    families: ['touch', 'wait', 'grant', 'pause'],
    addressed: ['pm'],
    depth: 5,
    smallDepth: 4,
  }),
  channel({
    name: 'touch is lost, interrupted',
    agents: AUTO,
    settings: { mode: 'interrupt', interruptResponder: 'qa' },
    families: ['touch', 'crash', 'approval'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'touch is lost, a facilitator',
    settings: { order: 'facilitator', facilitator: 'pm' },
    families: ['touch', 'crash', 'stop', 'reconfigure'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'touch is lost, alone',
    agents: [{ agent: 'pm' }],
    families: ['touch', 'wait', 'stop'],
    depth: 8,
    smallDepth: 5,
  }),
  channel({
    name: 'programs and one agent',
    agents: [{ agent: 'pm' }],
    settings: { maxTurns: 2, waitPolicy: 'release' },
    families: ['programs', 'wait', 'touch'],
    depth: 8,
    smallDepth: 5,
  }),
  channel({
    name: 'programs speak',
    families: ['programs', 'crash', 'stop', 'wait'],
    addressed: ['dev'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'programs wait for the floor',
    settings: {
      mode: 'queue',
      maxTurns: 2,
      exchangeBudget: { tokens: 2, costMicros: null, ms: null },
      dayBudget: { tokens: 3, costMicros: null, ms: null },
    },
    families: ['programs', 'spend', 'stop', 'pause'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'programs interrupt',
    settings: { mode: 'interrupt', interruptResponder: 'qa', maxTurns: 2, waitPolicy: 'release' },
    families: ['programs', 'wait', 'touch'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'budgets',
    settings: {
      exchangeBudget: { tokens: 2, costMicros: null, ms: null },
      dayBudget: { tokens: 3, costMicros: null, ms: null },
    },
    families: ['spend', 'stop', 'crash'],
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'one held message',
    settings: { mode: 'queue', maxHeld: 1 },
    families: ['crash', 'pause', 'restart'],
    messages: 3,
    given: 3,
    depth: 6,
    smallDepth: 4,
  }),
  channel({
    name: 'prompted again',
    agents: [{ agent: 'pm' }, { agent: 'dev' }],
    families: ['room'],
    messages: 1,
    given: 5,
    depth: 16,
    smallDepth: 9,
  }),
  channel({
    name: 'tools need a yes',
    settings: { waitPolicy: 'release', autoDetectTurnEnd: true },
    families: ['approval', 'modes', 'work', 'stop', 'crash', 'restart'],
    depth: 5,
    smallDepth: 4,
  }),
  channel({
    name: 'folders are trusted',
    agents: [{ agent: 'pm' }, { agent: 'dev' }],
    families: ['trust', 'crash', 'restart'],
    messages: 1,
    given: 1,
    depth: 5,
    smallDepth: 4,
  }),
  channel({
    name: 'switched off and on',
    agents: AUTO,
    families: ['switch', 'crash', 'members', 'wait'],
    depth: 5,
    smallDepth: 4,
  }),
  channel({
    name: 'configured anew',
    agents: AUTO,
    settings: { order: 'facilitator', facilitator: 'qa' },
    families: ['reconfigure', 'restart', 'crash', 'wait'],
    depth: 5,
    smallDepth: 4,
  }),
];
