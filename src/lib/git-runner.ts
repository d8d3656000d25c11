/**
 * The program that starts git for Conch. The time to start a process grows with the memory of its starter, and this
 * program has little. Answers each `GitCall` that it receives with a `GitAnswer`. Ends when Conch and the last git have
 * ended. Signals to Conch's process group do not end it: Conch uses git while it stops.
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

/** How git ended. */
export type GitEnd = {
  readonly code: number | null;
  readonly stdout: Buffer;
  readonly stderr: string;
  readonly isMissing: boolean;
  /** Why Conch ended git. `null` when git ended on its own. */
  readonly limit: string | null;
};

/** The answer to the call with the same id. Only `stderr` is known when git could not be started. */
export type GitAnswer = Partial<GitEnd> & { readonly id: number };

const STDERR_TAIL = 4_096;
/** Time between SIGTERM and SIGKILL, in milliseconds. */
const GRACE_MS = 2_000;

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);
process.on('message', (call: GitCall) => {
  const answer = (end: Partial<GitEnd>): void => {
    const all: GitAnswer = { id: call.id, ...end };
    // The callback takes the error when Conch has ended.
    if (process.connected) process.send?.(all, undefined, {}, () => undefined);
  };
  run(call).then(answer, (error: Error) => answer({ stderr: error.message }));
});

/** Runs git in a process group of its own and ends the whole group at a limit. */
function run({ args, env, input, limitMs, mostOutput }: GitCall): Promise<Partial<GitEnd>> {
  return new Promise((resolve) => {
    const child = spawn('git', args, { env, detached: true, stdio: ['pipe', 'pipe', 'pipe'] });
    child.once('error', (error: NodeJS.ErrnoException) =>
      resolve({ stderr: error.message, isMissing: error.code === 'ENOENT' }),
    );
    // There may be no pipes then.
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
    child.once('close', (code) => {
      clearTimeout(killer);
      resolve({ code, stdout: Buffer.concat(chunks), stderr, limit });
    });
  });
}
