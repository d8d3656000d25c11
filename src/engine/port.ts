import type { Due, Instant } from '../lib/time.ts';
import type { CommandResult, Machine } from './machine.ts';
import type { MachineUses } from './machine-uses.ts';

/** A file or a sticker of a message. Agents read this description; Conch does not fetch the file. */
export type Attachment = {
  readonly name: string;
  readonly url: string;
  readonly contentType: string | null;
  readonly bytes: number | null;
};

/** One message of a person or a program, as an adapter passes it in. */
export type HumanMessage = {
  /** The message's id on the platform. A second delivery of the message has the same id. */
  readonly id: string;
  readonly channel: string;
  /** The message's thread, where threads share their channel's floor. */
  readonly thread?: string;
  /** `roles`: the author's roles, if the platform sends them with a message. They are not stored. */
  readonly author: { readonly id: string; readonly name: string; readonly roles?: readonly string[] };
  readonly text: string;
  readonly sentAt: Instant;
  /** Sorts the messages of one channel in the platform's order. */
  readonly order: string;
  /** Agents that the message addresses by means of the platform: a mention, a role, a reply to the agent's message. */
  readonly addressed: readonly string[];
  readonly attachments: readonly Attachment[];
  /** The message that this one is a reply to, if the platform names it. The inbox does not store it. */
  readonly replyTo?: string;
  /** The rule that keeps the message from agents (another bot, for example); absent for ordinary messages. */
  readonly ignore?: string;
  /** True when a program wrote the message and `ignore` is absent. Such a message does not renew budgets. */
  readonly bot?: boolean;
  /** When this wording was written, if known, for a message that was edited before it was stored. Sorts as text. */
  readonly version?: string;
};

/** A change to an accepted message. */
export type MessageChange =
  | {
      readonly change: 'edited';
      readonly id: string;
      readonly channel: string;
      readonly text: string;
      /** When the new text was written, by the platform's clock. Sorts as text. */
      readonly version?: string;
    }
  | { readonly change: 'deleted'; readonly id: string; readonly channel: string };

/** A message of the inbox in its latest wording. `fate` is `null` until a machine received the message. */
export type StoredMessage<Fate = unknown> = HumanMessage & {
  readonly fate: Fate | null;
  readonly edited: boolean;
  readonly deleted: boolean;
  /**
   * The number of the last journal row before the message arrived. A search of the journal for the message can stop
   * there.
   */
  readonly since: number;
};

/** A stored fact, its number under its key, and the hash of its journal row. Facts of one command share a row. */
export type StoredFact<Fact> = {
  readonly key: string;
  readonly seq: number;
  readonly at: Instant;
  readonly fact: Fact;
  readonly hash: string;
};

/** An outbox entry. Entries of one lane of a channel are delivered in order, one at a time. */
export type OutboxEntry<Effect> = {
  /** Unique. The idempotency key of the post. */
  readonly id: string;
  readonly channel: string;
  readonly lane: string;
  readonly effect: Effect;
  /** The number of this part of a long text, from 0. */
  readonly part: number;
  /** The text of this part; `null` for effects without a text. */
  readonly text: string | null;
  /** The attempts of this process to deliver the entry before this attempt. */
  readonly attempts: number;
  /**
   * True when an earlier attempt may have reached the platform. Search for the post before sending it again. Always
   * false for entries that are not stored.
   */
  readonly uncertain: boolean;
  /**
   * The platform id of the channel's last text whose confirmation is written; `null` for none, and for entries that are
   * not stored.
   */
  readonly afterId: string | null;
  /** The platform id of the earlier post to edit, for a repeated announcement; `null` for others and without a post. */
  readonly editsId: string | null;
  /** The platform ids of the further parts of the announcement to edit, in order; absent when it has one part. */
  readonly editsParts?: readonly string[];
};

/** The result of one delivery attempt. */
export type Settlement =
  | { readonly state: 'confirmed'; readonly platformId: string | null }
  /** Not sent. Retry at `notBefore`. */
  | { readonly state: 'retry'; readonly notBefore: Instant }
  /** Possibly sent. Find out at `notBefore`. */
  | { readonly state: 'uncertain'; readonly notBefore: Instant }
  | { readonly state: 'failed'; readonly why: string };

/** What the commands of one journal row changed. Listeners are called after the row is durable. */
export type StateChange<State, Fact, Effect> = {
  readonly key: string;
  readonly at: Instant;
  readonly facts: readonly Fact[];
  readonly state: State;
  readonly effects: readonly Effect[];
  /** When the machine needs its next command only because time has passed; `null` for never. */
  readonly deadline: Instant | null;
};

/**
 * Entries to deliver now. `next`: when to call `lease` again at the latest; `null` when time alone makes no entry ready.
 * When `rows` has as many entries as the limit, more may be ready now.
 */
export type Lease<Effect> = { readonly rows: readonly OutboxEntry<Effect>[]; readonly next: Instant | null };

/** The outbox, as the delivery sees it. */
export type OutboxStore<Effect> = {
  /** Entries to deliver now, at most one for each lane of a channel. The call marks them as in flight. */
  lease(limit: number, at: Instant): Promise<Lease<Effect>>;
  settle(row: OutboxEntry<Effect>, settlement: Settlement): Promise<void>;
};

/** One machine in a store. Each key has its own state and journal. */
export type MachineStore<State, Command, Fact, Effect, Refusal> = {
  /** Decides a command and the commands that it causes, and writes their facts. */
  apply(key: string, command: Command, at: Instant): Promise<CommandResult<State, Fact, Effect, Refusal>>;
  /** Decides several commands for one key, in order, in one transaction. A refused command does not stop the others. */
  applyAll(
    key: string,
    commands: readonly Command[],
    at: Instant,
  ): Promise<readonly CommandResult<State, Fact, Effect, Refusal>[]>;
  /**
   * Decides a command with an id. Resolves with `false` when that id was already carried out for the key. An id is
   * stored with facts only, and can be pruned with them: a command without facts is decided again.
   */
  applyOnce(id: string, key: string, command: Command, at: Instant): Promise<boolean>;
  due(before: Instant): Promise<Due>;
  /** Calls the listener after changes, whoever sent the command. */
  onChange(listener: (change: StateChange<State, Fact, Effect>) => void): void;
  state(key: string): State | null;
  keys(): readonly string[];
  /** Keys that may have something in progress. All other keys are at rest. */
  awake(): readonly string[];
  resting(): ReadonlyMap<string, string>;
  /** The facts of a key that were not pruned, newest first, read lazily: those in journal rows after `since`. */
  newest(key: string, since?: number): Iterable<StoredFact<Fact>>;
  /** The newest `limit` facts before number `before`, or of all; oldest first. */
  journal(key: string, limit: number, before?: number): readonly StoredFact<Fact>[];
};

/** What to erase: a person's texts, names and ids, or one message by its platform id. */
export type Erasure = { readonly what: 'person' | 'message'; readonly id: string };

/** A range of facts whose texts are erased, too; both numbers included. */
export type TextStretch = {
  readonly machine: string;
  readonly key: string;
  readonly from: number;
  readonly upto: number;
};

/** Further texts to erase: ranges of facts, and, with a person, texts for which `isTheirs` is true. */
export type AlsoErased = {
  readonly stretches: readonly TextStretch[];
  readonly isTheirs: (text: string, type: string) => boolean;
};

/**
 * How many messages, posts and journal rows (`acts`) lost a text or a name. When one message is erased, `acts` leaves
 * out the rows that made its posts.
 */
export type Erased = { readonly messages: number; readonly posts: number; readonly acts: number };

/** How much was pruned, or would be. `entries`: journal rows. `calls`: ledger rows. `configs`: configurations. */
export type Pruned = {
  readonly entries: number;
  readonly messages: number;
  readonly posts: number;
  readonly calls: number;
  readonly configs: number;
};

/**
 * Stores machines, messages and outbox entries. A command and everything that it causes in journal, states, inbox and
 * outbox are in one transaction. One process at a time writes a store.
 */
export type Store = OutboxStore<unknown> & {
  /** Adds a machine: once each, before `recover`. */
  host<State, Command, Fact, Effect, Refusal extends string>(
    machine: Machine<State, Command, Fact, Effect, Refusal>,
    uses?: MachineUses<Command, Fact, Effect, Refusal>,
  ): MachineStore<State, Command, Fact, Effect, Refusal>;
  /** Stores a message. A second delivery of the same id changes nothing. */
  accept(message: HumanMessage): Promise<'new' | 'duplicate'>;
  amend(change: MessageChange): Promise<'changed' | 'unchanged' | 'unknown'>;
  message(id: string): StoredMessage | null;
  /** Returns the key of the announcement that a message of Conch shows; `null` if none begins with `prefix`. */
  announcementAt(channel: string, platformId: string, prefix: string): string | null;
  /** The newest accepted message of a channel, in the platform's order; `null` for none. */
  lastSeen(channel: string): HumanMessage | null;
  /** A name of this process that no other start has. */
  readonly owner: string;
  /**
   * Takes over the open entries of the previous owner; called once at the start. Entries that may have been in flight
   * become uncertain. Resolves with the messages that were accepted and not yet given to their machine.
   */
  recover(): Promise<readonly HumanMessage[]>;
  /** Commits waiting work and releases the store. Later commands, messages and changes are rejected. */
  close(): Promise<void>;
};

/**
 * True when a change changes the known message. False when the known message is already deleted, and for an edit with
 * an equal text or a version that is not newer.
 */
export function isNewerEdit(
  change: MessageChange,
  known: Pick<StoredMessage, 'deleted' | 'text' | 'version'>,
): boolean {
  if (known.deleted) return false;
  if (change.change === 'deleted') return true;
  return !isStale(change, known) && change.text !== known.text;
}

/** True when the version of an edit is not newer than the known version. False when a version is missing. */
export function isStale(edit: Pick<StoredMessage, 'version'>, known: Pick<StoredMessage, 'version'>): boolean {
  return edit.version !== undefined && known.version !== undefined && edit.version <= known.version;
}
