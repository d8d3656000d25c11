import type { Due, Instant } from '../lib/time.ts';
import type { CommandResult, Machine } from './machine.ts';
import type { MachineUses } from './machine-uses.ts';

/** A file that came with a message; described to agents, fetched by nobody unless asked. */
export type Attachment = {
  readonly name: string;
  readonly url: string;
  readonly contentType: string | null;
  readonly bytes: number | null;
};

/** One message that a person wrote, as an adapter hands it in. */
export type HumanMessage = {
  /** The platform's id: the key by which a second delivery is recognised. */
  readonly id: string;
  readonly channel: string;
  /** The thread of the channel in which it stands, where threads share its floor. */
  readonly thread?: string;
  /** `roles`: those that the platform tells with a message; they are not stored with it. */
  readonly author: { readonly id: string; readonly name: string; readonly roles?: readonly string[] };
  readonly text: string;
  readonly sentAt: Instant;
  /** Sorts messages of one channel as the platform does. */
  readonly order: string;
  /** Agents that the platform's own means address: a mention, a role, the author of the message replied to. */
  readonly addressed: readonly string[];
  readonly attachments: readonly Attachment[];
  /** The rule by which agents do not get it (another bot, say); absent for an ordinary message. */
  readonly ignore?: string;
  /** Written by a program that is heard here: it counts for no budget as a person's word. */
  readonly bot?: boolean;
  /** When its wording was written, if it was edited before it was seen; a text that sorts. */
  readonly version?: string;
};

/** Changes to a message that was accepted before. */
export type MessageChange =
  | {
      readonly change: 'edited';
      readonly id: string;
      readonly channel: string;
      readonly text: string;
      /** When it was written, as the platform counts; a text that sorts. */
      readonly version?: string;
    }
  | { readonly change: 'deleted'; readonly id: string; readonly channel: string };

/** A message of the inbox in its latest wording, with what became of it: `null` as long as no machine was given it. */
export type StoredMessage<Fate = unknown> = HumanMessage & {
  readonly fate: Fate | null;
  readonly edited: boolean;
  readonly deleted: boolean;
  /** For `newest`: nothing that came before names the message. */
  readonly since: number;
};

/** A stored fact with its place among those of its key; facts of one command share row and hash. */
export type StoredFact<Fact> = {
  readonly key: string;
  readonly seq: number;
  readonly at: Instant;
  readonly fact: Fact;
  readonly hash: string;
};

/** Something owed to the world. One lane of a channel is served in order, one row at a time. */
export type OwedEffect<Effect> = {
  /** Unique for ever; the idempotency key of the post. */
  readonly id: string;
  readonly channel: string;
  readonly lane: string;
  readonly effect: Effect;
  /** Long texts become several rows; the first is 0. */
  readonly part: number;
  /** This row's share of the text; `null` for effects that are not texts. */
  readonly text: string | null;
  readonly attempts: number;
  /** A former attempt may have reached the platform: look for it before sending again. */
  readonly uncertain: boolean;
  /** The platform id of the last confirmed post in the channel before this row. */
  readonly afterId: string | null;
  /** For an announcement that recurs: the platform id of the one to edit. */
  readonly editsId: string | null;
  /** And those of its further parts, in order; absent: it was one. */
  readonly editsParts?: readonly string[];
};

/** What became of an attempt to do what is owed. */
export type Settlement =
  | { readonly state: 'confirmed'; readonly platformId: string | null }
  /** Not executed; try again then. */
  | { readonly state: 'retry'; readonly notBefore: Instant }
  /** Perhaps executed; resolve then. */
  | { readonly state: 'uncertain'; readonly notBefore: Instant }
  | { readonly state: 'failed'; readonly why: string };

/** What a command changed, told once that is durable. */
export type StateChange<State, Fact, Effect> = {
  readonly key: string;
  readonly at: Instant;
  readonly facts: readonly Fact[];
  readonly state: State;
  readonly effects: readonly Effect[];
};

/** What a start finds. */
export type Recovery = {
  /** Messages accepted but not yet given to their machine. */
  readonly unapplied: readonly HumanMessage[];
};

/** The rows to do now, and when a lane that must wait may go on. */
export type Lease<Effect> = { readonly rows: readonly OwedEffect<Effect>[]; readonly next: Instant | null };

/** What is owed, for whoever delivers it. */
export type OutboxStore<Effect> = {
  /** Rows to do now, at most one per lane of a channel, marked as in flight by this call. */
  owed(limit: number, at: Instant): Promise<Lease<Effect>>;
  settle(row: OwedEffect<Effect>, settlement: Settlement): Promise<void>;
};

/** One machine in a store: its states, each with a journal of its own. */
export type MachineStore<State, Command, Fact, Effect, Refusal> = {
  /** Loads the state, decides, and writes what follows, commands for other machines included. */
  apply(key: string, command: Command, at: Instant): Promise<CommandResult<State, Fact, Effect, Refusal>>;
  /** Several commands for one key, one after the other, in one transaction; one that is refused keeps no other back. */
  applyAll(
    key: string,
    commands: readonly Command[],
    at: Instant,
  ): Promise<readonly CommandResult<State, Fact, Effect, Refusal>[]>;
  /** A command with an id, which is carried out once; `false` when it was before. */
  applyOnce(id: string, key: string, command: Command, at: Instant): Promise<boolean>;
  due(before: Instant): Promise<Due>;
  /** Whoever listens is told of every change, whoever sent the command. */
  onChange(listener: (change: StateChange<State, Fact, Effect>) => void): void;
  state(key: string): State | null;
  keys(): readonly string[];
  /** The keys of which something may be under way: all others are at rest. */
  awake(): readonly string[];
  /** The words with which keys are at rest. */
  resting(): ReadonlyMap<string, string>;
  /** The facts of a key, the newest first, read as far as is asked, or as far as a message's `since`. */
  newest(key: string, since?: number): Iterable<StoredFact<Fact>>;
  /** The newest facts before `before` (or the newest of all), oldest first. */
  journal(key: string, limit: number, before?: number): readonly StoredFact<Fact>[];
};

/**
 * Where machines, messages and owed effects live. One command is one transaction with all that it causes: journal, states,
 * inbox and outbox. Several processes may share a store if it says so; nothing outside the engine may assume that it is alone.
 */
export type Store = OutboxStore<unknown> & {
  /** Takes a machine in; once for each, and before `recover`. */
  host<State, Command, Fact, Effect, Refusal extends string>(
    machine: Machine<State, Command, Fact, Effect, Refusal>,
    uses?: MachineUses<Command, Fact, Effect, Refusal>,
  ): MachineStore<State, Command, Fact, Effect, Refusal>;
  /** Makes a message durable; a second delivery of the same id changes nothing. */
  accept(message: HumanMessage): Promise<'new' | 'duplicate'>;
  /** Changes the wording of an accepted message. */
  amend(change: MessageChange): Promise<'changed' | 'unchanged' | 'unknown'>;
  message(id: string): StoredMessage | null;
  /** The newest message of a channel, in the platform's order. */
  lastSeen(channel: string): HumanMessage | null;
  /** This process, by a name that no other start has. */
  readonly owner: string;
  /**
   * What an owner that is dead had in flight becomes uncertain, and is handed out anew; what others have in flight stays theirs.
   * Called at start, before anything else, without a name: of all that had the store before.
   */
  recover(dead?: string): Promise<Recovery>;
  /** Commits what waits and lets go of the store. Whatever is asked later is rejected. */
  close(): Promise<void>;
};

/** Whether a change says something that is not known of the message yet: an edit that another overtook does not. */
export function isNewerEdit(
  change: MessageChange,
  known: Pick<StoredMessage, 'deleted' | 'text' | 'version'>,
): boolean {
  if (known.deleted) return false;
  if (change.change === 'deleted') return true;
  const isOlder = change.version !== undefined && known.version !== undefined && change.version <= known.version;
  return !isOlder && change.text !== known.text;
}
