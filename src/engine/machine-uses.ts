/** What the world is owed by an effect: one row for each text, in order, or one without a text. */
export type Debt = {
  readonly type: 'owe';
  /** Whether it outlives the process; what does not is owed anew by the state after a start, if it still matters. */
  readonly lasting: boolean;
  /** Where it is delivered. Rows of one lane of a channel are served in order. */
  readonly channel: string;
  readonly lane: string;
  /** What is stored of the effect beside its texts. */
  readonly effect: unknown;
  readonly texts: readonly (string | null)[];
  /** Set for an announcement that recurs, with how often it did: from the second time on it edits the one before. */
  readonly key: string | null;
  readonly repeats: number;
  /** By these a later effect takes it back, if it does not last. */
  readonly kind: string;
  readonly epoch: number | null;
};

/** Takes back what a lane still owes of these kinds, up to an epoch. */
export type Cancel = {
  readonly type: 'cancel';
  readonly channel: string;
  readonly lane: string;
  readonly kinds: readonly string[];
  readonly upto: number;
};

/** A message as far as a machine may ask for it. */
export type KnownMessage = { readonly channel: string; readonly fate: unknown };

/** How a machine uses the inbox: commands about messages are carried out only for messages that were accepted. */
type InboxUse<Command, Fact, Refusal> = {
  /** Why a command about a message cannot be carried out; `read` finds what was accepted. */
  refusal(key: string, command: Command, read: (id: string) => KnownMessage | null): Refusal | null;
  /** What became of a message by this fact. */
  fate(fact: Fact): { readonly message: string; readonly fate: unknown } | null;
};

/** How a machine uses the outbox. */
type OutboxUse<Effect> = {
  owes(key: string, effect: Effect): readonly (Debt | Cancel)[];
};

/** What a machine uses of what all machines share; a plain one uses nothing. */
export type MachineUses<Command, Fact, Effect, Refusal> = {
  readonly inbox?: InboxUse<Command, Fact, Refusal>;
  readonly outbox?: OutboxUse<Effect>;
  /** Adds to a command what only chance can give, before it is decided. */
  stamp?(command: Command): Command;
};

/** One call of a model, as the ledger has it; `null`: not known. */
export type LedgerEntry = {
  readonly agent: string;
  readonly epoch: number | null;
  readonly run: string | null;
  /** The person who asked for what it was made for. */
  readonly requestedBy: string | null;
  readonly backend: string | null;
  readonly model: string | null;
  /** All of them, `cached` in `input`. */
  readonly tokens: number;
  readonly input: number | null;
  readonly output: number | null;
  readonly cached: number | null;
  /** In millionths of a dollar; `null`: nobody knows a price. */
  readonly costMicros: number | null;
  /** How that is known: its agent said so, prices times counted tokens, times guessed ones, or not at all. */
  readonly source: 'reported' | 'computed' | 'estimated' | 'unpriced';
  readonly outcome: string | null;
  readonly ms: number | null;
};
