import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { createHandover } from '../../../src/adapters/delivery/handover.ts';

const CHANNEL = 'console:demo';
const OTHER = 'discord:42';
const SILENT = pino({ level: 'silent' });

describe('an intake that fails', () => {
  test('is tried again after pauses that grow to fifteen seconds, and troubles people once', async () => {
    const pauses: number[] = [];
    const troubles: string[] = [];
    let failures = 9;
    const handover = createHandover({
      log: SILENT,
      trouble: (_channel, why) => troubles.push(why),
      sleep: async (ms) => {
        pauses.push(ms);
      },
    });
    await new Promise<void>((resolve) => {
      void handover.push(CHANNEL, async () => {
        failures -= 1;
        if (failures > 0) throw new Error('no');
        resolve();
      });
    });
    expect(pauses).toEqual([250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
    expect(troubles).toEqual(['no']);
  });

  test('has room for five thousand, not for more', () => {
    const handover = createHandover({ log: SILENT, trouble: () => undefined });
    const never = new Promise<void>(() => undefined);
    for (let count = 0; count < 5_000; count += 1) {
      expect(handover.hasRoom(CHANNEL)).toBe(true);
      void handover.push(CHANNEL, () => never);
    }
    expect(handover.hasRoom(CHANNEL)).toBe(false);
    expect(handover.hasRoom(OTHER)).toBe(true);
    handover.stop();
  });
});
