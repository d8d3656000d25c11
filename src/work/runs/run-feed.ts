import type { StoredFact } from '../../engine/port.ts';
import type { Instant } from '../../lib/time.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import { runKeyOf } from './floor-binding.ts';
import type { RunSeat } from './floor-binding.ts';
import type { RunStore } from './run-machine.ts';
import type { RunFact } from './run-events.ts';
import { evolveRun } from './run-evolve.ts';
import { publishedOf } from './run-published.ts';
import type { RunEvent } from './run-published.ts';
import { emptyRuns } from './run.ts';
import type { RunState } from './run.ts';

/** A piece of text while it is generated. It is not in the journal. */
type RunToken = { readonly type: 'stream:token'; readonly text: string };

/**
 * An event of a seat's runs as sent to programs. `seq` grows with the seat's journal, with gaps. A token has the `seq`
 * of the newest fact's first message. `streamRuns` replaces `seq` by one number for the journals of all its seats.
 */
export type RunMessage = {
  readonly v: 1;
  readonly seq: number;
  readonly at: Instant;
  readonly run: string;
  readonly agent: AgentId;
  readonly channel: ChannelId;
} & (RunEvent | RunToken);

/** A message with the state right after it. */
export type FeedItem = { readonly message: RunMessage; readonly state: RunState };

/** A reader of a feed. `durable` messages can be read again by number; tokens cannot. */
type FeedReader = { durable(item: FeedItem): void; token(message: RunMessage): void };

/**
 * The start of a reading. `before`: messages since a run began that the reader has or does not need. `missed`: messages
 * after the reader's number. `gone`: the journal was pruned that far. `unknown`: the number is outside the journal.
 */
export type Opening =
  | {
      readonly ok: true;
      readonly before: readonly FeedItem[];
      readonly missed: readonly FeedItem[];
      readonly state: RunState;
      /** The upper limit of message numbers: all messages from present facts have at most this number. */
      readonly last: number;
      readonly close: () => void;
    }
  | { readonly ok: false; readonly why: 'gone' | 'unknown' };

type FeedPorts = { readonly runs: Pick<RunStore, 'newest' | 'state' | 'onChange'>; now(): Instant };

/** Number of messages that each fact can have: a message's number is the fact's, times this, plus its index. */
const PER_FACT = 4;

type Entry = Pick<StoredFact<RunFact>, 'seq' | 'at' | 'fact'>;
type Fold = { state: RunState; seq: number };
type Reading = { readonly fold: Fold; readonly seat: RunSeat; readonly reader: FeedReader };

/** Events of runs for readers, read from the journal. A reader continues where it stopped, also after a restart. */
export class RunFeeds {
  readonly #ports: FeedPorts;
  readonly #readings = new Map<string, Set<Reading>>();
  readonly #drafts = new Map<string, string>();

  constructor(ports: FeedPorts) {
    this.#ports = ports;
    ports.runs.onChange(({ key }) => {
      for (const reading of this.#readings.get(key) ?? [])
        for (const item of this.#more(reading)) reading.reader.durable(item);
    });
  }

  /** Starts a reading after the message with this number; `null`: with the messages from now on. */
  open(seat: RunSeat, after: number | null, reader: FeedReader): Opening {
    const key = runKeyOf(seat);
    const { entries, last } = this.#entries(key, after);
    const first = entries[0]?.seq ?? last + 1;
    if (after !== null && (after < 0 || after >= (last + 1) * PER_FACT)) return { ok: false, why: 'unknown' };
    if (after !== null && first > 1 && after < first * PER_FACT) return { ok: false, why: 'gone' };
    const state = this.#ports.runs.state(key) ?? emptyRuns(key);
    const fold = entries.length === 0 ? { state, seq: last } : { state: emptyRuns(key), seq: first - 1 };
    const items = entries.flatMap((entry) => itemsOf(fold, seat, entry));
    const lastReceived = after ?? Infinity;
    const reading = { fold, seat, reader };
    const readings = this.#readings.get(key) ?? new Set();
    this.#readings.set(key, readings.add(reading));
    return {
      ok: true,
      before: items.filter(({ message }) => message.seq <= lastReceived),
      missed: items.filter(({ message }) => message.seq > lastReceived),
      state,
      last: (last + 1) * PER_FACT - 1,
      close: () => {
        readings.delete(reading);
        if (readings.size > 0) return;
        this.#readings.delete(key);
        this.#drafts.delete(key);
      },
    };
  }

  /**
   * Sends readers the text that an agent's draft adds to the last draft; or the whole draft, when it does not begin
   * with the last one. `null`: the draft was posted or dropped.
   */
  drafted(seat: RunSeat, draft: string | null): void {
    const key = runKeyOf(seat);
    const readings = this.#readings.get(key);
    if (readings === undefined) return;
    const before = this.#drafts.get(key) ?? '';
    this.#drafts.set(key, draft ?? '');
    const text = draft === null ? '' : draft.startsWith(before) ? draft.slice(before.length) : draft;
    if (text === '') return;
    for (const { fold, reader } of readings) {
      const token = { type: 'stream:token', text } as const;
      reader.token({ ...envelope(seat, fold), seq: fold.seq * PER_FACT, at: this.#ports.now(), ...token });
    }
  }

  #more({ fold, seat }: Reading): readonly FeedItem[] {
    const fresh: Entry[] = [];
    for (const entry of this.#ports.runs.newest(runKeyOf(seat))) {
      if (entry.seq <= fold.seq) break;
      fresh.unshift(entry);
    }
    return fresh.flatMap((entry) => itemsOf(fold, seat, entry));
  }

  #entries(key: string, after: number | null): { readonly entries: readonly Entry[]; readonly last: number } {
    const entries: Entry[] = [];
    for (const entry of this.#ports.runs.newest(key)) {
      entries.unshift(entry);
      const isReceived = after === null || entry.seq * PER_FACT <= after;
      if (isReceived && entry.fact.type === 'runStarted') break;
    }
    const begin = entries.findIndex(({ fact }) => fact.type === 'runStarted');
    return { entries: begin === -1 ? [] : entries.slice(begin), last: entries.at(-1)?.seq ?? 0 };
  }
}

/** Returns the messages of one fact, each with the state right after the fact, also within a larger commit. */
function itemsOf(fold: Fold, seat: RunSeat, { seq, at, fact }: Entry): readonly FeedItem[] {
  fold.state = evolveRun(fold.state, fact, at);
  fold.seq = seq;
  const { state } = fold;
  const place = envelope(seat, fold);
  return publishedOf(fact, state).map((event, index) => ({
    message: { ...place, seq: seq * PER_FACT + index, at, ...event },
    state,
  }));
}

function envelope(seat: RunSeat, { state }: Fold): Pick<RunMessage, 'v' | 'run' | 'agent' | 'channel'> {
  return { v: 1, run: state.run?.id ?? '', agent: seat.agent, channel: seat.channel };
}
