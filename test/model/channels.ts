import { PLAIN_SETTINGS } from '../../src/turns/core/floor.ts';
import type { Command } from '../../src/turns/core/command.ts';
import type { AgentId, FloorSettings, InterruptMode, SeatSettings } from '../../src/turns/core/settings.ts';

/** Groups of commands that a search may leave out; what is not named here every search tries in every state. */
export type Family =
  | 'modes'
  | 'crash'
  | 'restart'
  | 'wait'
  | 'work'
  | 'stop'
  | 'pause'
  | 'grant'
  | 'members'
  | 'switch'
  | 'amend'
  | 'orders'
  | 'spend'
  | 'extend'
  | 'reconfigure'
  | 'brink';

/** One channel to search: how it is configured, which commands come, and how far the search goes. */
export type Channel = {
  readonly name: string;
  readonly settings: FloorSettings;
  readonly seats: readonly SeatSettings[];
  readonly families: ReadonlySet<Family>;
  /** With what every path of the search begins. */
  readonly opening: readonly Command[];
  /** Whom people address; every search has unaddressed messages too. */
  readonly addressed: readonly AgentId[];
  /** Messages that may wait at once, in whatever way. */
  readonly messages: number;
  /** Commands from the empty floor, at most; Infinity searches until nothing new turns up. */
  readonly depth: number;
  /** The same, for the small run and for the planted bugs. */
  readonly smallDepth: number;
};

/** Durations so unequal that no two deadlines of one turn fall together by chance. */
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
  /** Begin on the empty floor, and not when it is configured and its agents have come. */
  readonly isEmpty?: boolean;
  readonly addressed?: readonly AgentId[];
  readonly messages?: number;
  readonly depth: number;
  readonly smallDepth: number;
};

const TRIO = [{ agent: 'pm' }, { agent: 'dev' }, { agent: 'qa' }];

function channel(sketch: Sketch): Channel {
  const { agents = TRIO, addressed = [], messages = 2 } = sketch;
  const settings = { ...SETTINGS, ...sketch.settings };
  const seats = agents.map((seat): SeatSettings => ({ priority: 10, timeoutMs: TIMEOUT_MS, rejoin: 'manual', ...seat }));
  const joins = seats.map(({ agent }): Command => ({ type: 'join', agent }));
  const opening: readonly Command[] = sketch.isEmpty === true ? [] : [{ type: 'configure', settings, seats }, ...joins];
  return { ...sketch, settings, seats, opening, families: new Set(sketch.families), addressed, messages };
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

function mode(name: InterruptMode): Channel {
  return channel({
    name: `mode ${name}`,
    settings: { mode: name },
    families: ['crash', 'stop', 'wait'],
    addressed: ['dev'],
    depth: 30,
    smallDepth: 7,
  });
}

/** What is searched: every command on the default channel, then each setting that changes the rules, with the commands that it is about. */
export const CHANNELS: readonly Channel[] = [
  channel({ name: 'everything', isEmpty: true, families: ALL, addressed: ['dev'], depth: 7, smallDepth: 6 }),
  channel({ name: 'everything warm', families: ALL, addressed: ['dev'], depth: 5, smallDepth: 3 }),
  mode('inject'),
  mode('queue'),
  mode('interrupt'),
  mode('parallel'),
];
