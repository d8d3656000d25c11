import type { Command } from '../floor/command.ts';
import type { Refusal } from '../floor/refusals.ts';
import type { AgentId, ChannelId, MessageId, SeatSettings } from '../floor/settings.ts';
import type { DrawnFor } from '../drawn-for.ts';
import type { Instant } from '../../lib/time.ts';
import type { Applied } from '../floor-store.ts';
import type { FloorView, InboxRow, JournalEntry, TurnRecord } from '../view.ts';
import type { COMMANDS } from './command-table.ts';
import type { TimeWords } from './clock-words.ts';
import type { Values } from './parse.ts';

/** What operator commands need of the floors; the TurnManager offers it. */
export type Floors = {
  apply(channel: ChannelId, command: Command): Promise<Applied>;
  /** `null` when the channel has no floor. */
  view(channel: ChannelId): FloorView | null;
  /** The newest turns, oldest first. */
  turns(channel: ChannelId, limit: number): readonly TurnRecord[];
  /** The entries that name this message, oldest first. */
  why(message: MessageId): readonly JournalEntry[];
  message(id: MessageId): InboxRow | null;
};

/** One use of a command that changes something, or an attempt at it. */
export type Audit = {
  readonly channel: ChannelId;
  readonly by: string;
  readonly line: string;
  readonly ok: boolean;
  readonly text: string;
};

/** What a command says: shown to whoever gave it, and to nobody else. */
export type Answer = {
  readonly ok: boolean;
  readonly text: string;
  /** What is wrong in a form that was filled in, by the names of its fields. */
  readonly fields?: Readonly<Record<string, string>>;
};

/** A command on its way: where it was given, by whom, and what its button was drawn for, if it came by one. */
export type Request = {
  readonly channel: ChannelId;
  readonly person: Person;
  readonly values: Values;
  readonly drawnFor?: DrawnFor;
};

/** What a command of the group "run" is about. */
export type RunVerb = (typeof COMMANDS)[number]['path'] extends infer Path
  ? Path extends `run ${infer Verb}`
    ? Verb
    : never
  : never;

/** The people or roles with these ids, whoever else operates; or every operator but these. */
export type Approvers = { readonly only: readonly string[] } | { readonly not: readonly string[] };

/** The runs of agents, for operators. Whoever hosts runs implements it. */
export type RunCommands = {
  /** Does what a command of the group "run" asks; `agent`: whom it names, or else whoever has the floor. */
  run(verb: RunVerb, agent: AgentId | null, request: Request): Answer | Promise<Answer>;
  /** What an agent has done in all its runs, in words; `null`: it has had none. */
  totals(agent: AgentId): string | null;
  /** Who alone may answer the question with this number; `null`: every operator. */
  approvers(channel: ChannelId, question: number): Approvers | null;
  /** How a question was answered, and by whom, in words; `null` when that is not known. A button names the question by its key. */
  answered(channel: ChannelId, named: { readonly question: number } | { readonly key: string }): string | null;
};

/** Who decides about the files in the folders of agents. Whoever starts agents implements it. */
export type TrustCommands = {
  /** Trusts the files with this id for an agent; without an id, or with another one than that of the files, only says what is there. */
  trust(agent: AgentId, id: string | null, request: Pick<Request, 'channel' | 'person'>): Promise<Answer>;
  /** The agent is not started beside these files, and nobody is asked about them again. */
  distrust(agent: AgentId, id: string | null, request: Pick<Request, 'channel' | 'person'>): Promise<Answer>;
  /** What the folder of an agent holds and whether it is trusted, in one line; `null`: it runs in none of this machine. */
  status(agent: AgentId): Promise<string | null>;
};

/** Everything that commands are answered from. */
export type CommandContext = {
  readonly floors: Floors;
  readonly roster: Roster;
  /** Who may operate now; asked at every use, so that a reloaded configuration counts at once. */
  operators(): OperatorSet;
  /** Names for people to read, of agents and of people, and of channels; an id that nobody has is its own name. */
  readonly names: { readonly agent: (id: AgentId) => string; readonly channel: (id: ChannelId) => string };
  readonly words: { refusal(refusal: Refusal, context: { readonly agent?: string }): string };
  readonly clock: { now(): Instant };
  readonly time: TimeWords;
  /** Why the platform takes nothing in a channel for now; `null` when it does. */
  suspended?(channel: ChannelId): string | null;
  /** The seat of an agent that the channel's configuration does not name; `null` when it must not sit there. */
  seat?(channel: ChannelId, agent: AgentId): SeatSettings | null;
  /** What agents work at, and what is done to it. */
  readonly runs?: RunCommands;
  /** Whether the folders of agents are trusted. */
  readonly trust?: TrustCommands;
  /** Told of every attempt to change something, refused ones too. */
  audit?(entry: Audit): void;
};

/** Who asks, as the platform vouches for them; `bot` when it is a program. */
export type Person = {
  readonly id: string;
  readonly name: string;
  readonly roles: readonly string[];
  readonly bot?: boolean;
};

/** Who may change floors: ids of people, and ids of roles or groups. Nobody else may. */
export type OperatorSet = { readonly users: readonly string[]; readonly roles: readonly string[] };

/**
 * Whether this person may change a floor, judged by ids alone and anew at every use.
 * Everybody who is not named may not; bots and agents (`never`) may not even when they are named.
 */
export function mayOperate(person: Person, operators: OperatorSet, never: readonly string[]): boolean {
  if (person.bot === true || person.id === '' || never.includes(person.id)) return false;
  return (
    operators.users.includes(person.id) || person.roles.some((role) => role !== '' && operators.roles.includes(role))
  );
}

/** One agent as operators list it. `state` is its session's, the worst one first when it sits in several channels. */
export type RosterEntry = {
  readonly id: AgentId;
  readonly name: string;
  /** The kind of its backend: "scripted", say, with a warning when it may change things unasked. */
  readonly backend: string;
  readonly state: string;
  readonly channels: readonly ChannelId[];
};

/** The agents of this program, for operators. Whoever runs agents implements it. */
export type Roster = {
  list(): readonly RosterEntry[];
  /** What is known of one agent, a line of text for each matter; `null` when there is no such agent. */
  status(agent: AgentId): readonly string[] | null;
  /** Closes an agent's sessions and opens them anew, with its error counters at zero. Resolves after the first attempt. */
  restart(agent: AgentId): Promise<{ readonly ok: boolean; readonly text: string }>;
};
