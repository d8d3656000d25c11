import { z } from 'zod';
import type { HumanMessage } from '../../engine/port.ts';
import { KeyedQueue, idIndex } from '../../lib/keyed.ts';
import { retry } from '../../lib/retry.ts';
import type { Clock, Instant } from '../../lib/time.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { addressedIn, isCommandLine } from '../../turns/text/recognition.ts';
import { COMMAND_WORDS } from '../../turns/commands/command-table.ts';
import type { AdapterParts, FloorQueries, Place, Memory } from '../port.ts';

/** The most that waits for one channel: some seconds of what a store on a slow disk takes in. */
const WAITING_LIMIT = 500;
const AGAIN = { firstMs: 250, longestMs: 15_000 };

/**
 * Hands what people did to Conch, one after the other per channel and again until it is taken: the platform stored it already,
 * so nothing is lost while Conch cannot write.
 */
export type InboundQueue = {
  /** Whether a channel can take more. */
  hasRoom(channel: ChannelId): boolean;
  /** Resolves with `true` once it was taken, with `false` when it was given up by `stop`. */
  push(channel: ChannelId, act: () => Promise<void>): Promise<boolean>;
  /** Resolves when all that was pushed so far was taken, or given up. */
  settled(): Promise<void>;
  /** Gives up what was not taken; the next start's catch-up finds it. */
  stop(): void;
};

/** What a queue needs. */
type InboundQueuePorts = Pick<AdapterParts, 'log' | 'timers'> & {
  /** Told once of every act that has to be tried again. */
  readonly delayed?: (channel: ChannelId, why: string) => void;
};

/** A queue with room for 500 acts a channel. */
export function createInboundQueue({ log, timers, delayed }: InboundQueuePorts): InboundQueue {
  const stopping = new AbortController();
  const lanes = new KeyedQueue<ChannelId>();
  const untilTaken = async (channel: ChannelId, act: () => Promise<void>): Promise<boolean> => {
    try {
      await retry(act, AGAIN, {
        timers,
        signal: stopping.signal,
        waiting({ error, failures }) {
          log.warn({ channel, failures, err: error }, 'what a person wrote was not taken yet');
          if (failures === 1) delayed?.(channel, error instanceof Error ? error.message : String(error));
        },
      });
      return true;
    } catch {
      return false;
    }
  };
  return {
    hasRoom: (channel) => lanes.unfinished(channel) < WAITING_LIMIT,
    push: (channel, act) => lanes.run(channel, () => untilTaken(channel, act)),
    settled: () => lanes.settled(),
    stop: () => stopping.abort(),
  };
}

/** Platforms send an event again for about five minutes. */
const REMEMBERED_MS = 15 * 60_000;
const REMEMBERED = 50_000;

/** Does the same thing once, however often it is asked for. */
export type Deduplicator = {
  /**
   * Runs the work of a key, or waits for the run under way; done before, it resolves at once. What rejects counts as not done.
   */
  run(key: string, work: () => Promise<void>): Promise<void>;
  /** Whether a key comes for the first time; from now on it does not. */
  claim(key: string): boolean;
  /** Whether a key came before. */
  has(key: string): boolean;
};

/** Remembers keys for a quarter of an hour, and at most 50,000 of them. */
export function createDeduplicator(clock: Clock): Deduplicator {
  const runs = new Map<string, { readonly done: Promise<void>; readonly until: Instant }>();

  function forget(now: Instant): void {
    for (const [key, { until }] of runs) {
      if (until > now && runs.size <= REMEMBERED) return;
      runs.delete(key);
    }
  }

  function keep(key: string, done: Promise<void>): void {
    const now = clock.now();
    forget(now);
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

/** Where a message belongs: the channel with the floor, and the place whose rules hold. */
export type Whereabouts = {
  readonly channel: ChannelId;
  readonly place: Place;
  /** The channel of a thread that has no floor yet: it is to be opened first. */
  readonly opens: Place | null;
};

const placesById = idIndex<Place>();

/**
 * Where the messages of a channel, or of a thread of `parent`, belong by the configuration: to the channel's own floor, to a
 * floor of the thread, to the parent's floor, or nowhere.
 */
export function floorOf(
  queries: Pick<FloorQueries, 'channels'>,
  channel: ChannelId,
  parent: ChannelId | null,
): Whereabouts | null {
  const places = placesById(queries.channels());
  const placeOf = (id: ChannelId | null): Place | null => (id === null ? null : (places.get(id) ?? null));
  const own = placeOf(channel);
  if (own !== null && own.parent === null) return { channel, place: own, opens: null };
  const above = placeOf(own?.parent ?? parent);
  if (above === null || above.parent !== null || above.threads === 'ignore') return null;
  if (above.threads === 'parent') return { channel: above.id, place: above, opens: null };
  return { channel, place: own ?? above, opens: own === null ? above : null };
}

/** Who wrote a message, as far as the platform vouches for it. A webhook can call itself anything. */
export type Author = 'person' | 'bot' | 'webhook';

/** Whether agents get a message: the rule by which they do not, and whether a program wrote what they get. */
export function heardAs(
  { text, addressed }: Pick<HumanMessage, 'text' | 'addressed'>,
  by: {
    readonly author: Author;
    readonly place: Pick<Place, 'allowBots'>;
    readonly agents: ReturnType<FloorQueries['agents']>;
    readonly isCommand: boolean;
  },
): Pick<HumanMessage, 'ignore' | 'bot'> {
  const named = by.author === 'person' ? [] : addressedIn(text, by.agents);
  const rule = ignoreRule(by.author, by.place, [...addressed, ...named]) ?? (by.isCommand ? COMMAND_RULE : null);
  if (rule !== null) return { ignore: rule };
  return by.author === 'person' ? {} : { bot: true };
}

/**
 * The rule by which agents do not get a message, or `null` when they do. People are always heard; programs only as far as
 * the channel allows, and none of them is ever taken for an agent or an operator, whatever its name.
 */
export function ignoreRule(
  author: Author,
  place: Pick<Place, 'allowBots'>,
  addressed: readonly string[],
): string | null {
  if (author === 'person' || place.allowBots === 'all') return null;
  const who = author === 'bot' ? 'bots' : 'webhooks';
  if (place.allowBots === 'off') return `${who} are not heard here`;
  return addressed.length > 0 ? null : `${who} are heard only when they mention an agent`;
}

/** The rule under which a message that was a command is recorded: agents do not get it. */
export const COMMAND_RULE = 'an operator command';

/** The command line that a message is ("!floor skip", "/stop"), or `null` for an ordinary message ("!nice"). */
export function typedCommand(text: string): string | null {
  const line = text.trim();
  return isCommandLine(line, COMMAND_WORDS) ? line : null;
}

/** The line of a command; "!why" without a message, in a reply or a thread, is about the message `about`. */
export function whyLine(line: string, about: string | null): string {
  return about !== null && /^[!/]\s*why$/i.test(line) ? `${line} ${about}` : line;
}

/** Whether a message was seen for the first time: resolves with `true` once for each, over restarts too, when that is durable. */
export type FirstTime = (channel: ChannelId, message: string) => Promise<boolean>;

const COMMANDS_KEPT = 20;
const keptSchema = z.array(z.string());

/** Remembers the last commands of each channel, under `typed:<channel>`, so that none runs twice. */
export function createFirstTime(memory: Memory): FirstTime {
  const known = new Map<ChannelId, readonly string[]>();
  return async (channel, message) => {
    const key = `typed:${channel}`;
    const before = known.get(channel) ?? parsedJson(memory.get(key) ?? '[]', keptSchema) ?? [];
    if (before.includes(message)) return false;
    const next = [...before, message].slice(-COMMANDS_KEPT);
    known.set(channel, next);
    await memory.set(key, JSON.stringify(next));
    return true;
  };
}

/** What a JSON text of this shape says, from a `Memory` or a platform; `null` for any other text. */
export function parsedJson<T>(text: string, schema: z.ZodType<T>): T | null {
  try {
    return schema.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}
