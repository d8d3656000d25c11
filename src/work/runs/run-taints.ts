import type { Clock } from '../../lib/time.ts';
import type { Line } from '../../turns/view.ts';
import { runKeyOf } from './floor-binding.ts';
import type { RunSeat } from './floor-binding.ts';
import type { RunStore } from './run-commands.ts';
import type { RunState } from './run.ts';

/** What of the runs is needed to know what sessions have read. */
export type TaintPorts = {
  readonly runs: Pick<RunStore, 'apply' | 'state' | 'keys' | 'onChange'>;
  readonly clock: Clock;
  readonly failed: (error: unknown) => void;
};

/**
 * Which seats' sessions have read text that nobody vouches for, as the journals of their runs have it: also after a restart. What
 * such a session writes is such text, too: whoever reads it, also the same agent in a later session, inherits that.
 */
export class RunTaints {
  readonly #ports: TaintPorts;
  /** What was looked up before, by the keys of runs. */
  readonly #known = new Map<string, Kept>();
  /** The seats of which something was on record when it was first asked for: of others nothing is looked up. */
  #recorded: ReadonlySet<string> | null = null;

  constructor(ports: TaintPorts) {
    this.#ports = ports;
    ports.runs.onChange(({ key, state, facts }) => {
      if (facts.some(({ type }) => type === 'tainted' || type === 'cleansed')) this.#known.set(key, keptOf(state));
    });
  }

  /** Since when a seat's session is tainted, and by what; `null` when it is not. */
  of(seat: RunSeat): NonNullable<RunState['taint']> | null {
    return this.#of(runKeyOf(seat)).taint ?? null;
  }

  /** A seat's session is over, and what it has read is forgotten; what it wrote stays what it is. */
  forget(seat: RunSeat): void {
    const key = runKeyOf(seat);
    const { taint, wrote = [] } = this.#of(key);
    if (taint === undefined) return;
    const until = this.#ports.clock.now();
    this.#apply(key, { type: 'CLEANSE' }, { wrote: [...wrote, { ...taint, until }] });
  }

  /** A seat's session has read text from there; the first time counts. */
  mark(seat: RunSeat, from: string): void {
    const key = runKeyOf(seat);
    const known = this.#of(key);
    if (known.taint !== undefined) return;
    const taint = { since: this.#ports.clock.now(), from };
    this.#apply(key, { type: 'TAINT', from }, { ...known, taint });
  }

  /** A seat's session is about to read these lines. */
  read(seat: RunSeat, lines: readonly Pick<Line, 'author' | 'at' | 'aside'>[]): void {
    for (const { author, at, aside } of lines) {
      if (author.kind !== 'agent') continue;
      const beside = aside === undefined ? {} : { aside };
      const { taint, wrote = [] } = this.#of(runKeyOf({ channel: seat.channel, agent: author.id, ...beside }));
      const spans = taint === undefined ? wrote : [...wrote, { ...taint, until: Infinity }];
      // What was written beside the floor is said when its session may be over.
      const written = spans.find(({ since, until }) => since <= at && (at <= until || aside === true));
      if (written !== undefined) this.mark(seat, `${sourceOf(written.from)}, by way of ${author.id}`);
    }
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

type Kept = Pick<RunState, 'taint' | 'wrote'>;

function keptOf(state: RunState | null): Kept {
  const { taint, wrote } = state ?? {};
  return { ...(taint === undefined ? {} : { taint }), ...(wrote === undefined ? {} : { wrote }) };
}

function sourceOf(from: string): string {
  return from.split(', by way of ')[0] ?? from;
}
