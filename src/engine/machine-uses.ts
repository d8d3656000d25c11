import type { Instant } from '../lib/time.ts';

/** What an effect adds to the outbox: one entry for each element of `texts`, in order. */
export type NewEntry = {
  readonly type: 'add';
  /** True when the entry is stored. Other entries live in memory only and are lost with the process. */
  readonly lasting: boolean;
  /** Where the entry is delivered. The entries of one lane of a channel are delivered in order. */
  readonly channel: string;
  readonly lane: string;
  /** The effect without its texts. */
  readonly effect: unknown;
  readonly texts: readonly (string | null)[];
  /**
   * The key of an announcement, and how often it was made, this time included. From the second time on, the entry edits
   * the announcement's earlier post. `null` and 0: the entry edits no post, and no entry edits its post.
   */
  readonly key: string | null;
  readonly repeats: number;
  /** The kind and epoch by which a later effect can cancel the entry, if it is not lasting. */
  readonly kind: string;
  readonly epoch: number | null;
};

/** Cancels pending entries of a lane that are not lasting: those of these `kinds` with an epoch of at most `upto`. */
export type Cancel = {
  readonly type: 'cancel';
  readonly channel: string;
  readonly lane: string;
  readonly kinds: readonly string[];
  readonly upto: number;
};

type KnownMessage = { readonly channel: string; readonly fate: unknown };

/** Finds accepted messages of people and programs by id. */
export type KnownMessages = { read(id: string): KnownMessage | null };

type InboxUse<Command, Fact, Refusal> = {
  /** Returns why a command is refused before the machine decides; `null` when the machine decides the command. */
  refusal(key: string, command: Command, inbox: KnownMessages): Refusal | null;
  /** Returns the message whose fate a fact decides, with the fate; `null` for a fact that decides none. */
  fate(fact: Fact): { readonly message: string; readonly fate: unknown } | null;
};

type OutboxUse<Effect> = {
  entries(key: string, effect: Effect): readonly (NewEntry | Cancel)[];
};

/** What a machine uses of the shared parts of the store. All parts are optional. */
export type MachineUses<Command, Fact, Effect, Refusal> = {
  readonly inbox?: InboxUse<Command, Fact, Refusal>;
  readonly outbox?: OutboxUse<Effect>;
  /** Adds random values to a command before it is decided. */
  stamp?(command: Command): Command;
};

/** One model call in the ledger, or one report of a coding agent's usage. `null` means unknown or none. */
export type LedgerEntry = {
  readonly agent: string;
  readonly epoch: number | null;
  readonly run: string | null;
  /** The id of the person or program that caused the call. */
  readonly requestedBy: string | null;
  readonly backend: string | null;
  readonly model: string | null;
  /** All tokens. `input` includes `cached`; `output` includes thoughts. Rows of an earlier Conch can differ for coding agents. */
  readonly tokens: number;
  readonly input: number | null;
  readonly output: number | null;
  readonly cached: number | null;
  /** Millionths of a dollar; `null` when the cost is unknown. */
  readonly costMicros: number | null;
  /**
   * Where the cost comes from: the agent's report, prices times counted tokens, prices times guessed tokens, or
   * nowhere.
   */
  readonly source: 'reported' | 'computed' | 'estimated' | 'unpriced';
  readonly outcome: string | null;
  readonly ms: number | null;
};

/** A ledger entry, with the key of the journal whose fact reports it; for floors the key is the channel. */
export type LedgerRow = LedgerEntry & { readonly key: string; readonly at: Instant };
