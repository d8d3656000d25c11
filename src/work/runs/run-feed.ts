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

/** What an agent is just writing; it stands in no journal. */
type RunToken = { readonly type: 'stream:token'; readonly text: string };

/** An event of a seat's runs as programs are sent it. `seq` grows by the seat's journal, with gaps; a token has that of the event before it. */
export type RunMessage = {
  readonly v: 1;
  readonly seq: number;
  readonly at: Instant;
  readonly run: string;
  readonly agent: AgentId;
  readonly channel: ChannelId;
} & (RunEvent | RunToken);

/** A message, and the runs of its seat right after it. */
export type FeedItem = { readonly message: RunMessage; readonly state: RunState };

/** Who reads along: `durable` comes again when asked for by its number, a token never. */
type FeedReader = { durable(item: FeedItem): void; token(message: RunMessage): void };

/**
 * An open reading: the current run from its beginning as far as the reader had it, what came since, and the state now. `gone`: the
 * journal does not reach back so far; `unknown`: there was never such a number.
 */
export type Opening =
  | {
      readonly ok: true;
      readonly before: readonly FeedItem[];
      readonly missed: readonly FeedItem[];
      readonly state: RunState;
      /** No message has a higher number by now. */
      readonly last: number;
      readonly close: () => void;
    }
  | { readonly ok: false; readonly why: 'gone' | 'unknown' };

/** What feeds are made of. */
type FeedPorts = { readonly runs: Pick<RunStore, 'newest' | 'state' | 'onChange'>; now(): Instant };

/** At most so many messages come of one fact. */
const PER_FACT = 4;

type Entry = Pick<StoredFact<RunFact>, 'seq' | 'at' | 'fact'>;
type Fold = { state: RunState; seq: number };
type Reading = { readonly fold: Fold; readonly seat: RunSeat; readonly reader: FeedReader };

/** The events of runs for whoever reads along: told from the journal, so that a reader goes on where it left off, also after a restart. */
export class RunFeeds {
  readonly #ports: FeedPorts;
  readonly #readings = new Map<string, Set<Reading>>();
  /** What was drafted last, of the seats that are read. */
  readonly #drafts = new Map<string, string>();

  constructor(ports: FeedPorts) {
    this.#ports = ports;
    ports.runs.onChange(({ key }) => {
      for (const reading of this.#readings.get(key) ?? [])
        for (const item of this.#more(reading)) reading.reader.durable(item);
    });
  }

  /** Begins to read after the message with this number, or with what comes from now on. */
  open(seat: RunSeat, after: number | null, reader: FeedReader): Opening {
    const key = runKeyOf(seat);
    const { entries, last } = this.#entries(key, after);
    const first = entries[0]?.seq ?? last + 1;
    if (after !== null && (after < 0 || after >= (last + 1) * PER_FACT)) return { ok: false, why: 'unknown' };
    if (after !== null && first > 1 && after < first * PER_FACT) return { ok: false, why: 'gone' };
    const state = this.#ports.runs.state(key) ?? emptyRuns(key);
    const fold = entries.length === 0 ? { state, seq: last } : { state: emptyRuns(key), seq: first - 1 };
    const items = entries.flatMap((entry) => itemsOf(fold, seat, entry));
    const known = after ?? Infinity;
    const reading = { fold, seat, reader };
    const readings = this.#readings.get(key) ?? new Set();
    this.#readings.set(key, readings.add(reading));
    return {
      ok: true,
      before: items.filter(({ message }) => message.seq <= known),
      missed: items.filter(({ message }) => message.seq > known),
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

  /** An agent has written so far; `null`: what it wrote was said, or dropped. */
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

  /** From the beginning of the run in which the reader is, as far back as the journal reaches, and the number of the last fact. */
  #entries(key: string, after: number | null): { readonly entries: readonly Entry[]; readonly last: number } {
    const entries: Entry[] = [];
    for (const entry of this.#ports.runs.newest(key)) {
      entries.unshift(entry);
      const isKnown = after === null || entry.seq * PER_FACT <= after;
      if (isKnown && entry.fact.type === 'runStarted') break;
    }
    const begin = entries.findIndex(({ fact }) => fact.type === 'runStarted');
    return { entries: begin === -1 ? [] : entries.slice(begin), last: entries.at(-1)?.seq ?? 0 };
  }
}

/** Folds one fact; each message of it is told with the state right after it, however facts were written together. */
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
