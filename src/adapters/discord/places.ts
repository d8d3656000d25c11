import { Routes } from 'discord.js';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { ChatError } from '../port.ts';
import type { Intake, FloorQueries } from '../port.ts';
import { floorOf } from '../delivery/inbound.ts';
import type { MessageLocation } from '../delivery/inbound.ts';
import { BoundedMap } from '../../lib/keyed.ts';
import { channelId, platformChannel } from './client.ts';
import type { Reader } from './client.ts';

/** A Discord id: a decimal number that grows with time. */
export const snowflakeSchema = z.string().regex(/^\d{1,20}$/);

/** A channel or thread as Discord describes it, in events and over REST. */
export const channelSchema = z.object({
  id: snowflakeSchema,
  type: z.int(),
  guild_id: snowflakeSchema.nullish().catch(null),
  parent_id: snowflakeSchema.nullish().catch(null),
  name: z.string().nullish().catch(null),
  last_message_id: snowflakeSchema.nullish().catch(null),
  thread_metadata: z
    .object({ archived: z.boolean(), locked: z.boolean().catch(false) })
    .nullish()
    .catch(null),
});

/** A parsed channel or thread of Discord. */
export type ChannelPayload = z.infer<typeof channelSchema>;

/** The location of a floor on Discord. Webhooks and permissions belong to the channel, not to its threads. */
export type Location = {
  readonly channel: string;
  readonly thread: string | null;
  /** `null` when the guild is not known, and for a thread that the configuration does not name. */
  readonly guild: string | null;
};

/** Cache of channels and threads. */
export type Places = {
  learn(channel: ChannelPayload): void;
  forget(channel: string): void;
  nameOf(channel: string): string | null;
  guildOf(channel: string): string | null;
  /** The channel of a known thread; `null` for other channels. */
  parentOf(channel: string): string | null;
  /**
   * Returns the floor for a channel's messages; `null` when the channel has no floor. Opens the floor of a new thread.
   * A channel that Discord refuses to describe counts as no thread. Unless the refusal is final, asks Discord again the
   * next time. Rejects with a `ChatError` while Discord does not answer.
   */
  resolve(channel: string): Promise<MessageLocation | null>;
  /**
   * Returns the floor for a channel's messages; `null`: none. Does not ask Discord and opens no floor. `undefined`: the
   * channel is not known yet.
   */
  cachedLocation(channel: string): MessageLocation | null | undefined;
  /**
   * Returns the location of a floor. A channel that Discord refuses to describe counts as no thread. Rejects with a
   * `ChatError` while Discord does not answer.
   */
  locate(floor: ChannelId): Promise<Location>;
};

const THREADS = new Set([10, 11, 12]);
const CACHE_LIMIT = 10_000;

/** Creates a cache of channels and threads. Asks Discord about missing channels when needed. */
export function createPlaces(ports: {
  readonly read: Reader;
  readonly queries: FloorQueries;
  readonly intake: Intake;
}): Places {
  const { read, queries, intake } = ports;
  const cache = new BoundedMap<string, CachedChannel>(CACHE_LIMIT);
  const guilds = new Map<string, string>();
  const locationOf = (channel: string): MessageLocation | null => {
    const parent = cache.get(channel)?.parent ?? null;
    return floorOf(queries, channelId(channel), parent === null ? null : channelId(parent));
  };
  const ask = async (channel: string): Promise<void> => {
    try {
      learn(await describe(read, channel));
    } catch (error) {
      if (!(error instanceof ChatError) || error.fault !== 'refused') throw error;
      if (error.retryAfterMs === null) cache.set(channel, { parent: null, name: null, guild: null });
    }
  };
  const learn = (channel: ChannelPayload): void => {
    const { id, parent_id: parent = null, name = null, guild_id: guild = null } = channel;
    cache.set(id, { parent: isThread(channel) ? parent : null, name, guild: guild ?? cache.get(id)?.guild ?? null });
    if (guild !== null && isConfigured(queries, id)) guilds.set(id, guild);
  };
  return {
    learn,
    forget: (channel) => cache.delete(channel),
    nameOf: (channel) => cache.get(channel)?.name ?? null,
    guildOf: (channel) => guilds.get(channel) ?? cache.get(channel)?.guild ?? null,
    parentOf: (channel) => cache.get(channel)?.parent ?? null,
    async resolve(channel) {
      if (locationOf(channel) === null && !cache.has(channel)) await ask(channel);
      const floor = locationOf(channel);
      if (floor === null || floor.opens === null) return floor;
      const name = cache.get(channel)?.name ?? 'thread';
      await intake.thread({ id: floor.channel, parent: floor.opens.id, name, since: { id: channel, order: channel } });
      return { ...floor, opens: null };
    },
    cachedLocation: (channel) => locationOf(channel) ?? (cache.has(channel) ? null : undefined),
    async locate(floor) {
      const ownId = platformChannel(floor);
      const parentChannel = queries.channels().find(({ id }) => id === floor)?.parent ?? null;
      if (parentChannel !== null) return { channel: platformChannel(parentChannel), thread: ownId, guild: null };
      if (!cache.has(ownId)) await ask(ownId);
      const { parent = null, guild = null } = cache.get(ownId) ?? {};
      return parent === null ? { channel: ownId, thread: null, guild } : { channel: parent, thread: ownId, guild };
    },
  };
}

function isConfigured(queries: FloorQueries, id: string): boolean {
  return queries.channels().some((each) => each.id === channelId(id) && each.parent === null);
}

/** Returns whether Discord's channel type is one of the three kinds of threads. */
export function isThread(channel: Pick<ChannelPayload, 'type'>): boolean {
  return THREADS.has(channel.type);
}

/** Reads one channel's description from Discord. Rejects with a `ChatError`, or with the abort reason of the signal. */
export function describe(read: Reader, channel: string): Promise<ChannelPayload> {
  return read({ route: Routes.channel(channel), channel: channelId(channel), what: 'channel' }, channelSchema);
}

type CachedChannel = { readonly parent: string | null; readonly name: string | null; readonly guild: string | null };
