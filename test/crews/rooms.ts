import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { createAdapter as createDiscord } from '../../src/adapters/discord/adapter.ts';
import { createAdapter as createSlack } from '../../src/adapters/slack/adapter.ts';
import type { ChatAdapter } from '../../src/adapters/port.ts';
import { completeTexts } from '../../src/config/announcements.ts';
import { systemClock, systemTimers } from '../../src/lib/time.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import { announcementText } from '../../src/turns/text/announcement-values.ts';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { createMemory } from '../adapters/discord/listening.ts';
import { startDiscord } from '../adapters/discord/server.ts';
import { adapterOptions } from '../adapters/slack/listener.ts';
import { startSlack } from '../adapters/slack/server.ts';
import { channelPage, slackPage } from '../e2e/channel-page.ts';
import { load } from '../config/world.ts';
import { startApp } from '../runtime/start-app.ts';
import { played } from '../work/crews/played.ts';
import type { Work } from '../work/crews/played.ts';
import { performStep } from './acts.ts';
import { CREW, makeRepository } from '../../examples/crew/repository.ts';

export type RoomName = 'discord' | 'slack' | 'console';

/**
 * The contents of a crew's channel and of its tickets' threads (`threads`). `edits`: edits of cards, which are messages
 * with buttons, with their times in milliseconds.
 */
type Seen = {
  readonly texts: readonly string[];
  readonly threads: readonly string[];
  readonly edits: readonly { readonly card: string; readonly at: number }[];
};

type Pages = Readonly<Record<string, string>>;

/** A local server of a chat platform for one measurement. `channel`: the crew's channel. */
type Room = {
  readonly channel: string;
  readonly adapter: Parameters<typeof startApp>[0]['adapter'];
  /** Environment variables that the configuration needs. */
  readonly env: Readonly<Record<string, string>>;
  readonly seen: () => Seen;
  /** The channel and its threads as pages, by name. Empty for the console. */
  readonly pages: () => Pages;
  /** Writes as a person in the channel or the thread of a page. */
  readonly say: (page: string, text: string) => void;
  readonly close: () => Promise<void>;
};

/**
 * The figures of a crew in a room. `closestEdits`: the shortest time between two edits of one card; `null` for less
 * than two edits. `threads`: the posts in the tickets' threads, as JSON.
 */
export type RoomFigures = {
  readonly room: RoomName;
  readonly workers: number;
  readonly tickets: number;
  readonly mostMessages: number;
  readonly closestEdits: number | null;
  readonly threads: readonly string[];
};

const OPEN: Readonly<Record<RoomName, () => Promise<Room>>> = { discord, slack, console: inConsole };
const quiet = pino({ level: 'silent' });

/** Lets scripted workers finish tickets in a room and counts the messages in its channel. A step takes `stepMs`. */
export async function measureRoom(
  name: RoomName,
  {
    workers,
    tickets,
    stepMs,
    shows = null,
    look = async () => {},
    ...order
  }: {
    readonly workers: number;
    readonly tickets: readonly string[];
    readonly stepMs: number;
    /** A text that a thread must show before the end; `null`: none. */
    readonly shows?: string | null;
    /** Called repeatedly until the crew is finished. */
    readonly look?: (room: Pick<Room, 'pages' | 'say'>) => Promise<void>;
    /** More keys of the crew's configuration. */
    readonly crew?: object;
    readonly work?: Work;
  },
): Promise<RoomFigures> {
  const room = await OPEN[name]();
  const clock = systemClock();
  const repo = makeRepository({ tickets });
  const config = load(
    {
      turnConfig: { coalesceMs: 0, receipts: false },
      agents: [{ id: 'pm', backend: { kind: 'command', command: 'unused' } }],
      channels: [{ id: room.channel, agents: ['pm'] }],
      crews: [
        {
          id: CREW,
          repo,
          channel: room.channel,
          workers,
          test: '! grep -rqE "^(<<<<<<<|>>>>>>>)" src',
          backend: { kind: 'command', command: 'unused' },
          ...order.crew,
        },
      ],
    },
    { CONCH_DATA_DIR: mkdtempSync(join(tmpdir(), 'conch-crew-room-')), ...room.env },
  );
  const store = openFloorStore({
    path: ':memory:',
    machine: floorWithWork,
    clock,
    textLimit: () => 2_000,
    words: (announcement, _channel, repeat) => announcementText(announcement, completeTexts({}), (id) => id, repeat),
  });
  const { app } = await startApp({
    config,
    store,
    time: { clock, timers: systemTimers },
    adapter: room.adapter,
    backendFor: (agent) => played(agent, order.work ?? working(stepMs)),
  });
  try {
    await app.crews.commands.run('run', {
      channel: room.channel,
      person: { id: 'ada', name: 'Ada', roles: [] },
      values: {},
    });
    const isOver = () => {
      const crew = app.crews.state(CREW);
      return crew?.finished.length === tickets.length && crew.workers.every(({ status }) => status === 'idle');
    };
    const isShown = () => shows === null || room.seen().threads.some((text) => text.includes(shows));
    while (!isOver() || !isShown()) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      await look(room);
    }
    // The last posts are still on their way.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    await look(room);
    if (process.env['SHOW'])
      console.log(
        room
          .seen()
          .texts.map((t) => t.slice(0, 160))
          .join('\n'),
        room.seen().edits,
      );
    return { room: name, workers, tickets: tickets.length, ...figuresOf(room.seen(), tickets) };
  } finally {
    await app.stop();
    await room.close();
  }
}

function figuresOf(
  { texts, threads, edits }: Seen,
  tickets: readonly string[],
): Pick<RoomFigures, 'mostMessages' | 'closestEdits' | 'threads'> {
  const about = (id: string) => texts.filter((text) => new RegExp(`\\b${id}\\b`, 'u').test(text)).length;
  const ofCards = [...Map.groupBy(edits, ({ card }) => card).values()].map((all) => all.map(({ at }) => at));
  const gaps = ofCards.flatMap((times) => times.slice(1).map((at, index) => at - (times[index] ?? 0)));
  const closestEdits = gaps.length === 0 ? null : Math.min(...gaps);
  return { mostMessages: Math.max(...tickets.map(about)), closestEdits, threads };
}

/** A worker that does the tickets of the demonstration repository. Each step takes `stepMs`. */
function working(stepMs: number): Work {
  return async (folder, turn) => {
    await new Promise((resolve) => setTimeout(resolve, stepMs));
    const [, ticket = ''] = /-([tx]-\w+)$/u.exec(folder) ?? [];
    const act = folder === '' ? null : performStep({ folder, ticket, course: 'works', call: 1, prompt: turn.text });
    return act?.do === 'say' ? act.text : 'Noted.';
  };
}

const WITH_BUTTONS = /"custom_id"|"type":"actions"/u;

async function discord(): Promise<Room> {
  const server = await startDiscord();
  const adapter: ChatAdapter = createDiscord({
    token: server.token,
    apiUrl: server.apiUrl,
    clock: systemClock(),
    timers: systemTimers,
    log: quiet,
    memory: createMemory(),
    settings: { webhooks: true, roles: false, streaming: true, cards: true, typing: false },
  });
  const messages = `/channels/${server.channel}/messages`;
  const calls = (method: string) =>
    server.requests.filter(({ method: how, path }) => how === method && path.replace(/\/\d+$/u, '') === messages);
  const isCard = (body: unknown): boolean => WITH_BUTTONS.test(JSON.stringify(body));
  return {
    channel: `discord:${server.channel}`,
    adapter,
    env: { DISCORD_TOKEN: server.token },
    seen: () => ({
      texts: calls('POST').flatMap(({ body }) => (isCard(body) ? [] : [JSON.stringify(body)])),
      threads: server.requests.flatMap(({ method, path, body }) =>
        method === 'POST' && path !== messages ? [JSON.stringify(body)] : [],
      ),
      edits: calls('PATCH').flatMap(({ body, path, at }) => (isCard(body) ? [{ card: path, at }] : [])),
    }),
    say: (page, text) => void server.write(server.person('ann'), page, text),
    pages: () =>
      Object.fromEntries(
        [server.channel, ...server.read(server.channel).flatMap(({ thread }) => thread ?? [])].map((id) => [
          id,
          channelPage('lagoon', id === server.channel ? 'general' : id, server.read(id)),
        ]),
      ),
    close: () => server.close(),
  };
}

async function slack(): Promise<Room> {
  const server = await startSlack({ ackMs: 400 });
  const options = adapterOptions(server);
  const adapter = createSlack({ ...options, settings: { ...options.settings, cards: true } });
  const { channel } = server.ids;
  const calls = (method: string) =>
    server.requests.filter(
      (each) => each.method === method && each.args['channel'] === channel && each.args['thread_ts'] == null,
    );
  const isCard = (args: unknown): boolean => WITH_BUTTONS.test(JSON.stringify(args).replaceAll('\\"', '"'));
  return {
    channel: `slack:${channel}`,
    adapter,
    env: { SLACK_BOT_TOKEN: server.botToken, SLACK_APP_TOKEN: server.appToken },
    seen: () => ({
      texts: calls('chat.postMessage').flatMap(({ args }) => (isCard(args) ? [] : [JSON.stringify(args)])),
      threads: server.requests.flatMap(({ method, args }) =>
        method === 'chat.postMessage' && args['thread_ts'] != null ? [JSON.stringify(args)] : [],
      ),
      // An update does not tell whether its message is in a thread.
      edits: calls('chat.update').flatMap(({ args, at }) => (isCard(args) ? [{ card: String(args['ts']), at }] : [])),
    }),
    say: (page, text) => void server.write(server.ids.ann, channel, text, page === channel ? {} : { thread: page }),
    pages: () => {
      const threads = server.read(channel).flatMap(({ ts, replies }) => (replies > 0 ? [ts] : []));
      const names = { [server.ids.ann]: 'ann', [server.ids.bob]: 'bob', [channel]: 'general' };
      return Object.fromEntries(
        [undefined, ...threads].map((ts) => [
          ts ?? channel,
          slackPage(ts === undefined ? '#general' : 'Thread', server.read(channel, ts), names),
        ]),
      );
    },
    close: () => server.close(),
  };
}

async function inConsole(): Promise<Room> {
  const channel = 'console:crew';
  const texts: string[] = [];
  const threads: string[] = [];
  return {
    channel,
    env: {},
    adapter: {
      name: 'console',
      capabilities: { textLimit: 4_000 },
      openThread: async (parent, name, key) => ({ id: `${parent}/${key}`, parent, name }),
      // An edit of an earlier line counts as no message.
      edit: async () => 'changed',
      post: async (at, { outboxId, speaker, text }) => {
        if (at === channel) texts.push(text);
        else threads.push(JSON.stringify({ username: speaker?.name, text }));
        return outboxId;
      },
    },
    // The page shows the crew itself and has no card.
    seen: () => ({ texts, threads, edits: [] }),
    pages: () => ({}),
    say: () => {},
    close: async () => {},
  };
}
