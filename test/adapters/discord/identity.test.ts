import { afterEach, describe, expect, test } from 'vitest';
import { DEV, PM, QA, post, sendingRig } from './rig.ts';
import type { SendingRig } from './rig.ts';

let rig: SendingRig;

afterEach(async () => {
  await rig.outgoing.stop();
  await rig.server.close();
});

describe('a message of Conch itself', () => {
  test('by webhook is matched to its agent by the shown name', async () => {
    rig = await sendingRig();
    await rig.outgoing.post(rig.channel, post(PM, 'Hello.'));
    const [shown] = rig.server.read(rig.server.channel);
    const { identities } = rig.outgoing;
    expect(identities.isOwnWebhook(shown!.authorId)).toBe(true);
    expect(identities.agentOfPost({ shownName: shown!.author, content: shown!.text, byWebhook: true })).toBe('pm');
  });

  test('by the bot is matched to its agent by the prefix', async () => {
    rig = await sendingRig({ settings: { webhooks: false } });
    await rig.outgoing.post(rig.channel, post(QA, 'Hello.'));
    await rig.outgoing.post(rig.channel, post(null, '⏱️ qa turn timed out'));
    const agents = rig.server
      .read(rig.server.channel)
      .map(({ author, text }) =>
        rig.outgoing.identities.agentOfPost({ shownName: author, content: text, byWebhook: false }),
      );
    expect(agents).toEqual(['qa', null]);
  });

  test('under a name that two agents have is matched to neither agent', async () => {
    rig = await sendingRig({ agents: [DEV, { ...QA, name: 'Dev' }] });
    const shown = { shownName: 'Dev', content: 'Hello.', byWebhook: true };
    expect(rig.outgoing.identities.agentOfPost(shown)).toBeNull();
  });

  test('is recognized by the next run, even when its webhook was deleted', async () => {
    rig = await sendingRig();
    await rig.outgoing.post(rig.channel, post(DEV, 'Hello.'));
    const [shown] = rig.server.read(rig.server.channel);
    rig.server.deleteWebhook(shown!.authorId);
    expect(rig.again().identities.isOwnWebhook(shown!.authorId)).toBe(true);
  });

  test('as the answer to a command is recognized by the application id', async () => {
    rig = await sendingRig();
    expect(rig.outgoing.identities.isOwnWebhook(rig.server.application)).toBe(true);
  });
});

describe('agents that people can mention', () => {
  test('have one role each, without members or permissions', async () => {
    rig = await sendingRig();
    await rig.outgoing.start();
    const roles = rig.server.roles();
    expect(Object.keys(roles)).toEqual(expect.arrayContaining(['Dev', 'pm', 'qa']));
    expect(rig.outgoing.identities.agentOfRole(roles['pm']!)).toBe('pm');
    expect(rig.requests('POST', /roles$/).map(({ body }) => body)[0]).toEqual({
      name: 'Dev',
      permissions: '0',
      mentionable: true,
      hoist: false,
      color: expect.any(Number),
    });
  });

  test('T38 keep their roles with a new data folder, and roles of former agents are deleted', async () => {
    rig = await sendingRig();
    const people = rig.server.role('readers');
    await rig.outgoing.start();
    const before = rig.server.roles();
    const next = await sendingRig({ server: rig.server, agents: [PM, QA] });
    await next.outgoing.start();
    const { Dev: gone, ...kept } = before;
    expect(gone).toBeDefined();
    expect(rig.server.roles()).toEqual(kept);
    expect(Object.values(kept)).toContain(people);
    expect(next.outgoing.identities.agentOfRole(kept['pm']!)).toBe('pm');
    await next.outgoing.stop();
  });

  test('keep their roles over a restart, also a role that was renamed', async () => {
    rig = await sendingRig();
    await rig.outgoing.start();
    rig.server.renameRole(rig.server.roles()['qa']!, 'testers');
    const next = rig.again();
    await next.start();
    expect(rig.requests('POST', /roles$/)).toHaveLength(3);
    expect(next.identities.agentOfRole(rig.server.roles()['testers']!)).toBe('qa');
  });

  test("do not take over a person's role with the same name", async () => {
    rig = await sendingRig();
    const people = rig.server.role('qa');
    await rig.outgoing.start();
    expect(rig.outgoing.identities.agentOfRole(people)).toBeNull();
  });

  test('have no roles where the settings switch them off or the bot lacks the permission', async () => {
    rig = await sendingRig({ settings: { roles: false } });
    await rig.outgoing.start();
    expect(rig.requests('POST', /roles$/)).toHaveLength(0);
    const poor = await sendingRig({ discord: { permissions: ['ViewChannel', 'SendMessages'] } });
    await poor.outgoing.start();
    expect(poor.logged.filter((line) => line.includes('agents cannot be mentioned by role'))).toHaveLength(1);
    await poor.server.close();
  });
});
