import { Routes } from 'discord.js';
import type { REST } from 'discord.js';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import { createHandover } from '../delivery/handover.ts';
import type { Handover } from '../delivery/handover.ts';
import { AdapterError, ChatError } from '../port.ts';
import type { Capabilities, ChatAdapter, History, Intake, Memory, Observatory, Position } from '../port.ts';
import { createAccess } from './access.ts';
import type { Access } from './access.ts';
import { FILE_ABOVE, TEXT_LIMIT } from './content.ts';
import { createCalls } from './calls.ts';
import type { Calls } from './calls.ts';
import { createClient } from './client.ts';
import { registerCommands } from './commands.ts';
import { createConnection } from './connection.ts';
import type { Connection } from './connection.ts';
import { wordsOf } from './errors.ts';
import { createHearing } from './hearing.ts';
import { readHistory } from './history.ts';
import type { HistoryPorts } from './history.ts';
import { platformChannel } from './ids.ts';
import type { Understanding } from './incoming.ts';
import { createInteractions } from './interactions.ts';
import { createSender } from './sender.ts';
import type { Sender } from './sender.ts';
import type { DiscordSettings, Self } from './client.ts';
import { patiently } from './patience.ts';
import { channelPermissions } from './permissions.ts';
import type { PermissionName } from './permissions.ts';
import { createPlaces, snowflakeSchema } from './places.ts';
import type { Places } from './places.ts';
import { createReader, insisting } from './reader.ts';
import { createTyped } from './typed.ts';

/** What the adapter is given. */
export type AdapterOptions = {
  readonly token: string;
  /** Where Discord is, without a version; `null` for Discord itself. */
  readonly apiUrl: string | null;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly memory: Memory;
  readonly settings: DiscordSettings;
};

/** What Conch can do on Discord. */
export const CAPABILITIES: Capabilities = {
  textLimit: TEXT_LIMIT,
  edits: true,
  receipts: true,
  cards: true,
  drafts: true,
  idempotentPosts: false,
  fileAbove: FILE_ABOVE,
  losesEvents: true,
};

/** While it connects, posts are tried again after so long, whatever the attempts of former runs were. */
const CONNECTING_MS = 1_000;

/** Discord as a platform: one bot, in any number of servers. */
export function createAdapter(options: AdapterOptions): ChatAdapter {
  const rest = createClient(options);
  const ending = new AbortController();
  let bot: Bot | null = null;
  const up = (method: string, channel: ChannelId): Bot => bot ?? notConnected(method, channel);
  const trying = async <T>(method: string, channel: ChannelId, work: (here: Bot) => Promise<T>): Promise<T> => {
    const here = up(method, channel);
    try {
      return await work(here);
    } catch (error) {
      throw here.access.refused(channel, error);
    }
  };
  return {
    name: 'discord',
    capabilities: CAPABILITIES,
    async start(intake, observatory) {
      try {
        bot = await begin({ ...options, rest, intake, observatory, signal: ending.signal });
        await bot.connection.start();
      } catch (error) {
        if (ending.signal.aborted) return;
        throw error instanceof ChatError ? never(error) : error;
      }
      for (const { id } of observatory.channels()) bot.settle(id);
    },
    async stop() {
      ending.abort();
      const stopping = bot;
      bot = null;
      await stopping?.connection.stop();
      stopping?.handover.stop();
      await stopping?.sender.stop();
    },
    post: (channel, post) => trying('post', channel, (here) => here.sender.post(channel, post)),
    find: (channel, post) => trying('find', channel, (here) => here.sender.find(channel, post)),
    edit: (channel, id, text) => trying('edit', channel, (here) => here.sender.edit(channel, id, text)),
    receipt: async (channel, message, receipt) => up('receipt', channel).sender.receipt(channel, message, receipt),
    draft: (channel, speaker, epoch, text) => bot?.sender.draft(channel, speaker, epoch, text),
    card: (channel, view) => bot?.sender.card(channel, view),
    catchUp: (channel, after) => trying('catchUp', channel, (here) => catchUp(here, { channel, after }, options.log)),
  };
}

async function catchUp(
  bot: Bot,
  { channel, after }: { readonly channel: ChannelId; readonly after: Position | null },
  log: Logger,
): Promise<History> {
  bot.settle(channel);
  const history = await readHistory(bot.history, channel, after);
  await bot.sender.tidy(channel).catch((error: unknown) => {
    log.warn({ channel, why: wordsOf(error) }, 'what a former run left half said was not taken away');
  });
  return history;
}

function notConnected(method: string, channel: ChannelId): never {
  const where = { method, channel, fault: 'unreachable', retryAfterMs: CONNECTING_MS } as const;
  throw new ChatError('Discord is not connected yet', where);
}

type Bot = {
  readonly access: Access;
  readonly sender: Sender;
  readonly handover: Handover;
  readonly history: HistoryPorts;
  readonly connection: Connection;
  /** Sees to it that the server of a channel has the slash commands. */
  readonly settle: (channel: ChannelId) => void;
};

type Parts = AdapterOptions & {
  readonly rest: REST;
  readonly intake: Intake;
  readonly observatory: Observatory;
  readonly signal: AbortSignal;
};

/** Puts everything together that needs to know who the bot is. */
async function begin(parts: Parts): Promise<Bot> {
  const { rest, intake, observatory, clock, log } = parts;
  const self = await patiently('who the bot is', () => whoAmI(rest), parts);
  const calls = createCalls({ rest, clock });
  const read = createReader(parts);
  const places = createPlaces({ read, observatory, intake });
  const sender = createSender({ ...parts, self: () => self });
  const missing = async (channel: string): Promise<readonly PermissionName[]> =>
    (await insisting(() => channelPermissions(rest, self, channel, parts.settings), parts)).missing;
  const reopen = (channel: ChannelId): void => {
    calls.reopen(channel);
    sender.reopened(channel);
  };
  const access = createAccess({ ...parts, read, places, missing, reopen });
  const { identities } = sender;
  const understanding: Understanding = {
    self,
    identities,
    agents: () => observatory.agents(),
    channelName: (channel) => places.nameOf(channel),
  };
  const handover = createHandover({ log, trouble: () => undefined });
  const hearing = createHearing({
    places,
    access,
    intake,
    handover,
    understanding,
    interactions: createInteractions({ ...parts, self, places }),
    typed: createTyped({ ...parts, calls, places, understanding }),
    seen: (channel) => sender.seen(channel),
    stands: (message, thread) => sender.stands(message, thread),
    log,
  });
  const connection = createConnection({
    ...parts,
    bot: self.userId,
    dispatch: (event, payload) => hearing.dispatch(event, payload),
    lost: () => intake.disconnected(),
    back: (missed) => intake.reconnected({ missed }),
    fatal: (error) => intake.broken(error),
  });
  const mayRead = async (channel: string): Promise<boolean> =>
    !(await missing(channel)).includes('Read Message History');
  const history = { read, places, observatory, understanding, mayRead, log };
  await access.check();
  await sender.start();
  const settle = createSettling({ ...parts, calls, places, applicationId: self.applicationId });
  return { access, sender, handover, history, connection, settle };
}

const userSchema = z.object({ id: snowflakeSchema });

async function whoAmI(rest: REST): Promise<Self> {
  const user = userSchema.parse(await rest.get(Routes.user()));
  const application = userSchema.parse(await rest.get(Routes.currentApplication()));
  return { userId: user.id, applicationId: application.id };
}

/** Registers the slash commands, once for every server. They may come after the first messages. */
function createSettling(
  ports: Parts & { readonly calls: Calls; readonly places: Places; readonly applicationId: string },
) {
  const { calls, places, applicationId, signal, log } = ports;
  const settled = new Set<string>();
  return (channel: ChannelId): void => {
    const guild = places.guildOf(platformChannel(channel));
    if (guild === null || settled.has(guild)) return;
    settled.add(guild);
    const register = (): Promise<boolean> => registerCommands({ calls, applicationId, guild, channel });
    patiently('the commands', register, ports).then(
      (written) => log.debug({ guild, written }, 'slash commands are there'),
      (error: unknown) => {
        if (signal.aborted) return;
        const todo = 'invite the bot anew with the scope applications.commands; "!floor status" works without';
        log.warn({ guild, why: wordsOf(error), todo }, 'the slash commands could not be registered');
      },
    );
  };
}

function never(error: ChatError): AdapterError {
  return new AdapterError(`Discord will not have this bot: ${error.message}`, { adapter: 'discord', cause: error });
}
