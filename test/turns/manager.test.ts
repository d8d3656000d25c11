import assert from 'node:assert/strict';
import { describe, expect, test } from 'vitest';
import type { Command, TurnDraft } from '../../src/turns/floor/command.ts';
import { nextDeadline } from '../../src/turns/floor/seats.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import type { ChannelId, FloorSettings } from '../../src/turns/floor/settings.ts';
import type { Instant } from '../../src/lib/time.ts';
import { TurnManager } from '../../src/turns/manager.ts';
import type { ManagerPorts } from '../../src/turns/manager.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';
import { createTime } from '../agents/time.ts';
import { SlowFloors } from './slow-floors.ts';
import type { Commit, Moment } from './slow-floors.ts';
import { open } from '../engine/sqlite/fixture.ts';

const LIMIT_MS = 60_000;
const A: ChannelId = 'test:a';
const B: ChannelId = 'test:b';

type Setting = {
  /** Called at each step of the store's work. Default: nothing. */
  readonly pass?: (moment: Moment, time: ReturnType<typeof createTime>) => void | Promise<void>;
  readonly takeDraft?: (channel: ChannelId) => TurnDraft | null;
  readonly settings?: Partial<FloorSettings>;
  /** The time that each read of the clock takes, in milliseconds. Default: 0. */
  readonly lookMs?: number;
};

/** A manager over floors in memory, with a test clock. */
function rig({ pass, takeDraft = () => null, settings, lookMs = 0 }: Setting) {
  const time = createTime();
  const commits: Commit[] = [];
  const failures: unknown[] = [];
  const floors = new SlowFloors({
    pass: async (moment) => pass?.(moment, time),
    committed: (commit) => void commits.push(commit),
  });
  const { clock, timers } = time;
  const looked = { now: () => (time.pass(lookMs), clock.now()) };
  const manager = new TurnManager({ ...portsOf(floors.port, takeDraft), clock: looked, timers, failed });
  function failed(error: unknown): void {
    failures.push(error);
  }
  const ticks = () => commits.filter(({ command, applied }) => command.type === 'tick' && applied.ok);
  const granted = (channel: ChannelId) => seat(manager, channel, settings);
  return { time, manager, floors, commits, failures, ticks, granted };
}

function portsOf(store: ManagerPorts['store'], takeDraft: ManagerPorts['takeDraft'] = () => null) {
  return { store, takeDraft, addressed: () => [], changed: () => {} };
}

/** Seats pm and dev. pm holds the floor, dev is next. */
async function seat(manager: TurnManager, channel: ChannelId, settings: Partial<FloorSettings> = {}): Promise<void> {
  const agents = ['pm', 'dev'] as const;
  const seats = agents.map((agent) => ({ agent, priority: 5, timeoutMs: LIMIT_MS, rejoin: 'manual' as const }));
  const commands: readonly Command[] = [
    { type: 'configure', settings: { ...PLAIN_SETTINGS, ...settings }, seats },
    ...agents.map((agent): Command => ({ type: 'join', agent })),
    { type: 'start', by: 'ada' },
  ];
  for (const command of commands) await manager.apply(channel, command);
}

const isTick = (moment: Moment): boolean => moment.before === 'commit' && moment.command.type === 'tick';
const deadlineOf = ({ before }: Commit): Instant => nextDeadline(before) ?? Infinity;

describe('a sign of work of the holder', () => {
  const work = (calls: number, epoch = 1): Command => ({ type: 'work', agent: 'pm', epoch, open: calls });
  const worked = (commits: readonly Commit[]) =>
    commits.flatMap(({ command, at }) => (command.type === 'work' ? [at] : []));

  test('has no commit of its own: it is written with the next commit, at its own time', async () => {
    const { time, manager, floors, granted, commits } = rig({});
    await granted(A);
    await time.advance(1_000);
    const given = time.clock.now();
    expect(await manager.apply(A, work(0))).toMatchObject({ ok: true, facts: [] });
    expect(worked(commits)).toEqual([]);
    await time.advance(500);
    await manager.apply(A, { type: 'pause', by: 'ada' });
    expect(worked(commits)).toEqual([given]);
    expect(commits.at(-1)?.command.type).toBe('pause');
    expect(floors.state(A)?.turn).toMatchObject({ deadlineAt: given + LIMIT_MS });
  });

  test('counts before the deadline that it moves', async () => {
    const { time, manager, granted, ticks, floors } = rig({});
    await granted(A);
    await time.advance(LIMIT_MS - 1);
    await manager.apply(A, work(0));
    await time.advance(1);
    expect(ticks()).toEqual([]);
    await time.advance(LIMIT_MS - 2);
    expect(floors.state(A)?.turn?.agent).toBe('pm');
    await time.advance(1);
    expect(ticks()).toHaveLength(1);
    expect(floors.state(A)?.turn?.agent).toBe('dev');
  });

  test('is written once within 5 s, even if more signs follow', async () => {
    const { time, manager, granted, commits } = rig({});
    await granted(A);
    for (let second = 0; second < 5; second += 1) {
      await manager.apply(A, work(0));
      await time.advance(1_000);
    }
    expect(worked(commits)).toHaveLength(1);
  });

  test('is dropped when the holder posts text, which is a sign of work itself', async () => {
    const { time, manager, granted, commits } = rig({});
    await granted(A);
    await manager.apply(A, work(0));
    await manager.apply(A, { type: 'say', agent: 'pm', epoch: 1, text: 'a plan', mentions: [] });
    await time.advance(10_000);
    expect(worked(commits)).toEqual([]);
  });

  test('is durable at once when it opens a tool call, and refused for an older turn', async () => {
    const { manager, granted, commits } = rig({});
    await granted(A);
    await manager.apply(A, work(1));
    expect(worked(commits)).toHaveLength(1);
    expect(await manager.apply(A, work(1, 0))).toMatchObject({ ok: false, refusal: 'stale-epoch' });
  });

  test('is dropped when the program ends', async () => {
    const { time, manager, granted } = rig({});
    await granted(A);
    await manager.apply(A, work(0));
    manager.stop();
    expect(time.pending()).toBe(0);
  });
});

describe('time that passes while a deadline is handled', () => {
  test('T48 handles deadlines that become due meanwhile in the same round', async () => {
    const time = createTime();
    const expired: { readonly channel: ChannelId; readonly at: Instant }[] = [];
    const store = open(':memory:', {
      machine: {
        ...floorMachine,
        decide: (floor, command, at) => {
          if (command.type === 'tick') time.pass(5);
          return floorMachine.decide(floor, command, at);
        },
      },
    });
    const manager = new TurnManager({
      ...portsOf(store),
      ...time,
      failed: (error) => assert.fail(String(error)),
      changed: ({ channel, at, facts }) =>
        facts.some((fact) => fact.type === 'turnEnded' && fact.outcome === 'expired') && expired.push({ channel, at }),
    });
    const start = time.clock.now();
    await seat(manager, A);
    await time.advance(3);
    await seat(manager, B);
    await time.advance(LIMIT_MS - 4);
    expect(expired).toEqual([]);
    await time.advance(1);
    expect(expired).toEqual([
      { channel: A, at: start + LIMIT_MS },
      { channel: B, at: start + LIMIT_MS + 5 },
    ]);
    await time.advance(LIMIT_MS + 10);
    expect(expired.map(({ channel }) => channel)).toEqual([A, B, A, B]);
    expect(time.pending()).toBe(0);
  });

  test('T48 loses no deadline when the store answers late', async () => {
    for (const slow of ['look', 'look is answered', 'commit', 'commit is answered'] as const) {
      const { time, granted, ticks } = rig({
        pass: ({ before }, { timers }) =>
          before === slow ? new Promise<void>((resolve) => void timers.after(5, resolve)) : undefined,
      });
      const seated = ['test:a', 'test:b', 'test:c', 'test:d'].map(granted);
      await time.advance(200);
      await Promise.all(seated);
      await time.advance(LIMIT_MS);
      const late = ticks().map((tick) => tick.at - deadlineOf(tick));
      assert.equal(late.length, 4, `${late.length} deadlines were met, the store being slow before ${slow}`);
      assert(
        late.every((ms) => ms >= 0 && ms <= 250),
        `${late.join()} ms late`,
      );
    }
  });

  test('T48 handles each of 10,000 deadlines once, in order, never early', async () => {
    let looks = 0;
    const { time, granted, ticks, commits, floors } = rig({
      pass: (moment, passing) => {
        if (moment.before === 'look') looks += 1;
        if (isTick(moment)) passing.pass(1);
      },
    });
    const channels = Array.from({ length: 10_000 }, (_, index) => `test:${index}`);
    for (const [index, channel] of channels.entries()) {
      await granted(channel);
      time.pass(index % 3 === 0 ? 1 : 0);
    }
    await time.advance(4 * LIMIT_MS);
    const met = ticks();
    const inOrder = met.map(deadlineOf);
    assert.equal(met.length, 2 * channels.length);
    assert(met.every((tick) => tick.at >= deadlineOf(tick)));
    let busyUntil = 0;
    for (const tick of met) {
      const due = deadlineOf(tick);
      assert(
        tick.at <= Math.max(due, busyUntil),
        `${tick.channel} is met ${tick.at - due} ms late, with nothing to do`,
      );
      busyUntil = Math.max(due, busyUntil) + 1;
    }
    assert(inOrder.every((at, index) => at >= (inOrder[index - 1] ?? 0)));
    assert.equal(new Set(met.map(({ channel, before }) => `${channel} ${before.epoch}`)).size, met.length);
    assert.equal(commits.filter(({ command }) => command.type === 'tick').length, met.length);
    assert([...floors.floors.values()].every((floor) => floor.turn === null));
    assert(looks < 100, `${looks} looks at what is due`);
    assert.equal(time.pending(), 0);
  });

  test.for([1, 2, 3, 4, 5, 6])('T48 ends no turn before its shown text is posted, due %i ms later', async (laterMs) => {
    const drafts: TurnDraft[] = [{ agent: 'dev', epoch: 2, text: 'half a', mentions: [], workedAt: 0 }];
    const { time, manager, granted, commits } = rig({
      lookMs: 1,
      settings: { waitPolicy: 'release', waitTimeoutMs: LIMIT_MS - laterMs },
      takeDraft: () => drafts.pop() ?? null,
    });
    await granted(A);
    await manager.apply(A, { type: 'wait', agent: 'pm', epoch: 1, reason: 'answer' });
    await time.advance(4 * LIMIT_MS);
    const facts = commits.flatMap(({ applied }) => (applied.ok ? applied.facts : []));
    const said = facts.findIndex(({ type }) => type === 'said');
    const ended = facts.findIndex((fact) => fact.type === 'turnEnded' && fact.agent === 'dev');
    assert(said !== -1 && said < ended, `said at ${said}, ended at ${ended}`);
  });
});

test('T18 a turn ends at its deadline, even though its shown text is posted then', async () => {
  const drafts: TurnDraft[] = [];
  const { time, granted, floors, commits } = rig({ takeDraft: () => drafts.pop() ?? null });
  await granted(A);
  const workedAt = time.clock.now();
  drafts.push({ agent: 'pm', epoch: 1, text: 'half a', mentions: [], workedAt });
  await time.advance(LIMIT_MS - 1);
  expect(floors.state(A)?.turn?.agent).toBe('pm');
  await time.advance(1);
  expect(floors.state(A)?.turn?.agent).toBe('dev');
  const texts = commits.flatMap(({ command }) => (command.type === 'say' ? [command.text] : []));
  expect(texts).toEqual(['half a … (cut off)']);
});

describe('a deadline that cannot be written', () => {
  test('T48 delays no other deadline, and is retried until it is written', async () => {
    const full = new Error('no room');
    let isFull = true;
    const { time, granted, ticks, failures } = rig({
      pass: (moment) => {
        if (isFull && isTick(moment) && 'channel' in moment && moment.channel === A) throw full;
      },
    });
    await granted(A);
    await granted(B);
    await time.advance(5_000);
    await granted('test:c');
    await time.advance(LIMIT_MS - 5_000);
    expect(ticks().map(({ channel }) => channel)).toEqual([B]);
    expect(failures).toEqual([full]);
    await time.advance(5_000);
    expect(ticks().map(({ channel }) => channel)).toEqual([B, 'test:c']);
    expect(failures).toEqual(Array.from({ length: 6 }, () => full));
    isFull = false;
    await time.advance(1_000);
    expect(ticks().map(({ channel }) => channel)).toEqual([B, 'test:c', A]);
  });

  test('T48 is reported once for all deadlines of the same moment', async () => {
    const full = new Error('no room');
    const { time, granted, failures } = rig({
      pass: (moment) => {
        if (isTick(moment)) throw full;
      },
    });
    for (const channel of [A, B, 'test:c']) await granted(channel);
    await time.advance(LIMIT_MS);
    expect(failures).toEqual([full]);
  });

  test('T48 rejects the command when the draft before it cannot be written', async () => {
    const draft = { agent: 'pm', epoch: 1, text: 'half a', mentions: [], workedAt: 0 };
    let isFull = false;
    const { manager, granted } = rig({
      takeDraft: () => draft,
      pass: (moment) => {
        if (isFull && moment.before === 'commit') throw new Error('no room');
      },
    });
    await granted(A);
    isFull = true;
    await expect(manager.apply(A, { type: 'stop', by: 'ada' })).rejects.toThrow('no room');
  });

  test('T48 is handled later when the due floors could not be read', async () => {
    let broken = 1;
    const { time, granted, ticks, failures } = rig({
      pass: ({ before }) => {
        if (before !== 'look' || broken === 0) return;
        broken -= 1;
        throw new Error('not readable');
      },
    });
    await granted(A);
    await time.advance(LIMIT_MS);
    expect(failures).toEqual([new Error('not readable')]);
    await time.advance(1_000);
    expect(ticks()).toHaveLength(1);
  });
});

test('a process that stands still around each of many ticks ends the turn when it stands still no longer', async () => {
  const time = createTime();
  let stoodStillMs = 0;
  let left = 6;
  const { port, floors } = new SlowFloors({
    pass: async (moment) => {
      const isFirst = left === 6 && moment.before === 'look is answered';
      const isLater = left < 6 && moment.before === 'commit is answered' && moment.command.type === 'tick';
      if (floors.get(A)?.turn?.agent !== 'pm' || left === 0 || !(isFirst || isLater)) return;
      left -= 1;
      // The deadline passes 500 ms after the standstill began, so the first one moves it 500 ms past the present.
      time.pass(2_000);
      stoodStillMs += isFirst ? 2_500 : 2_000;
    },
  });
  const store = { ...port, floors: { ...port.floors, awake: () => [...floors.keys()] } };
  const failures: unknown[] = [];
  const clock = { now: () => time.clock.now(), stoodStillMs: () => stoodStillMs };
  const { timers } = time;
  const manager = new TurnManager({ ...portsOf(store), clock, timers, failed: (error) => void failures.push(error) });
  await seat(manager, A);
  await time.advance(LIMIT_MS);
  expect([failures, left]).toEqual([[], 0]);
  expect(store.floors.state(A)?.turn?.agent).toBe('pm');
  await time.advance(15_000);
  expect(store.floors.state(A)?.turn?.agent).toBe('dev');
  manager.stop();
});

test('T48 a channel that stays due after its tick is reported as an error, without an endless loop', async () => {
  let looks = 0;
  const time = createTime();
  const { port } = new SlowFloors({ pass: async () => undefined });
  const store: ManagerPorts['store'] = {
    ...port,
    floors: {
      ...port.floors,
      due: async (before) => {
        looks += 1;
        const { keys, next } = await port.floors.due(before);
        return { keys: [B, ...keys], next };
      },
    },
  };
  const failures: unknown[] = [];
  const manager = new TurnManager({ ...portsOf(store), ...time, failed: (error) => void failures.push(error) });
  await seat(manager, A);
  await time.advance(LIMIT_MS);
  expect(failures.map(String)).toEqual([expect.stringContaining(`impossible: ${B} is due`)]);
  expect(looks).toBeLessThan(10);
  expect(store.floors.state(A)?.turn?.agent).toBe('dev');
  manager.stop();
  await time.advance(10 * LIMIT_MS);
  expect(looks).toBeLessThan(10);
});
