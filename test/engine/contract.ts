import { describe, expect, test } from 'vitest';
import type { FloorStore, OutboxRow } from '../../src/turns/floor-store.ts';
import { AT, seat, turn, write, written } from './sqlite/fixture.ts';

/** A store under test. `restart`: resolves with the store that a new process opens. */
export type Subject = { readonly store: FloorStore; restart(): Promise<FloorStore>; dispose(): Promise<void> };

const ONE = 'test:one';

/** The contract of every store of floors, wherever it keeps them. */
export function storeContract(name: string, make: () => Promise<Subject>): void {
  const on: On = (body) => async () => {
    const subject = await make();
    try {
      await body(subject);
    } finally {
      await subject.dispose();
    }
  };
  describe(`a store, ${name}`, () => {
    describe('an inbox', () => {
      inbox(on);
    });
    describe('a floor', () => {
      floors(on);
    });
    describe('outbox entries', () => {
      owed(on);
    });
    describe('a stored conversation', () => {
      records(on);
    });
    describe('the key values of a part', () => {
      memories(on);
    });
    describe('after a restart', () => {
      restarts(on);
    });
  });
}

type On = (body: (subject: Subject) => Promise<void>) => () => Promise<void>;

function inbox(on: On): void {
  test(
    'keeps a message unchanged',
    on(async ({ store }) => {
      const attachments = [{ name: 'a.png', url: 'https://x/a.png', contentType: null, bytes: 7 }];
      const message = { ...written('m1', 'été 🎤\u0000"'), addressed: ['dev'], attachments, ignore: 'a bot' };
      expect(await store.accept(message)).toBe('new');
      expect(store.message('m1')).toEqual({ ...message, fate: null, edited: false, deleted: false, since: 0 });
    }),
  );

  test(
    'accepts an id once, and keeps the first wording',
    on(async ({ store }) => {
      const both = await Promise.all([store.accept(written('m1', 'first')), store.accept(written('m1', 'second'))]);
      expect(both).toEqual(['new', 'duplicate']);
      expect(store.message('m1')?.text).toBe('first');
    }),
  );

  test(
    'keeps the newest wording when an older edit comes late, with its author kind and place',
    on(async (subject) => {
      const { store } = subject;
      await store.accept({ ...written('m1', 'zero'), bot: true, thread: `${ONE}/thread` });
      const edit = (text: string, version: string) =>
        store.amend({ change: 'edited', id: 'm1', channel: ONE, text, version });
      expect(await edit('two', '2026-01-02')).toBe('changed');
      expect(await edit('one', '2026-01-01')).toBe('unchanged');
      const again = await subject.restart();
      const kept = { text: 'two', edited: true, bot: true, version: '2026-01-02', thread: `${ONE}/thread` };
      expect(again.message('m1')).toMatchObject(kept);
      expect(again.verify()).toEqual([]);
    }),
  );

  test(
    'keeps the newest wording when it equals the known one and an older edit comes later',
    on(async ({ store }) => {
      await store.accept({ ...written('m1', 'a'), version: '1' });
      const edit = (text: string, version: string) =>
        store.amend({ change: 'edited', id: 'm1', channel: ONE, text, version });
      expect(await edit('a', '3')).toBe('unchanged');
      expect(await edit('b', '2')).toBe('unchanged');
      expect(store.message('m1')).toMatchObject({ text: 'a', edited: false });
    }),
  );

  test(
    'does not know a message that was never accepted',
    on(async ({ store }) => {
      expect(store.message('m1')).toBeNull();
      expect(store.why('m1')).toEqual([]);
      expect(await store.amend({ change: 'deleted', id: 'm1', channel: ONE })).toBe('unknown');
    }),
  );

  test(
    'records the fate with the command that decided it',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      expect(store.message('m1')?.fate).toMatchObject({ state: 'delivered', to: ['pm'] });
    }),
  );
}

function memories(on: On): void {
  test(
    'has the last value of each name, also after a restart',
    on(async (subject) => {
      const { store } = subject;
      await store.keyValues.remember('discord', 'card', '1');
      await store.keyValues.remember('discord', 'card', '2');
      await store.keyValues.remember('discord', 'gone', '3');
      await store.keyValues.remember('slack', 'card', '4');
      await store.keyValues.forget('discord', 'gone');
      const again = await subject.restart();
      expect([...again.keyValues.remembered('discord')]).toEqual([['card', '2']]);
      expect(again.verify()).toEqual([]);
    }),
  );
}

function floors(on: On): void {
  test(
    'does not exist before its first fact',
    on(async ({ store }) => {
      expect(store.floors.state(ONE)).toBeNull();
      expect(store.floors.keys()).toEqual([]);
    }),
  );

  test(
    'answers a command with its facts, its effects and the floor after them',
    on(async ({ store }) => {
      await seat(store);
      await store.accept(written('m1'));
      const applied = await store.floors.apply(ONE, { type: 'receive', id: 'm1', addressed: [] }, AT);
      expect(applied).toMatchObject({ ok: true, state: { epoch: 1, turn: { agent: 'pm', epoch: 1 } } });
      expect(applied.ok && applied.effects.map((effect) => effect.type)).toContain('prompt');
      expect(store.floors.state(ONE)).toEqual(applied.state);
      const stored = store.floors.journal(ONE, 100).map((entry) => entry.fact);
      expect(applied.ok && stored.slice(-applied.facts.length)).toEqual(applied.ok && applied.facts);
    }),
  );

  test(
    "is not changed by a refused command, but stores an agent's refused act",
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      const before = store.floors.state(ONE);
      const say = { type: 'say', agent: 'qa', epoch: 1, text: 'me too', mentions: [] } as const;
      expect(await store.floors.apply(ONE, say, AT)).toEqual({ ok: false, state: before, refusal: 'not-holder' });
      expect(store.floors.state(ONE)).toEqual(before);
      expect(store.floors.journal(ONE, 1)[0]?.fact).toMatchObject({ type: 'actRefused', agent: 'qa' });
      expect(store.verify()).toEqual([]);
    }),
  );

  test(
    'receives a message once, and only if it was accepted in the same channel',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      const refusals = [];
      for (const [channel, id] of [
        [ONE, 'm1'],
        [ONE, 'm2'],
        ['test:two', 'm1'],
      ] as const) {
        const applied = await store.floors.apply(channel, { type: 'receive', id, addressed: [] }, AT);
        refusals.push(applied.ok ? null : applied.refusal);
      }
      expect(refusals).toEqual(['duplicate', 'unknown-message', 'unknown-message']);
      expect(store.floors.keys()).toEqual([ONE]);
    }),
  );

  test(
    'is due at its deadline and not a millisecond before',
    on(async ({ store }) => {
      await seat(store);
      await seat(store, 'test:two');
      await write(store, 'm1');
      expect(await store.floors.due(AT + 59_999)).toEqual({ keys: [], next: AT + 60_000 });
      expect(await store.floors.due(AT + 60_000)).toEqual({ keys: [ONE], next: null });
    }),
  );
}

function owed(on: On): void {
  test(
    'are leased one per lane, in order, once',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      await turn(store, 'one');
      await turn(store, 'two');
      expect(summary(await store.lease(100, AT))).toEqual(
        ['agent:qa prompt', 'posts one', 'receipts receipt'].toSorted(),
      );
      expect((await store.lease(100, AT)).rows).toEqual([]);
    }),
  );

  test(
    'continue in their lane once the first is confirmed, and know the post before them',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      await turn(store, 'one');
      await turn(store, 'two');
      const [first] = posts(await store.lease(100, AT));
      expect(first).toMatchObject({ text: 'one', afterId: null, attempts: 0, uncertain: false });
      await store.settle(first, { state: 'confirmed', platformId: 'p1' });
      const [second] = posts(await store.lease(100, AT));
      expect(second).toMatchObject({ text: 'two', afterId: 'p1' });
    }),
  );

  test(
    'are parts in order for a long text',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      await turn(store, 'first paragraph of the answer\n\nsecond paragraph of the answer');
      const parts: unknown[] = [];
      for (
        let row = posts(await store.lease(100, AT)).at(0);
        row !== undefined;
        row = posts(await store.lease(100, AT)).at(0)
      ) {
        parts.push([row.part, row.text]);
        await store.settle(row, { state: 'confirmed', platformId: `p${parts.length}` });
      }
      expect(parts).toEqual([
        [0, 'first paragraph of the answer'],
        [1, 'second paragraph of the answer'],
      ]);
    }),
  );

  test(
    'wait until their time, and report that time',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      await turn(store, 'one');
      const [row] = posts(await store.lease(100, AT));
      await store.settle(row, { state: 'retry', notBefore: AT + 500 });
      expect(posts(await store.lease(100, AT + 499))).toEqual([]);
      const again = await store.lease(100, AT + 499);
      expect(again.next).toBe(AT + 500);
      expect(posts(await store.lease(100, AT + 500))[0]).toMatchObject({ id: row.id, attempts: 1, uncertain: false });
    }),
  );

  test(
    'stay uncertain when they are retried',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      await turn(store, 'one');
      const [row] = posts(await store.lease(100, AT));
      await store.settle(row, { state: 'uncertain', notBefore: AT });
      const [doubted] = posts(await store.lease(100, AT));
      expect(doubted.uncertain).toBe(true);
      await store.settle(doubted, { state: 'retry', notBefore: AT });
      expect(posts(await store.lease(100, AT))[0]).toMatchObject({ id: row.id, uncertain: true });
    }),
  );

  test(
    'do not stop their lane when they fail',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      await turn(store, 'one');
      await turn(store, 'two');
      const [row] = posts(await store.lease(100, AT));
      await store.settle(row, { state: 'failed', why: 'no such channel' });
      expect(posts(await store.lease(100, AT))[0]).toMatchObject({ text: 'two' });
    }),
  );

  test(
    'are cancelled for an agent whose turn was stopped before it was prompted',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      await store.floors.apply(ONE, { type: 'stop', by: 'u1' }, AT);
      const { rows } = await store.lease(100, AT);
      expect(rows.map((row) => row.effect.type)).not.toContain('prompt');
      expect(rows.map((row) => row.lane)).toContain('interrupt:pm');
    }),
  );
}

function records(on: On): void {
  test(
    'returns the lines of agents and people in order',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1', 'please build it');
      await turn(store, 'here is the plan');
      expect(store.lines(ONE, 0, 10).map((line) => [line.line, line.author.kind, line.author.id, line.text])).toEqual([
        [1, 'person', 'u1', 'please build it'],
        [2, 'agent', 'pm', 'here is the plan'],
      ]);
      expect(store.lines(ONE, 1, 2).map((line) => line.line)).toEqual([2]);
    }),
  );

  test(
    'shows the latest wording, and no text of a deleted message',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1', 'first');
      const edit = { change: 'edited', id: 'm1', channel: ONE, text: 'second' } as const;
      expect(await Promise.all([store.amend(edit), store.amend(edit)])).toEqual(['changed', 'unchanged']);
      expect(store.message('m1')).toMatchObject({ text: 'second', edited: true });
      expect(store.lines(ONE, 0, 1)[0]).toMatchObject({ text: 'second', change: null });
      expect(await store.amend({ change: 'deleted', id: 'm1', channel: ONE })).toBe('changed');
      expect(store.lines(ONE, 0, 1)[0]).toMatchObject({ text: '', change: 'deleted', message: 'm1' });
      expect(await store.amend({ ...edit, text: 'third' })).toBe('unchanged');
    }),
  );

  test(
    'marks the line that an edit adds',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1', 'first');
      await turn(store, 'noted');
      const amended = store.amend({ change: 'edited', id: 'm1', channel: ONE, text: 'second' });
      await store.floors.apply(ONE, { type: 'edit', id: 'm1' }, AT);
      expect(await amended).toBe('changed');
      expect(store.lines(ONE, 0, 9).map((line) => [line.text, line.change])).toEqual([
        ['second', null],
        ['noted', null],
        ['second', 'edited'],
      ]);
    }),
  );

  test(
    'returns the newest entries of the journal, and earlier pages',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      const all = store.floors.journal(ONE, 1000).map((entry) => entry.seq);
      expect(all).toEqual(all.map((_, index) => index + 1));
      expect(store.floors.journal(ONE, 2).map((entry) => entry.seq)).toEqual(all.slice(-2));
      expect(store.floors.journal(ONE, 2, 4).map((entry) => entry.seq)).toEqual([2, 3]);
    }),
  );

  test(
    'returns all facts about a message',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      await write(store, 'm2');
      const facts = store.why('m1').map((entry) => entry.fact.type);
      expect(facts).toContain('messageRouted');
      expect(facts).toContain('turnGranted');
      expect(store.why('m1').every((entry) => !JSON.stringify(entry.fact).includes('m2'))).toBe(true);
    }),
  );

  test(
    'folds to the stored floor, byte for byte',
    on(async ({ store }) => {
      await seat(store);
      await write(store, 'm1');
      await turn(store, 'one');
      await write(store, 'm2');
      const steps: string[] = [];
      const replayed = store.floors.replay(ONE, (step) => steps.push(`${step.seq} ${step.hashOk}`));
      expect(replayed).toMatchObject({ equal: true, brokenAt: null, stoppedBy: null, steps: steps.length });
      expect(steps.at(-1)).toBe(`${store.floors.journal(ONE, 1)[0]?.seq} true`);
      expect(store.verify()).toEqual([]);
    }),
  );
}

function restarts(on: On): void {
  test(
    'makes posts in flight uncertain, and lets floors prompt their agents again',
    on(async (subject) => {
      await seat(subject.store);
      await write(subject.store, 'm1');
      await turn(subject.store, 'one');
      const before = posts(await subject.store.lease(100, AT));
      const store = await subject.restart();
      await store.recover();
      const after = await store.lease(100, AT);
      expect(after.rows.map(({ lane }) => lane).toSorted()).toEqual(['posts', 'receipts']);
      expect(posts(after)[0]).toMatchObject({ id: before[0].id, uncertain: true });
      await store.floors.apply(ONE, { type: 'restart' }, AT);
      await store.floors.apply(ONE, { type: 'catchUp' }, AT);
      await store.floors.apply(ONE, { type: 'join', agent: 'dev' }, AT);
      const [prompt] = (await store.lease(100, AT)).rows;
      expect(prompt).toMatchObject({ lane: 'agent:dev', effect: { type: 'prompt', reason: 'resume' } });
    }),
  );

  test(
    "finds the messages that no floor received, in the platform's order",
    on(async (subject) => {
      await seat(subject.store);
      await write(subject.store, 'm1');
      for (const id of ['m10', 'm9', 'm11']) await subject.store.accept(written(id));
      await subject.store.accept(written('x5', 'elsewhere', 'test:two'));
      const store = await subject.restart();
      const recovery = await store.recover();
      expect(recovery.map((message) => message.id)).toEqual(['m9', 'm10', 'm11', 'x5']);
      expect(store.lastSeen(ONE)).toMatchObject({ id: 'm11', order: '11' });
      expect(store.lastSeen('test:two')).toMatchObject({ id: 'x5', order: '5' });
      expect(store.lastSeen('test:three')).toBeNull();
    }),
  );

  test(
    'has the same floor',
    on(async (subject) => {
      await seat(subject.store);
      await write(subject.store, 'm1');
      const left = subject.store.floors.state(ONE);
      const store = await subject.restart();
      expect(store.floors.state(ONE)).toEqual(left);
      expect(await store.floors.apply(ONE, { type: 'tick' }, AT + 60_000)).toMatchObject({
        ok: true,
        state: { turn: { agent: 'dev' } },
      });
      expect(store.verify()).toEqual([]);
    }),
  );
}

function posts(leased: { readonly rows: readonly OutboxRow[] }): [OutboxRow, ...OutboxRow[]] {
  return leased.rows.filter((row) => row.lane === 'posts') as [OutboxRow, ...OutboxRow[]];
}

function summary(leased: { readonly rows: readonly OutboxRow[] }): readonly string[] {
  return leased.rows.map((row) => `${row.lane} ${row.text ?? row.effect.type}`).toSorted();
}
