import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { channelId as discordChannel } from '../../src/adapters/discord/client.ts';
import { channelId as slackChannel } from '../../src/adapters/slack/client.ts';
import { readJournals } from '../../src/engine/sqlite/check.ts';
import { runOnFloor, seatOfRuns } from '../../src/work/runs/floor-binding.ts';
import { toolCallRows } from '../../src/work/runs/call-record.ts';
import type { ToolCallRow } from '../../src/turns/tool-calls.ts';
import type { RunFact } from '../../src/work/runs/run-events.ts';
import { startDiscord } from '../adapters/discord/server.ts';
import type { DiscordServer } from '../adapters/discord/server.ts';
import { startSlack } from '../adapters/slack/server.ts';
import type { SlackServer } from '../adapters/slack/server.ts';
import { inPlace } from '../e2e/demo.ts';
import { until } from '../e2e/network.ts';
import type { Bot, Place, Start } from '../kill/bot.ts';
import { Page } from '../kill/page.ts';
import { Models } from './models.ts';

/** The channel of the page. */
export const CHANNEL = 'console:demo';

/** The parts of a configuration. */
export type Parts = {
  /** A folder with three files, for the file server. */
  readonly folder: string;
  /** The path of the memory server's data. */
  readonly memory: string;
  readonly modelUrl: string;
  /** The ids of the stage's channels: the page's, then Discord's and Slack's if present. */
  readonly channels: readonly string[];
  /** Ann's id on each platform. */
  readonly operators: readonly string[];
};

/** The real program, with local servers for everything that it connects to. */
export type Stage = {
  readonly place: Place;
  readonly parts: Parts;
  readonly models: Models;
  readonly discord: DiscordServer;
  readonly slack: SlackServer;
  /** Starts the program. Resolves when it is ready. */
  start(how?: Start): Promise<Bot>;
  /** All stored tool calls, oldest first. */
  rows(): readonly (ToolCallRow & { readonly channel: string; readonly agent: string })[];
  /** The facts of the runs of all seats. */
  facts(): readonly RunFact[];
};

/** Options of a stage. */
export type StageOptions = {
  /** True to have Discord and Slack, too. */
  readonly platforms?: boolean;
  readonly config: (parts: Parts) => object;
};

/** The three files in the folder at the start. */
const FILES = { 'a.txt': 'one at a time\n', 'b.txt': 'has the floor\n', 'c.txt': 'the others wait\n' };

/** Runs `use` on a new stage, and stops everything afterwards. */
export async function onStage<T>(
  { platforms = false, config }: StageOptions,
  use: (stage: Stage) => Promise<T>,
): Promise<T> {
  const [discord, slack, models] = [await startDiscord(), await startSlack(), new Models()];
  await models.start();
  const [ann, annOnSlack] = [discord.person('ann'), slack.ids.ann];
  discord.person('bob');
  const env = platforms ? environment(discord, slack) : {};
  const result: T[] = [];
  try {
    await inPlace('{}', async (place, start) => {
      const folder = join(place.dir, 'files');
      mkdirSync(folder);
      for (const [name, text] of Object.entries(FILES)) writeFileSync(join(folder, name), text);
      const others = [discordChannel(discord.channel), slackChannel(slack.ids.channel)];
      const parts: Parts = {
        folder,
        memory: join(place.dir, 'memory.jsonl'),
        modelUrl: models.url,
        channels: [CHANNEL, ...(platforms ? others : [])],
        operators: platforms ? [ann, annOnSlack] : [],
      };
      writeFileSync(place.configFile, JSON.stringify(config(parts), null, 2));
      const ready = async (how: Start = {}): Promise<Bot> => {
        const bot = start({ ...how, env: { ...env, ...how.env } });
        await bot.ready();
        return bot;
      };
      const journals = () => [...readJournals(join(place.dataDir, 'conch.db'), runOnFloor)];
      result.push(
        await use({
          place,
          parts,
          models,
          discord,
          slack,
          start: ready,
          rows: () =>
            journals().flatMap(([key, entries]) =>
              toolCallRows(entries).map((row) => ({ ...seatOfRuns(key), ...row })),
            ),
          facts: () => journals().flatMap(([, entries]) => entries.map(({ fact }) => fact)),
        }),
      );
    });
  } finally {
    await Promise.all([discord.close(), slack.close(), models.stop()]);
  }
  return result[0]!;
}

/** The configuration of the tool servers from the package registry. */
export function servers({ folder, memory }: Parts): Readonly<Record<string, object>> {
  const run = (name: string, ...args: readonly string[]) => ({
    command: process.execPath,
    args: [programOf(name), ...args],
  });
  return {
    filesystem: { ...run('filesystem', folder), trusted: true },
    everything: run('everything', 'stdio'),
    memory: { ...run('memory'), env: { MEMORY_FILE_PATH: memory }, trusted: true },
  };
}

/** The rules of the acceptance of runs. */
export const RULES = {
  allow: ['mcp__filesystem__read_*', 'mcp__memory__search_nodes'],
  ask: ['mcp__filesystem__write_file', 'mcp__filesystem__move_file', 'mcp__memory__delete_*!'],
  deny: ['mcp__everything__get-env'],
  default: 'deny',
} as const;

/** A configuration with model agents in every channel of the stage. */
export function configOf(parts: Parts, more: { readonly agents?: readonly string[] } & Record<string, unknown> = {}) {
  const { agents = ['dev'], ...rest } = more;
  const { modelUrl: baseUrl, channels, operators } = parts;
  const backend = (model: string) => ({ kind: 'llm', provider: 'openai-compatible', model, baseUrl });
  return {
    turnConfig: { coalesceMs: 20, waitTimeoutSeconds: 600, defaultTimeoutSeconds: 600 },
    mcp: servers(parts),
    tools: RULES,
    agents: agents.map((id) => ({ id, backend: backend(id) })),
    channels: channels.map((id) => ({ id, agents })),
    ...(operators.length === 0 ? {} : { operators: { users: operators } }),
    log: { level: 'info', pretty: false },
    ...rest,
  };
}

/** Opens a page on one channel of a running program, also on another platform's channel. */
export async function pageIn(bot: Bot, channel: string = CHANNEL): Promise<Page> {
  const page = await Page.open(bot, channel);
  await page.until(() => page.view !== null, 'the first picture');
  return page;
}

/** Resolves with the number of the question that people can answer now. */
export async function question(page: Page, what = 'a question', limitMs = 30_000): Promise<number> {
  await page.until(() => page.view?.holder?.approval?.shown === true, what, limitMs);
  return page.view?.holder?.approval?.question ?? 0;
}

/** Resolves with the open question's number, or with `null` once the floor rests without one. */
export async function questionOrRest(page: Page, limitMs = 60_000): Promise<number | null> {
  const open = () => page.view?.holder?.approval?.shown === true;
  await page.until(() => open() || page.view?.condition === 'resting', 'a question or the end', limitMs);
  return open() ? (page.view?.holder?.approval?.question ?? null) : null;
}

/** Writes as the page's person. Resolves when the floor rests again. */
export async function converse(page: Page, text: string, limitMs = 60_000): Promise<void> {
  const epoch = page.view?.epoch ?? 0;
  await page.say(CHANNEL, text);
  await rests(page, epoch, limitMs);
}

/** Resolves when a turn after this epoch is over and the floor rests. */
export async function rests(page: Page, epoch: number, limitMs = 60_000): Promise<void> {
  await page.until(() => page.view?.condition === 'resting' && page.view.epoch > epoch, 'the floor at rest', limitMs);
}

/** The content of a file in the stage's folder; `null`: no such file. */
export function fileIn({ folder }: Parts, name: string): string | null {
  try {
    return readFileSync(join(folder, name), 'utf8');
  } catch {
    return null;
  }
}

/** The path of a helper program of the tests. */
export function fixture(name: string): string {
  return fileURLToPath(new URL(`fixtures/${name}`, import.meta.url));
}

/** The path of the tool server that misbehaves. */
export const FAULTY = fileURLToPath(new URL('../agents/mcp/fixtures/tools-server.ts', import.meta.url));

export { until };

const require = createRequire(import.meta.url);

function programOf(name: string): string {
  return require.resolve(`@modelcontextprotocol/server-${name}/dist/index.js`);
}

function environment(discord: DiscordServer, slack: SlackServer): Readonly<Record<string, string>> {
  return {
    DISCORD_TOKEN: discord.token,
    DISCORD_API_URL: discord.apiUrl,
    SLACK_BOT_TOKEN: slack.botToken,
    SLACK_APP_TOKEN: slack.appToken,
    SLACK_SIGNING_SECRET: slack.signingSecret,
    SLACK_API_URL: slack.apiUrl,
  };
}
