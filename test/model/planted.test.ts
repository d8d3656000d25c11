import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeAll, describe, test } from 'vitest';
import type { CaughtBugs } from './catch.ts';
import { withoutPlace } from './plant.ts';

const LIMIT_MS = 600_000;

let caught: Readonly<Record<string, CaughtBugs>> = {};

beforeAll(async () => {
  const program = new URL('catch.ts', import.meta.url).pathname;
  const { stdout } = await promisify(execFile)(process.execPath, [program]);
  caught = JSON.parse(stdout) as typeof caught;
}, LIMIT_MS);

describe('a planted bug', () => {
  test('in the floor or the rounds still has its place in the code', async () => {
    assert.deepEqual(await withoutPlace(), []);
  });

  test.each([
    ['in the floor', 'floor', 100],
    ['T48 in the rounds', 'rounds', 5],
    ['in the run machine', 'runs', 26],
    ['where a floor and a run meet', 'joined', 21],
    ['in who may answer', 'clicks', 6],
    ['where a floor and a review meet', 'reviews', 19],
    ['where a crew and the floors of its tickets meet', 'crews', 61],
    ['T72 in the trust in folders', 'folders', 10],
  ])('%s is found by the search', (_where, kind, least) => {
    const { planted = 0, unseen = ['no result'] } = caught[kind] ?? {};
    assert.deepEqual(unseen, []);
    assert(planted >= least, `only ${planted} bugs are planted`);
  });
});
