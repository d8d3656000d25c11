import type { Instant } from '../lib/time.ts';

/** Reads a stored value back; throws when it is not what was written. */
export type Schema<Value> = { parse(stored: unknown): Value };

/** What a command does: facts, or a refusal whose facts hold at most a record of it. */
export type MachineDecision<Fact, Refusal> =
  | { readonly ok: true; readonly facts: readonly Fact[] }
  | { readonly ok: false; readonly refusal: Refusal; readonly facts: readonly Fact[] };

/**
 * A durable state machine with a key, as pure functions: the store runs them inside its transactions and knows nothing
 * else of it. States and facts are plain JSON.
 */
export type Machine<State, Command, Fact, Effect, Refusal extends string = string> = {
  /** One word, never used for another machine. */
  readonly name: string;
  /** The state before anything happened. */
  empty(key: string): State;
  decide(state: State, command: Command, at: Instant): MachineDecision<Fact, Refusal>;
  /** The state after a fact; throws "impossible: …" when the two do not fit. */
  evolve(state: State, fact: Fact, at: Instant): State;
  /** What the world must learn of a fact; `state` is the state after the whole decision. */
  react(fact: Fact, state: State): readonly Effect[];
  /** When it changes by itself next; `null` is never. */
  nextDeadline(state: State): Instant | null;
  readonly state: Schema<State>;
  readonly fact: Schema<Fact>;
};

/** What the world is owed by an effect: one row for each text, in order, or one without a text. */
export type Debt = {
  readonly type: 'owe';
  /** Rows of one lane of a channel are served in order. */
  readonly lane: string;
  /** What is stored of the effect beside its texts. */
  readonly effect: unknown;
  readonly texts: readonly (string | null)[];
  /** Set for an announcement that recurs, with how often it did: from the second time on it edits the one before. */
  readonly key: string | null;
  readonly repeats: number;
  /** By these a later effect takes it back. */
  readonly kind: string;
  readonly epoch: number | null;
};

/** Takes back what a lane still owes of these kinds, up to an epoch. */
export type Cancel = {
  readonly type: 'cancel';
  readonly lane: string;
  readonly kinds: readonly string[];
  readonly upto: number;
};

/** A message as far as a command may ask for it. */
export type KnownMessage = { readonly channel: string; readonly fate: unknown };

/** A machine in a store, and what its commands, facts and effects mean to the tables that all machines share. */
export type Hosted<State, Command, Fact, Effect, Refusal extends string = string> = {
  readonly machine: Machine<State, Command, Fact, Effect, Refusal>;
  readonly inbox: {
    /** Why a command about a message cannot be carried out; `read` finds what was accepted. */
    refusal(key: string, command: Command, read: (id: string) => KnownMessage | null): Refusal | null;
    /** What became of a message by this fact. */
    fate(fact: Fact): { readonly message: string; readonly fate: unknown } | null;
  };
  readonly index: {
    /** The line of the conversation that a fact added; `null` when it added none. */
    line(fact: Fact): number | null;
    /** The messages that a fact names, each once. */
    messages(fact: Fact): readonly string[];
    /** The seat that a fact moved, and to what; `null` as the status takes it away. */
    seat(fact: Fact): { readonly agent: string; readonly status: string | null } | null;
  };
  readonly outbox: {
    owes(key: string, effect: Effect): readonly (Debt | Cancel)[];
    /** The effect of a stored row, with the text that the row has. */
    read(stored: unknown, text: string | null): Effect;
    /** Lanes in which an attempt cut short may have been seen by people: it is looked for before it is repeated. */
    readonly seen: readonly string[];
    /** Of these, the lanes in which nothing may be repeated at all. */
    readonly once: readonly string[];
  };
  /** Given to every state of a restored backup: what happened since the copy was made is unknown to it. */
  readonly restored: Command;
};
