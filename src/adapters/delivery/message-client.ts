import type { Instant } from '../../lib/time.ts';
import type { Receipt } from '../../turns/floor/react.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { FloorView } from '../../turns/view.ts';
import type { ChatAdapter, Speaker } from '../port.ts';
import type { CardButton } from './card.ts';

/** The content of one message by Conch. Mentions in the text ping nobody. */
export type Content = {
  /** `draft`: text that is still being generated. `card`: the floor's state. */
  readonly kind: 'post' | 'draft' | 'card';
  /** The agent that is shown as author; `null`: Conch itself. */
  readonly speaker: Speaker;
  /** Markdown, as agents write it. */
  readonly text: string;
  /** The buttons of a card or of an announcement; empty for other messages. */
  readonly buttons: readonly CardButton[];
  /**
   * The epoch of the turn in which an agent wrote the text, or 0 for a background run; of a card, the floor's epoch.
   * `null`: Conch's own text, or an edit of a post.
   */
  readonly epoch: number | null;
  /** The post's outbox id, by which a later search recognizes the post. `null` for drafts, cards and edits of posts. */
  readonly outboxId: string | null;
};

/** A message and its channel or thread. */
export type MessageRef = { readonly channel: ChannelId; readonly id: MessageId };

/** A message by Conch, read from the history. */
export type OwnMessage = {
  readonly id: MessageId;
  readonly kind: Content['kind'];
  /** Returns whether the message is the given post. */
  readonly matches: (post: Content) => boolean;
};

/**
 * A part of a history: the newest messages after `after`, at most `newest` of them. `newest` null: all after `after`.
 * Both null: the newest 100.
 */
export type HistoryRange = { readonly after: MessageId | null; readonly newest: number | null };

/** Limits of a platform. */
export type ClientLimits = {
  /**
   * The shortest time between two new messages of a channel and its threads. 0: no wait, because the platform announces
   * its limits.
   */
  readonly postGapMs: number;
  /**
   * How many edits per minute the drafts and cards of all channels share; `null`: the platform announces its limits.
   */
  readonly editsPerMinute: number | null;
  /**
   * The longest post of an agent that is sent as a message, in UTF-16 units. Longer posts become files, which only a
   * new message can carry. `null`: no files.
   */
  readonly fileAbove: number | null;
  /** How often a card's remaining time is updated; `null`: never, because the platform counts down itself. */
  readonly timeLeftEveryMs: number | null;
};

/**
 * Writes, edits, removes and finds Conch's messages on a platform, and shows receipts. No write is repeated after a
 * wait; a refused message may be sent again at once, in another form. Methods reject with a `ChatError`. Its fault is
 * `unclear` only when the platform may have executed the call. Ids have the form that the outbox stores. Of two ids of
 * a channel, the longer one is later; of equally long ones, the greater.
 */
export type MessageClient = {
  readonly limits: ClientLimits;
  send(channel: ChannelId, content: Content): Promise<MessageId>;
  /** Edits a message. `gone`: the message was deleted, or can no longer be changed. */
  change(message: MessageRef, content: Content): Promise<'changed' | 'gone'>;
  /** Deletes a message. Resolves also when the message is gone, or when Slack no longer allows the deletion. */
  remove(message: MessageRef): Promise<void>;
  /**
   * Returns Conch's own messages of a range, oldest first. Rejects as `refused` when the range is too long to read
   * whole.
   */
  readOwn(channel: ChannelId, range: HistoryRange): Promise<readonly OwnMessage[]>;
  /**
   * Adds or removes a receipt. Resolves also when nothing has to change, when the message is gone, or when Discord
   * blocks the reaction or has too many on the message.
   */
  react(message: MessageRef, receipt: Receipt, isShown: boolean): Promise<void>;
  /** Returns the receipts that Conch has added to a message. */
  receipts(message: MessageRef): Promise<readonly Receipt[]>;
  /** Shows the state of the floor by other means than messages: typing signs, status lines. Never throws. */
  status?(channel: ChannelId, view: FloorView): void;
  /** Ends typing signs and removes status lines. Never rejects. */
  stop?(): Promise<void>;
  /** Returns when a message was written, by the platform's clock. */
  sentAt(message: MessageId): Instant;
  /** Returns the words for the time until an instant, for a card. */
  timeLeft(endsAt: Instant): string;
};

/** The sending half of a chat adapter. The methods of `ChatAdapter` have the same contract here. */
export type MessageSender = Required<Pick<ChatAdapter, 'post' | 'find' | 'edit' | 'receipt' | 'draft' | 'card'>> & {
  /** Removes drafts and finds cards of earlier processes. Never rejects. */
  tidy(channel: ChannelId): Promise<void>;
  /** Called when a message by somebody other than Conch appears in the channel or a thread that shares its floor. */
  readonly countBelow: (channel: ChannelId) => void;
  /** Called when calls that the channel refused can be tried again. */
  readonly reopened: (channel: ChannelId) => void;
  /** Removes drafts and status lines; ends typing signs and all waiting. */
  stop(): Promise<void>;
};

/** Compares two ids by time: negative when the first message is older. */
export function compareIds(one: MessageId, other: MessageId): number {
  return one.length - other.length || (one < other ? -1 : Number(one > other));
}

/** Whether the first message was sent after the second. */
export function isAfter(id: MessageId, other: MessageId): boolean {
  return compareIds(id, other) > 0;
}
