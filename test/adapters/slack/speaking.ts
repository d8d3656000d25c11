import { pino } from 'pino';
import { afterEach } from 'vitest';
import type { ChatAdapter, Memory, FloorQueries, OutgoingPost, Speaker } from '../../../src/adapters/port.ts';
import { createClient } from '../../../src/adapters/slack/client.ts';
import type { SlackSettings } from '../../../src/adapters/slack/client.ts';
import { createMessageSender, createOutboxSender } from '../../../src/adapters/delivery/chat-adapter.ts';
import type { MessageSender } from '../../../src/adapters/delivery/message-client.ts';
import { createMessageClient } from '../../../src/adapters/slack/message-client.ts';
import type { SlackMessageClient } from '../../../src/adapters/slack/message-client.ts';
import type { ChannelId } from '../../../src/turns/floor/settings.ts';
import type { Settlement } from '../../../src/engine/port.ts';
import type { OutboxRow } from '../../../src/turns/floor-store.ts';
import type { FloorView } from '../../../src/turns/view.ts';
import { createTime } from '../../agents/time.ts';
import { startSlack } from './server.ts';
import type { SlackOptions, SlackServer } from './server.ts';

export const DEV: NonNullable<Speaker> = { id: 'dev', name: 'Dev', avatar: '🛠️' };
export const QA: NonNullable<Speaker> = { id: 'qa', name: 'QA', avatar: null };

const ALL: SlackSettings = { streaming: true, cards: true, status: true, agentSessions: true };

export type Speaking = Awaited<ReturnType<typeof speaking>>;

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** Starts the sending side of Conch on a fake Slack. Conch's time moves only in `until`, `over` and `pass`. */
export async function speaking(
  how: { readonly server?: SlackOptions; readonly settings?: Partial<SlackSettings>; readonly timeoutMs?: number } = {},
) {
  const slack = await startSlack(how.server ?? {});
  const time = createTime();
  const memories = new Map<string, string>();
  const logged: string[] = [];
  const run = (settings: Partial<SlackSettings> = {}): MessageSender & Pick<SlackMessageClient, 'start'> => {
    const ports = {
      web: createClient({ token: slack.botToken, apiUrl: slack.apiUrl, fetch: within(how.timeoutMs ?? 2_000) }),
      self: { userId: slack.ids.botUser, botId: slack.ids.bot, appId: slack.ids.app },
      queries: queries([DEV, QA]),
      clock: time.clock,
      timers: time.timers,
      log: pino({ level: 'trace' }, { write: (line: string) => void logged.push(line) }),
      memory: memoryOf(memories),
      settings: { ...ALL, ...how.settings, ...settings },
    };
    const client = createMessageClient(ports);
    const sender = createMessageSender({ ...ports, client });
    ends.push(() => sender.stop());
    return { ...sender, start: () => client.start() };
  };
  ends.push(() => slack.close());
  const outgoing = run();
  /** Advances time until a condition is true. */
  const until = async (isSo: () => boolean, what = 'what the test waits for', stepMs = 50): Promise<void> => {
    for (let step = 0; step < 2_000; step += 1) {
      if (isSo()) return;
      await time.advance(stepMs);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    throw new Error(`never came: ${what}`);
  };
  return {
    slack,
    time,
    outgoing,
    memories,
    logged,
    /** Starts another run of the program on the same memory. */
    again: run,
    channel: `slack:${slack.ids.channel}`,
    other: `slack:${slack.ids.other}`,
    /** Returns the visible texts of the channel, oldest first. */
    texts: (channel = slack.ids.channel) => slack.read(channel).map(({ text }) => text),
    calls: (method: string) => slack.requests.filter((request) => request.method === method),
    until,
    /** Advances time until the promise has settled, and returns the promise. */
    over: async <T>(promise: Promise<T>): Promise<T> => {
      let settled = false;
      const watching = promise.then(
        () => void (settled = true),
        () => void (settled = true),
      );
      await until(() => settled, 'the end of a promise');
      await watching;
      return promise;
    },
    /** Advances time by `ms`, and lets answers come in. */
    pass: async (ms: number): Promise<void> => {
      const end = time.clock.now() + ms;
      await until(() => time.clock.now() >= end, 'the time', Math.max(50, Math.ceil(ms / 500)));
    },
  };
}

/** Returns a fetch with this timeout, in real time. */
function within(ms: number): typeof globalThis.fetch {
  return (url, init) => globalThis.fetch(url, { ...init, signal: AbortSignal.timeout(ms) });
}

let posts = 0;

/** Builds a post of a turn. */
export function said(text: string, how: Partial<OutgoingPost> = {}): OutgoingPost {
  posts += 1;
  return { outboxId: `box-${posts}`, speaker: DEV, text, afterId: null, epoch: 7, ...how };
}

/** Delivers an outbox entry until it is confirmed or failed, at most 60 times. Returns all settlements. */
export async function deliver(world: Speaking, row: Partial<OutboxRow> & { readonly channel: ChannelId }) {
  const { outgoing, time } = world;
  const adapter = { capabilities: { idempotentPosts: false }, ...outgoing } as unknown as ChatAdapter;
  const carry = createOutboxSender({
    adapterOf: () => adapter,
    speakerOf: () => DEV,
    threadOf: () => null,
    now: () => time.clock.now(),
    clean: (text) => text,
    reportDoubtfulPost: () => undefined,
  });
  const owed = rowOf(row);
  const settlements: Settlement[] = [];
  for (let attempts = 1; attempts <= 60; attempts += 1) {
    const uncertain = settlements.some(({ state }) => state === 'uncertain');
    const settlement = await world.over(carry({ ...owed, attempts, uncertain }));
    settlements.push(settlement);
    if (settlement.state === 'confirmed' || settlement.state === 'failed') break;
    await world.until(() => time.clock.now() >= settlement.notBefore, 'the next attempt', 500);
  }
  return settlements;
}

/** Builds an outbox entry. Default: dev posts "hello". */
export function rowOf(row: Partial<OutboxRow> & { readonly channel: ChannelId }): OutboxRow {
  posts += 1;
  const text = row.text ?? 'hello';
  return {
    id: `box-${posts}`,
    lane: 'posts',
    effect: { type: 'post', agent: 'dev', epoch: 7, line: 1, text },
    part: 0,
    text,
    attempts: 1,
    uncertain: false,
    afterId: null,
    editsId: null,
    ...row,
  };
}

/** Builds the view of a floor in an exchange. Default: nobody holds it. */
export function viewOf(channel: ChannelId, how: Partial<FloorView> = {}): FloorView {
  return {
    channel,
    store: 'x',
    condition: 'open',
    mode: 'inject',
    order: 'round-robin',
    epoch: 7,
    holder: null,
    seats: [],
    next: ['qa'],
    held: [],
    turns: null,
    obstacles: [],
    ...how,
  };
}

/** Builds the holder of a view. */
export function holding(agent: string, how: Partial<NonNullable<FloorView['holder']>> = {}): FloorView['holder'] {
  return {
    agent,
    epoch: 7,
    status: 'ACTIVE',
    startedAt: 0,
    deadlineAt: null,
    waitingFor: null,
    working: false,
    approval: null,
    ...how,
  };
}

function memoryOf(memories: Map<string, string>): Memory {
  return {
    get: (key) => memories.get(key) ?? null,
    set: async (key, value) => void memories.set(key, value),
  };
}

function queries(agents: readonly NonNullable<Speaker>[]): FloorQueries {
  return {
    channels: () => [],
    agents: () => agents.map((agent) => ({ ...agent, description: '' })),
    awake: () => [],
    view: () => null,
    deliveryPreview: () => null,
    turns: () => [],
    journal: () => [],
    lines: () => [],
    thread: () => null,
  };
}

/** Returns whether a text appears in the channel exactly once. */
export function standsOnce(slack: SlackServer, text: string): boolean {
  return slack.read(slack.ids.channel).filter((message) => message.text === text).length === 1;
}
