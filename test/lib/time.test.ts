import { describe, expect, test } from 'vitest';
import { Alarm, shownAt, systemClock } from '../../src/lib/time.ts';

const START = Date.parse('2026-03-01T12:00:00Z');
const HOUR_MS = 3_600_000;

/** A machine whose clock somebody can set, and whose time goes on. */
function machine() {
  let passedMs = 0;
  let setMs = 0;
  let ring: (() => void) | null = null;
  let ringsAt = Infinity;
  const clock = systemClock({ machine: () => START + passedMs + setMs, steady: () => START + passedMs });
  return {
    clock,
    timers: {
      after: (ms: number, run: () => void) => {
        ring = run;
        ringsAt = passedMs + ms;
        return { cancel: () => (ring = null) };
      },
    },
    set: (byMs: number): void => void (setMs += byMs),
    pass: (ms: number): void => {
      passedMs += ms;
      if (passedMs >= ringsAt) ring?.();
    },
  };
}

describe('a machine whose clock is set while the program runs', () => {
  test.each([HOUR_MS, -HOUR_MS])('T12 shows its new time at once, set by %i ms', (byMs) => {
    const { clock, set, pass } = machine();
    pass(5_000);
    set(byMs);
    expect(shownAt(clock, clock.now())).toBe(START + 5_000 + byMs);
  });

  test.each([HOUR_MS, -HOUR_MS])('T12 meets a deadline after as long as before, set by %i ms', (byMs) => {
    const { clock, timers, set, pass } = machine();
    const rung: number[] = [];
    const alarm = new Alarm(clock, timers, () => rung.push(clock.now()));
    alarm.noLaterThan(clock.now() + 60_000);
    set(byMs);
    pass(59_999);
    expect(rung).toEqual([]);
    pass(1);
    expect(rung).toEqual([START + 60_000]);
  });

  test('T12 is not thought to be set when it only creeps', () => {
    const { clock, set } = machine();
    set(999);
    expect(shownAt(clock, clock.now())).toBe(START);
    set(1);
    expect(shownAt(clock, clock.now())).toBe(START + 1_000);
  });
});
