import { afterEach, expect, test } from 'vitest';
import { DEMO_REVIEWS } from '../../../src/agents/backends/scripted/demo-reviews.ts';
import { SCRIPTS } from '../../../src/agents/backends/scripted/personas.ts';
import { createScriptedBackend } from '../../../src/agents/backends/scripted/scripted-backend.ts';
import { openStage } from './stage.ts';

let stage: Awaited<ReturnType<typeof openStage>> | null = null;

afterEach(async () => {
  await stage?.stop();
  stage = null;
});

/** A room with the demo's agents, who type without pauses. */
async function demo() {
  const backendFor = (id: string) =>
    createScriptedBackend({
      script: id === 'qa' ? SCRIPTS.qa : SCRIPTS.dev,
      speed: { sleep: async () => {}, wordMs: 0 },
    });
  stage = await openStage({ agents: { dev: () => '', qa: () => '' }, backendFor });
  return stage;
}

const ENDS = {
  pass: ['passed', 2],
  fail: ['failed', 1],
  stall: ['the work did not change in 2 iterations', 3],
  dispute: ['a finding was disputed twice: An empty input is accepted', 3],
} as const;

test.each(DEMO_REVIEWS)('$example: $shows', async ({ example, task }) => {
  const room = await demo();
  await room.command(example);
  const { outcome, waiting, iteration } = await room.settled();
  expect([outcome?.kind ?? waiting?.why, iteration]).toEqual(ENDS[task]);
});

test('passes a task without a demo word in the second iteration', async () => {
  const room = await demo();
  await room.command('/review start dev qa build a clock');
  const { outcome, iteration } = await room.settled();
  expect([outcome?.kind, iteration]).toEqual(['passed', 2]);
});

test.each([
  ['/review accept', 'passed', 3],
  ['/review uphold', 'passed', 4],
  ['/review cancel', 'cancelled', 3],
])('ends a dispute by the choice of a person: %s', async (choice, kind, iterations) => {
  const room = await demo();
  await room.command('/review start dev qa dispute');
  await room.settled();
  await room.command(choice);
  const { outcome, iteration } = await room.over();
  expect([outcome?.kind, iteration]).toEqual([kind, iterations]);
});
