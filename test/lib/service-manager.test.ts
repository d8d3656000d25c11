import { describe, expect, test } from 'vitest';
import { serviceManager } from '../../src/lib/service-manager.ts';
import type { Timers } from '../../src/lib/time.ts';

/** A service manager that records the reports sent to it, with timers that the test runs. */
function stage(env: Readonly<Record<string, string>> = {}, send: () => Promise<void> = () => Promise.resolve()) {
  const sent: string[] = [];
  const failures: unknown[] = [];
  const pending: { ms: number; run: () => void }[] = [];
  const timers: Timers = {
    after(ms, run) {
      const timer = { ms, run };
      pending.push(timer);
      return { cancel: () => void pending.splice(pending.indexOf(timer), 1) };
    },
  };
  const service = serviceManager({
    env: { NOTIFY_SOCKET: '/run/notify', WATCHDOG_USEC: '20000000', ...env },
    pid: 7,
    timers,
    send: (variables) => {
      sent.push(variables.join(' '));
      return send();
    },
    failed: (error) => failures.push(error),
  });
  /** Runs the next timer and waits for its report. Returns the time of the timer in milliseconds. */
  const tick = async (): Promise<number> => {
    const next = pending.shift();
    next?.run();
    await settled();
    return next?.ms ?? 0;
  };
  return { service, sent, failures, pending, tick };
}

const settled = (): Promise<void> => new Promise((done) => setImmediate(done));

describe('a service manager that started this program', () => {
  test('gets a report of the start, two in each watchdog period, and one of the end', async () => {
    const { service, sent, tick, pending } = stage();
    service.ready('serving');
    await settled();
    expect(sent.splice(0)).toEqual(['READY=1 STATUS=serving', 'WATCHDOG=1']);
    expect([await tick(), await tick()]).toEqual([10_000, 10_000]);
    expect(sent.splice(0)).toEqual(['WATCHDOG=1', 'WATCHDOG=1']);
    service.stop();
    await settled();
    expect([sent, pending]).toEqual([['STOPPING=1 STATUS=ending'], []]);
  });

  test('gets a second status, but no second series of watchdog reports', async () => {
    const { service, sent, pending } = stage();
    service.ready('standing by');
    service.ready('serving');
    await settled();
    expect([sent.filter((each) => each.startsWith('READY')).length, pending.length]).toEqual([2, 1]);
  });

  test('gets no watchdog report while the store does not answer, and gets reports again afterwards', async () => {
    const { service, sent, failures, tick } = stage();
    let isBroken = true;
    service.watch(() => {
      if (isBroken) throw new Error('the store does not answer');
    });
    service.ready('serving');
    await tick();
    await tick();
    expect([sent, failures.map(String)]).toEqual([['READY=1 STATUS=serving'], ['Error: the store does not answer']]);
    isBroken = false;
    await tick();
    expect(sent.at(-1)).toBe('WATCHDOG=1');
  });

  test('waits a day for a report while work blocks the program, and its usual time after work that failed', async () => {
    const { service, sent } = stage();
    const order: string[] = [];
    const work = async (): Promise<number> => {
      order.push(...sent);
      throw new Error('no room');
    };
    await expect(service.withoutWatchdog(work)).rejects.toThrow('no room');
    await settled();
    expect([order, sent]).toEqual([
      ['WATCHDOG_USEC=86400000000'],
      ['WATCHDOG_USEC=86400000000', 'WATCHDOG_USEC=20000000 WATCHDOG=1'],
    ]);
  });

  test('that cannot be reached is reported once in the log', async () => {
    const { service, failures, tick } = stage({}, () => Promise.reject(new Error('no systemd-notify')));
    service.ready('serving');
    await tick();
    expect(failures.map(String)).toEqual(['Error: no systemd-notify']);
  });
});

test.each([
  ['without a watchdog', { WATCHDOG_USEC: '' }, ['READY=1 STATUS=serving']],
  ['whose watchdog watches another process', { WATCHDOG_PID: '8' }, ['READY=1 STATUS=serving']],
  ['whose watchdog watches this process', { WATCHDOG_PID: '7' }, ['READY=1 STATUS=serving', 'WATCHDOG=1']],
  ['that is not there', { NOTIFY_SOCKET: '' }, []],
])('a service manager %s gets only the reports that it asks for', async (_which, env, expected) => {
  const { service, sent } = stage(env);
  service.ready('serving');
  await settled();
  expect(sent).toEqual(expected);
});
