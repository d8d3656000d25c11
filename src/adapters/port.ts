import type { Logger } from 'pino';
import type { Clock, Timers } from '../lib/time.ts';
import type { HumanMessage, MessageChange } from '../engine/port.ts';
import type { Answer } from '../turns/commands/context.ts';
import type { FloorView, JournalEntry, Line, Outlook, TurnRecord } from '../turns/view.ts';
import type { Receipt } from '../turns/floor/react.ts';
import type { AgentId, ChannelId, MessageId } from '../turns/floor/settings.ts';
import { storeWords } from '../engine/errors.ts';

/** What a platform can do; where it cannot, the floor shows a fall-back. */
export type Capabilities = {
  /** The longest text of one message, in UTF-16 units. */
  readonly textLimit: number;
  /** The longest question that is one message; as other texts unless given. */
  readonly questionLimit?: number;
  readonly edits: boolean;
  readonly receipts: boolean;
  readonly cards: boolean;
  readonly drafts: boolean;
  /** A second post with the same outbox id is the first one, for ever. */
  readonly idempotentPosts: boolean;
  /** What an agent says beyond this length is not split: it is handed to `post` whole, to be shown as a file. `null`: always split. */
  readonly fileAbove: number | null;
  /** Events may be lost on their way: the history is read again every few minutes. */
  readonly losesEvents?: boolean;
  /** It shows every floor and takes commands for it: it is told of all channels, others of their own only. */
  readonly oversees?: boolean;
};

/** Who speaks: an agent under its own name, or Conch itself (`null`). */
export type Speaker = { readonly id: AgentId; readonly name: string; readonly avatar: string | null } | null;

export type OutgoingPost = {
  readonly outboxId: string;
  readonly speaker: Speaker;
  /** At most `textLimit` long, a question `questionLimit`, or more than `fileAbove`. */
  readonly text: string;
  /** The newest message of the channel that Conch knows to be its own: a search for this post starts after it. */
  readonly afterId: string | null;
  /** The turn in which an agent said it; `null` for announcements. */
  readonly epoch: number | null;
  /** Which question it is, or a part of it (`askedId`). */
  readonly asks?: string;
  /** The thread of the channel in which it belongs, where threads share its floor. */
  readonly thread?: ChannelId;
  /** What people can do about what it tells; a platform without buttons leaves them out: the text names the commands. */
  readonly buttons?: readonly PostButton[];
};

/** A button under a post: the command line that it stands for, and the word that says what it was drawn for (`drawn-for.ts`). */
export type PostButton = {
  readonly label: string;
  readonly line: string;
  readonly drawnFor: string;
  readonly style: 'plain' | 'good' | 'danger';
};

/** What the platform's history shows after a message; `gap` says what could not be read. */
export type History = {
  /** Oldest first; messages that are known already do no harm. */
  readonly messages: readonly HumanMessage[];
  /** Edits seen in the stretch that was read; those that are known already do no harm. */
  readonly changes: readonly MessageChange[];
  readonly gap: string | null;
  /** Where a channel that was never read before stands now: what came earlier was not meant for Conch. */
  readonly mark?: Position;
};

/** A place in a channel's history. */
export type Position = { readonly id: MessageId; readonly order: string };

/** A person, as the platform vouches for them. */
export type Principal = {
  readonly id: string;
  readonly name: string;
  /** ids of the roles or groups they are in */ readonly roles: readonly string[];
  /** A program, not a person: it never operates. */
  readonly bot?: boolean;
};

/**
 * What adapters hand in, of their own channels; commands of any if they oversee them. Every promise resolves once the matter
 * is durable. A report of another channel is a bug of the adapter and throws.
 */
export type Intake = {
  message(message: HumanMessage): Promise<void>;
  /** An edit with a `version` that is not newer than the known one changes nothing; those without one come in order. */
  amend(change: MessageChange): Promise<void>;
  /** A whole command line, as typed or as a button stands for it: "/floor skip". `drawnFor` is the word that its button carries. */
  command(channel: ChannelId, by: Principal, line: string, drawnFor?: string): Promise<Answer>;
  /** Why `command` would refuse this person now; `null`: it would not. To be asked before a form opens that they could not send. */
  refusal(channel: ChannelId, by: Principal, line: string, drawnFor?: string): string | null;
  /** A thread of a configured channel is to have a floor of its own, with that channel's settings; its messages may follow. */
  thread(thread: Thread): Promise<void>;
  /** The platform cannot be heard: nothing is granted in the adapter's channels until `reconnected` has done its work. */
  disconnected(): void;
  /** It can be heard again; every channel is caught up, unless the platform handed over all that was missed itself. */
  reconnected(how: { readonly missed: 'nothing' | 'perhaps' }): void;
  /** A channel cannot be used (deleted, archived, locked, the bot was removed): its turn ends and its floor is paused. */
  suspend(channel: ChannelId, why: string): void;
  /** A channel can be used again after `suspend`. */
  restore(channel: ChannelId): void;
  /** The platform will never take this program again as it is: the program ends with what the error says. */
  broken(error: AdapterError): void;
};

/** A conversation beside a channel's own. */
export type Thread = {
  readonly id: ChannelId;
  readonly parent: ChannelId;
  readonly name: string;
  /** Where it begins; it is read from there, unless that was before Conch came. */
  readonly since?: Position;
};

/** A channel as adapters know it. */
export type Place = {
  readonly id: ChannelId;
  readonly name: string;
  readonly adapter: string;
  /** The channel whose settings a thread has; `null` for a channel of the configuration. */
  readonly parent: ChannelId | null;
  /** Whether its threads have floors of their own, share this one, or are ignored. */
  readonly threads: 'own' | 'parent' | 'ignore';
  /** Which programs beside Conch's own agents are heard. */
  readonly allowBots: 'off' | 'mentions' | 'all';
};

/** What adapters may look at: their own channels, or all if they oversee them; of any other channel there is nothing. */
export type FloorQueries = {
  channels(): readonly Place[];
  agents(): readonly {
    readonly id: AgentId;
    readonly name: string;
    readonly avatar: string | null;
    readonly description: string;
  }[];
  /** The channels at whose floors something may be under way; at others nobody speaks, and all agents are there. */
  awake(): readonly ChannelId[];
  view(channel: ChannelId): FloorView | null;
  outlook(channel: ChannelId): Outlook | null;
  turns(channel: ChannelId, limit: number): readonly TurnRecord[];
  journal(channel: ChannelId, limit: number, before?: number): readonly JournalEntry[];
  lines(channel: ChannelId, limit: number): readonly Line[];
  /** Where threads share the channel's floor: the one in which the holder's text belongs; `null` for the channel itself. */
  thread(channel: ChannelId): ChannelId | null;
};

/**
 * One chat platform. The optional methods are the optional abilities.
 * Every method that talks to the platform rejects with a `ChatError`; none retries by itself: the outbox does.
 */
export type ChatAdapter = {
  readonly name: string;
  readonly capabilities: Capabilities;
  /**
   * Connects, with patience; resolves when messages come in and posts can go out. Rejects with an `AdapterError` when that
   * will never be.
   */
  start(intake: Intake, queries: FloorQueries): Promise<void>;
  stop(): Promise<void>;
  /** Returns the platform's id of the message. */
  post(channel: ChannelId, post: OutgoingPost): Promise<string>;
  /** Looks for a post whose outcome is not known; `null` when the history shows that it is not there. */
  find(channel: ChannelId, post: OutgoingPost): Promise<string | null>;
  /** `gone`: somebody deleted the message, or the platform no longer lets it be changed. */
  edit?(channel: ChannelId, platformId: string, text: string): Promise<'changed' | 'gone'>;
  /** Under a message of a channel, or of a thread that shares its floor. */
  receipt?(channel: ChannelId, message: MessageId, receipt: Receipt): Promise<void>;
  /** Text that is still being generated; `null` takes it away. Never durable, never retried. */
  draft?(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number, text: string | null): void;
  /** Tells whoever looks at a channel what cannot be kept there; for platforms that lie on the same disk as the floor. Never awaited. */
  notice?(channel: ChannelId, text: string): void;
  /** The floor of an own channel changed, or of any if it oversees them: redraw what shows it. Never awaited. */
  card?(channel: ChannelId, view: FloorView): void;
  /**
   * Messages of people after a position, and some before it, so that late ones are found. `null` for a channel that was
   * never read: then only where it stands, or what Conch should know from the beginning.
   */
  catchUp(channel: ChannelId, after: Position | null): Promise<History>;
  /** For an adapter that loses nothing: the channels with messages that were perhaps not handed in. Without it there are none. */
  unheard?(): readonly ChannelId[];
};

/** A small durable store for what an adapter must know after a restart, of text up to a few kilobytes a key. */
export type Memory = {
  get(key: string): string | null;
  /** Resolves once it is durable. */
  set(key: string, value: string): Promise<void>;
};

/** What the parts of an adapter work with. */
export type AdapterParts = {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly memory: Memory;
  readonly intake: Intake;
  readonly queries: FloorQueries;
  /** Ends all waiting. */
  readonly signal: AbortSignal;
};

/** A platform that will never take this program as it is set up. The message says what to do; the program ends with it. */
export class AdapterError extends Error {
  override readonly name = 'AdapterError';
  readonly adapter: string;

  constructor(message: string, where: { readonly adapter: string; readonly cause?: unknown }) {
    super(message, { cause: where.cause });
    this.adapter = where.adapter;
  }
}

/** The platform said no, or could not be reached. */
export class ChatError extends Error {
  override readonly name = 'ChatError';
  readonly method: string;
  readonly channel: ChannelId;
  /** `refused`: it will never work, or with `retryAfterMs` not until the channel takes messages again; `limited`: not executed, try later; `unclear`: perhaps executed; `unreachable`: not executed. */
  readonly fault: 'refused' | 'limited' | 'unclear' | 'unreachable';
  readonly retryAfterMs: number | null;
  /** The platform knows no such channel: nothing will ever stand there. */
  readonly channelIsGone: boolean;

  constructor(
    message: string,
    where: {
      readonly method: string;
      readonly channel: ChannelId;
      readonly fault: ChatError['fault'];
      readonly retryAfterMs?: number;
      readonly channelIsGone?: boolean;
      readonly cause?: unknown;
    },
  ) {
    super(message, { cause: where.cause });
    this.method = where.method;
    this.channel = where.channel;
    this.fault = where.fault;
    this.retryAfterMs = where.retryAfterMs ?? null;
    this.channelIsGone = where.channelIsGone ?? false;
  }
}

/** The answer to a person whose message or command failed; `undone` says what was not done. Causes and paths stand in the log alone. */
export function failedText(error: unknown, undone: 'Nothing was sent.' | 'Nothing was changed.'): string {
  return `That did not work. ${storeWords(error) ?? 'Conch could not carry it out; the log says why.'} ${undone}`;
}

/** One thing that `conch doctor` looked at. */
export type CheckResult = {
  /** What was looked at, in a few words: "Discord token", "#general: permissions". */
  readonly what: string;
  readonly verdict: 'good' | 'warning' | 'bad';
  /** What was found, in one sentence. */
  readonly text: string;
  /** What to do about it; `null` when there is nothing to do. */
  readonly todo: string | null;
};

/** It is as it should be. */
export function good(what: string, text: string): CheckResult {
  return { what, verdict: 'good', text, todo: null };
}

/** It works, but not as well as it could. */
export function warning(what: string, text: string, todo: string | null): CheckResult {
  return { what, verdict: 'warning', text, todo };
}

/** It does not work. */
export function bad(what: string, text: string, todo: string | null): CheckResult {
  return { what, verdict: 'bad', text, todo };
}
