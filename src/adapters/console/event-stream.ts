import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Timer, Timers } from '../../lib/time.ts';
import type { EventSink, Reply } from '../../lib/guarded-server.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';

/** Whose events are wanted, from where on, and in whose words. */
export type EventRequest = {
  /** `null`: the only channel in which the agent has a seat. */
  readonly channel: ChannelId | null;
  readonly agent: AgentId;
  /** The number of the last event that the reader has had; `null` on a first visit. */
  readonly after: number | null;
  readonly format: 'conch' | 'ag-ui';
};

/** What tells of runs: what was missed is sent to the sink at once, the rest as it happens, until it is closed. */
export type EventSource = (
  request: EventRequest,
  sink: EventSink,
) =>
  | { readonly ok: true; close(): void }
  | { readonly ok: false; readonly status: 400 | 404 | 410; readonly text: string };

/** How often an open stream says that it is alive, in milliseconds, so that nobody between takes it for dead. */
const COMMENT_MS = 15_000;
/** How soon a reader comes back, in milliseconds. */
const RETRY_MS = 2_000;
/** A reader that reads nothing for this long while events wait is dropped, in milliseconds. It comes back and goes on. */
const STALL_MS = 60_000;
/** How much is handed to the socket at once, in bytes. */
const PIECE_BYTES = 16 * 1024;
/** A reader for which more bytes than this wait when another event happens is dropped. It comes back and goes on. */
const MOST_WAITING = 64 * 1024 * 1024;

const querySchema = z.strictObject({
  agent: z.string().min(1).max(200),
  channel: z.string().min(1).max(200).nullish(),
  format: z.enum(['conch', 'ag-ui']).default('conch'),
});
const numberSchema = z.coerce.number().int().nonnegative().safe();

/** The most streams that are open at once. */
const STREAM_LIMIT = 64;

type StreamRequest = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: string;
};
type StreamParts = { readonly events: EventSource; readonly timers: Timers; readonly streams: Set<ServerResponse> };

/** Answers `GET /runs/events?agent=…` with a stream of server-sent events; `Last-Event-ID` says where to go on. */
export function streamEvents({ request, response, query }: StreamRequest, parts: StreamParts): Reply | null {
  const { events, timers, streams } = parts;
  const parsed = querySchema.safeParse(Object.fromEntries(new URLSearchParams(query)));
  if (!parsed.success)
    return { status: 400, body: 'Expected ?agent=<id>, and optionally &channel=<id> and &format=ag-ui.\n' };
  const last = request.headers['last-event-id'];
  const after = last === undefined ? null : numberSchema.safeParse(last);
  if (after?.success === false)
    return { status: 400, body: 'Last-Event-ID is not the number of an event: leave it out to begin anew.\n' };
  if (streams.size >= STREAM_LIMIT) return { status: 503, body: 'Too many streams are open: close one.\n' };
  const { agent, channel = null, format } = parsed.data;
  const lines: string[] = [];
  let write = (text: string): void => void lines.push(text);
  const opened = events({ agent, channel, format, after: after?.data ?? null }, ({ id, name, data }) => {
    write(`${id === null ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  });
  if (!opened.ok) return { status: opened.status, body: `${opened.text}\n` };
  streams.add(response);
  response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8', 'Cache-Control': 'no-store' });
  write = pacedWriter(response, timers);
  write(`retry: ${RETRY_MS}\n\n${lines.join('')}`);
  const again = (): Timer =>
    timers.after(COMMENT_MS, () => {
      write(': alive\n\n');
      alive = again();
    });
  let alive = again();
  response.once('close', () => {
    alive.cancel();
    streams.delete(response);
    opened.close();
  });
  return null;
}

/** Writes at the reader's pace: what the socket does not take at once waits here, in pieces. */
function pacedWriter(response: ServerResponse, timers: Timers): (text: string) => void {
  let waiting: Buffer[] = [];
  let waitingBytes = 0;
  let stall: Timer | null = null;
  const send = (): void => {
    stall = null;
    let sent = 0;
    for (const text of waiting) {
      sent += 1;
      waitingBytes -= text.length;
      if (response.write(text)) continue;
      stall = timers.after(STALL_MS, () => response.destroy());
      break;
    }
    waiting = waiting.slice(sent);
  };
  response.on('drain', () => {
    stall?.cancel();
    send();
  });
  response.once('close', () => {
    stall?.cancel();
    [waiting, waitingBytes] = [[], 0];
  });
  return (text) => {
    if (waitingBytes > MOST_WAITING) return void response.destroy();
    const bytes = Buffer.from(text);
    for (let from = 0; from < bytes.length; from += PIECE_BYTES) waiting.push(bytes.subarray(from, from + PIECE_BYTES));
    waitingBytes += bytes.length;
    if (stall === null) send();
  };
}
