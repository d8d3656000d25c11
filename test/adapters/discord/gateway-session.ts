import { WebSocket } from 'ws';
import { channelPermissions } from './state-permissions.ts';
import type { Event, Sight, World } from './state.ts';

/** Opcodes, by their names in Discord's documents. */
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
  /** Half open: nothing is read and nothing is sent. */ silent: boolean;
  /** What came in the running minute; Discord bears 120. */ received: readonly number[];
};

/** What a client and Discord have in common over several connections. */
export type Session = {
  readonly id: string;
  readonly intents: number;
  seq: number;
  /** All that was ever told, for replay. */ readonly told: { readonly s: number; readonly frame: string }[];
  connection: Connection | null;
};

export function frame(connection: Connection, op: number, d: unknown): void {
  if (connection.silent || connection.socket.readyState !== WebSocket.OPEN) return;
  connection.socket.send(JSON.stringify({ op, d, s: null, t: null }));
}

/** Tells a session something, now or when it resumes. */
export function dispatch(session: Session, t: string, d: unknown): void {
  session.seq += 1;
  const text = JSON.stringify({ op: OP.Dispatch, t, s: session.seq, d });
  session.told.push({ s: session.seq, frame: text });
  sendFrame(session, text);
}

/** Sends what was told after a sequence number once more; returns how many. */
export function replay(session: Session, after: number): number {
  const missed = session.told.filter(({ s }) => s > after);
  for (const { frame: text } of missed) sendFrame(session, text);
  return missed.length;
}

/** Whether a session is told: by its intents, and by what the bot may see. */
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
