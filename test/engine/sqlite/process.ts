import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The end of another process that opened a store. */
export type Ended = {
  readonly code: number | null;
  readonly signal: string | null;
  readonly output: string;
};

/** Runs `child.ts` on a database until it ends. */
export function runChild(act: 'open' | 'accept-and-die' | 'apply-and-die', path: string): Promise<Ended> {
  const { promise, resolve, reject } = Promise.withResolvers<Ended>();
  const child = spawn(process.execPath, [fileURLToPath(new URL('child.ts', import.meta.url)), act, path]);
  let output = '';
  child.stdout.on('data', (chunk) => (output += String(chunk)));
  child.stderr.on('data', (chunk) => (output += String(chunk)));
  child.on('error', reject);
  child.on('close', (code, signal) => resolve({ code, signal, output }));
  return promise;
}
