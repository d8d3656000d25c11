import type { Logger } from 'pino';
import { z } from 'zod';
import type { WebClient } from '@slack/web-api';
import { delay } from '../../lib/retry.ts';
import type { AgentId } from '../../turns/floor/settings.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import { createChatAdapter, createMessageSender } from '../delivery/chat-adapter.ts';
import type { OpenPlatform, MessageSender } from '../delivery/chat-adapter.ts';
import { createConnectRetry } from '../delivery/connect-retry.ts';
import { createDeduplicator, createFirstTime } from '../delivery/inbound.ts';
import { AdapterError } from '../port.ts';
import type { Capabilities, ChatAdapter, FloorQueries, Intake, Memory } from '../port.ts';
import { createClient } from './client.ts';
import type { Self, SlackSettings } from './client.ts';
import { command } from './commands.ts';
import type { Ack, CommandPorts } from './commands.ts';
import { createInteractions } from './interactions.ts';
import type { Interactions } from './interactions.ts';
import { createConnection } from './connection/connection.ts';
import type { Connection, ConnectionMode } from './connection/connection.ts';
import { untilSlack } from './errors.ts';
import { createGroups, createPeople } from './people.ts';
import { createEvents, eventPayloadSchema } from './events.ts';
import type { Events } from './events.ts';
import { readHistory } from './history.ts';
import { ChannelMembership } from './channel-membership.ts';
import { createMessageClient } from './message-client.ts';
import { Statuses } from './status.ts';

/** What Slack is and how it is reached. */
export type AdapterOptions = {
  readonly botToken: string;
  /** For Socket Mode. */
  readonly appToken: string | null;
  /** For signed requests. */
  readonly signingSecret: string | null;
  /** Ends in `/api/`; `null` is Slack itself. */
  readonly apiUrl: string | null;
  readonly connection: ConnectionMode;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly memory: Memory;
  readonly settings: SlackSettings;
  /** Whom a mention of a Slack user group means: the id of the group, then the id of the agent. */
  readonly userGroups: Readonly<Record<string, AgentId>>;
};

/** What Slack can do. */
export const CAPABILITIES: Capabilities = {
  textLimit: 3_800,
  edits: true,
  receipts: true,
  cards: true,
  drafts: true,
  idempotentPosts: false,
  fileAbove: null,
  losesEvents: true,
};

/** Slack as an adapter, and what only it has. */
export type SlackAdapter = ChatAdapter & {
  /** Where signed requests are taken, once started; `null` in Socket Mode. */
  readonly url: string | null;
};

/** Connects Slack. */
export function createAdapter(options: AdapterOptions): SlackAdapter {
  const web = createClient({ token: options.botToken, apiUrl: options.apiUrl });
  let connection: Connection | null = null;
  const adapter = createChatAdapter({
    name: 'slack',
    title: 'Slack',
    capabilities: CAPABILITIES,
    async open(ports) {
      const reached = createConnectRetry('Slack', { ...options, ...ports });
      const self = await reached(() => whoWeAre(web), untilSlack('SLACK_BOT_TOKEN'));
      const opened = assemble({ ...options, ...ports, web }, self);
      ({ connection } = opened);
      return opened.platform;
    },
  });
  return {
    ...adapter,
    get url() {
      return connection?.url ?? null;
    },
  };
}

type Parts = AdapterOptions & {
  readonly web: WebClient;
  readonly intake: Intake;
  readonly queries: FloorQueries;
  readonly signal: AbortSignal;
};

const LIMITED_FOR_MS = 60_000;
const selfSchema = z.looseObject({
  user_id: z.string(),
  bot_id: z.string().nullish(),
  app_id: z.string().nullish(),
});

async function whoWeAre(web: WebClient): Promise<Self> {
  const { user_id: userId, bot_id: botId, app_id: appId } = selfSchema.parse(await web.auth.test());
  if (botId) return { userId, botId, appId: appId ?? null };
  const todo =
    'Copy the Bot User OAuth Token, which begins with xoxb-, from the page "OAuth & Permissions" of your app.';
  throw new AdapterError(`SLACK_BOT_TOKEN is the token of a person, not of a bot. ${todo}`, { adapter: 'slack' });
}

function assemble(parts: Parts, self: Self): { readonly platform: OpenPlatform; readonly connection: Connection } {
  const { intake, clock, log, memory, settings } = parts;
  const shared = { ...parts, self, deduplicator: createDeduplicator(clock) };
  const people = createPeople(shared);
  const sender = createSender(shared);
  const membership = new ChannelMembership(shared);
  const commands: CommandPorts = { ...shared, people, groups: createGroups(shared) };
  const events = createEvents({
    ...shared,
    people,
    membership,
    agentSessions: settings.agentSessions,
    typed: ({ user, at, floor, line }) => void command(commands, { user, at, responseUrl: null }, { floor, line }),
    isFirst: createFirstTime(memory),
    seen: (channel) => sender.seen(channel),
  });
  const interactions = createInteractions(commands);
  const back = (): void => intake.reconnected({ missed: 'perhaps' });
  const afterAMinute = (): void => void delay(LIMITED_FOR_MS, parts).then(back, () => undefined);
  const connection = createConnection({
    ...parts,
    take: (body, ack) => take({ events, interactions, log, limited: afterAMinute }, body, ack),
    lost: () => intake.disconnected(),
    back,
    broken: (error) => intake.broken(error),
  });
  const platform: OpenPlatform = {
    sender,
    async connect() {
      await sender.start();
      if (!parts.signal.aborted) await connection.start();
    },
    async disconnect() {
      await connection.stop();
      events.stop();
    },
    async readHistory(channel, after) {
      await membership.check(channel);
      return readHistory({ ...shared, people }, channel, after);
    },
    failed: (channel, error) => membership.trouble(channel, error),
  };
  return { platform, connection };
}

type Takers = {
  readonly events: Events;
  readonly interactions: Interactions;
  readonly log: Logger;
  /** Slack leaves out events for a minute. */
  readonly limited: () => void;
};

const otherSchema = z.looseObject({ type: z.string().optional().catch(undefined) });

/** An event is acknowledged once it is durable; a click at once; what nobody understands as well, or it came again. */
async function take(takers: Takers, body: unknown, ack: Ack): Promise<void> {
  const { events, interactions, log, limited } = takers;
  const event = eventPayloadSchema.safeParse(body);
  if (event.success) {
    await events.event(event.data);
    return ack();
  }
  if (await interactions.take(body, ack)) return;
  const type = otherSchema.safeParse(body).data?.type ?? null;
  if (type === 'app_rate_limited') {
    log.warn('Slack drops events for a minute: there are too many; the history is read after it');
    limited();
  } else {
    log.warn({ type }, 'a payload of Slack was not understood');
  }
  await ack();
}

/** What speaking on Slack needs. `web` is a client from `createClient`. */
type SenderPorts = Pick<Parts, 'web' | 'queries' | 'clock' | 'timers' | 'log' | 'memory' | 'settings'> & {
  readonly self: Self;
};

/** Everything that Conch says and shows on Slack. */
export type Sender = MessageSender & {
  /** Learns what speaking needs. Never rejects. */
  start(): Promise<void>;
};

/** Speaks on Slack. */
export function createSender(ports: SenderPorts): Sender {
  const { queries, settings } = ports;
  const statuses = new Statuses({
    ...ports,
    ...settings,
    speakerOf: (agent) => queries.agents().find(({ id }) => id === agent) ?? { id: agent, name: agent, avatar: null },
  });
  const client = createMessageClient({ ...ports, posted: (channel) => statuses.posted(channel) });
  const sender = createMessageSender({ ...ports, client });
  return {
    ...sender,
    start: () => client.start(),
    receipt(channel, message, receipt) {
      statuses.anchor(channel, message);
      return sender.receipt(channel, message, receipt);
    },
    card(channel, view) {
      sender.card(channel, view);
      statuses.show(channel, view);
    },
    async stop() {
      await Promise.all([sender.stop(), statuses.stop()]);
    },
  };
}
