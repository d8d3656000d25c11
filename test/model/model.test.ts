import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { TurnManager } from '../../src/turns/manager.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';
import { runMachine } from '../../src/work/runs/run-machine.ts';
import { CHANNELS } from './channels.ts';
import type { Channel } from './channels.ts';
import { searchRounds } from './rounds.ts';
import { searchRuns } from './runs.ts';
import { search } from './search.ts';
import { knownWays } from './ways.ts';

const LEAST_DEPTH = 3;

/** The depth of this channel's planted bugs. `npm run model` searches deeper. */
function depthOf({ name, opening }: Channel): number {
  const ways = [...knownWays().values()].filter(({ where }) => where === name);
  return Math.max(LEAST_DEPTH, ...ways.map(({ moves }) => moves.length - opening.length));
}

describe('every order of commands, a few commands deep', () => {
  test.for(CHANNELS.map((channel) => [channel.name, channel] as const))('breaks no invariant: %s', ([, channel]) => {
    const { found, transitions } = search(floorMachine, channel, { depth: depthOf(channel), first: false });
    assert.deepEqual(found, []);
    assert(transitions > 1_000, `only ${transitions} transitions were searched`);
  });
});

describe('every order of time passing inside commits, between looks and before alarms', () => {
  test('T48 loses no deadline, in any order of two happenings', async () => {
    const { found, schedules } = await searchRounds(TurnManager, { events: 2, first: false });
    assert.deepEqual(found, []);
    assert(schedules > 10_000, `only ${schedules} orders were played`);
  });
});

describe("every order of commands for a seat's runs", () => {
  test('breaks no invariant: runs nothing unasked, nothing twice, and leaves nothing waiting', () => {
    const { found, transitions } = searchRuns(runMachine, { depth: 6, first: false });
    assert.deepEqual(found, []);
    assert(transitions > 10_000, `only ${transitions} transitions were searched`);
  });
});

describe('the search of a core with a bug', () => {
  test('finds the bug with the shortest path to it', () => {
    const [channel] = CHANNELS.slice(1);
    assert(channel !== undefined);
    const forgetful: typeof floorMachine = { ...floorMachine, react: () => [] };
    const { found } = search(forgetful, channel, { depth: channel.smallDepth, first: true });
    assert.deepEqual(
      found.map(({ invariant, what, trace }) => ({ invariant, what, last: trace.at(-1)?.command.type })),
      [{ invariant: 'I8', what: 'a turn begins without its prompt', last: 'receive' }],
    );
  });

  test('finds a core that throws', () => {
    const [channel] = CHANNELS;
    assert(channel !== undefined);
    const broken: typeof floorMachine = {
      ...floorMachine,
      decide: (floor, command, at) => {
        if (command.type === 'join') throw new Error('impossible: somebody came');
        return floorMachine.decide(floor, command, at);
      },
    };
    const { found } = search(broken, channel, { depth: 2, first: true });
    assert.equal(found[0]?.invariant, 'total');
  });
});
