import { join } from 'node:path';
import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import { guardSocket } from '../../lib/guarded-server.ts';
import { makePrivateFolder } from '../../lib/private-file.ts';
import { systemTimers } from '../../lib/time.ts';
import { createInboundQueue } from '../delivery/inbound.ts';
import type { InboundQueue } from '../delivery/inbound.ts';
import { ChatError } from '../port.ts';
import type { Answer } from '../../turns/commands/context.ts';
import type { Capabilities, ChatAdapter, History, Intake, FloorQueries, OutgoingPost, Principal } from '../port.ts';
import { AuditReaders } from './audit.ts';
import type { UpkeepOrder } from './command-endpoint.ts';
import { Hub } from './hub.ts';
import type { Client } from './hub.ts';
import type { Platform } from './platform.ts';
import { LONGEST_TEXT } from './protocol.ts';
import type { ChatMessage } from './protocol.ts';
import { startServer } from './server.ts';
import type { ConsoleServer, Health, RunsTold } from './server.ts';
import { hear, toHuman } from './talk.ts';
import type { Talk } from './talk.ts';
import { sessionToken } from './access.ts';
import { createWindow } from './window.ts';
import { defined } from '../../lib/defined.ts';

/** Who sits at the console: whoever can read the token, or was given a link. */
export const CONSOLE_PERSON: Principal = { id: 'console:you', name: 'You', roles: [] };

const CAPABILITIES: Capabilities = {
  textLimit: LONGEST_TEXT,
  edits: true,
  receipts: true,
  cards: true,
  drafts: true,
  idempotentPosts: true,
  fileAbove: null,
  oversees: true,
};

/** How many messages a first start reads back. */
const FIRST_CATCH_UP = 500;
const CATCH_UP_LIMIT = 100_000;

/** Where the console lives and what it is given. */
export type ConsoleOptions = {
  /** An existing or new folder for `console-token`. */
  readonly dataDir: string;
  /** What stands in its channels. */
  readonly platform: Platform;
  /** 0 takes any free port. */
  readonly port: number;
  readonly host?: '127.0.0.1';
  readonly clock: Clock;
  readonly log: Logger;
  readonly timers?: Timers;
  readonly person?: Principal;
  /** Works on the database that only this process may write to; asked by whoever has the token. */
  readonly upkeep?: (order: UpkeepOrder) => Promise<Answer>;
  /** How the database is; well unless told. */
  readonly database?: () => Health['database']['status'];
  /** At which servers of tools somebody has to sign in; at none unless told. */
  readonly waiting?: () => readonly unknown[];
  /** The folder of the built page, if it is not the one that `npm install` builds. */
  readonly pageDir?: string;
};

/** The console as an adapter, and what only it has. */
export type ConsoleAdapter = ChatAdapter & {
  /** Where the page is, once started. */
  readonly url: string | null;
  /** A new address of the page that lets one browser in, once; `null` before the start. */
  link(): string | null;
  /** From now on `/healthz` says ready. */
  setReady(): void;
  /** From now on programs with the token are told of runs, and the page looks into tool calls; called once. */
  tell(runs: RunsTold): void;
};

type Running = {
  readonly platform: Platform;
  readonly hub: Hub;
  readonly inbound: InboundQueue;
  readonly server: ConsoleServer;
};

/** A chat platform of its own on this machine: a page, a durable store of messages, and `conch ctl`'s door. */
export function createConsoleAdapter(options: ConsoleOptions): ConsoleAdapter {
  let running: Running | null = null;
  let ready = false;
  let told: Told | null = null;
  const up = (method: string, channel: ChannelId): Running => {
    if (running !== null) return running;
    throw new ChatError('The console is not running', { method, channel, fault: 'unreachable' });
  };
  return {
    name: 'console',
    capabilities: CAPABILITIES,
    get url() {
      return running?.server.url ?? null;
    },
    link: () => running?.server.link() ?? null,
    setReady: () => void (ready = true),
    tell(runs) {
      const readers = new AuditReaders<Client>(runs.audit, (client, frame) => running?.hub.send(client, frame));
      told = { runs, readers };
    },
    async start(intake, queries) {
      running = await run(options, { intake, queries }, { isReady: () => ready, told: () => told });
    },
    async stop() {
      const stopping = running;
      running = null;
      told?.readers.stop();
      if (stopping !== null) await halt(stopping);
    },
    post: async (channel, post) => publish(up('post', channel), channel, post),
    find: async (channel, post) => up('find', channel).platform.byNonce(post.outboxId)?.id ?? null,
    async edit(channel, platformId, text) {
      const { platform, hub } = up('edit', channel);
      hub.changed(channel, known(await stored('edit', channel, platform.edit(channel, platformId, text)), channel));
      return 'changed';
    },
    async receipt(channel, message, receipt) {
      const { platform, hub } = up('receipt', channel);
      const changed = await stored('receipt', channel, platform.receipt(channel, message, receipt));
      hub.changed(channel, known(changed, channel));
    },
    draft(channel, speaker, epoch, text) {
      running?.hub.draft(channel, speaker, text === null ? null : { epoch, text });
    },
    notice: (channel, text) => running?.hub.notice(channel, text),
    card: (channel) => running?.hub.card(channel),
    catchUp: async (channel, after) => readBack(up('catchUp', channel).platform, channel, after),
    unheard: () => options.platform.unheard(),
  };
}

type Ports = { readonly intake: Intake; readonly queries: FloorQueries };

/** What becomes known after the start. */
type Later = { readonly isReady: () => boolean; readonly told: () => Told | null };

type Told = { readonly runs: RunsTold; readonly readers: AuditReaders<Client> };

async function run(options: ConsoleOptions, ports: Ports, later: Later): Promise<Running> {
  const { clock, log, dataDir, platform } = options;
  makePrivateFolder(dataDir);
  const window = createWindow(ports.queries);
  const refresh = (channel: ChannelId): void => {
    if (isOwn(ports.queries, channel)) return;
    const { messages, changed } = window.look(channel);
    for (const message of messages) hub.message(channel, message);
    for (const message of changed) hub.changed(channel, message);
  };
  const hub = new Hub({ clock, log, queries: ports.queries, refresh });
  const delayed = (channel: ChannelId, why: string): void =>
    hub.notice(channel, `Your message is kept, but Conch could not take it yet (${why}). It is tried again by itself.`);
  const inbound = createInboundQueue({ log, timers: systemTimers, delayed });
  const person = options.person ?? CONSOLE_PERSON;
  const talk: Talk = {
    ...ports,
    person,
    platform,
    window,
    inbound,
    hub,
    audits: () => later.told()?.readers ?? null,
    clock,
    log,
  };
  try {
    const server = await startServer({
      host: options.host ?? '127.0.0.1',
      port: options.port,
      token: sessionToken(join(dataDir, 'console-token')),
      ...defined({ pageDir: options.pageDir }),
      log,
      health: () => healthOf(options, ports.queries, later.isReady()),
      welcome: (socket) => welcome(talk, socket),
      command: (channel, line) => ctl(ports, person, { channel, line }),
      runs: () => later.told()?.runs ?? null,
      timers: options.timers ?? systemTimers,
      clock,
      upkeep: async (order) => upkeep(options, later, order),
    });
    return { platform, hub, inbound, server };
  } catch (error) {
    hub.stop();
    throw error;
  }
}

async function upkeep(options: ConsoleOptions, later: Later, order: UpkeepOrder): Promise<Answer> {
  const answer = await options.upkeep?.(order);
  if (order.act === 'erase') later.told()?.runs.forget?.();
  return answer ?? { ok: false, text: 'This Conch keeps no database.' };
}

function healthOf({ database, waiting }: ConsoleOptions, floors: FloorQueries, isReady: boolean): Health {
  const status = database?.() ?? 'ok';
  const isStuck = status === 'full' || status === 'locked';
  const agents = agentsIn(floors);
  const logins = waiting?.().length ?? 0;
  const tools = { status: logins === 0 ? 'ok' : 'degraded', logins } as const;
  return { status: !isReady ? 'starting' : isStuck ? 'stuck' : 'ready', agents, tools, database: { status } };
}

/** How many of the agents are OFFLINE, and not disabled, in one of their channels: at a floor at rest all are there. */
function agentsIn(floors: FloorQueries): Health['agents'] {
  const seats = floors.awake().flatMap((channel) => floors.view(channel)?.seats ?? []);
  const gone = seats.filter(({ disabled, status }) => !disabled && status === 'OFFLINE');
  const of = floors.agents().length;
  const offline = new Set(gone.map(({ agent }) => agent)).size;
  return { status: offline === 0 ? 'ok' : offline < of ? 'degraded' : 'down', offline, of };
}

async function halt({ hub, inbound, server }: Running): Promise<void> {
  inbound.stop();
  hub.stop();
  await server.close();
}

function welcome(talk: Talk, socket: WebSocket): void {
  const guarded = guardSocket(socket, (error) => talk.log.error({ err: error }, 'what a page sent could not be taken'));
  const client = talk.hub.join(socket);
  const listen = async (frame: RawData, isBinary: boolean): Promise<void> => {
    if (isBinary) return talk.hub.send(client, { type: 'refused', key: null, text: 'Only text frames are read here.' });
    await hear(talk, client, (frame as Buffer).toString('utf8'));
  };
  socket.on('message', guarded(listen));
  socket.on('error', (error) => talk.log.debug({ err: error }, 'the connection of a page failed'));
  socket.on('close', () => {
    talk.hub.leave(client);
    void talk.audits()?.open(client, null);
  });
}

async function ctl(
  ports: Ports,
  person: Principal,
  asked: { readonly channel: string | null; readonly line: string },
): Promise<Answer> {
  const channels = ports.queries.channels();
  const named = channels.filter((one) => one.id === asked.channel || one.name === asked.channel);
  const fitting = asked.channel === null ? channels : named;
  const [only] = fitting;
  if (only !== undefined && fitting.length === 1) return ports.intake.command(only.id, person, asked.line);
  const list = channels.map((one) => one.id).join(', ') || 'none';
  const why = asked.channel === null ? 'Say which channel with --channel.' : `There is no channel ${asked.channel}.`;
  return { ok: false, text: `${why} Channels here: ${list}` };
}

async function publish({ platform, hub }: Running, channel: ChannelId, post: OutgoingPost): Promise<string> {
  const { speaker, text, epoch, outboxId } = post;
  if (text.length > LONGEST_TEXT) {
    throw new ChatError('The text is too long for the console', { method: 'post', channel, fault: 'refused' });
  }
  const writing = platform.add({
    channel,
    kind: speaker === null ? 'system' : 'agent',
    speaker: speaker === null ? { id: 'conch', name: 'Conch', avatar: null } : { ...speaker },
    text: text.toWellFormed(),
    epoch,
    replyTo: post.asks ?? null,
    nonce: outboxId,
  });
  const { message, fresh } = await stored('post', channel, writing);
  if (fresh) hub.message(channel, message);
  return message.id;
}

/** A failed commit was rolled back: nothing was executed. */
async function stored<T>(method: string, channel: ChannelId, writing: Promise<T>): Promise<T> {
  try {
    return await writing;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new ChatError(`The console could not write: ${why}`, { method, channel, fault: 'limited', cause: error });
  }
}

function known(message: ChatMessage | null, channel: ChannelId): ChatMessage {
  if (message !== null) return message;
  throw new ChatError('There is no such message', { method: 'change', channel, fault: 'refused' });
}

function readBack(platform: Platform, channel: ChannelId, after: { readonly order: string } | null): History {
  const found = platform.written(channel, CATCH_UP_LIMIT, after === null ? 0 : Number(after.order));
  const messages = after === null ? found.slice(-FIRST_CATCH_UP) : found;
  const missing = found.length === CATCH_UP_LIMIT || messages.length < found.length;
  return {
    messages: messages.map((message) => toHuman(platform, channel, message)),
    changes: [],
    gap: missing ? `only ${messages.length} messages of the console's history were read` : null,
  };
}

function isOwn(queries: FloorQueries, channel: ChannelId): boolean {
  return queries.channels().some((one) => one.id === channel && one.adapter === 'console');
}
