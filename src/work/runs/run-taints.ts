import type { Clock } from '../../lib/time.ts';
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

/** Dependencies of `RunTaints`. */
export type TaintPorts = {
  readonly runs: Pick<RunStore, 'apply' | 'state' | 'onChange'>;
  readonly clock: Clock;
  /** Returns whether a person's or program's text is trusted. */
  readonly vouched: (seat: RunSeat, author: Requester) => boolean;
  /** The newest lines of a channel, oldest first. Older lines are left out. */
  readonly said: (channel: ChannelId) => readonly Pick<Line, 'line' | 'at' | 'author'>[];
  readonly failed: (error: unknown) => void;
};

/** Labels of what a session has read: untrusted text, and private text; `null` for none. */
export type SessionLabels = Readonly<Record<Label, ReadMark | null>>;

type ReadMark = NonNullable<RunState['taint']>;

type Label = (typeof LABELS)[number];

/**
 * Labels of what seats' sessions have read. Marks are stored with the runs, so that they survive a restart. Text that a
 * session writes has the session's labels: each session that reads the text inherits them, also a later session of the
 * same agent.
 */
export class RunTaints {
  readonly #ports: TaintPorts;
  readonly #marks = new Map<string, SeatMarks>();
  /**
   * By the key of a seat's runs: the number of the last line that the seat's session has not read. Later lines count as
   * read. Absent: all lines count as read. Not stored, so it is empty after a restart of Conch.
   */
  readonly #readsAfter = new Map<string, number>();

  constructor(ports: TaintPorts) {
    this.#ports = ports;
    ports.runs.onChange(({ key, state, facts }) => {
      if (facts.some(({ type }) => type === 'tainted' || type === 'cleansed')) this.#marks.set(key, marksOf(state));
    });
  }

  of(seat: RunSeat): SessionLabels {
    const { taint = this.#untrustedWords(seat), secret = null } = this.#of(runKeyOf(seat));
    return { untrusted: taint, private: secret };
  }

  clearCache(): void {
    this.#marks.clear();
  }

  /**
   * Clears the labels of what a session read, because the session ended. Labels of text that the session wrote stay.
   * `after`: the next session reads lines after the line with this number.
   */
  forget(seat: RunSeat, after: number): void {
    const key = runKeyOf(seat);
    const { wrote = [], ...read } = this.#of(key);
    this.#readsAfter.set(key, after);
    const ended = spansOf(read).map((span) => ({ ...span, until: this.#ports.clock.now() }));
    if (ended.length > 0) this.#apply(key, { type: 'CLEANSE' }, { wrote: [...wrote, ...ended] });
  }

  /** Marks a session as having read text from this source. Only the first mark of each label counts. */
  mark(seat: RunSeat, from: string, label: Label = 'untrusted'): void {
    const key = runKeyOf(seat);
    const marks = this.#of(key);
    const isPrivate = label === 'private';
    if ((isPrivate ? marks.secret : marks.taint) !== undefined) return;
    const mark = { since: this.#ports.clock.now(), from };
    this.#apply(key, { type: 'TAINT', from, label }, { ...marks, [isPrivate ? 'secret' : 'taint']: mark });
  }

  /**
   * Called before a session reads these lines. Gives the session the labels under which agents wrote their lines. If a
   * line counted as unread until now, that line and all later lines count as read.
   */
  read(seat: RunSeat, lines: readonly Pick<Line, 'line' | 'author' | 'at' | 'aside'>[]): void {
    const [key, { channel }] = [runKeyOf(seat), seat];
    for (const { line, author, at, aside } of lines) {
      if (line > 0 && line <= (this.#readsAfter.get(key) ?? 0)) this.#readsAfter.set(key, line - 1);
      if (author.kind !== 'agent') continue;
      const { wrote = [], ...now } = this.#of(
        runKeyOf({ channel, agent: author.id, ...defined({ isBackground: aside }) }),
      );
      const spans: readonly Span[] = [...wrote, ...spansOf(now).map((span) => ({ ...span, until: Infinity }))];
      for (const label of LABELS) {
        // The report of a background run is posted when its session may be over.
        const written = spans.find(
          (span) => labelOf(span) === label && span.since <= at && (at <= span.until || aside === true),
        );
        if (written !== undefined) this.mark(seat, `${sourceOf(written.from)}, by way of ${author.id}`, label);
      }
    }
  }

  #untrustedWords(seat: RunSeat): ReadMark | null {
    const { vouched, said } = this.#ports;
    const after = this.#readsAfter.get(runKeyOf(seat)) ?? 0;
    const vouchedById = new Map<string, boolean>();
    for (const { line, at, author } of said(seat.channel)) {
      if (author.kind !== 'person' || line <= after) continue;
      const isVouched = vouchedById.get(author.id) ?? vouched(seat, author);
      vouchedById.set(author.id, isVouched);
      if (!isVouched) return { since: at, from: `${IN_WORDS.wrote(author.name)}, who is not an operator` };
    }
    return null;
  }

  #of(key: string): SeatMarks {
    const stored = this.#marks.get(key);
    if (stored !== undefined) return stored;
    const marks = marksOf(this.#ports.runs.state(key));
    this.#marks.set(key, marks);
    return marks;
  }

  /** Applies labels at once, and stores them soon after. */
  #apply(key: string, command: Parameters<RunStore['apply']>[1], after: SeatMarks): void {
    const { runs, clock, failed } = this.#ports;
    this.#marks.set(key, after);
    runs.apply(key, command, clock.now()).catch(failed);
  }
}

type SeatMarks = Pick<RunState, 'taint' | 'secret' | 'wrote'>;
type Span = NonNullable<RunState['wrote']>[number];

function marksOf(state: RunState | null): SeatMarks {
  const { taint, secret, wrote } = state ?? {};
  return defined({ taint, secret, wrote });
}

function spansOf({ taint, secret }: SeatMarks): readonly Omit<Span, 'until'>[] {
  return [...(taint ? [taint] : []), ...(secret ? [{ ...secret, private: true as const }] : [])];
}

function labelOf(span: Pick<Span, 'private'>): Label {
  return span.private === true ? 'private' : 'untrusted';
}

function sourceOf(from: string): string {
  return from.split(', by way of ')[0] ?? from;
}
