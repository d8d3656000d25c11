import type { REST } from 'discord.js';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { createChatAdapter, createMessageSender } from '../delivery/chat-adapter.ts';
import type { OpenPlatform } from '../delivery/chat-adapter.ts';
import { AdapterError, ChatError } from '../port.ts';
import type { AdapterParts, Capabilities, ChatAdapter } from '../port.ts';
import type { MessageSender } from '../delivery/message-client.ts';
import { createConnectRetry } from '../delivery/connect-retry.ts';
import { createInboundQueue } from '../delivery/inbound.ts';
import type { InboundQueue } from '../delivery/inbound.ts';
import { ChannelMembership, channelPermissions, eightAtOnce } from './channel-membership.ts';
import type { GuildAnswers, PermissionName } from './channel-membership.ts';
import { FILE_ABOVE, TEXT_LIMIT } from './content.ts';
import {
  createCalls,
  createClient,
  createReader,
  retryRead,
  platformChannel,
  untilDiscord,
  whoAmI,
  wordsOf,
} from './client.ts';
import type { Calls, DiscordSettings, Self } from './client.ts';
import { registerCommands } from './commands.ts';
import { Connection } from './connection.ts';
import { createEvents } from './events.ts';
import { readHistory } from './history.ts';
import type { MessageContext } from './parse-message.ts';
import { createInteractions } from './interactions.ts';
import { createPlaces } from './places.ts';
import type { Places } from './places.ts';
import { createIdentities, Webhooks } from './identity.ts';
import type { Identities } from './identity.ts';
import { BotMessages, createStatuses } from './message-client.ts';
import { createThreadOpener } from './threads.ts';

/** What the Discord adapter needs: the bot's token, the API's address, settings, and ports for time, log and memory. */
export type AdapterOptions = Pick<AdapterParts, 'clock' | 'timers' | 'log' | 'memory'> & {
  readonly token: string;
  /** Base URL of Discord's API without a version; `null` for Discord itself. */
  readonly apiUrl: string | null;
  readonly settings: DiscordSettings;
};

/** What the Discord adapter can do. */
export const CAPABILITIES: Capabilities = {
  textLimit: TEXT_LIMIT,
  // A question longer than `textLimit` is one post: its beginning, with the whole text in a file.
  questionLimit: Number.MAX_SAFE_INTEGER,
  idempotentPosts: false,
  fileAbove: FILE_ABOVE,
  losesEvents: true,
};

/** Returns the adapter for Discord: one bot, in one or several servers. */
export function createAdapter(options: AdapterOptions): ChatAdapter {
  const rest = createClient(options);
  return createChatAdapter({
    name: 'discord',
    title: 'Discord',
    capabilities: CAPABILITIES,
    open: (ports) => untilRefused(open({ ...options, ...ports, rest })),
  });
}

async function untilRefused<T>(connecting: Promise<T>): Promise<T> {
  try {
    return await connecting;
  } catch (error) {
    if (!(error instanceof ChatError)) throw error;
    throw new AdapterError(`Discord refused this bot: ${error.message}`, { adapter: 'discord', cause: error });
  }
}

type Parts = AdapterOptions & Pick<AdapterParts, 'intake' | 'queries' | 'signal'> & { readonly rest: REST };

async function open(parts: Parts): Promise<OpenPlatform> {
  const { rest, intake, queries, clock, log } = parts;
  const connectWithRetry = createConnectRetry('Discord', parts);
  const { self } = await connectWithRetry(() => whoAmI(rest), untilDiscord);
  const calls = createCalls({ rest, clock });
  const read = createReader(calls, parts);
  const places = createPlaces({ read, queries, intake });
  const sender = createSender({ ...parts, calls, places, self });
  const readMissing = async (channel: string, guildAnswers?: GuildAnswers): Promise<readonly PermissionName[]> =>
    (await retryRead(() => channelPermissions({ calls, self }, channel, parts.settings, guildAnswers), parts)).missing;
  const membership = new ChannelMembership({ ...parts, read, places, readMissing, reopened: sender.reopened });
  const context: MessageContext = {
    self,
    identities: sender.identities,
    agents: () => queries.agents(),
    channelName: (channel) => places.nameOf(channel),
  };
  const core: Core = { self, calls, places, sender, membership, context, inbound: createInboundQueue(parts) };
  const connection = listen(parts, core);
  const registerFor = createCommandRegistrar({ ...parts, ...core, connectWithRetry });
  const mayRead = (channel: string): Promise<boolean> => retryRead(() => sender.mayRead(channel), parts);
  const history = { read, places, queries, context, mayRead, log };
  await membership.checkAll();
  await sender.start();
  return {
    sender,
    async connect() {
      await untilRefused(connection.start());
      for (const { id } of queries.channels()) registerFor(id);
    },
    async disconnect() {
      await connection.stop();
      core.inbound.stop();
    },
    readHistory(channel, after) {
      registerFor(channel);
      return readHistory(history, channel, after);
    },
    access: membership,
    link: (channel, message) => {
      const guild = places.guildOf(platformChannel(channel));
      return guild === null ? null : `https://discord.com/channels/${guild}/${platformChannel(channel)}/${message}`;
    },
    threadUnder: createThreadOpener(calls),
  };
}

type Core = {
  readonly self: Self;
  readonly calls: Calls;
  readonly places: Places;
  readonly sender: Sender;
  readonly membership: ChannelMembership;
  readonly inbound: InboundQueue;
  readonly context: MessageContext;
};

function listen(parts: Parts, core: Core): Connection {
  const { intake } = parts;
  const { self } = core;
  const dispatch = createEvents({ ...parts, ...core, interactions: createInteractions({ ...parts, ...core }) });
  let losses = 0;
  // Reports the restored connection once the replayed events are stored, because turns are granted from then on.
  const resumed = (): void => {
    const before = losses;
    void core.inbound
      .whenSettled()
      .then(() => (losses === before ? intake.reconnected({ missed: 'nothing' }) : undefined));
  };
  return new Connection({
    ...parts,
    bot: self.userId,
    dispatch,
    onLost() {
      losses += 1;
      intake.disconnected();
    },
    onBack: (missed) => (missed === 'nothing' ? resumed() : intake.reconnected({ missed })),
    fatal: (error) => intake.broken(error),
  });
}

function createCommandRegistrar(
  ports: Parts & Core & { readonly connectWithRetry: ReturnType<typeof createConnectRetry> },
) {
  const { calls, places, connectWithRetry, self, signal, log } = ports;
  const registeredGuilds = new Map<string, boolean>();
  return (channel: ChannelId): void => {
    const guild = places.guildOf(platformChannel(channel));
    if (guild === null || registeredGuilds.get(guild) === true) return;
    const level = registeredGuilds.has(guild) ? 'debug' : 'warn';
    registeredGuilds.set(guild, true);
    const register = (): Promise<boolean> =>
      registerCommands({ calls, applicationId: self.applicationId, guild, channel });
    connectWithRetry(register, untilDiscord).then(
      (written) => log.debug({ guild, written }, 'the slash commands are registered'),
      (error: unknown) => {
        if (signal.aborted) return;
        // Lets the next catch-up register the commands again: somebody may have invited the bot anew.
        registeredGuilds.set(guild, false);
        const todo =
          'invite the bot again with the scope applications.commands; until then type commands as messages: !floor status';
        log[level]({ guild, why: wordsOf(error), todo }, 'the slash commands could not be registered');
      },
    );
  };
}

type SenderPorts = Pick<Parts, 'queries' | 'clock' | 'timers' | 'log' | 'memory' | 'settings'> &
  Pick<Core, 'calls' | 'self'> & { readonly places: Pick<Places, 'locate'> };

/** Sends posts, drafts, cards, receipts and typing signs on Discord. */
export type Sender = MessageSender & {
  readonly identities: Identities;
  readonly mayRead: (channel: string) => Promise<boolean>;
  /** Looks up or creates roles and webhooks, and deletes the roles of former agents. Never rejects. */
  start(): Promise<void>;
};

/** Returns the sending side of the Discord adapter. */
export function createSender(ports: SenderPorts): Sender {
  const { calls, self, settings, queries, log } = ports;
  const { locate } = ports.places;
  const webhooks = new Webhooks({ ...ports, locate, enabled: settings.webhooks });
  const identities = createIdentities({ ...ports, webhooks });
  const statuses = createStatuses({ ...ports, enabled: settings.typing });
  const mayRead = async (channel: string): Promise<boolean> => {
    const { missing } = await channelPermissions({ calls, self }, channel);
    return !missing.includes('Read Message History');
  };
  const client = new BotMessages({ calls, locate, webhooks, self, mayRead, statuses });
  const sender = createMessageSender({ ...ports, client });
  const guilds = new Set<string>();
  const prepare = async (channel: ChannelId): Promise<void> => {
    try {
      const { guild } = await locate(channel);
      if (settings.roles && guild !== null && !guilds.has(guild)) {
        guilds.add(guild);
        await identities.ensureRoles(guild, channel);
      }
      await webhooks.get(channel);
    } catch (error) {
      log.debug({ channel, why: wordsOf(error) }, 'the roles or the webhook of a channel could not be prepared');
    }
  };
  return {
    ...sender,
    identities,
    mayRead,
    async start() {
      const channels = queries.channels().filter(({ parent }) => parent === null);
      await eightAtOnce(channels, ({ id }) => prepare(id));
    },
    reopened(channel) {
      calls.reopen(channel);
      webhooks.reopen(channel);
      sender.reopened(channel);
    },
  };
}
