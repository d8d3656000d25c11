import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';

/** The id of a Discord channel or thread as the rest of Conch knows it. */
export function channelId(snowflake: string): ChannelId {
  return `discord:${snowflake}`;
}

/** Discord's own id of a channel or thread. */
export function platformChannel(channel: ChannelId): string {
  return channel.slice(channel.indexOf(':') + 1);
}

/** The id of a message: Discord's are unique in all of Discord. */
export function messageId(snowflake: string): MessageId {
  return snowflake;
}

/** Discord's own id of a message. */
export function platformMessage(message: MessageId): string {
  return message;
}
