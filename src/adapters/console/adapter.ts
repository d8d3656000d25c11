import { join } from 'node:path';
import type { Logger } from 'pino';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Clock } from '../../lib/time.ts';
import { defined } from '../../lib/defined.ts';
import { makePrivateFolder } from '../../lib/private-file.ts';
import { systemTimers } from '../../lib/time.ts';
import type { Answer } from '../../turns/commands/context.ts';
import { ChatError } from '../port.ts';
import type { Capabilities, ChatAdapter, FloorQueries, Intake, Principal } from '../port.ts';
import { sessionToken } from './access.ts';
import { AuditReaders } from './audit.ts';
import type { Client } from './hub.ts';
import type { Platform } from './platform.ts';
import { LONGEST_TEXT } from './protocol.ts';
import { startServer } from './server.ts';
import type { ConsoleServer, Health, RunSources, MaintenanceOrder } from './server.ts';
import { Talk } from './talk.ts';

/** The person at the console: anyone who can read the token or was given a link. */
export const CONSOLE_PERSON: Principal = { id: 'console:you', name: 'You', roles: [] };

const CAPABILITIES: Capabilities = {
  textLimit: LONGEST_TEXT,
  idempotentPosts: true,
  fileAbove: null,
  oversees: true,
};

/** Settings and parts of the console. */
export type ConsoleOptions = {
  /** Folder for the file `console-token`; created if absent. */
  readonly dataDir: string;
  /** Store of the console's messages. */
  readonly platform: Platform;
  /** The port of the console's server; 0 takes any free port. */
  readonly port: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** Carries out a backup, prune or erasure that a program with the console's token orders. */
  readonly maintenance?: (order: MaintenanceOrder) => Promise<Answer>;
  /** Status of the database; `ok` by default. */
  readonly database?: () => Health['database']['status'];
  /** Tool servers that wait for a login; none by default. */
  readonly toolsAwaitingLogin?: () => readonly unknown[];
  /** Folder of the built page; Conch's `dist/console` by default. */
  readonly pageDir?: string;
};

/** The console's adapter, with methods that other adapters do not have. */
export type ConsoleAdapter = ChatAdapter & {
  /** Address of the page; `null` while the console does not run. */
  readonly url: string | null;
  /**
   * Returns a link that gives one browser access, once; `null` while the console does not run. The link is a secret:
   * never put it into a message.
   */
  accessLink(): string | null;
  /** Ends the status `starting` of `/healthz`. */
  setReady(): void;
  /** Sets the sources of run events and tool calls, for the page and for programs with the console's token. */
  setRuns(runs: RunSources): void;
};

type Running = { readonly talk: Talk; readonly server: ConsoleServer };

type State = { isReady: boolean; runs: RunSources | null; readers: AuditReaders<Client> | null };

/** Creates the adapter of Conch's own chat platform: a page, stored messages, and the endpoint of `conch ctl`. */
export function createConsoleAdapter(options: ConsoleOptions): ConsoleAdapter {
  let running: Running | null = null;
  const state: State = { isReady: false, runs: null, readers: null };
  const requireTalk = (method: string, channel: ChannelId): Talk => {
    if (running !== null) return running.talk;
    throw new ChatError('The console is not running', { method, channel, fault: 'unreachable' });
  };
  return {
    name: 'console',
    capabilities: CAPABILITIES,
    get url() {
      return running?.server.url ?? null;
    },
    accessLink: () => running?.server.link() ?? null,
    setReady: () => void (state.isReady = true),
    setRuns(runs) {
      state.runs = runs;
      state.readers = new AuditReaders(runs.audit, (client, frame) => running?.talk.hub.send(client, frame));
    },
    async start(intake, queries) {
      running = await run(options, { intake, queries }, state);
    },
    async stop() {
      const stopping = running;
      running = null;
      state.readers?.stop();
      stopping?.talk.stop();
      await stopping?.server.close();
    },
    post: async (channel, post) => requireTalk('post', channel).post(channel, post),
    openThread: async (channel, name, key) => ({ id: `${channel}/${key}`, parent: channel, name }),
    async find(channel, { outboxId }) {
      requireTalk('find', channel);
      return options.platform.byNonce(outboxId)?.id ?? null;
    },
    async edit(channel, id, text) {
      await requireTalk('edit', channel).change('edit', channel, (platform) => platform.edit(channel, id, text));
      return 'changed';
    },
    receipt: async (channel, id, receipt) =>
      requireTalk('receipt', channel).change('receipt', channel, (platform) => platform.receipt(channel, id, receipt)),
    draft(channel, speaker, epoch, text) {
      running?.talk.hub.draft(channel, speaker.id, text === null ? null : { epoch, text });
    },
    notice: (channel, text) => running?.talk.hub.notice(channel, text),
    card: (channel) => running?.talk.hub.card(channel),
    catchUp: async (channel, after) => requireTalk('catchUp', channel).readBack(channel, after),
    channelsToCatchUp: () => options.platform.channelsToCatchUp(),
  };
}

type Ports = { readonly intake: Intake; readonly queries: FloorQueries };

async function run(options: ConsoleOptions, ports: Ports, state: State): Promise<Running> {
  const { clock, log, dataDir, platform, port, pageDir } = options;
  makePrivateFolder(dataDir);
  const talk = new Talk({ ...ports, person: CONSOLE_PERSON, platform, audits: () => state.readers, clock, log });
  try {
    const server = await startServer({
      host: '127.0.0.1',
      port,
      token: sessionToken(join(dataDir, 'console-token')),
      ...defined({ pageDir }),
      log,
      health: () => healthOf(options, ports.queries, state.isReady),
      welcome: (socket) => talk.welcome(socket),
      command: (channel, line) => talk.command(channel, line),
      runs: () => state.runs,
      crew: (channel, most) => ports.queries.crew?.(channel, most) ?? null,
      timers: systemTimers,
      clock,
      maintenance: async (order) => maintenance(options, state, order),
    });
    return { talk, server };
  } catch (error) {
    talk.stop();
    throw error;
  }
}

async function maintenance(options: ConsoleOptions, state: State, order: MaintenanceOrder): Promise<Answer> {
  const answer = await options.maintenance?.(order);
  if (order.act === 'erase') state.runs?.forget?.();
  return answer ?? { ok: false, text: 'This Conch keeps no database.' };
}

function healthOf({ database, toolsAwaitingLogin }: ConsoleOptions, floors: FloorQueries, isReady: boolean): Health {
  const status = database?.() ?? 'ok';
  const isStuck = status !== 'ok' && status !== 'degraded';
  const logins = toolsAwaitingLogin?.().length ?? 0;
  return {
    status: !isReady ? 'starting' : isStuck ? 'stuck' : 'ready',
    agents: agentsIn(floors),
    tools: { status: logins === 0 ? 'ok' : 'degraded', logins },
    database: { status },
  };
}

function agentsIn(floors: FloorQueries): Health['agents'] {
  const seats = floors.awake().flatMap((channel) => floors.view(channel)?.seats ?? []);
  const missing = seats.filter(({ disabled, status }) => !disabled && status === 'OFFLINE');
  const of = floors.agents().length;
  const offline = new Set(missing.map(({ agent }) => agent)).size;
  return { status: offline === 0 ? 'ok' : offline < of ? 'degraded' : 'down', offline, of };
}
