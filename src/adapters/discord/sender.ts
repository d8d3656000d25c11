import type { Logger } from 'pino';
import type { Clock, Timers } from '../../lib/time.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import { createMessageSender } from '../delivery/chat-adapter.ts';
import type { MessageSender } from '../delivery/chat-adapter.ts';
import type { FloorQueries, Memory } from '../port.ts';
import { platformChannel } from './client.ts';
import type { Calls, DiscordSettings, Self } from './client.ts';
import { wordsOf } from './errors.ts';
import { createIdentities } from './identity.ts';
import type { Identities } from './identity.ts';
import { createMessageClient } from './message-client.ts';
import { channelPermissions } from './channel-membership.ts';
import type { Places } from './places.ts';
import { createStatuses } from './status.ts';
import { Webhooks } from './webhooks.ts';

/** What speaking on Discord needs. */
export type SenderPorts = {
  readonly calls: Calls;
  readonly places: Pick<Places, 'locate'>;
  readonly self: () => Self;
  readonly queries: FloorQueries;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly memory: Memory;
  readonly settings: DiscordSettings;
};

/** Everything that Conch says and shows on Discord. */
export type Sender = MessageSender & {
  readonly identities: Identities;
  /** Learns and prepares what speaking needs. Never rejects. */
  start(): Promise<void>;
  /** A message of this floor stands in a thread that shares it: that is where its receipts belong. */
  stands(message: MessageId, thread: string): void;
};

const CHANNELS_AT_ONCE = 8;

/** Speaks on Discord. */
export function createSender(ports: SenderPorts): Sender {
  const { calls, self, settings, queries, log } = ports;
  const { locate } = ports.places;
  const webhooks = new Webhooks({ ...ports, locate, enabled: settings.webhooks });
  const identities = createIdentities({ ...ports, webhooks });
  const statuses = createStatuses({ ...ports, enabled: settings.typing });
  const mayRead = async (channel: ChannelId): Promise<boolean> => {
    const { missing } = await channelPermissions({ calls, self: self() }, platformChannel(channel));
    return !missing.includes('Read Message History');
  };
  const client = createMessageClient({ calls, locate, webhooks, self, mayRead });
  const sender = createMessageSender({ ...ports, client });
  const guilds = new Set<string>();
  const prepare = async (channel: ChannelId): Promise<void> => {
    try {
      const { guild } = await locate(channel);
      if (settings.roles && guild !== null && !guilds.has(guild)) {
        guilds.add(guild);
        await identities.ensureRoles(guild, channel);
      }
      await webhooks.of(channel);
    } catch (error) {
      log.debug({ channel, why: wordsOf(error) }, 'a channel could not be prepared yet');
    }
  };
  return {
    ...sender,
    identities,
    async start() {
      const own = queries.channels().filter(({ parent }) => parent === null);
      for (let first = 0; first < own.length; first += CHANNELS_AT_ONCE) {
        await Promise.all(own.slice(first, first + CHANNELS_AT_ONCE).map(({ id }) => prepare(id)));
      }
    },
    card(channel, view) {
      sender.card(channel, view);
      statuses.show(channel, view);
    },
    stands: (message, thread) => client.stands(message, thread),
    reopened(channel) {
      calls.reopen(channel);
      sender.reopened(channel);
    },
    async stop() {
      statuses.stop();
      await sender.stop();
    },
  };
}
