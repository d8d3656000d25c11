import { z } from 'zod';
import { CURSOR } from '../../src/adapters/discord/content.ts';
import { startDiscord } from '../adapters/discord/server.ts';

/** The interval at which the requests are searched for faults. */
const LOOK_MS = 2;

/**
 * A loopback Discord in its own process, which outlives every kill of the bot. Its first line of output is its
 * address. Each fault of a post, draft or card prints a line "hit <what> <fault> <method>".
 */
const server = await startDiscord();
const { apiUrl, token, guild, channel, botUser } = server;
process.stdout.write(`${JSON.stringify({ apiUrl, token, guild, channel, botUser })}\n`);
const looking = setInterval(() => {
  for (const { fault, method, body } of server.requests.splice(0))
    if (fault !== null) process.stdout.write(`hit ${kindOf(body)} ${fault} ${method}\n`);
}, LOOK_MS);
process.on('SIGTERM', () => {
  clearInterval(looking);
  void server.close();
});

function kindOf(body: unknown): 'post' | 'draft' | 'card' | 'other' {
  const parsed = z.looseObject({ content: z.string(), components: z.array(z.unknown()).catch([]) }).safeParse(body);
  if (!parsed.success) return 'other';
  const { content, components } = parsed.data;
  if (components.length > 0) return 'card';
  return content.endsWith(CURSOR) ? 'draft' : 'post';
}
