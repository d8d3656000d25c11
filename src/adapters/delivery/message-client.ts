import type { Instant } from '../../lib/time.ts';
import type { Receipt } from '../../turns/floor/react.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { FloorView } from '../../turns/view.ts';
import type { ChatAdapter, Speaker } from '../port.ts';
import type { CardButton } from './card.ts';

/** What one message of Conch's is to say; every platform shows it its own way. Nothing in it notifies anybody. */
export type Content = {
  /** A draft is text that is still being generated: its newest end is shown. A card shows the floor. */
  readonly kind: 'post' | 'draft' | 'card';
  /** Under whose name; `null` is Conch itself. */
  readonly speaker: Speaker;
  /** Markdown, as agents write it. */
  readonly text: string;
  /** A card has those of its floor, an announcement those for what it tells. */
  readonly buttons: readonly CardButton[];
  /** The turn in which it was said. */
  readonly epoch: number | null;
  /** The post's row in the outbox, by which it is known again; `null` leaves what a message tells of itself. */
  readonly outboxId: string | null;
};

/** One message that stands in a channel, or in the channel of its thread. */
export type MessageRef = { readonly channel: ChannelId; readonly id: MessageId };

/** A message of Conch's own, as the history shows it. */
export type OwnMessage = {
  readonly id: MessageId;
  readonly kind: Content['kind'];
  /** Whether it is this post. */
  readonly is: (post: Content) => boolean;
};

/** Which part of a history: what came after a message, the newest so many, or both. */
export type HistoryRange = { readonly after: MessageId | null; readonly newest: number | null };

/** What a platform takes. */
export type ClientLimits = {
  /** From one new message of a channel and its threads to the next; 0 if the platform says so itself. */
  readonly postGapMs: number;
  /** How many edits drafts and cards may make in all channels; `null` if the platform says so itself. */
  readonly editsPerMinute: number | null;
  /** Longer posts are shown as files, which only a new message can carry; `null`: none is. */
  readonly fileAbove: number | null;
  /** How often the time left on a card is to be written anew; `null` if the platform counts it down itself. */
  readonly timeLeftEveryMs: number | null;
};

/**
 * What Conch does with its own messages on a platform. Every method makes one attempt and rejects with a `ChatError`:
 * `unclear` only when it may have been carried out. Ids are the platform's, as the outbox keeps them; the later one is longer,
 * or greater.
 */
export type MessageClient = {
  readonly limits: ClientLimits;
  send(channel: ChannelId, content: Content): Promise<MessageId>;
  /** `gone`: somebody deleted it, or it can no longer be changed. */
  change(message: MessageRef, content: Content): Promise<'changed' | 'gone'>;
  /** What is gone already is done. */
  remove(message: MessageRef): Promise<void>;
  /** Oldest first. Refused when the whole stretch cannot be read; the newest so many can always be. */
  own(channel: ChannelId, range: HistoryRange): Promise<readonly OwnMessage[]>;
  /** Puts a receipt under a message or takes it away; what is so already, or can never be, is done. */
  react(message: MessageRef, receipt: Receipt, on: boolean): Promise<void>;
  /** The receipts that Conch has put under a message. */
  receipts(message: MessageRef): Promise<readonly Receipt[]>;
  /** The floor is like this now: shows what the platform has for it beside messages. Never throws. */
  status?(channel: ChannelId, view: FloorView): void;
  /** Takes away what is only for the moment. Never rejects. */
  stop?(): Promise<void>;
  /** When a message was written, by the platform's clock. */
  sentAt(message: MessageId): Instant;
  /** The time until an instant, for a card. */
  timeLeft(endsAt: Instant): string;
};

/** The sending half of a chat adapter. What is posted rejects with a `ChatError` and is not tried again here; nothing else surfaces an error. */
export type MessageSender = Required<Pick<ChatAdapter, 'post' | 'find' | 'edit' | 'receipt' | 'draft' | 'card'>> & {
  /** Takes away drafts and cards that a former run left behind; called with every catch-up of a channel. Never rejects. */
  tidy(channel: ChannelId): Promise<void>;
  /** A message by somebody other than Conch appeared in the channel. */
  readonly seen: (channel: ChannelId) => void;
  /** The channel can be written to again. */
  readonly reopened: (channel: ChannelId) => void;
  /** Takes away what is only for the moment. */
  stop(): Promise<void>;
};

/** Whether one message was sent after another. */
export function isAfter(id: MessageId, other: MessageId): boolean {
  return id.length === other.length ? id > other : id.length > other.length;
}
