import { describe, expect, test } from 'vitest';
import type { SharedLog } from '../../src/engine/shared/shared-log.ts';
import { openShared } from './shared-store.ts';
import { AT, written } from './sqlite/fixture.ts';
import { board, boardUses, counter } from './toy.ts';

type Rival = Awaited<ReturnType<typeof rival>>;

async function rival(log: SharedLog) {
  const store = await openShared(log);
  return { store, counters: store.host(counter), boards: store.host(board, boardUses) };
}

/** The contract of stores on a shared log. `place`: makes a log; its result opens the log for one process. */
export function sharingContract(name: string, place: () => Promise<() => Promise<SharedLog>>): void {
  const on = (body: Parameters<On>[0]) => async () => {
    const open = await place();
    const all: Rival[] = [];
    const another = async (): Promise<Rival> => {
      const next = await rival(await open());
      all.push(next);
      return next;
    };
    try {
      await body([await another(), await another()], another, async () => openShared(await open()));
    } finally {
      for (const { store } of all) await store.close();
    }
  };
  describe(`two processes that share a store in ${name}`, () => {
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
    await one.bury(first);
    const [isSecond, isThird] = [await two.lead(second), await three.lead(third)];
    expect([await one.lead(first), Number(isSecond) + Number(isThird)]).toEqual([false, 1]);
    const [leader, leaving, other, waiting] = isSecond ? [two, second, three, third] : [three, third, two, second];
    expect([await leader.lead(leaving), await other.lead(waiting)]).toEqual([true, false]);
    await leader.leave(leaving);
    expect([await leader.lead(leaving), await other.lead(waiting)]).toEqual([false, true]);
    for (const log of logs) await log.close();
  });
}

/** `another`: opens a third store with machines. `opened`: opens a store without machines. */
type On = (
  body: (
    rivals: readonly [Rival, Rival],
    another: () => Promise<Rival>,
    opened: () => ReturnType<typeof openShared>,
  ) => Promise<void>,
) => () => Promise<void>;

function sharing(on: On): void {
  test(
    "count on from the other process's counts",
    on(async ([one, two]) => {
      await Promise.all(
        [one, two].flatMap(({ counters }) => [1, 2, 3].map((by) => counters.apply('a', { type: 'add', by }, AT))),
      );
      await Promise.all([one, two].map(({ store }) => store.catchUp()));
      expect([one.counters.state('a')?.value, two.counters.state('a')?.value]).toEqual([12, 12]);
      expect(one.counters.journal('a', 9)).toEqual(two.counters.journal('a', 9));
      expect([one.store.verify(), two.store.verify()]).toEqual([[], []]);
    }),
  );

  test(
    "are told of the other process's changes, once",
    on(async ([one, two]) => {
      const told: unknown[] = [];
      two.counters.onChange(({ key, state, facts, effects }) => told.push([key, state.value, facts.length, effects]));
      await one.counters.apply('a', { type: 'add', by: 2 }, AT);
      await one.counters.apply('a', { type: 'add', by: 3, also: ['b'] }, AT);
      await two.store.catchUp();
      await two.store.catchUp();
      expect(told).toEqual([
        ['a', 2, 1, [{ shown: 2 }]],
        ['a', 5, 1, [{ shown: 5 }]],
        ['b', 3, 1, [{ shown: 3 }]],
      ]);
      expect(await two.counters.due(AT + 999)).toEqual({ keys: [], next: AT + 1_000 });
    }),
  );

  test(
    'give a message to a machine once when both have it',
    on(async ([one, two]) => {
      const accepted = await Promise.all([one.store.accept(written('m1')), two.store.accept(written('m1'))]);
      expect(accepted.toSorted()).toEqual(['duplicate', 'new']);
      const notes = await Promise.all(
        [one, two].map(({ boards }) => boards.apply('test:one', { type: 'note', id: 'm1' }, AT)),
      );
      expect(notes.map((note) => (note.ok ? 'done' : note.refusal)).toSorted()).toEqual(['again', 'done']);
      expect(one.boards.state('test:one')?.count).toBe(1);
    }),
  );

  test(
    'do not decide on an outdated copy',
    on(async ([one, two]) => {
      await one.counters.apply('a', { type: 'add', by: 1 }, AT);
      const ticked = await two.counters.apply('a', { type: 'tick' }, AT + 1_000);
      expect(ticked).toMatchObject({ ok: true, state: { value: 0 } });
    }),
  );

  test(
    'apply a command with an id once',
    on(async ([one, two]) => {
      const done = await Promise.all(
        [one, two].map(({ counters }) => counters.applyOnce('x 1.0', 'a', { type: 'add', by: 1 }, AT)),
      );
      expect(done.filter(Boolean)).toHaveLength(1);
      await one.store.catchUp();
      expect(one.counters.state('a')?.value).toBe(1);
    }),
  );

  test(
    'deliver an entry once, and one of them delivers those of a channel in order',
    on(async ([one, two]) => {
      await one.boards.apply('test:one', { type: 'pin', text: 'a' }, AT);
      await two.boards.apply('test:one', { type: 'pin', text: 'b' }, AT);
      await one.store.catchUp();
      expect((await two.store.owed(9, AT)).rows).toEqual([]);
      const [first] = (await one.store.owed(9, AT)).rows;
      await one.store.settle(first!, { state: 'confirmed', platformId: 'p1' });
      const [second] = (await one.store.owed(9, AT)).rows;
      expect([first?.text, second?.text, second?.afterId]).toEqual(['a', 'b', 'p1']);
    }),
  );

  test(
    "take over a dead process's entries in flight as uncertain, and the dead process can write no more",
    on(async ([one, two]) => {
      await one.boards.apply('test:one', { type: 'pin', text: 'a' }, AT);
      const [lost] = (await one.store.owed(9, AT)).rows;
      await two.store.recover(one.store.owner);
      expect((await two.store.owed(9, AT)).rows).toMatchObject([{ id: lost!.id, uncertain: true }]);
      await expect(one.counters.apply('a', { type: 'add', by: 1 }, AT)).rejects.toThrow('declared this one dead');
      await two.store.catchUp();
      expect(two.counters.state('a')).toBeNull();
    }),
  );

  test(
    'continue with a machine that one of them hosts later',
    on(async ([one], _another, opened) => {
      await one.counters.apply('a', { type: 'add', by: 1 }, AT);
      const three = await opened();
      await one.counters.apply('a', { type: 'add', by: 2 }, AT);
      await three.catchUp();
      const counters = three.host(counter);
      expect(counters.state('a')?.value).toBe(3);
      await counters.apply('a', { type: 'add', by: 4 }, AT);
      await one.store.catchUp();
      expect([one.counters.state('a')?.value, one.store.verify(), three.verify()]).toEqual([7, [], []]);
      await three.close();
    }),
  );

  test(
    'give a third process the same state',
    on(async ([one, two], another) => {
      for (const by of [1, 2, 3]) {
        await one.counters.apply('a', { type: 'add', by }, AT);
        await two.counters.apply('b', { type: 'add', by, also: ['a'] }, AT);
      }
      const three = await another();
      expect([three.counters.state('a')?.value, three.counters.state('b')?.value]).toEqual([12, 6]);
      expect(three.store.verify()).toEqual([]);
    }),
  );
}
