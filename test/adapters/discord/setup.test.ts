import { afterEach, describe, expect, test } from 'vitest';
import { channelId } from '../../../src/adapters/discord/client.ts';
import { missingPermissions, neededPermissions } from '../../../src/adapters/discord/channel-membership.ts';
import { applicationIdOf, checkSetup, inviteUrl } from '../../../src/adapters/discord/setup.ts';
import type { CheckResult } from '../../../src/adapters/port.ts';
import { systemClock } from '../../../src/lib/time.ts';
import { ALL_ON } from './rig.ts';
import { startDiscord } from './server.ts';
import type { DiscordOptions, DiscordServer } from './server.ts';

let server: DiscordServer | null = null;

afterEach(async () => {
  await server?.close();
  server = null;
});

async function check(
  options: DiscordOptions = {},
  how: {
    readonly token?: string;
    readonly channel?: string;
    readonly behindMs?: number;
    readonly hasCrew?: boolean;
    before?(running: DiscordServer): void;
  } = {},
): Promise<readonly CheckResult[]> {
  server = await startDiscord(options);
  how.before?.(server);
  return checkSetup({
    token: how.token ?? server.token,
    apiUrl: server.apiUrl,
    clock: { now: () => systemClock().now() - (how.behindMs ?? 0) },
    channels: [
      { id: channelId(how.channel ?? server.channel), name: 'home', hasCrew: how.hasCrew ?? false },
      { id: channelId(server.addChannel('other')), name: 'other', hasCrew: false },
    ].slice(0, how.hasCrew === undefined ? 1 : 2),
    settings: ALL_ON,
  });
}

function wrong(findings: readonly CheckResult[]): readonly string[] {
  return findings.filter(({ verdict }) => verdict !== 'good').map(({ what, text }) => `${what}: ${text}`);
}

describe('a bot that is set up well', () => {
  test('passes every check', async () => {
    const findings = await check();
    expect(wrong(findings)).toEqual([]);
    expect(findings.map(({ what }) => what)).toEqual([
      'Discord token',
      'Message Content intent',
      'Clock',
      '#general: permissions',
      '#general: webhooks',
    ]);
  });
});

describe('a bot that is set up wrongly', () => {
  test('gets a failed check when Discord refuses the token', async () => {
    const findings = await check({}, { token: 'wrong' });
    expect(wrong(findings)).toEqual(['Discord token: Discord rejects the bot token']);
    expect(findings.every(({ verdict, todo }) => verdict === 'good' || todo !== null)).toBe(true);
  });

  test('gets a failed check without the Message Content intent', async () => {
    expect(wrong(await check({ messageContent: false }))).toEqual([
      'Message Content intent: it is off: the bot would receive messages without text',
    ]);
  });

  test('gets the names of its missing permissions', async () => {
    const findings = await check(
      {},
      {
        before: (running) => {
          running.permit(running.channel, 'ReadMessageHistory', 'deny');
          running.permit(running.channel, 'ManageWebhooks', 'deny');
        },
      },
    );
    expect(wrong(findings)).toEqual(['#general: permissions: the bot lacks "Read Message History", "Manage Webhooks"']);
    expect(findings.find(({ verdict }) => verdict === 'bad')?.todo).toContain('oauth2/authorize');
  });

  test('gets only a warning when the missing permission is optional', async () => {
    const findings = await check(
      {},
      { before: (running) => running.permit(running.channel, 'ManageWebhooks', 'deny') },
    );
    expect(findings.map(({ verdict }) => verdict)).toEqual(['good', 'good', 'good', 'warning']);
  });

  test('gets a failed check where a crew cannot open threads, and passes without a crew', async () => {
    const deny = (running: DiscordServer): void => running.permit(running.channel, 'CreatePublicThreads', 'deny');
    const findings = await check({}, { hasCrew: true, before: deny });
    expect(wrong(findings)).toEqual(['#general: permissions: the bot lacks "Create Public Threads"']);
    const lacking = findings.find(({ verdict }) => verdict === 'bad');
    const invite = /https:\S+/.exec(lacking?.todo ?? '')?.[0] ?? '';
    expect(BigInt(new URL(invite).searchParams.get('permissions') ?? '') & (1n << 35n)).not.toBe(0n);
    await server?.close();
    expect(wrong(await check({}, { hasCrew: false, before: deny }))).toEqual([]);
  });

  test('gets a failed check for a channel that is hidden or does not exist', async () => {
    const hide = (running: DiscordServer) => running.permit(running.channel, 'ViewChannel', 'deny');
    expect(wrong(await check({}, { before: hide }))).toEqual(['#home: the bot cannot see the channel']);
    await server?.close();
    expect(wrong(await check({}, { channel: '123456789012345678' }))).toEqual([
      '#home: Discord has no channel with this id',
    ]);
  });

  test("gets a warning when this machine's clock is wrong", async () => {
    const [behind] = await check({}, { behindMs: 61_000 }).then(wrong);
    expect(behind).toMatch(/^Clock: it is 6[0-2] seconds behind Discord's$/);
    await server?.close();
    const [ahead] = await check({}, { behindMs: -61_000 }).then(wrong);
    expect(ahead).toMatch(/^Clock: it is 6[0-2] seconds ahead of Discord's$/);
  });

  test('gets a warning when the channel has no room for a webhook', async () => {
    const fill = (running: DiscordServer) => {
      for (let n = 0; n < 15; n += 1) running.foreignWebhook(running.channel, `hook ${n}`);
    };
    expect(wrong(await check({}, { before: fill }))).toEqual(['#general: webhooks: 15 of 15 are used']);
  });

  test('gets a failed check when Discord cannot be reached', async () => {
    const gone = await startDiscord();
    await gone.close();
    const findings = await checkSetup({
      token: 'any',
      apiUrl: gone.apiUrl,
      clock: systemClock(),
      channels: [],
      settings: ALL_ON,
    });
    expect(findings.map(({ what, verdict }) => [what, verdict])).toEqual([['Discord', 'bad']]);
  });
});

describe('the invite URL', () => {
  test('asks only for permissions that the settings need', () => {
    const all = new URL(inviteUrl('42', ALL_ON)).searchParams;
    expect(all.get('client_id')).toBe('42');
    expect(all.get('scope')).toBe('bot applications.commands');
    expect(BigInt(all.get('permissions') ?? '')).toBe(
      [6n, 10n, 11n, 15n, 16n, 28n, 29n, 38n].reduce((sum, bit) => sum | (1n << bit), 0n),
    );
    const least = new URL(inviteUrl('42', { ...ALL_ON, webhooks: false, roles: false })).searchParams;
    expect(BigInt(least.get('permissions') ?? '')).toBe(
      [6n, 10n, 11n, 15n, 16n, 38n].reduce((sum, bit) => sum | (1n << bit), 0n),
    );
  });

  test('asks for the permission to open threads where a crew works', () => {
    const url = new URL(inviteUrl('42', { webhooks: false, roles: false, crews: true }));
    expect(BigInt(url.searchParams.get('permissions') ?? '') & (1n << 35n)).not.toBe(0n);
  });

  test.each([
    ['MTIzNDU2Nzg5MDEyMzQ1Njc4.abc.def', '123456789012345678'],
    ['MTIzNDU2Nzg5MDEyMzQ1Njc4', null],
    ['nonsense.abc.def', null],
    ['', null],
  ])('takes the application id from the beginning of the token (%s)', (token, id) => {
    expect(applicationIdOf(token)).toBe(id);
  });
});

describe('permissions in a channel', () => {
  const member = {
    guild: '1',
    userId: '9',
    roles: ['2', '3'],
    guildRoles: [
      { id: '1', permissions: `${(1n << 10n) | (1n << 16n)}` },
      { id: '2', permissions: `${1n << 11n}` },
      { id: '3', permissions: '0' },
    ],
    overwrites: [],
  };
  const needed = ['View Channels', 'Send Messages', 'Read Message History'] as const;
  const send = `${1n << 11n}`;

  test('are the permissions of all roles together', () => {
    expect(missingPermissions(member, needed)).toEqual([]);
    expect(missingPermissions({ ...member, roles: ['3'] }, needed)).toEqual(['Send Messages']);
  });

  test('apply the overwrites of everybody, then of roles, then of the member', () => {
    const everybody = { id: '1', allow: '0', deny: send };
    const role = { id: '3', allow: send, deny: '0' };
    const own = { id: '9', allow: '0', deny: send };
    expect(missingPermissions({ ...member, overwrites: [everybody] }, needed)).toEqual(['Send Messages']);
    expect(missingPermissions({ ...member, overwrites: [role, everybody] }, needed)).toEqual([]);
    expect(missingPermissions({ ...member, overwrites: [own, role] }, needed)).toEqual(['Send Messages']);
  });

  test('are none in a hidden channel, and all for an administrator', () => {
    const hidden = { ...member, overwrites: [{ id: '1', allow: '0', deny: `${1n << 10n}` }] };
    expect(missingPermissions(hidden, needed)).toEqual([...needed]);
    const administrator = { ...hidden, guildRoles: [{ id: '1', permissions: '8' }] };
    expect(missingPermissions(administrator, neededPermissions(ALL_ON))).toEqual([]);
  });
});
