import { afterEach, describe, expect, test } from 'vitest';
import type { CheckResult } from '../../../src/adapters/port.ts';
import { BOT_EVENTS, BOT_SCOPES, checkSetup, manifestText } from '../../../src/adapters/slack/setup.ts';
import type { SetupOptions } from '../../../src/adapters/slack/setup.ts';
import { ALL_SCOPES, startSlack } from './server.ts';
import type { SlackOptions, SlackServer } from './server.ts';

let slack: SlackServer | null = null;
afterEach(() => slack?.close());

async function setup(how: { readonly server?: SlackOptions; readonly options?: Partial<SetupOptions> } = {}) {
  const server = await startSlack(how.server ?? {});
  slack = server;
  const options: SetupOptions = {
    botToken: server.botToken,
    appToken: server.appToken,
    signingSecret: null,
    apiUrl: server.apiUrl,
    mode: 'socket',
    clock: Date,
    channels: [{ id: `slack:${server.ids.channel}`, name: 'general' }],
    settings: { streaming: true, cards: true, status: true, agentSessions: false },
    userGroups: {},
    ...how.options,
  };
  return { server, check: (more: Partial<SetupOptions> = {}) => checkSetup({ ...options, ...more }) };
}

const faults = (findings: readonly CheckResult[]) => findings.filter(({ verdict }) => verdict !== 'good');

describe('a Slack app that is set up well', () => {
  test('passes every check, and no result holds a token', async () => {
    const { server, check } = await setup();
    const findings = await check();
    expect(faults(findings)).toEqual([]);
    expect(findings.map(({ what }) => what)).toEqual([
      'Slack bot token',
      'Slack scopes',
      'clock',
      'Slack app token',
      '#general',
    ]);
    expect(JSON.stringify(findings)).not.toContain(server.botToken);
  });

  test('is not changed by the checks', async () => {
    const { server, check } = await setup();
    await check();
    const methods = server.requests.map(({ method }) => method);
    expect(methods).toEqual(['auth.test', 'apps.connections.open', 'conversations.info']);
  });
});

describe('a failed check', () => {
  test('names each missing scope, and rates the required ones as bad', async () => {
    const lacking = new Set(['chat:write', 'chat:write.customize']);
    const { check } = await setup({ server: { botScopes: ALL_SCOPES.filter((scope) => !lacking.has(scope)) } });
    expect(faults(await check())).toMatchObject([
      { what: 'Slack scope chat:write', verdict: 'bad', text: expect.stringContaining('cannot write messages') },
      { what: 'Slack scope chat:write.customize', verdict: 'warning', todo: expect.stringContaining('install') },
    ]);
  });

  test('asks for the right bot token', async () => {
    const { check } = await setup();
    expect(await check({ botToken: 'xoxb-wrong' })).toMatchObject([
      { what: 'Slack bot token', verdict: 'bad', text: expect.stringContaining('invalid_auth') },
    ]);
  });

  test('asks for an app token, or its scope', async () => {
    const { check } = await setup({ server: { appScopes: [] } });
    expect(faults(await check({ appToken: null }))).toMatchObject([{ what: 'Slack app token', verdict: 'bad' }]);
    expect(faults(await check())).toMatchObject([
      { what: 'Slack app token', verdict: 'bad', todo: expect.stringContaining('connections:write') },
    ]);
  });

  test('asks for the signing secret, where requests are signed', async () => {
    const { check } = await setup();
    expect(faults(await check({ mode: 'http', appToken: null }))).toMatchObject([{ what: 'Slack signing secret' }]);
    expect(faults(await check({ mode: 'http', appToken: null, signingSecret: 'secret' }))).toEqual([]);
  });

  test('asks for an invitation to the channel, or for an existing channel', async () => {
    const { server, check } = await setup();
    server.kickBot(server.ids.channel);
    expect(faults(await check())).toMatchObject([
      { what: '#general', verdict: 'bad', todo: expect.stringContaining('/invite @conch') },
    ]);
    expect(faults(await check({ channels: [{ id: 'slack:C0NOWHERE', name: 'gone' }] }))).toMatchObject([
      { what: '#gone', verdict: 'bad', text: expect.stringContaining('C0NOWHERE') },
    ]);
  });

  test('row 42: asks for a channel that is not archived', async () => {
    const { server, check } = await setup();
    server.archive(server.ids.channel);
    expect(faults(await check())).toMatchObject([{ what: '#general', text: 'it is archived' }]);
  });

  test('asks for a user group that the configuration names', async () => {
    const { server, check } = await setup();
    const group = server.group('devs', []);
    expect(faults(await check({ userGroups: { [group]: 'dev' } }))).toEqual([]);
    expect(faults(await check({ userGroups: { S0GONE: 'dev' } }))).toMatchObject([
      { what: 'Slack user groups', text: expect.stringContaining('S0GONE') },
    ]);
  });

  test("asks for a clock that matches Slack's", async () => {
    const { check } = await setup();
    const clock = { now: () => Date.now() + 600_000 };
    expect(faults(await check({ clock }))).toMatchObject([{ what: 'clock', verdict: 'warning' }]);
  });

  test('row 30: names the network instead of a token when Slack cannot be reached', async () => {
    const { server, check } = await setup();
    await server.close();
    const [finding] = await check();
    expect(finding).toMatchObject({ verdict: 'bad', text: expect.stringContaining('could not be reached') });
    expect(finding?.todo).toContain('network');
  });
});

describe('the manifest', () => {
  const read = (...how: Parameters<typeof manifestText>) => JSON.parse(manifestText(...how)) as Record<string, unknown>;

  test('asks for every scope and event that Conch uses, over sockets', () => {
    const manifest = read({ agentSessions: false }, 'socket');
    expect(manifest).toMatchObject({
      display_information: { name: 'Conch' },
      features: { slash_commands: [{ command: '/conch' }] },
      oauth_config: { scopes: { bot: BOT_SCOPES.map(({ scope }) => scope) } },
      settings: {
        event_subscriptions: { bot_events: BOT_EVENTS },
        interactivity: { is_enabled: true },
        socket_mode_enabled: true,
      },
    });
    expect(JSON.stringify(manifest)).not.toMatch(/files:write|request_url|"url"|agent_|assistant/);
  });

  test('names the request URL where requests are signed', () => {
    const request_url = 'https://YOUR-ADDRESS.example/conch/events';
    expect(read({ agentSessions: false, path: '/conch/events' }, 'http')).toMatchObject({
      features: { slash_commands: [{ url: request_url }] },
      settings: {
        event_subscriptions: { request_url },
        interactivity: { request_url },
        socket_mode_enabled: false,
      },
    });
  });

  test("makes the app one of Slack's agents only when its sessions are wanted", () => {
    const manifest = JSON.stringify(read({ agentSessions: true }, 'socket'));
    expect(manifest).toContain('agent_view');
    expect(manifest).toContain('assistant:write');
    expect(manifest).toContain('agent_session_stopped');
  });
});
