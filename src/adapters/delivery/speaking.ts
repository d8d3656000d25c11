import type { Receipt } from '../../turns/floor/effect.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { FloorView } from '../../turns/view.ts';
import type { OutgoingPost, Speaker } from '../port.ts';

/** The sending half of a chat adapter. What is posted rejects with a `ChatError` and is not tried again here; nothing else surfaces an error. */
export type Speaking = {
  /** Learns and prepares what speaking needs. Never rejects. */
  start(): Promise<void>;
  /** Returns the message's id. A second call for a post that was being written into its draft changes the same message. */
  post(channel: ChannelId, post: OutgoingPost): Promise<string>;
  find(channel: ChannelId, post: OutgoingPost): Promise<string | null>;
  /** Changes what Conch itself said; a message that somebody deleted stays deleted. */
  edit(channel: ChannelId, platformId: string, text: string): Promise<void>;
  receipt(channel: ChannelId, message: MessageId, receipt: Receipt): Promise<void>;
  draft(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number, text: string | null): void;
  card(channel: ChannelId, view: FloorView): void;
  /** Takes away drafts and cards that a former run left behind; called with every catch-up of a channel. Never rejects. */
  tidy(channel: ChannelId): Promise<void>;
  /** A message by somebody other than Conch appeared in the channel. */
  seen(channel: ChannelId): void;
  /** Takes away what is only for the moment: drafts, status lines, typing. */
  stop(): Promise<void>;
};
