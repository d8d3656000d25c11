import { readFileSync, writeFileSync } from 'node:fs';

/**
 * The moves that led a full search to a planted bug. `where`: the channel or scene. A test follows the way first, which
 * takes the same checks and far less time, and searches in full when the way no longer leads to the bug.
 */
export type Way = { readonly name: string; readonly where: string; readonly moves: readonly unknown[] };

export type Ways = ReadonlyMap<string, Way>;

const FILE = new URL('ways.jsonl', import.meta.url);

/** The known ways, by the name of the bug. */
export function knownWays(): Ways {
  const lines = readFileSync(FILE, 'utf8').split('\n');
  const ways = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Way);
  return new Map(ways.map((way) => [way.name, way]));
}

/** Writes the ways of a full search: `npm run model -- --ways`. */
export function keepWays(ways: readonly Way[]): void {
  writeFileSync(FILE, ways.map((way) => `${JSON.stringify(way)}\n`).join(''));
}

/** Whether a search takes a move at this depth. A search without a way takes every move. */
export function isOnWay(way: Way | undefined, depth: number, move: unknown): boolean {
  return way === undefined || JSON.stringify(move) === JSON.stringify(way.moves[depth]);
}
