import type { Command } from '../floor/command.ts';
import type { Refusal } from '../floor/refusals.ts';
import type { AgentId, ChannelId, MessageId, SeatSettings } from '../floor/settings.ts';
import type { DrawnFor } from '../drawn-for.ts';
import type { Instant } from '../../lib/time.ts';
import type { Applied } from '../floor-store.ts';
import type { FloorView, InboxRow, JournalEntry, TurnRecord } from '../view.ts';
import type { COMMANDS } from './command-table.ts';
import type { Values } from './parse.ts';

/** The parts of the floors that commands need. */
export type Floors = {
  apply(channel: ChannelId, command: Command): Promise<Applied>;
  /** Returns `null` when the channel has no floor. */
  view(channel: ChannelId): FloorView | null;
  /** Returns the last turns, at most `limit`, oldest first. */
  turns(channel: ChannelId, limit: number): readonly TurnRecord[];
  /** Returns the journal entries about a message, oldest first. */
  why(message: MessageId): readonly JournalEntry[];
  message(id: MessageId): InboxRow | null;
};

/** The record of one command that not everybody may use, refused or not. */
export type Audit = {
  readonly channel: ChannelId;
  readonly by: string;
  readonly line: string;
  readonly ok: boolean;
  readonly text: string;
};

/** The answer to a command. */
export type Answer = {
  readonly ok: boolean;
  readonly text: string;
  /** Errors of a filled-in form, by field name. */
  readonly fields?: Readonly<Record<string, string>>;
};

/**
 * A parsed command with its channel and author. `drawnFor`: the question or turn for which the pressed button was made;
 * absent when no button was pressed.
 */
export type Request = {
  readonly channel: ChannelId;
  readonly person: Person;
  readonly values: Values;
  readonly drawnFor?: DrawnFor;
};

/** A verb of the command group "run". */
export type RunVerb = (typeof COMMANDS)[number]['path'] extends infer Path
  ? Path extends `run ${infer Verb}`
    ? Verb
    : never
  : never;

/** Who may decide: only people or roles with these ids, or all operators except these. */
export type Approvers = { readonly only: readonly string[] } | { readonly not: readonly string[] };

/** Commands about runs. */
export type RunCommands = {
  /** Runs a command of the group "run". `agent`: the agent that the command names; `null` when it names none. */
  run(verb: RunVerb, agent: AgentId | null, request: Request): Answer | Promise<Answer>;
  /** Returns a summary of all runs of an agent. Returns `null` when it had none. */
  totals(agent: AgentId): string | null;
  /** Returns who may answer the question with this number. `null`: every operator. */
  approvers(channel: ChannelId, question: number): Approvers | null;
  /**
   * Returns how and by whom a question was answered, in words. Returns `null` when unknown. Buttons name a question by
   * its key.
   */
  answered(channel: ChannelId, named: { readonly question: number } | { readonly key: string }): string | null;
};

/** A verb of the command group "crew". */
export type CrewVerb = (typeof COMMANDS)[number]['path'] extends infer Path
  ? Path extends `crew ${infer Verb}`
    ? Verb
    : never
  : never;

/** Runs the commands of the group "crew". A command concerns the crew of its channel, or of its thread's channel. */
export type CrewCommands = { run(verb: CrewVerb, request: Request): Answer | Promise<Answer> };

/** Runs the commands of the group "review". */
export type ReviewCommands = {
  start(request: Request, agents: { readonly primary: AgentId; readonly reviewer: AgentId }): Promise<Answer>;
  /** Shows the open review of the channel, or the last one; with the option `json`, as JSON. */
  status(request: Request): Answer;
  /**
   * Shows the review as JSON, with the newest lines of its conversation: those after the line with the number `count`.
   */
  export(request: Request): Answer;
  /** Shows what changed since the newest verdict; before the first verdict, since the work began. */
  diff(request: Request): Promise<Answer>;
  /** The agents of the reviews that messages open in a channel; `null` unless the configuration names both. */
  agents(channel: ChannelId): { readonly primary: AgentId; readonly reviewer: AgentId } | null;
  cancel(request: Request): Promise<Answer>;
  accept(request: Request): Promise<Answer>;
  /** Decides that the reviewer is right, so that the work continues. */
  uphold(request: Request): Promise<Answer>;
  more(request: Request): Promise<Answer>;
};

/** Commands about trust in agents' folders. A decision for a worker counts for its whole crew. */
export type TrustCommands = {
  /** Trusts the files with this id for an agent. Without the id, only shows the files. Refuses an outdated id. */
  trust(agent: AgentId, id: string | null, request: Pick<Request, 'channel' | 'person'>): Promise<Answer>;
  /**
   * Denies trust: the agent is not started with the files with this id, and people are not asked about them again.
   * Without the id, denies the present files and revokes all earlier decisions for the agent. Refuses an outdated id.
   */
  distrust(agent: AgentId, id: string | null, request: Pick<Request, 'channel' | 'person'>): Promise<Answer>;
  /**
   * Returns the files in an agent's folder and whether they are trusted, in one line. Returns `null` for an agent
   * without a trust check.
   */
  status(agent: AgentId): Promise<string | null>;
};

/** The parts of Conch that commands read and change. */
export type CommandContext = {
  readonly floors: Floors;
  readonly roster: Roster;
  operators(): OperatorSet;
  /** Display names of channels, and (`agent`) of agents and people. An unknown id is returned unchanged. */
  readonly names: { readonly agent: (id: AgentId) => string; readonly channel: (id: ChannelId) => string };
  readonly words: { refusal(refusal: Refusal, context: { readonly agent?: string }): string };
  readonly clock: { now(): Instant };
  /** Returns why the platform accepts no messages in a channel now, or `null` when it does. */
  suspended?(channel: ChannelId): string | null;
  /**
   * Returns the settings of a seat for an agent, also for one that the channel's configuration does not list. Returns
   * `null` when the agent cannot be added.
   */
  seat?(channel: ChannelId, agent: AgentId): SeatSettings | null;
  readonly runs?: RunCommands;
  readonly reviews?: ReviewCommands;
  readonly crews?: CrewCommands;
  readonly trust?: TrustCommands;
  /** Called after a command that not everybody may use, refused or not. */
  audit?(entry: Audit): void;
};

/** The author of a command, as the platform confirms them. `bot`: true for a program. */
export type Person = {
  readonly id: string;
  readonly name: string;
  readonly roles: readonly string[];
  readonly bot?: boolean;
};

/** Ids of the people, and of the roles or groups, that may change floors. */
export type OperatorSet = { readonly users: readonly string[]; readonly roles: readonly string[] };

/**
 * Returns whether the person may change a floor. Judges by ids, never by names. Returns false for bots and for agents
 * (`never`), even if they are listed.
 */
export function mayOperate(person: Person, operators: OperatorSet, never: readonly string[]): boolean {
  if (person.bot === true || person.id === '' || never.includes(person.id)) return false;
  return (
    operators.users.includes(person.id) || person.roles.some((role) => role !== '' && operators.roles.includes(role))
  );
}

/**
 * One agent as `/agent list` shows it. `state`: the state of its session in words; of several sessions, the state of
 * greatest concern.
 */
export type RosterEntry = {
  readonly id: AgentId;
  readonly name: string;
  /** The backend's kind, such as "scripted". Includes a warning when the agent may change things without asking. */
  readonly backend: string;
  readonly state: string;
  readonly channels: readonly ChannelId[];
};

/** The agents of this Conch, for the commands of the group "agent". */
export type Roster = {
  list(): readonly RosterEntry[];
  /** Returns facts about an agent, one line each. Returns `null` when the agent does not exist. */
  status(agent: AgentId): readonly string[] | null;
  /**
   * Closes an agent's open sessions, resets their error counters and opens them again. Resolves after the first
   * attempt. Sessions that are closed until the agent's next work stay closed.
   */
  restart(agent: AgentId): Promise<{ readonly ok: boolean; readonly text: string }>;
};
