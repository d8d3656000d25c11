import {
  SimpleIdentifyThrottler,
  WebSocketManager,
  WebSocketShardEvents,
  WebSocketShardStatus,
  SimpleShardingStrategy,
} from '@discordjs/ws';
import type { SessionInfo, WebSocketShard } from '@discordjs/ws';
import { GatewayIntentBits } from 'discord.js';
import type { REST } from 'discord.js';
import { z } from 'zod';
import { backoffMs, delay, withinMs } from '../../lib/retry.ts';
import type { Clock, Timer } from '../../lib/time.ts';
import { AdapterError, ChatError } from '../port.ts';
import type { AdapterParts } from '../port.ts';
import { CONNECT_RETRY, createConnectRetry } from '../delivery/connect-retry.ts';
import { tokenRefused, untilDiscord, wordsOf } from './client.ts';
import { parsedJson } from '../../lib/defined.ts';

type ConnectionPorts = Pick<AdapterParts, 'memory' | 'clock' | 'timers' | 'log'> & {
  readonly rest: REST;
  readonly token: string;
  /** The bot's user id. Stored sessions of another bot user are not resumed. */
  readonly bot: string;
  readonly dispatch: (event: string, payload: unknown) => Promise<unknown> | null;
  readonly onLost: () => void;
  /** Called when the connection works again. `missed` is `nothing` when Discord replayed all missed events. */
  readonly onBack: (missed: 'nothing' | 'perhaps') => void;
  readonly fatal: (error: AdapterError) => void;
};

/** The cast is needed because the enumeration has no member for a combination. */
const INTENTS = (GatewayIntentBits.Guilds |
  GatewayIntentBits.GuildMessages |
  GatewayIntentBits.GuildMessageReactions |
  GatewayIntentBits.MessageContent) as GatewayIntentBits;
/**
 * Close code of the connection when Conch stops. Every code except 1000 and 1001 lets the session be resumed for a
 * while.
 */
const GOING_CODE = 4_200;
const STOP_MS = 3_000;
const GIVING_UP = 'Destroying shard';

const gatewayUrl = z.string().refine((text) => {
  const url = URL.parse(text);
  return url !== null && ['ws:', 'wss:'].includes(url.protocol) && !text.includes('#');
});

const gatewaySchema = z.object({
  url: gatewayUrl,
  shards: z.int().min(1),
  session_start_limit: z.object({ remaining: z.number(), reset_after: z.number(), max_concurrency: z.int().min(1) }),
});

/** Messages for close codes after which Conch must not reconnect. The code 4004 has a message of its own. */
const FATAL_CODES: Readonly<Record<number, string>> = {
  4010: 'Discord says that the shard is invalid. Update Conch.',
  4011: 'Discord says that the bot is in too many servers for one connection. Remove it from some servers.',
  4012: 'Discord does not know the version of its gateway that Conch speaks. Update Conch.',
  4013: 'Discord does not know the intents that Conch asks for. Update Conch.',
  4014:
    'Discord does not let the bot read messages. Switch on "Message Content Intent" on the Bot page of your application ' +
    'at discord.com/developers.',
};

function noSessionLeft(retryAfterMs: number): ChatError {
  const where = { method: 'connect', channel: 'discord', fault: 'limited', retryAfterMs } as const;
  return new ChatError('Discord allows no new session until its daily limit resets', where);
}

/**
 * The bot's connection to Discord's gateway. The gateway client of discord.js does heartbeats, resuming and the
 * detection of dead sockets.
 */
export class Connection {
  readonly #ports: ConnectionPorts;
  readonly #sessions: Sessions;
  readonly #manager: WebSocketManager;
  readonly #stopping = new AbortController();
  readonly #firstReady = Promise.withResolvers<void>();
  readonly #downShards = new Set<number>();
  #throttler: SimpleIdentifyThrottler | null = null;
  #attempts = 0;
  #hasOpened = false;
  #hasBeenUp = false;
  #isLost = false;
  #missedEvents: 'nothing' | 'perhaps' = 'nothing';
  /** Resolves when the socket being opened is open or has failed. */
  #opening = Promise.withResolvers<void>();

  constructor(ports: ConnectionPorts) {
    const { rest, token, log } = ports;
    this.#ports = ports;
    this.#sessions = new Sessions(ports);
    const identifies = createIdentifies(ports);
    this.#manager = new WebSocketManager({
      rest,
      token,
      intents: INTENTS,
      buildStrategy: (manager) =>
        new GuardedShards(manager, (error) =>
          log.warn({ why: wordsOf(error) }, 'a step of the Discord gateway client failed'),
        ),
      retrieveSessionInfo: (shard) => this.#session(shard),
      updateSessionInfo: (shard, session) => this.#sessions.set(shard, session),
      buildIdentifyThrottler: () => ({
        waitForIdentify: async (shard, signal) => {
          await identifies.take(AbortSignal.any([signal, this.#stopping.signal]));
          await this.#throttler?.waitForIdentify(shard, signal);
        },
      }),
    });
    this.#firstReady.promise.catch(() => undefined);
    this.#manager.on(WebSocketShardEvents.Hello, () => this.#opening.resolve());
    this.#manager.on(WebSocketShardEvents.Ready, ({ shardId }) => this.#markUp(shardId, 'perhaps'));
    this.#manager.on(WebSocketShardEvents.Resumed, ({ shardId }) => this.#markUp(shardId, 'nothing'));
    this.#manager.on(WebSocketShardEvents.Closed, ({ code, shardId }) => this.#closed(shardId, code));
    // Closing a dead socket takes 30 s. This debug message reports the loss before the close.
    this.#manager.on(WebSocketShardEvents.Debug, ({ message, shardId }) => {
      if (message.startsWith(GIVING_UP)) this.#markLost(shardId);
    });
    this.#manager.on(WebSocketShardEvents.Dispatch, ({ data, shardId }) => this.#dispatch(shardId, data));
    this.#manager.on(WebSocketShardEvents.Error, ({ error }) => {
      this.#opening.resolve();
      log.warn({ why: wordsOf(error) }, 'the connection to Discord failed');
    });
  }

  /**
   * Connects, with retries. Resolves when all shards are connected, or when stopped. Rejects when Discord refuses the
   * bot.
   */
  async start(): Promise<void> {
    try {
      await Promise.race([this.#connect().then(() => this.#firstReady.promise), this.#firstReady.promise]);
    } catch (error) {
      if (!this.#stopping.signal.aborted || error instanceof AdapterError) throw error;
    }
  }

  /** Stores the sessions for the next start, and closes the connection. Waits at most 3 s for the close. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#firstReady.resolve();
    await this.#sessions.stop();
    const hangUp = async (): Promise<void> => {
      if (this.#hasOpened) await this.#opening.promise;
      await this.#manager.destroy({ code: GOING_CODE, reason: 'Conch ends' });
    };
    await withinMs(STOP_MS, hangUp(), this.#ports.timers);
  }

  async #connect(): Promise<void> {
    const { timers, log } = this.#ports;
    const begin = async (): Promise<void> => {
      const { shards, session_start_limit: limit } = gatewaySchema.parse(
        await this.#manager.fetchGatewayInformation(true),
      );
      this.#throttler ??= new SimpleIdentifyThrottler(limit.max_concurrency);
      for (let shard = 0; shard < shards; shard += 1) this.#downShards.add(shard);
      if (limit.remaining < shards) throw noSessionLeft(limit.reset_after);
      await this.#manager.connect().catch((error: unknown) => {
        if (!this.#hasOpened) throw error;
      });
    };
    await createConnectRetry('Discord', { timers, log, signal: this.#stopping.signal })(begin, untilDiscord);
  }

  /**
   * Resolves with the session that a shard resumes; `null`: none. Before the third attempt since a shard last
   * connected, waits 1 s, later up to 60 s. Does not resolve after `stop` or when Discord refused the bot for good.
   */
  async #session(shard: number): Promise<SessionInfo | null> {
    const { timers, log } = this.#ports;
    const { signal } = this.#stopping;
    const status = (await this.#manager.fetchStatus()).get(shard);
    const isOpening = status === undefined || status === WebSocketShardStatus.Idle;
    if (isOpening) {
      const waitMs = backoffMs(CONNECT_RETRY, this.#attempts - 1);
      this.#attempts += 1;
      if (waitMs > 0) log.warn({ shard, attempt: this.#attempts, retryInMs: waitMs }, 'connecting to Discord again');
      await delay(waitMs, { timers, signal }).catch(() => undefined);
    }
    if (signal.aborted) return new Promise(() => undefined);
    if (isOpening) this.#opening = Promise.withResolvers();
    this.#hasOpened = true;
    return this.#sessions.get(shard);
  }

  #markUp(shard: number, missed: 'nothing' | 'perhaps'): void {
    const { log, onBack } = this.#ports;
    if (this.#stopping.signal.aborted) return;
    this.#attempts = 0;
    log.info({ shard, session: missed === 'nothing' ? 'resumed' : 'new' }, 'connected to Discord');
    if (this.#hasBeenUp && missed === 'perhaps') {
      this.#markLost(shard);
      this.#missedEvents = 'perhaps';
    }
    this.#downShards.delete(shard);
    if (this.#downShards.size > 0) return;
    if (!this.#hasBeenUp) {
      this.#hasBeenUp = true;
      return this.#firstReady.resolve();
    }
    // Replayed events may not be dispatched yet: the connection is reported after them.
    setImmediate(() => {
      if (!this.#isLost || this.#downShards.size > 0) return;
      this.#isLost = false;
      onBack(this.#missedEvents);
      this.#missedEvents = 'nothing';
    });
  }

  #closed(shard: number, code: number): void {
    this.#opening.resolve();
    if (this.#stopping.signal.aborted) return;
    const reason = FATAL_CODES[code];
    if (code === 4004 || reason !== undefined) {
      return this.#fail(reason === undefined ? tokenRefused() : new AdapterError(reason, { adapter: 'discord' }));
    }
    this.#ports.log.info({ shard, code }, 'the connection to Discord was closed');
    this.#markLost(shard);
  }

  #markLost(shard: number): void {
    if (this.#stopping.signal.aborted) return;
    this.#downShards.add(shard);
    if (!this.#hasBeenUp || this.#isLost) return;
    this.#isLost = true;
    this.#ports.onLost();
  }

  #fail(error: AdapterError): void {
    this.#stopping.abort();
    if (!this.#hasBeenUp) return this.#firstReady.reject(error);
    this.#ports.onLost();
    this.#ports.fatal(error);
  }

  #dispatch(shard: number, event: { readonly t: string; readonly d: unknown; readonly s: number }): void {
    let handling: Promise<unknown> | null = null;
    try {
      handling = this.#ports.dispatch(event.t, event.d);
    } catch (error) {
      this.#ports.log.error({ event: event.t, why: wordsOf(error) }, 'handling an event from Discord failed');
    }
    this.#sessions.recordEvent(shard, event.s, handling);
  }
}

/**
 * Runs discord.js's shards in this process and reports their errors to `fault`. Without this, an unexpected frame or a
 * failed heartbeat would end Conch.
 */
class GuardedShards extends SimpleShardingStrategy {
  readonly #fault: (error: unknown) => void;

  constructor(manager: WebSocketManager, fault: (error: unknown) => void) {
    super(manager);
    this.#fault = fault;
  }

  override async spawn(shardIds: number[]): Promise<void> {
    await super.spawn(shardIds);
    for (const shard of this['shards'].values()) this.#guard(shard);
  }

  /** Guards three methods that discord.js calls without handling their rejections. */
  #guard(shard: WebSocketShard): void {
    shard['onMessage'] = this.#catchFaults(shard['onMessage'].bind(shard));
    shard['onClose'] = this.#catchFaults(shard['onClose'].bind(shard));
    shard['heartbeat'] = this.#catchFaults(shard['heartbeat'].bind(shard));
  }

  #catchFaults<A extends unknown[]>(step: (...args: A) => Promise<void>): (...args: A) => Promise<void> {
    return async (...args) => {
      try {
        await step(...args);
      } catch (error) {
        this.#fault(error);
      }
    };
  }
}

const WRITE_MS = 1_000;

type SessionsPorts = Pick<AdapterParts, 'memory' | 'timers' | 'log'> & { readonly bot: string };

/**
 * The gateway's sessions, stored so that Discord replays missed events after a restart. The stored sequence number is
 * below that of each event that is not handled yet.
 */
export class Sessions {
  readonly #ports: SessionsPorts;
  readonly #tracks = new Map<number, Track>();
  #timer: Timer | null = null;
  #isStopped = false;

  constructor(ports: SessionsPorts) {
    this.#ports = ports;
  }

  /** Returns the session of a shard; `null` when there is none to resume. */
  get(shard: number): SessionInfo | null {
    return this.#track(shard).session;
  }

  /** Sets the session of a shard, to be stored. A session with invalid fields counts as none. */
  set(shard: number, info: SessionInfo | null): void {
    if (this.#isStopped) return;
    const session = sessionSchema.safeParse(info).success ? info : null;
    const track = this.#track(shard);
    if (session?.sessionId === track.session?.sessionId) track.session = session;
    else this.#tracks.set(shard, { ...trackFrom(session), storedText: track.storedText });
    this.#writeLater();
  }

  /** Records a dispatched event. The event counts as handled once `handling` settles; with `null`, at once. */
  recordEvent(shard: number, sequence: number, handling: Promise<unknown> | null): void {
    const track = this.#track(shard);
    track.newest = Math.max(track.newest, sequence);
    if (handling !== null) {
      track.pending.add(sequence);
      const markHandled = (): void => {
        track.pending.delete(sequence);
        this.#writeLater();
      };
      handling.then(markHandled, markHandled);
    }
    this.#writeLater();
  }

  /** Writes all sessions. Later changes are ignored. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#write();
  }

  #track(shard: number): Track {
    const track = this.#tracks.get(shard) ?? trackFrom(readSession(this.#ports.memory.get(this.#key(shard)), shard));
    this.#tracks.set(shard, track);
    return track;
  }

  #key(shard: number): string {
    return `session:${this.#ports.bot}:${shard}`;
  }

  #writeLater(): void {
    if (!this.#isStopped) this.#timer ??= this.#ports.timers.after(WRITE_MS, () => void this.#write());
  }

  async #write(): Promise<void> {
    const { memory, log } = this.#ports;
    this.#timer?.cancel();
    this.#timer = null;
    for (const [shard, track] of this.#tracks) {
      const value = valueOf(track);
      if (value === track.storedText) continue;
      track.storedText = value;
      try {
        await memory.set(this.#key(shard), value);
      } catch (error) {
        track.storedText = null;
        log.warn({ shard, why: wordsOf(error) }, 'the session with Discord could not be stored');
      }
    }
  }
}

type Track = {
  session: SessionInfo | null;
  newest: number;
  readonly pending: Set<number>;
  storedText: string | null;
};

const sessionSchema = z.object({
  sessionId: z.string().min(1),
  sequence: z.int().min(0),
  resumeURL: gatewayUrl,
  shardCount: z.int().min(1),
});

function trackFrom(session: SessionInfo | null): Track {
  return { session, newest: session?.sequence ?? 0, pending: new Set(), storedText: null };
}

function valueOf({ session, newest, pending }: Track): string {
  if (session === null) return '';
  const [first] = pending;
  const { sessionId, resumeURL, shardCount } = session;
  return JSON.stringify({ sessionId, resumeURL, shardCount, sequence: first === undefined ? newest : first - 1 });
}

function readSession(storedText: string | null, shardId: number): SessionInfo | null {
  const session = parsedJson(storedText ?? '', sessionSchema);
  return session === null ? null : { ...session, shardId };
}

/**
 * The most new sessions that Conch begins in 24 hours. Discord resets the token of a bot that begins more than 1,000.
 */
export const IDENTIFIES_A_DAY = 900;

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

type Identifies = {
  /**
   * Resolves when Conch can begin a new session with Discord, and counts it. Rejects with the abort reason of the
   * signal.
   */
  take(signal: AbortSignal): Promise<void>;
};

/** Creates the counter of new sessions. The counter stores counts per hour in `memory`, under `identifies:<bot>`. */
export function createIdentifies(ports: SessionsPorts & { readonly clock: Clock }): Identifies {
  const { bot, memory, clock, timers, log } = ports;
  const key = `identifies:${bot}`;
  return {
    async take(signal) {
      for (;;) {
        const hours = (parsedJson(memory.get(key) ?? '[]', hoursSchema) ?? []).filter(
          ({ at }) => at + HOUR_MS + DAY_MS > clock.now(),
        );
        const [oldest] = hours;
        const used = hours.reduce((sum, { count }) => sum + count, 0);
        if (oldest === undefined || used < IDENTIFIES_A_DAY) {
          await memory.set(key, JSON.stringify(withOneMore(hours, clock.now()))).catch((error: unknown) => {
            log.warn({ why: wordsOf(error) }, 'the number of sessions with Discord could not be stored');
          });
          return;
        }
        const waitMs = oldest.at + HOUR_MS + DAY_MS - clock.now();
        const why = `${used} new sessions in 24 hours; Discord resets the token at 1,000`;
        log.error({ waitMs, why }, 'waiting before a new session with Discord');
        await delay(waitMs, { timers, signal });
      }
    },
  };
}

type Hour = { readonly at: number; readonly count: number };

const hoursSchema = z.array(z.object({ at: z.number(), count: z.number() }));

function withOneMore(hours: readonly Hour[], now: number): readonly Hour[] {
  const at = Math.floor(now / HOUR_MS) * HOUR_MS;
  const count = hours.find((hour) => hour.at === at)?.count ?? 0;
  return [...hours.filter((hour) => hour.at !== at), { at, count: count + 1 }];
}
