import { createAdapter } from '../../src/adapters/discord/adapter.ts';
import { CAPABILITIES } from '../../src/adapters/discord/adapter.ts';
import { CURSOR } from '../../src/adapters/discord/content.ts';
import { channelId } from '../../src/adapters/discord/client.ts';
import type { ChatAdapter, Intake, Memory } from '../../src/adapters/port.ts';
import { createLlmBackend } from '../../src/agents/backends/llm/llm-backend.ts';
import { completeTexts } from '../../src/config/announcements.ts';
import { App } from '../../src/runtime/app.ts';
import { createLog } from '../../src/runtime/log.ts';
import type { Fact } from '../../src/turns/floor/fact.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import type { FloorStore } from '../../src/turns/floor-store.ts';
import { announcementText } from '../../src/turns/text/announcement-values.ts';
import { startDiscord } from '../adapters/discord/server.ts';
import { load } from '../config/world.ts';
import { Models } from './models.ts';
import type { Mind } from './models.ts';
import { ArenaTime } from './time.ts';

/** The agents in the channel of every game, in their order. */
export const PLAYERS = ['fig', 'kiwi', 'lime', 'pear', 'plum', 'date', 'yuzu'] as const;

/** The platforms of the games. */
export const PLATFORMS = ['console', 'Discord'] as const;
export type PlatformName = (typeof PLATFORMS)[number];

/** A channel with seven agents, the whole program around it, and a person. */
export type ArenaChannel = {
  readonly time: ArenaTime;
  readonly models: Models;
  readonly store: FloorStore;
  readonly id: string;
  /** Errors that ended the program's work. */
  readonly broken: readonly unknown[];
  /** Writes as the person, or gives a command ("!stop"). */
  write(text: string): Promise<void>;
  /** The texts of agents as people see them, without drafts. */
  shown(): readonly string[];
  facts(): readonly Fact[];
  close(): Promise<void>;
};

/** The parts of a platform that the arena needs. */
type Platform = {
  readonly channel: string;
  readonly env: Readonly<Record<string, string>>;
  readonly person: string;
  adapter(parts: {
    readonly time: ArenaTime;
    readonly memory: Memory;
    readonly log: ReturnType<typeof createLog>;
  }): ChatAdapter;
  write(text: string): Promise<void>;
  shown(): readonly string[];
  close(): Promise<void>;
};

/** Opens a channel on a platform. `mind` answers for all its models. */
export async function openArena(name: PlatformName, mind: Mind, turnConfig: object = {}): Promise<ArenaChannel> {
  const time = new ArenaTime(name === 'console' ? CONSOLE_STILL_MS : DISCORD_STILL_MS);
  const platform = await (name === 'console' ? consolePlatform() : discordPlatform());
  const models = new Models(time, mind);
  const { clock, timers } = time;
  const { channel: id } = platform;
  const llm = (model: string) => ({ kind: 'llm', provider: 'openai-compatible', model, baseUrl: BASE });
  const config = load(
    {
      turnConfig: { coalesceMs: 0, ...turnConfig },
      agents: PLAYERS.map((agent) => ({ id: agent, backend: llm(agent), description: `plays as ${agent}` })),
      channels: [{ id, name: 'arena', topic: 'games', agents: [...PLAYERS] }],
      operators: { users: [platform.person] },
    },
    platform.env,
  );
  const words: Parameters<typeof openFloorStore>[0]['words'] = (announcement, _channel, repeat) =>
    announcementText(announcement, completeTexts({}), String, repeat);
  const store = openFloorStore({ path: ':memory:', clock, textLimit: () => CAPABILITIES.textLimit, words });
  const log = createLog({ level: 'fatal', pretty: false, secrets: [], clock, destination: { write: () => {} } });
  const memory: Memory = {
    get: (key) => store.keyValues.recall(name, key),
    set: (key, value) => store.keyValues.remember(name, key, value),
  };
  const broken: unknown[] = [];
  const app = new App({
    config,
    store,
    clock,
    timers,
    log,
    adapters: [platform.adapter({ time, memory, log })],
    backendFor: ({ id: model }) => createLlmBackend({ ...LLM, model, fetch: models.fetch, timers }),
    localOperators: [platform.person],
    onBroken: (error) => void broken.push(error),
  });
  const started = app.start().then(() => app.connect());
  let isUp = false;
  void started.then(() => (isUp = true));
  const everybody = () => isUp && store.floors.state(id)?.seats.every(({ status }) => status === 'QUEUED') === true;
  if (!(await time.until(everybody, 600_000))) throw new Error('the agents do not come to the channel');
  return {
    time,
    models,
    store,
    id,
    broken,
    write: (text) => platform.write(text),
    shown: () => platform.shown(),
    facts: () => store.floors.journal(id, 100_000).map(({ fact }) => fact),
    async close() {
      let isDown = false;
      const down = app.stop().finally(() => (isDown = true));
      await time.until(() => isDown, 600_000);
      await down;
      await platform.close();
    },
  };
}

const BASE = 'http://models.test/v1';
const LLM = {
  provider: 'openai-compatible',
  baseUrl: BASE,
  apiKey: 'k',
  tools: false,
  stepTimeoutMs: 3_600_000,
} as const;
const CONSOLE_STILL_MS = 4;
const DISCORD_STILL_MS = 12;

async function consolePlatform(): Promise<Platform> {
  const shown: string[] = [];
  let intake: Intake | null = null;
  let written = 0;
  const channel = 'console:arena';
  const ada = { id: 'ada', name: 'Ada' };
  return {
    channel,
    env: {},
    person: ada.id,
    adapter: ({ time }) => ({
      name: 'console',
      capabilities: { ...CAPABILITIES, idempotentPosts: true, cards: false, receipts: false, losesEvents: false },
      start: async (given) => void (intake = given),
      stop: async () => {},
      async post(_channel, { speaker, text }) {
        time.moved += 1;
        if (speaker !== null) shown.push(`${speaker.name}: ${text}`);
        return String(shown.length);
      },
      draft: () => void (time.moved += 1),
      find: async () => null,
      catchUp: async () => ({ messages: [], changes: [], gap: null }),
    }),
    async write(text) {
      if (intake === null) throw new Error('impossible: nobody reads what people write');
      if (text.startsWith('!')) return void (await intake.command(channel, { ...ada, roles: [] }, text));
      written += 1;
      const message = {
        id: `m${written}`,
        channel,
        author: ada,
        text,
        sentAt: written,
        addressed: [],
        attachments: [],
      };
      await intake.message({ ...message, order: String(written).padStart(6, '0') });
    },
    shown: () => shown,
    close: async () => {},
  };
}

async function discordPlatform(): Promise<Platform> {
  const server = await startDiscord();
  const person = server.person('ann');
  const { channel } = server;
  const settings = { webhooks: true, roles: true, streaming: true, cards: true, typing: true };
  return {
    channel: channelId(channel),
    env: { DISCORD_TOKEN: server.token },
    person,
    adapter: ({ time: { clock, timers }, memory, log }) =>
      createAdapter({ token: server.token, apiUrl: server.apiUrl, settings, clock, timers, log, memory }),
    write: async (text) => void server.write(person, channel, text),
    shown: () =>
      server
        .read(channel)
        .filter(({ webhook, text }) => webhook && !text.endsWith(CURSOR))
        .map(({ author, text }) => `${author}: ${text}`),
    close: () => server.close(),
  };
}
