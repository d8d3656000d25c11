import type { Instant } from '../lib/time.ts';

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
  readonly author: { readonly id: string; readonly name: string };
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
};

/** A stored fact with its place in the hash chain of its machine's key. */
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
};

/** What became of an attempt to do what is owed. */
export type Settlement =
  | { readonly state: 'confirmed'; readonly platformId: string | null }
  /** Not executed; try again then. */
  | { readonly state: 'retry'; readonly notBefore: Instant }
  /** Perhaps executed; resolve then. */
  | { readonly state: 'uncertain'; readonly notBefore: Instant }
  | { readonly state: 'failed'; readonly why: string };

/** The answer to one command. Facts and effects are already durable when it arrives. */
export type CommandResult<State, Fact, Effect, Refusal> =
  | { readonly ok: true; readonly state: State; readonly facts: readonly Fact[]; readonly effects: readonly Effect[] }
  | { readonly ok: false; readonly state: State; readonly refusal: Refusal };

/** What a start finds. */
export type Recovery = {
  /** Every key that has a state, or a message for it. */
  readonly keys: readonly string[];
  /** Messages accepted but not yet given to their machine. */
  readonly unapplied: readonly HumanMessage[];
};

/** The rows to do now, and when a lane that must wait may go on. */
export type Lease<Effect> = { readonly rows: readonly OwedEffect<Effect>[]; readonly next: Instant | null };

/** The keys whose deadline has passed, and the earliest deadline that remains. */
export type Due = { readonly keys: readonly string[]; readonly next: Instant | null };

/** What is owed, for whoever delivers it. */
export type OutboxStore<Effect> = {
  /** Rows to do now, at most one per lane of a channel, marked as in flight by this call. */
  owed(limit: number, at: Instant): Promise<Lease<Effect>>;
  settle(row: OwedEffect<Effect>, settlement: Settlement): Promise<void>;
};

/**
 * Where a machine's states live. One command is one transaction: inbox state, journal, state and outbox.
 * Several processes may share a store if it says so; nothing outside the engine may assume that it is alone.
 */
export type MachineStore<State, Command, Fact, Effect, Refusal> = OutboxStore<Effect> & {
  /** Makes a message durable; a second delivery of the same id changes nothing. */
  accept(message: HumanMessage): Promise<'new' | 'duplicate'>;
  /** Changes the wording of an accepted message. */
  amend(change: MessageChange): Promise<'changed' | 'unchanged' | 'unknown'>;
  /** Loads the state under its lock, decides, and writes what follows. */
  apply(key: string, command: Command, at: Instant): Promise<CommandResult<State, Fact, Effect, Refusal>>;
  due(before: Instant): Promise<Due>;
  /** Called once at start, before anything else: rows in flight become uncertain. */
  recover(): Promise<Recovery>;
};

/** Reading, for prompts, operators and the console; never waits for writers. */
export type MachineReader<State, Fact> = {
  state(key: string): State | null;
  keys(): readonly string[];
  message(id: string): StoredMessage | null;
  /** The newest entries before `before` (or the newest of all), oldest first. */
  journal(key: string, limit: number, before?: number): readonly StoredFact<Fact>[];
  /** The entries that added the lines after one and up to another, oldest first. */
  lined(key: string, after: number, upto: number): readonly StoredFact<Fact>[];
  /** The entries that name this message, oldest first. */
  why(message: string): readonly StoredFact<Fact>[];
};
