import { dirname } from 'node:path';
import type { Source } from '../house/imports.ts';

/** Tests that import a file of the source from at most this many files away are near. */
const NEAR = 2;

/**
 * The tests that run a file (relative to `src`), in three rounds, the nearest first: tests in its folder of `test` and
 * tests that import it directly; tests that import it through one other file; all other tests that import it. Leaves
 * out tests that only start the program. `source`: the tree with `src` and `test`.
 */
export function roundsOf(file: string, source: Source): readonly (readonly string[])[] {
  const distances = distancesTo(`src/${file}`, source);
  const rounds: string[][] = [[], [], []];
  for (const [test, distance] of distances) {
    if (!test.endsWith('.test.ts')) continue;
    const isBeside = dirname(test) === dirname(`test/${file}`);
    rounds[isBeside || distance < NEAR ? 0 : distance === NEAR ? 1 : 2]?.push(test);
  }
  return rounds.filter((round) => round.length > 0);
}

/** The files that import a file at run time, with their distance in imports. */
function distancesTo(file: string, { imports }: Source): ReadonlyMap<string, number> {
  const importers = Map.groupBy(
    imports.filter(({ types }) => !types),
    ({ to }) => to,
  );
  const distances = new Map([[file, 0]]);
  for (const [reached, distance] of distances)
    for (const { from } of importers.get(reached) ?? []) if (!distances.has(from)) distances.set(from, distance + 1);
  return distances;
}
