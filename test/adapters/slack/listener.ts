import assert from 'node:assert';
import { setTimeout as wait } from 'node:timers/promises';
import { pino } from 'pino';
import { createAdapter } from '../../../src/adapters/slack/adapter.ts';
import type { AdapterOptions } from '../../../src/adapters/slack/adapter.ts';
import { channelId } from '../../../src/adapters/slack/client.ts';
import type { Answer } from '../../../src/turns/commands/context.ts';
import type {
  AdapterError,
  ChatAdapter,
  FloorQueries,
  Intake,
  Place,
  Principal,
  Thread,
} from '../../../src/adapters/port.ts';
import type { ChannelId } from '../../../src/turns/floor/settings.ts';
import type { HumanMessage, MessageChange } from '../../../src/engine/port.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import type { FloorView } from '../../../src/turns/view.ts';
import { startSlack } from './server.ts';
import type { SlackOptions, SlackServer } from './server.ts';

/** A command that was run, with its author. */
export type Run = {
  readonly channel: ChannelId;
  readonly by: Principal;
  readonly line: string;
  readonly drawnFor?: string;
};

/** An intake that records all calls, and stores each message once by its id. */
export type Ears = Intake & {
  readonly messages: HumanMessage[];
  readonly changes: MessageChange[];
  readonly runs: Run[];
  readonly threads: Thread[];
  /** Reports in order: `lost`, `back perhaps`, `suspend slack:C1: why`, `restore slack:C1`. */
  readonly told: string[];
  readonly breaks: AdapterError[];
  /** How many times the adapter delivered each message, by id. */
  readonly handed: Map<string, number>;
  /** While true, `message` throws. */
  isFull: boolean;
  /** The refusal of every command; `null`: none. */
  refused: string | null;
  /** Returns the answer of a command. */
  answer: (run: Run) => Answer | Promise<Answer>;
  /** Returns the view of a floor. */
  view: (channel: ChannelId) => FloorView;
  texts(): readonly string[];
};

export function ears(): Ears {
  const all: Ears = {
    messages: [],
    changes: [],
    runs: [],
    threads: [],
    told: [],
    breaks: [],
    handed: new Map(),
    isFull: false,
    refused: null,
    answer: () => ({ ok: true, text: 'Done.' }),
    view: viewOf,
    texts: () => all.messages.map(({ text }) => text),
    async message(message) {
      if (all.isFull) throw new Error('the disk is full');
      const times = all.handed.get(message.id) ?? 0;
      all.handed.set(message.id, times + 1);
      if (times === 0) all.messages.push(message);
    },
    async amend(change) {
      all.changes.push(change);
    },
    async command(channel, by, line, drawnFor) {
      const run = { channel, by, line, ...(drawnFor === undefined ? {} : { drawnFor }) };
      all.runs.push(run);
      return all.answer(run);
    },
    refusal: () => all.refused,
    async thread(thread) {
      if (!all.threads.some(({ id }) => id === thread.id)) all.threads.push(thread);
    },
    disconnected: () => void all.told.push('lost'),
    reconnected: ({ missed }) => void all.told.push(`back ${missed}`),
    suspend: (channel, why) => void all.told.push(`suspend ${channel}: ${why}`),
    restore: (channel) => void all.told.push(`restore ${channel}`),
    broken: (error) => void all.breaks.push(error),
  };
  return all;
}

export const AGENTS = ['pm', 'dev'].map((id) => ({ id, name: id, avatar: null, description: `is ${id}` }));

export function viewOf(channel: ChannelId): FloorView {
  return {
    channel,
    store: 'x',
    condition: 'resting',
    mode: 'inject',
    order: 'round-robin',
    epoch: 0,
    holder: null,
    seats: [],
    next: [],
    held: [],
    turns: null,
    obstacles: [],
  };
}

export function sights(places: readonly Place[], threads: readonly Thread[] = []): FloorQueries {
  return {
    reaction: (channel, message, kind) => ({ channel, line: `/${kind} ${message}`, drawnFor: 'tx.1' }),
    channels: () => [
      ...places,
      ...threads.flatMap(({ id, parent, name }) => {
        const own = places.find((place) => place.id === parent);
        return own === undefined ? [] : [{ ...own, id, name, parent }];
      }),
    ],
    agents: () => AGENTS,
    awake: () => [],
    view: viewOf,
    deliveryPreview: () => null,
    turns: () => [],
    journal: () => [],
    lines: () => [],
    thread: () => null,
  };
}

export function placeOf(channel: string, change: Partial<Place> = {}): Place {
  const id = channelId(channel);
  return { id, name: 'general', adapter: 'slack', parent: null, threads: 'own', allowBots: 'off', ...change };
}

export type Stand = {
  readonly slack: SlackServer;
  readonly adapter: ChatAdapter;
  readonly ears: Ears;
  readonly logged: string[];
  readonly floor: ChannelId;
  close(): Promise<void>;
};

export type StandOptions = {
  readonly slack?: SlackOptions;
  readonly place?: Partial<Place>;
  readonly adapter?: Partial<AdapterOptions>;
  /** Called before the adapter starts. */
  readonly first?: (slack: SlackServer) => void;
  readonly start?: boolean;
};

/** Starts a fake Slack and an adapter. Waits until the adapter is connected, unless `start` is false. */
export async function stand(options: StandOptions = {}): Promise<Stand> {
  const slack = await startSlack({ ackMs: 400, retryDelaysMs: [0, 150, 300], ...options.slack });
  options.first?.(slack);
  const own = ears();
  const logged: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void logged.push(line) });
  const adapter = createAdapter({ ...adapterOptions(slack), log, ...options.adapter });
  const places = [placeOf(slack.ids.channel, options.place), placeOf(slack.ids.other, { name: 'reviews' })];
  const starting = adapter.start(own, { ...sights(places, own.threads), view: (channel) => own.view(channel) });
  if (options.start !== false) await starting;
  else starting.catch(() => undefined);
  return {
    slack,
    adapter,
    ears: own,
    logged,
    floor: channelId(slack.ids.channel),
    async close() {
      await adapter.stop();
      await slack.close();
    },
  };
}

export function adapterOptions(slack: SlackServer): AdapterOptions {
  const kept = new Map<string, string>();
  return {
    botToken: slack.botToken,
    appToken: slack.appToken,
    signingSecret: slack.signingSecret,
    apiUrl: slack.apiUrl,
    connection: { mode: 'socket', connections: 2 },
    clock: systemClock(),
    timers: systemTimers,
    log: pino({ level: 'silent' }),
    memory: { get: (key) => kept.get(key) ?? null, set: async (key, value) => void kept.set(key, value) },
    settings: { streaming: false, cards: false, status: false, agentSessions: true },
    userGroups: {},
  };
}

/** Waits until a condition is true. Fails after `forMs`. */
export async function until(what: string, isSo: () => boolean, forMs = 60_000): Promise<void> {
  const end = Date.now() + forMs;
  while (!isSo()) {
    assert(Date.now() < end, `not in time: ${what}`);
    await wait(5);
  }
}
