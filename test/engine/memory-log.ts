import type { Changes, Group, Member, SharedLog, SharedRow, GroupVerdict } from '../../src/engine/shared/shared-log.ts';

type Kept = SharedRow & { readonly position: number };

/**
 * Faults that a test plants. `no-check`: accepts writes that it must refuse. `written-twice`: writes a repeated group
 * again. `two-leaders`: lets every worker lead. `late-burial`: lets a worker that was silent itself declare others
 * dead.
 */
export type LogBug = 'no-check' | 'written-twice' | 'two-leaders' | 'late-burial';

/** A shared log in memory: does what a database does for several processes. */
export class MemoryLog {
  readonly #rows = new Map<string, Kept>();
  readonly #last = new Map<string, { readonly number: number; readonly position: number }>();
  /** The last beat of each living worker. */
  readonly #living = new Map<string, number>();
  readonly #now: () => number;
  readonly #bug: LogBug | null;
  #leader: string | null = null;
  #position = 0;
  #joined = 0;

  constructor(bug: LogBug | null = null, now: () => number = () => 0) {
    this.#bug = bug;
    this.#now = now;
  }

  /** The log as one process sees it. Awaits `pause` before and after each request. */
  seenBy(pause: () => Promise<void> = async () => undefined): SharedLog {
    const ask = async <T>(answer: () => T): Promise<T> => {
      await pause();
      const given = answer();
      await pause();
      return given;
    };
    return {
      join: () => ask(() => this.#join()),
      commit: (group) => ask(() => this.#commit(group)),
      pull: (after) => ask(() => this.#pull(after)),
      bury: (worker) => ask(() => void this.#living.delete(worker)),
      beat: (worker) => ask(() => this.#living.has(worker) && this.#living.set(worker, this.#now()) !== undefined),
      burySilent: (worker, limits) => ask(() => this.#burySilent(worker, limits)),
      lead: (worker) => ask(() => this.#lead(worker)),
      living: () => ask(() => [...this.#living.keys()]),
      leave: (worker) => ask(() => void this.#living.delete(worker)),
      close: async () => undefined,
    };
  }

  /** The worker that leads, or that led last. */
  get leader(): string | null {
    return this.#leader;
  }

  #join(): Member {
    this.#joined += 1;
    const worker = `w${this.#joined}`;
    this.#living.set(worker, this.#now());
    return { worker, slot: this.#joined, logId: 'log' };
  }

  #commit({ worker, number, changes, checks }: Group): GroupVerdict {
    const last = this.#last.get(worker);
    if (last?.number === number && this.#bug !== 'written-twice') return { state: 'taken', position: last.position };
    if (!this.#living.has(worker)) return { state: 'buried' };
    if (last !== undefined && last.number > number) return { state: 'overtaken' };
    const positionOf = (table: string, id: string): number => this.#rows.get(`${table} ${id}`)?.position ?? 0;
    const isOvertaken = [...changes, ...checks].some(
      ({ table, id, known }) => known !== null && positionOf(table, id) !== known,
    );
    if (isOvertaken && this.#bug !== 'no-check') return { state: 'overtaken' };
    if (changes.length > 0) this.#position += 1;
    for (const { table, id, row } of changes)
      this.#rows.set(`${table} ${id}`, { table, id, row, position: this.#position });
    this.#last.set(worker, { number, position: this.#position });
    return { state: 'taken', position: this.#position };
  }

  #burySilent(sender: string, { deadMs, freshMs }: Parameters<SharedLog['burySilent']>[1]): void {
    const isFresh = (this.#living.get(sender) ?? -Infinity) >= this.#now() - freshMs;
    if (!isFresh && this.#bug !== 'late-burial') return;
    for (const [worker, beat] of this.#living) if (beat < this.#now() - deadMs) this.#living.delete(worker);
  }

  #lead(worker: string): boolean {
    const isFree = this.#leader === null || this.#leader === worker || !this.#living.has(this.#leader);
    if ((isFree || this.#bug === 'two-leaders') && this.#living.has(worker)) this.#leader = worker;
    return this.#leader === worker && this.#living.has(worker);
  }

  #pull(after: number): Changes {
    const rows = [...this.#rows.values()].filter(({ position }) => position > after);
    return { rows: rows.toSorted((a, b) => a.position - b.position), position: this.#position, isAll: true };
  }
}
