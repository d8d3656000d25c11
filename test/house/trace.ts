import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { HouseNumbers } from './bounds.ts';

/** A file of the source, relative to `src`, and its called functions. An unnamed function is given by its line. */
export type Crossed = { readonly file: string; readonly functions: readonly string[] };

/** The path of a message. `crossed`: by file name. `inOrder`: by first call, a new step at each change of the file. */
export type Way = { readonly crossed: readonly Crossed[]; readonly inOrder: readonly Crossed[] };

/**
 * Traces one message in Slack from its arrival until its answer is posted. Runs the program in a new process for some
 * seconds. Rejects when no answer comes.
 */
export async function trace(): Promise<Way> {
  const program = new URL('./crossed.ts', import.meta.url).pathname;
  // Calls of functions that come from a compile cache are not counted exactly.
  const env = { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' };
  const { stdout } = await promisify(execFile)(process.execPath, [program], { timeout: LIMIT_MS, env });
  return JSON.parse(stdout) as Way;
}

/** Counts the files and functions of a way. */
export function sizeOf({ crossed }: Way): Pick<HouseNumbers, 'filesPerMessage' | 'functionsPerMessage'> {
  return { filesPerMessage: crossed.length, functionsPerMessage: crossed.flatMap(({ functions }) => functions).length };
}

const LIMIT_MS = 100_000;
