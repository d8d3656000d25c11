import { AgUiStream } from './ag-ui.ts';
import type { AgUiEvent } from './ag-ui.ts';
import type { RunSeat } from './floor-binding.ts';
import type { FeedItem, RunFeeds } from './run-feed.ts';
import { standingOf } from './run-published.ts';
import type { EventSink } from '../../lib/guarded-server.ts';

/** What came of an attempt to read along. */
export type StreamOpening =
  | { readonly ok: true; close(): void }
  | { readonly ok: false; readonly status: 400 | 410; readonly text: string };

/** Where a program begins, and in whose words it is told. */
export type StreamStart = { readonly after: number | null; readonly format: 'conch' | 'ag-ui'; readonly at: number };

/** Sends a program the events of a seat's runs: what it missed, then the state as it is, then what happens. */
export function streamRuns(feeds: RunFeeds, seat: RunSeat, start: StreamStart, sink: EventSink): StreamOpening {
  const { after, format, at } = start;
  const teller = format === 'ag-ui' ? new AgUiStream() : null;
  const send = (events: readonly AgUiEvent[], id: number | null): void =>
    events.forEach((data, index) => sink({ id: index === events.length - 1 ? id : null, name: data.type, data }));
  const tell = (item: FeedItem): void => {
    const { message } = item;
    send(teller?.tell(item) ?? [message], message.seq);
  };
  const opening = feeds.open(seat, after, {
    durable: tell,
    token: (message) => send(teller?.token(message) ?? [message], null),
  });
  if (!opening.ok) return { ok: false, ...REFUSALS[opening.why] };
  for (const item of opening.before) teller?.tell(item);
  for (const item of opening.missed) tell(item);
  const place = { v: 1, at, run: opening.state.run?.id ?? '', agent: seat.agent, channel: seat.channel } as const;
  const now = { ...place, ...standingOf(opening.state) };
  send(teller?.snapshot(now, after === null) ?? [now], null);
  return { ok: true, close: opening.close };
}

const REFUSALS = {
  gone: { status: 410, text: 'What came after this event is no longer kept: begin anew, without Last-Event-ID.' },
  unknown: {
    status: 400,
    text: 'Last-Event-ID is of another agent, or there was never such an event: begin anew, without it.',
  },
} as const;
