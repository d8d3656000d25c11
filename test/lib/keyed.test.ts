import { describe, expect, test } from 'vitest';
import { KeyedQueue, atMost, foundOnce, idIndex } from '../../src/lib/keyed.ts';

describe('a keyed queue', () => {
  test('runs jobs of one key in order and those of another beside them', async () => {
    const queue = new KeyedQueue<string>();
    const seen: string[] = [];
    const gate = Promise.withResolvers<void>();
    const first = queue.run('a', async () => {
      seen.push('a1 begins');
      await gate.promise;
      seen.push('a1 ends');
    });
    const second = queue.run('a', async () => void seen.push('a2'));
    await queue.run('b', async () => void seen.push('b1'));
    gate.resolve();
    await Promise.all([first, second]);
    expect(seen).toEqual(['a1 begins', 'b1', 'a1 ends', 'a2']);
  });

  test('goes on behind a job that failed, and tells whoever handed that in', async () => {
    const queue = new KeyedQueue<string>();
    const failed = queue.run('a', () => Promise.reject(new Error('no')));
    const after = queue.run('a', async () => 'yes');
    await expect(failed).rejects.toThrow('no');
    await expect(after).resolves.toBe('yes');
  });

  test('counts what is unfinished and forgets a key that is done', async () => {
    const queue = new KeyedQueue<string>();
    const gate = Promise.withResolvers<void>();
    void queue.run('a', () => gate.promise);
    void queue.run('a', async () => undefined);
    expect([queue.unfinished('a'), queue.unfinished('b')]).toEqual([2, 0]);
    gate.resolve();
    await queue.settled();
    expect(queue.unfinished('a')).toBe(0);
  });
});

describe('work of which only so much goes on at a time', () => {
  test('T27 begins in order as soon as there is room, also behind what failed', async () => {
    const limited = atMost(2);
    const gates = Array.from({ length: 4 }, () => Promise.withResolvers<void>());
    const begun: number[] = [];
    const all = gates.map(({ promise }, index) => limited(async () => (begun.push(index), await promise)));
    const ended = Promise.allSettled(all);
    expect(begun).toEqual([0, 1]);
    gates[1]?.reject(new Error('no'));
    await expect(all[1]).rejects.toThrow('no');
    await Promise.resolve();
    expect(begun).toEqual([0, 1, 2]);
    for (const { resolve } of gates) resolve();
    await ended;
    expect(begun).toEqual([0, 1, 2, 3]);
    expect(await limited(async () => 'room again')).toBe('room again');
  });
});

describe('what follows from a list', () => {
  test('is found out once for each list, however often it is asked for', () => {
    const looked: string[][] = [];
    const longest = foundOnce((list: string[]) => {
      looked.push(list);
      return list.toSorted((a, b) => b.length - a.length)[0];
    });
    const [one, other] = [
      ['a', 'bb'],
      ['a', 'bb'],
    ];
    expect([longest(one), longest(one), longest(other)]).toEqual(['bb', 'bb', 'bb']);
    expect(looked).toEqual([one, other]);
  });

  test('is an index by ids, made once', () => {
    const find = idIndex<{ readonly id: string; readonly n: number }>();
    const list = [
      { id: 'a', n: 1 },
      { id: 'b', n: 2 },
    ];
    expect(find(list).get('b')).toEqual({ id: 'b', n: 2 });
    expect(find(list)).toBe(find(list));
    expect(find([]).get('b')).toBeUndefined();
  });
});
