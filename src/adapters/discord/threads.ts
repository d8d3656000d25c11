import { Routes } from 'discord.js';
import { z } from 'zod';
import type { OpenPlatform } from '../delivery/chat-adapter.ts';
import { ChatError } from '../port.ts';
import { cutTo } from './content.ts';
import { CODES, channelId, platformChannel, rejectionOf } from './client.ts';
import type { Calls } from './client.ts';
import { snowflakeSchema } from './places.ts';

/** Discord hides a thread from the list of channels after this time without messages, in minutes: a week. */
const HIDDEN_AFTER_MINUTES = 10_080;
const NAME_LENGTH = 100;
const threadSchema = z.object({ id: snowflakeSchema });

/**
 * Returns a function that opens a thread under a message. A message has at most one thread, and both have one id, so a
 * second call for the message resolves with the same thread.
 */
export function createThreadOpener(calls: Pick<Calls, 'ask'>): OpenPlatform['threadUnder'] {
  return async ({ channel, id }, name) => {
    const route = Routes.threads(platformChannel(channel), id);
    const body = { name: cutTo(name, NAME_LENGTH), auto_archive_duration: HIDDEN_AFTER_MINUTES };
    try {
      const call = { method: 'post', route, channel, what: 'open a thread', body, callerRetries: true } as const;
      return channelId((await calls.ask(call, threadSchema)).id);
    } catch (error) {
      const code = rejectionOf(error)?.code;
      if (code === CODES.threadExists) return channelId(id);
      if (code !== CODES.missingPermissions) throw error;
      const why = 'The bot lacks the permission "Create Public Threads" or "Send Messages in Threads"';
      throw new ChatError(why, { method: 'openThread', channel, fault: 'refused', cause: error });
    }
  };
}
