import { describe, expect, test } from 'vitest';
import { discord, listener, messages, refusal, restOf, until } from './server-rig.ts';
import type { DiscordServer } from './server.ts';

describe('a message on the fake Discord', () => {
  test('is posted once per nonce, and the nonce is refused after the message was deleted', async () => {
    const server = await discord();
    const rest = restOf(server);
    const body = { content: 'hello', nonce: 'abc', enforce_nonce: true };
    const first = await rest.post(messages(server.channel), { body });
    const again = await rest.post(messages(server.channel), { body: { ...body, content: 'other' } });
    expect(again).toMatchObject({ id: (first as { id: string }).id, content: 'hello', nonce: 'abc' });
    expect(server.read(server.channel)).toHaveLength(1);
    server.remove((first as { id: string }).id);
    expect(await refusal(rest.post(messages(server.channel), { body }))).toBe('404 10008');
    server.forgetNonces();
    await rest.post(messages(server.channel), { body });
    expect(server.read(server.channel)).toHaveLength(1);
  });

  test('is refused when it is empty, too long, or has an overlong nonce', async () => {
    const server = await discord();
    const rest = restOf(server);
    const post = (body: unknown) => refusal(rest.post(messages(server.channel), { body }));
    expect(await post({ content: ' \n' })).toBe('400 50006');
    expect(await post({ content: 'x'.repeat(2001) })).toBe('400 50035');
    expect(await post({ content: 'x', nonce: 'n'.repeat(26) })).toBe('400 50035');
    expect(await post({ content: 'x'.repeat(2000), nonce: 'n'.repeat(25) })).toBe('accepted');
  });

  test('is refused where the bot may not write or view, or where no channel exists', async () => {
    const server = await discord();
    const rest = restOf(server);
    const post = () => refusal(rest.post(messages(server.channel), { body: { content: 'x' } }));
    server.permit(server.channel, 'SendMessages', 'deny');
    expect(await post()).toBe('403 50013');
    server.permit(server.channel, 'ViewChannel', 'deny');
    expect(await post()).toBe('403 50001');
    server.deleteChannel(server.channel);
    expect(await post()).toBe('404 10003');
  });

  test('is refused in a locked thread and reopens an archived thread', async () => {
    const server = await discord();
    const rest = restOf(server);
    const thread = server.thread(server.channel, 'aside');
    const post = () => refusal(rest.post(messages(thread), { body: { content: 'x' } }));
    server.archiveThread(thread);
    expect(await post()).toBe('accepted');
    server.lockThread(thread);
    expect(await post()).toBe('403 160005');
    server.kickBot();
    expect(await post()).toBe('403 50001');
  });

  test('can be edited by its author only', async () => {
    const server = await discord();
    const rest = restOf(server);
    const { id } = server.write('ann', server.channel, 'mine');
    expect(await refusal(rest.patch(`${messages(server.channel)}/${id}`, { body: { content: 'x' } }))).toBe(
      '403 50005',
    );
  });

  test('keeps its files for people to read', async () => {
    const server = await discord();
    const rest = restOf(server);
    const sent = await rest.post(messages(server.channel), {
      body: { content: 'see' },
      files: [{ name: 'a.md', data: Buffer.from('# long') }],
    });
    expect(server.read(server.channel)).toMatchObject([
      { text: 'see', attachments: [{ name: 'a.md', size: 6, text: '# long' }] },
    ]);
    const [file] = (sent as { attachments: { url: string }[] }).attachments;
    const fetched = await fetch(file?.url ?? '');
    expect(await fetched.text()).toBe('# long');
  });

  test('pings mentioned people unless allowed_mentions excludes them, in edits too', async () => {
    const server = await discord({ permissions: ['ViewChannel', 'SendMessages', 'MentionEveryone'] });
    const rest = restOf(server);
    const ann = server.person('ann');
    const role = server.role('crew');
    const content = `@everyone <@${ann}> <@&${role}>`;
    const post = (more: object) => rest.post(messages(server.channel), { body: { content, ...more } });
    await post({});
    await post({ allowed_mentions: { parse: [] } });
    const { id } = (await post({ allowed_mentions: { parse: ['users'] } })) as { id: string };
    await rest.patch(`${messages(server.channel)}/${id}`, { body: { content } });
    const none = { everyone: false, users: [], roles: [] };
    const all = { everyone: true, users: [ann], roles: [role] };
    expect(server.read(server.channel).map(({ pings }) => pings)).toEqual([all, none, all]);
  });
});

describe('the history', () => {
  test('is listed newest first, in pages, after, before and around a message', async () => {
    const server = await discord();
    const rest = restOf(server);
    const ids = Array.from({ length: 5 }, (_, n) => server.write('ann', server.channel, String(n)).id);
    const list = async (query: Record<string, string>) => {
      const found = (await rest.get(messages(server.channel), { query: new URLSearchParams(query) })) as {
        content: string;
      }[];
      return found.map(({ content }) => content).join('');
    };
    expect(await list({})).toBe('43210');
    expect(await list({ after: ids[0] ?? '', limit: '2' })).toBe('21');
    expect(await list({ before: ids[4] ?? '', limit: '2' })).toBe('32');
    expect(await list({ around: ids[2] ?? '', limit: '3' })).toBe('321');
  });

  test('is empty without the permission, instead of an error', async () => {
    const server = await discord();
    server.write('ann', server.channel, 'hello');
    server.hideHistory(server.channel);
    expect(await restOf(server).get(messages(server.channel))).toEqual([]);
  });
});

describe('a webhook', () => {
  async function hook(server: DiscordServer) {
    const made = await restOf(server).post(`/channels/${server.channel}/webhooks`, { body: { name: 'agents' } });
    return made as { id: string; token: string };
  }

  test('posts under any name, in threads too, and the bot receives it as a webhook', async () => {
    const server = await discord();
    const client = await listener(server);
    const { id, token } = await hook(server);
    const rest = restOf(server);
    const thread = server.thread(server.channel, 'aside');
    const query = new URLSearchParams({ wait: 'true', thread_id: thread });
    await rest.post(`/webhooks/${id}/${token}`, { query, body: { content: 'hi', username: 'dev' }, auth: false });
    expect(server.read(thread)).toMatchObject([{ author: 'dev', text: 'hi', webhook: true }]);
    await until(() => client.texts().includes('hi'));
    expect(client.heard.at(-1)?.d).toMatchObject({
      webhook_id: id,
      application_id: server.application,
      author: { id, username: 'dev' },
    });
  });

  test('is refused with "discord" or "clyde" in its name, and as the 16th of its channel', async () => {
    const server = await discord();
    const rest = restOf(server);
    const create = (name: string) => refusal(rest.post(`/channels/${server.channel}/webhooks`, { body: { name } }));
    expect(await create('My Discord')).toBe('400 50035');
    expect(await create('Clyde')).toBe('400 50035');
    for (let n = 0; n < 15; n += 1) server.foreignWebhook(server.channel, `other ${n}`);
    expect(await create('agents')).toBe('400 30007');
    server.permit(server.channel, 'ManageWebhooks', 'deny');
    expect(await create('agents')).toBe('403 50013');
  });

  test('is unknown once deleted, and refuses an old token', async () => {
    const server = await discord();
    const rest = restOf(server);
    const { id, token } = await hook(server);
    const say = () => refusal(rest.post(`/webhooks/${id}/${token}`, { body: { content: 'x' }, auth: false }));
    server.rotateWebhook(id);
    expect(await say()).toBe('401 50027');
    server.deleteWebhook(id);
    expect(await say()).toBe('404 10015');
  });
});
