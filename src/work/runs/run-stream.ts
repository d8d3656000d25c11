import { AgUiStream } from './ag-ui.ts';
import type { AgUiEvent } from './ag-ui.ts';
import type { RunSeat } from './floor-binding.ts';
import type { FeedItem, RunFeeds, RunMessage } from './run-feed.ts';
import { standingOf } from './run-published.ts';
import type { EventSink } from '../../lib/guarded-server.ts';

type StreamOpening =
  | { readonly ok: true; close(): void }
  | { readonly ok: false; readonly status: 400 | 410; readonly text: string };

type StreamStart = { readonly after: number | null; readonly format: 'conch' | 'ag-ui'; readonly at: number };

/**
 * Sends a program the events of these seats' runs, for example of an agent's turns and its background run: the missed
 * events, the present states, then new events. The `seq` of an event is one number for the journals of all seats; a
 * program can continue after it. In AG-UI, runs must not overlap, so overlapping seats need their own streams.
 */
export function streamRuns(
  feeds: RunFeeds,
  seats: readonly [RunSeat] | readonly [RunSeat, RunSeat],
  { after, format, at }: StreamStart,
  sink: EventSink,
): StreamOpening {
  const places = placesIn(after, seats.length);
  const readings = seats.map((seat, index) => {
    const teller = format === 'ag-ui' ? new AgUiStream() : null;
    const numbered = <Message extends RunMessage>(message: Message): Message => ({ ...message, seq: numberOf(places) });
    const send = (events: readonly AgUiEvent[], id: number | null): void =>
      events.forEach((data, place) => sink({ id: place === events.length - 1 ? id : null, name: data.type, data }));
    const tell = ({ message, state }: FeedItem): void => {
      places[index] = message.seq;
      const sent = numbered(message);
      send(teller?.tell({ message: sent, state }) ?? [sent], sent.seq);
    };
    const opening = feeds.open(seat, after === null ? null : (places[index] ?? 0), {
      durable: tell,
      token: (message) => send(teller?.token(numbered(message)) ?? [numbered(message)], null),
    });
    return { seat, opening, teller, tell, send };
  });
  const open = readings.flatMap(({ opening, ...reading }) => (opening.ok ? [{ ...reading, opening }] : []));
  const close = (): void => open.forEach(({ opening }) => opening.close());
  const refused = readings.flatMap(({ opening }) => (opening.ok ? [] : [opening.why]))[0];
  if (refused !== undefined) {
    close();
    return { ok: false, ...REFUSALS[refused] };
  }
  open.forEach(({ opening, teller }, index) => {
    if (after === null) places[index] = opening.last;
    for (const item of opening.before) teller?.tell(item);
  });
  const missed = open.flatMap(({ opening, tell }) => opening.missed.map((item) => ({ item, tell })));
  for (const { item, tell } of missed.toSorted((one, other) => one.item.message.at - other.item.message.at)) tell(item);
  for (const { seat, opening, teller, send } of open) {
    const { state } = opening;
    if (seat !== seats[0] && state.run === null) continue;
    const place = { v: 1, at, run: state.run?.id ?? '', agent: seat.agent, channel: seat.channel } as const;
    const now = { ...place, ...standingOf(state) };
    send(teller?.snapshot(now, after === null) ?? [now], null);
  }
  return { ok: true, close };
}

/**
 * The base in which `numberOf` joins the `seq` of two journals into one number. The `seq` of the first seat's journal
 * must be below it.
 */
const RADIX = 2 ** 26;

function numberOf(places: readonly number[]): number {
  return places.reduceRight((number, place) => number * RADIX + place, 0);
}

function placesIn(number: number | null, count: number): number[] {
  if (count === 1) return [number ?? 0];
  return [(number ?? 0) % RADIX, Math.floor((number ?? 0) / RADIX)];
}

const REFUSALS = {
  gone: { status: 410, text: 'Events after this one were deleted. Start again without Last-Event-ID.' },
  unknown: {
    status: 400,
    text: 'Last-Event-ID is no event of this agent. Start again without Last-Event-ID.',
  },
} as const;
