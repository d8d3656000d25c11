import { pino } from 'pino';
import { expect, test, describe } from 'vitest';
import {
  createInboundQueue,
  floorOf,
  deliveryFlags,
  createFirstTime,
  typedCommand,
} from '../../../src/adapters/delivery/inbound.ts';
import { createTime } from '../../agents/time.ts';
import type { Place, Memory } from '../../../src/adapters/port.ts';

const CHANNEL = 'console:demo';
const OTHER = 'discord:42';
const log = pino({ level: 'silent' });

test('a failed inbound act is retried with waits that grow to 15 s; people are told once, and later acts wait', async () => {
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

test('T49 the inbound queue holds 500 acts for each channel, independent of other channels', () => {
  const inbound = createInboundQueue({ log, timers: createTime().timers });
  const never = new Promise<void>(() => undefined);
  for (let count = 0; count < 500; count += 1) {
    expect(inbound.hasRoom(CHANNEL)).toBe(true);
    void inbound.push(CHANNEL, () => never);
  }
  expect(inbound.hasRoom(CHANNEL)).toBe(false);
  expect(inbound.hasRoom(OTHER)).toBe(true);
});

test('the inbound queue gives up an act that waits for a retry when the queue is stopped', async () => {
  const time = createTime();
  const { timers } = time;
  const inbound = createInboundQueue({ log, timers });
  const pushed = inbound.push(CHANNEL, () => Promise.reject(new Error('no')));
  await time.advance(100);
  inbound.stop();
  expect(await pushed).toBe(false);
});

const PLACE: Place = {
  id: 'chat:1',
  name: 'general',
  adapter: 'chat',
  parent: null,
  threads: 'own',
  allowBots: 'off',
};

function where(threads: Place['threads'], channel: string, parent: string | null, more: readonly Place[] = []) {
  return floorOf({ channels: () => [{ ...PLACE, threads }, ...more] }, channel, parent);
}

describe('a message in a channel', () => {
  test("belongs to the channel's floor if the channel is configured, and otherwise to no floor", () => {
    expect(where('own', 'chat:1', null)).toMatchObject({ channel: 'chat:1', opens: null });
    expect(where('own', 'chat:2', null)).toBeNull();
  });
});

describe('a message in a thread', () => {
  test("belongs to the thread's floor, to the channel's floor or to no floor, by the channel's settings", () => {
    expect(where('own', 'chat:7', 'chat:1')).toMatchObject({ channel: 'chat:7', opens: { id: 'chat:1' } });
    expect(where('parent', 'chat:7', 'chat:1')).toMatchObject({ channel: 'chat:1', opens: null });
    expect(where('ignore', 'chat:7', 'chat:1')).toBeNull();
    expect(where('own', 'chat:7', 'chat:2')).toBeNull();
  });

  test('that has a floor opens no second floor, even if the parent channel is unknown', () => {
    const thread = { ...PLACE, id: 'chat:7', parent: 'chat:1' };
    expect(where('own', 'chat:7', null, [thread])).toMatchObject({ channel: 'chat:7', place: thread, opens: null });
  });

  test("that is configured as a channel belongs to the thread's own floor, whatever the settings of its parent", () => {
    const own = { ...PLACE, id: 'chat:7' };
    expect(where('ignore', 'chat:7', 'chat:1', [own])).toMatchObject({ channel: 'chat:7', opens: null });
  });
});

describe('the rule that keeps messages from agents', () => {
  test.each([
    ['person', 'off', [], null],
    ['bot', 'off', ['dev'], 'bots are ignored in this channel'],
    ['webhook', 'off', ['dev'], 'webhooks are ignored in this channel'],
    ['bot', 'mentions', [], 'bots are ignored unless they mention an agent'],
    ['bot', 'mentions', ['dev'], null],
    ['webhook', 'all', [], null],
  ] as const)('gives for a %s, allowBots "%s", addressing %j: %j', (author, allowBots, addressed, rule) => {
    const by = { author, place: { allowBots }, agents: [], isCommand: false };
    expect(deliveryFlags({ text: '', addressed }, by).ignore ?? null).toBe(rule);
  });
});

function memory(): Memory {
  const kept = new Map<string, string>();
  return { get: (key) => kept.get(key) ?? null, set: async (key, value) => void kept.set(key, value) };
}

describe('a typed command', () => {
  test.each([
    ['!floor skip', '!floor skip'],
    ['  /stop ', '/stop'],
    ['!nice', null],
    ['!stop\nplease', '!stop\nplease'],
    ['!floor skip\nplease', null],
    ['stop', null],
  ])('in the message %j: %j', (text, line) => {
    expect(typedCommand(text)).toBe(line);
  });

  test('counts as new only once, also after a restart', async () => {
    const kept = memory();
    const isFirst = createFirstTime(kept);
    expect([await isFirst('a:1', 'm1'), await isFirst('a:1', 'm1'), await isFirst('a:2', 'm1')]).toEqual([
      true,
      false,
      true,
    ]);
    expect(await createFirstTime(kept)('a:1', 'm1')).toBe(false);
  });

  test('counts as new again when its id could not be stored', async () => {
    const kept = memory();
    let isFull = true;
    const set: Memory['set'] = async (...given) => {
      if (isFull) throw new Error('the disk is full');
      await kept.set(...given);
    };
    const isFirst = createFirstTime({ ...kept, set });
    await expect(isFirst('a:1', 'm1')).rejects.toThrow('full');
    isFull = false;
    expect([await isFirst('a:1', 'm1'), await isFirst('a:1', 'm1')]).toEqual([true, false]);
  });

  test('is remembered among the last 20 of its channel, also when the stored value is invalid', async () => {
    const kept = memory();
    await kept.set('typed:a:1', 'not a list');
    const isFirst = createFirstTime(kept);
    for (let n = 0; n < 20; n += 1) expect(await isFirst('a:1', `m${n}`)).toBe(true);
    expect(await isFirst('a:1', 'm0')).toBe(false);
    expect(JSON.parse(kept.get('typed:a:1') ?? '')).toHaveLength(20);
  });

  test('counts as seen when it is older than the last 20 of its channel, also after a restart', async () => {
    const kept = memory();
    const isFirst = createFirstTime(kept);
    for (let n = 0; n < 40; n += 1) expect(await isFirst('a:1', `m${100 + n}`)).toBe(true);
    const after = createFirstTime(kept);
    for (let n = 0; n < 40; n += 1) expect(await after('a:1', `m${100 + n}`)).toBe(false);
    expect([await after('a:1', 'm140'), await after('a:2', 'm100')]).toEqual([true, true]);
  });
});
