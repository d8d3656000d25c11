import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { BackgroundCheck, readLastCheck } from '../../src/runtime/background-check.ts';
import type { BackgroundCheckParts, CheckUnderWay } from '../../src/runtime/background-check.ts';
import { createLog } from '../../src/runtime/log.ts';
import { folder, open, seat, turn, write } from '../engine/sqlite/fixture.ts';

const SOON = 10_000;
const WEEK = 7 * 86_400_000;

/** A background check with a store of one value, and timers that the test fires. */
function stage({ endedWell = true, kept = null as string | null } = {}) {
  const lines: Record<string, unknown>[] = [];
  const timers: { ms: number; run: () => void }[] = [];
  const asked: (PromiseWithResolvers<readonly string[]> & { stopped: boolean })[] = [];
  let now = 0;
  const store = {
    endedWell,
    keyValues: {
      recall: () => kept,
      remember: async (_owner: string, _name: string, value: string) => void (kept = value),
    },
  };
  const parts: BackgroundCheckParts = {
    path: 'conch.db',
    store,
    clock: { now: () => now },
    timers: {
      after: (ms, run) => {
        const timer = { ms, run };
        timers.push(timer);
        return { cancel: () => void timers.splice(timers.indexOf(timer), 1) };
      },
    },
    log: createLog({
      level: 'info',
      pretty: false,
      secrets: [],
      clock: { now: () => now },
      destination: { write: (line) => lines.push(JSON.parse(line)) },
    }),
    examine: (): CheckUnderWay => {
      const one = { ...Promise.withResolvers<readonly string[]>(), stopped: false };
      asked.push(one);
      return { problems: one.promise, stop: () => void (one.stopped = true) };
    },
  };
  return {
    check: new BackgroundCheck(parts),
    store,
    lines,
    asked,
    delays: () => timers.map(({ ms }) => ms),
    ring: () => {
      const timer = timers.shift();
      now += timer?.ms ?? 0;
      timer?.run();
    },
    answer: async (problems: readonly string[]) => {
      asked.at(-1)?.resolve(problems);
      await new Promise(setImmediate);
    },
  };
}

describe('after a clean end of the program', () => {
  test('repeats a check without findings only after a week', async () => {
    const { check, delays, ring, answer, store, lines } = stage({ kept: '{"at":0,"problems":[]}' });
    check.start();
    expect(delays()).toEqual([WEEK]);
    ring();
    await answer([]);
    expect(readLastCheck(store.keyValues)).toEqual({ at: WEEK, problems: [] });
    expect(check.isDamaged).toBe(false);
    expect(lines.map(({ level }) => level)).toEqual(['info']);
    expect(delays()).toEqual([WEEK]);
  });

  test('checks a database soon when it was never checked or had findings', () => {
    for (const kept of [null, '{"at":0,"problems":["the journal of a was changed at row 3"]}']) {
      const { check, delays } = stage({ kept });
      check.start();
      expect(delays()).toEqual([SOON]);
      expect(check.isDamaged).toBe(kept !== null);
    }
  });
});

describe('after a crash of the program', () => {
  test('checks soon, logs and stores findings, and reports damage until the check a week later finds nothing', async () => {
    const { check, delays, ring, answer, store, lines } = stage({ endedWell: false, kept: '{"at":0,"problems":[]}' });
    check.start();
    expect(delays()).toEqual([SOON]);
    ring();
    await answer(['inbox: a row does not match its checksum']);
    expect(check.isDamaged).toBe(true);
    expect(lines).toEqual([
      expect.objectContaining({
        level: 'error',
        problem: 'inbox: a row does not match its checksum',
        file: 'conch.db',
      }),
    ]);
    expect(readLastCheck(store.keyValues)?.problems).toEqual(['inbox: a row does not match its checksum']);
    expect(delays()).toEqual([WEEK]);
    ring();
    await answer([]);
    expect(check.isDamaged).toBe(false);
  });

  test('reports a check that failed, and checks again later', async () => {
    const { check, delays, ring, asked, lines } = stage({ endedWell: false });
    check.start();
    ring();
    asked[0]?.reject(new Error('no memory'));
    await new Promise(setImmediate);
    expect(lines.map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'the database could not be checked'],
    ]);
    expect(delays()).toEqual([WEEK]);
  });

  test('ends the check without a message when the program ends', async () => {
    const { check, ring, asked, answer, lines, delays } = stage({ endedWell: false });
    check.start();
    ring();
    check.stop();
    expect(asked[0]?.stopped).toBe(true);
    await answer(['late']);
    expect([lines, delays()]).toEqual([[], []]);
  });
});

test('T11 finds an edited old entry of the journal while the program runs, and logs an error', async () => {
  using place = folder();
  const first = open(place.file());
  await seat(first);
  await write(first, 'm1', 'please build it');
  for (const text of ['a plan', 'some code', 'a test']) await turn(first, text);
  await first.close();
  const db = new Database(place.file());
  db.exec(`DROP TRIGGER journal_keeps; UPDATE journal SET body = replace(body, 'a plan', 'a ruse') WHERE row < 9`);
  db.close();
  const store = open(place.file());
  const lines: Record<string, unknown>[] = [];
  const found = Promise.withResolvers<void>();
  const write1 = (line: string): void => {
    lines.push(JSON.parse(line));
    found.resolve();
  };
  const log = createLog({ level: 'info', pretty: false, secrets: [], destination: { write: write1 } });
  const clock = { now: () => 0 };
  const timers = { after: (ms: number, run: () => void) => (ms === SOON && run(), { cancel: () => undefined }) };
  const check = new BackgroundCheck({ path: place.file(), store, clock, timers, log });
  check.start();
  await write(store, 'm2');
  await found.promise;
  expect(lines).toEqual([
    expect.objectContaining({ level: 'error', problem: expect.stringMatching(/^the journal of test:one was changed/) }),
  ]);
  expect(check.isDamaged).toBe(true);
  check.stop();
  await store.close();
});
