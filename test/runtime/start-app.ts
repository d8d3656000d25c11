import type { Capabilities, ChatAdapter, Intake, FloorQueries } from '../../src/adapters/port.ts';
import type { Clock, Timers } from '../../src/lib/time.ts';
import { App } from '../../src/runtime/app.ts';
import type { AppParts } from '../../src/runtime/app.ts';
import { createLog } from '../../src/runtime/log.ts';

/** The capabilities of the adapter, unless the test names others. */
const PLAIN: Capabilities = {
  textLimit: 1_000,
  idempotentPosts: true,
  fileAbove: null,
};

/** The parts of the program that a test provides. Methods of the adapter that it omits do nothing. */
export type Start = Pick<AppParts, 'config' | 'store' | 'backendFor' | 'secrets'> & {
  readonly time: { readonly clock: Clock; readonly timers: Timers };
  readonly adapter: Pick<ChatAdapter, 'name'> &
    Partial<Omit<ChatAdapter, 'capabilities'>> & { readonly capabilities?: Partial<Capabilities> };
  /** Receives the log lines of `level` and above; the default level is "warn". */
  readonly logged?: (line: string) => void;
  readonly level?: 'info' | 'debug' | 'warn';
};

/** Starts the whole program with the adapter of the test. Ada is an operator. `broken`: errors that end the program. */
export async function startApp({ time, adapter, logged, level = 'warn', ...parts }: Start) {
  let given: { readonly intake: Intake; readonly queries: FloorQueries } | null = null;
  const ofAdapter = () => {
    if (given === null) throw new Error('the adapter was not started');
    return given;
  };
  const broken: unknown[] = [];
  const { clock } = time;
  const app = new App({
    ...parts,
    ...time,
    log: createLog({
      level,
      pretty: false,
      secrets: [],
      clock,
      destination: { write: (line) => logged?.(line) },
    }),
    adapters: [
      {
        start: async (intake, queries) => void (given = { intake, queries }),
        stop: async () => {},
        post: async () => 'p1',
        find: async () => null,
        catchUp: async () => ({ messages: [], changes: [], gap: null }),
        ...adapter,
        capabilities: { ...PLAIN, ...adapter.capabilities },
      },
    ],
    localOperators: ['ada'],
    onBroken: (error) => void broken.push(error),
  });
  await app.start();
  await app.connect();
  return { app, broken, intake: () => ofAdapter().intake, queries: () => ofAdapter().queries };
}
