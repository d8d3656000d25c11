import type { Receipt } from '../turns/core/effect.ts';
import type { AgentId, ChannelId, MessageId } from '../turns/core/settings.ts';
import type { HumanMessage, JournalEntry, Line, MessageChange } from '../turns/store/port.ts';
import type { FloorView, TurnRecord } from '../turns/view.ts';

/** What a platform can do; where it cannot, the floor shows a fall-back. */
export type Capabilities = {
  /** The longest text of one message, in UTF-16 units. */
  readonly textLimit: number;
  readonly edits: boolean;
  readonly receipts: boolean;
  readonly cards: boolean;
  readonly drafts: boolean;
  /** A second post with the same outbox id is the first one, for ever. */
  readonly idempotentPosts: boolean;
};

/** Who speaks: an agent under its own name, or Conch itself (`null`). */
export type Speaker = { readonly id: AgentId; readonly name: string; readonly avatar: string | null } | null;

export type OutgoingPost = {
  readonly outboxId: string;
  readonly speaker: Speaker;
  readonly text: string;
  /** The newest message of the channel that Conch knows to be its own: a search for this post starts after it. */
  readonly afterId: string | null;
  /** The turn in which an agent said it; `null` for announcements. */
  readonly epoch: number | null;
};

/** What the platform's history shows after a message; `gap` says what could not be read. */
export type History = { readonly messages: readonly HumanMessage[]; readonly gap: string | null };

/** A person, as the platform vouches for them. */
export type Principal = {
  readonly id: string;
  readonly name: string;
  /** ids of the roles or groups they are in */ readonly roles: readonly string[];
  /** A program, not a person: it never operates. */
  readonly bot?: boolean;
};

/** The answer to a command: shown to whoever asked, and to nobody else. */
export type Answer = { readonly ok: boolean; readonly text: string };

/** What adapters hand in. Every promise resolves once the matter is durable. */
export type Intake = {
  message(message: HumanMessage): Promise<void>;
  /** Edits of one message come in the order in which they were made; an adapter drops one that another overtook. */
  amend(change: MessageChange): Promise<void>;
  /** A whole command line, as typed or as a button stands for it: "/floor skip". `epoch` is the turn a button was drawn for. */
  command(channel: ChannelId, by: Principal, line: string, epoch?: number): Promise<Answer>;
};

/** What adapters may look at. */
export type Observatory = {
  channels(): readonly { readonly id: ChannelId; readonly name: string; readonly adapter: string }[];
  agents(): readonly {
    readonly id: AgentId;
    readonly name: string;
    readonly avatar: string | null;
    readonly description: string;
  }[];
  view(channel: ChannelId): FloorView | null;
  turns(channel: ChannelId, limit: number): readonly TurnRecord[];
  journal(channel: ChannelId, limit: number, before?: number): readonly JournalEntry[];
  lines(channel: ChannelId, limit: number): readonly Line[];
};

/**
 * One chat platform. The optional methods are the optional abilities.
 * Every method that talks to the platform rejects with a `ChatError`; none retries by itself: the outbox does.
 */
export type ChatAdapter = {
  readonly name: string;
  readonly capabilities: Capabilities;
  /** Connects; resolves when messages come in and posts can go out. */
  start(intake: Intake, observatory: Observatory): Promise<void>;
  stop(): Promise<void>;
  /** Returns the platform's id of the message. */
  post(channel: ChannelId, post: OutgoingPost): Promise<string>;
  /** Looks for a post whose outcome is not known; `null` when the history shows that it is not there. */
  find(channel: ChannelId, post: OutgoingPost): Promise<string | null>;
  edit?(channel: ChannelId, platformId: string, text: string): Promise<void>;
  receipt?(channel: ChannelId, message: MessageId, receipt: Receipt): Promise<void>;
  /** Text that is still being generated; `null` takes it away. Never durable, never retried. */
  draft?(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number, text: string | null): void;
  /** The floor changed: redraw what shows it. Never awaited. */
  card?(channel: ChannelId, view: FloorView): void;
  /** Messages of people after the given one, oldest first; from the beginning of what Conch should know if `null`. */
  catchUp(channel: ChannelId, after: { readonly id: MessageId; readonly order: string } | null): Promise<History>;
};

/** The platform said no, or could not be reached. */
export class ChatError extends Error {
  override readonly name = 'ChatError';
  readonly method: string;
  readonly channel: ChannelId;
  /** `refused`: it will never work; `limited`: not executed, try later; `unclear`: perhaps executed; `unreachable`: not executed. */
  readonly fault: 'refused' | 'limited' | 'unclear' | 'unreachable';
  readonly retryAfterMs: number | null;

  constructor(
    message: string,
    where: {
      readonly method: string;
      readonly channel: ChannelId;
      readonly fault: ChatError['fault'];
      readonly retryAfterMs?: number;
      readonly cause?: unknown;
    },
  ) {
    super(message, { cause: where.cause });
    this.method = where.method;
    this.channel = where.channel;
    this.fault = where.fault;
    this.retryAfterMs = where.retryAfterMs ?? null;
  }
}
