import { describe, expect, test } from 'vitest';
import type { AgentBackend, AgentSession } from '../../src/agents/backends/backend.ts';
import type { HumanMessage } from '../../src/engine/port.ts';
import { FloorStore } from '../../src/turns/floor-store.ts';
import { openDatabase } from '../../src/engine/sqlite/open.ts';
import { createTime } from '../agents/time.ts';
import type { Time } from '../agents/time.ts';
import { load } from '../config/world.ts';
import { folder, options } from '../engine/sqlite/fixture.ts';
import { watch } from '../engine/sqlite/watch.ts';
import { startApp } from './start-app.ts';
import type { Start } from './start-app.ts';

const AGENTS = ['pm', 'dev'];
const QUARTER_HOUR_MS = 900_000;

/** A backend whose agents answer at once. `opened` lists the sessions in the order of their opening. */
function quick(connectsItself = false) {
  const opened: string[] = [];
  const backend: AgentBackend = {
    kind: 'quick',
    needsSignal: false,
    promisesToAsk: true,
    connectsItself,
    async open({ channel, agent }): Promise<AgentSession> {
      opened.push(`${agent} in ${channel}`);
      return {
        async prompt(_turn, report) {
          report.text(`${agent} answers`);
          return { how: 'completed' };
        },
        inject: async () => 'next-prompt',
        interrupt: async () => {},
        ping: async () => {},
        close: async () => {},
      };
    },
  };
  return { opened, backend };
}

type Life = {
  readonly agents?: readonly string[];
  readonly log?: Pick<Start, 'logged' | 'level'>;
  readonly channels?: number;
  readonly rounds?: number;
  readonly backend: AgentBackend;
  readonly adapter?: Partial<Start['adapter']>;
};

/** Starts the whole program on the database at `path`. */
async function live(path: string, time: Time, life: Life) {
  const { channels = 2, rounds = 1, agents = AGENTS, backend, adapter = {}, log = {} } = life;
  const db = openDatabase(path);
  const { asked } = watch(db);
  const store = new FloorStore(db, options(path, { clock: time.clock }));
  const started = await startApp({
    config: load({
      turnConfig: { rounds },
      agents: agents.map((id) => ({ id, backend: { kind: 'scripted', script: 'dev' } })),
      channels: Array.from({ length: channels }, (_, index) => ({ id: `console:c${index}`, agents })),
    }),
    ...log,
    store,
    time,
    adapter: { name: 'console', ...adapter },
    backendFor: () => backend,
  });
  await time.advance(1_000);
  /** Writes a message of Ada, and waits until all agents have answered. */
  const say = async (id: string): Promise<void> => {
    await started.intake().message(said(id));
    for (let waits = 0; waits < 100 && store.floors.state('console:c0')?.exchange !== null; waits += 1)
      await time.settle();
  };
  /** Statements that the database has executed so far. */
  const statements = () => [...asked.values()].reduce((sum, count) => sum + count, 0);
  return { ...started, store, say, statements, journal: () => store.floors.journal('console:c0', 100).length };
}

function said(id: string): HumanMessage {
  const author = { id: 'u1', name: 'Ada' };
  return { id, channel: 'console:c0', author, text: 'go on', sentAt: 1, order: id, addressed: [], attachments: [] };
}

/** Starts a program, lets its agents answer one message, and stops it, so that all floors rest. */
async function leftAtRest(path: string, backend = quick().backend) {
  const time = createTime();
  const first = await live(path, time, { backend });
  await first.say('1');
  expect(first.store.floors.state('console:c0')).toMatchObject({ turn: null, exchange: null, lines: 3 });
  const entries = first.journal();
  await first.app.stop();
  return { time, entries };
}

describe('a program that starts with resting floors', () => {
  test('opens no session and writes nothing to the journal', async () => {
    using place = folder();
    const path = place.file();
    const { time, entries } = await leftAtRest(path);
    const { opened, backend } = quick();
    const { app, journal } = await live(path, time, { backend });
    expect([opened, journal()]).toEqual([[], entries]);
    await app.stop();
  });

  test('runs as many database statements for a thousand of them as for ten', async () => {
    const counts: number[] = [];
    for (const channels of [10, 1_000]) {
      using place = folder();
      const path = place.file();
      const time = createTime();
      const { backend } = quick();
      const first = await live(path, time, { channels, backend });
      await first.app.stop();
      const { app, statements } = await live(path, time, { channels, backend });
      counts.push(statements());
      await app.stop();
    }
    expect(counts[1]).toBe(counts[0]);
  });

  test('sets no timer, and has none left 30 minutes after a message was answered', async () => {
    using place = folder();
    const path = place.file();
    const { time } = await leftAtRest(path);
    const { app, say } = await live(path, time, { backend: quick().backend });
    expect(time.pending()).toBe(0);
    await say('2');
    await time.advance(2 * QUARTER_HOUR_MS);
    expect(time.pending()).toBe(0);
    await app.stop();
  });

  test('answers the next message in sessions opened for it', async () => {
    using place = folder();
    const path = place.file();
    const { time } = await leftAtRest(path);
    const { opened, backend } = quick();
    const { app, say, store } = await live(path, time, { backend });
    await say('2');
    expect(opened).toEqual(['pm in console:c0', 'dev in console:c0']);
    expect(store.lines('console:c0', 4, 9).map(({ text }) => text)).toEqual(['pm answers', 'dev answers']);
    await app.stop();
  });

  test('applies a changed configuration to them, and opens sessions only for new agents', async () => {
    using place = folder();
    const path = place.file();
    const { time } = await leftAtRest(path);
    const { opened, backend } = quick();
    const second = await live(path, time, { backend, rounds: 2 });
    expect([opened, second.store.floors.state('console:c0')?.settings.rounds]).toEqual([[], 2]);
    await second.app.stop();
    const { app, say, store } = await live(path, time, { backend, agents: [...AGENTS, 'qa'] });
    expect(opened).toEqual(['qa in console:c0', 'qa in console:c1']);
    await say('2');
    expect(store.lines('console:c0', 4, 9).map(({ text }) => text)).toEqual([
      'pm answers',
      'dev answers',
      'qa answers',
    ]);
    await app.stop();
  });

  test('wakes floors whose agents connect by themselves, because such an agent may be lost', async () => {
    using place = folder();
    const path = place.file();
    const { time } = await leftAtRest(path);
    const { opened, backend } = quick(true);
    const { app } = await live(path, time, { backend });
    expect(opened).toHaveLength(4);
    await app.stop();
  });

  test('grants no turn in them before the history is read, on a platform that loses events', async () => {
    using place = folder();
    const path = place.file();
    const { time } = await leftAtRest(path);
    const { opened, backend } = quick();
    const history = Promise.withResolvers<void>();
    const catchUp = async () => {
      await history.promise;
      return { messages: [], changes: [], gap: null };
    };
    const living = live(path, time, { backend, adapter: { catchUp, capabilities: { losesEvents: true } } });
    await time.advance(1_000);
    expect(opened).toEqual([]);
    history.resolve();
    const { app, say, store } = await living;
    expect(store.floors.state('console:c0')?.catchingUp).toBe(false);
    await say('2');
    expect(opened).toEqual(['pm in console:c0', 'dev in console:c0']);
    await app.stop();
  });
});

test('opens the sessions of a floor whose agents never joined', async () => {
  using place = folder();
  const path = place.file();
  const time = createTime();
  const absent = { ...quick().backend, open: () => Promise.reject(new Error('not there')) };
  const first = await live(path, time, { backend: absent });
  await first.app.stop();
  const { opened, backend } = quick();
  const second = await live(path, time, { backend });
  await time.advance(60_000);
  expect(opened).toHaveLength(4);
  await second.app.stop();
});

test('T41 logs one line per channel for 40 channels of 12 agents, and one per transition at "debug"', async () => {
  const agents = Array.from({ length: 12 }, (_, index) => `agent-${index}`);
  const linesAt = async (level: 'info' | 'debug'): Promise<readonly string[]> => {
    using place = folder();
    const lines: string[] = [];
    const log = { level, logged: (line: string) => void lines.push(line) };
    const { app } = await live(place.file(), createTime(), { channels: 40, agents, backend: quick().backend, log });
    await app.stop();
    return lines;
  };
  const lines = await linesAt('info');
  expect(lines).toHaveLength(40 + 1);
  expect(lines[0]).toContain(`"channel":"c0","agents":${JSON.stringify(agents)}`);
  const moved = (await linesAt('debug')).filter((line) => line.includes('state_transition'));
  expect(moved).toHaveLength(2 * 40 * 12);
});
