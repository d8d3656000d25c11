import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PermissionFlagsBits } from 'discord.js';
import type { Fault, Match, SetFault } from './faults.ts';
import { Gateway } from './gateway.ts';
import { Rest } from './rest.ts';
import type { RateLimit } from './rest-limits.ts';
import { commands } from './server-commands.ts';
import { control } from './server-control.ts';
import { moderators } from './server-moderators.ts';
import type { PermissionName } from './server-moderators.ts';
import { people } from './server-people.ts';
import type { Interaction } from './state-interactions.ts';
import { addChannel, addGuild, newWorld } from './state.ts';
import type { World } from './state.ts';

/** Options of a fake Discord. */
export type DiscordOptions = {
  /** 0: any free port. */
  readonly port?: number;
  readonly token?: string;
  /** Permissions of the bot's role. */
  readonly permissions?: readonly PermissionName[];
  /** Whether this privileged intent is switched on for the application. Default: on. */
  readonly messageContent?: boolean;
  readonly membersIntent?: boolean;
  readonly heartbeatMs?: number;
  readonly maxConcurrency?: number;
  readonly identifyLimit?: number;
  /** How long a nonce is remembered. Default: 2 minutes. */
  readonly nonceMs?: number;
  /** How far Discord's clock is ahead of this machine's. */
  readonly clockSkewMs?: number;
  /** The rate limit of each route and channel. The default is too high for a test to reach. */
  readonly rateLimit?: RateLimit;
};

/** The default permissions of the bot: all that Conch needs. */
export const INVITED: readonly PermissionName[] = [
  'ViewChannel',
  'SendMessages',
  'SendMessagesInThreads',
  'EmbedLinks',
  'AttachFiles',
  'ReadMessageHistory',
  'AddReactions',
  'ManageWebhooks',
  'ManageMessages',
  'PinMessages',
  'ManageRoles',
  'CreatePublicThreads',
];

export type DiscordServer = Awaited<ReturnType<typeof startDiscord>>;

/** Starts a fake Discord on 127.0.0.1 with one guild and one channel. Its data is lost when it closes. */
export async function startDiscord(options: DiscordOptions = {}) {
  const world = newWorld({
    permissions: (options.permissions ?? INVITED).reduce((all, one) => all | PermissionFlagsBits[one], 0n),
    messageContent: options.messageContent ?? true,
    membersIntent: options.membersIntent ?? true,
    clockSkewMs: options.clockSkewMs ?? 0,
    nonceMs: options.nonceMs ?? 120_000,
  });
  world.token = options.token ?? world.token;
  const guild = addGuild(world, 'lagoon');
  const channel = addChannel(world, { guild: guild.id, name: 'general' });
  const gateway = new Gateway(world, {
    heartbeatMs: options.heartbeatMs ?? 41_250,
    maxConcurrency: options.maxConcurrency ?? 1,
    identifyLimit: options.identifyLimit ?? 1000,
  });
  world.tell = (event) => gateway.tell(event);
  const interactions = new Map<string, Interaction>();
  const rest = new Rest(world, { interactions, gateway: () => gateway.about(), limit: options.rateLimit ?? null });
  const server = createServer();
  gateway.attach(server);
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  world.origin = `http://127.0.0.1:${port}`;
  const loopback = {
    apiUrl: `${world.origin}/api`,
    port,
    guild: guild.id,
    channel: channel.id,
    application: world.application,
    /** The bot's own user id. */
    botUser: world.bot.id,
    get token(): string {
      return world.token;
    },
    /** Every REST request, in order of arrival. */
    requests: rest.requests,
    identifies: gateway.identifies,
    resumes: gateway.resumes,
    ...people(world),
    ...commands(world, interactions),
    ...moderators(world, guild),
    ...troubles(world, rest, gateway),
    /** Closes the server and all connections. */
    async close(): Promise<void> {
      gateway.stop();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  serve(server, { world, rest, control: (name, args) => control(loopback, name, args) });
  return loopback;
}

/** Methods that make requests and connections fail. */
function troubles(world: World, rest: Rest, gateway: Gateway) {
  return {
    /** Fails the next `times` matching requests. `null`: all matching requests, until `heal` or `lift`. */
    fail: (match: Match, fault: Fault, times: number | null = 1): SetFault =>
      rest.faults.add(match, fault, times ?? Infinity),
    /** Lifts all faults of requests. */
    heal: (): void => rest.faults.clear(),
    /** Changes the bot's token: REST answers 401, the gateway closes with 4004. */
    revokeToken(): void {
      world.token = randomBytes(32).toString('base64url');
      gateway.closeWith(4004);
    },
    /** The number of gateway clients with a session that are not silenced. */
    connected: (): number => gateway.connected,
    duplicate: gateway.duplicate.bind(gateway),
    drop: gateway.drop.bind(gateway),
    reorder: gateway.reorder.bind(gateway),
    dropSockets: gateway.dropSockets.bind(gateway),
    unreachable: gateway.unreachable.bind(gateway),
    invalidate: gateway.invalidate.bind(gateway),
    forgetSessions: gateway.forgetSessions.bind(gateway),
    askToReconnect: gateway.askToReconnect.bind(gateway),
    closeWith: gateway.closeWith.bind(gateway),
    silence: gateway.silence.bind(gateway),
    odd: gateway.odd.bind(gateway),
    raw: gateway.raw.bind(gateway),
  };
}

type Parts = {
  readonly world: World;
  readonly rest: Rest;
  readonly control: (name: string, args: unknown) => unknown;
};

function serve(server: Server, parts: Parts): void {
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    answer(parts, request, response).catch((error: unknown) => {
      response.writeHead(500, { 'Content-Type': 'text/plain' });
      response.end(error instanceof Error ? error.stack : String(error));
    });
  });
}

async function answer(
  { world, rest, control: act }: Parts,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = new URL(request.url ?? '/', world.origin).pathname;
  if (path.startsWith('/api/')) return rest.serve(request, response);
  if (path.startsWith('/control/'))
    return controlled(request, response, (args) => act(path.slice('/control/'.length), args));
  const attachment = world.attachments.get(/^\/attachments\/\d+\/(\d+)\//u.exec(path)?.[1] ?? '');
  if (attachment === undefined) response.writeHead(404).end();
  else
    response
      .writeHead(200, { 'Content-Type': attachment.type, 'Content-Length': attachment.content.length })
      .end(attachment.content);
}

async function controlled(
  request: IncomingMessage,
  response: ServerResponse,
  act: (args: unknown) => unknown,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(Buffer.from(chunk as Uint8Array));
  const text = Buffer.concat(chunks).toString('utf8');
  try {
    const result = await act(text === '' ? [] : JSON.parse(text));
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(result ?? null));
  } catch (error) {
    response.writeHead(400, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ error: error instanceof Error ? error.message : String(error) }));
  }
}
