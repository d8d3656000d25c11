import type { Capabilities, ChatAdapter, Intake, FloorQueries } from '../../src/adapters/port.ts';
import type { Clock, Timers } from '../../src/lib/time.ts';
import { App } from '../../src/runtime/app.ts';
import type { AppParts } from '../../src/runtime/app.ts';
import { createLog } from '../../src/runtime/log.ts';

/** A platform that takes everything and shows nothing. */
const PLAIN: Capabilities = {
  textLimit: 1_000,
  idempotentPosts: true,
  fileAbove: null,
};

/** What a test says about the program; what of the adapter it does not name does nothing. */
export type Start = Pick<AppParts, 'config' | 'store' | 'backendFor' | 'secrets'> & {
  readonly time: { readonly clock: Clock; readonly timers: Timers };
  readonly adapter: Pick<ChatAdapter, 'name'> &
    Partial<Omit<ChatAdapter, 'capabilities'>> & { readonly capabilities?: Partial<Capabilities> };
  /** Takes the lines of the log from "warn" on, or from this level. */
  readonly logged?: (line: string) => void;
  readonly level?: 'info' | 'debug' | 'warn';
};

/** Starts the whole program over one adapter of the test; Ada operates. `broken` is what went wrong for good. */
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
