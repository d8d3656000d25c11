import { describe, expect, test } from 'vitest';
import type { Effect } from '../../../src/turns/floor/effect.ts';
import { openDatabase } from '../../../src/engine/sqlite/open.ts';
import { Outbox, recoverOutbox } from '../../../src/engine/sqlite/outbox.ts';
import type { Lease, Settlement } from '../../../src/engine/port.ts';
import type { OutboxRow } from '../../../src/turns/records.ts';
import type { FloorStoreOptions } from '../../../src/turns/floor-store.ts';
import { effectOf, floorUses } from '../../../src/turns/floor-uses.ts';
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

/** An outbox to which effects of floors are owed as a floor owes them. */
class Box {
  readonly #outbox: Outbox;
  readonly #uses;

  constructor(db = openDatabase(':memory:'), changes: Partial<FloorStoreOptions> = {}) {
    this.#outbox = new Outbox(db, 'box');
    this.#uses = floorUses(options(':memory:', changes)).outbox;
  }

  owe(channel: string, effects: readonly Effect[]): void {
    this.#outbox.owe(effects.flatMap((effect) => this.#uses?.owes(channel, effect) ?? []));
  }

  lease(limit: number, at: number): Lease<Effect> {
    const { rows, next } = this.#outbox.lease(limit, at);
    return { rows: rows.map((row) => ({ ...row, effect: effectOf(row.effect, row.text) })), next };
  }

  settle(row: OutboxRow, settlement: Settlement): void {
    this.#outbox.settle(row, settlement);
  }
}

function box(): { readonly outbox: Box; readonly next: () => OutboxRow; readonly crash: () => void } {
  const db = openDatabase(':memory:');
  const outbox = new Box(db);
  const next = (): OutboxRow => {
    const [row] = outbox.lease(1, AT).rows;
    if (row === undefined) throw new Error('nothing is owed');
    return row;
  };
  return { outbox, next, crash: () => recoverOutbox(db, ['posts', 'receipts']) };
}

describe('a text beyond the length of a file', () => {
  const long = 'word '.repeat(40).trim();

  test('stays one row when an agent says it, and is split when it is announced', () => {
    const db = openDatabase(':memory:');
    const outbox = new Box(db, { fileAbove: () => 100, words: () => long });
    outbox.owe(ONE, [post(long), post('word '.repeat(20).trim()), announce(1)]);
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

test('T53 a question beyond the length of a file stays one row, and what lets people answer comes behind it', () => {
  const long = 'word '.repeat(40).trim();
  const db = openDatabase(':memory:');
  const outbox = new Box(db, { fileAbove: () => 100, words: () => long });
  const announcement = { kind: 'approval', agent: 'pm', question: 8, title: 'rm', detail: long } as const;
  outbox.owe(ONE, [
    { type: 'announce', announcement, key: 'approval:8', repeat: 1 },
    { type: 'offer', question: 8 },
    post('later'),
  ]);
  const seen: unknown[] = [];
  for (let [row, ...more] = outbox.lease(9, AT).rows; row !== undefined; [row, ...more] = outbox.lease(9, AT).rows) {
    seen.push([row.effect.type, row.text?.length ?? null, more.length]);
    outbox.settle(row, { state: 'confirmed', platformId: null });
  }
  expect(seen).toEqual([
    ['announce', long.length, 0],
    ['offer', null, 0],
    ['post', 5, 0],
  ]);
});

describe('an announcement that recurs', () => {
  test('edits the one that was confirmed', () => {
    const { outbox, next } = box();
    outbox.owe(ONE, [announce(1), announce(2), announce(3)]);
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

  test('is a new post when the first never got through', () => {
    const { outbox, next } = box();
    outbox.owe(ONE, [announce(1), announce(2)]);
    outbox.settle(next(), { state: 'failed', why: 'refused' });
    expect(next()).toMatchObject({ text: 'timeout 2', editsId: null });
  });

  test('stands alone when it occurs anew', () => {
    const { outbox, next } = box();
    outbox.owe(ONE, [announce(1), announce(1)]);
    outbox.settle(next(), { state: 'confirmed', platformId: 'p1' });
    expect(next().editsId).toBeNull();
  });
});

describe('lanes', () => {
  test('are served side by side, the oldest first', () => {
    const { outbox } = box();
    outbox.owe(ONE, [prompt('pm', 1), post('a'), { type: 'receipt', message: 'm1', receipt: 'held' }, post('b')]);
    outbox.owe('test:two', [post('c')]);
    expect(outbox.lease(10, AT).rows.map((row) => `${row.channel} ${row.lane}`)).toEqual([
      'test:one agent:pm',
      'test:one posts',
      'test:one receipts',
      'test:two posts',
    ]);
  });

  test('an interrupt overtakes what its agent is owed', () => {
    const { outbox } = box();
    outbox.owe(ONE, [prompt('pm', 1)]);
    outbox.lease(10, AT);
    outbox.owe(ONE, [{ type: 'observe', agent: 'pm', message: 'm2' }]);
    outbox.owe(ONE, [{ type: 'interrupt', agent: 'pm', epoch: 1, graceMs: 0 }]);
    expect(outbox.lease(10, AT).rows.map((row) => row.lane)).toEqual(['interrupt:pm']);
  });

  test('a limit leaves the rest for the next call', () => {
    const { outbox } = box();
    for (const channel of ['a', 'b', 'c']) outbox.owe(channel, [post('x')]);
    expect([2, 2, 2].map((limit) => outbox.lease(limit, AT).rows.length)).toEqual([2, 1, 0]);
  });

  test('take no longer one by one with a long backlog', async () => {
    await mustGrowLinearly((size) => {
      const { outbox } = box();
      const effects = Array.from({ length: size }, (_, n) => post(`text ${n}`));
      outbox.owe(ONE, effects);
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

describe('a cancel', () => {
  test('takes back prompts and injections of its agent up to its epoch, and nothing else', () => {
    const { outbox, next } = box();
    const inject: Effect = { type: 'inject', agent: 'pm', epoch: 2, message: 'm2', observed: false };
    outbox.owe(ONE, [prompt('pm', 1), inject, { type: 'observe', agent: 'pm', message: 'm3' }, prompt('pm', 3)]);
    outbox.owe(ONE, [prompt('dev', 1), { type: 'cancel', agent: 'pm', epoch: 2 }]);
    outbox.settle(next(), { state: 'confirmed', platformId: null });
    expect([next(), next()].map((row) => [row.lane, row.effect.type])).toEqual([
      ['agent:pm', 'prompt'],
      ['agent:dev', 'prompt'],
    ]);
  });

  test('lets what is in flight end, but not start again', () => {
    const { outbox, next } = box();
    outbox.owe(ONE, [prompt('pm', 1)]);
    const row = next();
    outbox.owe(ONE, [{ type: 'cancel', agent: 'pm', epoch: 1 }]);
    outbox.settle(row, { state: 'retry', notBefore: AT });
    expect(outbox.lease(10, AT)).toEqual({ rows: [], next: null });
  });

  test('holds over a crash', () => {
    const { outbox, next, crash } = box();
    outbox.owe(ONE, [prompt('pm', 1), prompt('pm', 2)]);
    next();
    outbox.owe(ONE, [{ type: 'cancel', agent: 'pm', epoch: 1 }]);
    crash();
    expect(next().effect).toMatchObject({ type: 'prompt', epoch: 2 });
  });
});

describe('settling', () => {
  test('a row twice changes nothing', () => {
    const { outbox, next } = box();
    outbox.owe(ONE, [post('a'), post('b')]);
    const row = next();
    outbox.settle(row, { state: 'confirmed', platformId: 'p1' });
    outbox.settle(row, { state: 'retry', notBefore: AT });
    outbox.settle({ ...row, id: 'other-1' }, { state: 'failed', why: 'x' });
    expect(next()).toMatchObject({ text: 'b', afterId: 'p1' });
  });

  test('never gives an id again, also when its row is gone', () => {
    const db = openDatabase(':memory:');
    const ids = [1, 2].map(() => {
      const outbox = new Box(db);
      outbox.owe(ONE, [{ type: 'receipt', message: 'm1', receipt: 'held' }]);
      const [row] = outbox.lease(1, AT).rows;
      if (row !== undefined) outbox.settle(row, { state: 'confirmed', platformId: null });
      return row?.id;
    });
    expect(ids).toEqual(['box-1', 'box-2']);
  });
});

test('a blank text or an announcement that is switched off owes nothing', () => {
  const outbox = new Box(openDatabase(':memory:'), { words: () => null });
  outbox.owe(ONE, [post(' \n '), announce(1)]);
  expect(outbox.lease(10, AT).rows).toEqual([]);
});
