import { EventSource } from 'eventsource';
import { z } from 'zod';
import { EXIT_CODES } from '../runtime/exit-codes.ts';
import type { ExitCode } from '../runtime/exit-codes.ts';
import { RUN_EVENT_NAMES } from '../work/runs/run-published.ts';
import { TOKEN_FILE, harmless, notRunning, readToken } from './ctl.ts';
import type { CtlWorld } from './ctl.ts';

/** Whose runs to follow. */
export type RunWatch = { readonly agent: string; readonly channel: string | null; readonly json: boolean };

const messageSchema = z.looseObject({ type: z.string(), at: z.number(), run: z.string() });
type Message = z.output<typeof messageSchema>;

/**
 * Prints the runs of an agent as they happen, a line for each event or, with `json`, the event itself, until `signal` is aborted. A
 * connection that breaks is opened again and goes on where it was; what the bot refuses is printed to `err`.
 */
export async function watchRuns(call: RunWatch, world: CtlWorld, signal: AbortSignal): Promise<ExitCode> {
  const token = await readToken(world);
  const asked = { ...call, line: 'run watch' };
  if (token === null) return notRunning(asked, world, `there is no ${world.dataDir}/${TOKEN_FILE}`);
  const query = new URLSearchParams({ agent: call.agent, ...(call.channel === null ? {} : { channel: call.channel }) });
  const ended = Promise.withResolvers<ExitCode>();
  let was = false;
  const source = new EventSource(`http://127.0.0.1:${world.port}/runs/events?${query.toString()}`, {
    fetch: async (url, init) => {
      const headers = { ...init.headers, authorization: `Bearer ${token}` };
      const response = await world.fetch(String(url), {
        ...init,
        headers,
        redirect: 'error',
        signal: init.signal ?? signal,
      });
      if (response.status !== 200 && response.status !== 410) {
        world.err(`${harmless((await response.text()).trim())}\n`);
        ended.resolve(response.status === 403 ? EXIT_CODES.notRunning : EXIT_CODES.refused);
      }
      return response;
    },
  });
  const stop = () => ended.resolve(EXIT_CODES.ok);
  signal.addEventListener('abort', stop, { once: true });
  source.addEventListener('open', () => (was = true));
  source.addEventListener('error', ({ message = '', code }) => {
    if (!was && code === undefined) ended.resolve(notRunning(asked, world, message));
    if (code === 410) world.err('What happened meanwhile is no longer kept.\n');
  });
  let writing: string | null = null;
  for (const name of RUN_EVENT_NAMES)
    source.addEventListener(name, ({ data }) => {
      const text = String(data);
      const writes = name === 'stream:token' && !call.json ? messageSchema.parse(JSON.parse(text)).run : null;
      // What happens stands on a line of its own, below what is being written; so does what another run writes meanwhile.
      world.out(`${writing !== null && writing !== writes ? '\n' : ''}${shown(text, call)}`);
      writing = writes;
    });
  const code = await ended.promise;
  source.close();
  return code;
}

function shown(data: string, { json }: RunWatch): string {
  if (json) return `${data}\n`;
  const message = messageSchema.parse(JSON.parse(data));
  if (message.type === 'stream:token') return harmless(String(message['text']));
  const time = new Date(message.at).toISOString().slice(11, 19);
  const words = [time, message.run, message.type, harmless(detailOf(message))];
  return `${words.filter((word) => word !== '').join(' ')}\n`;
}

/** What an event holds besides its envelope, in one line. */
function detailOf({
  type: _type,
  at: _at,
  run: _run,
  v: _v,
  seq: _seq,
  agent: _agent,
  channel: _channel,
  ...rest
}: Message): string {
  const { payload, ...own } = rest;
  const all = { ...own, ...(typeof payload === 'object' ? payload : {}) };
  const words = Object.entries(all).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  const line = words.join(' ').replaceAll(/\s+/g, ' ');
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
}

const LONGEST = 400;
