import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Core } from '../../src/turns/store/core.ts';
import { CHANNELS } from './channels.ts';
import { PLANTED } from './planted.ts';
import type { Planted } from './planted.ts';
import { search } from './search.ts';
import type { Found } from './search.ts';

/** A planted bug, and what gave it away; `null` when it went unseen. */
export type Caught = { readonly bug: Planted; readonly found: Found | null };

const CORE_DIR = join(import.meta.dirname, '../../src/turns/core');
const SCRATCH_DIR = join(import.meta.dirname, '.planted');

/** In the copies the core does not check itself, so that what is caught is caught by the search. */
const SELF_CHECK = {
  file: 'decide.ts',
  find: '  if (decision.ok) assertFloor(floor, decision.floor, at);\n',
  replace: '',
};

/** Plants every bug in a copy of the core of its own and searches each until the first broken invariant. */
export async function catchPlanted(): Promise<readonly Caught[]> {
  await mkdir(SCRATCH_DIR, { recursive: true });
  const folder = await mkdtemp(join(SCRATCH_DIR, 'run-'));
  try {
    const caught: Caught[] = [];
    for (const [index, bug] of PLANTED.entries()) {
      const core = await plant(bug, join(folder, `${index}`));
      const t = Date.now();
      caught.push({ bug, found: firstFound(core) });
      const c = caught.at(-1)!;
      console.log(
        Date.now() - t,
        c.found === null ? '!!!!!! ' : 'ok ',
        c.bug.name,
        '|',
        c.found?.invariant,
        c.found?.what,
        c.found?.trace.length,
        c.found?.channel,
      );
    }
    return caught;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The channels from the cheapest on, each a little way, then each as far as the small run goes. */
function firstFound(core: Core): Found | null {
  for (const share of [0.5, 0.75, 1]) {
    for (const channel of CHANNELS) {
      const depth = Math.ceil(channel.smallDepth * share);
      const [found] = search(core, channel, { depth, first: true }).found;
      if (found !== undefined) return found;
    }
  }
  return null;
}

async function plant(bug: Planted, folder: string): Promise<Core> {
  await cp(CORE_DIR, folder, { recursive: true });
  for (const { file, find, replace } of [SELF_CHECK, bug]) {
    const text = await readFile(join(folder, file), 'utf8');
    const times = text.split(find).length - 1;
    if (times !== 1) throw new Error(`"${bug.name}" cannot be planted: its text stands ${times} times in ${file}`);
    await writeFile(
      join(folder, file),
      text.replace(find, () => replace),
    );
  }
  const load = (file: string): Promise<Core> => import(pathToFileURL(join(folder, file)).href);
  const [{ decide }, { evolve }, { react }, { nextDeadline }, { emptyFloor }] = await Promise.all([
    load('decide.ts'),
    load('evolve.ts'),
    load('react.ts'),
    load('deadline.ts'),
    load('floor.ts'),
  ]);
  return { decide, evolve, react, nextDeadline, emptyFloor };
}
