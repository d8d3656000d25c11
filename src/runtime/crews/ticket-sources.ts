import { execFile } from 'node:child_process';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { childEnvironment } from '../../agents/process/process-group.ts';
import type { CrewConfig } from '../../config/config.ts';
import { defined } from '../../lib/defined.ts';
import { shortDigest } from '../../lib/digest.ts';
import type { Clock } from '../../lib/time.ts';
import type { FloorStore } from '../../turns/floor-store.ts';
import type { Repository } from '../../work/crews/git/repository.ts';
import { beadsTickets } from '../../work/crews/tickets/beads-tickets.ts';
import { filesTickets, isClosedInCopy } from '../../work/crews/tickets/files-tickets.ts';
import { gitHubTickets } from '../../work/crews/tickets/github-tickets.ts';
import type { AskGitHub, GitHubPlace } from '../../work/crews/github.ts';
import { gitHubPulls } from '../../work/crews/pull-requests.ts';
import type { PullRequests } from '../../work/crews/pull-requests.ts';
import type { QuotedMessage } from '../../work/crews/crews.ts';
import type { TicketSource } from '../../work/crews/tickets/ticket.ts';
import { tkTickets } from '../../work/crews/tickets/tk-tickets.ts';

/** Opens the source of a crew's tickets, by its configuration. */
export async function ticketsOf(
  { id, tickets }: CrewConfig,
  repository: Repository,
  clock: Clock,
): Promise<TicketSource> {
  switch (tickets.kind) {
    case 'files':
      return filesTickets(repository, tickets.dir);
    case 'tk':
      return tkTickets(
        filesTickets(repository, tickets.dir),
        (args) => askProgram(tickets.command, args, repository.root),
        (ticket) => isClosedInCopy(repository, tickets.dir, ticket),
      );
    case 'beads':
      return beadsTickets(join(repository.root, tickets.file), () => clock.now());
    case 'github':
      return gitHubTicketsOf(id, tickets, repository, clock);
  }
}

async function gitHubTicketsOf(
  crew: string,
  tickets: Extract<CrewConfig['tickets'], { kind: 'github' }>,
  repository: Repository,
  clock: Clock,
): Promise<TicketSource> {
  const { ask, ...place } = await gitHubAt(tickets, clock);
  const claimant = `${crew}-${shortDigest(hostname(), repository.commonDir)}`;
  return gitHubTickets(ask, { ...place, label: tickets.label, claimant });
}

/**
 * Where the crew opens pull requests; `null` where it merges itself. Rejects when the configuration lacks what pull
 * requests need.
 */
export async function pullsOf(
  { id, merge, fetch, pullRequests, tickets }: CrewConfig,
  clock: Clock,
): Promise<PullRequests | null> {
  if (merge !== 'pr') return null;
  const place = pullRequests ?? (tickets.kind === 'github' ? tickets : null);
  if (place === null)
    throw new Error(`"merge": "pr" needs "pullRequests": { "repository": "owner/name", "token": … } in the crew ${id}`);
  if (!fetch) throw new Error(`"merge": "pr" needs "fetch": true in the crew ${id}: merged work comes from the remote`);
  const { ask, ...rest } = await gitHubAt(place, clock);
  return gitHubPulls(ask, rest);
}

async function gitHubAt(
  { repository, token, baseUrl }: { readonly repository: string; readonly token: string; readonly baseUrl?: string },
  clock: Clock,
): Promise<GitHubPlace & { readonly ask: AskGitHub }> {
  const { Octokit } = await import('@octokit/core');
  const client = new Octokit({ auth: token, ...defined({ baseUrl }), log: SILENT });
  const [owner = '', repo = ''] = repository.split('/');
  const ask: AskGitHub = async (route, parameters) =>
    route === 'POST /graphql'
      ? { data: await client.graphql({ ...parameters, query: String(parameters['query']) }) }
      : await client.request(route, { ...parameters });
  return { owner, repo, now: () => clock.now(), ask };
}

/** Drops the log lines of the GitHub client. The crew gets the refusals of GitHub as errors. */
const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/**
 * The longest that the program that reads tickets may take, in milliseconds, and the most that it may write, in bytes.
 */
const LONGEST_MS = 30_000;
const MOST_OUTPUT = 16_777_216;

/**
 * Runs the program that reads tickets in the repository, without a shell and without secrets of Conch. Resolves with
 * its output. Rejects when the program is missing, fails, takes longer than `limitMs` or writes more than
 * `MOST_OUTPUT`.
 */
export function askProgram(
  command: string,
  args: readonly string[],
  cwd: string,
  limitMs = LONGEST_MS,
): Promise<string> {
  const env = childEnvironment({ from: process.env });
  return new Promise((resolve, reject) => {
    const child = execFile(
      command,
      [...args],
      { cwd, env, timeout: limitMs, killSignal: 'SIGKILL', maxBuffer: MOST_OUTPUT, encoding: 'utf8' },
      (error, output, errorOutput) => {
        const line = [command, ...args].join(' ');
        if (error === null) resolve(output);
        else if (error.code === 'ENOENT') reject(new Error(`there is no program "${command}" to read tickets with`));
        else if (error.killed === true)
          reject(new Error(`"${line}" took longer than ${limitMs / 1_000} s or wrote too much`));
        else reject(new Error(`"${line}" failed: ${errorOutput.trim().slice(-500) || error.message}`));
      },
    );
    child.stdin?.end();
  });
}

/** `link`: a link to a message; `null` where its platform has none. */
type MessagePorts = {
  readonly store: Pick<FloorStore, 'message' | 'lastLines'>;
  readonly clean: (text: string) => string;
  readonly link: (channel: string, message: string) => string | null;
};

/** The most lines of a thread that are read. */
const LINES_READ = 200;

/**
 * Returns a message with the newest lines of its thread, for a ticket; or, as words, why no ticket can be made of it.
 */
export function messageAt(id: string, { store, clean, link }: MessagePorts): QuotedMessage | string {
  const storedMessage = store.message(id);
  if (storedMessage === null)
    return `No message with the id ${id} is known here. It may be older than this floor, or not of a person.`;
  const { channel, author, sentAt, text, deleted, bot, ignore } = storedMessage;
  if (deleted) return 'This message was deleted, so it cannot become a ticket.';
  if (bot === true || ignore !== undefined)
    return 'A program wrote this message. Only messages of people can become tickets.';
  // On Discord and Slack, the id of a thread ends with the id of its first message.
  const thread = `${channel.slice(0, channel.indexOf(':'))}:${id}`;
  const after = store
    .lastLines(thread, LINES_READ)
    .filter(({ message, change }) => message !== id && change === null)
    .map((line) => ({ author: line.author.name, at: line.at, text: clean(line.text) }));
  const first = { author: author.name, at: sentAt, text: clean(text) };
  const where = link(channel, id) ?? `message ${id} of ${channel}`;
  return { first, after, where, message: id, channel, asker: author.name };
}
