import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { errorMessage } from '../../../lib/defined.ts';
import { instantOf } from '../../../lib/time.ts';
import { isTicketId } from './ticket-file.ts';
import type { ListedTicket, Ticket, TicketSource } from './ticket.ts';

const text = z.string().nullish().catch(null);

const issueSchema = z.looseObject({
  id: z.string(),
  title: z.string(),
  description: text,
  design: text,
  acceptance_criteria: text,
  notes: text,
  status: z.string().default('open'),
  priority: z.int().min(0).max(4).default(2),
  defer_until: text,
  dependencies: z
    .array(z.looseObject({ issue_id: z.string(), depends_on_id: z.string(), type: z.string().default('blocks') }))
    .nullish(),
});

type Issue = z.infer<typeof issueSchema>;

/** Types of dependencies that keep an issue from being started. */
const BLOCKERS: ReadonlySet<string> = new Set(['blocks', 'conditional-blocks', 'waits-for']);

/**
 * Tickets in a file of beads issues, one JSON object on each line. The file is only read. People close finished issues.
 */
export function beadsTickets(path: string, now: () => number): TicketSource {
  return {
    async list() {
      const lines = await readFile(path, 'utf8').catch((error: unknown) => {
        throw new Error(`the issues in ${path} cannot be read: ${errorMessage(error)}`);
      });
      return readIssues(lines, now());
    },
    closingFile: async () => null,
    closed: async () => {},
  };
}

/** The issues of a file. Lists unreadable lines with their numbers. Of two lines with one id, the last counts. */
export function readIssues(lines: string, now: number): Awaited<ReturnType<TicketSource['list']>> {
  const issues = new Map<string, Issue>();
  const unreadable: ListedTicket[] = [];
  for (const [index, line] of lines.split('\n').entries()) {
    if (line.trim() === '') continue;
    try {
      const issue = issueSchema.parse(JSON.parse(line));
      if (!isTicketId(issue.id)) throw new Error('its id cannot be the name of a branch');
      issues.set(issue.id, issue);
    } catch (error) {
      unreadable.push({ id: `line ${index + 1}`, why: wordsOf(error) });
    }
  }
  return { tickets: [...issues.values()].map((issue) => ticketOf(issue, issues, now)), unreadable };
}

function wordsOf(error: unknown): string {
  return error instanceof z.ZodError ? z.prettifyError(error).replaceAll(/\s+/g, ' ') : errorMessage(error);
}

function ticketOf(issue: Issue, issues: ReadonlyMap<string, Issue>, now: number): Ticket {
  const { id, title, priority } = issue;
  const parts = [
    issue.description,
    headed('Design', issue.design),
    headed('Acceptance Criteria', issue.acceptance_criteria),
    headed('Notes', issue.notes),
  ];
  const words = parts.filter((part) => part != null && part !== '').join('\n\n');
  return {
    id,
    title,
    text: words,
    status: statusOf(issue, now),
    deps: blockersOf(issue, issues),
    priority,
    touches: [],
  };
}

function headed(heading: string, words: string | null | undefined): string {
  return words == null || words === '' ? '' : `## ${heading}\n${words}`;
}

function statusOf({ status, defer_until: until }: Issue, now: number): Ticket['status'] {
  if (status === 'closed') return 'closed';
  const isDeferred = until != null && (instantOf(until) ?? now) > now;
  return status === 'open' && !isDeferred ? 'open' : 'in_progress';
}

function blockersOf(issue: Issue, issues: ReadonlyMap<string, Issue>): readonly string[] {
  const found = new Set<string>();
  const seen = new Set<string>();
  const add = (one: Issue): void => {
    if (seen.has(one.id)) return;
    seen.add(one.id);
    for (const { issue_id: of, depends_on_id: on, type } of one.dependencies ?? []) {
      if (of !== one.id) continue;
      if (BLOCKERS.has(type)) found.add(on);
      const parent = type === 'parent-child' ? issues.get(on) : undefined;
      if (parent !== undefined) add(parent);
    }
  };
  add(issue);
  return [...found];
}
