import { channelId } from '../../src/adapters/discord/client.ts';
import { startDiscord } from '../adapters/discord/server.ts';
import type { DiscordOptions, DiscordServer } from '../adapters/discord/server.ts';
import type { Bot, Place, Start } from '../kill/bot.ts';
import { CHANNEL, DEMO, inPlace } from './demo.ts';

/** A loopback Discord in this process, and a place for a Conch with its channel in the configuration. */
export type OnDiscord = {
  readonly server: DiscordServer;
  readonly place: Place;
  /** Environment variables for a program that uses this Discord. */
  readonly env: Readonly<Record<string, string>>;
  readonly start: (env?: Readonly<Record<string, string>>) => Bot;
};

/** Returns `DEMO` with a Discord channel added. `more` overrides keys. */
export function configOn(server: DiscordServer, more: object = {}): object {
  const channel = { id: channelId(server.channel), name: 'general', agents: ['pm', 'dev', 'qa'] };
  return { ...DEMO, channels: [{ id: CHANNEL, agents: ['pm', 'dev', 'qa'] }, channel], ...more };
}

/** Runs `use` with a loopback Discord and a place. Afterwards ends every program and the Discord. */
export async function onDiscord(
  use: (at: OnDiscord) => Promise<void>,
  how: { readonly discord?: DiscordOptions; readonly config?: object } = {},
): Promise<void> {
  const server = await startDiscord(how.discord);
  const env = { DISCORD_TOKEN: server.token, DISCORD_API_URL: server.apiUrl };
  try {
    await inPlace(configOn(server, how.config), (place, start) =>
      use({ server, place, env, start: (more = {}) => start(startWith({ ...env, ...more })) }),
    );
  } finally {
    await server.close();
  }
}

/** Returns agents' posts in a channel, without drafts, as "author: text". */
export function speechesIn(server: DiscordServer, channel = server.channel): readonly string[] {
  return server
    .read(channel)
    .filter(({ webhook, text }) => webhook && !text.endsWith('▌'))
    .map(({ author, text }) => `${author}: ${text}`);
}

/** Returns whether each of the three agents has posted in the channel. */
export function allSpoke(server: DiscordServer): boolean {
  return ['pm', 'dev', 'qa'].every((agent) => speechesIn(server).some((speech) => speech.startsWith(`${agent}: `)));
}

function startWith(env: Readonly<Record<string, string>>): Start {
  return { env };
}
