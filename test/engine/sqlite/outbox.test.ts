import { describe, expect, test } from 'vitest';
import type { Effect } from '../../../src/turns/floor/react.ts';
import { openDatabase } from '../../../src/engine/sqlite/open.ts';
import { Outbox } from '../../../src/engine/sqlite/outbox.ts';
import type { Lease, Settlement } from '../../../src/engine/port.ts';
import type { FloorStoreOptions, OutboxRow } from '../../../src/turns/floor-store.ts';
import { effectOf, floorUses } from '../../../src/turns/floor-store.ts';
import { AT, options } from './fixture.ts';
import { mustGrowLinearly } from '../../lib/growth.ts';

const ONE = 'test:one';

function prompt(agent: string, epoch: number): Effect {
  return { type: 'prompt', agent, epoch, reason: 'grant', afterLine: 0, uptoLine: 1, messages: ['m1'], open: [] };
}

function announce(repeat: number): Effect {
  return { type: 'announce', announcement: { kind: 'timeout', agent: 'pm' }, key: 'timeout:pm', repeat };
}

function post(text: string): Effect {
  return { type: 'post', agent: 'pm', epoch: 1, line: 1, text };
}

/** An outbox that gets effects as from floors, each call from a new row of the journal. */
class Box {
  readonly #db;
  readonly #uses;
  #outbox: Outbox;
  #row = 0;

  constructor(db = openDatabase(':memory:'), changes: Partial<FloorStoreOptions> = {}) {
    this.#db = db;
    this.#outbox = new Outbox(db, 'box');
    this.#uses = floorUses(options(':memory:', changes)).outbox;
  }

  add(channel: string, effects: readonly Effect[]): void {
    this.#row += 1;
    this.#outbox.add(
      this.#row,
      effects.flatMap((effect) => this.#uses?.entries(channel, effect) ?? []),
    );
    this.#outbox.committed();
  }

  lease(limit: number, at: number): Lease<Effect> {
    const { rows, next } = this.#outbox.lease(limit, at);
    return { rows: rows.map((row) => ({ ...row, effect: effectOf(row.effect, row.text) })), next };
  }

  settle(row: OutboxRow, settlement: Settlement): void {
    void this.#outbox.settle(row, settlement, async (write, durable) => {
      write();
      durable();
    });
  }

  /** True when settled rows must be on the disk before the next lease. */
  mustSettle(): boolean {
    return this.#outbox.mustSettle(AT);
  }

  /** Commits a transaction, which also writes settled rows. */
  commit(): void {
    this.#outbox.writeSettled();
    this.#outbox.committed();
  }

  /** Deletes settled rows, as retention does. */
  prune(): void {
    this.#db.exec("DELETE FROM outbox WHERE state IN ('confirmed', 'failed')");
  }

  /** Opens the outbox as the next start of the program does. */
  restart(how: 'in good order' | 'killed'): void {
    if (how === 'in good order') this.#outbox.note();
    this.#outbox = new Outbox(this.#db, 'box');
    this.#outbox.recover(how === 'killed' ? 'first' : 'noted');
  }
}

function box(): { readonly outbox: Box; readonly next: () => OutboxRow } {
  const outbox = new Box();
  const next = (): OutboxRow => {
    const [row] = outbox.lease(1, AT).rows;
    if (row === undefined) throw new Error('nothing is owed');
    return row;
  };
  return { outbox, next };
}

describe('a text beyond the length of a file', () => {
  const long = 'word '.repeat(40).trim();

  test("stays one row as an agent's text, and is split as an announcement", () => {
    const db = openDatabase(':memory:');
    const outbox = new Box(db, { fileAbove: () => 100, words: () => long });
    outbox.add(ONE, [post(long), post('word '.repeat(20).trim()), announce(1)]);
    const texts: number[] = [];
    for (let [row] = outbox.lease(1, AT).rows; row !== undefined; [row] = outbox.lease(1, AT).rows) {
      texts.push(row.text?.length ?? 0);
      outbox.settle(row, { state: 'confirmed', platformId: `p${texts.length}` });
    }
    expect(texts[0]).toBe(long.length);
    expect(texts.slice(1).every((length) => length <= 40)).toBe(true);
    expect(texts.length).toBe(1 + 3 + 5);
  });
});

test.each([
  ['as long as a question may be', 100, [100]],
  ['that is longer, in parts with room for "(2 of 2)" (T67)', 101, [80, 30]],
])('T53 a question %s: its rows, and behind them what lets people answer', (_length, size, rows) => {
  const long = `${'x'.repeat(99)} y`.padEnd(size, 'y').slice(0, size).replace(/ $/, 'y');
  const db = openDatabase(':memory:');
  const outbox = new Box(db, { fileAbove: () => 50, questionLimit: () => 100, words: () => long });
  const announcement = { kind: 'approval', agent: 'pm', question: 8, title: 'rm', detail: long } as const;
  outbox.add(ONE, [
    { type: 'announce', announcement, key: 'approval:8', repeat: 1 },
    { type: 'offer', question: 8 },
    post('later'),
  ]);
  const seen: unknown[] = [];
  for (let [row, ...more] = outbox.lease(9, AT).rows; row !== undefined; [row, ...more] = outbox.lease(9, AT).rows) {
    seen.push([row.effect.type, row.text?.length ?? null, more.length]);
    outbox.settle(row, { state: 'confirmed', platformId: null });
  }
  expect(seen).toEqual([...rows.map((length) => ['announce', length, 0]), ['offer', null, 0], ['post', 5, 0]]);
});

test.each(['in one life', 'after a restart'])(
  'T67 the answer to a question that has several parts edits each of them, %s',
  (life) => {
    const db = openDatabase(':memory:');
    const words = ({ kind }: { readonly kind: string }) =>
      kind === 'approval' ? 'word '.repeat(50).trim() : 'allowed';
    const outbox = new Box(db, { questionLimit: () => 100, words });
    const asked = { kind: 'approval', agent: 'pm', question: 8, title: 'rm', detail: '' } as const;
    const answered = {
      kind: 'answered',
      agent: 'pm',
      question: 8,
      title: 'rm',
      choice: 'allow',
      by: 'ann',
      at: 0,
    } as const;
    outbox.add(ONE, [post('before'), { type: 'announce', announcement: asked, key: 'q:8', repeat: 1 }, post('behind')]);
    const ids: string[] = [];
    const drain = () => {
      for (let [row] = outbox.lease(1, AT).rows; row !== undefined; [row] = outbox.lease(1, AT).rows) {
        ids.push(`p${ids.length + 1}`);
        outbox.settle(row, { state: 'confirmed', platformId: ids.at(-1) ?? null });
      }
    };
    drain();
    expect(ids.length).toBeGreaterThan(4);
    outbox.commit();
    if (life === 'after a restart') outbox.restart('killed');
    outbox.add(ONE, [{ type: 'announce', announcement: answered, key: 'q:8', repeat: 2 }]);
    const [row] = outbox.lease(1, AT).rows;
    expect([row?.editsId, row?.editsParts]).toEqual(['p2', ids.slice(2, -1)]);
  },
);

describe('an announcement that recurs', () => {
  test('edits the post of the confirmed first one', () => {
    const { outbox, next } = box();
    outbox.add(ONE, [announce(1), announce(2), announce(3)]);
    const edits = ['p1', null, null].map((platformId) => {
      const row = next();
      outbox.settle(row, { state: 'confirmed', platformId });
      return [row.text, row.editsId];
    });
    expect(edits).toEqual([
      ['timeout 1', null],
      ['timeout 2', 'p1'],
      ['timeout 3', 'p1'],
    ]);
  });

  test('is a new post when the first was never posted', () => {
    const { outbox, next } = box();
    outbox.add(ONE, [announce(1), announce(2)]);
    outbox.settle(next(), { state: 'failed', why: 'refused' });
    expect(next()).toMatchObject({ text: 'timeout 2', editsId: null });
  });

  test('is a separate post after another announcement', () => {
    const { outbox, next } = box();
    outbox.add(ONE, [announce(1), announce(1)]);
    outbox.settle(next(), { state: 'confirmed', platformId: 'p1' });
    expect(next().editsId).toBeNull();
  });
});

describe('lanes', () => {
  test('are served side by side, the oldest entries first', () => {
    const { outbox } = box();
    outbox.add(ONE, [prompt('pm', 1), post('a'), { type: 'receipt', message: 'm1', receipt: 'held' }, post('b')]);
    outbox.add('test:two', [post('c')]);
    expect(outbox.lease(10, AT).rows.map((row) => `${row.channel} ${row.lane}`)).toEqual([
      'test:one agent:pm',
      'test:one posts',
      'test:one receipts',
      'test:two posts',
    ]);
  });

  test('an interrupt overtakes other entries for its agent', () => {
    const { outbox } = box();
    outbox.add(ONE, [prompt('pm', 1)]);
    outbox.lease(10, AT);
    outbox.add(ONE, [{ type: 'observe', agent: 'pm', message: 'm2' }]);
    outbox.add(ONE, [{ type: 'interrupt', agent: 'pm', epoch: 1, graceMs: 0 }]);
    expect(outbox.lease(10, AT).rows.map((row) => row.lane)).toEqual(['interrupt:pm']);
  });

  test('a limit leaves the other lanes for the next lease', () => {
    const { outbox } = box();
    for (const channel of ['a', 'b', 'c']) outbox.add(channel, [post('x')]);
    expect([2, 2, 2].map((limit) => outbox.lease(limit, AT).rows.length)).toEqual([2, 1, 0]);
  });

  test('take the same time per entry with a long backlog', async () => {
    await mustGrowLinearly((size) => {
      const { outbox } = box();
      const effects = Array.from({ length: size }, (_, n) => post(`text ${n}`));
      outbox.add(ONE, effects);
      return () => {
        for (let n = 0; n < size / 40; n += 1) {
          const [row] = outbox.lease(10, AT).rows;
          expect(row?.text).toBe(`text ${n}`);
          if (row !== undefined) outbox.settle(row, { state: 'confirmed', platformId: `p${n}` });
        }
      };
    }, 8_000);
  });
});

test('a settled entry of a lane is on the disk before the next one is leased, however many other lanes were served meanwhile', () => {
  const { outbox, next } = box();
  outbox.add(ONE, [post('first')]);
  outbox.settle(next(), { state: 'confirmed', platformId: 'p1' });
  for (let n = 0; n < 3_000; n += 1) {
    outbox.add(`test:${n}`, [prompt('pm', 1)]);
    outbox.settle(next(), { state: 'confirmed', platformId: null });
  }
  expect(outbox.mustSettle()).toBe(false);
  outbox.add(ONE, [post('second')]);
  expect(outbox.mustSettle()).toBe(true);
});

describe('a lane behind another', () => {
  const done: Effect = { type: 'receipt', message: 'm1', receipt: 'done', epoch: 1 };
  const lanes = (from: Box, at: number): readonly string[] => from.lease(10, at).rows.map(({ lane }) => lane);

  test('T37 is leased once all earlier posts are confirmed, whatever came later', () => {
    const behind = new Box();
    behind.add(ONE, [post('one'), post('two'), done]);
    behind.add(ONE, [post('three')]);
    for (const text of ['one', 'two']) {
      const [row, ...more] = behind.lease(10, AT).rows;
      expect([row?.text, more]).toEqual([text, []]);
      if (row !== undefined) behind.settle(row, { state: 'confirmed', platformId: text });
    }
    expect(lanes(behind, AT).toSorted()).toEqual(['after:posts', 'posts']);
  });

  test('T37 waits for an earlier post that is retried, also after a kill', () => {
    const behind = new Box();
    behind.add(ONE, [post('one'), done]);
    const [row] = behind.lease(10, AT).rows;
    if (row !== undefined) behind.settle(row, { state: 'retry', notBefore: AT + 60_000 });
    expect(lanes(behind, AT + 59_999)).toEqual([]);
    behind.restart('killed');
    expect(lanes(behind, AT)).toEqual(['posts']);
  });

  test('T37 does not wait for other channels, or when no earlier post is pending', () => {
    const behind = new Box();
    behind.add('test:two', [post('elsewhere')]);
    behind.add(ONE, [done]);
    expect(lanes(behind, AT).toSorted()).toEqual(['after:posts', 'posts']);
  });
});

describe('a cancel', () => {
  test('cancels prompts and injections of its agent up to its epoch, and nothing else', () => {
    const { outbox, next } = box();
    const inject: Effect = { type: 'inject', agent: 'pm', epoch: 2, message: 'm2', observed: false };
    outbox.add(ONE, [prompt('pm', 1), inject, { type: 'observe', agent: 'pm', message: 'm3' }, prompt('pm', 3)]);
    outbox.add(ONE, [prompt('dev', 1), { type: 'cancel', agent: 'pm', epoch: 2 }]);
    outbox.settle(next(), { state: 'confirmed', platformId: null });
    expect([next(), next()].map((row) => `${row.lane} ${row.effect.type}`).toSorted()).toEqual([
      'agent:dev prompt',
      'agent:pm prompt',
    ]);
  });

  test('lets an entry in flight end, but not start again', () => {
    const { outbox, next } = box();
    outbox.add(ONE, [prompt('pm', 1)]);
    const row = next();
    outbox.add(ONE, [{ type: 'cancel', agent: 'pm', epoch: 1 }]);
    outbox.settle(row, { state: 'retry', notBefore: AT });
    expect(outbox.lease(10, AT)).toEqual({ rows: [], next: null });
  });

  test('cancels no entry for the platform', () => {
    const { outbox, next } = box();
    outbox.add(ONE, [post('a'), { type: 'cancel', agent: 'pm', epoch: 9 }]);
    expect(next()).toMatchObject({ text: 'a' });
  });
});

describe('after the program was killed', () => {
  test('the first row of every lane is uncertain because it may have been in flight; the others are not', () => {
    const { outbox } = box();
    outbox.add(ONE, [post('a'), post('b'), { type: 'receipt', message: 'm1', receipt: 'held' }]);
    outbox.restart('killed');
    const { rows } = outbox.lease(9, AT);
    expect(rows.map(({ lane, uncertain }) => [lane, uncertain])).toEqual([
      ['posts', true],
      ['receipts', true],
    ]);
    for (const row of rows) outbox.settle(row, { state: 'confirmed', platformId: 'p1' });
    expect(outbox.lease(9, AT).rows).toMatchObject([{ text: 'b', uncertain: false, afterId: 'p1' }]);
  });

  test('entries for agents are gone: their floors make new ones', () => {
    const { outbox } = box();
    outbox.add(ONE, [prompt('pm', 1), post('a')]);
    outbox.restart('killed');
    expect(outbox.lease(9, AT).rows.map(({ lane }) => lane)).toEqual(['posts']);
  });
});

describe('after thousands of posts', () => {
  /** An outbox with one post that cannot be sent, and thousands of later, confirmed posts in another channel. */
  const busy = (): Box => {
    const { outbox, next } = box();
    outbox.add(ONE, [post('stuck')]);
    outbox.settle(next(), { state: 'retry', notBefore: AT + 60_000 });
    for (let n = 1; n <= 11_000; n += 1) {
      outbox.add('test:two', [post(`text ${n}`)]);
      outbox.settle(next(), { state: 'confirmed', platformId: `p${n}` });
      outbox.commit();
    }
    return outbox;
  };

  test('a start finds the pending entry, and the last post of each channel', () => {
    const outbox = busy();
    outbox.add('test:two', [post('last')]);
    outbox.restart('killed');
    expect(outbox.lease(9, AT).rows).toMatchObject([
      { text: 'stuck', afterId: null },
      { text: 'last', afterId: 'p11000' },
    ]);
  });

  test('a start finds pending entries after all settled ones were pruned', () => {
    const outbox = busy();
    outbox.settle(outbox.lease(1, AT + 60_000).rows[0] ?? fail(), { state: 'confirmed', platformId: 'q' });
    for (let n = 1; n <= 10_000; n += 1) {
      outbox.add('test:two', [post('more')]);
      outbox.settle(outbox.lease(1, AT + 60_000).rows[0] ?? fail(), { state: 'confirmed', platformId: `r${n}` });
      outbox.commit();
    }
    outbox.prune();
    outbox.restart('killed');
    outbox.add(ONE, [post('new')]);
    outbox.restart('killed');
    expect(outbox.lease(9, AT).rows).toMatchObject([{ text: 'new', afterId: 'q' }]);
  });
});

function fail(): never {
  throw new Error('nothing is owed');
}

describe('after a normal end', () => {
  test('only entries in flight or uncertain ones are uncertain', () => {
    const { outbox, next } = box();
    outbox.add(ONE, [post('a')]);
    outbox.add('test:two', [post('b')]);
    outbox.add('test:three', [post('c')]);
    next();
    outbox.settle(next(), { state: 'uncertain', notBefore: AT + 5_000 });
    outbox.restart('in good order');
    const rows = outbox.lease(9, AT).rows.map(({ text, uncertain, attempts }) => [text, uncertain, attempts]);
    expect(rows).toEqual([
      ['a', true, 0],
      ['b', true, 0],
      ['c', false, 0],
    ]);
  });
});

describe('settling', () => {
  test('a row a second time changes nothing', () => {
    const { outbox, next } = box();
    outbox.add(ONE, [post('a'), post('b')]);
    const row = next();
    outbox.settle(row, { state: 'confirmed', platformId: 'p1' });
    outbox.settle(row, { state: 'retry', notBefore: AT });
    outbox.settle({ ...row, id: 'other-1' }, { state: 'failed', why: 'x' });
    expect(next()).toMatchObject({ text: 'b', afterId: 'p1' });
  });

  test('a row that was refused for good keeps the reason, and nothing waits for it', () => {
    const { outbox, next } = box();
    outbox.add(ONE, [post('a'), post('b')]);
    outbox.settle(next(), { state: 'failed', why: 'no such channel' });
    outbox.restart('killed');
    expect(next()).toMatchObject({ text: 'b', uncertain: true });
  });
});

test("ids consist of the journal's row and the position in it", () => {
  const { outbox } = box();
  outbox.add(ONE, [post('a'), prompt('pm', 1)]);
  outbox.add('test:two', [post('word '.repeat(20).trim())]);
  const first = outbox.lease(9, AT).rows;
  for (const row of first) outbox.settle(row, { state: 'confirmed', platformId: 'p' });
  expect([...first, ...outbox.lease(9, AT).rows].map(({ id }) => id)).toEqual([
    'box-1-0',
    'box-1-1',
    'box-2-0',
    'box-2-1',
  ]);
});

test('a blank text or a disabled announcement makes no entry', () => {
  const outbox = new Box(openDatabase(':memory:'), { words: () => null });
  outbox.add(ONE, [post(' \n '), announce(1)]);
  expect(outbox.lease(10, AT).rows).toEqual([]);
});

describe('a question of an agent that was restarted', () => {
  const question = { kind: 'approval', agent: 'pm', question: 8, title: 'rm', restarted: true } as const;
  const told = (detail: string, texts: Partial<ConstructorParameters<typeof Box>[1]> = {}) => {
    const words: FloorStoreOptions['words'] = (asked) =>
      asked.kind === 'approval' ? `8 ${asked.detail}`.trim() : asked.kind;
    const outbox = new Box(openDatabase(':memory:'), { words, ...texts });
    const { restarted: _restarted, ...before } = { ...question, detail };
    outbox.add(ONE, [
      { type: 'announce', announcement: before, key: 'approval:8', repeat: 1 },
      { type: 'announce', announcement: { ...question, detail }, key: 'approval:8', repeat: 2 },
      { type: 'announce', announcement: { kind: 'nobody' }, key: 'approval:8', repeat: 2 },
    ]);
    const seen: (readonly [string | null, string | null])[] = [];
    for (let [row] = outbox.lease(1, AT).rows; row !== undefined; [row] = outbox.lease(1, AT).rows) {
      seen.push([row.text, row.editsId]);
      outbox.settle(row, { state: 'confirmed', platformId: row.editsId ?? `p${seen.length}` });
    }
    return seen;
  };

  test('is edited when it is one message', () => {
    expect(told('ls').slice(1, 2)).toEqual([['8 ls', 'p1']]);
  });

  test.each([
    ['several messages', {}],
    ['a file', { fileAbove: () => 30 }],
  ])('is posted again below when it is %s, and its answer edits the first post', (_, texts) => {
    const seen = told('word '.repeat(20).trim(), texts);
    expect(seen.filter(([text]) => text === '8')).toEqual([['8', null]]);
    expect(seen.at(-1)?.[1]).toBe('p1');
  });
});
