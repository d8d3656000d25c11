import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { runOnFloor } from '../../src/work/runs/floor-binding.ts';
import { reviewOnFloor } from '../../src/work/reviews/review-binding.ts';
import { crewOnFloor } from '../../src/work/crews/crew-binding.ts';
import { CREW_STARTS, searchCrew } from './crews.ts';
import { searchReviewed } from './reviews.ts';
import { BESIDE } from './beside.ts';
import { CUT, searchJoined } from './joined.ts';
import { createOperators } from '../../src/turns/commands/execute.ts';
import { createRunCommands } from '../../src/work/runs/run-commands.ts';
import { searchClicks } from './approvers.ts';

describe('every order of what happens to a floor and the run of its holder', () => {
  test('leaves neither going on without the other', () => {
    const { found, transitions } = searchJoined({ floorWithWork, runOnFloor }, { depth: 4, first: false });
    assert.deepEqual(found, []);
    assert(transitions > 20_000, `only ${transitions} transitions were searched`);
  });

  test('leaves neither a floor nor the work beside it going on without the other', () => {
    const { found, transitions } = searchJoined(
      { floorWithWork, runOnFloor },
      { depth: 6, first: false, scene: BESIDE },
    );
    assert.deepEqual(found, []);
    assert(transitions > 15_000, `only ${transitions} transitions were searched`);
  });

  test('leaves no answer to an agent that a restart took without its turn', () => {
    const { found, transitions } = searchJoined({ floorWithWork, runOnFloor }, { depth: 6, first: false, scene: CUT });
    assert.deepEqual(found, []);
    assert(transitions > 5_000, `only ${transitions} transitions were searched`);
  });
});

test('every order of what happens to a floor and its review breaks no promise', () => {
  const { found, transitions } = searchReviewed({ floorWithWork, reviewOnFloor }, { depth: 8, first: false });
  assert.deepEqual(found, []);
  assert(transitions > 20_000, `only ${transitions} transitions were searched`);
});

describe('every order of what happens to a crew and the floors of its tickets', () => {
  test.for(CREW_STARTS.map((start) => [start.name, start] as const))('breaks no promise: %s', ([, start]) => {
    const core = { floorWithWork, crewOnFloor };
    const { found, transitions } = searchCrew(core, start, { depth: start.smallDepth, first: false });
    assert.deepEqual(found, []);
    assert(transitions > 4_000, `only ${transitions} transitions were searched`);
  });
});

describe('everybody who clicks on what an agent asks, in every order', () => {
  test('decides exactly when he may', async () => {
    const { found, clicks } = await searchClicks({ createOperators, createRunCommands }, { first: false });
    assert.deepEqual(found, []);
    assert(clicks > 500, `only ${clicks} clicks were made`);
  });
});
