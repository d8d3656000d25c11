import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { CORE } from '../../src/turns/store/core.ts';
import { CHANNELS } from './channels.ts';
import { search } from './search.ts';

describe('every order of commands, a few commands deep', () => {
  test.for(CHANNELS.map((channel) => [channel.name, channel] as const))('breaks no invariant: %s', ([, channel]) => {
    const { found, transitions } = search(CORE, channel, { depth: channel.smallDepth, first: false });
    assert.deepEqual(found, []);
    assert(transitions > 1_000, `only ${transitions} transitions were searched`);
  });
});

describe('a core with a bug', () => {
  test('is found out, with the shortest way to the bug', () => {
    const [channel] = CHANNELS.slice(1);
    assert(channel !== undefined);
    const forgetful: typeof CORE = { ...CORE, react: () => [] };
    const { found } = search(forgetful, channel, { depth: channel.smallDepth, first: true });
    assert.deepEqual(
      found.map(({ invariant, what, trace }) => ({ invariant, what, last: trace.at(-1)?.command.type })),
      [{ invariant: 'I8', what: 'a turn begins without its prompt', last: 'receive' }],
    );
  });

  test('is found out when it throws', () => {
    const [channel] = CHANNELS;
    assert(channel !== undefined);
    const broken: typeof CORE = {
      ...CORE,
      decide: (floor, command, at) => {
        if (command.type === 'join') throw new Error('impossible: somebody came');
        return CORE.decide(floor, command, at);
      },
    };
    const { found } = search(broken, channel, { depth: 2, first: true });
    assert.equal(found[0]?.invariant, 'total');
  });
});
