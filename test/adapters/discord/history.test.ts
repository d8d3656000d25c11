import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createCalls, createClient, createReader, snowflakeAt, timeOf } from '../../../src/adapters/discord/client.ts';
import { OVERLAP_MS, PAGES, THREADS_READ, readHistory } from '../../../src/adapters/discord/history.ts';
import type { HistoryPorts } from '../../../src/adapters/discord/history.ts';
import { channelPermissions } from '../../../src/adapters/discord/channel-membership.ts';
import { createPlaces } from '../../../src/adapters/discord/places.ts';
import type { History, Place, Position } from '../../../src/adapters/port.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import { createListener, createLogbook, placeOf, queriesOf } from './listening.ts';
import type { Listener } from './listening.ts';
import { startDiscord } from './server.ts';
import type { DiscordServer } from './server.ts';

let discord: DiscordServer;
beforeEach(async () => {
  discord = await startDiscord();
});
afterEach(() => discord.close());

const at = (id: string): Position => ({ id, order: id });
const texts = ({ messages }: History): readonly string[] => messages.map(({ text }) => text);

function portsFor(place: Partial<Place> = {}, listener: Listener = createListener()): HistoryPorts {
  const rest = createClient(discord);
  const calls = createCalls({ rest, clock: systemClock() });
  const read = createReader(calls, { timers: systemTimers });
  const queries = queriesOf([placeOf(discord.channel, place)], listener);
  const places = createPlaces({ read, queries, intake: listener.intake });
  places.learn({ id: discord.channel, type: 0, guild_id: discord.guild, name: 'general' });
  const self = { userId: discord.botUser, applicationId: discord.application };
  const identities = { isOwnWebhook: () => false, agentOfRole: () => null, agentOfPost: () => null };
  return {
    read,
    places,
    queries,
    context: {
      self,
      identities,
      agents: () => queries.agents(),
      channelName: (channel) => places.nameOf(channel),
    },
    mayRead: async (channel) =>
      !(await channelPermissions({ calls, self }, channel)).missing.includes('Read Message History'),
    log: createLogbook().log,
  };
}

const readBack = (after: string | null, ports = portsFor()): Promise<History> =>
  readHistory(ports, `discord:${discord.channel}`, after === null ? null : at(after));

describe('a thread that the bot may not see', () => {
  test('is found to be a thread once the bot may see it', async () => {
    const thread = discord.thread(discord.channel, 'plans');
    const { places } = portsFor({ threads: 'own' });
    discord.permit(discord.channel, 'ViewChannel', 'deny');
    expect(await places.resolve(thread)).toBeNull();
    discord.permit(discord.channel, 'ViewChannel', null);
    expect((await places.resolve(thread))?.channel).toBe(`discord:${thread}`);
  });
});

describe('a channel that was never read', () => {
  test('starts at its newest message and skips earlier ones', async () => {
    discord.write('ann', discord.channel, 'long ago');
    const last = discord.write('ann', discord.channel, 'just now');
    expect(await readBack(null)).toEqual({ messages: [], changes: [], gap: null, mark: at(last.id) });
  });

  test("starts at the channel's own id when the channel is empty", async () => {
    expect(await readBack(null)).toEqual({ messages: [], changes: [], gap: null, mark: at(discord.channel) });
  });
});

describe('a channel that was read before', () => {
  test('returns later messages in order, and some messages before the position', async () => {
    discord.write('ann', discord.channel, 'one');
    const known = discord.write('ann', discord.channel, 'two');
    discord.write('bea', discord.channel, 'three');
    expect(texts(await readBack(known.id))).toEqual(['one', 'two', 'three']);
    const later = snowflakeAt(timeOf(known.id) + OVERLAP_MS + 60_000);
    expect(texts(await readBack(later))).toEqual([]);
  });

  test('returns the edits of these messages', async () => {
    const known = discord.write('ann', discord.channel, 'two');
    discord.edit(known.id, 'two, better');
    const { changes } = await readBack(known.id);
    expect(changes).toMatchObject([{ change: 'edited', id: known.id, text: 'two, better' }]);
  });

  test('row 74: returns messages of programs and commands with the reason why agents ignore them', async () => {
    const known = discord.write('ann', discord.channel, 'one');
    discord.bot('beep', discord.channel, 'I am a bot');
    discord.webhookPost('dev', discord.channel, 'I am dev');
    discord.write('ann', discord.channel, '!floor skip');
    discord.write('ann', discord.channel, 'joined', { type: 7 });
    const { messages } = await readBack(known.id);
    expect(messages.map(({ text, ignore }) => [text, ignore])).toEqual([
      ['one', undefined],
      ['I am a bot', 'bots are ignored in this channel'],
      ['I am dev', 'webhooks are ignored in this channel'],
      ['!floor skip', 'an operator command'],
    ]);
  });

  test('is read page by page', async () => {
    const known = discord.write('ann', discord.channel, 'first');
    for (let count = 0; count < 250; count += 1) discord.write('ann', discord.channel, `${count}`);
    const history = await readBack(known.id);
    expect(texts(history)).toEqual(['first', ...Array.from({ length: 250 }, (_, count) => `${count}`)]);
    expect(history.gap).toBeNull();
  });

  test('reports a gap when it reads only the newest messages', async () => {
    const known = discord.write('ann', discord.channel, 'first');
    for (let count = 0; count < PAGES * 100 + 20; count += 1) discord.write('ann', discord.channel, `${count}`);
    const history = await readBack(known.id);
    expect(history.gap).toBe('only the newest 5000 missed messages were read');
    expect(history.messages.at(-1)?.text).toBe('5019');
  });

  test('row 41: reports the missing permission to read the history', async () => {
    const known = discord.write('ann', discord.channel, 'one');
    discord.hideHistory(discord.channel);
    expect(await readBack(known.id)).toEqual({
      messages: [],
      changes: [],
      gap: 'Conch lacks the permission "Read Message History" here',
    });
    expect((await readBack(null)).gap).toContain('Read Message History');
  });

  test('is read with retries while Discord limits calls or fails', async () => {
    const known = discord.write('ann', discord.channel, 'one');
    discord.fail('GET /channels/*/messages', { kind: 'rate-limit', retryAfterMs: 30, scope: 'user' });
    discord.fail('GET /channels/*/messages', { kind: 'status', status: 502 });
    discord.fail('GET /channels/*/messages', { kind: 'reset-before' });
    expect(texts(await readBack(known.id))).toEqual(['one']);
  });

  test('rejects as refused when it was deleted', async () => {
    const known = discord.write('ann', discord.channel, 'one');
    discord.deleteChannel(discord.channel);
    await expect(readBack(known.id)).rejects.toMatchObject({ name: 'ChatError', fault: 'refused' });
  });
});

describe('threads that began while Conch was disconnected', () => {
  test('are opened where they have floors of their own', async () => {
    const listener = createListener();
    const known = discord.write('ann', discord.channel, 'one');
    const thread = discord.thread(discord.channel, 'plans');
    discord.write('ann', thread, 'in the thread');
    await readBack(known.id, portsFor({ threads: 'own' }, listener));
    const parent = `discord:${discord.channel}`;
    expect(listener.threads).toEqual([{ id: `discord:${thread}`, parent, name: 'plans', since: at(thread) }]);
  });

  test('are read with their channel where they share its floor', async () => {
    const known = discord.write('ann', discord.channel, 'one');
    const thread = discord.thread(discord.channel, 'plans');
    discord.write('ann', thread, 'in the thread');
    discord.write('ann', discord.channel, 'after it');
    const history = await readBack(known.id, portsFor({ threads: 'parent' }));
    expect(texts(history)).toEqual(['one', 'in the thread', 'after it']);
    expect(new Set(history.messages.map(({ channel }) => channel))).toEqual(new Set([`discord:${discord.channel}`]));
    expect(history.messages.map((message) => message.thread ?? null)).toEqual([null, `discord:${thread}`, null]);
  });

  test('are read when the event of their last message was lost and a later message of the channel was received', async () => {
    const thread = discord.thread(discord.channel, 'plans');
    discord.write('ann', thread, 'lost event');
    const known = discord.write('ann', discord.channel, 'known');
    expect(texts(await readBack(known.id, portsFor({ threads: 'parent' })))).toEqual(['lost event', 'known']);
  });

  test('are read when they are archived by now', async () => {
    const known = discord.write('ann', discord.channel, 'one');
    const thread = discord.thread(discord.channel, 'plans');
    discord.write('ann', thread, 'in the thread');
    discord.archiveThread(thread);
    expect(texts(await readBack(known.id, portsFor({ threads: 'parent' })))).toEqual(['one', 'in the thread']);
    const listener = createListener();
    await readBack(known.id, portsFor({ threads: 'own' }, listener));
    expect(listener.threads).toMatchObject([{ id: `discord:${thread}` }]);
  });

  test('are reported as a gap when more threads have new messages than Conch reads', async () => {
    const known = discord.write('ann', discord.channel, 'one');
    for (let n = 0; n < THREADS_READ + 1; n += 1)
      discord.write('ann', discord.thread(discord.channel, `t${n}`), `in ${n}`);
    const { messages, gap } = await readBack(known.id, portsFor({ threads: 'parent' }));
    expect(messages.map(({ text }) => text)).not.toContain('in 0');
    expect(messages).toHaveLength(1 + THREADS_READ);
    expect(gap).toBe('only the newest 50 threads with missed messages were read');
  });

  test('are reported as a gap where the bot may not read the history', async () => {
    const known = discord.write('ann', discord.channel, 'one');
    discord.hideHistory(discord.channel);
    expect((await readBack(known.id, portsFor({ threads: 'parent' }))).gap).toContain('Read Message History');
  });

  test('are not read where the channel ignores threads', async () => {
    const known = discord.write('ann', discord.channel, 'one');
    discord.write('ann', discord.thread(discord.channel, 'plans'), 'in the thread');
    expect(texts(await readBack(known.id, portsFor({ threads: 'ignore' })))).toEqual(['one']);
  });
});
