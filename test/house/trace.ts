import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** One file of the source, relative to `src`, and its functions that were called; one without a name is called by its line. */
export type Crossed = { readonly file: string; readonly functions: readonly string[] };

/**
 * Which files and functions of the source one message in Slack crosses, from its arrival until the answer to it is posted,
 * sorted by file. Runs the program in a process of its own, some seconds long; rejects when there is no answer.
 */
export async function trace(): Promise<readonly Crossed[]> {
  const program = new URL('./crossed.ts', import.meta.url).pathname;
  const { stdout } = await promisify(execFile)(process.execPath, [program], { timeout: LIMIT_MS });
  return JSON.parse(stdout) as Crossed[];
}

const LIMIT_MS = 100_000;
