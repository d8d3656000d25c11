import { z } from 'zod';
import type { HumanMessage } from '../../engine/port.ts';
import { KeyedQueue, idIndex } from '../../lib/keyed.ts';
import { retry } from '../../lib/retry.ts';
import type { Clock, Instant } from '../../lib/time.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { addressedIn, isCommandLine } from '../../turns/text/recognition.ts';
import { cutOff, splitText } from '../../turns/text/split.ts';
import { COMMAND_WORDS } from '../../turns/commands/command-table.ts';
import type { AdapterParts, FloorQueries, Place, Memory } from '../port.ts';
import { parsedJson, errorMessage } from '../../lib/defined.ts';
import { isAfter } from './message-client.ts';

const WAITING_LIMIT = 500;
const AGAIN = { firstMs: 250, longestMs: 15_000 };

/**
 * Carries out the actions for the incoming events of each channel: in order, one at a time. Retries each action until
 * it succeeds.
 */
export type InboundQueue = {
  /** Returns whether the channel's queue has room for another action. */
  hasRoom(channel: ChannelId): boolean;
  /**
   * Adds an action to the channel's queue. Resolves with `true` when the action succeeded, and with `false` when `stop`
   * dropped it.
   */
  push(channel: ChannelId, act: () => Promise<void>): Promise<boolean>;
  /** Resolves when all actions pushed so far have succeeded or were dropped. */
  whenSettled(): Promise<void>;
  /** Starts no further attempts. Drops the actions of which no attempt succeeds. */
  stop(): void;
};

type InboundQueuePorts = Pick<AdapterParts, 'log' | 'timers'> & {
  /** Called once for each action whose first attempt failed. */
  readonly delayed?: (channel: ChannelId, why: string) => void;
};

/** Creates a queue that has room for 500 actions per channel. `push` does not check the room. */
export function createInboundQueue({ log, timers, delayed }: InboundQueuePorts): InboundQueue {
  const stopping = new AbortController();
  const queue = new KeyedQueue<ChannelId>();
  const retryUntilDone = async (channel: ChannelId, act: () => Promise<void>): Promise<boolean> => {
    try {
      await retry(act, AGAIN, {
        timers,
        signal: stopping.signal,
        waiting({ error, failures }) {
          log.warn({ channel, failures, err: error }, 'a person’s action is not stored yet; retried');
          if (failures === 1) delayed?.(channel, errorMessage(error));
        },
      });
      return true;
    } catch {
      return false;
    }
  };
  return {
    hasRoom: (channel) => queue.unfinished(channel) < WAITING_LIMIT,
    push: (channel, act) => queue.run(channel, () => retryUntilDone(channel, act)),
    whenSettled: () => queue.settled(),
    stop: () => stopping.abort(),
  };
}

/**
 * How long a deduplicator remembers a key, in milliseconds: 15 minutes. Slack repeats an event for about 5 minutes.
 */
const REMEMBERED_MS = 15 * 60_000;
const REMEMBERED = 50_000;

/** Does the work of each key once, as long as the key is remembered. */
export type Deduplicator = {
  /**
   * Runs the work of a key. A second call with the key waits for the running work and settles like it, or resolves at
   * once when the work was done or the key was claimed. Work that rejected can run again.
   */
  run(key: string, work: () => Promise<void>): Promise<void>;
  /** Claims a key. Returns `false` when it was claimed or run before. */
  claim(key: string): boolean;
  /** Returns whether a key was claimed or run. */
  has(key: string): boolean;
};

/** Creates a deduplicator. Each new key drops keys older than 15 minutes, and the oldest keys beyond 50,000. */
export function createDeduplicator(clock: Clock): Deduplicator {
  const runs = new Map<string, { readonly done: Promise<void>; readonly until: Instant }>();

  function keep(key: string, done: Promise<void>): void {
    const now = clock.now();
    for (const [oldKey, { until }] of runs) {
      if (until > now && runs.size <= REMEMBERED) break;
      runs.delete(oldKey);
    }
    runs.set(key, { done, until: now + REMEMBERED_MS });
  }

  return {
    async run(key, work) {
      const known = runs.get(key);
      if (known !== undefined) return known.done;
      const done = work();
      keep(key, done);
      try {
        await done;
      } catch (error) {
        runs.delete(key);
        throw error;
      }
    },
    claim(key) {
      if (runs.has(key)) return false;
      keep(key, Promise.resolve());
      return true;
    },
    has: (key) => runs.has(key),
  };
}

/** Where a message belongs: the channel with the floor, and the place whose settings apply. */
export type MessageLocation = {
  readonly channel: ChannelId;
  readonly place: Place;
  /** The thread's parent channel if the thread's floor must be opened first; otherwise `null`. */
  readonly opens: Place | null;
};

const placesById = idIndex<Place>();

/**
 * Returns the floor for messages of a channel, or of a thread of `parent`. By the configuration this is the channel's
 * own floor, the thread's own, the parent's, or none (`null`).
 */
export function floorOf(
  queries: Pick<FloorQueries, 'channels'>,
  channel: ChannelId,
  parent: ChannelId | null,
): MessageLocation | null {
  const places = placesById(queries.channels());
  const ownPlace = places.get(channel);
  if (ownPlace?.parent === null) return { channel, place: ownPlace, opens: null };
  const parentPlace = places.get(ownPlace?.parent ?? parent ?? '');
  if (parentPlace === undefined || parentPlace.parent !== null || parentPlace.threads === 'ignore') return null;
  if (parentPlace.threads === 'parent') return { channel: parentPlace.id, place: parentPlace, opens: null };
  return { channel, place: ownPlace ?? parentPlace, opens: ownPlace === undefined ? parentPlace : null };
}

/** The kind of author, as the platform confirms it. Names do not count: a webhook can use any name. */
export type Author = 'person' | 'bot' | 'webhook';

/**
 * Returns why agents do not get a message (`ignore`): by the channel's `allowBots`, or because it was a command. If they
 * get it, returns `bot: true` for a program's message, and no field for a person's.
 */
export function deliveryFlags(
  { text, addressed }: Pick<HumanMessage, 'text' | 'addressed'>,
  by: {
    readonly author: Author;
    readonly place: Pick<Place, 'allowBots'>;
    readonly agents: ReturnType<FloorQueries['agents']>;
    readonly isCommand: boolean;
  },
): Pick<HumanMessage, 'ignore' | 'bot'> {
  if (by.author === 'person') return by.isCommand ? { ignore: COMMAND_RULE } : {};
  const { allowBots } = by.place;
  const authorWord = by.author === 'bot' ? 'bots' : 'webhooks';
  if (allowBots === 'off') return { ignore: `${authorWord} are ignored in this channel` };
  const isMeant = allowBots === 'all' || addressed.length > 0 || addressedIn(text, by.agents).length > 0;
  if (!isMeant) return { ignore: `${authorWord} are ignored unless they mention an agent` };
  return by.isCommand ? { ignore: COMMAND_RULE } : { bot: true };
}

/** The reason (`ignore`) why agents do not get a message that was a command. */
export const COMMAND_RULE = 'an operator command';

/** Returns the command line in a message ("!floor skip", "/stop"). Returns `null` for an ordinary message ("!nice"). */
export function typedCommand(text: string): string | null {
  const line = text.trim();
  return isCommandLine(line, COMMAND_WORDS) ? line : null;
}

/** Appends `about`, the id of the message that was replied to, to "!why" without an id. Other lines stay unchanged. */
export function whyLine(line: string, about: string | null): string {
  return about !== null && /^[!/]\s*why$/i.test(line) ? `${line} ${about}` : line;
}

/** The most messages of one answer. Slack takes five answers to one command. */
const MOST_PARTS = 5;
/** Room for "… (cut off)" in the last message, in UTF-16 units. */
const CUT_LENGTH = 12;

/**
 * Splits an answer to a command into at most five messages of at most `limit` UTF-16 units. The last one says when the
 * rest is cut off.
 */
export function answerParts(text: string, limit: number): readonly string[] {
  const parts = splitText(text, limit - CUT_LENGTH);
  const last = parts[MOST_PARTS - 1];
  if (last === undefined || parts.length === MOST_PARTS) return parts;
  return [...parts.slice(0, MOST_PARTS - 1), cutOff(last)];
}

/**
 * Returns whether a typed command's message is new, also across restarts. The message is stored as seen before the
 * promise resolves with `true`. Rejects when storing failed: the message then counts as not seen.
 */
export type FirstTime = (channel: ChannelId, message: string) => Promise<boolean>;

const COMMANDS_KEPT = 20;
const commandIdsSchema = z.array(z.string());

/**
 * Creates a `FirstTime` that remembers each channel's last 20 commands under `typed:<channel>`. If 20 commands were
 * stored before this start, a command older than all of them counts as seen: a platform can replay more than 20.
 */
export function createFirstTime(memory: Memory): FirstTime {
  const recentCommands = new Map<ChannelId, readonly string[]>();
  const commandsAtStart = new Map<ChannelId, readonly string[]>();
  return async (channel, message) => {
    const key = `typed:${channel}`;
    const recent = recentCommands.get(channel) ?? parsedJson(memory.get(key) ?? '[]', commandIdsSchema) ?? [];
    const atStart = commandsAtStart.get(channel) ?? recent;
    commandsAtStart.set(channel, atStart);
    const isOlder = atStart.length >= COMMANDS_KEPT && atStart.every((id) => isAfter(id, message));
    if (isOlder || recent.includes(message)) return false;
    const next = [...recent, message].slice(-COMMANDS_KEPT);
    recentCommands.set(channel, next);
    await memory.set(key, JSON.stringify(next)).catch((error: unknown) => {
      recentCommands.set(channel, recentCommands.get(channel)?.filter((id) => id !== message) ?? []);
      throw error;
    });
    return true;
  };
}
