import { CONSOLE_PERSON, createConsoleAdapter } from '../adapters/console/adapter.ts';
import type { ConsoleAdapter, ConsoleOptions } from '../adapters/console/adapter.ts';
import type { MaintenanceOrder } from '../adapters/console/server.ts';
import { Platform } from '../adapters/console/platform.ts';
import { AdapterError } from '../adapters/port.ts';
import type { Answer } from '../turns/commands/context.ts';
import type { ChatAdapter, Memory } from '../adapters/port.ts';
import type { ChannelConfig, Config } from '../config/config.ts';
import type { Log } from './log.ts';
import type { FileLock } from '../engine/lock.ts';
import { lockInstance } from '../engine/lock.ts';
import { carryOut } from './maintenance.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import type { ServiceManager } from '../lib/service-manager.ts';
import type { Clock, Timers } from '../lib/time.ts';

type PlatformsParts = {
  readonly config: Config;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  readonly store: FloorStore;
  /** Returns the present configuration. A reload replaces it. */
  readonly current: () => Config;
  readonly database: NonNullable<ConsoleOptions['database']>;
  /** The MCP servers that need a login. */
  readonly waiting?: NonNullable<ConsoleOptions['toolsAwaitingLogin']>;
  readonly service: Pick<ServiceManager, 'withoutWatchdog'>;
};

/** The chat platforms of a configuration. */
export type Platforms = {
  readonly adapters: readonly ChatAdapter[];
  /** The page; `null` when it is disabled. */
  readonly page: ConsoleAdapter | null;
  /** Ids of operators without an entry in the configuration: the user of this machine's page. */
  readonly localOperators: readonly string[];
  /**
   * Claims the tokens of Discord and Slack for this process. When another process on this machine uses one, throws an
   * `AdapterError`; with a store in PostgreSQL, logs a warning instead. Throws a `StoreError` when the lock file of a
   * token belongs to another user.
   */
  readonly claim: () => void;
  /** Releases the claimed tokens, so that another process can claim them. */
  readonly release: () => void;
};

/** Makes the adapters of the chat platforms. Libraries of platforms without a channel are not loaded. */
export async function createPlatforms(parts: PlatformsParts): Promise<Platforms> {
  const { config } = parts;
  const page = config.adapters.console.enabled ? openConsole(parts) : null;
  const adapters: ChatAdapter[] = page === null ? [] : [page];
  for (const [name, open] of Object.entries(OPENERS))
    if (config.channels.some(({ adapter }) => adapter === name)) adapters.push(await open(parts));
  const localOperators = page === null ? [] : [CONSOLE_PERSON.id];
  return { adapters, page, localOperators, ...claims(parts, adapters) };
}

type Opener = (parts: PlatformsParts) => Promise<ChatAdapter>;

const OPENERS: Readonly<Record<Exclude<ChannelConfig['adapter'], 'console'>, Opener>> = {
  discord: openDiscord,
  slack: openSlack,
};

function claims(
  { config, log }: Pick<PlatformsParts, 'config' | 'log'>,
  adapters: readonly ChatAdapter[],
): Pick<Platforms, 'claim' | 'release'> {
  const { discord, slack } = config.credentials;
  const tokens = { discord: discord.token, slack: slack.appToken ?? slack.botToken };
  const claimed: FileLock[] = [];
  return {
    claim() {
      for (const adapter of ['discord', 'slack'] as const) {
        const token = tokens[adapter];
        if (token === null || !adapters.some(({ name }) => name === adapter)) continue;
        const claim = lockInstance(token.reveal());
        if (claim !== null) claimed.push(claim);
        // The other process may be a frozen former leader of the shared store. It ends when it wakes, so this one only
        // warns.
        else if (config.store !== undefined) log.warn({ adapter }, ALREADY_USED[adapter]);
        else throw new AdapterError(ALREADY_USED[adapter], { adapter });
      }
    },
    release() {
      for (const claim of claimed.splice(0)) claim.release();
    },
  };
}

const ALREADY_USED = {
  discord:
    'Another Conch on this machine uses the same DISCORD_TOKEN, and both would answer: stop that one, or make a second bot in the developer portal',
  slack:
    'Another Conch on this machine uses the same Slack app, and each would hear only some of the messages: stop that one, or make a second app',
} as const;

function openConsole(parts: PlatformsParts): ConsoleAdapter {
  const { config, clock, log, store, database, waiting } = parts;
  const maintenance = (order: MaintenanceOrder): Promise<Answer> => {
    const work = (): Promise<Answer> => carryOut(order, { store, clock, config: parts.current });
    // An erasure rewrites the whole database and blocks this process, so it must not count as a hang.
    return order.act === 'erase' ? parts.service.withoutWatchdog(work) : work();
  };
  const platform = new Platform(store.tables, clock);
  const { port } = config.adapters.console;
  return createConsoleAdapter({
    dataDir: config.dataDir,
    platform,
    port,
    clock,
    log,
    maintenance,
    database,
    ...(waiting && { toolsAwaitingLogin: waiting }),
  });
}

async function openDiscord(parts: PlatformsParts): Promise<ChatAdapter> {
  const { createAdapter } = await import('../adapters/discord/adapter.ts');
  const { adapters, credentials } = parts.config;
  const { token, apiUrl } = credentials.discord;
  const own = { token: token?.reveal() ?? '', apiUrl, settings: adapters.discord };
  return createAdapter({ ...sharedOf(parts, 'discord'), ...own });
}

async function openSlack(parts: PlatformsParts): Promise<ChatAdapter> {
  const { createAdapter } = await import('../adapters/slack/adapter.ts');
  const { adapters, credentials } = parts.config;
  const { botToken, appToken, signingSecret, apiUrl } = credentials.slack;
  const { mode, connections, host, port, path, userGroups, ...settings } = adapters.slack;
  return createAdapter({
    ...sharedOf(parts, 'slack'),
    botToken: botToken?.reveal() ?? '',
    appToken: appToken?.reveal() ?? null,
    signingSecret: signingSecret?.reveal() ?? null,
    apiUrl,
    connection: mode === 'socket' ? { mode, connections } : { mode, host, port, path },
    settings,
    userGroups,
  });
}

function sharedOf({ clock, timers, log, store: { keyValues } }: PlatformsParts, owner: string) {
  const memory: Memory = {
    get: (key) => keyValues.recall(owner, key),
    set: (key, value) => keyValues.remember(owner, key, value),
  };
  return { clock, timers, log, memory };
}
