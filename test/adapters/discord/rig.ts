import type { REST } from 'discord.js';
import { pino } from 'pino';
import { createCalls, createClient, createReader, channelId } from '../../../src/adapters/discord/client.ts';
import type { DiscordSettings } from '../../../src/adapters/discord/client.ts';
import { createPlaces } from '../../../src/adapters/discord/places.ts';
import { createSender } from '../../../src/adapters/discord/adapter.ts';
import type { Sender } from '../../../src/adapters/discord/adapter.ts';
import type { FloorQueries, Memory, OutgoingPost, Place, Speaker } from '../../../src/adapters/port.ts';
import type { ChannelId } from '../../../src/turns/floor/settings.ts';
import type { Clock, Timers } from '../../../src/lib/time.ts';
import type { FloorView } from '../../../src/turns/view.ts';
import { createListener } from './listening.ts';
import { startDiscord } from './server.ts';
import type { DiscordOptions, DiscordServer } from './server.ts';

export const DEV = { id: 'dev', name: 'Dev', avatar: null };
export const PM = { id: 'pm', name: 'pm', avatar: '🧭' };
export const QA = { id: 'qa', name: 'qa', avatar: 'https://example.org/qa.png' };

export const ALL_ON: DiscordSettings = { webhooks: true, roles: true, streaming: true, cards: true, typing: true };

/** A clock that moves only by `advance`, which also runs the due timers. */
export type StandingTime = Clock & Timers & { advance(ms: number): void };

export function standingTime(startAt = Date.now()): StandingTime {
  let at = startAt;
  let waiting: readonly { readonly due: number; readonly run: () => void }[] = [];
  return {
    now: () => at,
    after(ms, run) {
      const entry = { due: at + ms, run };
      waiting = [...waiting, entry];
      return {
        cancel() {
          waiting = waiting.filter((each) => each !== entry);
        },
      };
    },
    advance(ms) {
      at += ms;
      const due = waiting.filter((each) => each.due <= at);
      waiting = waiting.filter((each) => each.due > at);
      for (const { run } of due.toSorted((one, other) => one.due - other.due)) run();
    },
  };
}

export type SendingRig = Awaited<ReturnType<typeof sendingRig>>;

/** Builds the sending side of Conch over a fake Discord. `again` builds the next run with the same memory. */
export async function sendingRig(
  options: {
    readonly discord?: DiscordOptions;
    readonly settings?: Partial<DiscordSettings>;
    readonly agents?: readonly NonNullable<Speaker>[];
    readonly timeoutMs?: number;
    readonly server?: DiscordServer;
  } = {},
) {
  const server = options.server ?? (await startDiscord(options.discord));
  const time = standingTime();
  const kept = new Map<string, string>();
  const memory: Memory = {
    get: (key) => kept.get(key) ?? null,
    set: async (key, value) => void kept.set(key, value),
  };
  const logged: string[] = [];
  const log = pino({ level: 'trace' }, { write: (line: string) => void logged.push(line) });
  const channel = channelId(server.channel);
  const places: Place[] = [place(channel, 'general', null)];
  const agents = (options.agents ?? [DEV, PM, QA]).map(({ id, name, avatar }) => ({
    id,
    name,
    avatar,
    description: '',
  }));
  const queries: FloorQueries = {
    channels: () => places,
    agents: () => agents,
    awake: () => [],
    view: () => null,
    deliveryPreview: () => null,
    turns: () => [],
    journal: () => [],
    lines: () => [],
    thread: () => null,
  };
  const run = (): Sender => {
    const rest = hasty(
      createClient({ token: server.token, apiUrl: server.apiUrl, timeoutMs: options.timeoutMs ?? 15_000 }),
    );
    const calls = createCalls({ rest, clock: time });
    const { intake } = createListener();
    return createSender({
      calls,
      places: createPlaces({ read: createReader(calls, { timers: time }), queries, intake }),
      self: { userId: server.botUser, applicationId: server.application },
      queries,
      clock: time,
      timers: time,
      log,
      memory,
      settings: { ...ALL_ON, ...options.settings },
    });
  };
  return {
    server,
    time,
    memory,
    kept,
    logged,
    channel,
    outgoing: run(),
    again: run,
    /** Opens a thread with a floor of its own. */
    thread(name: string): ChannelId {
      const id = channelId(server.thread(server.channel, name));
      places.push(place(id, name, channel));
      return id;
    },
    /** Returns the visible messages, oldest first, as "author: text". */
    conversation: (where = server.channel): readonly string[] =>
      server.read(where).map(({ author, text }) => `${author}: ${text}`),
    /** Returns the matching requests in order of arrival. */
    requests: (method: string, path: RegExp) =>
      server.requests.filter((each) => each.method === method && path.test(each.path)),
  };
}

let posts = 0;

/** Builds a post by an agent, or by Conch itself (`null`). */
export function post(speaker: Speaker, text: string, more: Partial<OutgoingPost> = {}): OutgoingPost {
  posts += 1;
  return { outboxId: `test-${posts}`, speaker, text, afterId: null, epoch: speaker === null ? null : 1, ...more };
}

/** Returns the view of a floor with a holder. */
export function heldView(channel: ChannelId, more: Partial<FloorView> = {}): FloorView {
  return {
    ...restingView(channel),
    condition: 'open',
    epoch: 12,
    holder: {
      agent: 'dev',
      epoch: 12,
      status: 'ACTIVE',
      startedAt: 0,
      deadlineAt: 1_800_000_000_000,
      waitingFor: null,
      working: false,
      approval: null,
    },
    next: ['qa', 'pm'],
    ...more,
  };
}

/** Returns the view of a resting floor. */
export function restingView(channel: ChannelId): FloorView {
  return {
    channel,
    store: 'x',
    condition: 'resting',
    mode: 'inject',
    order: 'round-robin',
    epoch: 11,
    holder: null,
    seats: [],
    next: [],
    held: [],
    turns: null,
    obstacles: [],
  };
}

/** Waits until `holds` returns true. Fails with `what` after 60 s. */
export async function until(holds: () => boolean, what: string): Promise<void> {
  const end = performance.now() + 60_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 5);
    });
  }
}

/** Removes discord.js's own limit of requests per second. */
function hasty(rest: REST): REST {
  rest.options.globalRequestsPerSecond = Infinity;
  rest.globalRemaining = Infinity;
  return rest;
}

function place(id: ChannelId, name: string, parent: ChannelId | null): Place {
  return { id, name, adapter: 'discord', parent, threads: 'own', allowBots: 'off' };
}
