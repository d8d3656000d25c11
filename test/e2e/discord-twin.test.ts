import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CURSOR } from '../../src/adapters/discord/content.ts';
import { channelId } from '../../src/adapters/discord/client.ts';
import { clearPlace, makePlace, startBot } from '../kill/bot.ts';
import type { Bot, Place } from '../kill/bot.ts';
import { logLines } from './demo.ts';
import { createTwin } from './discord-twin.ts';
import type { Twin } from './discord-twin.ts';
import { until } from './network.ts';

// Runs Conch on an independent fake Discord, which has no webhooks of channels and no list of commands.

const SUB_COMMAND = 1;
const STRING = 3;
/** The time per word, in milliseconds: long enough to see drafts grow. */
const WORD_MS = 25;

let discord: Twin;
let place: Place;
let bot: Bot;
let channel = '';
let ann = '';

beforeAll(async () => {
  discord = await createTwin();
  await discord.start();
  channel = (await discord.prisma.channel.findMany())[0]?.id ?? '';
  ann = (await discord.getFirstNonBotUserId()) ?? '';
  place = await makePlace({
    turnConfig: { coalesceMs: 20 },
    agents: ['pm', 'dev', 'qa'].map((id) => ({ id, backend: { kind: 'scripted', script: id, wordMs: WORD_MS } })),
    channels: [{ id: channelId(channel), name: 'general', agents: ['pm', 'dev', 'qa'] }],
    operators: { users: [ann] },
    log: { level: 'info', pretty: false },
  });
  bot = startBot(place, { env: { DISCORD_TOKEN: discord.botToken, DISCORD_API_URL: discord.restUrl } });
  await bot.ready();
});

afterAll(async () => {
  await bot?.end('SIGKILL');
  await discord.stop();
  clearPlace(place);
});

const person = (where = channel) => discord.channel(where).user(ann);
const messages = (where = channel) => discord.channel(where).getMessages();
const texts = async (where = channel) => (await messages(where)).map(({ content }) => content);
const rests = () => until(async () => (await texts()).some((text) => text.startsWith('💤')), 'a floor at rest');
const reactionsOn = async (id: string) => {
  const all = await discord.prisma.reaction.findMany({ where: { messageId: id } });
  return all.map(({ emoji }) => decodeURIComponent(emoji));
};

describe('Conch on an independent fake Discord', () => {
  test('the agents answer a person one after another, as the bot, in drafts that become posts', async () => {
    const { id } = await person().sendMessage({ content: 'Build a clock' });
    await until(async () => (await texts()).some((text) => text.endsWith(CURSOR)), 'a text that is being written');
    const speakers = async () => (await texts()).flatMap((text) => /^\*\*(\w+)\*\*:/.exec(text)?.[1] ?? []);
    await until(async () => (await speakers()).includes('qa'), 'the last answer');
    await rests();
    expect(await speakers()).toEqual(['pm', 'dev', 'qa']);
    expect((await texts()).filter((text) => text.endsWith(CURSOR))).toEqual([]);
    await until(async () => (await reactionsOn(id)).includes('✅'), 'the receipt');
  });

  test('an edited message reaches the agents with its new text', async () => {
    const { id } = await person().sendMessage({ content: 'dev: Build a cl' });
    await person().editMessage({ messageId: id, content: 'dev: Build a sundial' });
    await until(async () => (await texts()).some((text) => /dev\*\*:[\s\S]*sundial/.test(text)), 'the new word');
    await rests();
  });

  test('a slash command is acknowledged, and answered to its author only', async () => {
    const { id } = await person().runSlashCommand({
      name: 'floor',
      options: [{ type: SUB_COMMAND, name: 'mode', options: [{ type: STRING, name: 'mode', value: 'queue' }] }],
    });
    const acknowledged = await discord.channel(channel).waitForInteractionAck({ interactionId: id });
    expect(acknowledged.type).toBe(5);
    const answer = async () => (await discord.channel(channel).getInteractionResponse(id))?.data ?? '';
    expect(JSON.parse(await answer())).toMatchObject({ flags: 64 });
    await until(async () => (await texts()).some((text) => text.includes('queue')), 'the answer');
  });

  test('the Stop button of the card stops the holder', async () => {
    await person().sendMessage({ content: 'dev: slow' });
    const card = async () => (await messages()).findLast(({ content }) => content.startsWith('🎤 dev'));
    await until(async () => (await card()) !== undefined, 'the card');
    const found = await card();
    const stop = /"(conch:[^"]*:\/stop)"/.exec(JSON.stringify(found?.components))?.[1] ?? '';
    const { id } = await person().clickButton({ messageId: found?.id ?? '', customId: stop });
    await discord.channel(channel).waitForInteractionAck({ interactionId: id });
    await until(async () => (await texts()).some((text) => text.startsWith('⏹ Stopped dev')), 'the announcement');
    await rests();
  });

  test('a thread has its own floor', async () => {
    const { id: on } = await person().sendMessage({ content: 'pm: pass' });
    await fetch(`${discord.restUrl}/v10/channels/${channel}/messages/${on}/threads`, {
      method: 'POST',
      headers: { authorization: `Bot ${discord.botToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'details' }),
    });
    const [thread] = await discord.channel(channel).getThreads();
    const where = thread?.id ?? '';
    await person(where).sendMessage({ content: 'Hello!' });
    const answers = async () => (await texts(where)).filter((text) => text.startsWith('**'));
    await until(async () => (await answers()).length > 0, 'an answer in the thread');
    expect((await answers())[0]).toMatch(/^\*\*pm\*\*: /);
  });

  test('the log names each feature that this Discord lacks, and Conch ends in good order', async () => {
    const told = logLines(bot).filter(({ level }) => level !== 'info');
    expect(told.map(({ message }) => message)).toEqual([
      'the bot lacks permissions in this channel',
      'agents post as the bot, with their names in front',
      'the slash commands could not be registered',
    ]);
    expect(await bot.end('SIGTERM')).toMatchObject({ code: 0 });
    expect(bot.err()).toBe('');
  });
});
