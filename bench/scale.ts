import { testServer } from '../test/engine/postgres/server.ts';
import { begin, one } from './one.ts';
import type { Found } from './report.ts';

const SIZES = [1, 100, 1_000];
const ROUNDS = 3;
const SPAN = [3_000, 3_000] as const;

/** The ratio of a figure on PostgreSQL to the figure on a file. `median`: of all rounds. */
type Ratio = { readonly median: number; readonly all: readonly number[] };

/** The figures of one size. `processes`: one leads, the others stand by. `p50`: the time of a hand-over. */
export type ScaleRow = {
  readonly channels: number;
  readonly processes: number;
  readonly deciding: Ratio;
  readonly whole: Ratio;
  readonly p50: Ratio;
};

/** Measures hand-overs on a store in PostgreSQL and on one in a file, in turn, each in a new process. */
export async function measureScale(): Promise<readonly ScaleRow[]> {
  const server = await testServer();
  if (server === null) throw new Error('Install PostgreSQL (apt-get install postgresql), or set CONCH_TEST_PG.');
  const rows: ScaleRow[] = [];
  let schemas = 0;
  try {
    for (const channels of SIZES)
      for (const processes of [2, 3]) {
        const found: { deciding: number; whole: number; p50: number }[] = [];
        for (let round = 0; round < ROUNDS; round += 1) {
          const run = { size: channels, round, span: SPAN };
          const shared = async (what: string): Promise<Found> => {
            schemas += 1;
            const env = { CONCH_BENCH_PG: server.url, CONCH_BENCH_SCHEMA: `bench_${schemas}` };
            const leader = one({ what, ...run, env });
            // The first process to join becomes the leader. Only the leader is measured, so it starts first.
            await new Promise((resolve) => setTimeout(resolve, STARTED_MS));
            const others = Array.from({ length: processes - 1 }, () => begin({ what: 'stand-by', size: 1, env }));
            const result = figures(await leader);
            for (const other of others) other.kill('SIGKILL');
            return result;
          };
          const [file, postgres] = [figures(await one({ what: 'conch', ...run })), await shared('shared')];
          const [wholeFile, whole] = [figures(await one({ what: 'app', ...run })), await shared('shared-app')];
          found.push({
            deciding: of(postgres, file, 'perSecond'),
            whole: of(whole, wholeFile, 'perSecond'),
            p50: of(whole, wholeFile, 'p50Ms'),
          });
        }
        const ratio = (key: 'deciding' | 'whole' | 'p50'): Ratio => medianOf(found.map((each) => each[key]));
        rows.push({ channels, processes, deciding: ratio('deciding'), whole: ratio('whole'), p50: ratio('p50') });
      }
    return rows;
  } finally {
    await server.stop();
  }
}

/**
 * The time after which the leader has joined the log, in milliseconds. Its measurement is still in its warm-up then, so
 * the others can start.
 */
const STARTED_MS = 1_500;

function figures({ found, what }: { readonly found: Found | null; readonly what: string }): Found {
  if (found === null) throw new Error(`The measurement ${what} failed.`);
  return found;
}

function of(first: Found, other: Found, key: string): number {
  const [above, below] = [Reflect.get(first, key), Reflect.get(other, key)] as [number, number];
  return Math.round((above / below) * 1_000) / 1_000;
}

function medianOf(all: readonly number[]): Ratio {
  const sorted = all.toSorted((first, other) => first - other);
  return { median: sorted[Math.floor(sorted.length / 2)] ?? 0, all };
}
