import { pino } from 'pino';
import { expect, test } from 'vitest';
import { createInboundQueue } from '../../../src/adapters/delivery/inbound-queue.ts';
import { createTime } from '../../agents/time.ts';

const CHANNEL = 'console:demo';
const OTHER = 'discord:42';
const log = pino({ level: 'silent' });

test('an act that fails is tried again after pauses that grow to fifteen seconds; people are told once, and what comes behind it waits', async () => {
  const time = createTime();
  const { timers, clock } = time;
  const tried: number[] = [];
  const delayed: string[] = [];
  const inbound = createInboundQueue({ log, timers, delayed: (channel, why) => delayed.push(`${channel}: ${why}`) });
  const start = clock.now();
  const first = inbound.push(CHANNEL, async () => {
    tried.push(clock.now() - start);
    if (tried.length < 9) throw new Error('no');
  });
  let isSecondTaken = false;
  const second = inbound.push(CHANNEL, async () => void (isSecondTaken = true));
  await time.advance(45_749);
  expect(isSecondTaken).toBe(false);
  await time.advance(1);
  expect(await Promise.all([first, second])).toEqual([true, true]);
  expect(delayed).toEqual(['console:demo: no']);
  expect(tried.map((at, n) => at - (tried[n - 1] ?? 0))).toEqual([
    0, 250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000,
  ]);
});

test('a channel has room for five thousand acts and not for more, whatever others have', () => {
  const inbound = createInboundQueue({ log, timers: createTime().timers });
  const never = new Promise<void>(() => undefined);
  for (let count = 0; count < 5_000; count += 1) {
    expect(inbound.hasRoom(CHANNEL)).toBe(true);
    void inbound.push(CHANNEL, () => never);
  }
  expect(inbound.hasRoom(CHANNEL)).toBe(false);
  expect(inbound.hasRoom(OTHER)).toBe(true);
});

test('an act that was not taken before the end is given up', async () => {
  const time = createTime();
  const { timers } = time;
  const inbound = createInboundQueue({ log, timers });
  const pushed = inbound.push(CHANNEL, () => Promise.reject(new Error('no')));
  await time.advance(100);
  inbound.stop();
  expect(await pushed).toBe(false);
});
