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

describe("every order of events of a floor and its holder's run", () => {
  test('keeps floor and run in step: neither goes on without the other', () => {
    const { found, transitions } = searchJoined({ floorWithWork, runOnFloor }, { depth: 4, first: false });
    assert.deepEqual(found, []);
    assert(transitions > 20_000, `only ${transitions} transitions were searched`);
  });

  test('keeps a floor and its background run in step: neither goes on without the other', () => {
    const { found, transitions } = searchJoined(
      { floorWithWork, runOnFloor },
      { depth: 6, first: false, scene: BESIDE },
    );
    assert.deepEqual(found, []);
    assert(transitions > 15_000, `only ${transitions} transitions were searched`);
  });

  test('gives no answer to an agent whose turn a restart took', () => {
    const { found, transitions } = searchJoined({ floorWithWork, runOnFloor }, { depth: 6, first: false, scene: CUT });
    assert.deepEqual(found, []);
    assert(transitions > 5_000, `only ${transitions} transitions were searched`);
  });
});

test('every order of events of a floor and its review breaks no invariant', () => {
  const { found, transitions } = searchReviewed({ floorWithWork, reviewOnFloor }, { depth: 8, first: false });
  assert.deepEqual(found, []);
  assert(transitions > 20_000, `only ${transitions} transitions were searched`);
});

describe('every order of events of a crew and the floors of its tickets', () => {
  test.for(CREW_STARTS.map((start) => [start.name, start] as const))('breaks no invariant: %s', ([, start]) => {
    const core = { floorWithWork, crewOnFloor };
    const { found, transitions } = searchCrew(core, start, { depth: start.smallDepth, first: false });
    assert.deepEqual(found, []);
    assert(transitions > 4_000, `only ${transitions} transitions were searched`);
  });
});

describe("every order of people who click on an agent's request", () => {
  test('counts exactly the clicks of people who may decide', async () => {
    const { found, clicks } = await searchClicks({ createOperators, createRunCommands }, { first: false });
    assert.deepEqual(found, []);
    assert(clicks > 500, `only ${clicks} clicks were made`);
  });
});
