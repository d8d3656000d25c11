import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Deadlines } from '../../src/lib/time.ts';

describe('deadlines of many keys', () => {
  test('are due at their instant and not a millisecond before', () => {
    const deadlines = new Deadlines();
    deadlines.set('a', 60_000);
    expect(deadlines.due(59_999)).toEqual({ keys: [], next: 60_000 });
    expect(deadlines.due(60_000)).toEqual({ keys: ['a'], next: null });
  });

  test('stay due until they move', () => {
    const deadlines = new Deadlines();
    deadlines.set('a', 1);
    expect(deadlines.due(1).keys).toEqual(['a']);
    expect(deadlines.due(1).keys).toEqual(['a']);
    deadlines.set('a', 5);
    expect(deadlines.due(1)).toEqual({ keys: [], next: 5 });
  });

  test('agree with a plain map after any number of moves', () => {
    const move = fc.record({ key: fc.constantFrom('a', 'b', 'c', 'd'), at: fc.option(fc.nat(20)), ask: fc.nat(20) });
    fc.assert(
      fc.property(fc.array(move, { size: 'max', maxLength: 500 }), (moves) => {
        const deadlines = new Deadlines();
        const plain = new Map<string, number>();
        for (const { key, at, ask } of moves) {
          deadlines.set(key, at);
          if (at === null) plain.delete(key);
          else plain.set(key, at);
          const inOrder = [...plain].toSorted(([a, x], [b, y]) => x - y || (a < b ? -1 : 1));
          const due = inOrder.filter(([, each]) => each <= ask).map(([each]) => each);
          const next = inOrder.find(([, each]) => each > ask)?.[1] ?? null;
          expect(deadlines.due(ask)).toEqual({ keys: due, next });
        }
      }),
    );
  });
});
