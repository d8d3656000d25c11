import { once } from 'node:events';
import { GatewayIntentBits } from 'discord.js';
import { describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { discord, listener, until } from './server-rig.ts';

describe('a client on the gateway of the fake Discord', () => {
  test("receives its guild and people's messages", async () => {
    const server = await discord();
    const client = await listener(server);
    server.write('ann', server.channel, 'hello');
    await until(() => client.texts().includes('hello'));
    const [, guild] = client.heard;
    expect(guild?.t).toBe('GUILD_CREATE');
    expect(client.heard.map(({ s }) => s)).toEqual([1, 2, 3]);
  });

  test('sees no message content without the intent, except where the bot is mentioned', async () => {
    const server = await discord();
    const client = await listener(server, GatewayIntentBits.Guilds | GatewayIntentBits.GuildMessages);
    server.write('ann', server.channel, 'secret');
    server.write('ann', server.channel, 'for you', { mentions: [server.botUser] });
    await until(() => client.texts().length === 2);
    expect(client.texts()).toEqual(['', `<@${server.botUser}> for you`]);
  });

  test('receives missed events in order when it resumes after its socket broke', async () => {
    const server = await discord();
    const client = await listener(server);
    server.dropSockets();
    await until(() => server.connected() === 0);
    server.write('ann', server.channel, 'one');
    server.write('ann', server.channel, 'two');
    await until(() => client.named('RESUMED').length === 1);
    expect(client.texts()).toEqual(['one', 'two']);
    expect(server.resumes).toMatchObject([{ replayed: 2, viaResumeUrl: true }]);
    expect(server.identifies).toHaveLength(1);
  });

  test('identifies again and receives no earlier event when its session is invalid', async () => {
    const server = await discord();
    const client = await listener(server);
    server.invalidate(false);
    server.write('ann', server.channel, 'lost');
    await until(() => client.named('READY').length === 2);
    server.write('ann', server.channel, 'heard');
    await until(() => client.texts().length > 0);
    expect(client.texts()).toEqual(['heard']);
    expect(server.identifies).toHaveLength(2);
  });

  test('resumes on the same connection when its session is invalid but resumable', async () => {
    const server = await discord();
    const client = await listener(server);
    server.invalidate(true);
    await until(() => client.named('RESUMED').length === 1);
    expect(server.identifies).toHaveLength(1);
  });

  test('identifies again when its session was forgotten while it was disconnected', async () => {
    const server = await discord();
    const client = await listener(server);
    server.forgetSessions();
    server.dropSockets();
    await until(() => client.named('READY').length === 2);
    expect(server.resumes).toMatchObject([{ replayed: null }]);
  });

  test('resumes when it is asked to reconnect', async () => {
    const server = await discord();
    const client = await listener(server);
    server.askToReconnect();
    await until(() => client.named('RESUMED').length === 1);
    expect(server.identifies).toHaveLength(1);
  });

  test('is closed with 4004 when its token is wrong or revoked', async () => {
    const server = await discord();
    const client = await listener(server);
    server.revokeToken();
    await until(() => client.closes.length > 0);
    expect(client.closes).toEqual([4004]);
    expect(server.connected()).toBe(0);
  });

  test('is closed with 4014 when it requests an intent that is switched off', async () => {
    const server = await discord({ messageContent: false });
    const client = await listener(server);
    expect(client.closes).toEqual([4014]);
    expect(server.identifies).toMatchObject([{ accepted: false }]);
  });

  test('loses its token when it identifies too often', async () => {
    const server = await discord({ identifyLimit: 1 });
    const { token } = server;
    const client = await listener(server);
    server.invalidate(false);
    await until(() => client.closes.includes(4004));
    expect(server.token).not.toBe(token);
  });

  test('receives no events of channels that it cannot view', async () => {
    const server = await discord();
    const client = await listener(server);
    const other = server.addChannel('other');
    server.permit(server.channel, 'ViewChannel', 'deny');
    server.write('ann', server.channel, 'hidden');
    server.write('ann', other, 'seen');
    await until(() => client.texts().includes('seen'));
    expect(client.texts()).toEqual(['seen']);
  });
});

describe('the gateway of the fake Discord with faults', () => {
  test('delivers a message twice, loses one, and swaps two', async () => {
    const server = await discord();
    const client = await listener(server);
    server.duplicate();
    server.drop();
    server.reorder();
    for (const text of ['a', 'b', 'c', 'd']) server.write('ann', server.channel, text);
    await until(() => client.texts().length === 4);
    expect(client.texts()).toEqual(['a', 'a', 'd', 'c']);
  });

  test('delivers a message again after the client reconnected', async () => {
    const server = await discord();
    const client = await listener(server);
    server.duplicate('MESSAGE_CREATE', 'after-reconnect');
    server.write('ann', server.channel, 'once');
    await until(() => client.texts().length === 1);
    server.dropSockets();
    await until(() => client.texts().length === 2);
    expect(client.texts()).toEqual(['once', 'once']);
  });

  test('delivers any invalid payload that it is given', async () => {
    const server = await discord();
    const client = await listener(server);
    server.odd('MESSAGE_CREATE', { id: null });
    await until(() => client.named('MESSAGE_CREATE').length === 1);
    expect(client.heard.at(-1)?.d).toEqual({ id: null });
  });

  test('sends and closes nothing while silent, and stores events for a resume', async () => {
    const server = await discord({ heartbeatMs: 200 });
    const client = await listener(server);
    server.silence();
    server.write('ann', server.channel, 'into the void');
    const second = new WebSocket(`${server.apiUrl.replace('http', 'ws').replace('/api', '')}/?v=10&encoding=json`);
    await once(second, 'message');
    expect(server.connected()).toBe(0);
    expect(client.texts()).toEqual([]);
    expect(client.closes).toEqual([]);
    server.dropSockets();
    await until(() => client.texts().length === 1);
    expect(client.texts()).toEqual(['into the void']);
  });

  test('closes a client that sends no heartbeat', async () => {
    const server = await discord({ heartbeatMs: 200 });
    const socket = new WebSocket(`${server.apiUrl.replace('http', 'ws').replace('/api', '')}/?v=10&encoding=json`);
    const [code] = await once(socket, 'close');
    expect(code).toBe(4009);
  });
});
