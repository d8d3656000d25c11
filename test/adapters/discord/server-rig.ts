import { WebSocketManager, WebSocketShardEvents } from '@discordjs/ws';
import { DiscordAPIError, GatewayIntentBits, REST } from 'discord.js';
import { afterEach } from 'vitest';
import { startDiscord } from './server.ts';
import type { DiscordOptions, DiscordServer } from './server.ts';
import type { Json } from './state.ts';

const INTENTS = (GatewayIntentBits.Guilds |
  GatewayIntentBits.GuildMessages |
  GatewayIntentBits.MessageContent) as GatewayIntentBits;

/** A received dispatch. */
export type Heard = { readonly t: string; readonly s: number; readonly d: Json };

const endings: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const end of endings.splice(0).toReversed()) await end();
});

/** Runs `act` after the test. The last registered runs first. */
export function atEnd(act: () => Promise<unknown>): void {
  endings.push(act);
}

/** Starts a fake Discord for one test. */
export async function discord(options: DiscordOptions = {}): Promise<DiscordServer> {
  const server = await startDiscord(options);
  atEnd(() => server.close());
  return server;
}

/** Returns a REST client without retries and without waits for rate limits. */
export function restOf(server: DiscordServer, timeout = 5000): REST {
  return new REST({ api: server.apiUrl, retries: 0, timeout, offset: 0, rejectOnRateLimit: () => true }).setToken(
    server.token,
  );
}

/** Connects a client that records dispatches and close codes. Resolves when the client is connected or refused. */
export async function listener(
  server: DiscordServer,
  intents: GatewayIntentBits = INTENTS,
  each: (one: Heard) => void = () => undefined,
) {
  const heard: Heard[] = [];
  const closes: number[] = [];
  const manager = new WebSocketManager({
    token: server.token,
    intents,
    rest: restOf(server),
    buildIdentifyThrottler: () => ({ waitForIdentify: () => Promise.resolve() }),
  });
  manager.on(WebSocketShardEvents.Dispatch, ({ data }) => {
    const one = data as unknown as Heard;
    heard.push(one);
    each(one);
  });
  manager.on(WebSocketShardEvents.Closed, ({ code }) => void closes.push(code));
  manager.on(WebSocketShardEvents.Error, () => undefined);
  atEnd(async () => manager.destroy());
  await manager.connect().catch(() => undefined);
  const named = (t: string) => heard.filter((one) => one.t === t).map(({ d }) => d);
  return { heard, closes, named, texts: () => named('MESSAGE_CREATE').map((message) => message['content']) };
}

/** Waits until `condition` returns true. Throws after 60 s. */
export async function until(condition: () => boolean): Promise<void> {
  const end = Date.now() + 60_000;
  while (!condition()) {
    if (Date.now() > end) throw new Error('it did not come about');
    await new Promise((resolve) => void setTimeout(resolve, 5));
  }
}

/** Returns "accepted", Discord's refusal as "403 50013" (status and code), or the name of another error. */
export async function refusal(request: Promise<unknown>): Promise<string> {
  try {
    await request;
    return 'accepted';
  } catch (error) {
    if (error instanceof DiscordAPIError) return `${error.status} ${error.code}`;
    return error instanceof Error ? error.name : 'unknown';
  }
}

export function messages(channel: string): `/channels/${string}/messages` {
  return `/channels/${channel}/messages`;
}
