import { z } from 'zod';
import { EventSource } from 'eventsource';
import type { MaintenanceOrder } from '../adapters/console/server.ts';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import { RUN_EVENT_NAMES } from '../work/runs/run-published.ts';
import { parsedJson } from '../lib/defined.ts';
import { conchCommand } from '../lib/installation.ts';

/** A command for the running bot. */
export type CtlCall = {
  readonly line: string;
  readonly channel: string | null;
  readonly json: boolean;
  /** A maintenance task for the database, sent in place of `line`. */
  readonly maintenance?: MaintenanceOrder;
  /** Requests a new link to the page, in place of `line`. */
  readonly open?: true;
};

/** The address of the running bot, and the terminal. */
export type CtlWorld = {
  readonly dataDir: string;
  readonly port: number;
  /** Rejects for a missing file. */
  readFile(path: string): Promise<string>;
  fetch(url: string, init: RequestInit): Promise<Response>;
  out(text: string): void;
  err(text: string): void;
};

/** The file in the data folder with the token for commands. */
const TOKEN_FILE = 'console-token';

/**
 * Sends a command to the bot on this machine and prints the answer: to `out` on success, else to `err`. With `json`
 * always to `out`, as one object `{ ok, text }`.
 */
export async function runCtl(call: CtlCall, world: CtlWorld): Promise<ExitCode> {
  const answer = await askBot(call, world);
  if (!answer.reached) return notRunning(call, world, answer.why);
  print(answer, call, world);
  return answer.ok ? EXIT_CODES.ok : EXIT_CODES.refused;
}

/** Sends a command to the bot on this machine. Returns the bot's answer, or why no bot answered. */
export async function askBot(call: CtlCall, world: CtlWorld): Promise<Outcome> {
  const token = await readToken(world);
  if (token === null) return { reached: false, why: `there is no ${world.dataDir}/${TOKEN_FILE}` };
  const timeoutMs = call.maintenance === undefined ? TIMEOUT_MS : MAINTENANCE_TIMEOUT_MS;
  return ask({ body: JSON.stringify(bodyOf(call)), token, timeoutMs }, world);
}

/** Reads the token for commands; `null` when the file cannot be read. */
export function readToken({ readFile, dataDir }: Pick<CtlWorld, 'readFile' | 'dataDir'>): Promise<string | null> {
  return readFile(`${dataDir}/${TOKEN_FILE}`).then(
    (text) => text.trim(),
    () => null,
  );
}

function bodyOf({ open, maintenance, channel, line }: CtlCall): object {
  if (open !== undefined) return { open };
  if (maintenance !== undefined) return { maintenance };
  return channel === null ? { line } : { channel, line };
}

const TIMEOUT_MS = 15_000;
/** Work on a large database takes long. */
const MAINTENANCE_TIMEOUT_MS = 3_600_000;

const answerSchema = z.object({ ok: z.boolean(), text: z.string() });

type Outcome =
  | { readonly reached: true; readonly ok: boolean; readonly text: string }
  | { readonly reached: false; readonly why: string };

type Request = { readonly body: string; readonly token: string; readonly timeoutMs: number };

async function ask({ body, token, timeoutMs }: Request, world: CtlWorld): Promise<Outcome> {
  const url = `http://127.0.0.1:${world.port}/ctl`;
  try {
    const response = await world.fetch(url, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body,
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (response.status === 401 || response.status === 403)
      return { reached: false, why: 'it did not accept the token' };
    return understand(response.status, await response.text());
  } catch (error) {
    return { reached: false, why: reasonOf(error, timeoutMs) };
  }
}

function understand(status: number, text: string): Outcome {
  const answer = parsedJson(text, answerSchema);
  if (answer !== null) return { reached: true, ...answer };
  return { reached: false, why: `the answer is not from Conch (HTTP ${status})` };
}

function reasonOf(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return String(error);
  const limit = timeoutMs === TIMEOUT_MS ? `${timeoutMs / 1_000} seconds` : `${timeoutMs / 60_000} minutes`;
  if (error.name === 'TimeoutError') return `it did not answer within ${limit}`;
  return error.cause instanceof Error ? error.cause.message : error.message;
}

/** Prints a line to `err`; returns `code`. */
export function failed(text: string, code: ExitCode, { err }: Pick<CtlWorld, 'err'>): ExitCode {
  err(`${harmless(text)}\n`);
  return code;
}

/** Prints that no running Conch was reached, and what to do. */
export function notRunning(call: Pick<CtlCall, 'json'>, world: CtlWorld, why: string): ExitCode {
  const text =
    `No running Conch answers at 127.0.0.1:${world.port}: ${why}. ` +
    `Start it with "${conchCommand()}", or set CONCH_PORT and CONCH_DATA_DIR to those of the running one.`;
  print({ ok: false, text }, call, world);
  return EXIT_CODES.notRunning;
}

function print(
  answer: { readonly ok: boolean; readonly text: string },
  call: Pick<CtlCall, 'json'>,
  world: CtlWorld,
): void {
  if (call.json) world.out(`${JSON.stringify({ ok: answer.ok, text: answer.text })}\n`);
  else if (answer.ok) world.out(`${harmless(answer.text)}\n`);
  else world.err(`${harmless(answer.text)}\n`);
}

/** Removes control characters, which could control the terminal. Line feeds and tabs stay. */
export function harmless(text: string): string {
  return text.replaceAll(/[\p{Cc}--[\n\t]]/gv, '');
}

type RunWatch = { readonly agent: string; readonly channel: string | null; readonly json: boolean };

const messageSchema = z.looseObject({ type: z.string(), at: z.number(), run: z.string() });
type Message = z.output<typeof messageSchema>;

/**
 * Prints the runs of an agent as they happen until `signal` aborts: streamed text as it comes, a line for each other
 * event. With `json`, prints each event as a line. Reopens a broken connection. Also ends, and prints why, when Conch
 * refuses, when events missed during a break were deleted, when the first connection fails, or when another program
 * answers.
 */
export async function watchRuns(call: RunWatch, world: CtlWorld, signal: AbortSignal): Promise<ExitCode> {
  const token = await readToken(world);
  const watchCall = { ...call, line: 'run watch' };
  if (token === null) return notRunning(watchCall, world, `there is no ${world.dataDir}/${TOKEN_FILE}`);
  const query = new URLSearchParams({ agent: call.agent, ...(call.channel === null ? {} : { channel: call.channel }) });
  const ended = Promise.withResolvers<ExitCode>();
  let wasOpen = false;
  const source = new EventSource(`http://127.0.0.1:${world.port}/runs/events?${query.toString()}`, {
    fetch: async (url, init) => {
      const headers = { ...init.headers, authorization: `Bearer ${token}` };
      const response = await world.fetch(String(url), {
        ...init,
        headers,
        redirect: 'error',
        signal: init.signal ?? signal,
      });
      if (response.status !== 200) {
        const text = response.status === 410 ? EVENTS_DELETED : (await response.text()).trim();
        world.err(`${harmless(text)}\n`);
        ended.resolve(response.status === 403 ? EXIT_CODES.notRunning : EXIT_CODES.refused);
      }
      return response;
    },
  });
  const stop = () => ended.resolve(EXIT_CODES.ok);
  signal.addEventListener('abort', stop, { once: true });
  source.addEventListener('open', () => (wasOpen = true));
  source.addEventListener('error', ({ message = '', code }) => {
    // With 200, the answer was no stream of events: another program has the port.
    if (code === 200 || (!wasOpen && code === undefined)) ended.resolve(notRunning(watchCall, world, message));
  });
  let writing: string | null = null;
  for (const name of RUN_EVENT_NAMES)
    source.addEventListener(name, ({ data }) => {
      const text = String(data);
      const writes = name === 'stream:token' && !call.json ? messageSchema.parse(JSON.parse(text)).run : null;
      // Ends the line of streamed text before another event, or before another run's text.
      world.out(`${writing !== null && writing !== writes ? '\n' : ''}${eventText(text, call)}`);
      writing = writes;
    });
  const code = await ended.promise;
  source.close();
  return code;
}

const EVENTS_DELETED = 'Events sent in the meantime are no longer available. To follow from now on, start it again.';

function eventText(data: string, { json }: RunWatch): string {
  if (json) return `${data}\n`;
  const message = messageSchema.parse(JSON.parse(data));
  if (message.type === 'stream:token') return harmless(String(message['text']));
  const time = new Date(message.at).toISOString().slice(11, 19);
  const words = [time, message.run, message.type, harmless(detailOf(message))];
  return `${words.filter((word) => word !== '').join(' ')}\n`;
}

function detailOf({ payload, ...own }: Message): string {
  const fields = Object.entries(own).filter(([key]) => !KEYS_WITHOUT_DETAIL.has(key));
  const all = { ...Object.fromEntries(fields), ...(typeof payload === 'object' ? payload : {}) };
  const words = Object.entries(all).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  const line = words.join(' ').replaceAll(/\s+/g, ' ');
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
}

const KEYS_WITHOUT_DETAIL: ReadonlySet<string> = new Set(['type', 'at', 'run', 'v', 'seq', 'agent', 'channel']);
const LONGEST = 400;
