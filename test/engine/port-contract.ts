import { describe, expect, test } from 'vitest';
import type { HumanMessage, Lease, MachineStore, OutboxEntry, Store } from '../../src/engine/port.ts';
import { AT } from './sqlite/fixture.ts';
import { board, boardUses, counter } from './toy.ts';
import type { Count } from './toy.ts';

/** A store under test. `restart`: resolves with the store of the next process. */
export type PortSubject = {
  readonly store: Store;
  readonly restart: () => Promise<Store>;
  readonly dispose: () => Promise<void>;
};

const ONE = 'test:one';

/** The contract of every store with its hosted machines, wherever it keeps them. */
export function portContract(name: string, make: () => Promise<PortSubject>): void {
  const on = (body: (subject: PortSubject) => Promise<void>) => async () => {
    const subject = await make();
    try {
      await body(subject);
    } finally {
      await subject.dispose();
    }
  };
  describe(`the port of ${name}`, () => {
    describe('a machine', () => {
      machines(on);
    });
    describe('a message', () => {
      messages(on);
    });
    describe('an outbox entry', () => {
      owed(on);
    });
    describe('an owner of entries', () => {
      owners(on);
    });
  });
}

type On = (body: (subject: PortSubject) => Promise<void>) => () => Promise<void>;

function machines(on: On): void {
  test(
    'has the state of its facts, also after a restart',
    on(async ({ store, restart }) => {
      const counters = store.host(counter);
      expect([counters.state('a'), counters.keys()]).toEqual([null, []]);
      const [first, refused] = await Promise.all([
        counters.apply('a', { type: 'add', by: 2 }, AT),
        counters.apply('a', { type: 'add', by: 0 }, AT),
      ]);
      expect(first).toMatchObject({ ok: true, state: { value: 2 }, effects: [{ shown: 2 }] });
      expect(refused).toEqual({ ok: false, state: { value: 2, resetAt: AT + 1_000 }, refusal: 'not-positive' });
      const again = (await restart()).host(counter);
      expect([again.state('a')?.value, again.keys()]).toEqual([2, ['a']]);
      expect(again.journal('a', 9)).toMatchObject([{ key: 'a', seq: 1, at: AT, fact: { type: 'added', by: 2 } }]);
    }),
  );

  test(
    'is due at its deadline and not a millisecond before',
    on(async ({ store }) => {
      const counters = store.host(counter);
      await counters.apply('a', { type: 'add', by: 1 }, AT);
      await counters.apply('b', { type: 'add', by: 1 }, AT + 5);
      expect(await counters.due(AT + 999)).toEqual({ keys: [], next: AT + 1_000 });
      expect(await counters.due(AT + 1_000)).toEqual({ keys: ['a'], next: AT + 1_005 });
      await counters.apply('a', { type: 'tick' }, AT + 1_000);
      expect(await counters.due(AT + 1_004)).toEqual({ keys: [], next: AT + 1_005 });
    }),
  );

  test(
    'is resting after a restart, with its label, or awake until it rests',
    on(async ({ store, restart }) => {
      const resting = { ...counter, rest: ({ value }: Count) => (value === 0 ? 'zero' : null) };
      const counters = store.host(resting);
      for (const key of ['a', 'b']) await counters.apply(key, { type: 'add', by: 1 }, AT);
      await counters.apply('b', { type: 'tick' }, AT + 1_000);
      expect(counters.awake()).toContain('a');
      const again = (await restart()).host(resting);
      expect([again.awake(), [...again.resting()]]).toEqual([['a'], [['b', 'zero']]]);
      await again.apply('a', { type: 'tick' }, AT + 1_000);
      await again.apply('b', { type: 'add', by: 1 }, AT + 1_000);
      expect(again.awake()).toContain('b');
      const third = (await restart()).host(resting);
      expect([third.awake(), [...third.resting()]]).toEqual([['b'], [['a', 'zero']]]);
    }),
  );

  test(
    'returns earlier pages of its facts',
    on(async ({ store }) => {
      const counters = store.host(counter);
      for (const by of [1, 2, 3, 4]) await counters.apply('a', { type: 'add', by }, AT);
      const seqs = (before?: number) => counters.journal('a', 2, before).map(({ seq }) => seq);
      expect([seqs(), seqs(3), seqs(1), counters.journal('a', 0)]).toEqual([[3, 4], [1, 2], [], []]);
    }),
  );

  test(
    'applies several commands as one, and a command with an id once',
    on(async ({ store, restart }) => {
      const counters = store.host(counter);
      const acts = [
        { type: 'add', by: 1 },
        { type: 'add', by: 0 },
        { type: 'add', by: 5 },
      ] as const;
      const results = await counters.applyAll('a', acts, AT);
      expect(results.map(({ ok, state }) => [ok, state.value])).toEqual([
        [true, 1],
        [false, 1],
        [true, 6],
      ]);
      expect(await counters.applyOnce('x 1.0', 'a', { type: 'add', by: 10 }, AT)).toBe(true);
      const again = (await restart()).host(counter);
      expect(await again.applyOnce('x 1.0', 'a', { type: 'add', by: 10 }, AT)).toBe(false);
      expect(again.state('a')?.value).toBe(16);
    }),
  );

  test(
    'changes with all consequences of its command or not at all, and tells listeners of each change',
    on(async ({ store }) => {
      const counters = store.host(counter);
      const told: unknown[] = [];
      counters.onChange(({ key, state }) => told.push([key, state.value]));
      await counters.apply('a', { type: 'add', by: 3, also: ['b', 'c'] }, AT);
      expect(told).toEqual([
        ['a', 3],
        ['b', 3],
        ['c', 3],
      ]);
      const endless = Array.from({ length: 1_001 }, (_, n) => `k${n}`);
      await expect(counters.apply('a', { type: 'add', by: 1, also: endless }, AT)).rejects.toThrow('impossible');
      expect([counters.state('a')?.value, counters.keys()]).toEqual([3, ['a', 'b', 'c']]);
    }),
  );
}

function messages(on: On): void {
  test(
    'is accepted once, and kept in its newest wording',
    on(async ({ store, restart }) => {
      expect(await Promise.all([store.accept(written('m1')), store.accept(written('m1', 'other'))])).toEqual([
        'new',
        'duplicate',
      ]);
      const edit = (text: string, version: string) =>
        store.amend({ change: 'edited', id: 'm1', channel: ONE, text, version });
      expect([await edit('two', '2'), await edit('one', '1')]).toEqual(['changed', 'unchanged']);
      expect(await store.amend({ change: 'deleted', id: 'm9', channel: ONE })).toBe('unknown');
      expect((await restart()).message('m1')).toMatchObject({ text: 'two', edited: true, fate: null });
    }),
  );

  test(
    'is given to a machine once, and only if its channel accepted it',
    on(async ({ store }) => {
      const boards = store.host(board, boardUses);
      await store.accept(written('m1'));
      const note = (channel: string, id: string) => boards.apply(channel, { type: 'note', id }, AT);
      const results = [await note(ONE, 'm1'), await note(ONE, 'm1'), await note(ONE, 'm2'), await note('other', 'm1')];
      expect(results.map((result) => (result.ok ? 'done' : result.refusal))).toEqual([
        'done',
        'again',
        'unknown',
        'unknown',
      ]);
      expect(store.message('m1')?.fate).toEqual({ state: 'noted' });
    }),
  );

  test(
    "is found after a restart when no machine got it, in the platform's order",
    on(async ({ store, restart }) => {
      const boards = store.host(board, boardUses);
      for (const id of ['m10', 'm9', 'm8']) await store.accept(written(id));
      await boards.apply(ONE, { type: 'note', id: 'm8' }, AT);
      const next = await restart();
      expect((await next.recover()).map(({ id }) => id)).toEqual(['m9', 'm10']);
      expect(next.lastSeen(ONE)).toMatchObject({ id: 'm10' });
    }),
  );
}

function owed(on: On): void {
  test(
    'is leased one row per lane, in order, once',
    on(async ({ store }) => {
      await pin(store.host(board, boardUses), 'one|two');
      const [first, ...others] = (await store.lease(9, AT)).rows;
      expect([first, others]).toMatchObject([
        { text: 'one', part: 0, attempts: 0, uncertain: false, afterId: null },
        [],
      ]);
      expect((await store.lease(9, AT)).rows).toEqual([]);
      await settle(store, first, 'p1');
      expect((await store.lease(9, AT)).rows).toMatchObject([{ text: 'two', part: 1, afterId: 'p1' }]);
    }),
  );

  test(
    'waits until its time, reports that time, and stays uncertain',
    on(async ({ store }) => {
      await pin(store.host(board, boardUses), 'one');
      const [row] = (await store.lease(9, AT)).rows;
      if (row !== undefined) await store.settle(row, { state: 'uncertain', notBefore: AT + 500 });
      expect(await store.lease(9, AT + 499)).toEqual({ rows: [], next: AT + 500 });
      expect((await store.lease(9, AT + 500)).rows).toMatchObject([{ text: 'one', attempts: 1, uncertain: true }]);
    }),
  );

  test(
    'is found by its message on the platform, also after a restart, and only with the right key prefix',
    on(async ({ store, restart }) => {
      await pin(store.host(board, boardUses), 'one');
      await settle(store, (await store.lease(9, AT)).rows[0], 'p1');
      const at = (from: Store, channel: string, id: string, prefix: string) => from.announcementAt(channel, id, prefix);
      expect(at(store, ONE, 'p1', 'pin:')).toBe('pin:one');
      const next = await restart();
      next.host(board, boardUses);
      await next.recover();
      expect([at(next, ONE, 'p1', 'pin:'), at(next, ONE, 'p1', 'pin:one')]).toEqual(['pin:one', 'pin:one']);
      expect([at(next, 'test:two', 'p1', 'pin:'), at(next, ONE, 'p2', 'pin:')]).toEqual([null, null]);
      expect(at(next, ONE, 'p1', 'pin:two')).toBeNull();
    }),
  );

  test(
    'stops no other entry when it was refused for good',
    on(async ({ store }) => {
      await pin(store.host(board, boardUses), 'one|two');
      const [row] = (await store.lease(9, AT)).rows;
      if (row !== undefined) await store.settle(row, { state: 'failed', why: 'no such channel' });
      expect(texts(await store.lease(9, AT))).toEqual(['two']);
    }),
  );

  test(
    'is uncertain after a restart with the same id if it was in flight; an entry for watchers is gone',
    on(async ({ store, restart }) => {
      const boards = store.host(board, boardUses);
      await store.accept(written('m1'));
      await boards.apply(ONE, { type: 'note', id: 'm1' }, AT);
      await pin(boards, 'one|two');
      const { rows } = await store.lease(9, AT);
      expect(rows.map(({ lane }) => lane).toSorted()).toEqual(['posts', 'watchers']);
      const next = await restart();
      next.host(board, boardUses);
      await next.recover();
      const found = (await next.lease(9, AT)).rows;
      expect(found).toMatchObject([
        { text: 'one', uncertain: true, id: rows.find(({ lane }) => lane === 'posts')?.id },
      ]);
      await settle(next, found[0], 'p1');
      expect((await next.lease(9, AT)).rows).toMatchObject([{ text: 'two', uncertain: false }]);
    }),
  );
}

function owners(on: On): void {
  test(
    'has a new name at each start; entries in flight are uncertain after `recover`, and are handed out only then',
    on(async ({ store, restart }) => {
      const boards = store.host(board, boardUses);
      for (const channel of [ONE, 'test:two']) await boards.apply(channel, { type: 'pin', text: 'one|two' }, AT);
      expect((await store.lease(9, AT)).rows).toHaveLength(2);
      const dead = store.owner;
      const next = await restart();
      next.host(board, boardUses);
      expect(next.owner).not.toBe(dead);
      expect((await next.lease(9, AT)).rows).toEqual([]);
      expect((await next.lease(9, AT)).rows).toEqual([]);
      await next.recover();
      const { rows } = await next.lease(9, AT);
      expect(rows.map(({ text, uncertain }) => [text, uncertain])).toEqual([
        ['one', true],
        ['one', true],
      ]);
      for (const row of rows) await settle(next, row, 'p1');
      expect((await next.lease(9, AT)).rows.map(({ uncertain }) => uncertain)).toEqual([false, false]);
    }),
  );
}

type Boards = MachineStore<unknown, { readonly type: 'pin'; readonly text: string }, unknown, unknown, string>;

function pin(boards: Boards, text: string): Promise<unknown> {
  return boards.apply(ONE, { type: 'pin', text }, AT);
}

async function settle(store: Store, row: OutboxEntry<unknown> | undefined, platformId: string): Promise<void> {
  if (row !== undefined) await store.settle(row, { state: 'confirmed', platformId });
}

function texts({ rows }: Lease<unknown>): readonly (string | null)[] {
  return rows.map(({ text }) => text);
}

function written(id: string, text = `text of ${id}`): HumanMessage {
  const author = { id: 'u1', name: 'Ada' };
  return { id, channel: ONE, author, text, sentAt: AT, order: id.slice(1), addressed: [], attachments: [] };
}
