import type { Clock, Instant } from '../../lib/time.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { IN_WORDS } from '../../turns/requesters.ts';
import type { Requester } from '../../turns/requesters.ts';
import type { Line } from '../../turns/view.ts';
import { runKeyOf } from './floor-binding.ts';
import type { RunSeat } from './floor-binding.ts';
import type { RunStore } from './run-machine.ts';
import { LABELS } from './run.ts';
import type { RunState } from './run.ts';
import { defined } from '../../lib/defined.ts';

/** What of the runs is needed to know what sessions have read. */
export type TaintPorts = {
  readonly runs: Pick<RunStore, 'apply' | 'state' | 'keys' | 'onChange'>;
  readonly clock: Clock;
  /** Whether an operator vouches for what a person writes, for this seat, as things are now. */
  readonly vouched: (seat: RunSeat, author: Requester) => boolean;
  /** What was said in a channel, oldest first, as far back as is looked. */
  readonly said: (channel: ChannelId) => readonly Pick<Line, 'at' | 'author'>[];
  readonly failed: (error: unknown) => void;
};

/** What a session has read: text that nobody vouches for, and what should not leave; `null`: none of it. */
export type SessionLabels = Readonly<Record<Label, ReadMark | null>>;

/** Since when, and where it came from. */
type ReadMark = NonNullable<RunState['taint']>;

type Label = (typeof LABELS)[number];

/**
 * What seats' sessions have read, as the journals of their runs have it: also after a restart. What a session writes is such text,
 * too: whoever reads it, also the same agent in a later session, inherits that. People's messages are looked at when
 * it uses a tool: all that it may have read since it began, or, of one that a former program began, that are kept.
 */
export class RunTaints {
  readonly #ports: TaintPorts;
  /** What was looked up before, by the keys of runs. */
  readonly #known = new Map<string, Kept>();
  /** The seats of which something was on record when it was first asked for: of others nothing is looked up. */
  #recorded: ReadonlySet<string> | null = null;
  /** Since when sessions that this program has begun anew are there, by the keys of runs. */
  readonly #began = new Map<string, Instant>();

  constructor(ports: TaintPorts) {
    this.#ports = ports;
    ports.runs.onChange(({ key, state, facts }) => {
      if (facts.some(({ type }) => type === 'tainted' || type === 'cleansed')) this.#known.set(key, keptOf(state));
    });
  }

  /** What a seat's session has read. */
  of(seat: RunSeat): SessionLabels {
    const { taint = this.#heard(seat), secret = null } = this.#of(runKeyOf(seat));
    return { untrusted: taint, private: secret };
  }

  /** What is on record has other words now. */
  reread(): void {
    this.#known.clear();
  }

  /** A seat's session is over, and what it has read is forgotten; what it wrote stays what it is. */
  forget(seat: RunSeat): void {
    const key = runKeyOf(seat);
    const { taint, secret, wrote = [] } = this.#of(key);
    this.#began.set(key, this.#ports.clock.now());
    if (taint === undefined && secret === undefined) return;
    const until = this.#ports.clock.now();
    const ended = spansOf({ taint, secret }).map((span) => ({ ...span, until }));
    this.#apply(key, { type: 'CLEANSE' }, { wrote: [...wrote, ...ended] });
  }

  /** A seat's session has read such text from there; the first time counts. */
  mark(seat: RunSeat, from: string, label: Label = 'untrusted'): void {
    const key = runKeyOf(seat);
    const known = this.#of(key);
    const isPrivate = label === 'private';
    if ((isPrivate ? known.secret : known.taint) !== undefined) return;
    const mark = { since: this.#ports.clock.now(), from };
    this.#apply(key, { type: 'TAINT', from, label }, { ...known, [isPrivate ? 'secret' : 'taint']: mark });
  }

  /** A seat's session is about to read these lines. */
  read(seat: RunSeat, lines: readonly Pick<Line, 'author' | 'at' | 'aside'>[]): void {
    for (const { author, at, aside } of lines) {
      if (author.kind !== 'agent') continue;
      const beside = defined({ aside });
      const { wrote = [], ...now } = this.#of(runKeyOf({ channel: seat.channel, agent: author.id, ...beside }));
      const spans: readonly Span[] = [...wrote, ...spansOf(now).map((span) => ({ ...span, until: Infinity }))];
      for (const label of LABELS) {
        // What was written beside the floor is said when its session may be over.
        const written = spans.find(
          (span) => labelOf(span) === label && span.since <= at && (at <= span.until || aside === true),
        );
        if (written !== undefined) this.mark(seat, `${sourceOf(written.from)}, by way of ${author.id}`, label);
      }
    }
  }

  /** The first message that it has read of somebody whom nobody vouches for. */
  #heard(seat: RunSeat): ReadMark | null {
    const { vouched, said } = this.#ports;
    const all = said(seat.channel);
    const began = this.#began.get(runKeyOf(seat)) ?? 0;
    const before = all.findLastIndex(({ at }) => at < began) + 1;
    const looked = new Map<string, boolean>();
    for (const { at, author } of all.slice(Math.max(0, before - LINES_BEFORE))) {
      if (author.kind !== 'person') continue;
      const isVouched = looked.get(author.id) ?? vouched(seat, author);
      looked.set(author.id, isVouched);
      if (!isVouched) return { since: at, from: `${IN_WORDS.wrote(author.name)}, who is not an operator` };
    }
    return null;
  }

  #of(key: string): Kept {
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const { runs } = this.#ports;
    this.#recorded ??= new Set(runs.keys());
    const kept = this.#recorded.has(key) ? keptOf(runs.state(key)) : {};
    this.#known.set(key, kept);
    return kept;
  }

  /** What holds at once is on record soon after. */
  #apply(key: string, command: Parameters<RunStore['apply']>[1], after: Kept): void {
    const { runs, clock, failed } = this.#ports;
    this.#known.set(key, after);
    runs.apply(key, command, clock.now()).catch(failed);
  }
}

/** So many older lines a session is given that begins in the middle of a conversation. */
const LINES_BEFORE = 50;

type Kept = Pick<RunState, 'taint' | 'secret' | 'wrote'>;
type Span = NonNullable<RunState['wrote']>[number];

function keptOf(state: RunState | null): Kept {
  const { taint, secret, wrote } = state ?? {};
  return {
    ...defined({ taint, secret, wrote }),
  };
}

function spansOf({
  taint,
  secret,
}: {
  readonly taint?: ReadMark | undefined;
  readonly secret?: ReadMark | undefined;
}): readonly Omit<Span, 'until'>[] {
  return [
    ...(taint === undefined ? [] : [taint]),
    ...(secret === undefined ? [] : [{ ...secret, private: true as const }]),
  ];
}

function labelOf(span: Pick<Span, 'private'>): Label {
  return span.private === true ? 'private' : 'untrusted';
}

function sourceOf(from: string): string {
  return from.split(', by way of ')[0] ?? from;
}
