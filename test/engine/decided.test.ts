import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { Decided, decideChain } from '../../src/engine/machine.ts';
import type { Deciding } from '../../src/engine/machine.ts';
import { AT } from './sqlite/fixture.ts';
import { board } from './toy.ts';

/** Collects only young memory. An object that survives a second collection becomes old. */
function collector(): () => void {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as (options: { type: 'minor' }) => void;
  return () => gc({ type: 'minor' });
}

function oldBytes(): number {
  return getHeapSpaceStatistics().find(({ space_name: name }) => name === 'old_space')?.space_used_size ?? 0;
}

test('decisions that were written never reach old memory: young collections free them', () => {
  const collect = collector();
  const drafts = new Decided(
    board,
    {},
    {
      state: () => ({ state: { count: 0 }, seq: 0 }),
      isDone: () => false,
      inbox: { read: () => null },
    },
  );
  const owner: Deciding = { take: () => {}, drop: () => drafts.drop() };
  const hundred = (): void => {
    for (let n = 0; n < 100; n += 1) {
      decideChain(
        AT,
        (chain) => drafts.decide('a', { type: 'pin', text: 'x' }, { chain, owner }),
        () => null,
      );
      drafts.takeAll();
      if (n % 10 === 9) collect();
    }
  };
  // Lets objects that stay alive become old first.
  for (let times = 0; times < 3; times += 1) collect();
  hundred();
  const grown = (): number => {
    const before = oldBytes();
    for (let rounds = 0; rounds < 20; rounds += 1) hundred();
    return oldBytes() - before;
  };
  // Code is compiled into old memory, too, at any time: the least growth counts.
  expect(Math.min(grown(), grown(), grown())).toBeLessThan(500_000);
});
