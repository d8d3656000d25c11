import type { FileText } from '../git/merge.ts';

/** A ticket of any source. Its texts are data, and no instructions. */
export type Ticket = {
  readonly id: string;
  readonly title: string;
  readonly text: string;
  readonly status: 'open' | 'in_progress' | 'closed';
  /** Ids of the tickets that must be merged or closed first. */
  readonly deps: readonly string[];
  /** 0 is the highest, 4 the lowest. */
  readonly priority: number;
  /** Patterns of the files that the ticket changes. */
  readonly touches: readonly string[];
};

/** A ticket that cannot be read or started, and why. */
export type ListedTicket = { readonly id: string; readonly why: string };

/**
 * A ticket to write. `key`: the same for the same proposal. `from`: the ticket of the worker who proposed it; empty for
 * a message. `at`: milliseconds since 1970.
 */
export type NewTicket = Pick<Ticket, 'title' | 'text' | 'deps' | 'touches'> & {
  readonly key: string;
  readonly from: string;
  readonly at: number;
};

/** A source of tickets. */
export type TicketSource = {
  list(): Promise<{ readonly tickets: readonly Ticket[]; readonly unreadable: readonly ListedTicket[] }>;
  /** Whether a ticket is closed. Absent: `list` has the closed tickets, too. */
  isClosed?(id: string): Promise<boolean>;
  /** The file of a ticket at a commit, with the status changed to closed; `null` when the commit has no such file. */
  closingFile(id: string, commit: string): Promise<FileText | null>;
  /**
   * Writes a new ticket, once for each `key`. Resolves with its id, and with its file where the caller must commit the
   * file on top of `commit`. Absent: tickets are only read.
   */
  create?(order: NewTicket, commit: string): Promise<{ readonly id: string; readonly file: FileText | null }>;
  /**
   * Claims a ticket before its work starts, and renews the claim later. Resolves with why the claim failed; `null` when
   * the ticket is claimed. `prepare`: called before a claim that can succeed. Rejects when `prepare` does.
   */
  claim?(id: string, prepare?: () => Promise<void>): Promise<string | null>;
  /** Releases the claim of a ticket that is not worked on any more. */
  released?(id: string): Promise<void>;
  /**
   * Tells the program that manages the tickets that a finished ticket is closed. Resolves with false when it is too
   * early. Called until it resolves with true. Absent: there is no such program.
   */
  finish?(id: string): Promise<boolean>;
  /**
   * Adds a note to a ticket, also a closed one, only once. Resolves with the ticket's file where the caller must commit
   * it on top of `commit`, else with `null`. Absent: tickets are only read.
   */
  note?(id: string, note: string, commit: string): Promise<FileText | null>;
  /**
   * Closes a finished ticket where neither a commit on main nor people do it. `commit`: its merge; `null` when no
   * change was needed. Called until it resolves, while `list` has the ticket as not closed.
   */
  closed(id: string, commit: string | null): Promise<void>;
};

/** Whether a ticket is closed in its source. */
export async function isClosed(source: TicketSource, ticket: string): Promise<boolean> {
  if (source.isClosed !== undefined) return await source.isClosed(ticket);
  const { tickets } = await source.list();
  return tickets.some(({ id, status }) => id === ticket && status === 'closed');
}

type SortedTickets = {
  readonly ready: readonly Ticket[];
  /** The number of open tickets that wait for their dependencies, or for other tickets that change the same files. */
  readonly waiting: number;
  readonly listed: readonly ListedTicket[];
};

/**
 * Sorts tickets by priority, then id. A ticket is ready when it is open, each dependency is merged, and its `touches`
 * overlap no running or earlier ready ticket. Lists unreadable tickets, and those with an unknown dependency or in a
 * cycle, with the reason. Leaves out running, merged, closed and in-progress tickets. `isMerged`: whether a ticket
 * counts as merged.
 */
export function sortTickets(
  { tickets, unreadable }: Awaited<ReturnType<TicketSource['list']>>,
  running: readonly string[],
  isMerged: (ticket: Ticket) => boolean,
): SortedTickets {
  const byId = new Map(tickets.map((ticket) => [ticket.id, ticket]));
  const endless = endlessIn(byId);
  const touched = running.flatMap((id) => byId.get(id)?.touches ?? []);
  const listed: ListedTicket[] = [...unreadable];
  const ready: Ticket[] = [];
  let waiting = 0;
  for (const ticket of tickets.toSorted((a, b) => a.priority - b.priority || compare(a.id, b.id))) {
    if (ticket.status !== 'open' || running.includes(ticket.id) || isMerged(ticket)) continue;
    const why = problemOf(ticket, byId, endless.has(ticket.id));
    if (why !== null) listed.push({ id: ticket.id, why });
    const isFree = !overlap(ticket.touches, touched);
    const isNext = ticket.deps.every((id) => {
      const dep = byId.get(id);
      return dep !== undefined && isMerged(dep);
    });
    if (why === null && !(isNext && isFree)) waiting += 1;
    if (why !== null || !isNext || !isFree) continue;
    touched.push(...ticket.touches);
    ready.push(ticket);
  }
  return { ready, waiting, listed };
}

/** Returns why a ticket cannot wait for the tickets `deps`, for people; `null` when it can. */
export function whyNotAfter(tickets: readonly Ticket[], id: string, deps: readonly string[]): string | null {
  const own = tickets.find((ticket) => ticket.id === id);
  if (own?.status !== 'open') return 'it is no open ticket any more';
  const unknown = deps.filter((dep) => tickets.every((ticket) => ticket.id !== dep));
  if (unknown.length > 0) return `there is no ticket ${unknown.join(', ')}`;
  const wanted = { ...own, deps: [...own.deps, ...deps] };
  return problemOf(wanted, new Map([...tickets, wanted].map((ticket) => [ticket.id, ticket])));
}

function problemOf(ticket: Ticket, byId: ReadonlyMap<string, Ticket>, isEndless = true): string | null {
  const unknown = ticket.deps.filter((id) => !byId.has(id));
  if (unknown.length > 0) return `it depends on ${unknown.join(', ')}, which does not exist`;
  const cycle = isEndless ? cycleFrom(ticket, byId) : null;
  return cycle === null ? null : `it waits for itself: ${cycle.join(' → ')}`;
}

function cycleFrom({ id }: Ticket, byId: ReadonlyMap<string, Ticket>): readonly string[] | null {
  const dependents = new Map<string, string>();
  const reached = [id];
  for (const at of reached) {
    for (const dep of byId.get(at)?.deps ?? []) {
      if (dependents.has(dep)) continue;
      dependents.set(dep, at);
      reached.push(dep);
    }
    if (dependents.has(id)) break;
  }
  const cycle = [id];
  for (let at = dependents.get(id); at !== undefined; at = at === id ? undefined : dependents.get(at))
    cycle.unshift(at);
  return cycle.length === 1 ? null : cycle;
}

/** The ids of tickets in a cycle of dependencies, and of tickets that wait for one in a cycle. */
function endlessIn(byId: ReadonlyMap<string, Ticket>): ReadonlySet<string> {
  const waitsFor = new Map([...byId].map(([id, { deps }]) => [id, new Set(deps.filter((dep) => byId.has(dep)))]));
  const pairs = [...waitsFor].flatMap(([id, deps]) => [...deps].map((dep) => ({ id, dep })));
  const dependents = Map.groupBy(pairs, ({ dep }) => dep);
  const ended = [...waitsFor].flatMap(([id, { size }]) => (size === 0 ? [id] : []));
  for (const dep of ended)
    for (const { id } of dependents.get(dep) ?? []) {
      const left = waitsFor.get(id);
      if (left?.delete(dep) === true && left.size === 0) ended.push(id);
    }
  for (const id of ended) waitsFor.delete(id);
  return new Set(waitsFor.keys());
}

/**
 * Whether a pattern of one list may match the same file as one of the other list. Compares them up to their first
 * wildcards.
 */
export function overlap(some: readonly string[], others: readonly string[]): boolean {
  return some.some((glob) => others.some((other) => overlaps(glob, other)));
}

/** Whether two patterns may match the same file: the part before the first wildcard of one begins with the other's. */
function overlaps(one: string, other: string): boolean {
  const [a, b] = [fixedPart(one), fixedPart(other)];
  return a.startsWith(b) || b.startsWith(a);
}

function fixedPart(glob: string): string {
  return glob.replace(/[*?[{].*$/s, '');
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
