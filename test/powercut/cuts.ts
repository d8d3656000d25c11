import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Random } from '../sim/random.ts';
import { Disk, problemsAfter } from './cut.ts';
import { recordLife } from './recording.ts';

/** The result of power cuts. */
export type Cuts = {
  readonly cuts: number;
  readonly writes: number;
  readonly syncs: number;
  readonly told: number;
  /** Cuts with faults. `before`: the number of the event that was cut off. `problems`: the first faults. */
  readonly faults: readonly { readonly before: number; readonly problems: readonly string[] }[];
};

/** The plan: `rounds` rounds of messages in three channels, then `cuts` power cuts. */
export type CutPlan = {
  readonly cuts: number;
  readonly rounds: number;
  readonly seed: number;
  readonly how: 'shipped' | 'hasty';
};

/** Records a life of a store and cuts the power at random events. */
export async function powerCuts({ cuts, rounds, seed, how }: CutPlan): Promise<Cuts> {
  const place = mkdtempSync(join(tmpdir(), 'conch-power-'));
  try {
    mkdirSync(join(place, 'data'));
    const events = recordLife(join(place, 'data', 'conch.db'), [String(rounds), how]);
    const random = new Random(seed);
    const places = Array.from({ length: cuts }, () => random.between(1, events.length)).toSorted((a, b) => a - b);
    const faults: Cuts['faults'][number][] = [];
    const disk = new Disk();
    const told: string[] = [];
    let done = 0;
    for (const before of places) {
      for (const event of events.slice(done, before)) {
        disk.take(event);
        if (event.did === 'tell') told.push(event.line);
      }
      done = before;
      const problems = await problemsAfter(disk.left(random), told, join(place, 'left'));
      if (problems.length > 0) faults.push({ before, problems: problems.slice(0, 3) });
    }
    const count = (what: string): number => events.filter(({ did }) => did === what).length;
    return { cuts, writes: count('write'), syncs: count('sync'), told: count('tell'), faults };
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}
