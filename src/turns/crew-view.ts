import type { Instant } from '../lib/time.ts';
import type { ChannelId } from './floor/settings.ts';

/** A button for people, with the command that it gives (`line`). `what`: what the command does. */
export type CrewButton = {
  readonly label: string;
  readonly line: string;
  readonly what: string;
  readonly style: 'plain' | 'good' | 'danger';
  /**
   * Number of the question, ticket or commit that the button was drawn for; 0 for none. The command is refused when the
   * number is outdated.
   */
  readonly mark: number;
};

/** A worker as people see it. */
export type CrewWorkerView = {
  readonly name: string;
  readonly status: 'idle' | 'ready' | 'working' | 'done' | 'stuck';
  readonly symbol: string;
  readonly ticket: { readonly id: string; readonly title: string; readonly thread: ChannelId } | null;
  /** Steps that the worker took for its ticket. `maxSteps`: the most that it may take. */
  readonly steps: number;
  readonly maxSteps: number;
  /** Tool steps inside the step that is under way; `null` without such a step or without tools. */
  readonly toolSteps: number | null;
  /** The last commit that main lacks, and how much the worker's branch changes, in words; empty without one. */
  readonly work: string;
  readonly tokens: number;
  readonly costMicros: number;
  /**
   * What the worker waits for, or what is done with its work; empty for nothing. `since`: when the wait began. If that
   * is unknown, the time of the worker's last step, else of its ticket. `null` without a wait, and when no time is
   * known.
   */
  readonly waits: string;
  readonly since: Instant | null;
  /** When the announced merge of the worker's work begins; `null` when none is announced. */
  readonly landsAt: Instant | null;
  /** Whether the worker waits for a person. `isQuestion`: the worker asks a question with choices. */
  readonly asksPeople: boolean;
  readonly isQuestion: boolean;
  readonly buttons: readonly CrewButton[];
};

/** A worker that waits for a person: its name, the reason in words, and the thread of its ticket, or `null`. */
export type CrewAsk = Pick<CrewWorkerView, 'name' | 'waits'> & { readonly thread: ChannelId | null };

/** The states of tickets, in the order in which people see them. */
export const TICKET_STATES = [
  'proposed',
  'ready',
  'waiting for others',
  'in work',
  'cannot start',
  'only by hand',
  'merged',
  'closed without a change',
] as const;

export type TicketState = (typeof TICKET_STATES)[number];

/**
 * A ticket in a list. `words`: words for people, such as the title, the worker or the merge commit. `at`: when it was
 * proposed, taken or finished; `null` for other tickets.
 */
export type TicketView = {
  readonly id: string;
  readonly words: string;
  readonly at: Instant | null;
  /** The thread of a ticket in work, or of a finished ticket; absent for other tickets, and when unknown. */
  readonly thread?: ChannelId;
  readonly buttons?: readonly CrewButton[];
};

/**
 * Tickets of one state: their count, and some of them; finished tickets newest first. Of tickets that wait for others,
 * only the count is given.
 */
export type TicketGroup = {
  readonly state: TicketState;
  readonly count: number;
  readonly tickets: readonly TicketView[];
};

/** A crew as people see it: plain JSON for cards, the page and `/crew dashboard`. */
export type CrewView = {
  readonly id: string;
  readonly channel: ChannelId;
  /** The database's id, for buttons. */
  readonly store: string;
  readonly running: boolean;
  /** Problems and questions of the whole crew, in words. */
  readonly problems: readonly string[];
  /** Why the crew is paused, and until when; `null` when it is not paused. */
  readonly paused: { readonly until: Instant; readonly why: string } | null;
  /** Workers that wait for a person come first, the longest wait first; then the others by status. */
  readonly workers: readonly CrewWorkerView[];
  readonly groups: readonly TicketGroup[];
  readonly steps: number;
  readonly tokens: number;
  readonly costMicros: number;
  readonly unpriced: boolean;
  /** The last verdict on a commit of main. `accepted`: by a person. `null`: no verdict, so main must be tested. */
  readonly base: 'green' | 'red' | 'none' | 'accepted' | null;
  /** How often the tests of workers' work had each result. `flaky`: green at the second try. */
  readonly tests: Readonly<Record<'green' | 'flaky' | 'red' | 'none', number>>;
  readonly merges: { readonly merged: number; readonly conflicts: number; readonly dropped: number };
  readonly kept: readonly string[];
  /** What happened last, oldest first. */
  readonly log: readonly { readonly at: Instant; readonly worker: string; readonly text: string }[];
  readonly buttons: readonly CrewButton[];
};

/** Millionths of a dollar as dollars and cents. */
export function dollars(micros: number): string {
  return `$${(micros / 1_000_000).toFixed(2)}`;
}
