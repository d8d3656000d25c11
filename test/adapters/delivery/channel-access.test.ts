import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { ASK_AGAIN_MS, ChannelAccess } from '../../../src/adapters/delivery/channel-access.ts';
import { createTime } from '../../agents/time.ts';

const CHANNEL = 'fake:general';

/** Channel access over a platform that answers checks with `says`: why it is closed, `null` for open, or an error. */
function bench(says: string | null | Error) {
  const time = createTime();
  const told: string[] = [];
  const platform = { says, asked: 0 };
  const access = new ChannelAccess({
    async ask() {
      platform.asked += 1;
      if (platform.says instanceof Error) throw platform.says;
      return platform.says;
    },
    whyClosed: (error) => (error instanceof Error && error.message.startsWith('closed') ? error.message : null),
    floorsOf: (channel) => [channel, `${channel}/thread`],
    intake: {
      suspend: (channel, why) => void told.push(`suspend ${channel}: ${why}`),
      restore: (channel) => void told.push(`restore ${channel}`),
    },
    reopened: (channel) => void told.push(`reopened ${channel}`),
    timers: time.timers,
    signal: new AbortController().signal,
    log: pino({ level: 'silent' }),
  });
  const refused = async (): Promise<void> => {
    access.callFailed(CHANNEL, new Error('closed for now'));
    await time.settle();
  };
  return { time, told, platform, access, refused };
}

const suspensions = (told: readonly string[]): readonly string[] => told.filter((each) => each.startsWith('suspend'));

describe('a channel that refuses a call', () => {
  test('T36 stays open when the platform says that it is open', async () => {
    const { told, refused, access } = bench(null);
    await refused();
    expect(told).toEqual([`reopened ${CHANNEL}`]);
    expect(access.isClosed(CHANNEL)).toBe(false);
  });

  test('T36 is suspended with its threads and the reason when the platform confirms that the channel is closed', async () => {
    const { told, refused } = bench('it is archived');
    await refused();
    expect(told).toEqual([`suspend ${CHANNEL}: it is archived`, `suspend ${CHANNEL}/thread: it is archived`]);
  });

  test('T36 is suspended when the platform refuses the check, too, and not when the check gets no answer', async () => {
    const closed = bench(new Error('closed for asking, too'));
    await closed.refused();
    expect(suspensions(closed.told)).toHaveLength(2);
    const silent = bench(new Error('no network'));
    await silent.refused();
    expect(silent.told).toEqual([]);
  });

  test('T36 is suspended after three refusals in a row, whatever the platform says, until it accepts a message', async () => {
    const { told, refused, access } = bench(null);
    await refused();
    await refused();
    expect(suspensions(told)).toEqual([]);
    await refused();
    expect(suspensions(told)).toEqual([
      `suspend ${CHANNEL}: closed for now`,
      `suspend ${CHANNEL}/thread: closed for now`,
    ]);
    access.postSucceeded(CHANNEL);
    expect(told.slice(-2)).toEqual([`restore ${CHANNEL}`, `restore ${CHANNEL}/thread`]);
  });

  test('T36 counts refusals from zero after an accepted message', async () => {
    const { told, refused, access } = bench(null);
    for (let round = 0; round < 5; round += 1) {
      await refused();
      access.postSucceeded(CHANNEL);
    }
    expect(suspensions(told)).toEqual([]);
  });
});

describe('a suspended channel', () => {
  test('T36 is checked every minute, and restored once it can be used', async () => {
    const { time, told, platform, refused } = bench('Conch is not in it');
    await refused();
    platform.asked = 0;
    await time.advance(ASK_AGAIN_MS - 1);
    expect(platform.asked).toBe(0);
    await time.advance(1);
    expect(platform.asked).toBe(1);
    platform.says = new Error('no network');
    await time.advance(ASK_AGAIN_MS);
    expect(platform.asked).toBe(2);
    platform.says = null;
    told.length = 0;
    await time.advance(ASK_AGAIN_MS);
    expect(told).toEqual([`reopened ${CHANNEL}`, `restore ${CHANNEL}`, `restore ${CHANNEL}/thread`]);
    await time.advance(3 * ASK_AGAIN_MS);
    expect(platform.asked).toBe(3);
  });

  test('T36 that refused calls although the platform calls it open is opened again after 10 minutes', async () => {
    const { time, access, refused } = bench(null);
    for (let count = 0; count < 3; count += 1) await refused();
    for (let minute = 1; minute < 10; minute += 1) await time.advance(ASK_AGAIN_MS);
    expect(access.isClosed(CHANNEL)).toBe(true);
    await time.advance(ASK_AGAIN_MS);
    expect(access.isClosed(CHANNEL)).toBe(false);
  });
});

describe('a check of a channel', () => {
  test('after an event about a closed channel suspends the channel only when the check gets no answer', async () => {
    const late = bench(null);
    await late.access.check(CHANNEL, { reported: 'it was archived' });
    expect(suspensions(late.told)).toEqual([]);
    const silent = bench(new Error('no network'));
    await silent.access.check(CHANNEL, { reported: 'it was archived' });
    expect(suspensions(silent.told)).toHaveLength(2);
  });

  test('without an answer suspends the channel when an event about its closing arrived during the check', async () => {
    const { access, told } = bench(new Error('no network'));
    await Promise.all([access.check(CHANNEL), access.check(CHANNEL, { reported: 'it was archived' })]);
    expect(suspensions(told)).toHaveLength(2);
  });

  test('T36 counts a refusal that arrives during a check', async () => {
    const { access, told, refused } = bench(null);
    await refused();
    await refused();
    const check = access.check(CHANNEL);
    await Promise.all([check, refused()]);
    expect(suspensions(told)).toHaveLength(2);
  });
});
