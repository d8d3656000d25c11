import { describe, expect, test } from 'vitest';
import type { SharedLog } from '../../src/engine/shared/shared-log.ts';
import type { SqliteStore } from '../../src/engine/sqlite/sqlite.ts';
import { openShared } from './shared-store.ts';
import { AT, written } from './sqlite/fixture.ts';
import { board, boardUses, counter } from './toy.ts';

/** A log in which processes lead one after the other. */
type Place = {
  /** Ends the process that leads, and resolves when the next one leads. */
  readonly next: () => Promise<SqliteStore>;
  /** Declares the process of a store dead, while it goes on. */
  readonly bury: (store: SqliteStore) => Promise<void>;
};

/** The contract of stores on a shared log. `place`: makes a log; its result opens the log for one process. */
export function sharingContract(name: string, place: () => Promise<() => Promise<SharedLog>>): void {
  const on = (body: (place: Place) => Promise<void>) => async () => {
    const open = await place();
    const watching = await open();
    let leader: SqliteStore | null = null;
    const buried: SqliteStore[] = [];
    const next = async (): Promise<SqliteStore> => {
      await leader?.close();
      leader = null;
      leader = await openShared(await open());
      return leader;
    };
    const bury = async (store: SqliteStore): Promise<void> => {
      await watching.leave(store.owner);
      buried.push(store);
      leader = null;
    };
    try {
      await body({ next, bury });
    } finally {
      await next().then((store) => store.close());
      for (const store of buried) await store.close();
      await watching.close();
    }
  };
  describe(`processes that share a store in ${name}`, () => {
    sharing(on);
  });
}

/** The contract of a log about its leader. `place`: makes a log; its result opens the log for one process. */
export function leaderContract(name: string, place: () => Promise<() => Promise<SharedLog>>): void {
  test(`one living worker at a time leads in ${name}`, async () => {
    const open = await place();
    const logs = [await open(), await open(), await open()] as const;
    const [one, two, three] = logs;
    const { worker: first } = await one.join();
    const { worker: second } = await two.join();
    const { worker: third } = await three.join();
    expect(await Promise.all([one.lead(first), two.lead(second), three.lead(third)])).toSatisfy(
      (leads: readonly boolean[]) => leads.filter(Boolean).length === 1,
    );
    await one.leave(first);
    const [isSecond, isThird] = [await two.lead(second), await three.lead(third)];
    expect([await one.lead(first), Number(isSecond) + Number(isThird)]).toEqual([false, 1]);
    const [leader, leaving, other, waiting] = isSecond ? [two, second, three, third] : [three, third, two, second];
    expect([await leader.lead(leaving), await other.lead(waiting)]).toEqual([true, false]);
    await leader.leave(leaving);
    expect([await leader.lead(leaving), await other.lead(waiting)]).toEqual([false, true]);
    for (const log of logs) await log.close();
  });

  test(`only the leader writes in ${name}, and each of its groups once`, async () => {
    const open = await place();
    const [one, two] = [await open(), await open()];
    const { worker: first } = await one.join();
    const { worker: second } = await two.join();
    const group = (worker: string, number: number, row: string) => ({
      worker,
      number,
      rows: [{ table: 'memory', id: '1', row }],
    });
    expect(await one.commit(group(first, 1, '"too early"'))).toBe(false);
    expect([await one.lead(first), await two.lead(second)]).toEqual([true, false]);
    expect(await two.commit(group(second, 1, '"not the leader"'))).toBe(false);
    for (const _ of ['sent', 'sent again']) expect(await one.commit(group(first, 1, '"old"'))).toBe(true);
    const { position } = await two.pull(0);
    expect(await one.commit(group(first, 2, '"new"'))).toBe(true);
    expect(await one.commit(group(first, 1, '"old"'))).toBe(false);
    expect(await two.pull(position)).toMatchObject({ rows: [{ id: '1', row: '"new"' }], position: position + 1 });
    await one.leave(first);
    expect(await one.commit(group(first, 3, '"gone"'))).toBe(false);
    expect(await two.lead(second)).toBe(true);
    expect(await two.commit(group(second, 1, '"next"'))).toBe(true);
    expect((await one.pull(0)).rows).toMatchObject([{ table: 'memory', id: '1', row: '"next"' }]);
    for (const log of [one, two]) await log.close();
  });
}

/** The contract of a log about deleted rows. `place`: makes a log; its result opens the log for one process. */
export function deletionContract(name: string, place: () => Promise<() => Promise<SharedLog>>): void {
  test(`a deletion stays until every living worker has it in ${name}`, async () => {
    const open = await place();
    const [one, two, three] = [await open(), await open(), await open()];
    const { worker: first } = await one.join();
    const { worker: second } = await two.join();
    const group = (number: number, row: string | null) => ({
      worker: first,
      number,
      rows: [
        { table: 'memory', id: '1', row },
        { table: 'memory', id: '2', row: '"stays"' },
      ],
    });
    const ids = async (after: number) => (await three.pull(after)).rows.map(({ id }) => id).toSorted();
    await one.lead(first);
    await one.commit(group(1, '"old"'));
    const { position } = await two.pull(0, second);
    await two.pull(position, second);
    await one.commit(group(2, null));
    await one.forgetDeleted(first);
    expect((await two.pull(position, second)).rows).toHaveLength(2);
    await two.forgetDeleted(second);
    await two.pull(position + 1, second);
    const { worker: third } = await three.join();
    await one.forgetDeleted(first);
    expect(await ids(0)).toEqual(['1', '2']);
    await three.leave(third);
    await two.forgetDeleted(second);
    expect(await ids(0)).toEqual(['1', '2']);
    await one.forgetDeleted(first);
    expect(await ids(0)).toEqual(['2']);
    await one.commit(group(3, '"again"'));
    expect(await ids(position + 1)).toEqual(['1', '2']);
    for (const log of [one, two, three]) await log.close();
  });
}

type On = (body: (place: Place) => Promise<void>) => () => Promise<void>;

function sharing(on: On): void {
  test(
    'count on from the counts of earlier leaders',
    on(async ({ next }) => {
      for (const [at, total] of [6, 12, 18].entries()) {
        const store = await next();
        const counters = store.host(counter);
        await Promise.all([1, 2, 3].map((by) => counters.apply('a', { type: 'add', by }, AT)));
        expect([counters.state('a')?.value, counters.journal('a', 99).length]).toEqual([total, 3 * (at + 1)]);
        expect(store.verify()).toEqual([]);
        expect(await counters.due(AT + 999)).toEqual({ keys: [], next: AT + 1_000 });
      }
    }),
  );

  test(
    'keep messages with what a machine did with them',
    on(async ({ next }) => {
      const one = await next();
      const boards = one.host(board, boardUses);
      expect(await one.accept(written('m1'))).toBe('new');
      await boards.apply('test:one', { type: 'note', id: 'm1' }, AT);
      await one.accept(written('m2'));
      const two = await next();
      const later = two.host(board, boardUses);
      expect((await two.recover()).map(({ id }) => id)).toEqual(['m2']);
      expect(await two.accept(written('m1'))).toBe('duplicate');
      expect(await later.apply('test:one', { type: 'note', id: 'm1' }, AT)).toMatchObject({ refusal: 'again' });
      expect(later.state('test:one')?.count).toBe(1);
    }),
  );

  test(
    'apply a command with an id once',
    on(async ({ next }) => {
      const done: boolean[] = [];
      for (let time = 0; time < 2; time += 1) {
        const store = await next();
        const counters = store.host(counter);
        done.push(await counters.applyOnce('x 1.0', 'a', { type: 'add', by: 1 }, AT));
        expect(counters.state('a')?.value).toBe(1);
      }
      expect(done).toEqual([true, false]);
    }),
  );

  test(
    'deliver the entries of a channel in order, and hold those of an earlier leader until `recover`',
    on(async ({ next }) => {
      const one = await next();
      const boards = one.host(board, boardUses);
      for (const text of ['a', 'b']) await boards.apply('test:one', { type: 'pin', text }, AT);
      const [first] = (await one.lease(9, AT)).rows;
      await one.settle(first!, { state: 'confirmed', platformId: 'p1' });
      const two = await next();
      two.host(board, boardUses);
      expect((await two.lease(9, AT)).rows).toEqual([]);
      await two.recover();
      expect((await two.lease(9, AT)).rows).toMatchObject([{ text: 'b', afterId: 'p1', uncertain: true }]);
    }),
  );

  test(
    "take over a dead process's entries in flight as uncertain, and the dead process can write no more",
    on(async ({ next, bury }) => {
      const one = await next();
      const [boards, counters] = [one.host(board, boardUses), one.host(counter)];
      await boards.apply('test:one', { type: 'pin', text: 'a' }, AT);
      const [lost] = (await one.lease(9, AT)).rows;
      await bury(one);
      const two = await next();
      const theirs = two.host(counter);
      two.host(board, boardUses);
      await two.recover();
      expect((await two.lease(9, AT)).rows).toMatchObject([{ id: lost!.id, uncertain: true }]);
      await expect(counters.apply('a', { type: 'add', by: 1 }, AT)).rejects.toThrow('declared this one dead');
      await expect(counters.apply('b', { type: 'add', by: 1 }, AT)).rejects.toThrow('declared this one dead');
      await theirs.apply('b', { type: 'add', by: 2 }, AT);
      expect([theirs.state('a'), theirs.state('b')?.value, two.verify()]).toEqual([null, 2, []]);
    }),
  );

  test(
    'continue with a machine that an earlier leader did not host',
    on(async ({ next }) => {
      const one = await next();
      await one.host(counter).apply('a', { type: 'add', by: 3 }, AT);
      const two = await next();
      await two.host(board, boardUses).apply('test:one', { type: 'pin', text: 'a' }, AT);
      const three = await next();
      const counters = three.host(counter);
      await counters.apply('a', { type: 'add', by: 4 }, AT);
      expect([counters.state('a')?.value, three.verify()]).toEqual([7, []]);
    }),
  );
}
