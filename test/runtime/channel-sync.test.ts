import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { AdapterError, ChatError } from '../../src/adapters/port.ts';
import type { History, Position } from '../../src/adapters/port.ts';
import type { HumanMessage } from '../../src/engine/port.ts';
import { puppetry } from '../agents/bench.ts';
import { createTime } from '../agents/time.ts';
import type { Time } from '../agents/time.ts';
import { load } from '../config/world.ts';
import { emptyFloor } from '../../src/turns/floor/floor.ts';
import { Suspensions } from '../../src/runtime/channel-sync.ts';
import { createLog } from '../../src/runtime/log.ts';
import { startApp } from './start-app.ts';
import { folder, open } from '../engine/sqlite/fixture.ts';

const CHANNEL = 'discord:100000000000000000';
const THREAD = 'discord:100000000000000500';
const NOTHING: History = { messages: [], changes: [], gap: null };
/** `until` throws when its condition does not hold within this time. */
const TOO_LONG_MS = 20_000;
const CONFIG = load(
  {
    turnConfig: { maxTurns: 50 },
    agents: [{ id: 'dev', backend: { kind: 'scripted', script: 'dev' } }],
    channels: [{ id: CHANNEL, agents: ['dev'] }],
  },
  { DISCORD_TOKEN: 'a-token-of-tests' },
);

function message(order: number, channel = CHANNEL): HumanMessage {
  return {
    id: `m${order}`,
    channel,
    author: { id: 'u1', name: 'Ada' },
    text: `text ${order}`,
    sentAt: 1_000_000,
    order: String(order),
    addressed: [],
    attachments: [],
  };
}

/** Starts the program on a platform that loses events. `histories` answers the history reads; the last one repeats. */
async function program(file: string, time: Time, histories: (History | Error | Promise<History>)[] = [NOTHING]) {
  const { backend, sessions } = puppetry({ failures: [] });
  const asked: { readonly channel: string; readonly after: Position | null; mark: Position | null }[] = [];
  const posts: string[] = [];
  /** Texts that the platform refuses to post, in this order, each once. */
  const refusals: string[] = [];
  const store = open(file, { clock: time.clock });
  const { app, broken, intake, queries } = await startApp({
    config: CONFIG,
    store,
    time,
    adapter: {
      name: 'discord',
      capabilities: { losesEvents: true },
      post: async (channel, { text }) => {
        if (refusals[0] !== text) return `p${posts.push(text)}`;
        refusals.shift();
        throw new ChatError('it was blocked', { method: 'post', channel, fault: 'refused' });
      },
      catchUp: async (channel, after, mark) => {
        asked.push({ channel, after, mark: mark ?? null });
        const history = histories.length > 1 ? histories.shift() : histories[0];
        if (history instanceof Error) throw history;
        return history ?? NOTHING;
      },
    },
    backendFor: () => backend,
  });
  const until = async (isSo: () => boolean, meanwhile = time.settle): Promise<void> => {
    const late = AbortSignal.timeout(TOO_LONG_MS);
    while (!isSo()) {
      late.throwIfAborted();
      await meanwhile();
    }
  };
  const places = (): readonly string[] =>
    queries()
      .channels()
      .map(({ id }) => id);
  return { app, store, intake, until, asked, posts, refusals, broken, sessions, places };
}

describe('the connection to a platform', () => {
  test('stops grants while it is lost, and reads missed messages before the next grant', async () => {
    using place = folder();
    const time = createTime();
    const missed = { ...NOTHING, messages: [message(7)] };
    const { app, store, intake, until } = await program(place.file(), time, [NOTHING, missed]);
    await until(() => store.floors.state(CHANNEL)?.seats[0]?.status === 'QUEUED');
    intake().disconnected();
    await until(() => store.floors.state(CHANNEL)?.catchingUp === true);
    await intake().message(message(8));
    expect(store.floors.state(CHANNEL)).toMatchObject({ epoch: 0, turn: null });
    intake().reconnected({ missed: 'perhaps' });
    await until(() => store.floors.state(CHANNEL)?.catchingUp === false);
    expect(store.floors.state(CHANNEL)).toMatchObject({ epoch: 1, turn: { agent: 'dev' } });
    expect(store.lines(CHANNEL, 0, 9).map((line) => line.message)).toEqual(['m7', 'm8']);
    await app.stop();
  });

  test('stops grants, and ends nothing, when it is lost while another program writes to the database', async () => {
    using place = folder();
    const time = createTime();
    const { app, store, intake, until, broken } = await program(place.file(), time);
    await until(() => store.floors.state(CHANNEL)?.seats[0]?.status === 'QUEUED');
    const other = new Database(place.file());
    other.exec('BEGIN IMMEDIATE');
    intake().disconnected();
    intake().suspend(CHANNEL, 'it was archived');
    for (let turn = 0; turn < 5; turn += 1) await time.settle();
    other.exec('ROLLBACK');
    other.close();
    await until(
      () => store.floors.state(CHANNEL)?.catchingUp === true && store.keyValues.recall('suspended', CHANNEL) !== null,
      () => time.advance(500),
    );
    expect(broken).toEqual([]);
    await app.stop();
  });

  test('reads the history from the last message before the loss, also when a message arrives first', async () => {
    using place = folder();
    const time = createTime();
    const { app, intake, until, asked } = await program(place.file(), time, [NOTHING]);
    await intake().message(message(7));
    intake().disconnected();
    await intake().message(message(9));
    for (const reads of [2, 3]) {
      intake().reconnected({ missed: 'perhaps' });
      await until(() => asked.length === reads);
      for (let turn = 0; turn < 20; turn += 1) await time.settle();
    }
    expect(asked.slice(1).map(({ after }) => after?.id)).toEqual(['m7', 'm9']);
    await app.stop();
  });

  test('reads the history from the last message before the loss, also when the sweep read it meanwhile', async () => {
    using place = folder();
    const time = createTime();
    const { app, intake, until, asked } = await program(place.file(), time, [NOTHING]);
    await intake().message(message(7));
    intake().disconnected();
    await time.advance(300_000);
    await until(() => asked.length === 2);
    for (let turn = 0; turn < 20; turn += 1) await time.settle();
    await intake().message(message(9));
    intake().reconnected({ missed: 'perhaps' });
    await until(() => asked.length === 3);
    expect(asked.slice(1).map(({ after }) => after?.id)).toEqual(['m7', 'm7']);
    await app.stop();
  });

  test('stays lost when it breaks again during the reading of the history, until the next reading', async () => {
    using place = folder();
    const time = createTime();
    const slow = Promise.withResolvers<History>();
    const { app, store, intake, until, asked } = await program(place.file(), time, [NOTHING, slow.promise]);
    intake().disconnected();
    intake().reconnected({ missed: 'perhaps' });
    await until(() => asked.length === 2);
    intake().disconnected();
    slow.resolve(NOTHING);
    for (let turn = 0; turn < 20; turn += 1) await time.settle();
    expect(store.floors.state(CHANNEL)?.catchingUp).toBe(true);
    intake().reconnected({ missed: 'nothing' });
    await until(() => store.floors.state(CHANNEL)?.catchingUp === false);
    await app.stop();
  });

  test('that comes back while the history is still being read grants nothing before the end of that reading', async () => {
    using place = folder();
    const time = createTime();
    const slow = Promise.withResolvers<History>();
    const { app, store, intake, until, asked } = await program(place.file(), time, [NOTHING, slow.promise, NOTHING]);
    await until(() => store.floors.state(CHANNEL)?.seats[0]?.status === 'QUEUED');
    intake().disconnected();
    intake().reconnected({ missed: 'perhaps' });
    await until(() => asked.length === 2);
    intake().disconnected();
    intake().reconnected({ missed: 'nothing' });
    await intake().message(message(8));
    for (let turn = 0; turn < 20; turn += 1) await time.settle();
    expect(store.floors.state(CHANNEL)).toMatchObject({ catchingUp: true, epoch: 0 });
    slow.resolve({ ...NOTHING, messages: [message(7)] });
    await until(() => store.floors.state(CHANNEL)?.epoch === 1);
    expect(store.lines(CHANNEL, 0, 9).map((line) => line.message)).toEqual(['m7', 'm8']);
    await app.stop();
  });

  test('that comes back after a reading has failed reads the history again', async () => {
    using place = folder();
    const time = createTime();
    const slow = Promise.withResolvers<History>();
    const { app, store, intake, until, asked } = await program(place.file(), time, [
      NOTHING,
      slow.promise,
      { ...NOTHING, messages: [message(7)] },
    ]);
    await until(() => store.floors.state(CHANNEL)?.seats[0]?.status === 'QUEUED');
    intake().disconnected();
    intake().reconnected({ missed: 'perhaps' });
    await until(() => asked.length === 2);
    intake().disconnected();
    slow.reject(new Error('the network is down'));
    for (let turn = 0; turn < 20; turn += 1) await time.settle();
    intake().reconnected({ missed: 'nothing' });
    await until(() => store.floors.state(CHANNEL)?.catchingUp === false);
    await until(() => store.floors.state(CHANNEL)?.epoch === 1);
    expect(store.lines(CHANNEL, 0, 9).map((line) => line.message)).toEqual(['m7']);
    await app.stop();
  });

  test('row 34: takes in a message once by the sweep when no event delivered it', async () => {
    using place = folder();
    const time = createTime();
    const { app, store, until, asked } = await program(place.file(), time, [
      NOTHING,
      { ...NOTHING, messages: [message(7)] },
    ]);
    await until(() => store.floors.state(CHANNEL)?.seats[0]?.status === 'QUEUED');
    await time.advance(299_999);
    expect(asked).toHaveLength(1);
    await time.advance(1);
    await until(() => store.floors.state(CHANNEL)?.epoch === 1);
    await until(
      () => asked.length === 3,
      () => time.advance(300_000),
    );
    expect(store.lines(CHANNEL, 0, 9).filter((line) => line.message === 'm7')).toHaveLength(1);
    await app.stop();
  });

  test('announces a gap when the history cannot be read', async () => {
    using place = folder();
    const time = createTime();
    const { app, store, until, posts } = await program(place.file(), time, [new Error('no permission to read it')]);
    await until(() => posts.length === 1);
    expect(posts).toEqual(['gap 1']);
    expect(store.floors.journal(CHANNEL, 20).map(({ fact }) => fact)).toContainEqual({
      type: 'caughtUp',
      gap: 'no permission to read it',
    });
    await app.stop();
  });

  test('takes in messages sent while the program was stopped, but none from before Conch was added', async () => {
    using place = folder();
    const time = createTime();
    const before = await program(place.file(), time, [{ ...NOTHING, mark: { id: 'm5', order: '5' } }]);
    await before.app.stop();
    const again = await program(place.file(), time, [{ ...NOTHING, messages: [message(4), message(5), message(6)] }]);
    const mark = { id: 'm5', order: '5' };
    expect(again.asked).toEqual([{ channel: CHANNEL, after: mark, mark }]);
    await again.until(() => again.store.floors.state(CHANNEL)?.epoch === 1);
    expect(again.store.lines(CHANNEL, 0, 9).map((line) => line.message)).toEqual(['m6']);
    await again.app.stop();
  });

  test('takes in an edit that the history shows', async () => {
    using place = folder();
    const time = createTime();
    const edit = { change: 'edited', id: 'm7', channel: CHANNEL, text: 'better', version: '2' } as const;
    const { app, store, until } = await program(place.file(), time, [
      { ...NOTHING, messages: [message(7)] },
      { ...NOTHING, changes: [edit] },
    ]);
    await time.advance(300_000);
    await until(() => store.message('m7')?.text === 'better');
    expect(store.message('m7')).toMatchObject({ edited: true, version: '2' });
    await app.stop();
  });

  test('reports the error that ends the program when the connection can never work', async () => {
    using place = folder();
    const { app, intake, broken } = await program(place.file(), createTime());
    const error = new AdapterError('Discord does not accept DISCORD_TOKEN', { adapter: 'discord' });
    intake().broken(error);
    expect(broken).toEqual([error]);
    await app.stop();
  });
});

describe('a thread', () => {
  const thread = { id: THREAD, parent: CHANNEL, name: 'a thread', since: { id: '500', order: '500' } };

  test("gets its own floor with the channel's seats, and its first message waits for them", async () => {
    using place = folder();
    const time = createTime();
    const { app, store, intake, until, posts, places } = await program(place.file(), time);
    await intake().thread(thread);
    await intake().message(message(501, THREAD));
    await until(() => store.floors.state(THREAD)?.turn?.agent === 'dev');
    expect(places()).toEqual([CHANNEL, THREAD]);
    expect(store.floors.state(CHANNEL)?.epoch).toBe(0);
    expect(posts).toEqual([]);
    await app.stop();
  });

  test('addresses the agent named in its first message, while its seats are being made', async () => {
    using place = folder();
    const time = createTime();
    const { app, store, intake, until } = await program(place.file(), time);
    const opened = intake().thread(thread);
    await opened;
    await intake().message({ ...message(501, THREAD), text: 'dev: hello' });
    await until(() => store.floors.state(THREAD)?.turn?.agent === 'dev');
    const routed = store.why('m501').flatMap(({ fact }) => (fact.type === 'messageRouted' ? [fact.addressed] : []));
    expect(routed.at(-1)).toEqual(['dev']);
    await app.stop();
  });

  test('is known after a restart, and forgotten after a week without a message', async () => {
    using place = folder();
    const time = createTime();
    const first = await program(place.file(), time);
    await first.intake().thread(thread);
    await first.intake().message({ ...message(501, THREAD), ignore: 'bots are ignored in this channel' });
    await first.app.stop();
    const second = await program(place.file(), time);
    expect(second.places()).toEqual([CHANNEL, THREAD]);
    await second.app.stop();
    await time.advance(8 * 86_400_000);
    const third = await program(place.file(), time);
    expect(third.places()).toEqual([CHANNEL]);
    await third.intake().thread(thread);
    await third.until(() => third.places().includes(THREAD));
    await third.app.stop();
  });

  test('grants no turn before the connection is back when it is lost during the first history read', async () => {
    using place = folder();
    const time = createTime();
    const slow = Promise.withResolvers<History>();
    const { app, store, intake, until, asked } = await program(place.file(), time, [NOTHING, slow.promise, NOTHING]);
    await until(() => store.floors.state(CHANNEL)?.seats[0]?.status === 'QUEUED');
    await intake().thread(thread);
    await intake().message(message(501, THREAD));
    await until(() => asked.length === 2);
    intake().disconnected();
    slow.resolve(NOTHING);
    for (let turn = 0; turn < 20; turn += 1) await time.settle();
    expect(store.floors.state(THREAD)).toMatchObject({ catchingUp: true, turn: null });
    intake().reconnected({ missed: 'nothing' });
    await until(() => store.floors.state(THREAD)?.turn?.agent === 'dev');
    await app.stop();
  });

  test('is read from its first message if it began after Conch was added, otherwise from now on', async () => {
    using place = folder();
    const time = createTime();
    const { app, intake, until, asked } = await program(place.file(), time, [
      { ...NOTHING, mark: { id: '400', order: '400' } },
      NOTHING,
    ]);
    await intake().thread(thread);
    await intake().thread({ ...thread, id: 'discord:100000000000000300', since: { id: '300', order: '300' } });
    await until(() => asked.length === 3);
    expect(new Map(asked.slice(1).map(({ channel, after }) => [channel, after]))).toEqual(
      new Map([
        [thread.id, thread.since],
        ['discord:100000000000000300', null],
      ]),
    );
    await app.stop();
  });
});

describe('a post of an agent that the platform refuses for good', () => {
  test('is announced once, even if the announcement is refused, too', async () => {
    using place = folder();
    const time = createTime();
    const { app, store, intake, until, sessions, refusals, posts } = await program(place.file(), time);
    await until(() => store.floors.state(CHANNEL)?.seats[0]?.status === 'QUEUED');
    await intake().message(message(7));
    await time.advance(1_000);
    await until(() => sessions[0]?.turn !== null && sessions[0] !== undefined);
    refusals.push('text', 'undelivered 1');
    sessions[0]?.report?.text('text');
    sessions[0]?.ends({ how: 'completed' });
    await until(() => refusals.length === 0);
    for (let turn = 0; turn < 20; turn += 1) await time.settle();
    expect(posts).toEqual([]);
    const told = store.floors.journal(CHANNEL, 100).flatMap(({ fact }) => (fact.type === 'announced' ? [fact] : []));
    expect(told.map(({ announcement }) => announcement)).toEqual([
      { kind: 'undelivered', agent: 'dev', why: 'it was blocked' },
    ]);
    await app.stop();
  });
});

describe('a channel that the platform closed', () => {
  test('row 42: ends its turn and pauses, and resumes when reopened, also after a restart', async () => {
    using place = folder();
    const time = createTime();
    const { app, store, intake, until } = await program(place.file(), time);
    await until(() => store.floors.state(CHANNEL)?.seats[0]?.status === 'QUEUED');
    await intake().message(message(7));
    await until(() => store.floors.state(CHANNEL)?.turn !== null);
    intake().suspend(CHANNEL, 'it was archived');
    intake().suspend(CHANNEL, 'it was archived');
    await until(() => store.keyValues.recall('suspended', CHANNEL) !== null);
    expect(store.floors.state(CHANNEL)).toMatchObject({ condition: 'paused', turn: null });
    await app.stop();
    const again = await program(place.file(), time);
    again.intake().restore(CHANNEL);
    await again.until(() => again.store.floors.state(CHANNEL)?.condition !== 'paused');
    await again.app.stop();
  });

  test('is paused in the commit that stores the closing, and resumed in the commit that deletes it', async () => {
    using place = folder();
    const time = createTime();
    const { app, store, until } = await program(place.file(), time);
    await until(() => store.floors.state(CHANNEL)?.seats[0]?.status === 'QUEUED');
    const seen: unknown[] = [];
    const look = <Result>(result: Result): Result => {
      seen.push([store.floors.state(CHANNEL)?.condition, store.keyValues.recall('suspended', CHANNEL) !== null]);
      return result;
    };
    const suspensions = new Suspensions({
      texts: {
        remember: (...kept) => store.keyValues.remember(...kept).then(look),
        forget: (...kept) => store.keyValues.forget(...kept).then(look),
        recall: (...kept) => store.keyValues.recall(...kept),
      },
      manager: {
        apply: async (channel, command) => {
          const applied = await store.floors.apply(channel, command, time.clock.now());
          return command.type === 'stop' ? applied : look(applied);
        },
        floor: (channel) => store.floors.state(channel),
      },
      log: createLog({ level: 'error', pretty: false, secrets: [], clock: time.clock, destination: { write() {} } }),
    });
    await suspensions.suspend(CHANNEL, 'it was archived');
    await suspensions.restore(CHANNEL);
    expect(seen).toEqual([
      ['paused', true],
      ['paused', true],
      ['resting', false],
      ['resting', false],
    ]);
    await app.stop();
  });

  test('stays paused when a person had paused it', async () => {
    using place = folder();
    const time = createTime();
    const { app, store, intake, until } = await program(place.file(), time);
    await intake().command(CHANNEL, { id: 'ada', name: 'Ada', roles: [] }, '/floor pause');
    intake().suspend(CHANNEL, 'the bot was removed');
    await until(() => store.keyValues.recall('suspended', CHANNEL) !== null);
    intake().restore(CHANNEL);
    await until(() => store.keyValues.recall('suspended', CHANNEL) === null);
    expect(store.floors.state(CHANNEL)?.condition).toBe('paused');
    await app.stop();
  });

  test.each([['/floor pause'], ['/floor resume', '/floor pause']])(
    'stays paused when a person pauses it before it is reopened: %s %s',
    async (...lines) => {
      using place = folder();
      const { app, store, intake, until } = await program(place.file(), createTime());
      await until(() => store.floors.state(CHANNEL)?.seats[0]?.status === 'QUEUED');
      intake().suspend(CHANNEL, 'the bot was removed');
      await until(() => store.keyValues.recall('suspended', CHANNEL) !== null);
      for (const line of lines) {
        const answer = await intake().command(CHANNEL, { id: 'ada', name: 'Ada', roles: [] }, line);
        expect(answer).toMatchObject({ ok: true });
      }
      intake().restore(CHANNEL);
      await until(() => store.keyValues.recall('suspended', CHANNEL) === null);
      expect(store.floors.state(CHANNEL)?.condition).toBe('paused');
      await app.stop();
    },
  );

  test.each([[null], ['it was archived']])(
    'applies commands in the order in which people give them, also while another channel is closed (closed: %s)',
    async (why) => {
      const applied: string[] = [];
      const kept = JSON.stringify({ why, paused: true });
      const suspensions = new Suspensions({
        texts: {
          remember: async () => {},
          forget: async () => {},
          recall: (_owner, key) => (key === CHANNEL && why !== null ? kept : null),
        },
        manager: {
          apply: async (channel, { type }) => {
            if (channel !== CHANNEL) return new Promise(() => {});
            applied.push(type);
            return { ok: true, state: emptyFloor(CHANNEL), facts: [], effects: [] };
          },
          floor: () => null,
        },
        log: createLog({
          level: 'error',
          pretty: false,
          secrets: [],
          clock: createTime().clock,
          destination: { write() {} },
        }),
      });
      void suspensions.suspend('discord:100000000000000001', 'it was archived');
      await Promise.all([
        suspensions.give(CHANNEL, { type: 'pause', by: 'ada' }),
        suspensions.give(CHANNEL, { type: 'resume', by: 'ada' }),
      ]);
      expect(applied).toEqual(['pause', 'resume']);
    },
  );

  test('gets no other round when a person had resumed it before it is reopened', async () => {
    using place = folder();
    const time = createTime();
    const { app, store, intake, until } = await program(place.file(), time);
    await until(() => store.floors.state(CHANNEL)?.seats[0]?.status === 'QUEUED');
    intake().suspend(CHANNEL, 'the bot was removed');
    await until(() => store.keyValues.recall('suspended', CHANNEL) !== null);
    await intake().command(CHANNEL, { id: 'ada', name: 'Ada', roles: [] }, '/floor resume');
    await until(() => store.floors.state(CHANNEL)?.condition === 'resting');
    intake().restore(CHANNEL);
    await until(() => store.keyValues.recall('suspended', CHANNEL) === null);
    expect(store.floors.state(CHANNEL)).toMatchObject({ condition: 'resting', exchange: null });
    await app.stop();
  });
});
