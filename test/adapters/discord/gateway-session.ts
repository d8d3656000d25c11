import { WebSocket } from 'ws';
import { channelPermissions } from './state-permissions.ts';
import type { Event, Sight, World } from './state.ts';

/** Opcodes, with the names from Discord's documentation. */
export const OP = {
  Dispatch: 0,
  Heartbeat: 1,
  Identify: 2,
  PresenceUpdate: 3,
  VoiceStateUpdate: 4,
  Resume: 6,
  Reconnect: 7,
  RequestGuildMembers: 8,
  InvalidSession: 9,
  Hello: 10,
  HeartbeatAck: 11,
};

const MESSAGE_CONTENT = 1 << 15;

/** One connection of a client. */
export type Connection = {
  readonly socket: WebSocket;
  readonly viaResumeUrl: boolean;
  session: Session | null;
  beatAt: number;
  /** True for a half-open connection, which reads and sends nothing. */
  silent: boolean;
  /** Times of the frames of the last minute. Discord allows 120. */
  received: readonly number[];
};

/** The state of a client that outlives its connections, until Discord ends the session. */
export type Session = {
  readonly id: string;
  readonly intents: number;
  seq: number;
  /** All dispatched events, for replay. */
  readonly told: { readonly s: number; readonly frame: string }[];
  connection: Connection | null;
};

export function frame(connection: Connection, op: number, d: unknown): void {
  if (connection.silent || connection.socket.readyState !== WebSocket.OPEN) return;
  connection.socket.send(JSON.stringify({ op, d, s: null, t: null }));
}

/** Sends an event to a session, now or when it resumes. */
export function dispatch(session: Session, t: string, d: unknown): void {
  session.seq += 1;
  const text = JSON.stringify({ op: OP.Dispatch, t, s: session.seq, d });
  session.told.push({ s: session.seq, frame: text });
  sendFrame(session, text);
}

/** Sends all events after a sequence number again. Returns the number of events. */
export function replay(session: Session, after: number): number {
  const missed = session.told.filter(({ s }) => s > after);
  for (const { frame: text } of missed) sendFrame(session, text);
  return missed.length;
}

/** Returns whether a session receives an event: by its intents, and by what the bot may view. */
export function hears(world: World, session: Session, event: Event): boolean {
  if (event.intent !== 0 && (session.intents & event.intent) === 0) return false;
  const joined =
    event.guild === undefined || event.t === 'GUILD_DELETE' || world.guilds.get(event.guild)?.joined === true;
  if (!joined) return false;
  const channel = event.channel === undefined ? undefined : world.channels.get(event.channel);
  return channel === undefined || channelPermissions(world, channel, world.bot.id) !== 0n;
}

export function sightOf(session: Session): Sight {
  return { content: (session.intents & MESSAGE_CONTENT) !== 0 };
}

function sendFrame(session: Session, text: string): void {
  const { connection } = session;
  if (connection === null || connection.silent || connection.socket.readyState !== WebSocket.OPEN) return;
  connection.socket.send(text);
}
