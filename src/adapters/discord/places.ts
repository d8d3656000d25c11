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
  at(channel: string): MessageLocation | null | undefined;
  /**
   * Returns the location of a floor. A channel that Discord refuses to describe counts as no thread. Rejects with a
   * `ChatError` while Discord does not answer.
   */
  locate(floor: ChannelId): Promise<Location>;
};

const THREADS = new Set([10, 11, 12]);
const KNOWN_LIMIT = 10_000;

/** Creates a cache of channels and threads. Asks Discord about missing channels when needed. */
export function createPlaces(ports: {
  readonly read: Reader;
  readonly queries: FloorQueries;
  readonly intake: Intake;
}): Places {
  const { read, queries, intake } = ports;
  const known = new BoundedMap<string, Known>(KNOWN_LIMIT);
  const guilds = new Map<string, string>();
  const placed = (channel: string): MessageLocation | null => {
    const parent = known.get(channel)?.parent ?? null;
    return floorOf(queries, channelId(channel), parent === null ? null : channelId(parent));
  };
  const ask = async (channel: string): Promise<void> => {
    try {
      learn(await describe(read, channel));
    } catch (error) {
      if (!(error instanceof ChatError) || error.fault !== 'refused') throw error;
      if (error.retryAfterMs === null) known.set(channel, { parent: null, name: null, guild: null });
    }
  };
  const learn = (channel: ChannelPayload): void => {
    const { id, parent_id: parent = null, name = null, guild_id: guild = null } = channel;
    known.set(id, { parent: isThread(channel) ? parent : null, name, guild: guild ?? known.get(id)?.guild ?? null });
    if (guild !== null && isConfigured(queries, id)) guilds.set(id, guild);
  };
  return {
    learn,
    forget: (channel) => known.delete(channel),
    nameOf: (channel) => known.get(channel)?.name ?? null,
    guildOf: (channel) => guilds.get(channel) ?? known.get(channel)?.guild ?? null,
    parentOf: (channel) => known.get(channel)?.parent ?? null,
    async resolve(channel) {
      if (placed(channel) === null && !known.has(channel)) await ask(channel);
      const where = placed(channel);
      if (where === null || where.opens === null) return where;
      const name = known.get(channel)?.name ?? 'thread';
      await intake.thread({ id: where.channel, parent: where.opens.id, name, since: { id: channel, order: channel } });
      return { ...where, opens: null };
    },
    at: (channel) => placed(channel) ?? (known.has(channel) ? null : undefined),
    async locate(floor) {
      const own = platformChannel(floor);
      const above = queries.channels().find(({ id }) => id === floor)?.parent ?? null;
      if (above !== null) return { channel: platformChannel(above), thread: own, guild: null };
      if (!known.has(own)) await ask(own);
      const { parent = null, guild = null } = known.get(own) ?? {};
      return parent === null ? { channel: own, thread: null, guild } : { channel: parent, thread: own, guild };
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

type Known = { readonly parent: string | null; readonly name: string | null; readonly guild: string | null };
