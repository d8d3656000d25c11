/** Runs jobs of the same key one after the other, in order of arrival. Jobs of different keys run concurrently. */
export class KeyedQueue<Key> {
  readonly #lanes = new Map<Key, Lane>();

  /** Settles as the job does. A failed job does not stop the next ones. */
  run<T>(key: Key, job: () => Promise<T>): Promise<T> {
    const lane = this.#lanes.get(key) ?? { unfinished: 0, last: Promise.resolve() };
    this.#lanes.set(key, lane);
    lane.unfinished += 1;
    const done = lane.last.then(job);
    const ended = (): void => {
      lane.unfinished -= 1;
      if (lane.unfinished === 0) this.#lanes.delete(key);
    };
    lane.last = done.then(ended, ended);
    return done;
  }

  unfinished(key: Key): number {
    return this.#lanes.get(key)?.unfinished ?? 0;
  }

  /** Resolves when all jobs handed over so far have ended. */
  async settled(): Promise<void> {
    await Promise.all([...this.#lanes.values()].map(({ last }) => last));
  }
}

/** A map that keeps only the newest `limit` entries. Setting an entry makes it the newest. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #limit: number;

  constructor(limit: number) {
    super();
    this.#limit = limit;
  }

  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    while (this.size > this.#limit) {
      const [oldest] = this.keys();
      if (oldest === undefined) break;
      this.delete(oldest);
    }
    return this;
  }
}

type Lane = { unfinished: number; last: Promise<void> };

/** Limits concurrency: returns a function that runs at most `limit` jobs at once, in order of arrival. */
export function atMost(limit: number): <T>(work: () => Promise<T>) => Promise<T> {
  let free = limit;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => void waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) free += 1;
      else next();
    }
  };
}

/** Caches the result of `find` for each object, as long as the object is in use. */
export function foundOnce<Source extends object, Found>(find: (source: Source) => Found): (source: Source) => Found {
  const known = new WeakMap<Source, { readonly found: Found }>();
  return (source) => {
    let entry = known.get(source);
    if (entry === undefined) {
      entry = { found: find(source) };
      known.set(source, entry);
    }
    return entry.found;
  };
}

/** Returns a function that indexes a list by id. The index is cached for each list. */
export function idIndex<Thing extends { readonly id: string }>(): (
  list: readonly Thing[],
) => ReadonlyMap<string, Thing> {
  return foundOnce((list: readonly Thing[]) => new Map(list.map((thing) => [thing.id, thing])));
}

/** Returns a function that remembers the answer for the last key. Only for answers that depend on the key alone. */
export function rememberLast<Result>(ask: (key: string) => Promise<Result>): (key: string) => Promise<Result> {
  let last: { readonly key: string; readonly answer: Result } | null = null;
  return async (key) => {
    const known = last?.key === key ? last : { key, answer: await ask(key) };
    last = known;
    return known.answer;
  };
}
