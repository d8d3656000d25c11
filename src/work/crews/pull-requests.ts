import { z } from 'zod';
import { GitHubRefusal, GitHubRequests, accountSchema } from './github.ts';
import type { AskGitHub, GitHubPlace } from './github.ts';

/** A remark of a reviewer with write access. `place`: the file, with the line if known; or empty. */
export type Remark = {
  readonly id: string;
  readonly author: string;
  readonly place: string;
  readonly text: string;
};

/** What a service says of a pull request. `base`: the branch that it is merged into. */
export type PullState = {
  readonly state: 'open' | 'closed' | 'merged';
  readonly base: string;
  /** The commit as which the pull request was merged; `null` before, or when the service does not tell. */
  readonly commit: string | null;
  readonly conflicts: boolean;
  readonly remarks: readonly Remark[];
  /** Names of the red checks of the pushed commit; empty while a check runs, and unless `state` is open. */
  readonly red: readonly string[];
};

type PullOrder = {
  readonly branch: string;
  readonly base: string;
  readonly title: string;
  readonly body: string;
};

/** A service with pull requests. */
export type PullRequests = {
  /** Opens a pull request for a branch, or finds the open one. */
  open(order: PullOrder): Promise<{ readonly number: number; readonly url: string }>;
  /** Returns the state of a pull request, with the red checks of its commit `head`. */
  look(number: number, head: string): Promise<PullState>;
};

const pullSchema = z.looseObject({
  number: z.int(),
  html_url: z.string(),
  state: z.enum(['open', 'closed']),
  merged: z.boolean().default(false),
  merge_commit_sha: z.string().nullish(),
  mergeable: z.boolean().nullish(),
  base: z.looseObject({ ref: z.string() }),
});
const remarkSchema = z.looseObject({
  id: z.int(),
  user: accountSchema.nullish(),
  author_association: z.string().default('NONE'),
  body: z.string().nullish(),
  state: z.string().default(''),
  path: z.string().nullish(),
  line: z.int().nullish(),
});
const runsSchema = z
  .looseObject({
    check_runs: z.array(z.looseObject({ name: z.string(), status: z.string(), conclusion: z.string().nullish() })),
  })
  .transform(({ check_runs: runs }) => runs);
const statusesSchema = z
  .looseObject({ statuses: z.array(z.looseObject({ context: z.string(), state: z.string() })) })
  .transform(({ statuses }) => statuses);

/** GitHub's marks of authors whose permissions Conch looks up. Remarks of authors with another mark are ignored. */
const TRUSTED: ReadonlySet<string> = new Set(['OWNER', 'MEMBER', 'COLLABORATOR']);
const RED_RUNS: ReadonlySet<string> = new Set(['failure', 'timed_out', 'startup_failure']);
const RED_STATUSES: ReadonlySet<string> = new Set(['failure', 'error']);

/** Pull requests of a repository on GitHub. */
export function gitHubPulls(ask: AskGitHub, place: GitHubPlace): PullRequests {
  const requests = new GitHubRequests(ask, place);
  const PULLS = '/repos/{owner}/{repo}/pulls';
  return {
    async open({ branch, base, title, body }) {
      const head = `${place.owner}:${branch}`;
      const [found] = await requests.pages(`GET ${PULLS}`, { head, base, state: 'open' }, z.array(pullSchema));
      const made = found ?? (await requests.read(`POST ${PULLS}`, { head: branch, base, title, body }, pullSchema));
      return { number: made.number, url: made.html_url };
    },
    async look(number, head) {
      const pull = await requests.read(`GET ${PULLS}/{pull_number}`, { pull_number: number }, pullSchema);
      const commit = pull.merged ? (pull.merge_commit_sha ?? null) : null;
      const state = pull.merged ? 'merged' : pull.state;
      const fields = { state, base: pull.base.ref, commit, conflicts: pull.mergeable === false } as const;
      if (state !== 'open') return { ...fields, remarks: [], red: [] };
      return { ...fields, remarks: await remarksOf(requests, number), red: await redChecks(requests, head) };
    },
  };
}

/**
 * Reviews that comment or request changes, then comments on the diff: those with a text, by people with write access.
 */
async function remarksOf(requests: GitHubRequests, number: number): Promise<readonly Remark[]> {
  const route = 'GET /repos/{owner}/{repo}/pulls/{pull_number}';
  const reviews = await requests.pages(`${route}/reviews`, { pull_number: number }, z.array(remarkSchema));
  const comments = await requests.pages(`${route}/comments`, { pull_number: number }, z.array(remarkSchema));
  const withRemarks = reviews.filter(({ state }) => state === 'CHANGES_REQUESTED' || state === 'COMMENTED');
  const remark =
    (kind: string) =>
    (row: z.infer<typeof remarkSchema>): readonly Remark[] => {
      const { id, user, author_association: association, body, path, line } = row;
      if (user == null || !TRUSTED.has(association) || (body ?? '').trim() === '') return [];
      const place = path == null ? '' : `${path}${line == null ? '' : `:${line}`}`;
      return [{ id: `${kind} ${id}`, author: user.login, place, text: body ?? '' }];
    };
  const remarks = [...withRemarks.flatMap(remark('review')), ...comments.flatMap(remark('comment'))];
  const rights = new Map<string, boolean>();
  for (const { author } of remarks) rights.set(author, rights.get(author) ?? (await requests.mayWrite(author)));
  return remarks.filter(({ author }) => rights.get(author));
}

/** The names of the red checks of a commit; empty while a check runs, so that all are told at once. */
async function redChecks(requests: GitHubRequests, ref: string): Promise<readonly string[]> {
  const route = 'GET /repos/{owner}/{repo}/commits/{ref}';
  const runs = await orNone(requests.pages(`${route}/check-runs`, { ref }, runsSchema));
  const statuses = await orNone(requests.pages(`${route}/status`, { ref }, statusesSchema));
  const isOpen = runs.some(({ status }) => status !== 'completed') || statuses.some(({ state }) => state === 'pending');
  if (isOpen) return [];
  return [
    ...runs.filter(({ conclusion }) => RED_RUNS.has(conclusion ?? '')).map(({ name }) => name),
    ...statuses.filter(({ state }) => RED_STATUSES.has(state)).map(({ context }) => context),
  ];
}

/** Resolves with no rows when GitHub does not know the commit: it may have been pushed just now. */
async function orNone<Row>(rows: Promise<readonly Row[]>): Promise<readonly Row[]> {
  try {
    return await rows;
  } catch (error) {
    if (error instanceof GitHubRefusal && (error.status === 404 || error.status === 422)) return [];
    throw error;
  }
}
