import { GatewayIntentBits } from 'discord.js';
import type { REST } from 'discord.js';
import { describe, expect, test } from 'vitest';
import { discord, listener, messages, refusal, restOf, until } from './server-rig.ts';

type Told = { readonly id: string; readonly token: string; readonly data: { readonly custom_id?: string } };

describe('an interaction on the fake Discord', () => {
  /** Starts a bot with one command; `answer` answers each of its interactions. */
  async function withCommand(answer: (rest: REST, told: Told, application: string) => Promise<unknown>) {
    const server = await discord();
    const rest = restOf(server);
    const told: Told[] = [];
    await listener(server, GatewayIntentBits.Guilds, ({ t, d }) => {
      if (t !== 'INTERACTION_CREATE') return;
      told.push(d as Told);
      void answer(rest, d as Told, server.application).catch(() => undefined);
    });
    const options = [{ type: 3, name: 'agent', description: 'Who', autocomplete: true }];
    const skip = { type: 1, name: 'skip', description: 'Skip', options };
    const body = [{ name: 'floor', description: 'The floor', options: [skip] }];
    await rest.put(`/applications/${server.application}/guilds/${server.guild}/commands`, { body });
    return { server, rest, told };
  }

  test('shows a deferred answer only to its author', async () => {
    const { server, told } = await withCommand(async (rest, { id, token }, application) => {
      await rest.post(`/interactions/${id}/${token}/callback`, { body: { type: 5, data: { flags: 64 } }, auth: false });
      await rest.patch(`/webhooks/${application}/${token}/messages/@original`, {
        body: { content: 'done' },
        auth: false,
      });
    });
    const answer = await server.command('ann', server.channel, 'floor skip', { agent: 'dev' });
    expect(answer).toMatchObject({ state: 'shown', text: 'done', ephemeral: true });
    expect(server.read(server.channel)).toEqual([]);
    const options = [{ type: 1, name: 'skip', options: [{ type: 3, name: 'agent', value: 'dev' }] }];
    expect(told[0]).toMatchObject({ type: 2, data: { name: 'floor', options }, member: { user: { username: 'ann' } } });
  });

  test('fails for the person after 3 s, and later answers are refused', async () => {
    const { server, rest, told } = await withCommand(() => Promise.resolve());
    const answer = await server.command('ann', server.channel, 'floor skip');
    expect(answer.state).toBe('failed');
    const late = rest.post(`/interactions/${told[0]?.id ?? ''}/${told[0]?.token ?? ''}/callback`, {
      body: { type: 5 },
      auth: false,
    });
    expect(await refusal(late)).toBe('404 10062');
  });

  test('can be acknowledged only once', async () => {
    const refusals: string[] = [];
    const { server } = await withCommand(async (rest, { id, token }) => {
      const reply = () =>
        rest.post(`/interactions/${id}/${token}/callback`, { body: { type: 4, data: { content: 'x' } }, auth: false });
      refusals.push(await refusal(reply()), await refusal(reply()));
    });
    await server.command('ann', server.channel, 'floor skip');
    await until(() => refusals.length === 2);
    expect(refusals).toEqual(['accepted', '400 40060']);
  });

  test('offers completions while a person types', async () => {
    const { server } = await withCommand(async (rest, { id, token }) => {
      const choices = [{ name: 'Dev', value: 'dev' }];
      await rest.post(`/interactions/${id}/${token}/callback`, { body: { type: 8, data: { choices } }, auth: false });
    });
    const choices = await server.autocomplete('ann', server.channel, 'floor skip', { option: 'agent', text: 'd' });
    expect(choices).toEqual([{ name: 'Dev', value: 'dev' }]);
  });

  test('by a pressed button changes the message of the button or sends an answer', async () => {
    const { server, rest } = await withCommand(async (client, { id, token, data }, application) => {
      const button = data.custom_id;
      const type = button === 'change' ? 7 : 6;
      await client.post(`/interactions/${id}/${token}/callback`, {
        body: { type, data: type === 7 ? { content: 'changed' } : undefined },
        auth: false,
      });
      if (type === 6)
        await client.post(`/webhooks/${application}/${token}`, { body: { content: 'psst', flags: 64 }, auth: false });
    });
    const button = (custom_id: string) => ({ type: 2, style: 1, label: custom_id, custom_id });
    const components = [{ type: 1, components: [button('change'), button('whisper')] }];
    const { id } = (await rest.post(messages(server.channel), { body: { content: 'card', components } })) as {
      id: string;
    };
    expect(await server.press('ann', id, 'change')).toMatchObject({ state: 'updated' });
    expect(await server.press('ann', id, 'whisper')).toMatchObject({ followUps: [{ text: 'psst', ephemeral: true }] });
    expect(server.read(server.channel)).toMatchObject([{ text: 'changed', edited: true }]);
  });
});
