import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createDelivery } from './events-delivery.ts';
import type { Attempt, Delivery } from './events-delivery.ts';
import { origin } from './events.ts';
import { createFaults } from './faults.ts';
import type { Fault, Match } from './faults.ts';
import { createInteractions } from './server-interactions.ts';
import type { Interactions } from './server-interactions.ts';
import { createPeople } from './server-people.ts';
import type { People } from './server-people.ts';
import type { DisconnectReason } from './sockets.ts';
import { obey } from './server-control.ts';
import { isObject } from './state-text.ts';
import { addChannel, addGroup, addUser } from './state.ts';
import type { Channel, Json, World } from './state.ts';
import { chatMethods } from './web-chat.ts';
import { conversationMethods } from './web-conversations.ts';
import { fileMethods, serveFile } from './web-files.ts';
import { miscMethods } from './web-misc.ts';
import { streamMethods } from './web-streams.ts';
import { serveCall } from './web.ts';
import type { LoggedCall, Slack } from './web.ts';

/** The bot scopes of the fake app by default: those of Conch's manifest, and files:write. */
export const ALL_SCOPES: readonly string[] = [
  ...'app_mentions:read channels:history groups:history im:history channels:read groups:read chat:write'.split(' '),
  ...'chat:write.customize commands reactions:read reactions:write files:read files:write users:read'.split(' '),
  ...'usergroups:read im:read'.split(' '),
];

export type SlackOptions = {
  /** 0: any free port. */
  readonly port?: number;
  /** How long Slack waits for an acknowledgement, in milliseconds. Default: 3,000, as Slack. */
  readonly ackMs?: number;
  /** The delays of repetitions, in milliseconds. Default: 0, 60,000 and 300,000, as Slack. */
  readonly retryDelaysMs?: readonly number[];
  readonly botScopes?: readonly string[];
  readonly appScopes?: readonly string[];
  /** The URL for signed requests. Missing or `null`: Socket Mode. */
  readonly requestUrl?: string | null;
  readonly historyPerMinute?: number | null;
  readonly editWindowMs?: number | null;
  readonly now?: () => number;
  /** True: accepts control requests, POST /control/…. */
  readonly control?: boolean;
};

/** A fake Slack on 127.0.0.1 with one workspace, one app and its bot, three people and two channels. */
export type SlackServer = People &
  Interactions & {
    readonly port: number;
    /** The value for `slackApiUrl`. */
    readonly apiUrl: string;
    readonly botToken: string;
    readonly appToken: string;
    readonly signingSecret: string;
    readonly ids: {
      readonly team: string;
      readonly app: string;
      readonly bot: string;
      readonly botUser: string;
      /** A public channel with the bot and all people. */
      readonly channel: string;
      /** A private channel with the bot and all people. */
      readonly other: string;
      readonly ann: string;
      readonly bob: string;
      readonly eve: string;
    };
    readonly world: World;
    /** Every call of the Web API, oldest first. */
    readonly requests: readonly LoggedCall[];
    /** Every attempt to deliver an event, a command or a button press. */
    readonly attempts: readonly Attempt[];
    /** Payloads that were dropped after all attempts, or by a fault. */
    readonly lost: readonly Json[];
    user(name: string, bot?: boolean): string;
    channel(name: string, kind?: Channel['kind']): string;
    group(handle: string, users: readonly string[]): string;
    setGroup(group: string, users: readonly string[]): void;
    setScopes(scopes: readonly string[]): void;
    /** Sets a fault for the next call, or for as many as `match` says. Returns a function that removes it. */
    fail(match: Match | string, fault: Fault): () => void;
    heal(): void;
    readonly events: Pick<Delivery, 'duplicate' | 'drop' | 'reorder' | 'settled' | 'useHttp'> & {
      /** Sends an event with any payload. */
      odd(payload: Json): void;
      /** Sends any inner event in a valid payload. */
      emit(event: Json): void;
      rateLimited(): void;
    };
    readonly connections: {
      count(): number;
      opened(): number;
      /** Returns the number of connections that Slack closed because the client did not. */
      abandoned(): number;
      /** Asks one connection (by its position) or all to refresh: a warning, then a close after `afterMs`. */
      refresh(how?: { readonly which?: number; readonly afterMs?: number; readonly reason?: DisconnectReason }): void;
      drop(which?: number): void;
      silence(which?: number): void;
      /** Switches Socket Mode off in the app's settings. */
      disable(): void;
    };
    close(): Promise<void>;
  };

const METHODS = { ...chatMethods, ...streamMethods, ...conversationMethods, ...miscMethods, ...fileMethods };

/** Starts the server. Close it after the test. */
export async function startSlack(options: SlackOptions = {}): Promise<SlackServer> {
  const world = createWorld(options);
  const { ackMs = 3_000, retryDelaysMs = [0, 60_000, 300_000] } = options;
  const rules = { historyPerMinute: options.historyPerMinute ?? null, editWindowMs: options.editWindowMs ?? null };
  const delivery = createDelivery(world, { ackMs, retryDelaysMs });
  delivery.useHttp(options.requestUrl ?? null);
  const parts = { world, delivery, faults: createFaults(), log: [], options: rules };
  const slack: Slack = { ...parts, triggers: new Map(), hanging: new Set() };
  const interactions = createInteractions(slack);
  const server = createServer(
    (request, response) => void serve({ slack, interactions, whole: () => whole }, request, response),
  );
  let whole: object | null = null;
  server.on('upgrade', (request, socket, head) => delivery.sockets.upgrade(request, socket, head));
  await new Promise<void>((resolve) => void server.listen(options.port ?? 0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  origin.set(world, `http://127.0.0.1:${port}`);
  const running: SlackServer = {
    ...createPeople(slack),
    ...interactions,
    ...identity(world, port),
    ...setting(world),
    world,
    requests: slack.log,
    attempts: delivery.attempts,
    lost: delivery.lost,
    fail: (match, fault) => slack.faults.arm(match, fault),
    heal: () => slack.faults.clear(),
    events: eventControls(slack),
    connections: connectionControls(slack),
    async close() {
      delivery.close();
      for (const response of slack.hanging) response.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
  if (options.control === true) whole = running;
  return running;
}

function createWorld(options: SlackOptions): World {
  const tail = Math.random().toString(36).slice(2);
  const app = {
    id: 'A0LOOPBACK1',
    name: 'Conch',
    botId: 'B0LOOPBACK1',
    botUser: 'U0LOOPBACK1',
    botToken: `xoxb-loopback-${tail}`,
    appToken: `xapp-loopback-${tail}`,
    signingSecret: `secret${tail}`,
    botScopes: [...(options.botScopes ?? ALL_SCOPES)],
    appScopes: [...(options.appScopes ?? ['connections:write'])],
    revoked: null,
    socketMode: true,
  };
  const world: World = {
    team: { id: 'T0LOOPBACK1', name: 'Loopback', domain: 'loopback' },
    app,
    users: new Map([[app.botUser, { id: app.botUser, name: app.name, bot: true, deleted: false }]]),
    groups: new Map(),
    channels: new Map(),
    files: new Map(),
    ephemerals: [],
    views: new Map(),
    statuses: new Map(),
    sessions: new Map(),
    now: options.now ?? Date.now,
    lastMicros: 0,
    lastId: 0,
  };
  for (const name of ['Ann', 'Bob', 'Eve']) addUser(world, name);
  for (const channel of [addChannel(world, 'general'), addChannel(world, 'reviews', 'group')]) {
    for (const user of world.users.keys()) channel.members.add(user);
  }
  return world;
}

function identity(
  world: World,
  port: number,
): Pick<SlackServer, 'port' | 'apiUrl' | 'botToken' | 'appToken' | 'signingSecret' | 'ids'> {
  const { app } = world;
  const [channel = '', other = ''] = world.channels.keys();
  const [, ann = '', bob = '', eve = ''] = world.users.keys();
  const tokens = { botToken: app.botToken, appToken: app.appToken, signingSecret: app.signingSecret };
  const ids = { team: world.team.id, app: app.id, bot: app.botId, botUser: app.botUser, channel, other, ann, bob, eve };
  return { port, apiUrl: `http://127.0.0.1:${port}/api/`, ...tokens, ids };
}

function setting(world: World): Pick<SlackServer, 'user' | 'channel' | 'group' | 'setGroup' | 'setScopes'> {
  return {
    user: (name, bot) => addUser(world, name, bot).id,
    channel(name, kind = 'channel') {
      const channel = addChannel(world, name, kind);
      for (const user of world.users.keys()) channel.members.add(user);
      return channel.id;
    },
    group: (handle, users) => addGroup(world, handle, users).id,
    setGroup(id, users) {
      const group = world.groups.get(id);
      if (group !== undefined) group.users = [...users];
    },
    setScopes(scopes) {
      world.app.botScopes = [...scopes];
    },
  };
}

function eventControls({ world, delivery }: Slack): SlackServer['events'] {
  const limited = () => ({ type: 'app_rate_limited', minute_rate_limited: Math.floor(world.now() / 1_000) });
  const names = { token: 'verification', team_id: world.team.id, api_app_id: world.app.id };
  return {
    duplicate: (how, times) => delivery.duplicate(how, times),
    drop: (times) => delivery.drop(times),
    reorder: () => delivery.reorder(),
    settled: () => delivery.settled(),
    useHttp: (url) => delivery.useHttp(url),
    odd: (payload) => void delivery.raw('events_api', payload),
    emit: (event) => void delivery.event(event),
    rateLimited: () => void delivery.raw('events_api', { ...names, ...limited() }),
  };
}

function connectionControls({ world, delivery: { sockets } }: Slack): SlackServer['connections'] {
  return {
    count: () => sockets.open().length,
    opened: () => sockets.opened(),
    abandoned: () => sockets.abandoned(),
    refresh({ which, afterMs, reason = 'refresh_requested' } = {}) {
      sockets.disconnect(reason, {
        ...(which === undefined ? {} : { which }),
        ...(afterMs === undefined ? {} : { afterMs }),
      });
    },
    drop: (which) => sockets.drop(which),
    silence: (which) => sockets.silence(which),
    disable() {
      world.app.socketMode = false;
      sockets.disconnect('link_disabled');
    },
  };
}

async function serve(
  { slack, interactions, whole }: { slack: Slack; interactions: Interactions; whole: () => object | null },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  response.on('error', () => undefined);
  const body = await bodyOf(request);
  if (body === null) return;
  const { pathname } = new URL(request.url ?? '/', 'http://loopback');
  if (pathname.startsWith('/api/')) return serveCall(slack, METHODS, { request, response, body });
  if (pathname.startsWith('/response/')) {
    const answer = interactions.respond(pathname.slice('/response/'.length), parsed(body));
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    return void response.end(JSON.stringify(answer.body));
  }
  const target = whole();
  if (pathname.startsWith('/control/') && target !== null) {
    const answer = await obey(target, pathname.slice('/control/'.length), JSON.parse(body.toString('utf8') || '[]'));
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    return void response.end(JSON.stringify(answer.body));
  }
  serveFile(slack, { request, response, body });
}

async function bodyOf(request: IncomingMessage): Promise<Buffer | null> {
  try {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    return Buffer.concat(parts);
  } catch {
    return null;
  }
}

function parsed(body: Buffer): Json {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
