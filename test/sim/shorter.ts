import { runSeed } from './world.ts';
import type { Outcome } from './world.ts';

/** A run, and its number of events. */
export type Run = { readonly outcome: Outcome; readonly events: number };

/** Returns the first shorter run of the seed that breaks the same rule; else the run itself. */
export async function shorter(outcome: Outcome, events: number): Promise<Run> {
  const { seed, broken } = outcome;
  if (broken === null) return { outcome, events };
  const longest = Math.min(events, broken.event);
  for (let fewer = 50; fewer < longest; fewer *= 2) {
    const run = await runSeed(seed, fewer);
    if (run.broken?.rule === broken.rule) return { outcome: run, events: fewer };
  }
  return { outcome, events: longest };
}
