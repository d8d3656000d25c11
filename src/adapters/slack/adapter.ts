import type { Logger } from 'pino';
import { z } from 'zod';
import type { WebClient } from '@slack/web-api';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import { AdapterError, ChatError } from '../port.ts';
import type { Capabilities, ChatAdapter, History, Intake, Memory, Observatory, Position } from '../port.ts';
import { createFirstTime } from '../delivery/typed-command.ts';
import { createClient } from './client.ts';
import { typed } from './commands.ts';
import type { Ack, CommandPorts } from './commands.ts';
import { createConnection } from './connection.ts';
import type { Connection, ConnectionMode } from './connection.ts';
import { createGroups } from './groups.ts';
import { createHearing, eventPayloadSchema } from './hearing.ts';
import type { Hearing } from './hearing.ts';
import { readHistory } from './history.ts';
import type { HistoryPorts } from './history.ts';
import { createInteractions } from './interactions.ts';
import type { Interactions } from './interactions.ts';
import { createOnce } from './once.ts';
import { createSender } from './sender.ts';
import type { Sender } from './sender.ts';
import type { Self, SlackSettings } from './client.ts';
import { createPeople } from './people.ts';
import { createReach, Stopped } from './reach.ts';
import type { Reach } from './reach.ts';
import { Standing } from './standing.ts';

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
  const reach = createReach(options);
  let running: Running | null = null;
  const up = (method: string, channel: ChannelId): Running => running ?? notConnected(method, channel);
  async function said<T>(method: string, channel: ChannelId, work: (sender: Sender) => Promise<T>): Promise<T> {
    const { sender, standing } = up(method, channel);
    try {
      return await work(sender);
    } catch (error) {
      standing.trouble(channel, error);
      throw error;
    }
  }
  return {
    name: 'slack',
    capabilities: CAPABILITIES,
    get url() {
      return running?.connection.url ?? null;
    },
    async start(intake, observatory) {
      try {
        const self = await reach.answer('SLACK_BOT_TOKEN', () => whoWeAre(web));
        const made = assemble(options, { web, reach, self }, { intake, observatory });
        running = made;
        await made.sender.start();
        if (running === made) await made.connection.start();
      } catch (error) {
        if (!(error instanceof Stopped)) throw error;
      }
    },
    async stop() {
      reach.stop();
      const stopping = running;
      running = null;
      if (stopping !== null) await halt(stopping);
    },
    post: (channel, post) => said('post', channel, (sender) => sender.post(channel, post)),
    find: (channel, post) => said('find', channel, (sender) => sender.find(channel, post)),
    edit: (channel, platformId, text) => said('edit', channel, (sender) => sender.edit(channel, platformId, text)),
    receipt: (channel, message, receipt) =>
      said('receipt', channel, (sender) => sender.receipt(channel, message, receipt)),
    draft: (channel, speaker, epoch, text) => running?.sender.draft(channel, speaker, epoch, text),
    card: (channel, view) => running?.sender.card(channel, view),
    catchUp: async (channel, after) => catchUp(up('catchUp', channel), channel, after),
  };
}

function notConnected(method: string, channel: ChannelId): never {
  const where = { method, channel, fault: 'unreachable', retryAfterMs: CONNECTING_MS } as const;
  throw new ChatError('Slack is not connected', where);
}

type Running = {
  readonly sender: Sender;
  readonly hearing: Hearing;
  readonly connection: Connection;
  readonly history: HistoryPorts;
  readonly standing: Standing;
};

async function halt({ connection, hearing, sender }: Running): Promise<void> {
  await connection.stop();
  hearing.stop();
  await sender.stop();
}

async function catchUp(running: Running, channel: ChannelId, after: Position | null): Promise<History> {
  const { history, sender, standing } = running;
  await standing.check(channel);
  const found = await readHistory(history, channel, after);
  await sender.tidy(channel);
  return found;
}

type Parts = { readonly web: WebClient; readonly reach: Reach; readonly self: Self };
type Ports = { readonly intake: Intake; readonly observatory: Observatory };

const LIMITED_FOR_MS = 60_000;
/** While Slack is being connected, waiting longer each time would only keep a post back once it is. */
const CONNECTING_MS = 1_000;
const selfSchema = z.looseObject({
  user_id: z.string(),
  bot_id: z.string().nullish(),
  team_id: z.string(),
  app_id: z.string().nullish(),
});

async function whoWeAre(web: WebClient): Promise<Self> {
  const { user_id: userId, bot_id: botId, team_id: teamId, app_id: appId } = selfSchema.parse(await web.auth.test());
  if (botId) return { userId, botId, teamId, appId: appId ?? null };
  const todo =
    'Copy the Bot User OAuth Token, which begins with xoxb-, from the page "OAuth & Permissions" of your app.';
  throw new AdapterError(`SLACK_BOT_TOKEN is the token of a person, not of a bot. ${todo}`, { adapter: 'slack' });
}

function assemble(options: AdapterOptions, { web, reach, self }: Parts, ports: Ports): Running {
  const { clock, timers, log, memory, settings, userGroups } = options;
  const shared = { ...ports, web, clock, timers, log, self: () => self, once: createOnce(clock), userGroups };
  const people = createPeople(shared);
  const sender = createSender({ ...shared, memory, settings });
  const standing = new Standing(shared);
  const commands: CommandPorts = { ...shared, people, groups: createGroups(shared) };
  const hearing = createHearing({
    ...shared,
    people,
    standing,
    agentSessions: settings.agentSessions,
    typed: (command) => void typed(commands, command),
    isFirst: createFirstTime(memory),
    seen: (channel) => sender.seen(channel),
  });
  const interactions = createInteractions(commands);
  const back = (): void => ports.intake.reconnected({ missed: 'perhaps' });
  const connection = createConnection({
    ...options,
    web,
    reach,
    take: (body, ack) => take({ hearing, interactions, reach, log, back }, body, ack),
    lost: () => ports.intake.disconnected(),
    back,
    broken: (error) => ports.intake.broken(error),
  });
  return { sender, hearing, connection, history: { ...shared, people }, standing };
}

type Takers = {
  readonly hearing: Hearing;
  readonly interactions: Interactions;
  readonly reach: Reach;
  readonly log: Logger;
  readonly back: () => void;
};

const otherSchema = z.looseObject({ type: z.string().optional().catch(undefined) });

/** An event is acknowledged once it is durable; a click at once; what nobody understands as well, or it came again. */
async function take(takers: Takers, body: unknown, ack: Ack): Promise<void> {
  const { hearing, interactions, reach, log, back } = takers;
  const event = eventPayloadSchema.safeParse(body);
  if (event.success) {
    await hearing.event(event.data);
    return ack();
  }
  if (await interactions.take(body, ack)) return;
  const type = otherSchema.safeParse(body).data?.type ?? null;
  if (type === 'app_rate_limited') {
    log.warn('Slack drops events for a minute: there are too many; the history is read after it');
    void afterwards(reach, back);
  } else {
    log.warn({ type }, 'a payload of Slack was not understood');
  }
  await ack();
}

async function afterwards(reach: Reach, back: () => void): Promise<void> {
  await reach.pause(LIMITED_FOR_MS);
  if (!reach.isStopped) back();
}
