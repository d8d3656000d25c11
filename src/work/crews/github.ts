import { z } from 'zod';
import { errorMessage } from '../../lib/defined.ts';
import { isoTime } from '../../lib/time.ts';

/**
 * One request to GitHub, as the official client makes it. Rejects with the client's error. The route `POST /graphql`
 * takes a `query` and its variables.
 */
export type AskGitHub = (
  route: string,
  parameters: Readonly<Record<string, unknown>>,
) => Promise<{ readonly data: unknown }>;

/** An account of GitHub. */
export const accountSchema = z.looseObject({ login: z.string() });
const permissionSchema = z.looseObject({ permission: z.string() });

const PAGE = 100;
/** The most pages of a list that are read, with 100 rows each. Further pages are left out. */
const MOST_PAGES = 20;
/** How long requests are not sent after a rate limit that names no time, in milliseconds. */
const PAUSE_MS = 60_000;

const RIGHTS_MS = 600_000;

/** A repository on GitHub, and the clock. */
export type GitHubPlace = { readonly owner: string; readonly repo: string; readonly now: () => number };

/** Requests about one repository on GitHub. While GitHub asks to wait, they reject without being sent. */
export class GitHubRequests {
  readonly #ask: AskGitHub;
  readonly #place: GitHubPlace;
  #pause: { readonly until: number; readonly why: string } | null = null;
  readonly #rights = new Map<string, { readonly may: boolean; readonly until: number }>();

  constructor(ask: AskGitHub, place: GitHubPlace) {
    this.#ask = ask;
    this.#place = place;
  }

  /**
   * Returns the rows of all pages, at most `MOST_PAGES`. `form`: the form of a page. Rejects with `GitHubRefusal`, or
   * with `Error` while GitHub asks to wait or when an answer has another form.
   */
  async pages<Row>(
    route: string,
    parameters: Readonly<Record<string, unknown>>,
    form: z.ZodType<readonly Row[]>,
  ): Promise<readonly Row[]> {
    const all: Row[] = [];
    for (let page = 1; page <= MOST_PAGES; page += 1) {
      const rows = await this.read(route, { ...parameters, per_page: PAGE, page }, form);
      all.push(...rows);
      if (rows.length < PAGE) break;
    }
    return all;
  }

  /**
   * Whether an account has write access to the repository; remembered for ten minutes. GitHub's marks COLLABORATOR and
   * MEMBER do not tell: such authors can have read access only.
   */
  async mayWrite(username: string): Promise<boolean> {
    const cached = this.#rights.get(username);
    if (cached !== undefined && this.#place.now() < cached.until) return cached.may;
    const route = 'GET /repos/{owner}/{repo}/collaborators/{username}/permission';
    const { permission } = await this.read(route, { username }, permissionSchema).catch((error: unknown) => {
      if (error instanceof GitHubRefusal && error.status === 404) return { permission: 'none' };
      throw error;
    });
    const may = ['admin', 'write', 'maintain'].includes(permission);
    this.#rights.set(username, { may, until: this.#place.now() + RIGHTS_MS });
    return may;
  }

  /**
   * Sends one request, and returns the answer. Rejects with `GitHubRefusal`, or with `Error` while GitHub asks to wait
   * or when the answer has another form.
   */
  async read<Form>(route: string, parameters: Readonly<Record<string, unknown>>, form: z.ZodType<Form>): Promise<Form> {
    const answer = form.safeParse((await this.send(route, parameters)).data);
    if (!answer.success) throw new Error(`GitHub's answer to ${route} has an unexpected form`);
    return answer.data;
  }

  /** Sends one request. Rejects with `GitHubRefusal`, or `Error` while GitHub asks to wait. */
  async send(route: string, parameters: Readonly<Record<string, unknown>>): Promise<{ readonly data: unknown }> {
    const { owner, repo, now } = this.#place;
    if (this.#pause !== null && now() < this.#pause.until) throw new Error(this.#pause.why);
    try {
      return await this.#ask(route, { owner, repo, ...parameters });
    } catch (error) {
      const refusal = refusalOf(error, route);
      const until = waitIn(error, now());
      if (until !== null) {
        const why = `GitHub asks to wait until ${isoTime(until)}`;
        this.#pause = { until, why };
        throw new Error(why, { cause: error });
      }
      throw refusal;
    }
  }
}

/**
 * An answer of GitHub that is no success. `status`: its HTTP status; 403 for an error of GraphQL, 0 when there was no
 * answer.
 */
export class GitHubRefusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const STATUS_WORDS: Readonly<Record<number, string>> = {
  401: 'GitHub does not accept the token: check "token" of the crew\'s tickets',
  403: 'the token may not do this: it needs to write issues, and pull requests where the crew opens some',
  404: 'GitHub knows no such repository or issue, or the token may not see it',
};

/** An error in an answer of GraphQL has `errors` and no status. It counts as a refusal, with GitHub's own words. */
const errorSchema = z.looseObject({
  status: z.number().default(403),
  message: z.string().default(''),
  errors: z.array(z.unknown()).optional(),
  response: z.looseObject({ headers: z.record(z.string(), z.unknown()).default({}) }).optional(),
});

function refusalOf(error: unknown, route: string): GitHubRefusal {
  const { success, data } = errorSchema.safeParse(error);
  const cause = errorMessage(error);
  // The client reports a lost connection as status 500 without a response.
  if (!success || data.response === undefined)
    return new GitHubRefusal(0, `GitHub could not be reached: ${cause.slice(0, 200)}`);
  const words = (data.errors === undefined ? STATUS_WORDS[data.status] : undefined) ?? data.message.slice(0, 200);
  return new GitHubRefusal(data.status, `${route} failed with ${data.status}: ${words}`);
}

function waitIn(error: unknown, now: number): number | null {
  const { success, data } = errorSchema.safeParse(error);
  if (!success || (data.status !== 403 && data.status !== 429)) return null;
  const headers = data.response?.headers ?? {};
  const after = Number(headers['retry-after'] ?? Number.NaN);
  if (Number.isFinite(after)) return now + after * 1_000;
  if (String(headers['x-ratelimit-remaining']) === '0') {
    const reset = Number(headers['x-ratelimit-reset'] ?? Number.NaN) * 1_000;
    return Number.isFinite(reset) && reset > now ? reset : now + PAUSE_MS;
  }
  return data.status === 429 || /rate limit/i.test(data.message) ? now + PAUSE_MS : null;
}
