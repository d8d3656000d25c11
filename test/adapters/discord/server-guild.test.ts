import { GatewayIntentBits } from 'discord.js';
import { describe, expect, test } from 'vitest';
import { discord, listener, messages, refusal, restOf, until } from './server-rig.ts';

describe('a bot in its guild on the fake Discord', () => {
  test('reads its user, its intents and its roles', async () => {
    const server = await discord({ messageContent: false });
    const rest = restOf(server);
    expect(await rest.get('/users/@me')).toMatchObject({ id: server.botUser, bot: true });
    expect(await rest.get('/applications/@me')).toMatchObject({ id: server.application, flags: 1 << 15 });
    const roles = [server.roles()['conch']];
    expect(await rest.get(`/guilds/${server.guild}/members/${server.botUser}`)).toMatchObject({ roles });
    expect(await rest.get('/gateway/bot')).toMatchObject({
      shards: 1,
      session_start_limit: { total: 1000, remaining: 1000 },
    });
  });

  test('reacts where it has the permission, with emoji and not with words', async () => {
    const server = await discord();
    const rest = restOf(server);
    const { id } = server.write('ann', server.channel, 'hello');
    const react = (emoji: string) =>
      refusal(rest.put(`${messages(server.channel)}/${id}/reactions/${encodeURIComponent(emoji)}/@me`));
    expect(await react('👀')).toBe('accepted');
    expect(await react('eyes')).toBe('400 10014');
    server.react('bob', id, '👀');
    expect(server.read(server.channel)[0]?.reactions).toEqual({ '👀': [server.botUser, server.person('bob')] });
    await rest.delete(`${messages(server.channel)}/${id}/reactions/${encodeURIComponent('👀')}/@me`);
    expect(server.read(server.channel)[0]?.reactions).toEqual({ '👀': [server.person('bob')] });
    server.permit(server.channel, 'AddReactions', 'deny');
    expect(await react('✅')).toBe('403 50013');
    expect(await react('👀')).toBe('accepted');
  });

  test('pins messages where it has the permission, and Discord posts a notice', async () => {
    const server = await discord();
    const rest = restOf(server);
    const { id } = server.write('ann', server.channel, 'hello');
    await rest.put(`${messages(server.channel)}/pins/${id}`);
    expect(await rest.get(`${messages(server.channel)}/pins`)).toMatchObject({ items: [{ message: { id } }] });
    expect(server.read(server.channel).map(({ type, pinned }) => ({ type, pinned }))).toEqual([
      { type: 0, pinned: true },
      { type: 6, pinned: false },
    ]);
    server.permit(server.channel, 'PinMessages', 'deny');
    expect(await refusal(rest.delete(`${messages(server.channel)}/pins/${id}`))).toBe('403 50013');
  });

  test('creates mentionable roles where it has the permission', async () => {
    const server = await discord({ permissions: ['ViewChannel', 'ManageRoles'] });
    const rest = restOf(server);
    const create = (permissions: string) =>
      refusal(rest.post(`/guilds/${server.guild}/roles`, { body: { name: 'dev', permissions, mentionable: true } }));
    expect(await create('0')).toBe('accepted');
    expect(await create('8')).toBe('403 50013');
    const role = server.roles()['dev'] ?? '';
    expect(server.write('ann', server.channel, `<@&${role}> help`).pings.roles).toEqual([role]);
  });

  test('receives thread events, and a thread refers to the message on which it was opened', async () => {
    const server = await discord();
    const client = await listener(server);
    const { id } = server.write('ann', server.channel, 'topic');
    const thread = server.thread(server.channel, 'aside', { on: id });
    server.write('ann', thread, 'inside');
    await until(() => client.texts().includes('inside'));
    expect(thread).toBe(id);
    expect(client.named('THREAD_CREATE')).toMatchObject([{ id, parent_id: server.channel, newly_created: true }]);
    const [, starter] = client.named('MESSAGE_CREATE');
    expect(starter).toMatchObject({ type: 21, channel_id: thread, referenced_message: { id, content: 'topic' } });
  });

  test('can be removed and invited again', async () => {
    const server = await discord();
    const client = await listener(server);
    server.kickBot();
    server.write('ann', server.channel, 'alone');
    expect(await refusal(restOf(server).get(`/guilds/${server.guild}`))).toBe('404 10004');
    server.inviteBot();
    server.write('ann', server.channel, 'together');
    await until(() => client.texts().length > 0);
    expect(client.texts()).toEqual(['together']);
    expect(client.named('GUILD_DELETE')).toEqual([{ id: server.guild }]);
  });

  test('receives edits, link previews and deletions', async () => {
    const server = await discord();
    const client = await listener(
      server,
      GatewayIntentBits.Guilds | GatewayIntentBits.GuildMessages | GatewayIntentBits.MessageContent,
    );
    const [one, two, three] = ['a', 'b', 'c'].map((text) => server.write('ann', server.channel, text).id);
    server.edit(one ?? '', 'A');
    server.unfurl(two ?? '');
    server.remove(one ?? '');
    server.purge(server.channel, [two ?? '', three ?? '']);
    await until(() => client.named('MESSAGE_DELETE_BULK').length > 0);
    expect(client.named('MESSAGE_UPDATE')).toMatchObject([
      { id: one, content: 'A', edited_timestamp: expect.any(String) },
      { id: two, content: 'b', edited_timestamp: null, embeds: [{ type: 'link' }] },
    ]);
    expect(client.named('MESSAGE_DELETE')).toMatchObject([{ id: one }]);
    expect(client.named('MESSAGE_DELETE_BULK')).toMatchObject([{ ids: [two, three] }]);
    expect(server.read(server.channel)).toEqual([]);
  });
});
