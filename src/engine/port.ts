import type { Command, Refusal } from '../turns/floor/command.ts';
import type { Effect } from '../turns/floor/effect.ts';
import type { Fact, Fate } from '../turns/floor/fact.ts';
import type { Floor } from '../turns/floor/floor.ts';
import type { AgentId, ChannelId, MessageId } from '../turns/floor/settings.ts';
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
  readonly id: MessageId;
  readonly channel: ChannelId;
  readonly author: { readonly id: string; readonly name: string };
  readonly text: string;
  readonly sentAt: Instant;
  /** Sorts messages of one channel as the platform does. */
  readonly order: string;
  /** Agents that the platform's own means address: a mention, a role, the author of the message replied to. */
  readonly addressed: readonly AgentId[];
  readonly attachments: readonly Attachment[];
  /** The rule by which agents do not get it (another bot, say); absent for an ordinary message. */
  readonly ignore?: string;
  /** Written by a program that is heard here: it counts for no budget as a person's word. */
  readonly bot?: boolean;
  /** When its wording was written, if it was edited before it was seen; a text that sorts. */
  readonly version?: string;
};

/** A row of the inbox: the message in its latest wording, and its recorded fate. */
export type InboxRow = HumanMessage & {
  readonly fate: Fate | null;
  readonly edited: boolean;
  readonly deleted: boolean;
};

/** One line of a conversation as agents are given it. */
export type Line = {
  readonly line: number;
  readonly at: Instant;
  readonly author: { readonly kind: 'person' | 'agent'; readonly id: string; readonly name: string };
  readonly text: string;
  readonly attachments: readonly Attachment[];
  /** Set on lines of people. */
  readonly message: MessageId | null;
  readonly change: 'edited' | 'deleted' | null;
};

/** A stored fact with its place in its channel's hash chain. */
export type JournalEntry = {
  readonly channel: ChannelId;
  readonly seq: number;
  readonly at: Instant;
  readonly fact: Fact;
  readonly hash: string;
};

/** Something owed to the platform or to an agent. One lane of a channel is served in order, one row at a time. */
export type OutboxRow = {
  /** Unique for ever; the idempotency key of the post. */
  readonly id: string;
  readonly channel: ChannelId;
  /** `posts`, `receipts`, `agent:<id>`, or `interrupt:<id>`, which overtakes what its agent is owed. */
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
export type Applied =
  | { readonly ok: true; readonly floor: Floor; readonly facts: readonly Fact[]; readonly effects: readonly Effect[] }
  | { readonly ok: false; readonly floor: Floor; readonly refusal: Refusal };

/** What a start finds. */
export type Recovery = {
  readonly channels: readonly ChannelId[];
  /** Messages accepted but not yet given to their floor. */
  readonly unapplied: readonly HumanMessage[];
};

/**
 * Where floors live. One command is one transaction: inbox state, journal, floor and outbox.
 * Several processes may share a store if it says so; nothing else in `turns` may assume that it is alone.
 */
export type FloorStore = {
  /** Makes a message durable; a second delivery of the same id changes nothing. */
  accept(message: HumanMessage): Promise<'new' | 'duplicate'>;
  /** Loads the floor under its lock, decides, and writes what follows. */
  apply(channel: ChannelId, command: Command, at: Instant): Promise<Applied>;
  /** Channels whose deadline has passed, and the earliest deadline that remains. */
  due(before: Instant): Promise<{ readonly channels: readonly ChannelId[]; readonly next: Instant | null }>;
  /** Rows to do now, at most one per lane of a channel, marked as in flight by this call. */
  owed(limit: number, at: Instant): Promise<{ readonly rows: readonly OutboxRow[]; readonly next: Instant | null }>;
  settle(row: OutboxRow, settlement: Settlement): Promise<void>;
  /** Called once at start, before anything else: rows in flight become uncertain. */
  recover(): Promise<Recovery>;
};

/** Reading, for prompts, operators and the console; never waits for writers. */
export type FloorReader = {
  floor(channel: ChannelId): Floor | null;
  channels(): readonly ChannelId[];
  /** Lines after one and up to another, oldest first. */
  lines(channel: ChannelId, after: number, upto: number): readonly Line[];
  message(id: MessageId): InboxRow | null;
  /** The newest entries before `before` (or the newest of all), oldest first. */
  journal(channel: ChannelId, limit: number, before?: number): readonly JournalEntry[];
  /** The entries that name this message, oldest first. */
  why(message: MessageId): readonly JournalEntry[];
};

/** Changes to a message that was accepted before. */
export type MessageChange =
  | {
      readonly change: 'edited';
      readonly id: MessageId;
      readonly channel: ChannelId;
      readonly text: string;
      /** When it was written, as the platform counts; a text that sorts. */
      readonly version?: string;
    }
  | { readonly change: 'deleted'; readonly id: MessageId; readonly channel: ChannelId };
