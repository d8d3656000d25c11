import { hash } from 'node:crypto';
import { z } from 'zod';
import { shortDigest } from '../../../lib/digest.ts';
import { instantOf, isoTime } from '../../../lib/time.ts';
import { GitHubRefusal, GitHubRequests, accountSchema } from '../github.ts';
import type { AskGitHub } from '../github.ts';
import type { NewTicket, Ticket, TicketSource } from './ticket.ts';

type GitHubPlan = {
  readonly owner: string;
  readonly repo: string;
  readonly label: string;
  /** The name of this crew in claims. Other crews must have other names. */
  readonly claimant: string;
  readonly now: () => number;
};

/** How long a list of issues is used again, in milliseconds: GitHub allows 5,000 requests an hour. */
const FRESH_MS = 30_000;
/** The lease of a claim, in milliseconds. `claim` renews the crew's own claim after half of it. */
const LEASE_MS = 7 * 24 * 3_600_000;
/** The most that GitHub's clock is expected to be behind Conch's clock, in milliseconds. */
const CLOCKS_MS = 3_600_000;

const issueSchema = z.looseObject({
  number: z.int(),
  title: z.string(),
  body: z.string().nullish(),
  state: z.enum(['open', 'closed']),
  updated_at: z.string(),
  assignees: z.array(accountSchema).default([]),
  pull_request: z.unknown().optional(),
});
const eventSchema = z.looseObject({
  event: z.string(),
  created_at: z.string(),
  actor: accountSchema.nullish(),
  label: z.looseObject({ name: z.string() }).nullish(),
});
/** A query for the versions of an issue's text, the first one included. The REST API has none of them. */
const EDITS = `query($owner: String!, $repo: String!, $number: Int!) { repository(owner: $owner, name: $repo) {
  issue(number: $number) { userContentEdits(first: 100) { totalCount nodes { editedAt editor { login } } } } } }`;
const versionSchema = z.looseObject({ editedAt: z.string(), editor: accountSchema.nullish() });
const versionsSchema = z.looseObject({ totalCount: z.int(), nodes: z.array(versionSchema) });
const NO_VERSIONS: z.infer<typeof versionsSchema> = { totalCount: 0, nodes: [] };
const editsSchema = z.looseObject({
  repository: z.looseObject({ issue: z.looseObject({ userContentEdits: versionsSchema.nullish() }) }),
});
const commentSchema = z.looseObject({ id: z.int(), body: z.string().nullish(), user: accountSchema.nullish() });

const newIssueSchema = issueSchema.extend({ labels: z.array(z.looseObject({ name: z.string() })) });

type Issue = z.infer<typeof issueSchema>;
type IssueEvent = z.infer<typeof eventSchema>;
type Comment = z.infer<typeof commentSchema>;
type Claim = { readonly comment: number; readonly by: string; readonly until: string };

const CLAIM = /<!-- conch claim by=(\S+) until=(\S+) -->/;

/**
 * Issues of a repository on GitHub that have a label, if somebody with write access set it, and nobody without it
 * changed the title or the text since. A ticket is claimed by a comment with a lease of seven days. Of several
 * unexpired claims by accounts with write access, the one with the lowest comment id counts. A line that begins with
 * "Depends on #12" or "Blocked by #12" is a dependency.
 */
export function gitHubTickets(ask: AskGitHub, plan: GitHubPlan): TicketSource {
  return new GitHubTickets(ask, plan);
}

type Listed = Awaited<ReturnType<TicketSource['list']>>;

class GitHubTickets implements TicketSource {
  readonly #requests: GitHubRequests;
  readonly #plan: GitHubPlan;
  /** Why the label of an issue does not count, by issue and its last change; `null` when it counts. */
  readonly #labelled = new Map<string, string | null>();
  #last: { readonly at: number; readonly listed: Listed } | null = null;
  /**
   * Claims of other crews by issue. `assignees`: those of the issue at the first listing after the claim was found;
   * `null` before.
   */
  readonly #claims = new Map<number, Claim & { readonly assignees: string | null }>();
  readonly #unassigned = new Set<number>();

  constructor(ask: AskGitHub, plan: GitHubPlan) {
    this.#requests = new GitHubRequests(ask, plan);
    this.#plan = plan;
  }

  async list(): Promise<Listed> {
    const { label, now } = this.#plan;
    if (this.#last !== null && now() - this.#last.at < FRESH_MS) return this.#last.listed;
    const issues = (
      await this.#requests.pages(
        'GET /repos/{owner}/{repo}/issues',
        { labels: label, state: 'open' },
        z.array(issueSchema),
      )
    ).filter(({ pull_request: pull }) => pull === undefined);
    const tickets: Ticket[] = [];
    const unreadable: { id: string; why: string }[] = [];
    for (const issue of issues) {
      const why = await this.#whyNotTaken(issue);
      const claim = this.#claimOf(issue);
      if (why === null) tickets.push({ ...ticketOf(issue), ...(claim === null ? {} : { status: 'in_progress' }) });
      if (why !== null || claim !== null) unreadable.push({ id: idOf(issue.number), why: why ?? claim ?? '' });
    }
    tickets.push(...(await this.#others(tickets)));
    const listed = { tickets, unreadable };
    this.#last = { at: now(), listed };
    return listed;
  }

  async isClosed(id: string): Promise<boolean> {
    return (await this.#issue(numberOf(id)))?.state === 'closed';
  }

  async closingFile(): Promise<null> {
    return null;
  }

  async claim(id: string, prepare?: () => Promise<void>): Promise<string | null> {
    const number = numberOf(id);
    const before = await this.#holder(number);
    const own = before?.by === this.#plan.claimant ? before : null;
    if (before !== null && own === null) return this.#leaveTo(before, number);
    await prepare?.();
    const now = this.#plan.now();
    if ((instantOf(own?.until ?? '') ?? 0) > now + LEASE_MS / 2) return await this.#assignClaimed(number);
    const until = isoTime(now + LEASE_MS);
    const body = `<!-- conch claim by=${this.#plan.claimant} until=${until} -->\nA crew of Conch works on this issue.`;
    if (own !== null) {
      const order = { comment_id: own.comment, body };
      await this.#requests.send('PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}', order);
      return await this.#assignClaimed(number);
    }
    this.#unassigned.add(number);
    const route = '/repos/{owner}/{repo}/issues/{issue_number}/comments';
    const made = await this.#requests.read(`POST ${route}`, { issue_number: number, body }, commentSchema);
    const after = await this.#holder(number);
    if (after?.by === this.#plan.claimant) return await this.#assignClaimed(number);
    await this.#deleteComment(made.id);
    return after === null ? 'its claim was not kept by GitHub' : this.#leaveTo(after, number);
  }

  async #assignClaimed(number: number): Promise<null> {
    if (this.#unassigned.has(number)) await this.#assign('POST', number);
    this.#unassigned.delete(number);
    return null;
  }

  #leaveTo(claim: Claim, number: number): string {
    this.#claims.set(number, { ...claim, assignees: null });
    this.#last = null;
    return claimWords(claim);
  }

  #claimOf({ number, assignees }: Issue): string | null {
    const claim = this.#claims.get(number);
    const now = assignees.map(({ login }) => login).join(' ');
    const lasts = (instantOf(claim?.until ?? '') ?? 0) > this.#plan.now() && (claim?.assignees ?? now) === now;
    if (claim === undefined || !lasts) this.#claims.delete(number);
    else this.#claims.set(number, { ...claim, assignees: now });
    return claim === undefined || !lasts ? null : claimWords(claim);
  }

  /**
   * Creates an issue, or finds an earlier call's issue by its marker: among all issues with the label, then among those
   * changed since the proposal, because GitHub may have left out the label. Rejects if the issue has no such label.
   */
  async create({ key, title, text, deps, from, at }: NewTicket): Promise<{ readonly id: string; readonly file: null }> {
    const { label: name } = this.#plan;
    const marker = `<!-- conch proposal=${key} -->`;
    const route = '/repos/{owner}/{repo}/issues';
    const find = async (narrow: Readonly<Record<string, string>>) => {
      const all = await this.#requests.pages(`GET ${route}`, { state: 'all', ...narrow }, z.array(newIssueSchema));
      return all.find(({ body }) => body?.includes(marker) === true);
    };
    const existing = (await find({ labels: name })) ?? (await find({ since: isoTime(at - CLOCKS_MS) }));
    const after = deps.map((id) => `Depends on #${numberOf(id)}`);
    const origin = from === '' ? '' : `Proposed by an agent while it worked on #${numberOf(from)}. `;
    const body = [text, ...after, `${origin}${marker}`];
    const order = { title, body: body.filter((part) => part !== '').join('\n\n'), labels: [name] };
    const made = existing ?? (await this.#requests.read(`POST ${route}`, order, newIssueSchema));
    this.#last = null;
    if (!made.labels.some((each) => each.name === name))
      throw new Error(
        `GitHub did not set the label "${name}" on #${made.number}: the token may not set labels. Set it on GitHub`,
      );
    return { id: idOf(made.number), file: null };
  }

  async released(id: string): Promise<void> {
    const number = numberOf(id);
    for (const { id: comment, body } of await this.#comments(number))
      if (CLAIM.exec(body ?? '')?.[1] === this.#plan.claimant) await this.#deleteComment(comment);
    await this.#assign('DELETE', number);
  }

  async closed(id: string, commit: string | null): Promise<void> {
    const words = commit === null ? 'No change was needed.' : `Merged as ${commit}.`;
    await this.#comment(id, `<!-- conch closed by=${this.#plan.claimant} -->`, words);
    await this.#requests.send('PATCH /repos/{owner}/{repo}/issues/{issue_number}', {
      issue_number: numberOf(id),
      state: 'closed',
      state_reason: 'completed',
    });
    this.#last = null;
  }

  async note(id: string, note: string): Promise<null> {
    // A note of an agent must not look like a claim.
    await this.#comment(id, `<!-- conch note=${shortDigest(note)} -->`, note.replaceAll('<!--', '<! --'));
    return null;
  }

  async #comment(id: string, marker: string, words: string): Promise<void> {
    const number = numberOf(id);
    if ((await this.#comments(number)).some(({ body }) => body?.includes(marker) === true)) return;
    const route = 'POST /repos/{owner}/{repo}/issues/{issue_number}/comments';
    await this.#requests.send(route, { issue_number: number, body: `${marker}\n${words}` });
  }

  async #others(tickets: readonly Ticket[]): Promise<readonly Ticket[]> {
    const listedIds = new Set(tickets.map(({ id }) => id));
    const missing = new Set(tickets.flatMap(({ deps }) => deps).filter((id) => !listedIds.has(id)));
    const found: Ticket[] = [];
    for (const id of missing) {
      const issue = await this.#issue(numberOf(id));
      // An open issue found here is never started. Listed as in progress, it makes its dependents wait.
      if (issue !== null)
        found.push({ ...ticketOf(issue), deps: [], status: issue.state === 'closed' ? 'closed' : 'in_progress' });
    }
    return found;
  }

  async #issue(number: number): Promise<Issue | null> {
    try {
      const route = 'GET /repos/{owner}/{repo}/issues/{issue_number}';
      return await this.#requests.read(route, { issue_number: number }, issueSchema);
    } catch (error) {
      if (error instanceof GitHubRefusal && error.status === 404) return null;
      throw error;
    }
  }

  async #whyNotTaken({ number, title, body, updated_at: changed }: Issue): Promise<string | null> {
    // GitHub's times have whole seconds, so two texts can have one time.
    const key = hash('sha256', JSON.stringify([number, changed, title, body]));
    const cached = this.#labelled.get(key);
    if (cached !== undefined) return cached;
    const route = 'GET /repos/{owner}/{repo}/issues/{issue_number}/events';
    const events = await this.#requests.pages(route, { issue_number: number }, z.array(eventSchema));
    const at = events.findLastIndex(({ event, label }) => event === 'labeled' && label?.name === this.#plan.label);
    const by = events[at]?.actor?.login;
    const why =
      by === undefined
        ? `GitHub does not say who set the label "${this.#plan.label}"`
        : (await this.#requests.mayWrite(by))
          ? await this.#whyChanged(number, events.slice(at))
          : `${by}, who set the label "${this.#plan.label}", may not write to the repository`;
    this.#labelled.set(key, why);
    return why;
  }

  async #whyChanged(number: number, events: readonly IssueEvent[]): Promise<string | null> {
    const { repository } = await this.#requests.read('POST /graphql', { query: EDITS, number }, editsSchema);
    const { totalCount, nodes } = repository.issue.userContentEdits ?? NO_VERSIONS;
    const labelled = instantOf(events[0]?.created_at ?? '') ?? 0;
    const editors = [
      ...events.flatMap(({ event, actor }) => (event === 'renamed' ? [actor?.login] : [])),
      ...nodes.flatMap(({ editedAt, editor }) => ((instantOf(editedAt) ?? labelled) < labelled ? [] : [editor?.login])),
      ...(totalCount > nodes.length ? [undefined] : []),
    ];
    for (const editor of new Set(editors))
      if (editor === undefined || !(await this.#requests.mayWrite(editor)))
        return `${editor ?? 'somebody unknown'}, who may not write to the repository, changed it after the label "${this.#plan.label}" was set. Read it, then set the label again`;
    return null;
  }

  async #holder(number: number): Promise<Claim | null> {
    const comments = (await this.#comments(number)).toSorted((a, b) => a.id - b.id);
    for (const { id: comment, body, user } of comments) {
      const [, by, until = ''] = CLAIM.exec(body ?? '') ?? [];
      const lasts = (instantOf(until) ?? 0) > this.#plan.now();
      if (by !== undefined && lasts && user != null && (await this.#requests.mayWrite(user.login)))
        return { comment, by, until };
    }
    return null;
  }

  #comments(number: number): Promise<readonly Comment[]> {
    const route = 'GET /repos/{owner}/{repo}/issues/{issue_number}/comments';
    return this.#requests.pages(route, { issue_number: number }, z.array(commentSchema));
  }

  async #deleteComment(comment: number): Promise<void> {
    await this.#requests.send('DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}', { comment_id: comment });
  }

  /**
   * Assigns the token's account to the issue, or unassigns it, so that people see who works. Ignores `GitHubRefusal`.
   */
  async #assign(method: 'POST' | 'DELETE', number: number): Promise<void> {
    try {
      const { login } = await this.#requests.read('GET /user', {}, accountSchema);
      const route = '/repos/{owner}/{repo}/issues/{issue_number}/assignees';
      await this.#requests.send(`${method} ${route}`, { issue_number: number, assignees: [login] });
    } catch (error) {
      if (!(error instanceof GitHubRefusal)) throw error;
    }
  }
}

function claimWords({ by, until }: Claim): string {
  return `${by} has claimed it until ${until}`;
}

const DEPENDS = /^\s*(?:[-*]\s*)?(?:depends on|blocked by)\s*:?\s*(#\d+(?:\s*(?:,|and)\s*#\d+)*)/gim;

function ticketOf({ number, title, body, state }: Issue): Ticket {
  const text = body ?? '';
  const deps = [...text.matchAll(DEPENDS)].flatMap(([, list = '']) => list.match(/\d+/g) ?? []);
  return {
    id: idOf(number),
    title,
    text,
    status: state,
    deps: [...new Set(deps.map((each) => idOf(Number(each))))],
    priority: 2,
    touches: [],
  };
}

function idOf(number: number): string {
  return `gh-${number}`;
}

function numberOf(id: string): number {
  const [, number] = /^gh-(\d+)$/.exec(id) ?? [];
  if (number === undefined) throw new Error(`${id} is no issue of GitHub`);
  return Number(number);
}
