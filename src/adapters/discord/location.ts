import { Routes } from 'discord.js';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { ChatError } from '../port.ts';
import type { Observatory } from '../port.ts';
import type { Calls } from './calls.ts';
import { platformChannel } from './ids.ts';

/** Where a floor is on Discord. Webhooks and permissions belong to the channel, not to its threads. */
export type Location = {
  readonly channel: string;
  readonly thread: string | null;
  /** `null` when it is not known. */
  readonly guild: string | null;
};

/** Finds out where floors are. */
export type Locator = (channel: ChannelId) => Promise<Location>;

const THREADS: ReadonlySet<number> = new Set([10, 11, 12]);
const channelSchema = z.object({
  type: z.number(),
  guild_id: z.string().nullish(),
  parent_id: z.string().nullish(),
});

/** A locator that asks Discord once for each channel. Rejects with a `ChatError` when Discord cannot say. */
export function createLocator(ports: { readonly calls: Calls; readonly observatory: Observatory }): Locator {
  const known = new Map<ChannelId, Location>();
  return async (channel) => {
    const seen = known.get(channel);
    if (seen !== undefined) return seen;
    const found = await locate(ports, channel);
    known.set(channel, found);
    return found;
  };
}

async function locate(
  ports: { readonly calls: Calls; readonly observatory: Observatory },
  channel: ChannelId,
): Promise<Location> {
  const own = platformChannel(channel);
  const parent = ports.observatory.channels().find(({ id }) => id === channel)?.parent ?? null;
  if (parent !== null) return { channel: platformChannel(parent), thread: own, guild: null };
  try {
    const route = Routes.channel(own);
    const shown = await ports.calls.ask({ method: 'get', route, channel, what: 'look at the channel' }, channelSchema);
    const guild = shown.guild_id ?? null;
    const isThread = THREADS.has(shown.type) && typeof shown.parent_id === 'string';
    return isThread ? { channel: shown.parent_id ?? own, thread: own, guild } : { channel: own, thread: null, guild };
  } catch (error) {
    if (error instanceof ChatError && error.fault === 'refused') return { channel: own, thread: null, guild: null };
    throw error;
  }
}
