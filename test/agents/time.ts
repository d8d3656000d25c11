import type { TypingSpeed } from '../../src/agents/backends/scripted/scripted-backend.ts';

type Alarm = { readonly at: number; readonly run: () => void };

/** Time that passes only when told: a clock, timers and a speed on one line of time. */
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
    /** How many alarms are set. */
    pending: () => alarms.length,
    /** Lets time pass; what falls due runs in order, at its own instant. */
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
    /** Time passes inside something that is under way: nothing else runs meanwhile. */
    pass(ms: number): void {
      now += ms;
    },
    /** The machine sleeps: the clock jumps and nothing runs meanwhile; what is due runs when it wakes. */
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
