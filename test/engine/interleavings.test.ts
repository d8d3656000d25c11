import { describe, expect, test } from 'vitest';
import { Random } from '../sim/random.ts';
import { MemoryLog } from './memory-log.ts';
import type { LogBug } from './memory-log.ts';
import { openShared } from './shared-store.ts';
import { AT, written } from './sqlite/fixture.ts';
import { board, boardUses, counter } from './toy.ts';

/** Requests that wait until the schedule continues one of them. It can also lose an answer. */
class Schedule {
  readonly random: Random;
  readonly #waiting: { readonly go: () => void; readonly lose: (error: Error) => void }[] = [];

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  readonly pause = (): Promise<void> =>
    new Promise((resolve, reject) => void this.#waiting.push({ go: resolve, lose: reject }));

  /** Continues requests in random order until the work is done. */
  async until(work: Promise<unknown>): Promise<void> {
    const state = { isDone: false };
    const done = work.finally(() => void (state.isDone = true));
    done.catch(() => undefined);
    while (!state.isDone) {
      await new Promise((resolve) => void setImmediate(resolve));
      const at = this.random.between(0, Math.max(0, this.#waiting.length - 1));
      const [next] = this.#waiting.splice(at, 1);
      if (this.random.chance(0.05)) next?.lose(new Error('the connection broke'));
      else next?.go();
    }
    await done;
  }
}

const KEYS = ['a', 'b', 'c'] as const;
const CHANNELS = ['test:one', 'test:two'] as const;

/** Lets two processes act at random on one log. Returns faults, one sentence each. */
async function wrongAfter(seed: number, bug: LogBug | null = null): Promise<readonly string[]> {
  const schedule = new Schedule(seed);
  const { random } = schedule;
  const log = new MemoryLog(bug);
  const open = async () => {
    const seen = log.seenBy(schedule.pause);
    const member = await log.seenBy().join();
    const store = await openShared({ ...seen, join: async () => member });
    return { store, counters: store.host(counter), boards: store.host(board, boardUses) };
  };
  const opening = Promise.all([open(), open()]);
  await schedule.until(opening);
  const all = await opening;
  const added = new Map<string, number>();
  let [noted, pinned] = [0, 0];
  const posted: string[] = [];
  const act = async (): Promise<void> => {
    const { store, counters, boards } = random.pick(all);
    const channel = random.pick(CHANNELS);
    switch (random.weighted({ add: 4, note: 3, pin: 2, post: 3, catchUp: 1 })) {
      case 'add': {
        const [key, also] = [random.pick(KEYS), random.pick(KEYS)];
        const by = random.between(1, 9);
        const { ok } = await counters.apply(key, { type: 'add', by, also: also === key ? [] : [also] }, AT);
        for (const each of ok ? new Set([key, also]) : []) added.set(each, (added.get(each) ?? 0) + by);
        return;
      }
      case 'note': {
        const id = `m${random.between(1, 5)}`;
        await store.accept(written(id, undefined, channel));
        const { ok } = await boards.apply(channel, { type: 'note', id }, AT);
        noted += Number(ok);
        return;
      }
      case 'pin':
        pinned += 1;
        await boards.apply(channel, { type: 'pin', text: `text ${pinned}` }, AT);
        return;
      case 'post':
        for (const row of (await store.owed(9, AT)).rows) {
          if (row.lane === 'posts') posted.push(row.id);
          await store.settle(row, { state: 'confirmed', platformId: row.id });
        }
        return;
      case 'catchUp':
        return store.catchUp();
    }
  };
  const acts = Array.from({ length: 4 }, async () => {
    for (let count = 0; count < 12; count += 1) await act();
  });
  await schedule.until(Promise.all(acts));
  await schedule.until(Promise.all(all.map(({ store }) => store.catchUp())));
  const [one, two] = all;
  const wrong: string[] = [];
  const expectSame = (what: string, found: unknown, wanted: unknown): void => {
    if (JSON.stringify(found) !== JSON.stringify(wanted))
      wrong.push(`${what}: ${JSON.stringify(found)} in place of ${JSON.stringify(wanted)}`);
  };
  for (const key of KEYS) {
    expectSame(`the value of ${key}`, one.counters.state(key)?.value ?? 0, added.get(key) ?? 0);
    expectSame(`the journal of ${key}`, one.counters.journal(key, 999), two.counters.journal(key, 999));
  }
  const boards = CHANNELS.map((channel) => one.boards.state(channel)?.count ?? 0);
  expectSame(
    'what is on the boards',
    boards.reduce((sum, count) => sum + count, 0),
    noted + pinned,
  );
  expectSame('posts that were handed out twice', posted.length - new Set(posted).size, 0);
  for (const { store } of all) wrong.push(...store.verify());
  return wrong;
}

describe('two processes that share a store, with their requests in any order', () => {
  const seeds = Array.from({ length: 25 }, (_, seed) => seed + 1);

  test.each(seeds)('lose nothing, do nothing twice and end with equal copies (seed %i)', async (seed) => {
    expect(await wrongAfter(seed)).toEqual([]);
  });

  test.each(['no-check', 'written-twice'] as const)('are caught when the log has the planted bug %s', async (bug) => {
    const found: string[] = [];
    for (const seed of seeds) {
      found.push(...(await wrongAfter(seed, bug).catch((error: unknown) => [String(error)])));
      if (found.length > 0) return;
    }
    expect(found).not.toEqual([]);
  });
});
