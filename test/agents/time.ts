import type { TypingSpeed } from '../../src/agents/backends/scripted/scripted-backend.ts';

type Alarm = { readonly at: number; readonly run: () => void };

/** A test clock with timers. Time passes only when a test advances it. */
export function createTime() {
  let now = 1_000_000;
  let alarms: Alarm[] = [];
  const after = (ms: number, run: () => void) => {
    const alarm = { at: now + ms, run };
    alarms.push(alarm);
    return { cancel: () => void (alarms = alarms.filter((other) => other !== alarm)) };
  };
  const speed: TypingSpeed = {
    wordMs: 100,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) return reject(new Error('aborted'));
        const alarm = after(ms, resolve);
        signal.addEventListener('abort', () => (alarm.cancel(), reject(new Error('aborted'))));
      }),
  };
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    clock: { now: () => now },
    timers: { after },
    speed,
    settle,
    /** Returns how many timers are set. */
    pending: () => alarms.length,
    /** Advances the clock. Due timers run in order, each at its own time. */
    async advance(ms: number): Promise<void> {
      const end = now + ms;
      await settle();
      for (let due = next(alarms, end); due; due = next(alarms, end)) {
        const { at, run } = due;
        alarms = alarms.filter((alarm) => alarm !== due);
        now = Math.max(now, at);
        run();
        await settle();
      }
      now = Math.max(now, end);
    },
    /** Advances the clock during a running operation. No timers run. */
    pass(ms: number): void {
      now += ms;
    },
    /** Simulates sleep of the machine: the clock jumps, and due timers run afterwards. */
    async oversleep(ms: number): Promise<void> {
      now += ms;
      const due = alarms.filter(({ at }) => at <= now);
      alarms = alarms.filter(({ at }) => at > now);
      for (const { run } of due) run();
      await settle();
    },
  };
}

export type Time = ReturnType<typeof createTime>;

function next(alarms: readonly Alarm[], end: number): Alarm | undefined {
  return alarms.filter(({ at }) => at <= end).toSorted((one, other) => one.at - other.at)[0];
}
