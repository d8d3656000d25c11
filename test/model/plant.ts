import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { TurnManager } from '../../src/turns/manager.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';
import type { FloorMachine } from '../../src/turns/floor-store.ts';
import { CHANNELS } from './channels.ts';
import { PLANTED } from './planted.ts';
import { PLANTED_ROUNDS } from './planted-rounds.ts';
import type { Planted } from './planted.ts';
import { loadPlanted } from './planted-source.ts';
import { searchRounds } from './rounds.ts';
import { search } from './search.ts';
import type { Found } from './search.ts';
import type { Way, Ways } from './ways.ts';

/** A planted bug and the broken invariant that revealed it; `null`: the search missed the bug. */
export type Caught = { readonly bug: Planted; readonly found: Found | null };

const SRC_DIR = join(import.meta.dirname, '../../src');
const CORE = 'turns/floor';
const SCRATCH_DIR = join(import.meta.dirname, '.planted');

/** Removes the core's self-check from the copies, so that the search itself must find the bugs. */
const SELF_CHECK = {
  file: `${CORE}/decide.ts`,
  find: '  if (broken !== null) throw new Error(`impossible: ${broken.rule} in ${after.channel}: ${broken.text}`);\n',
  replace: '',
};

/** The most events of a schedule in the search for a bug outside the core. */
const MOST_EVENTS = 2;

/** Plants each bug in its own copy of the code, and searches each copy until the first broken invariant. */
export async function catchPlanted(ways?: Ways): Promise<readonly Caught[]> {
  const caught: Caught[] = [];
  for (const bug of PLANTED) {
    const core = await plant(bug);
    caught.push({ bug, found: firstAlong(core, ways?.get(bug.name)) ?? firstFound(core, bug.near) });
  }
  return caught;
}

/** The same for bugs outside the core. Searches each copy in longer and longer schedules. */
export async function catchInRounds(): Promise<readonly Caught[]> {
  const caught: Caught[] = [];
  for (const bug of PLANTED_ROUNDS) {
    const copy = await loadPlanted<{ readonly TurnManager: typeof TurnManager }>([bug], 'turns/manager.ts');
    caught.push({ bug, found: await firstInRounds(copy.TurnManager) });
  }
  return caught;
}

/** Bugs whose text is not in the code exactly once. Such a bug would test nothing. */
export async function withoutPlace(): Promise<readonly string[]> {
  const all = [
    ...PLANTED.map((bug) => [join(SRC_DIR, CORE), bug] as const),
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

/** Runs work with a temporary folder, and deletes the folder afterwards. */
export async function inScratch<Result>(work: (folder: string) => Promise<Result>): Promise<Result> {
  await mkdir(SCRATCH_DIR, { recursive: true });
  const folder = await mkdtemp(join(SCRATCH_DIR, 'run-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Follows a known way. `null` when it leads to no broken invariant. */
function firstAlong(core: FloorMachine, along: Way | undefined): Found | null {
  const channel = CHANNELS.find(({ name }) => name === along?.where);
  if (along === undefined || channel === undefined) return null;
  return search(core, channel, { depth: along.moves.length, first: true, along }).found[0] ?? null;
}

/** Searches the channel where the bug is likely to show, then every channel, deeper each time. */
function firstFound(core: FloorMachine, near: string | undefined): Found | null {
  const likely = CHANNELS.filter((channel) => channel.name === near).map((channel) => [channel, 0] as const);
  const all = [-1, 0, 1].flatMap((more) => CHANNELS.map((channel) => [channel, more] as const));
  for (const [channel, more] of [...likely, ...all]) {
    const [found] = search(core, channel, { depth: channel.smallDepth + more, first: true }).found;
    if (found !== undefined) return found;
  }
  return null;
}

async function plant({ file, find, replace }: Planted): Promise<FloorMachine> {
  const modules = ['decide.ts', 'evolve.ts', 'react.ts', 'seats.ts', 'floor.ts'].map((name) => `${CORE}/${name}`);
  const bug = { file: `${CORE}/${file}`, find, replace };
  const core = await loadPlanted<FloorMachine & { emptyFloor: FloorMachine['empty'] }>([SELF_CHECK, bug], ...modules);
  return {
    ...floorMachine,
    decide: (floor, command, at) => core.decide(floor, command, at),
    evolve: (floor, fact, at) => core.evolve(floor, fact, at),
    react: (fact, floor) => core.react(fact, floor),
    nextDeadline: (floor) => core.nextDeadline(floor),
    empty: (channel) => core.emptyFloor(channel),
  };
}
