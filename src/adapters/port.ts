import type { Logger } from 'pino';
import type { Clock, Timers } from '../lib/time.ts';
import type { HumanMessage, MessageChange } from '../engine/port.ts';
import type { Answer } from '../turns/commands/context.ts';
import type { FloorView, JournalEntry, Line, DeliveryPreview, ReviewView, TurnRecord } from '../turns/view.ts';
import type { CrewAsk, CrewView } from '../turns/crew-view.ts';
import type { Receipt } from '../turns/floor/react.ts';
import type { AgentId, ChannelId, MessageId } from '../turns/floor/settings.ts';
import { storeWords } from '../engine/errors.ts';

/** Abilities and limits of a platform. */
export type Capabilities = {
  /** The longest text of one message, in UTF-16 units. Questions and files have limits of their own. */
  readonly textLimit: number;
  /** The longest question that is one message, in UTF-16 units. Default: `textLimit`. */
  readonly questionLimit?: number;
  /** A second post with the same outbox id returns the first message, while that message is stored. */
  readonly idempotentPosts: boolean;
  /**
   * The length of an agent's text, in UTF-16 units, above which the text is sent as a file. `post` gets such a text
   * whole. `null`: the platform sends no files, and each long text is split into several posts.
   */
  readonly fileAbove: number | null;
  /** The platform may lose events, so the history of each channel is read again at regular intervals. */
  readonly losesEvents?: boolean;
  /**
   * The adapter may read all floors and run commands for all channels. Other adapters are limited to their own
   * channels.
   */
  readonly oversees?: boolean;
};

/** The author of a post: an agent under its own name, or Conch itself (`null`). */
export type Speaker = { readonly id: AgentId; readonly name: string; readonly avatar: string | null } | null;

/** A post that an adapter sends, or looks for on its platform. */
export type OutgoingPost = {
  readonly outboxId: string;
  readonly speaker: Speaker;
  /**
   * At most `textLimit` UTF-16 units (a question: `questionLimit`). An agent's text above `fileAbove` comes whole. The
   * marks of a late and repeated post may add up to 80 units.
   */
  readonly text: string;
  /**
   * The platform's id of the message of the channel's last confirmed post or edit from the outbox; `null`: none is
   * known. A search for this post starts after that message.
   */
  readonly afterId: string | null;
  /** The epoch of the turn in which an agent wrote the text. 0: a background run's report. `null`: Conch's own text. */
  readonly epoch: number | null;
  /** The id (`requestPostId`) of the question that this post shows, or shows a part of. */
  readonly asks?: string;
  /** The thread to post in, where threads share the channel's floor. Absent: the channel itself. */
  readonly thread?: ChannelId;
  /** Command buttons under the text. A platform without buttons leaves them out. */
  readonly buttons?: readonly PostButton[];
};

/**
 * A button under a post. `line` is the command line that it runs. `drawnFor` names the turn or question that the button
 * is for, so that Conch refuses an outdated button.
 */
export type PostButton = {
  readonly label: string;
  readonly line: string;
  readonly drawnFor: string;
  readonly style: 'plain' | 'good' | 'danger';
};

/**
 * Messages and edits read from a platform's history. `gap` describes the part that could not be read; `null`: no gap.
 */
export type History = {
  /** Oldest first. May repeat messages that Conch already received. */
  readonly messages: readonly HumanMessage[];
  /** Edits of the messages in `messages`. May repeat edits that Conch already received. */
  readonly changes: readonly MessageChange[];
  readonly gap: string | null;
  /** Where the channel's history ends when it is read for the first time. Agents get only later messages. */
  readonly mark?: Position;
};

/** A place in a channel's history: a message id, and the key that sorts messages. The message need not exist. */
export type Position = { readonly id: MessageId; readonly order: string };

/** A person or program, as the platform authenticated it. */
export type Principal = {
  readonly id: string;
  readonly name: string;
  /** Platform ids of the person's roles or groups. */
  readonly roles: readonly string[];
  /** True for a program. A program is not allowed to run operator commands. */
  readonly bot?: boolean;
};

/**
 * Takes messages, commands and connection changes from adapters. The promises of `message` and `command` resolve once
 * the change is durable, and that of `amend` too if the message is known. An adapter can report only its own channels:
 * a report for another channel throws or rejects. An adapter that oversees all can run commands for any channel.
 */
export type Intake = {
  message(message: HumanMessage): Promise<void>;
  /**
   * Applies an edit or a deletion. An edit changes nothing when its `version` is not newer, or when its message is
   * deleted. Edits without a version must come in order. A change of an unknown message is kept in memory only.
   */
  amend(change: MessageChange): Promise<void>;
  /** Runs a whole command line, such as "/floor skip". `drawnFor`: the turn or question of its button. */
  command(channel: ChannelId, by: Principal, line: string, drawnFor?: string): Promise<Answer>;
  /**
   * Returns why a command line is refused: the person lacks permission, or the button is outdated. Otherwise `null`,
   * also for a line that cannot be parsed. Whether a button's turn is over, only `command` checks.
   */
  refusal(channel: ChannelId, by: Principal, line: string, drawnFor?: string): string | null;
  /**
   * Opens a floor for a thread of a configured channel, with that channel's settings. Must be called before
   * `message` gets messages of the thread. Does nothing for a known thread.
   */
  thread(thread: Thread): Promise<void>;
  /**
   * Reports a lost connection. Conch then grants no turn in the adapter's channels until two things happened: the
   * adapter reported `reconnected`, and the missed messages were read or announced as a gap.
   */
  disconnected(): void;
  /**
   * Reports a restored connection. `perhaps`: the missed messages of every channel are read. `nothing`: the platform
   * replayed all missed events, so channels are read only if an earlier catch-up was interrupted.
   */
  reconnected(how: { readonly missed: 'nothing' | 'perhaps' }): void;
  /**
   * Reports a channel that cannot be used (deleted, archived, locked, bot removed): its turn ends and its floor is
   * paused.
   */
  suspend(channel: ChannelId, why: string): void;
  restore(channel: ChannelId): void;
  /** Reports that the platform refuses Conch for good. Conch ends with the error's message. */
  broken(error: AdapterError): void;
};

/** A thread of a configured channel. */
export type Thread = {
  readonly id: ChannelId;
  readonly parent: ChannelId;
  readonly name: string;
  /**
   * The position at which the thread begins. The messages after this position are read if the thread's channel was
   * first read before this position. Otherwise only new messages are read.
   */
  readonly since?: Position;
};

/** A reaction that can mean a command: 🎫, ✅ or 👎. */
export type ReactionKind = 'ticket' | 'yes' | 'no';

const REACTION_KINDS: ReadonlyMap<string, ReactionKind> = new Map([
  ['🎫', 'ticket'],
  ['ticket', 'ticket'],
  ['✅', 'yes'],
  ['white_check_mark', 'yes'],
  ['👎', 'no'],
  ['-1', 'no'],
  ['thumbsdown', 'no'],
]);

/**
 * Returns the kind of a reaction, by its emoji or its name at Slack. Ignores skin tones. Returns `null` for a reaction
 * that means no command.
 */
export function reactionKind(emoji: string): ReactionKind | null {
  return REACTION_KINDS.get(emoji.replace(/(?:::skin-tone-\d|[\u{1F3FB}-\u{1F3FF}]|\uFE0F)+$/u, '')) ?? null;
}

/** The command line that a reaction means, and the line's channel. `drawnFor`: the question that the line answers. */
export type ChannelCommand = { readonly channel: ChannelId; readonly line: string; readonly drawnFor?: string };

/** A channel or thread with a floor of its own. */
export type Place = {
  readonly id: ChannelId;
  readonly name: string;
  readonly adapter: string;
  /** The channel of this thread; `null` for a channel of the configuration. */
  readonly parent: ChannelId | null;
  /** Whether threads have floors of their own, share the parent's floor, or are ignored. */
  readonly threads: 'own' | 'parent' | 'ignore';
  /** Which messages of other programs reach agents: none, messages that mention an agent, or all. */
  readonly allowBots: 'off' | 'mentions' | 'all';
};

/**
 * Read access to floors: an adapter's own channels, or all channels for an adapter that oversees all. Other channels
 * give `null` or an empty list.
 */
export type FloorQueries = {
  channels(): readonly Place[];
  agents(): readonly {
    readonly id: AgentId;
    readonly name: string;
    readonly avatar: string | null;
    readonly description: string;
    /** True: operators cannot add the agent to a channel. */
    readonly fixed?: boolean;
  }[];
  /** Channels whose floor may have something in progress. The floors of all other channels are at rest. */
  awake(): readonly ChannelId[];
  view(channel: ChannelId): FloorView | null;
  deliveryPreview(channel: ChannelId): DeliveryPreview | null;
  /** The channel's open review, else its last one, without secrets; `null`: none yet. Missing: there are no reviews. */
  review?(channel: ChannelId): ReviewView | null;
  /**
   * Returns the workers of a crew that wait for a person; none while the crew is not open. `channel`: the crew's, or
   * the thread of a ticket in work. `null`: no crew works there. Missing: there are no crews.
   */
  crewAsks?(channel: ChannelId): readonly CrewAsk[] | null;
  /**
   * Returns the crew of a channel or of a ticket's thread, also of a finished ticket, without secrets. Lists at most
   * `most` tickets of each state, and at least the first three proposed tickets. `null`: no crew, or it is not open.
   */
  crew?(channel: ChannelId, most: number): CrewView | null;
  /** The id of the finished ticket of a thread; `null` for other channels. Missing: there are no crews. */
  pastThread?(channel: ChannelId): string | null;
  /** The command that a person's reaction to a message means; `null` for none. Missing: reactions mean nothing. */
  reaction?(channel: ChannelId, message: MessageId, kind: ReactionKind): ChannelCommand | null;
  turns(channel: ChannelId, limit: number): readonly TurnRecord[];
  journal(channel: ChannelId, limit: number, before?: number): readonly JournalEntry[];
  lines(channel: ChannelId, limit: number): readonly Line[];
  /** The thread for the holder's next text, where threads share the channel's floor; `null`: the channel itself. */
  thread(channel: ChannelId): ChannelId | null;
};

/**
 * One chat platform. Optional methods are optional abilities. When `post`, `find`, `edit`, `receipt`, `openThread` or
 * `catchUp` fails at the platform, it rejects with a `ChatError`.
 */
export type ChatAdapter = {
  readonly name: string;
  readonly capabilities: Capabilities;
  /**
   * Resolves when messages come in and posts can go out, or when stopped. Rejects with an `AdapterError` when the
   * platform refuses Conch for good.
   */
  start(intake: Intake, queries: FloorQueries): Promise<void>;
  stop(): Promise<void>;
  /** Resolves with a person's roles, on a platform that sends no roles with messages. Never rejects. */
  rolesOf?(person: string): Promise<readonly string[]>;
  /** Returns a link to a message; `null` when the link cannot be built. */
  link?(channel: ChannelId, message: MessageId): string | null;
  /** Posts a message. Resolves with the platform's id of the message. Discord: "0" for a message already deleted. */
  post(channel: ChannelId, post: OutgoingPost): Promise<string>;
  /**
   * Looks for a post whose outcome is unknown. Resolves with the platform's id, or with `null` when the post is not
   * found.
   */
  find(channel: ChannelId, post: OutgoingPost): Promise<string | null>;
  /** Changes a post. `gone`: the message was deleted, or the platform no longer allows edits. */
  edit?(channel: ChannelId, platformId: string, text: string): Promise<'changed' | 'gone'>;
  /** Shows a receipt under a message. `channel`: the message's channel or thread. */
  receipt?(channel: ChannelId, message: MessageId, receipt: Receipt): Promise<void>;
  /** Shows text that is still being generated; `null` removes the text. Not durable; failures are not reported. */
  draft?(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number, text: string | null): void;
  /** Shows a text without storing it. */
  notice?(channel: ChannelId, text: string): void;
  /** Opens a thread of a channel. A second call with the same name and key resolves with that thread, if found. */
  openThread?(channel: ChannelId, name: string, key: string): Promise<Thread>;
  /** Called when the floor or the crew of a channel changed: redraws the card. */
  card?(channel: ChannelId, view: FloorView): void;
  /**
   * Reads messages of people and programs after a position. Where messages can arrive late, messages shortly before the
   * position are read again. `after` null: no earlier position is known. A chat platform then returns no messages, only
   * the channel's newest position as `mark`. The page then returns its newest messages and no `mark`. The parameter
   * `mark`: the position at the channel's first read, or the start of a thread. The caller drops messages up to `mark`.
   */
  catchUp(channel: ChannelId, after: Position | null, mark?: Position | null): Promise<History>;
  /**
   * Returns channels with messages that Conch perhaps did not receive, for an adapter without `losesEvents`. Missing:
   * no such channels.
   */
  channelsToCatchUp?(): readonly ChannelId[];
};

/** A small durable key-value store of an adapter, for texts up to a few KiB. */
export type Memory = {
  get(key: string): string | null;
  /** Resolves once the value is durable. */
  set(key: string, value: string): Promise<void>;
};

/** Dependencies that the parts of an adapter share. */
export type AdapterParts = {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly memory: Memory;
  readonly intake: Intake;
  readonly queries: FloorQueries;
  readonly signal: AbortSignal;
};

/** Thrown when an adapter cannot work with this setup. Conch ends with the error's message, which says why. */
export class AdapterError extends Error {
  override readonly name = 'AdapterError';
  readonly adapter: string;

  constructor(message: string, where: { readonly adapter: string; readonly cause?: unknown }) {
    super(message, { cause: where.cause });
    this.adapter = where.adapter;
  }
}

/** Thrown when an operation on a chat platform failed. */
export class ChatError extends Error {
  override readonly name = 'ChatError';
  readonly method: string;
  readonly channel: ChannelId;
  /**
   * `refused`: not executed; with `retryAfterMs`, the refusal may pass. `limited`: not executed, retry later.
   * `unclear`: may have been executed. `unreachable`: not executed.
   */
  readonly fault: 'refused' | 'limited' | 'unclear' | 'unreachable';
  readonly retryAfterMs: number | null;
  /** True: the platform knows no such channel or thread, so no post can exist there. */
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

/**
 * Returns the answer to a person whose message or command failed. Names the cause only if the store failed, and never a
 * path.
 */
export function failedText(error: unknown, undone: 'Nothing was sent.' | 'Nothing was changed.'): string {
  return `This failed. ${storeWords(error) ?? 'The log of Conch says why.'} ${undone}`;
}

/** One result of `conch doctor`. */
export type CheckResult = {
  /** The subject of the check: "Discord token", "#general: permissions". */
  readonly what: string;
  readonly verdict: 'good' | 'warning' | 'bad';
  readonly text: string;
  /** The next step for the operator; `null` for none. */
  readonly todo: string | null;
};

/** A check that passed. */
export function good(what: string, text: string): CheckResult {
  return { what, verdict: 'good', text, todo: null };
}

/** A check that found a limitation. */
export function warning(what: string, text: string, todo: string | null): CheckResult {
  return { what, verdict: 'warning', text, todo };
}

/** A check that failed. */
export function bad(what: string, text: string, todo: string | null): CheckResult {
  return { what, verdict: 'bad', text, todo };
}
