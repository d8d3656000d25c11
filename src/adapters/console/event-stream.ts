import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Timer, Timers } from '../../lib/time.ts';
import type { EventSink, Reply } from '../../lib/guarded-server.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';

/** Which events a reader wants: of which agent, after which event, in which format. */
export type EventRequest = {
  /** `null`: the only channel in which the agent has a seat. */
  readonly channel: ChannelId | null;
  readonly agent: AgentId;
  /** Id of the last event that the reader received; `null` when the reader names none. */
  readonly after: number | null;
  readonly format: 'conch' | 'ag-ui';
};

/**
 * Opens a stream of run events: missed events and the present states go to the sink at once, new events as they happen,
 * until `close`.
 */
export type EventSource = (
  request: EventRequest,
  sink: EventSink,
) =>
  | { readonly ok: true; close(): void }
  | { readonly ok: false; readonly status: 400 | 404 | 410; readonly text: string };

/** Interval of keep-alive comments in an event stream, in milliseconds. */
const COMMENT_MS = 15_000;
/** How long a reader waits before it reconnects, in milliseconds; sent to the reader as `retry`. */
const RETRY_MS = 2_000;
/** A reader is disconnected when its socket does not send all buffered bytes within this time. */
const STALL_MS = 60_000;
const PIECE_BYTES = 16 * 1024;
/** A reader for whom more than this many bytes are unsent is disconnected at the next write. */
const MOST_WAITING = 64 * 1024 * 1024;

const querySchema = z.strictObject({
  agent: z.string().min(1).max(200),
  channel: z.string().min(1).max(200).nullish(),
  format: z.enum(['conch', 'ag-ui']).default('conch'),
});
const numberSchema = z.coerce.number().int().nonnegative().safe();

const STREAM_LIMIT = 64;

type StreamRequest = { readonly request: IncomingMessage; readonly response: ServerResponse; readonly query: string };
type StreamParts = { readonly events: EventSource; readonly timers: Timers; readonly streams: Set<ServerResponse> };

/**
 * Answers `GET /runs/events?agent=…` with a stream of server-sent events: the events after `Last-Event-ID` if it is
 * given, the present states, then new events. Returns a refusal, or `null` when the stream has begun.
 */
export function streamEvents({ request, response, query }: StreamRequest, parts: StreamParts): Reply | null {
  const { events, timers, streams } = parts;
  const parsed = querySchema.safeParse(Object.fromEntries(new URLSearchParams(query)));
  if (!parsed.success)
    return { status: 400, body: 'Expected ?agent=<id>, and optionally &channel=<id> and &format=ag-ui.\n' };
  const last = request.headers['last-event-id'];
  const after = last === undefined ? null : numberSchema.safeParse(last);
  if (after?.success === false)
    return {
      status: 400,
      body: 'Last-Event-ID is not the number of an event. Leave the header out to start with the present state.\n',
    };
  if (streams.size >= STREAM_LIMIT) return { status: 503, body: 'Too many streams are open: close one.\n' };
  const { agent, channel = null, format } = parsed.data;
  const lines: string[] = [];
  let write = (text: string): void => void lines.push(text);
  const stream = events({ agent, channel, format, after: after?.data ?? null }, ({ id, name, data }) => {
    write(`${id === null ? '' : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  });
  if (!stream.ok) return { status: stream.status, body: `${stream.text}\n` };
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
    stream.close();
  });
  return null;
}

function pacedWriter(response: ServerResponse, timers: Timers): (text: string) => void {
  const waiting: Buffer[] = [];
  let waitingBytes = 0;
  let stallTimer: Timer | null = null;
  const send = (): void => {
    stallTimer?.cancel();
    stallTimer = null;
    for (let piece = waiting.shift(); piece !== undefined; piece = waiting.shift()) {
      waitingBytes -= piece.length;
      if (response.write(piece)) continue;
      stallTimer = timers.after(STALL_MS, () => response.destroy());
      return;
    }
  };
  response.on('drain', send);
  response.once('close', () => {
    stallTimer?.cancel();
    waiting.length = 0;
  });
  return (text) => {
    if (waitingBytes > MOST_WAITING) return void response.destroy();
    const bytes = Buffer.from(text);
    for (let from = 0; from < bytes.length; from += PIECE_BYTES) waiting.push(bytes.subarray(from, from + PIECE_BYTES));
    waitingBytes += bytes.length;
    if (stallTimer === null) send();
  };
}
