import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';

/** Where a floor is on Slack: a channel, or a thread in it. */
export type SlackPlace = { readonly channel: string; readonly thread: string | null };

/** The id of a channel, or of the thread under the message with this `ts`, as the rest of Conch knows it. */
export function channelId(channel: string, thread: string | null = null): ChannelId {
  return thread === null ? `slack:${channel}` : `slack:${channel}/${thread}`;
}

/** Slack's own names for it. */
export function platformChannel(channel: ChannelId): SlackPlace {
  const [own = '', thread] = channel.slice(channel.indexOf(':') + 1).split('/', 2);
  return { channel: own, thread: thread ?? null };
}

/** The id of a message: a `ts` is unique only in its channel. */
export function messageId(channel: string, ts: string): MessageId {
  return `${channel}/${ts}`;
}

/** Slack's own names for a message. */
export function platformMessage(message: MessageId): { readonly channel: string; readonly ts: string } {
  const [channel = '', ts = ''] = message.split('/', 2);
  return { channel, ts };
}
