import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { wrongCourses } from './courses.ts';
import type { Script } from './courses.ts';
import { canariesIn, copyOf, leftOf } from './measure-copy.ts';
import type { TrialEvent } from './program.ts';
import { CONTROLS, TICKETS, git } from '../../examples/crew/repository.ts';

/** The results of a trial. Names as in the table of measures. */
export type Measured = {
  readonly workers: number;
  /** `onMainOnce`: tickets whose work is on main exactly once. `tickets`: all tickets. */
  readonly onMainOnce: number;
  readonly tickets: number;
  readonly redCommitsOnMain: number;
  readonly closedWithoutCommit: number;
  readonly mergedButOpen: number;
  readonly givenTwice: number;
  readonly controlsStarted: number;
  readonly startedBeforeDependency: number;
  readonly copyChanged: readonly string[];
  /** Worktrees with work that main lacked when their workers left, and the refs that keep such work. */
  readonly dirtyTrees: number;
  readonly keptRefs: number;
  readonly canaryFound: number;
  readonly leftOver: readonly string[];
  /** Branches with red tests before their merge, rounds of conflicts, and merged trees with red tests. */
  readonly redAlone: number;
  readonly conflictRounds: number;
  readonly refusals: number;
  /** Tickets that differ from their workers' courses. */
  readonly wrongCourses: readonly string[];
  readonly steps: number;
  readonly wallMs: number;
  /** Milliseconds from DONE to the merge, without the tests. */
  readonly doneToMergedMs: readonly number[];
  readonly tree: string;
  /** The tree without the tickets. */
  readonly sources: string;
  readonly starts: number;
};

/** The data of a finished trial. `before`: the user's copy. */
type Known = {
  readonly repo: string;
  readonly dataDir: string;
  readonly before: ReturnType<typeof copyOf>;
  readonly events: readonly TrialEvent[];
  readonly script: Script;
  readonly tickets: readonly string[];
  readonly testsMain: boolean;
};

type Fact = TrialEvent['fact'];
type Ticket = { readonly id: string; readonly base: string };

/** Measures a finished trial. */
export async function measure(known: Known): Promise<Omit<Measured, 'workers' | 'wallMs' | 'starts'>> {
  const { repo, dataDir, before, events, script, testsMain } = known;
  const main = newestMain(repo);
  const commits = mergesOf(repo, main);
  const mergesFor = (id: string) => commits.filter(({ ticket }) => ticket === id);
  const isClosed = (id: string) => git(repo, 'show', `${main}:.tickets/${id}.md`).includes('\nstatus: closed\n');
  const facts = events.map(({ fact }) => fact);
  const made = facts.flatMap(({ type, ticket }) => (type === 'proposalAdmitted' ? [String(ticket)] : []));
  const tickets = [...new Set([...known.tickets, ...made])];
  const assigned = facts.flatMap((fact) => (fact.type === 'ticketAssigned' ? [fact['ticket'] as Ticket] : []));
  const after = copyOf(repo);
  return {
    tickets: tickets.length,
    onMainOnce: tickets.filter((id) => mergesFor(id).length === 1).length,
    redCommitsOnMain: testsMain ? redOf(repo, commits) : 0,
    closedWithoutCommit: tickets.filter((id) => isClosed(id) && mergesFor(id).length === 0).length,
    mergedButOpen: tickets.filter((id) => !isClosed(id) && mergesFor(id).length > 0).length,
    givenTwice: givenTwice(facts),
    controlsStarted: assigned.filter(({ id }) => CONTROLS.includes(id)).length,
    startedBeforeDependency: assigned.filter((ticket) => !hasDependencies(repo, ticket, mergesFor)).length,
    copyChanged: Object.keys(before).filter((key) => before[key] !== after[key]),
    dirtyTrees: events.filter(({ isDirty }) => isDirty === true).length,
    keptRefs: linesOf(git(repo, 'for-each-ref', '--format=%(refname)', 'refs/conch/kept')).length,
    canaryFound: canariesIn(repo, dataDir),
    leftOver: await leftOf(repo, SLOTS),
    redAlone: facts.filter(({ type, verdict }) => type === 'tested' && verdict === 'red').length,
    conflictRounds: facts.filter(({ type }) => type === 'conflicted').length,
    refusals: facts.filter(({ type, why }) => type === 'mergeDropped' && String(why).includes('merged tree failed'))
      .length,
    wrongCourses: wrongCourses(script, byTicket(facts)),
    steps: facts.filter(({ type }) => type === 'stepSent').length,
    doneToMergedMs: durations(events),
    tree: git(repo, 'rev-parse', `${main}^{tree}`),
    sources: git(repo, 'rev-parse', `${main}:src`),
  };
}

/** The number of port slots to check. No trial uses more. */
const SLOTS = 12;

function linesOf(text: string): readonly string[] {
  return text.split('\n').filter((line) => line.trim() !== '');
}

type Commit = { readonly commit: string; readonly ticket: string };

/** The first-parent commits of main, oldest first. `ticket`: empty for a commit without one. */
function mergesOf(repo: string, main: string): readonly Commit[] {
  const format = '--format=%H %(trailers:key=Conch-Ticket,valueonly,separator=%x20)';
  const lines = linesOf(git(repo, 'log', '--first-parent', '--reverse', format, main));
  return lines.map((line) => ({ commit: line.slice(0, 40), ticket: line.slice(41).trim() }));
}

/** The newest commit for main: it may still wait for the user's copy. */
function newestMain(repo: string): string {
  try {
    return git(repo, 'rev-parse', '--verify', '--quiet', 'refs/conch/main');
  } catch {
    return git(repo, 'rev-parse', 'main');
  }
}

/** Tickets that a worker got while another worker had them. */
function givenTwice(facts: readonly Fact[]): number {
  const takers = new Map<string, string>();
  let twice = 0;
  for (const fact of facts) {
    const { worker = '' } = fact;
    if (fact.type === 'workerMoved' && fact['to'] === 'idle') takers.delete(worker);
    if (fact.type !== 'ticketAssigned') continue;
    const { id } = fact['ticket'] as Ticket;
    if ([...takers.values()].includes(id)) twice += 1;
    takers.set(worker, id);
  }
  return twice;
}

/** The facts by ticket: those of its worker while it has the ticket, and pauses by its usage limit. */
function byTicket(facts: readonly Fact[]): ReadonlyMap<string, readonly Fact[]> {
  const tickets = new Map<string, Fact[]>();
  const held = new Map<string, string>();
  let last = '';
  for (const fact of facts) {
    if (fact.type === 'ticketAssigned') held.set(fact.worker ?? '', (fact['ticket'] as Ticket).id);
    const ticket = fact.type === 'paused' ? last : held.get(fact.worker ?? '');
    if (ticket === undefined) continue;
    if (fact.type === 'errorForgiven') last = ticket;
    tickets.set(ticket, [...(tickets.get(ticket) ?? []), fact]);
  }
  return tickets;
}

function hasDependencies(
  repo: string,
  { id, base }: Ticket,
  mergesFor: (id: string) => readonly { readonly commit: string }[],
): boolean {
  return (TICKETS[id] ?? []).every((dep) => mergesFor(dep).some(({ commit }) => isIn(repo, commit, base)));
}

function isIn(repo: string, commit: string, base: string): boolean {
  try {
    git(repo, 'merge-base', '--is-ancestor', commit, base);
    return true;
  } catch {
    return false;
  }
}

/** Commits of main whose tests are red. */
function redOf(repo: string, commits: readonly Commit[]): number {
  const folder = mkdtempSync(join(tmpdir(), 'conch-crew-main-'));
  let red = 0;
  git(repo, 'worktree', 'add', '--quiet', '--detach', '--force', folder, commits[0]?.commit ?? 'main');
  for (const { commit } of commits) {
    git(folder, 'checkout', '--quiet', '--force', '--detach', commit);
    try {
      git(folder, '-c', 'alias.t=!node --test', 't');
    } catch {
      red += 1;
    }
  }
  git(repo, 'worktree', 'remove', '--force', folder);
  return red;
}

/** Times from green tests to the merge, which tests the merged tree. */
function durations(events: readonly TrialEvent[]): readonly number[] {
  const tested = new Map<string, number>();
  const all: number[] = [];
  for (const { at, fact } of events) {
    if (fact.type === 'mergeAsked') tested.set(fact.worker ?? '', at);
    const from = tested.get(fact.worker ?? '');
    if (fact.type === 'merged' && from !== undefined) all.push(at - from);
  }
  return all.toSorted((a, b) => a - b);
}
