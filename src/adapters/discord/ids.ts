import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { Instant } from '../../lib/time.ts';

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

/** When something was made, by its id. */
export function timeOf(snowflake: string): Instant {
  return Number(BigInt(snowflake) >> 22n) + DISCORD_EPOCH_MS;
}

/** The smallest id of a moment. */
export function snowflakeAt(at: Instant): string {
  return (BigInt(Math.max(0, at - DISCORD_EPOCH_MS)) << 22n).toString();
}

const DISCORD_EPOCH_MS = 1_420_070_400_000;
