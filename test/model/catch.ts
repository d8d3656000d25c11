import { catchInCrews } from './planted-crews.ts';
import { catchInFolders } from './planted-folders.ts';
import { catchInClicks, catchInJoined } from './planted-joined.ts';
import { catchInReviews } from './planted-reviews.ts';
import { catchInRuns } from './planted-runs.ts';
import { catchInRounds, catchPlanted } from './plant.ts';
import { knownWays } from './ways.ts';

/** The planted bugs of one kind: their number, and the names of those that no search found. */
export type CaughtBugs = { readonly planted: number; readonly unseen: readonly string[] };

type Catch = () => Promise<readonly { readonly bug: { readonly name: string }; readonly found: unknown }[]>;

const ways = knownWays();
const KINDS: Readonly<Record<string, Catch>> = {
  floor: () => catchPlanted(ways),
  rounds: catchInRounds,
  runs: () => catchInRuns(ways),
  joined: () => catchInJoined(ways),
  clicks: () => catchInClicks(ways),
  reviews: () => catchInReviews(ways),
  crews: () => catchInCrews(ways),
  folders: () => catchInFolders(ways),
};

/**
 * Searches for the planted bugs and prints a `CaughtBugs` for each kind, as JSON. A separate program: it loads the
 * copies of the source several times faster than the test runner with its transforms.
 */
const caught: Record<string, CaughtBugs> = {};
for (const [kind, search] of Object.entries(KINDS)) {
  const bugs = await search();
  const unseen = bugs.filter(({ found }) => found === null).map(({ bug }) => bug.name);
  caught[kind] = { planted: bugs.length, unseen };
}
console.log(JSON.stringify(caught));
