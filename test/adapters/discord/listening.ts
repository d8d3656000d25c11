import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import type { Logger } from 'pino';
import { createAdapter } from '../../../src/adapters/discord/adapter.ts';
import type { Answer } from '../../../src/turns/commands/context.ts';
import type {
  AdapterError,
  ChatAdapter,
  Intake,
  Memory,
  FloorQueries,
  Place,
  Principal,
  Thread,
} from '../../../src/adapters/port.ts';
import type { HumanMessage, MessageChange } from '../../../src/engine/port.ts';
import type { Line } from '../../../src/turns/view.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import type { Timers } from '../../../src/lib/time.ts';
import type { DiscordServer } from './server.ts';

/** A memory that a test can read and give to the next adapter. */
export type KeptMemory = Memory & { readonly kept: Map<string, string> };

export function createMemory(): KeptMemory {
  const kept = new Map<string, string>();
  return {
    kept,
    get: (key) => kept.get(key) ?? null,
    set: async (key, value) => {
      kept.set(key, value);
    },
  };
}

/** A command as the intake received it. */
export type HeardCommand = {
  readonly channel: string;
  readonly by: Principal;
  readonly line: string;
  readonly drawnFor: string | undefined;
};

/** An intake that records its calls. A message or thread is recorded once by its id. */
export function createListener() {
  const messages: HumanMessage[] = [];
  const changes: MessageChange[] = [];
  const commands: HeardCommand[] = [];
  const threads: Thread[] = [];
  const notes: string[] = [];
  const broken: AdapterError[] = [];
  const answers: { next: (line: string) => Promise<Answer> } = {
    next: async (line) => ({ ok: true, text: `done: ${line}` }),
  };
  /** `error`: thrown by `message` while set. `refusal`: why a person may not run a command; `null`: allowed. */
  const trouble: { error: Error | null; refusal: string | null } = { error: null, refusal: null };
  const intake: Intake = {
    async message(message) {
      if (trouble.error !== null) throw trouble.error;
      notes.push(`message ${message.text}`);
      if (!messages.some(({ id }) => id === message.id)) messages.push(message);
    },
    async amend(change) {
      changes.push(change);
    },
    async command(channel, by, line, drawnFor) {
      commands.push({ channel, by, line, drawnFor });
      return answers.next(line);
    },
    refusal: () => trouble.refusal,
    async thread(thread) {
      if (!threads.some(({ id }) => id === thread.id)) threads.push(thread);
    },
    disconnected: () => void notes.push('disconnected'),
    reconnected: ({ missed }) => void notes.push(`reconnected, missed ${missed}`),
    suspend: (channel, why) => void notes.push(`suspend ${channel}: ${why}`),
    restore: (channel) => void notes.push(`restore ${channel}`),
    broken: (error) => void broken.push(error),
  };
  return { intake, messages, changes, commands, threads, notes, broken, answers, trouble };
}

export type Listener = ReturnType<typeof createListener>;

/** Returns the settings of a test channel. */
export function placeOf(channel: string, how: Partial<Place> = {}): Place {
  const id = `discord:${channel}`;
  return { id, name: 'general', adapter: 'discord', parent: null, threads: 'own', allowBots: 'off', ...how };
}

/** Returns queries over the given channels, the opened threads, and two agents. */
export function queriesOf(places: readonly Place[], listener: Listener, lines: readonly Line[] = []): FloorQueries {
  return {
    channels: () => [
      ...places,
      ...listener.threads.map(({ id, parent, name }) => {
        const above = places.find((place) => place.id === parent) ?? placeOf('0');
        return { ...above, id, parent, name };
      }),
    ],
    agents: () => [
      { id: 'dev', name: 'dev', avatar: null, description: 'Builds it' },
      { id: 'qa', name: 'QA Bot', avatar: null, description: 'Tries to break it' },
    ],
    awake: () => [],
    view: () => null,
    deliveryPreview: () => null,
    turns: () => [],
    journal: () => [],
    lines: () => lines,
    reaction: (channel, message, kind) => ({ channel, line: `/${kind} ${message}`, drawnFor: 'tx.1' }),
    thread: () => null,
  };
}

/** A log whose lines are stored as objects. */
export function createLogbook(): { readonly log: Logger; readonly lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line));
  return { log: pino({ level: 'debug', messageKey: 'message' }, { write }), lines };
}

export type AdapterRig = {
  readonly adapter: ChatAdapter;
  readonly listener: Listener;
  readonly memory: KeptMemory;
  readonly lines: Record<string, unknown>[];
  readonly queries: FloorQueries;
};

/** Builds an adapter for the given Discord. It is not started. */
export function rigOf(
  discord: Pick<DiscordServer, 'apiUrl' | 'token' | 'channel'>,
  how: {
    readonly places?: readonly Place[];
    readonly memory?: KeptMemory;
    readonly timers?: Timers;
    readonly listener?: Listener;
    readonly lines?: readonly Line[];
    readonly roles?: boolean;
  } = {},
): AdapterRig {
  const { log, lines } = createLogbook();
  const memory = how.memory ?? createMemory();
  const listener = how.listener ?? createListener();
  const adapter = createAdapter({
    token: discord.token,
    apiUrl: discord.apiUrl,
    clock: systemClock(),
    timers: how.timers ?? systemTimers,
    log,
    memory,
    settings: { webhooks: true, roles: how.roles ?? false, streaming: true, cards: true, typing: false },
  });
  const queries = queriesOf(how.places ?? [placeOf(discord.channel)], listener, how.lines);
  return { adapter, listener, memory, lines, queries };
}

/** Waits until `holds` returns true. Fails with `what` after `limitMs` milliseconds. */
export async function mustCome(what: string, holds: () => boolean, limitMs = 60_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`it never came: ${what}`);
    await sleep(5);
  }
}
