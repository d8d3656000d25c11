import { z } from 'zod';
import { CURSOR } from '../../src/adapters/discord/content.ts';
import { startDiscord } from '../adapters/discord/server.ts';

/** How often the requests are looked at for one that goes wrong. */
const LOOK_MS = 2;

/**
 * A loopback Discord as a program of its own, which outlives every kill of the bot. Where it is goes to standard output as
 * one line, and a line "hit <what> <fault> <method>" whenever a request is going wrong: of a post, a draft or a card.
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
