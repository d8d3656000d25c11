import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { z } from 'zod';

/** How an agent is started without Conch's settings. */
export type RawStart = {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** The sign-in method. `null`: none. */
  readonly signIn: string | null;
  readonly prompts: readonly string[];
  /** Timeout of each request. */
  readonly limitMs: number;
};

/**
 * Runs an agent as its maker starts it: opens a session in its folder, prompts it, allows everything, and ends its
 * processes. Resolves with the failures in words.
 */
export async function runRaw({
  command,
  args,
  env,
  cwd,
  signIn,
  prompts,
  limitMs,
}: RawStart): Promise<readonly string[]> {
  const child = spawn(command, [...args], { cwd, env, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  const waiting = new Map<number, (answer: Answer) => void>();
  const failures: string[] = [];
  let ids = 0;
  let last = '';
  child.stderr.on('data', (bytes: Buffer) => void (last = `${last}${bytes.toString()}`.slice(-LONGEST)));
  child.stdin.on('error', () => {});
  child.on('error', (error) => failures.push(error.message));
  const send = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = read(line);
    if (message === null) return;
    if (message.method === undefined) {
      if (typeof message.id === 'number') waiting.get(message.id)?.(message);
      return;
    }
    if (message.id === undefined) return;
    const options = message.params?.options ?? [];
    const yes = options.find(({ kind }) => kind === 'allow_once') ?? options[0];
    if (yes === undefined) send({ id: message.id, error: { code: -32_601, message: 'none' } });
    else send({ id: message.id, result: { outcome: { outcome: 'selected', optionId: yes.optionId } } });
  });
  const ask = async (method: string, params: object): Promise<Answer> => {
    const id = (ids += 1);
    const { promise, resolve } = Promise.withResolvers<Answer>();
    waiting.set(id, resolve);
    const timer = setTimeout(() => resolve({ error: { message: `took more than ${limitMs} ms` } }), limitMs);
    child.once('exit', (code) => resolve({ error: { message: `exited with ${code}: ${last}` } }));
    send({ id, method, params });
    const answer = await promise;
    clearTimeout(timer);
    if (answer.error !== undefined) failures.push(`${method}: ${answer.error.message}`);
    return answer;
  };
  await ask('initialize', { protocolVersion: 1, clientCapabilities: {} });
  if (signIn !== null) await ask('authenticate', { methodId: signIn });
  const { result } = await ask('session/new', { cwd, mcpServers: [] });
  const sessionId = result?.sessionId;
  if (sessionId !== undefined) {
    for (const text of prompts) await ask('session/prompt', { sessionId, prompt: [{ type: 'text', text }] });
  }
  const ended = new Promise((resolve) => void child.once('close', resolve));
  child.stdin.end();
  if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
    endGroup(child.pid);
    await ended;
  }
  return failures;
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The process group has ended already.
  }
}

const message = z.looseObject({
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string().optional(),
  params: z
    .looseObject({ options: z.array(z.object({ optionId: z.string(), kind: z.string() })).optional() })
    .optional(),
  result: z.looseObject({ sessionId: z.string().optional() }).nullish(),
  error: z.looseObject({ message: z.string() }).optional(),
});
type Answer = Pick<z.output<typeof message>, 'result' | 'error'>;

function read(line: string): z.output<typeof message> | null {
  try {
    return message.parse(JSON.parse(line));
  } catch {
    return null;
  }
}

const LONGEST = 600;
