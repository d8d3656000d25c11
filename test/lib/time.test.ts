import { describe, expect, test } from 'vitest';
import { Alarm, Standstill, pausedTimer, shownAt, systemClock } from '../../src/lib/time.ts';

const START = Date.parse('2026-03-01T12:00:00Z');
const HOUR_MS = 3_600_000;

/** A machine with a clock that can be set (`set`), and with a steady time that only passes (`pass`). */
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

  test.each([HOUR_MS, -HOUR_MS])('T12 keeps the time left until a deadline, set by %i ms', (byMs) => {
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

  test('T12 ignores a change of the clock by less than 1 s', () => {
    const { clock, set } = machine();
    set(999);
    expect(shownAt(clock, clock.now())).toBe(START);
    set(1);
    expect(shownAt(clock, clock.now())).toBe(START + 1_000);
  });
});

/** A process that reads the time every 500 ms and can be suspended. Its due timers fire as soon as it continues. */
function stoppable() {
  let now = 0;
  const waiting: { readonly at: number; readonly run: () => void }[] = [];
  const standstill = new Standstill(() => now);
  const ring = (): void => {
    for (const due of waiting.splice(0)) {
      if (due.at <= now) due.run();
      else waiting.push(due);
    }
  };
  return {
    look: () => standstill.look(),
    clock: { now: () => now, stoodStillMs: () => standstill.look() },
    timers: {
      after: (ms: number, run: () => void) => {
        const timer = { at: now + ms, run };
        waiting.push(timer);
        return { cancel: () => void waiting.splice(0, waiting.length, ...waiting.filter((each) => each !== timer)) };
      },
    },
    pass: (ms: number): void => {
      for (const end = now + ms; now < end;) {
        now = Math.min(end, now + 500);
        ring();
        standstill.look();
      }
    },
    standStill: (ms: number): void => {
      now += ms;
      ring();
    },
  };
}

describe('a process that stands still', () => {
  test('T84 adds up its standstills, and no time in which it ran', () => {
    const process = stoppable();
    process.pass(60_000);
    expect(process.look()).toBe(0);
    process.standStill(40_000);
    expect(process.look()).toBe(40_000);
    process.pass(60_000);
    process.standStill(2_000);
    expect(process.look()).toBe(42_000);
  });

  test('T84 delays a timer and an alarm by the length of the standstill', () => {
    const { look, clock, timers, pass, standStill } = stoppable();
    const rung: string[] = [];
    pausedTimer(5_000, { run: () => rung.push(`timer at ${clock.now()}`), look, timers });
    const alarm = new Alarm(clock, timers, () => rung.push(`alarm at ${clock.now()}`));
    alarm.noLaterThan(50_000);
    pass(2_000);
    standStill(40_000);
    expect(rung).toEqual([]);
    pass(60_000);
    expect(rung).toEqual(['timer at 47000', 'alarm at 90000']);
  });
});
