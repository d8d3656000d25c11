import { readFileSync, readdirSync } from 'node:fs';
import { createEmulator } from 'emulate';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAdapter } from '../../src/adapters/slack/adapter.ts';
import { ChatError } from '../../src/adapters/port.ts';
import type { ChatAdapter, Intake, FloorQueries, OutgoingPost } from '../../src/adapters/port.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { systemClock, systemTimers } from '../../src/lib/time.ts';
import { ROOT } from '../docs/documents.ts';
import { clearPlace, freePort, makePlace, runConch, startBot } from '../kill/bot.ts';
import type { Bot, Place } from '../kill/bot.ts';
import { Page } from '../kill/page.ts';
import { DEMO, logLines } from './demo.ts';
import { until } from './network.ts';

const CHANNEL = 'C000000001';
const FLOOR = `slack:${CHANNEL}`;
const BOT = 'U0CONCHBOT';
const SIGNING_SECRET = 'a-secret-of-the-tests';
const TOKENS = { bot: 'xoxb-emulate-bot', person: 'xoxp-emulate-person', poor: 'xoxb-emulate-poor' };
const SCOPES =
  'chat:write channels:read channels:history channels:join reactions:read reactions:write users:read'.split(' ');

type Message = {
  readonly ts: string;
  readonly user?: string;
  readonly username?: string;
  readonly icon_emoji?: string;
  readonly text: string;
  readonly blocks?: readonly { readonly type: string; readonly text?: string }[];
  readonly metadata?: { readonly event_type: string; readonly event_payload: Readonly<Record<string, unknown>> };
  readonly reactions?: readonly { readonly name: string; readonly users: readonly string[] }[];
};
type Webhooks = {
  register(subscription: { url: string; events: string[]; active: boolean; owner: string }): unknown;
  clear(): void;
};

/** Starts the emulator, and takes its event subscriptions from its plugin: they have no public API. */
async function startEmulator(): Promise<{ readonly url: string; readonly webhooks: Webhooks; close(): Promise<void> }> {
  const dist = `${ROOT}node_modules/emulate/dist/`;
  const file = readdirSync(dist).find((name) => name.endsWith('.js') && /^var slackPlugin = /m.test(read(dist + name)));
  const { slackPlugin } = (await import(`${dist}${file}`)) as {
    slackPlugin: { register(app: unknown, store: unknown, webhooks: Webhooks, ...more: unknown[]): void };
  };
  const register = slackPlugin.register.bind(slackPlugin);
  const found = Promise.withResolvers<Webhooks>();
  slackPlugin.register = (app, store, webhooks, ...more) => {
    found.resolve(webhooks);
    register(app, store, webhooks, ...more);
  };
  const port = await freePort();
  const names = { bot_id: 'B0CONCHBOT', bot_user_id: BOT, app_id: 'A0CONCHAPP' };
  const running = await createEmulator({
    service: 'slack',
    port,
    seed: {
      slack: {
        signing_secret: SIGNING_SECRET,
        strict_scopes: true,
        oauth_apps: [
          { ...names, client_id: '1.2', client_secret: 'x', name: 'Conch', redirect_uris: [], bot_name: 'conch' },
        ],
        tokens: [
          { ...names, token: TOKENS.bot, type: 'bot', user_id: BOT, scopes: SCOPES },
          { ...names, token: TOKENS.poor, type: 'bot', user_id: BOT, scopes: ['channels:read', 'users:read'] },
          { token: TOKENS.person, type: 'user', user_id: 'U000000001', scopes: SCOPES },
        ],
      },
    },
  });
  slackPlugin.register = register;
  return { url: `http://127.0.0.1:${port}`, webhooks: await found.promise, close: () => running.close() };
}

function read(path: string): string {
  return readFileSync(path, 'utf8');
}

let emulator: Awaited<ReturnType<typeof startEmulator>>;
let place: Place;
let port: number;
let bot: Bot | null = null;

beforeAll(async () => {
  emulator = await startEmulator();
  port = await freePort();
  place = await makePlace({
    ...DEMO,
    adapters: { slack: { mode: 'http', port } },
    channels: [{ id: FLOOR, name: 'general', agents: ['pm', 'dev', 'qa'] }],
  });
  await api(TOKENS.bot, 'conversations.join', { channel: CHANNEL });
});

afterAll(async () => {
  await bot?.end('SIGKILL');
  await emulator.close();
  clearPlace(place);
});

async function api(token: string, method: string, args: object): Promise<Readonly<Record<string, unknown>>> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const answer = await fetch(`${emulator.url}/api/${method}`, { method: 'POST', headers, body: JSON.stringify(args) });
  const body = (await answer.json()) as Record<string, unknown>;
  if (body['ok'] !== true) throw new Error(`${method}: ${JSON.stringify(body)}`);
  return body;
}

/** Writes a message as a person. Resolves with its `ts`. */
async function write(text: string, thread?: string): Promise<string> {
  const { ts } = await api(TOKENS.person, 'chat.postMessage', { channel: CHANNEL, text, thread_ts: thread });
  return String(ts);
}

async function messages(): Promise<readonly Message[]> {
  const { messages: found } = await api(TOKENS.person, 'conversations.history', { channel: CHANNEL, limit: 500 });
  return (found as Message[]).toReversed();
}

async function replies(ts: string): Promise<readonly Message[]> {
  const { messages: found } = await api(TOKENS.person, 'conversations.replies', { channel: CHANNEL, ts });
  return found as Message[];
}

function said(all: readonly Message[]): readonly Message[] {
  return all.filter(({ metadata, username }) => metadata?.event_type === 'conch_post' && username !== undefined);
}

function environment(token = TOKENS.bot): Record<string, string> {
  return {
    SLACK_BOT_TOKEN: token,
    SLACK_SIGNING_SECRET: SIGNING_SECRET,
    SLACK_API_URL: `${emulator.url}/api/`,
  };
}

async function begin(token = TOKENS.bot): Promise<Bot> {
  const url = `http://127.0.0.1:${port}/slack/events`;
  emulator.webhooks.clear();
  emulator.webhooks.register({ url, events: ['*'], active: true, owner: 'slack' });
  bot = startBot(place, { env: environment(token) });
  await bot.ready();
  return bot;
}

describe('a Conch on an independent fake Slack', () => {
  test('accepts signed events, and its agents answer under their own names, with an outbox id in the metadata', async () => {
    await begin();
    await write('Build a clock');
    await until(async () => said(await messages()).length >= 3, 'an answer of every agent');
    const answers = said(await messages());
    expect([...new Set(answers.map(({ username }) => username))]).toEqual(['pm', 'dev', 'qa']);
    for (const { user, blocks, text, metadata } of answers) {
      expect(user).toBe(BOT);
      expect(blocks?.map(({ type }) => type)).toEqual(['markdown']);
      expect(text).not.toBe('');
      expect(metadata?.event_payload['outbox_id']).toMatch(/^\w+-\d+-\d+$/);
    }
    const marks = answers.map(({ metadata }) => metadata?.event_payload['outbox_id']);
    expect(new Set(marks).size).toBe(marks.length);
  });

  test('sets a receipt on a message, and receives its edit', async () => {
    const ts = await write('pm: Hello!');
    const receipts = async () => (await messages()).find((message) => message.ts === ts)?.reactions ?? [];
    await until(
      async () => (await receipts()).some(({ name, users }) => name === 'white_check_mark' && users.includes(BOT)),
      'a receipt',
    );
    const page = await Page.open(place, FLOOR);
    await api(TOKENS.person, 'chat.update', { channel: CHANNEL, ts, text: 'pm: Hello again!' });
    await page.until(() => page.texts('person').includes('pm: Hello again!'), 'the edit');
    expect(page.texts('person')).not.toContain('pm: Hello!');
    page.close();
  });

  test('answers in a thread', async () => {
    const root = await write('qa: Hello!');
    await until(async () => said(await messages()).at(-1)?.username === 'qa', 'an answer in the channel');
    await write('Thanks!', root);
    const inThread = async () => said(await replies(root));
    await until(async () => (await inThread()).length > 0, 'an answer in the thread');
    const seen = new Set((await messages()).map(({ ts }) => ts));
    expect((await inThread()).filter(({ ts }) => seen.has(ts))).toEqual([]);
  });

  test('answers a message that was written while it was stopped, and ignores its own messages', async () => {
    expect(await bot?.end('SIGTERM')).toMatchObject({ code: EXIT_CODES.ok });
    const before = said(await messages()).length;
    await write('dev: Hello!');
    await begin();
    await until(async () => said(await messages()).length > before, 'an answer');
    expect(said(await messages())[before]?.username).toBe('dev');
    const page = await Page.open(place, FLOOR);
    await page.until(() => page.texts('person').length > 0, 'the conversation');
    expect(page.texts('person').every((text) => /Hello|clock/.test(text))).toBe(true);
    page.close();
  });

  test('works without warnings, and doctor reports that this Slack lists no scopes', async () => {
    const lines = bot === null ? [] : logLines(bot);
    const warnings = lines.filter(({ level }) => level === 'warn' || level === 'error');
    expect(warnings.map(({ message }) => message)).toEqual([]);
    const { code, out } = await runConch(place, { env: environment(), argv: ['doctor'] });
    expect(out).toMatch(/! Slack scopes: Slack did not list the scopes of the app/);
    expect(out).toMatch(/✓ #general: @conch is in it/);
    expect(code).toBe(EXIT_CODES.ok);
    expect(await bot?.end('SIGTERM')).toMatchObject({ code: EXIT_CODES.ok });
    expect(bot?.err()).toBe('');
  });
});

describe('the adapter on an independent fake Slack', () => {
  const post = (text: string): OutgoingPost => ({
    outboxId: `test-${text.length}`,
    speaker: { id: 'dev', name: 'dev', avatar: '🛠️' },
    text,
    afterId: null,
    epoch: 1,
  });

  test('finds a post by its outbox id, in a channel and in a thread, and no other post', async () => {
    const adapter = await connected(TOKENS.bot);
    const thread = `${FLOOR}/${await write('A root')}`;
    for (const floor of [FLOOR, thread]) {
      const text = `Here it is: ${floor}`;
      const id = await adapter.post(floor, post(text));
      expect(await adapter.find(floor, post(text))).toBe(id);
      expect(await adapter.find(floor, post(`${text}, but not this`))).toBe(null);
    }
    await adapter.stop();
  });

  test('edits an announcement, and reports a deleted one as gone', async () => {
    const adapter = await connected(TOKENS.bot);
    const id = await adapter.post(FLOOR, { ...post('Allow once'), speaker: null });
    await adapter.edit?.(FLOOR, id, 'Twice');
    const ts = id.split('/')[1];
    expect((await messages()).find((message) => message.ts === ts)?.text).toBe('Twice');
    await api(TOKENS.bot, 'chat.delete', { channel: CHANNEL, ts });
    await expect(adapter.edit?.(FLOOR, id, 'Thrice')).resolves.toBe('gone');
    await adapter.stop();
  });

  test('reports a missing scope as a final refusal of each call', async () => {
    const adapter = await connected(TOKENS.poor);
    const attempts = [
      () => adapter.post(FLOOR, post('No')),
      () => adapter.find(FLOOR, post('No')),
      async () => adapter.receipt?.(FLOOR, `${CHANNEL}/1.000001`, 'done'),
      () => adapter.catchUp(FLOOR, null),
    ];
    for (const attempt of attempts) {
      const trouble = await attempt().then(
        () => null,
        (error: unknown) => error,
      );
      expect(trouble).toBeInstanceOf(ChatError);
      expect(trouble).toMatchObject({ fault: 'refused', message: expect.stringContaining('missing_scope') });
    }
    await adapter.stop();
  });

  async function connected(botToken: string): Promise<ChatAdapter> {
    const adapter = createAdapter({
      botToken,
      appToken: null,
      signingSecret: SIGNING_SECRET,
      apiUrl: `${emulator.url}/api/`,
      connection: { mode: 'http', host: '127.0.0.1', port: 0, path: '/slack/events' },
      clock: systemClock(),
      timers: systemTimers,
      log: pino({ level: 'silent' }),
      memory: { get: () => null, set: async () => undefined },
      settings: { streaming: true, cards: true, status: true, agentSessions: false },
      userGroups: {},
    });
    await adapter.start(INTAKE, QUERIES);
    return adapter;
  }
});

const INTAKE: Intake = {
  message: async () => undefined,
  amend: async () => undefined,
  command: async () => ({ ok: true, text: '' }),
  refusal: () => null,
  thread: async () => undefined,
  disconnected: () => undefined,
  reconnected: () => undefined,
  suspend: () => undefined,
  restore: () => undefined,
  broken: () => undefined,
};
const QUERIES: FloorQueries = {
  channels: () => [{ id: FLOOR, name: 'general', adapter: 'slack', parent: null, threads: 'own', allowBots: 'off' }],
  agents: () => [],
  awake: () => [],
  view: () => null,
  deliveryPreview: () => null,
  turns: () => [],
  journal: () => [],
  lines: () => [],
  thread: () => null,
};
