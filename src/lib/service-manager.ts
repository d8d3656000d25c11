import { execFile } from 'node:child_process';
import type { Timer, Timers } from './time.ts';

/** Reports Conch's state to the service manager that started Conch, such as systemd. Without one, does nothing. */
export type ServiceManager = {
  /** Says that the start is complete, and begins to report to the watchdog. `status` is a sentence for people. */
  ready(status: string): void;
  /** Sets what is checked before each regular report to the watchdog. While the check throws, these reports stop. */
  watch(check: () => void): void;
  /**
   * Does work that can block the event loop for longer than a period of the watchdog. During the work, the watchdog
   * waits a day for the next report. Resolves and rejects as the work does.
   */
  withoutWatchdog<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Says that Conch ends. The watchdog gets no more regular reports. */
  stop(): void;
};

type Env = Readonly<Record<string, string | undefined>>;

type ServicePorts = {
  readonly env: Env;
  readonly pid: number;
  readonly timers: Timers;
  /** Sends variables such as `READY=1`. Rejects when they could not be sent. */
  readonly send: (variables: readonly string[]) => Promise<void>;
  /** Called once, when a report fails or is left out for the first time, with the cause. */
  readonly failed: (error: unknown) => void;
};

/**
 * Makes the `ServiceManager` that speaks the protocol of `sd_notify`. It reports to the watchdog twice in each of its
 * periods (`WATCHDOG_USEC`). The reports come from the event loop, so a Conch that hangs sends none.
 */
export function serviceManager(ports: ServicePorts): ServiceManager {
  const isManaged = (ports.env['NOTIFY_SOCKET'] ?? '') !== '';
  const periodMs = isManaged ? watchdogMs(ports) : null;
  let check = (): void => undefined;
  let timer: Timer | null = null;
  let hasFailed = false;
  let last: Promise<void> = Promise.resolve();
  const failed = (error: unknown): void => {
    if (!hasFailed) ports.failed(error);
    hasFailed = true;
  };
  // One after the other: a later state must not be overtaken by an earlier one.
  const send = (...variables: readonly string[]): Promise<void> => {
    if (isManaged) last = last.then(() => ports.send(variables)).catch(failed);
    return last;
  };
  const report = (): void => {
    if (periodMs === null) return;
    timer = ports.timers.after(periodMs / 2, report);
    try {
      check();
      void send('WATCHDOG=1');
    } catch (error) {
      failed(error);
    }
  };
  return {
    ready(status) {
      void send('READY=1', `STATUS=${status}`);
      if (timer === null) report();
    },
    watch(next) {
      check = next;
    },
    async withoutWatchdog(work) {
      if (periodMs === null) return work();
      await send(`WATCHDOG_USEC=${DAY_MS * 1_000}`);
      try {
        return await work();
      } finally {
        void send(`WATCHDOG_USEC=${periodMs * 1_000}`, 'WATCHDOG=1');
      }
    },
    stop() {
      timer?.cancel();
      void send('STOPPING=1', 'STATUS=ending');
    },
  };
}

const DAY_MS = 86_400_000;

/** The period of the watchdog in milliseconds; `null` when it is off, or watches another process. */
function watchdogMs({ env, pid }: Pick<ServicePorts, 'env' | 'pid'>): number | null {
  const micros = Number(env['WATCHDOG_USEC']);
  const watched = env['WATCHDOG_PID'] ?? '';
  return micros > 0 && (watched === '' || Number(watched) === pid) ? micros / 1_000 : null;
}

const SEND_MS = 5_000;

/**
 * Sends variables by the program `systemd-notify`, because Node has no datagrams on Unix sockets. systemd takes them
 * from a child only under `NotifyAccess=all`. Rejects when the program is missing or fails.
 */
export function sendByProgram(env: Env): ServicePorts['send'] {
  const { PATH, NOTIFY_SOCKET } = env;
  return (variables) =>
    new Promise((done, fail) => {
      execFile('systemd-notify', variables, { env: { PATH, NOTIFY_SOCKET }, timeout: SEND_MS }, (error) =>
        error === null ? done() : fail(error),
      );
    });
}
