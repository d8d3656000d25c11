import { readFileSync } from 'node:fs';

/** The figures of one measurement in one process. */
export type Measured = {
  /** Operations per second of the measured time. */
  readonly perSecond: number;
  /** CPU time of the whole process per operation, in microseconds. */
  readonly cpuMicros: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Bytes that the process passed to the operating system to write, per operation. */
  readonly bytes: number;
};

/** The time of the warm-up, and the time that counts, in milliseconds. */
export type Span = { readonly warmUpMs: number; readonly measuredMs: number };

/** Counts operations after the warm-up, and the time of each. */
export class Meter {
  readonly #span: Span;
  readonly #begun = performance.now();
  readonly #tookMs: number[] = [];
  #from: { readonly at: number; readonly cpu: NodeJS.CpuUsage; readonly written: number } | null = null;
  #done = 0;
  #result: Measured | null = null;

  constructor(span: Span) {
    this.#span = span;
  }

  /** Counts one operation. `begunAt`: its start by `performance.now()`. Returns `false` once the time is over. */
  did(begunAt: number): boolean {
    if (this.#result !== null) return false;
    const now = performance.now();
    if (this.#from === null) {
      if (now - this.#begun >= this.#span.warmUpMs)
        this.#from = { at: now, cpu: process.cpuUsage(), written: bytesWritten() };
      return true;
    }
    this.#done += 1;
    this.#tookMs.push(now - begunAt);
    if (now - this.#from.at < this.#span.measuredMs) return true;
    this.#result = this.#found(now, this.#from);
    return false;
  }

  get isOver(): boolean {
    return this.#result !== null;
  }

  /** The figures. Throws before the time is over. */
  get result(): Measured {
    if (this.#result === null) throw new Error('impossible: the measurement is not over');
    return this.#result;
  }

  #found(
    now: number,
    from: { readonly at: number; readonly cpu: NodeJS.CpuUsage; readonly written: number },
  ): Measured {
    const { user, system } = process.cpuUsage(from.cpu);
    const sorted = Float64Array.from(this.#tookMs).sort();
    const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
    return {
      perSecond: (this.#done * 1_000) / (now - from.at),
      cpuMicros: (user + system) / this.#done,
      p50Ms: at(0.5),
      p99Ms: at(0.99),
      bytes: (bytesWritten() - from.written) / this.#done,
    };
  }
}

/** Bytes that this process passed to the operating system to write. 0 where the system does not tell. */
export function bytesWritten(): number {
  try {
    return Number(/^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** Runs one operation after the other in each lane, all lanes at once, until the time is over. */
export async function inLanes(lanes: number, span: Span, once: (lane: number) => Promise<void>): Promise<Measured> {
  const meter = new Meter(span);
  const lane = async (index: number): Promise<void> => {
    for (let goesOn = true; goesOn;) {
      const begunAt = performance.now();
      await once(index);
      goesOn = meter.did(begunAt);
    }
  };
  await Promise.all(Array.from({ length: lanes }, (_, index) => lane(index)));
  return meter.result;
}
