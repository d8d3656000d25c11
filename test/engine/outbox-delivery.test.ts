import assert from 'node:assert/strict';
import { expect, test } from 'vitest';
import { Delivery } from '../../src/engine/outbox-delivery.ts';
import type { OutboxStore, OutboxEntry } from '../../src/engine/port.ts';
import { createTime } from '../agents/time.ts';

const ROWS = 64;

/** A delivery with `ROWS` pending rows in separate lanes. Each takes `eachMs`. Records handed-over rows. */
function owing(eachMs: number) {
  const time = createTime();
  const handed: string[] = [];
  const settled: string[] = [];
  let owed: readonly OutboxEntry<string>[] = Array.from({ length: ROWS }, (_, index) => ({
    id: `r${index}`,
    channel: `test:${index}`,
    lane: 'agent',
    effect: 'prompt',
    part: 0,
    text: null,
    attempts: 0,
    uncertain: false,
    afterId: null,
    editsId: null,
  }));
  const store: OutboxStore<string> = {
    lease: async () => {
      const rows = owed;
      owed = [];
      return { rows, next: null };
    },
    settle: async ({ id }) => void settled.push(id),
  };
  const delivery = new Delivery<string>({
    store,
    ...time,
    carry: async ({ id }) => {
      // The delivery of a prompt first awaits its session, which is open and idle here.
      for (let looks = 0; looks < 3; looks += 1) await Promise.resolve();
      handed.push(id);
      time.pass(eachMs);
      return { state: 'confirmed', platformId: null };
    },
    failed: () => assert.fail('no row fails'),
    broken: (error) => assert.fail(String(error)),
  });
  return { delivery, handed, settled };
}

test('T49 timers and sockets run after a few milliseconds of delivery, however many rows are pending', async () => {
  const { delivery, handed, settled } = owing(1);
  const steps: number[] = [];
  delivery.start();
  for (let before = 0; before < ROWS; before = handed.length) {
    await new Promise<void>((resolve) => void setImmediate(resolve));
    steps.push(handed.length - before);
    assert(steps.length <= ROWS, 'the delivery stands still');
  }
  expect(Math.max(...steps)).toBeLessThanOrEqual(16);
  await delivery.stop();
  expect(settled).toHaveLength(ROWS);
});

test('T49 rows that were leased before the stop are handed over at once, so that none stays open', async () => {
  const { delivery, handed, settled } = owing(1);
  delivery.start();
  await new Promise<void>((resolve) => void setImmediate(resolve));
  expect(handed.length).toBeLessThan(ROWS);
  await delivery.stop();
  expect([handed.length, settled.length]).toEqual([ROWS, ROWS]);
});

test('fast rows are handed over together, and can be settled together', async () => {
  const { delivery, handed } = owing(0);
  delivery.start();
  await new Promise<void>((resolve) => void setImmediate(resolve));
  expect(handed).toHaveLength(ROWS);
  await delivery.stop();
});

test('a delivery that stops while it looks for work leaves no timer that keeps the process alive', async () => {
  const time = createTime();
  const looked = Promise.withResolvers<void>();
  const alarms: string[] = [];
  const delivery = new Delivery<string>({
    store: {
      lease: () => looked.promise.then(() => ({ rows: [], next: time.clock.now() + 3_600_000 })),
      settle: async () => undefined,
    },
    clock: time.clock,
    timers: {
      after(ms, run) {
        alarms.push('set');
        const timer = time.timers.after(ms, run);
        return { cancel: () => (alarms.push('cancelled'), timer.cancel()) };
      },
    },
    carry: async () => ({ state: 'confirmed', platformId: null }),
    failed: () => assert.fail('no row fails'),
    broken: (error) => assert.fail(String(error)),
  });
  delivery.start();
  const stopping = delivery.stop();
  looked.resolve();
  await stopping;
  expect(alarms).toEqual(['set', 'cancelled']);
});

test('doubles the wait after each attempt whose carrier threw, from half a second', async () => {
  const { clock, timers } = createTime();
  const row = { id: 'r', channel: 'test:one', lane: 'posts', effect: 'post', part: 0, text: null };
  const more = { uncertain: false, afterId: null, editsId: null };
  const waits: number[] = [];
  let attempts = 0;
  const delivery = new Delivery<string>({
    store: {
      lease: async () => ({ rows: attempts === 4 ? [] : [{ ...row, ...more, attempts }], next: null }),
      settle: async (_row, settlement) => {
        attempts += 1;
        if (settlement.state === 'uncertain') waits.push(settlement.notBefore - clock.now());
      },
    },
    clock,
    timers,
    carry: () => Promise.reject(new Error('no answer')),
    failed: () => {},
    broken: (error) => assert.fail(String(error)),
  });
  delivery.start();
  await delivery.drain(10);
  expect(waits).toEqual([500, 1_000, 2_000, 4_000]);
});
