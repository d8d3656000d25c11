import { afterEach, expect, test } from 'vitest';
import { channelId, createCalls, createClient } from '../../../src/adapters/discord/client.ts';
import { createThreadOpener } from '../../../src/adapters/discord/threads.ts';
import { ChatError } from '../../../src/adapters/port.ts';
import { systemClock } from '../../../src/lib/time.ts';
import { startDiscord } from './server.ts';
import type { DiscordServer } from './server.ts';

const servers: DiscordServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

/** Writes a message in a fake Discord. `opened` opens the thread under the message, or returns the error. */
async function messageOn() {
  const server = await startDiscord();
  servers.push(server);
  const rest = createClient({ token: server.token, apiUrl: server.apiUrl, timeoutMs: 5_000 });
  const channel = channelId(server.channel);
  const { id } = server.write(server.person('ann'), server.channel, 'Paint the bridge');
  const open = createThreadOpener(createCalls({ rest, clock: systemClock() }));
  const opened = (name = 'Paint'): Promise<string | ChatError> =>
    open({ channel, id }, name).catch((error: unknown) => {
      if (error instanceof ChatError) return error;
      throw error;
    });
  return { server, id, opened };
}

test('a thread is found again when the answer to its opening was lost', async () => {
  const { server, id, opened } = await messageOn();
  server.fail('POST /channels/*/messages/*/threads', { kind: 'reset-after' });
  expect(await opened()).toMatchObject({ fault: 'unclear' });
  expect(await opened()).toBe(channelId(id));
  expect(await opened()).toBe(channelId(id));
});

test('a thread opens though its name was cut within an emoji', async () => {
  const { id, opened } = await messageOn();
  expect(await opened('Paint 🌉'.slice(0, -1))).toBe(channelId(id));
});

test('a refused thread fails with the name of the permission that the bot lacks', async () => {
  const { server, opened } = await messageOn();
  server.permit(server.channel, 'CreatePublicThreads', 'deny');
  expect(await opened()).toMatchObject({
    fault: 'refused',
    message: expect.stringContaining('"Create Public Threads"'),
  });
});
