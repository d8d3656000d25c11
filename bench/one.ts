import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Found, Row } from './report.ts';

const CHILD = fileURLToPath(new URL('child.ts', import.meta.url));

/** The longest time of a measurement in milliseconds. A longer one is ended and counts as failed. */
const LONGEST_MS = process.argv.includes('--whole') ? 1_800_000 : 240_000;

/** A measurement. `span`: its warm-up and its time, in milliseconds. `kept`: a file that outlives it. */
export type Run = Pick<Row, 'what' | 'size' | 'round'> & {
  readonly span?: readonly [number, number];
  readonly kept?: string;
  readonly env?: Readonly<Record<string, string>>;
};

/** Starts a measurement in a new process. */
export function begin({ what, size, span = [1_000, 1_000], kept = '', env = {} }: Omit<Run, 'round'>) {
  const args = ['--expose-gc', '--no-warnings', CHILD, what, size, ...span, kept].map(String);
  const options = { stdio: ['ignore', 'pipe', 'pipe'], timeout: LONGEST_MS } as const;
  return spawn(process.execPath, args, { ...options, stdio: [...options.stdio], env: { ...process.env, ...env } });
}

/** Runs a measurement in a new process. When the measurement fails, prints its error and returns `found: null`. */
export async function one(run: Run): Promise<Row> {
  const { what, size, round } = run;
  const child = begin(run);
  let out = '';
  let wrong = '';
  child.stdout?.on('data', (piece: Buffer) => (out += piece));
  child.stderr?.on('data', (piece: Buffer) => (wrong += piece));
  await new Promise((resolve) => child.once('close', resolve));
  const found = read(out);
  if (found === null)
    process.stderr.write(
      `${what} ${size} failed: ${wrong.split('\n').find((line) => /Error/.test(line)) ?? 'too slow'}\n`,
    );
  else if (!process.argv.includes('--json')) process.stderr.write(`${what} ${size}: ${out}`);
  return { what, size, round, found };
}

function read(text: string): Found | null {
  try {
    return JSON.parse(text) as Found;
  } catch {
    return null;
  }
}
