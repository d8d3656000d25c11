import { readdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { GitEnvironment } from '../../lib/git.ts';
import type { Instant } from '../../lib/time.ts';
import { isOpen } from './review.ts';
import type { Review, ReviewState } from './review.ts';
import { dropWork, hideWork, storedWork } from './work-tree.ts';

/** Where reviews store work, and which reviews there were. */
export type StoredReviews = {
  readonly env: GitEnvironment;
  /** The id of the database, a part of every ref: it keeps apart the work of two Conches in one repository. */
  readonly owner: string;
  /** The folder for the files that reviewers read: an absolute path without links. */
  readonly scratch: string;
  readonly states: () => Iterable<ReviewState>;
  /** Working folders of agents, and repositories of crews. */
  readonly folders: () => readonly string[];
  /** Called with the error when stored work could not be deleted, or a review could not go on. */
  readonly failed: (error: unknown) => void;
};

type At = Pick<StoredReviews, 'owner' | 'scratch'>;

/** The prefix of the refs that hold the work of a review. */
export function refsOf({ owner }: Pick<At, 'owner'>, id: string): string {
  return `${ownRefs(owner)}/${pathOf(id)}`;
}

/** The folder in which reviewers read the work of a review. */
export function folderForReviewer({ scratch }: Pick<At, 'scratch'>, id: string): string {
  return join(scratch, pathOf(id));
}

function ownRefs(owner: string): string {
  return `refs/conch/review/${pathOf(owner)}`;
}

/** Returns an id for use in a ref or folder name. */
function pathOf(id: string): string {
  return id.replaceAll(/[^\w-]/g, '-');
}

/**
 * Deletes leftovers of ended reviews in the repositories of `folders` and in `scratch`: the folders for reviewers with
 * their registrations in git, and refs. Deletes the refs of a channel's last review only if it ended before `keptSince`
 * (`null`: never) or was of a ticket. Returns the number of reviews whose refs were deleted. `isDryRun` only counts.
 */
export async function sweepReviews(
  reviews: StoredReviews,
  keptSince: (channel: string) => Instant | null,
  isDryRun = false,
): Promise<number> {
  const { env, owner, scratch, failed } = reviews;
  const refs = ownRefs(owner);
  const isLeft = leftoverTest(reviews, keptSince);
  const expired = new Set<string>();
  for (const folder of new Set(reviews.folders())) {
    try {
      const found = await storedWork(env, folder, { refs, scratch });
      const paths = new Set(found.refs.map((ref) => ref.slice(refs.length + 1).split('/')[0] ?? ''));
      for (const path of [...paths].filter((each) => isLeft('refs', each))) {
        if (!isDryRun) await dropWork(env, folder, `${refs}/${path}/*`);
        expired.add(path);
      }
      for (const place of found.places)
        if (!isDryRun && isLeft('folder', basename(place))) await hideWork(env, folder, place);
    } catch (error) {
      failed(error);
    }
  }
  // Also deletes folders that no repository has registered, and folders of repositories in which no agent works any
  // more.
  for (const name of isDryRun ? [] : await readdir(scratch).catch(() => []))
    if (isLeft('folder', name)) await rm(join(scratch, name), { recursive: true, force: true });
  return expired.size;
}

/**
 * Returns a function that tells whether the refs or the folder of a review can be deleted. It returns false for a
 * review that is neither a channel's last review nor an earlier one of its series: it may be about to begin.
 */
function leftoverTest(
  { states }: Pick<StoredReviews, 'states'>,
  keptSince: (channel: string) => Instant | null,
): (what: 'refs' | 'folder', path: string) => boolean {
  let storedStates: readonly ReviewState[] | null = null;
  const isOver = (what: 'refs' | 'folder', { channel, review }: ReviewState): boolean => {
    if (review === null || isOpen(review)) return false;
    return what === 'folder' || review.ticket !== undefined || hasExpired(review, keptSince(channel));
  };
  return (what, path) => {
    storedStates ??= [...states()];
    const last = storedStates.filter(({ review }) => review !== null && pathOf(review.id) === path);
    if (last.length > 0) return last.every((state) => isOver(what, state));
    const { series, number } = numbered(path);
    const lasts = storedStates.flatMap(({ review }) => (review === null ? [] : [numbered(pathOf(review.id))]));
    const own = lasts.filter((each) => each.series === series);
    return own.length > 0 && own.every((each) => number < each.number);
  };
}

/** Splits a review's id. `series`: what the ids of a channel's reviews, or of one ticket's, have in common. */
function numbered(path: string): { readonly series: string; readonly number: number } {
  const [, series = '', number = ''] = /^(.*)-(\d+)$/.exec(path) ?? [];
  return { series, number: Number(number) };
}

function hasExpired({ outcome }: Review, since: Instant | null): boolean {
  return outcome !== null && since !== null && outcome.at < since;
}
