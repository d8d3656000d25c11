import { expect, test } from 'vitest';
import { StoreError } from '../../../src/engine/errors.ts';
import { ChatError } from '../../../src/adapters/port.ts';
import type { ChatAdapter } from '../../../src/adapters/port.ts';
import { createLog } from '../../../src/runtime/log.ts';
import { StoreHealth } from '../../../src/adapters/delivery/store-health.ts';
import { createTime } from '../../agents/time.ts';

const FULL = new StoreError('full', 'The disk that holds conch.db is full');

/** A store on a full disk, with the console (notices only), Discord (posts and edits) and Slack (unreachable). */
function stand() {
  const time = createTime();
  const shown: string[] = [];
  const keys: string[] = [];
  const lines: string[] = [];
  let isFull = true;
  const none: Omit<ChatAdapter, 'name'> = {
    capabilities: {
      textLimit: 1_000,
      idempotentPosts: false,
      fileAbove: null,
    },
    start: async () => {},
    stop: async () => {},
    post: async (channel, { outboxId, text }) => {
      keys.push(outboxId);
      return String(shown.push(`${channel}: ${text}`));
    },
    edit: async (channel, id, text) => {
      shown.push(`${channel} ${id}: ${text}`);
      return 'changed';
    },
    find: async () => null,
    catchUp: async () => ({ messages: [], changes: [], gap: null }),
  };
  const away = new ChatError('away', { method: 'post', channel: 'slack:c', fault: 'unreachable' });
  const adapters: readonly ChatAdapter[] = [
    { ...none, name: 'console', notice: (channel, text) => void shown.push(`${channel} notice: ${text}`) },
    { ...none, name: 'discord' },
    { ...none, name: 'slack', post: () => Promise.reject(away) },
  ];
  const health = new StoreHealth({
    timers: time.timers,
    log: createLog({ level: 'info', pretty: false, secrets: [], destination: { write: (line) => lines.push(line) } }),
    adapters: () => adapters,
    channels: () => ['console:a', 'discord:b', 'slack:c'].map((id) => ({ id, adapter: id.split(':')[0] ?? '' })),
  });
  health.watch({ remember: () => (isFull ? Promise.reject(FULL) : Promise.resolve()) });
  return { time, shown, keys, lines, health, setFull: (is: boolean) => void (isFull = is) };
}

test('T41 announces a full disk once per channel, and its end as soon as a write succeeds', async () => {
  const { time, shown, lines, health, setFull } = stand();
  health.failed(FULL);
  expect(health.fault).toBe('full');
  await time.advance(60_000);
  health.failed(FULL);
  await time.advance(0);
  expect(shown).toEqual([
    expect.stringMatching(/^console:a notice: ⚠️ Conch’s disk is full/),
    expect.stringMatching(/^discord:b: ⚠️ Conch’s disk is full/),
  ]);
  setFull(false);
  await time.advance(5_000);
  expect(health.fault).toBeNull();
  expect(shown.slice(2)).toEqual([
    'console:a notice: ✅ Conch can write again.',
    'discord:b 2: ✅ Conch can write again.',
  ]);
  expect(lines.filter((line) => line.includes('"level":"error"'))).toHaveLength(1);
  health.failed(FULL);
  expect(health.fault).toBe('full');
  health.stop();
});

test('T41 ignores other errors, and does not check the disk after stop', async () => {
  const { time, shown, health } = stand();
  health.failed(new Error('a bug'));
  health.failed(new StoreError('corrupt', 'damaged'));
  expect([health.fault, shown]).toEqual([null, []]);
  health.failed(FULL);
  await time.settle();
  health.stop();
  await time.advance(60_000);
  expect([health.fault, time.pending()]).toEqual(['full', 0]);
});

test('a second full disk is announced under a new outbox id, because Discord drops a repeated id', async () => {
  const { time, keys, health, setFull } = stand();
  for (let outage = 0; outage < 2; outage += 1) {
    setFull(true);
    health.failed(FULL);
    await time.settle();
    setFull(false);
    await time.advance(5_000);
  }
  expect([keys.length, new Set(keys).size]).toEqual([2, 2]);
  health.stop();
});
