/**
 * The program that starts git for Conch, except for `GitObjects`. A process with little memory starts others faster
 * than Conch does. Answers each `GitCall` with a `GitAnswer`. Ends when Conch has ended or disconnects, and the last
 * command of git has ended. Ignores the signals that stop Conch, because Conch uses git while it stops.
 */
import { spawn } from 'node:child_process';
import { sendSignal } from './marked-processes.ts';

/** One command of git. `mostOutput`: in bytes. */
export type GitCall = {
  readonly id: number;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly input: string;
  readonly limitMs: number;
  readonly mostOutput: number;
};

/** How one command of git ended. `code`: the exit code; `null` after a signal, without a run, or if unknown. */
export type GitEnd = {
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
  readonly isMissing: boolean;
  /** The limit that git exceeded, in words; `null` for none. */
  readonly limit: string | null;
};

/**
 * The answer to the `GitCall` with the same id. When git could not be started, `stderr` says why, and only `isMissing`
 * may be given besides.
 */
export type GitAnswer = Partial<GitEnd> & { readonly id: number };

const STDERR_TAIL = 4_096;
/** The time from SIGTERM to SIGKILL, and the longest time from the end of git to its answer, in milliseconds. */
const GRACE_MS = 2_000;

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);
process.on('message', (call: GitCall) => {
  const answer = (end: Partial<GitEnd>): void => {
    const all: GitAnswer = { id: call.id, ...end };
    // Without a callback, a failed send would end this program.
    if (process.connected) process.send?.(all, undefined, {}, () => undefined);
  };
  run(call).then(answer, (error: Error) => answer({ stderr: error.message }));
});

/** A process that git started and that keeps the output open delays the answer by `GRACE_MS` at most. */
function run({ args, env, input, limitMs, mostOutput }: GitCall): Promise<Partial<GitEnd>> {
  return new Promise((resolve) => {
    const child = spawn('git', args, { env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
    child.once('error', (error: NodeJS.ErrnoException) =>
      resolve({ stderr: error.message, isMissing: error.code === 'ENOENT' }),
    );
    if (child.pid === undefined) return;
    const group = -child.pid;
    const chunks: Buffer[] = [];
    let bytes = 0;
    let stderr = '';
    let limit: string | null = null;
    const stop = (reason: string): void => {
      if (limit !== null) return;
      limit = reason;
      clearTimeout(killer);
      sendSignal(group, 'SIGTERM');
      killer = setTimeout(() => sendSignal(group, 'SIGKILL'), GRACE_MS);
    };
    let killer = setTimeout(() => stop(`no end within ${limitMs / 1_000} s`), limitMs);
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > mostOutput) stop(`more than ${mostOutput} bytes of output`);
      else chunks.push(chunk);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => void (stderr = (stderr + text).slice(-STDERR_TAIL)));
    child.once('exit', (code) => {
      // At a limit, the rest of the group is still to be killed.
      if (limit === null) clearTimeout(killer);
      const patience = setTimeout(() => {
        child.stdout.destroy();
        child.stderr.destroy();
      }, GRACE_MS);
      child.once('close', () => {
        clearTimeout(patience);
        resolve({ code, stdout: Buffer.concat(chunks), stderr, limit });
      });
    });
  });
}
