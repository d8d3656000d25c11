import { z } from 'zod';
import type { WebClient } from '@slack/web-api';
import { delay } from '../../lib/retry.ts';
import type { AgentId } from '../../turns/floor/settings.ts';
import { createChatAdapter, createMessageSender } from '../delivery/chat-adapter.ts';
import type { OpenPlatform } from '../delivery/chat-adapter.ts';
import type { AdapterParts, Capabilities, ChatAdapter } from '../port.ts';
import { createConnectRetry } from '../delivery/connect-retry.ts';
import { createDeduplicator, createFirstTime } from '../delivery/inbound.ts';
import { defined } from '../../lib/defined.ts';
import {
  NEW_SECRET,
  channelId,
  createClient,
  createPeople,
  platformMessage,
  slackError,
  untilSlack,
} from './client.ts';
import type { MessageId } from '../../turns/floor/settings.ts';
import type { Self, SlackSettings } from './client.ts';
import { createGroups } from './commands.ts';
import type { CommandPorts, Groups } from './commands.ts';
import { createInteractions } from './interactions.ts';
import { createConnection } from './connection.ts';
import type { ConnectionMode } from './connection.ts';
import { createEvents } from './events.ts';
import { readHistory } from './history.ts';
import { ChannelMembership } from './channel-membership.ts';
import { createMessageClient } from './message-client.ts';

/** Tokens, connection and settings of the Slack adapter. */
export type AdapterOptions = Pick<AdapterParts, 'clock' | 'timers' | 'log' | 'memory'> & {
  readonly botToken: string;
  /** App-level token, for Socket Mode. */
  readonly appToken: string | null;
  /** Verifies signed requests, for `http` mode. */
  readonly signingSecret: string | null;
  /** Base URL of Slack's Web API, ends in `/api/`; `null` for Slack itself. */
  readonly apiUrl: string | null;
  readonly connection: ConnectionMode;
  readonly settings: SlackSettings;
  /** The agent addressed by a mention of a Slack user group, by group id. */
  readonly userGroups: Readonly<Record<string, AgentId>>;
};

/** What the Slack adapter can do. */
export const CAPABILITIES: Capabilities = {
  textLimit: 3_800,
  // A closed question is edited into a short text. So an open question may fill almost a whole markdown block (12,000).
  questionLimit: 11_000,
  idempotentPosts: false,
  fileAbove: null,
  losesEvents: true,
};

/** Returns the adapter for Slack: one app in one workspace. */
export function createAdapter(options: AdapterOptions): ChatAdapter {
  const web = createClient({ token: options.botToken, apiUrl: options.apiUrl });
  const groups = createGroups({ ...options, web });
  const adapter = createChatAdapter({
    name: 'slack',
    title: 'Slack',
    capabilities: CAPABILITIES,
    async open(ports) {
      const connectWithRetry = createConnectRetry('Slack', { ...options, ...ports });
      const self = await connectWithRetry(() => whoWeAre(web), untilSlack('SLACK_BOT_TOKEN'));
      return assemble({ ...options, ...ports, web, groups }, self);
    },
  });
  return { ...adapter, rolesOf: (person) => groups.rolesOf(person, true) };
}

type Parts = AdapterOptions &
  Pick<AdapterParts, 'intake' | 'queries' | 'signal'> & { readonly web: WebClient; readonly groups: Groups };

const LIMITED_FOR_MS = 60_000;
const selfSchema = z.looseObject({
  user_id: z.string(),
  bot_id: z.string().nullish(),
  app_id: z.string().nullish(),
  url: z.url().optional().catch(undefined),
});

async function whoWeAre(web: WebClient): Promise<Self> {
  const { user_id: userId, bot_id: botId, app_id: appId, url } = selfSchema.parse(await web.auth.test());
  if (botId) return { userId, botId, appId: appId ?? null, ...defined({ url }) };
  throw slackError('SLACK_BOT_TOKEN is the token of a person, not of a bot', NEW_SECRET.SLACK_BOT_TOKEN);
}

function linkTo(message: MessageId, { url }: Self): string | null {
  const { channel, ts } = platformMessage(message);
  return url === undefined ? null : `${url}archives/${channel}/p${ts.replace('.', '')}`;
}

function assemble(parts: Parts, self: Self): OpenPlatform {
  const { intake, clock, memory, settings } = parts;
  const common = { ...parts, self, deduplicator: createDeduplicator(clock) };
  const people = createPeople(common);
  const client = createMessageClient(common);
  const sender = createMessageSender({ ...common, client });
  const membership = new ChannelMembership({ ...common, reopened: sender.reopened });
  const commands: CommandPorts = { ...common, people };
  const reportReconnected = (): void => intake.reconnected({ missed: 'perhaps' });
  const events = createEvents({
    ...common,
    people,
    membership,
    agentSessions: settings.agentSessions,
    isFirst: createFirstTime(memory),
    sender,
    interactions: createInteractions(commands),
    onRateLimited: () => void delay(LIMITED_FOR_MS, parts).then(reportReconnected, () => undefined),
  });
  const connection = createConnection({
    ...parts,
    take: events.take,
    onLost: () => intake.disconnected(),
    onBack: reportReconnected,
    broken: (error) => intake.broken(error),
  });
  return {
    sender,
    async connect() {
      await client.start();
      if (!parts.signal.aborted) await connection.start();
    },
    async disconnect() {
      await connection.stop();
      events.stop();
    },
    async readHistory(channel, after, mark = null) {
      await membership.checkBeforeCatchUp(channel);
      return readHistory({ ...common, people, mark }, channel, after);
    },
    access: membership,
    link: (_channel, message) => linkTo(message, self),
    // Sends no request: a thread of Slack begins with the first reply under its message.
    threadUnder: async ({ id }) => {
      const { channel, ts } = platformMessage(id);
      return channelId(channel, ts);
    },
  };
}
