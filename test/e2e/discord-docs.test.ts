import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PermissionFlagsBits } from 'discord.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fileSchema } from '../../src/config/schema.ts';
import { startDiscord } from '../adapters/discord/server.ts';
import type { DiscordServer, DiscordOptions } from '../adapters/discord/server.ts';
import { Page } from '../kill/page.ts';
import { Guide } from './guide.ts';
import { until } from './network.ts';

type PermissionName = NonNullable<DiscordOptions['permissions']>[number];

const guide = new Guide('docs/discord.md');
let server: DiscordServer;
let ann = '';
/** The id of Ann's first message. */
let first = '';

beforeAll(async () => {
  server = await startDiscord({ permissions: [] });
  server.kickBot();
  ann = server.person('ann');
  await guide.prepare({ DISCORD_API_URL: server.apiUrl });
});

afterAll(async () => {
  await guide.close();
  await server.close();
});

const read = (channel = server.channel) => server.read(channel);
const drafts = () => read().filter(({ webhook, text }) => webhook && text.endsWith('▌'));
const said = (channel = server.channel) => read(channel).filter(({ webhook, text }) => webhook && !text.endsWith('▌'));
const reactions = (id: string) => read().find((message) => message.id === id)?.reactions ?? {};
const rests = () =>
  until(() => read().some(({ buttons, text }) => buttons.length > 0 && text.startsWith('💤')), 'rest');

describe('the steps of docs/discord.md', () => {
  test('store the token in a file that only its owner can read', async () => {
    await guide.run(guide.filled(guide.next('sh', 'DISCORD_TOKEN'), { 'the-token-that-you-copied': server.token }));
    expect(statSync(join(guide.dir, '.env')).mode & 0o077).toBe(0);
  });

  test('print an invitation for a bot with slash commands and without broad permissions', async () => {
    const printed = await guide.run(guide.next('sh', 'discord invite'));
    const { searchParams } = new URL(/https:\/\/\S+/.exec(printed)?.[0] ?? '');
    expect(searchParams.get('client_id')).toBe(server.application);
    expect(searchParams.get('scope')?.split(' ')).toEqual(['bot', 'applications.commands']);
    const asked = BigInt(searchParams.get('permissions') ?? 0);
    const names = Object.keys(PermissionFlagsBits) as PermissionName[];
    const permissions = names.filter((name) => (asked & PermissionFlagsBits[name]) !== 0n);
    for (const name of ['Administrator', 'MentionEveryone', 'ManageChannels', 'ManageRoles'] as const)
      expect(permissions).not.toContain(name);
    server.inviteBot();
    server.giveRole(server.botUser, server.role('by invitation', { permissions }));
  });

  test('give a configuration with which doctor says that Conch can start', async () => {
    const json = guide.filled(guide.next('json', '"channels"'), {
      '123456789012345678': server.channel,
      '234567890123456789': ann,
      '"kind": "scripted"': '"kind": "scripted", "wordMs": 20',
    });
    writeFileSync(join(guide.dir, 'turnConfig.json'), json);
    const report = await guide.run(guide.next('sh', 'doctor'));
    expect(report).toContain('Conch can start.');
    expect(report).not.toContain('✗');
  });

  test('start Conch, and the three agents answer a person under their own names', async () => {
    await guide.begin(guide.next('sh', 'npm start'));
    await until(() => server.connected() === 1, 'a connection');
    first = server.write(ann, server.channel, 'Build a clock').id;
    await until(() => drafts().length > 0, 'a text that grows');
    await until(() => said().length >= 3, 'the answers');
    expect(said().map(({ author }) => author)).toEqual(['🧭 pm', '🛠️ dev', '🔎 qa']);
    expect(server.webhooks(server.channel)).toHaveLength(1);
  });

  test('open a page that shows the floor of the channel', async () => {
    const page = await Page.open(guide, `discord:${server.channel}`);
    await page.until(() => page.view !== null, 'the floor');
    expect(page.view?.seats.map(({ agent }) => agent)).toEqual(['pm', 'dev', 'qa']);
    page.close();
  });
});

describe('the behaviour that docs/discord.md describes', () => {
  test('a reaction shows the receipt of a message, and a card with buttons shows the holder', async () => {
    await rests();
    expect(Object.keys(reactions(first))).toEqual(['✅']);
    server.write(ann, server.channel, 'dev: slow');
    const card = () => read().findLast(({ buttons }) => buttons.length > 0);
    await until(() => card()?.text.startsWith('🎤 dev') === true, 'the holder on the card');
    expect(card()?.buttons.map(({ label }) => label)).toContain('Skip');
    const ids = read().map(({ id }) => id);
    expect(ids.indexOf(card()?.id ?? '')).toBeGreaterThan(ids.indexOf(first));
    const second = server.write(ann, server.channel, 'Mind the umlauts').id;
    await until(() => Object.hasOwn(reactions(second), '↪️'), 'a receipt');
    expect(await server.command(ann, server.channel, 'stop')).toMatchObject({ state: 'shown', ephemeral: true });
    await rests();
  });

  test('a reply to an agent addresses the agent, and a message of another bot gets no answer', async () => {
    const before = said().length;
    const qa = said().find(({ author }) => author === '🔎 qa');
    server.bot('coinbot', server.channel, 'pm: Hello!');
    server.write(ann, server.channel, 'Thanks!', { replyTo: qa?.id ?? '' });
    await until(() => said().length > before, 'an answer');
    expect(said()[before]?.author).toBe('🔎 qa');
    server.write(ann, server.channel, '!stop');
    await rests();
  });

  test('everybody may run commands that only read, and only operators may pause the floor', async () => {
    const bob = server.person('bob');
    expect(server.registered(server.channel).map(({ name }) => name)).toContain('floor');
    const looked = await server.command(bob, server.channel, 'floor status');
    expect(looked).toMatchObject({ ephemeral: true });
    const refused = await server.command(bob, server.channel, 'floor pause');
    expect(refused).toMatchObject({ ephemeral: true });
    expect(refused.text).toMatch(/operator/i);
    expect(await server.autocomplete(ann, server.channel, 'floor grant', { option: 'agent', text: 'q' })).toEqual([
      expect.objectContaining({ value: 'qa' }),
    ]);
  });

  test('a thread has its own floor', async () => {
    const thread = server.thread(server.channel, 'details', { by: ann });
    server.write(ann, thread, 'Hello!');
    await until(() => said(thread).length > 0, 'an answer in the thread');
    expect(said(thread)[0]?.author).toBe('🧭 pm');
  });

  test('a restart resumes the session, and agents answer a message from the time between', async () => {
    await guide.end();
    const before = said().length;
    server.write(ann, server.channel, 'pm: Thanks!');
    await guide.begin('npm start');
    await until(() => said().length > before, 'an answer');
    expect([server.identifies.length, server.resumes.length]).toEqual([1, 1]);
  });

  test("the bot posts with the agent's name before the text where webhooks are not allowed", async () => {
    await rests();
    server.permit(server.channel, 'ManageWebhooks', 'deny');
    for (const { id } of server.webhooks(server.channel)) server.deleteWebhook(id);
    server.write(ann, server.channel, 'pm: Thanks!');
    const byBot = () => read().find(({ authorId, text }) => authorId === server.botUser && text.includes('pm**:'));
    await until(() => byBot() !== undefined, 'an answer by the bot');
  });

  test('no message of Conch notifies anybody', () => {
    const nobody = { everyone: false, users: [], roles: [] };
    for (const { pings } of read().filter(({ bot }) => bot)) expect(pings).toEqual(nobody);
  });

  test('the document lists every setting with its default', () => {
    const shown: unknown = JSON.parse(guide.next('json', '"adapters"'));
    expect(shown).toEqual({ adapters: { discord: fileSchema.parse({}).adapters.discord } });
    expect(guide.isDone).toBe(true);
  });
});
