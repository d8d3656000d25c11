import type { TicketSource } from './ticket.ts';

/** Runs the program tk with arguments. Resolves with its output, and rejects with words for people. */
type AskTk = (args: readonly string[]) => Promise<string>;

/**
 * Tickets of the program tk. `files`: the source that reads and writes their files. A ticket without dependencies
 * starts only if `tk ready` lists it as open. `tk close` runs after a finished ticket's file in the user's copy says
 * closed, so that tk changes no file before main does. `isClosed`: whether the file in the user's copy says closed.
 */
export function tkTickets(files: TicketSource, ask: AskTk, isClosed: (id: string) => Promise<boolean>): TicketSource {
  return {
    async list() {
      const [found, ready] = [await files.list(), readyIn(await ask(['ready']))];
      const tickets = found.tickets.map((ticket) =>
        ticket.status === 'open' && !ready.has(ticket.id) && ticket.deps.length === 0
          ? { ...ticket, status: 'in_progress' as const }
          : ticket,
      );
      return { tickets, unreadable: found.unreadable };
    },
    async finish(id) {
      if (!(await isClosed(id))) return false;
      await ask(['close', id]);
      return true;
    },
    create: (order, commit) => files.create?.(order, commit) ?? Promise.reject(new Error('impossible: only read')),
    note: async (id, note, commit) => (await files.note?.(id, note, commit)) ?? null,
    closingFile: (id, commit) => files.closingFile(id, commit),
    closed: (id, commit) => files.closed(id, commit),
  };
}

/**
 * The ids of open tickets in the output of `tk ready`, which also lists tickets in progress. Throws for other lines.
 */
function readyIn(output: string): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const line of output.split('\n')) {
    if (line.trim() === '') continue;
    const [, id = '', status] = /^(\S+)\s+(?:\[P\d\])?\[(\w+)\] - /.exec(line) ?? [];
    if (status === undefined)
      throw new Error(`"tk ready" answered with a line that cannot be read: ${JSON.stringify(line.slice(0, 80))}`);
    if (status === 'open') ids.add(id);
  }
  return ids;
}
