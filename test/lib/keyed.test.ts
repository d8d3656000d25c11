import { describe, expect, test } from 'vitest';
import { KeyedQueue, atMost, foundOnce, idIndex } from '../../src/lib/keyed.ts';

describe('a keyed queue', () => {
  test('runs jobs of one key in order, and jobs of different keys concurrently', async () => {
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

  test('runs the next job after a failed one, and rejects the promise of the failed job', async () => {
    const queue = new KeyedQueue<string>();
    const failed = queue.run('a', () => Promise.reject(new Error('no')));
    const after = queue.run('a', async () => 'yes');
    await expect(failed).rejects.toThrow('no');
    await expect(after).resolves.toBe('yes');
  });

  test('counts the waiting and running jobs of a key, and none when all have ended', async () => {
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

describe('a limit of concurrent jobs', () => {
  test('T27 starts waiting jobs in order, as soon as a running job ends or fails', async () => {
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

describe('a cached result for a list', () => {
  test('is computed once for each list object', () => {
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

  test('can be an index by id', () => {
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
