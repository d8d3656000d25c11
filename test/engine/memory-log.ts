import type { Changes, Group, Member, SharedLog, SharedRow } from '../../src/engine/shared/shared-log.ts';

type Kept = SharedRow & { readonly position: number };

/**
 * Faults that a test plants. `no-fence`: writes groups of a worker that does not lead any more. `written-twice`: writes
 * a repeated group again. `two-leaders`: lets every worker lead. `late-burial`: lets a worker that was silent itself
 * declare others dead. `early-forgetting`: removes deleted rows before every copy has their deletion.
 */
export type LogBug = 'no-fence' | 'written-twice' | 'two-leaders' | 'late-burial' | 'early-forgetting';

/** A shared log in memory: does what a database does for several processes. */
export class MemoryLog {
  readonly #rows = new Map<string, Kept>();
  /** The last beat of each living worker. */
  readonly #living = new Map<string, number>();
  readonly #now: () => number;
  readonly #bug: LogBug | null;
  /** The position that the copy of each worker has reached. */
  readonly #reached = new Map<string, number>();
  #leader: string | null = null;
  /** The number of the leader's last group. */
  #number = 0;
  #position = 0;
  #joined = 0;

  constructor(bug: LogBug | null = null, now: () => number = () => 0) {
    this.#bug = bug;
    this.#now = now;
  }

  /** The log as one process sees it. Awaits `pause` before each request, and `answered` after it. */
  seenBy(pause: () => Promise<void> = async () => undefined, answered: () => Promise<void> = pause): SharedLog {
    const ask = async <T>(answer: () => T): Promise<T> => {
      await pause();
      const given = answer();
      await answered();
      return given;
    };
    return {
      join: () => ask(() => this.#join()),
      commit: (group) => ask(() => this.#commit(group)),
      pull: (after, reader) => ask(() => this.#pull(after, reader)),
      forgetDeleted: (worker) => ask(() => this.#forgetDeleted(worker)),
      beat: (worker) => ask(() => this.#living.has(worker) && this.#living.set(worker, this.#now()) !== undefined),
      burySilent: (worker, limits) => ask(() => this.#burySilent(worker, limits)),
      lead: (worker) => ask(() => this.#lead(worker)),
      leave: (worker) => ask(() => void this.#living.delete(worker)),
      close: async () => undefined,
    };
  }

  /** The worker that leads, or that led last. */
  get leader(): string | null {
    return this.#leader;
  }

  /** True when the log has a row of this table that contains `text`. */
  holds(table: string, text: string): boolean {
    return [...this.#rows.values()].some((kept) => kept.table === table && kept.row?.includes(text) === true);
  }

  get living(): readonly string[] {
    return [...this.#living.keys()];
  }

  #join(): Member {
    this.#joined += 1;
    const worker = `w${this.#joined}`;
    this.#living.set(worker, this.#now());
    return { worker, logId: 'log' };
  }

  #commit({ worker, number, rows }: Group): boolean {
    const leads = this.#leader === worker && this.#living.has(worker);
    if (!leads && this.#bug !== 'no-fence') return false;
    if (leads && this.#number >= number && this.#bug !== 'written-twice') return this.#number === number;
    this.#position += 1;
    for (const row of rows) this.#rows.set(`${row.table} ${row.id}`, { ...row, position: this.#position });
    if (leads) this.#number = number;
    return true;
  }

  #burySilent(sender: string, { deadMs, freshMs }: Parameters<SharedLog['burySilent']>[1]): void {
    const isFresh = (this.#living.get(sender) ?? -Infinity) >= this.#now() - freshMs;
    if (!isFresh && this.#bug !== 'late-burial') return;
    for (const [worker, beat] of this.#living) if (beat < this.#now() - deadMs) this.#living.delete(worker);
  }

  #lead(worker: string): boolean {
    const isFree = this.#leader === null || this.#leader === worker || !this.#living.has(this.#leader);
    if ((isFree || this.#bug === 'two-leaders') && this.#living.has(worker) && this.#leader !== worker)
      [this.#leader, this.#number] = [worker, 0];
    return this.#leader === worker && this.#living.has(worker);
  }

  #forgetDeleted(worker: string): void {
    if (this.#leader !== worker) return;
    const others = this.living.filter((each) => each !== worker).map((each) => this.#reached.get(each) ?? 0);
    const position = this.#bug === 'early-forgetting' ? this.#position : Math.min(this.#position, ...others);
    for (const [key, kept] of this.#rows) if (kept.row === null && kept.position <= position) this.#rows.delete(key);
  }

  #pull(after: number, reader?: string): Changes {
    if (reader !== undefined) this.#reached.set(reader, after);
    const rows = [...this.#rows.values()].filter(({ position }) => position > after);
    return { rows: rows.toSorted((a, b) => a.position - b.position), position: this.#position, isAll: true };
  }
}
