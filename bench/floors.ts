import { Delivery } from '../src/engine/outbox-delivery.ts';
import type { DiskSync } from '../src/engine/sqlite/commits.ts';
import type { Settlement } from '../src/engine/port.ts';
import { systemClock, systemTimers } from '../src/lib/time.ts';
import type { Command } from '../src/turns/floor/command.ts';
import { decide } from '../src/turns/floor/decide.ts';
import { PLAIN_SETTINGS, emptyFloor } from '../src/turns/floor/floor.ts';
import type { Floor } from '../src/turns/floor/floor.ts';
import type { Effect } from '../src/turns/floor/react.ts';
import type { OutboxRow } from '../src/turns/floor-store.ts';
import { openFloorStore } from '../src/turns/floor-store.ts';
import type { FloorStore } from '../src/turns/floor-store.ts';
import { TurnManager } from '../src/turns/manager.ts';
import { floorWithWork } from '../src/work/floor-with-work.ts';
import { Meter, inLanes } from './steady.ts';
import type { Measured, Span } from './steady.ts';

/** The text that an agent says in its turn, about as long as a chat message. */
export const SAID =
  'The login page is built and its four checks pass; what is left is the link that resets a password. Please try it.';

/** The agents of every channel. */
export const AGENTS = ['pm', 'dev', 'qa'];

/** A limit that no measurement reaches, as a number or in milliseconds. */
const NEVER = 1_000_000_000;

const SEATS = AGENTS.map((agent) => ({ agent, priority: 10, timeoutMs: NEVER, rejoin: 'auto' as const }));
const SETTINGS = { ...PLAIN_SETTINGS, rounds: 0, maxTurns: NEVER, maxTurnMs: NEVER };

/** The commands that seat three agents on a floor. */
export const SEATED: readonly Command[] = [
  { type: 'configure', settings: SETTINGS, seats: SEATS },
  ...AGENTS.map((agent): Command => ({ type: 'join', agent })),
];

const CONFIRMED: Settlement = { state: 'confirmed', platformId: 'p' };

/** Returns the ids of `count` channels. */
export function channelsNamed(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `console:${index}`);
}

/** Opens the program's store in a file. Texts stay as they are. `disk`: replaces the program's own sync. */
export function openFloors(path: string, disk?: DiskSync): FloorStore {
  const wording = { textLimit: () => 16_000, words: () => 'text' };
  const how = { path, clock: systemClock(), machine: floorWithWork, statesInMemory: 2_000, ...wording };
  return openFloorStore(disk === undefined ? how : { ...how, disk });
}

/** Opens the store whose hand-overs are measured, in a file or in PostgreSQL. `path`: its file, or that of its copy. */
export type OpenFloors = (path: string) => FloorStore | Promise<FloorStore>;

/** Measures the floor machine alone, without a disk: the holder's `say` and `end`. */
export async function coreAlone(channels: number, span: Span): Promise<Measured> {
  const floors = channelsNamed(channels).map((id) =>
    [...SEATED, { type: 'start', by: 'bench' } as const].reduce(decided, emptyFloor(id)),
  );
  const found = await inLanes(1, span, async () => {
    for (const [index, before] of floors.entries()) {
      const { agent = '', epoch = 0 } = before.turn ?? {};
      const said = decided(before, { type: 'say', agent, epoch, text: SAID, mentions: [] });
      floors[index] = decided(said, { type: 'end', agent, epoch, outcome: 'completed', signalled: true });
    }
  });
  return { ...found, perSecond: found.perSecond * channels, cpuMicros: found.cpuMicros / channels };
}

function decided(floor: Floor, command: Command): Floor {
  const decision = decide(floor, command, 1_000);
  if (!decision.ok) throw new Error(`impossible: ${command.type} is refused as ${decision.refusal}`);
  return decision.floor;
}

/** A store with its turn manager and its outbox delivery. */
export type ManagedFloors = {
  readonly store: FloorStore;
  readonly manager: TurnManager;
  readonly stop: () => Promise<void>;
};

/** Opens a store with three agents in each channel and starts delivery. Calls `reached` with each delivered row. */
export async function openManaged(
  path: string,
  channels: number,
  { reached, broken }: { readonly reached: (row: OutboxRow) => void; readonly broken: (error: unknown) => void },
  open: OpenFloors = openFloors,
): Promise<ManagedFloors> {
  const store = await open(path);
  const ports = { store, clock: systemClock(), timers: systemTimers };
  const manager = new TurnManager({
    ...ports,
    addressed: () => [],
    takeDraft: () => null,
    changed: () => delivery.kick(),
    failed: broken,
  });
  const carry = async (row: OutboxRow): Promise<Settlement> => {
    reached(row);
    return CONFIRMED;
  };
  const delivery = new Delivery<Effect>({ ...ports, carry, failed: () => {}, broken });
  await seatAll(store, channels);
  delivery.start();
  return {
    store,
    manager,
    async stop() {
      manager.stop();
      await delivery.stop();
      await store.close();
    },
  };
}

/**
 * Measures manager, store and delivery together. Each agent answers a grant at once, and the platform accepts each
 * text at once. Each step is on the disk before the next. `counted`: counters, reported as their increase per
 * hand-over.
 */
export async function managed(
  path: string,
  channels: number,
  span: Span,
  counted: () => Readonly<Record<string, number>> = () => ({}),
  open: OpenFloors = openFloors,
): Promise<Measured & Readonly<Record<string, number>>> {
  const meter = new Meter(span);
  const over = Promise.withResolvers<void>();
  let handOvers = 0;
  let running = true;
  const reached = ({ effect, channel }: OutboxRow): void => {
    if (effect.type === 'prompt' && running) answer(channel, effect).catch(over.reject);
  };
  const { manager, stop } = await openManaged(path, channels, { reached, broken: over.reject }, open);
  const answer = async (channel: string, { agent, epoch }: { readonly agent: string; readonly epoch: number }) => {
    const begunAt = performance.now();
    await Promise.all([
      manager.apply(channel, { type: 'say', agent, epoch, text: SAID, mentions: [] }),
      manager.apply(channel, { type: 'end', agent, epoch, outcome: 'completed', signalled: true }),
    ]);
    handOvers += 1;
    if (!meter.did(begunAt)) over.resolve();
  };
  const before = counted();
  await Promise.all(channelsNamed(channels).map((id) => manager.apply(id, { type: 'start', by: 'bench' })));
  await over.promise;
  running = false;
  const each = Object.entries(counted()).map(
    ([name, count]) => [name, (count - (before[name] ?? 0)) / handOvers] as const,
  );
  await stop();
  return { ...meter.result, ...Object.fromEntries(each) };
}

/** Seats three agents in each of `channels` channels. */
export async function seatAll(store: FloorStore, channels: number): Promise<void> {
  const at = systemClock().now();
  await store.recover();
  await Promise.all(
    channelsNamed(channels).flatMap((id) => SEATED.map((command) => store.floors.apply(id, command, at))),
  );
}
