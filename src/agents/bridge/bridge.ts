import type { AnyMessage } from '@agentclientprotocol/sdk';
import { parseArgs } from 'node:util';
import { errorMessage } from '../../lib/defined.ts';
import { isLoopback } from '../../lib/guarded-server.ts';
import { backoffMs, delay } from '../../lib/retry.ts';
import type { RetryPolicy } from '../../lib/retry.ts';
import { systemTimers } from '../../lib/time.ts';
import { lineStream } from '../backends/acp/acp-stream.ts';
import { connectOnce } from './bridge-connection.ts';
import { BridgeRelay } from './bridge-relay.ts';
import { startProcessGroup } from '../process/process-group.ts';
import type { ProcessGroup } from '../process/process-group.ts';

/** What the bridge connects: the address of a Conch, the agent's token there, and the program that speaks ACP. */
type BridgeOptions = {
  readonly url: string;
  readonly token: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
  /** Returns the wait after this many failures in a row, in milliseconds. Default: `reconnectMs`. */
  readonly waitMs?: (failures: number) => number;
};

/**
 * Returns the wait before the next attempt to connect or to start the agent, in milliseconds. At most 3 s for the first
 * 100 failures (about five minutes), then at most 30 s. The waits are short at first, because an agent that reconnects
 * within `reconnectGraceSeconds` keeps its turn.
 */
export function reconnectMs(failures: number): number {
  return backoffMs(failures <= SOON ? { ...RETRY, longestMs: 3_000 } : RETRY, failures);
}

/**
 * Runs `conch-agent`. Exit code 0: stopped by SIGTERM, SIGINT or SIGHUP, or help was printed. 1: Conch refused the
 * agent for good, or the agent's program cannot be started. 2: wrong command line.
 */
export async function bridgeMain(argv: readonly string[]): Promise<number> {
  process.stderr.on('error', () => undefined);
  const say = (line: string) => void process.stderr.write(`${line}\n`);
  const parsed = parse(argv, process.env);
  if (typeof parsed === 'string') {
    const isHelp = parsed === USAGE;
    (isHelp ? process.stdout : process.stderr).write(`${parsed}\n`);
    return isHelp ? 0 : 2;
  }
  const ending = new AbortController();
  const end = () => ending.abort();
  process.on('SIGTERM', end).on('SIGINT', end).on('SIGHUP', end);
  const { tokenEnv, ...rest } = parsed;
  const env = withoutToken(process.env, tokenEnv);
  return await runBridge({ ...rest, env, cwd: process.cwd(), signal: ending.signal, say });
}

/**
 * Runs an agent's program and keeps it connected to Conch. Resolves with 0 after `options.signal` aborts. Resolves with
 * 1 after a final refusal by Conch or when the program cannot be started. The program survives reconnects, and is
 * restarted when it ends. Its whole process group ends with the bridge.
 */
export async function runBridge(options: BridgeOptions): Promise<number> {
  const { signal, say, waitMs: waitAfter = reconnectMs } = options;
  for (let failures = 0; !signal.aborted;) {
    let group;
    try {
      group = await startProcessGroup({ ...options, timers: systemTimers });
    } catch (error) {
      say(errorMessage(error));
      return 1;
    }
    const startedAt = performance.now();
    try {
      if (await serve(group, options)) return 1;
    } finally {
      await group.stop(STOP_GRACE_MS);
    }
    if (signal.aborted) return 0;
    const { words } = await group.exited;
    failures = performance.now() - startedAt > STEADY_MS ? 1 : failures + 1;
    const waitMs = waitAfter(failures);
    say(`The agent ${words}; starting it again in ${waitMs / 1_000} s`);
    await waited(waitMs, signal);
  }
  return 0;
}

/**
 * Keeps a running agent connected until the agent ends or the bridge stops. Resolves with true when the host refused
 * for good.
 */
async function serve(group: ProcessGroup, options: BridgeOptions): Promise<boolean> {
  const { signal, say, waitMs: waitAfter = reconnectMs } = options;
  const over = new AbortController();
  const end = () => over.abort();
  signal.addEventListener('abort', end);
  void group.exited.then(end);
  const { readable, writable } = lineStream(group.stdout, group.stdin);
  const writer = writable.getWriter();
  const stuck = () => {
    say(`The agent did not stop its cancelled prompt within ${CANCEL_GRACE_MS / 1_000} s: ending it`);
    end();
  };
  const patience = { timers: systemTimers, graceMs: CANCEL_GRACE_MS, stuck };
  const relay = new BridgeRelay((message) => void writer.write(message).catch(end), options.cwd, patience);
  void listen(readable, relay).finally(end);
  let refused = false;
  for (let failures = 0; !over.signal.aborted && !refused;) {
    const { connected, why, final } = await connectOnce({ ...options, relay, signal: over.signal });
    if (over.signal.aborted) break;
    refused = final;
    failures = connected ? 1 : failures + 1;
    const waitMs = waitAfter(failures);
    say(final ? why : `${why}; trying again in ${waitMs / 1_000} s`);
    if (!final) await waited(waitMs, over.signal);
  }
  signal.removeEventListener('abort', end);
  return refused;
}

async function listen(readable: ReadableStream<AnyMessage>, relay: BridgeRelay): Promise<void> {
  try {
    for await (const message of readable) await relay.fromAgent(message);
  } catch {
    // The agent's output is unreadable. The caller then stops the agent and starts it again.
  }
}

const STOP_GRACE_MS = 2_000;
/**
 * How long a prompt waits for the end of a cancelled prompt before the agent's program is restarted, in milliseconds.
 */
const CANCEL_GRACE_MS = 10_000;
const STEADY_MS = 60_000;

const RETRY: RetryPolicy = { firstMs: 1_000, longestMs: 30_000 };
const SOON = 100;

async function waited(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, { timers: systemTimers, signal }).catch(() => undefined);
}

const USAGE = `Usage: conch-agent --url <address> --token-env <NAME> -- <command> [arguments]

Connects a program that speaks the Agent Client Protocol over its standard input and output to a Conch.

  --url        where, for example ws://127.0.0.1:7421/agent or wss://chat.example.org/agent
  --token-env  the environment variable that holds the token; "conch agent add <id>" prints one

Example: CONCH_AGENT_TOKEN=... conch-agent --url ws://127.0.0.1:7421/agent --token-env CONCH_AGENT_TOKEN -- opencode acp`;

type Parsed = Pick<BridgeOptions, 'url' | 'token' | 'command' | 'args'> & { readonly tokenEnv: string };

function parse(argv: readonly string[], env: Readonly<Record<string, string | undefined>>): Parsed | string {
  let given;
  try {
    given = parseArgs({
      args: [...argv],
      options: { url: { type: 'string' }, 'token-env': { type: 'string' }, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    });
  } catch (error) {
    return `${errorMessage(error)}\n\n${USAGE}`;
  }
  const { url, 'token-env': tokenEnv, help } = given.values;
  const [command, ...args] = given.positionals;
  if (help === true) return USAGE;
  if (url === undefined || tokenEnv === undefined || command === undefined) {
    return `Expected --url, --token-env and a command after "--".\n\n${USAGE}`;
  }
  const unsafe = unsafeAddress(url);
  if (unsafe !== null) return unsafe;
  const token = env[tokenEnv] ?? '';
  if (token === '') return `The environment variable ${tokenEnv} is empty: it has to hold the agent's token.`;
  if (!/^[!-~]+$/.test(token)) return `The token in ${tokenEnv} has a space, a line break or another wrong character.`;
  return { url, token, command, args, tokenEnv };
}

function unsafeAddress(url: string): string | null {
  if (!URL.canParse(url)) return `"${url}" is no URL. Example: ws://127.0.0.1:7421/agent`;
  const { protocol, hostname, hash } = new URL(url);
  if (hash !== '') return `"${url}" must end before "#". Example: ws://127.0.0.1:7421/agent`;
  if (protocol === 'wss:') return null;
  if (protocol !== 'ws:') return `"${url}" is no address of a WebSocket: it begins with ws:// or wss://`;
  if (isLoopback(hostname)) return null;
  return `"${url}" is not encrypted: the token would be read on the way. Use wss://`;
}

function withoutToken(env: Readonly<Record<string, string | undefined>>, without: string): Record<string, string> {
  const entries = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(entries.filter(([name]) => name !== without));
}
