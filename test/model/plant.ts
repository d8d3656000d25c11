import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { TurnManager } from '../../src/turns/manager.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';
import type { FloorMachine } from '../../src/turns/floor-store.ts';
import { CHANNELS } from './channels.ts';
import { PLANTED } from './planted.ts';
import { PLANTED_ROUNDS } from './planted-rounds.ts';
import type { Planted } from './planted.ts';
import { searchRounds } from './rounds.ts';
import { search } from './search.ts';
import type { Found } from './search.ts';
import type { Way, Ways } from './ways.ts';

/** A planted bug, and what gave it away; `null` when it went unseen. */
export type Caught = { readonly bug: Planted; readonly found: Found | null };

const SRC_DIR = join(import.meta.dirname, '../../src');
const CORE_DIR = join(SRC_DIR, 'turns/floor');
/** The rooms that copies are made of. Each imports only from those before it. */
const ROOMS = ['lib', 'engine', 'turns', 'work'];
const SCRATCH_DIR = join(import.meta.dirname, '.planted');

/** In the copies the core does not check itself, so that what is caught is caught by the search. */
const SELF_CHECK = {
  file: 'decide.ts',
  find: '  assertFloor(floor, accepted.floor, at);\n',
  replace: '',
};

/** How many happenings the schedules have in which a bug outside the core is looked for. */
const MOST_EVENTS = 2;

/** Plants every bug in a copy of the code of its own and searches each until the first broken invariant. */
export async function catchPlanted(ways?: Ways): Promise<readonly Caught[]> {
  return inScratch(async (folder) => {
    const caught: Caught[] = [];
    for (const [index, bug] of PLANTED.entries()) {
      const core = await plant(bug, join(folder, `${index}`));
      caught.push({ bug, found: firstAlong(core, ways?.get(bug.name)) ?? firstFound(core, bug.near) });
    }
    return caught;
  });
}

/** The same for the bugs beside the core: each is looked for in ever longer schedules. */
export async function catchInRounds(): Promise<readonly Caught[]> {
  return inScratch(async (folder) => {
    const caught: Caught[] = [];
    for (const [index, bug] of PLANTED_ROUNDS.entries()) {
      const dir = join(folder, `${index}`);
      await copyRooms(dir, bug.file);
      await change(dir, bug);
      const { href } = pathToFileURL(join(dir, 'turns/manager.ts'));
      const copy: { readonly TurnManager: typeof TurnManager } = await import(href);
      caught.push({ bug, found: await firstInRounds(copy.TurnManager) });
    }
    return caught;
  });
}

/** The bugs whose place in the code is not there any more, or not there alone: they would show nothing. */
export async function withoutPlace(): Promise<readonly string[]> {
  const all = [
    ...PLANTED.map((bug) => [CORE_DIR, bug] as const),
    ...PLANTED_ROUNDS.map((bug) => [SRC_DIR, bug] as const),
  ];
  const texts = await Promise.all(all.map(([dir, { file }]) => readFile(join(dir, file), 'utf8')));
  return all.flatMap(([, { name, find }], index) => ((texts[index] ?? '').split(find).length === 2 ? [] : [name]));
}

async function firstInRounds(Manager: typeof TurnManager): Promise<Found | null> {
  for (let events = 0; events <= MOST_EVENTS; events += 1) {
    const [found] = (await searchRounds(Manager, { events, first: true })).found;
    if (found !== undefined) return found;
  }
  return null;
}

/** Gives work a folder of its own that goes away with it. */
export async function inScratch<Result>(work: (folder: string) => Promise<Result>): Promise<Result> {
  await mkdir(SCRATCH_DIR, { recursive: true });
  const folder = await mkdtemp(join(SCRATCH_DIR, 'run-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Follows a known way. `null` when it does not lead to a broken invariant. */
function firstAlong(core: FloorMachine, along: Way | undefined): Found | null {
  const channel = CHANNELS.find(({ name }) => name === along?.where);
  if (along === undefined || channel === undefined) return null;
  return search(core, channel, { depth: along.moves.length, first: true, along }).found[0] ?? null;
}

/** Where the bug is likely to show, then every channel, farther each time round. */
function firstFound(core: FloorMachine, near: string | undefined): Found | null {
  const likely = CHANNELS.filter((channel) => channel.name === near).map((channel) => [channel, 0] as const);
  const all = [-1, 0, 1].flatMap((more) => CHANNELS.map((channel) => [channel, more] as const));
  for (const [channel, more] of [...likely, ...all]) {
    const [found] = search(core, channel, { depth: channel.smallDepth + more, first: true }).found;
    if (found !== undefined) return found;
  }
  return null;
}

async function plant(bug: Planted, copy: string): Promise<FloorMachine> {
  const folder = join(copy, 'turns/floor');
  await cp(CORE_DIR, folder, { recursive: true });
  await symlink(join(SRC_DIR, 'lib'), join(copy, 'lib'));
  for (const edit of [SELF_CHECK, bug]) await change(folder, edit);
  const load = (file: string): Promise<FloorMachine & { emptyFloor: FloorMachine['empty'] }> =>
    import(pathToFileURL(join(folder, file)).href);
  const [decider, evolver, reactor, clock, beginning] = await Promise.all([
    load('decide.ts'),
    load('evolve.ts'),
    load('react.ts'),
    load('seats.ts'),
    load('floor.ts'),
  ]);
  return {
    ...floorMachine,
    decide: (floor, command, at) => decider.decide(floor, command, at),
    evolve: (floor, fact, at) => evolver.evolve(floor, fact, at),
    react: (fact, floor) => reactor.react(fact, floor),
    nextDeadline: (floor) => clock.nextDeadline(floor),
    empty: (channel) => beginning.emptyFloor(channel),
  };
}

/**
 * Copies the room of a file and the rooms that may import it, and links the others: they are loaded once for all copies.
 * `more`: rooms after these.
 */
export async function copyRooms(dir: string, file: string, more: readonly string[] = []): Promise<void> {
  const rooms = [...ROOMS, ...more];
  const first = rooms.findIndex((room) => file.startsWith(`${room}/`));
  if (first === -1) throw new Error(`no copy has a room for ${file}`);
  await mkdir(dir, { recursive: true });
  for (const [place, room] of rooms.entries()) {
    if (place < first) await symlink(join(SRC_DIR, room), join(dir, room));
    else await cp(join(SRC_DIR, room), join(dir, room), { recursive: true });
  }
}

/** Plants a bug in a copy; throws when its place is not there once. */
export async function change(folder: string, edit: { file: string; find: string; replace: string }): Promise<void> {
  const { file, find, replace } = edit;
  const text = await readFile(join(folder, file), 'utf8');
  const times = text.split(find).length - 1;
  if (times !== 1) throw new Error(`"${find.trim()}" cannot be planted: it stands ${times} times in ${file}`);
  await writeFile(
    join(folder, file),
    text.replace(find, () => replace),
  );
}
