import { readFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { thisWorld } from '../../src/config/world.ts';
import { carryOut } from '../../src/runtime/upkeep.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import { runKeyOf } from '../../src/work/runs/floor-binding.ts';
import { leftSteps } from '../../src/work/runs/run-left.ts';
import { folder } from '../engine/sqlite/fixture.ts';
import { seatOf } from '../turns/floor/stage.ts';
import { BESIDE, Bound, HALL, SEAT } from '../work/runs/bound.ts';
import { settle, start, step } from '../work/runs/fixture.ts';

/** pm takes up a message in a turn and uses a tool, whose output and the step are words of this turn alone. */
async function uses(bound: Bound, word: string): Promise<void> {
  const { epoch = 0, agent } = bound.hall.turn ?? {};
  if (agent !== 'pm') throw new Error('pm does not have the floor');
  await bound.floor({ type: 'use', agent, epoch });
  await bound.run({ type: 'KEEP', session: `${epoch}`, said: `["you said ${word}"]`, calls: `["${word}"]` });
  const id = `c${epoch}`;
  await bound.requests(id, { digest: `d-${epoch}`, verdict: 'allow' }, `${epoch}`);
  await bound.run({ type: 'CLAIM', call: id, digest: `d-${epoch}`, verdict: 'allow' });
  await bound.run({ ...settle(id), output: `found ${word}` } as Parameters<Bound['run']>[0]);
}

async function ends(bound: Bound): Promise<void> {
  const { epoch = 0, agent = '' } = bound.hall.turn ?? {};
  await bound.floor({ type: 'end', agent, epoch, outcome: 'completed', signalled: true });
}

/** Turns that ada and ben asked for, the second of which ada wrote into, and work beside the floor for ada. */
async function worked(path: string): Promise<Bound> {
  const bound = new Bound(path);
  await bound.floor(
    { type: 'configure', settings: PLAIN_SETTINGS, seats: [seatOf('pm')] },
    { type: 'join', agent: 'pm' },
  );
  await bound.hears('m1', 'ada');
  await uses(bound, 'word-ada-1');
  await ends(bound);
  await bound.hears('m2', 'ben');
  await uses(bound, 'word-ben-2');
  await bound.hears('m3', 'ada');
  await bound.floor({
    type: 'injected',
    agent: 'pm',
    epoch: bound.hall.turn?.epoch ?? 0,
    id: 'm3',
    outcome: 'injected',
  });
  await ends(bound);
  await bound.hears('m4', 'ben');
  await uses(bound, 'word-ben-4');
  await bound.beside(
    start({ runType: 'background', requestedBy: 'ada', session: '1', prompt: `${'Look. '.repeat(40)}word-ada-beside` }),
    step(1, [], '1'),
  );
  return bound;
}

const WORDS = ['word-ada-1', 'word-ben-2', 'word-ben-4', 'word-ada-beside'];

function left(file: (name?: string) => string): readonly string[] {
  const bytes = ['conch.db', 'conch.db-wal'].map((name) => readFileSync(file(name)));
  return WORDS.filter((word) => bytes.some((each) => each.includes(word)));
}

async function erase(bound: Bound, what: 'person' | 'message', id: string): Promise<string> {
  const config = loadConfig({ ...thisWorld(), env: {}, cwd: '/' }, 'look');
  const parts = { store: bound.store, config: () => config, clock: { now: () => bound.at } };
  const { text } = await carryOut({ act: 'erase', what, id }, parts);
  return text;
}

describe('an erasure', () => {
  test.each([
    ['person', 'ada', ['word-ben-4']],
    ['person', 'ben', ['word-ada-1', 'word-ada-beside']],
    ['message', 'm1', ['word-ben-2', 'word-ben-4', 'word-ada-beside']],
    ['message', 'm3', ['word-ada-1', 'word-ben-4', 'word-ada-beside']],
    ['message', 'm9', WORDS],
  ] as const)('of %s %s reaches steps and outputs of what was done for them, and no others', async (what, id, kept) => {
    using place = folder();
    const bound = await worked(place.file());
    expect(left(place.file)).toEqual(WORDS);
    await erase(bound, what, id);
    expect(left(place.file)).toEqual(kept);
    expect(bound.store.verify()).toEqual([]);
    for (const seat of [SEAT, BESIDE])
      expect(bound.runs.replay(runKeyOf(seat))).toMatchObject({ brokenAt: null, stoppedBy: null, equal: true });
    const { state } = bound;
    await bound.dies();
    expect([bound.store.verify(), bound.state.totals]).toEqual([[], state.totals]);
    await bound.store.close();
  });

  test('leaves nothing to go on with of a turn whose steps it took', async () => {
    using place = folder();
    const bound = await worked(place.file());
    expect(leftSteps(bound.runs.newest(runKeyOf(SEAT)))).toMatchObject({ steps: [{ calls: '["word-ben-4"]' }] });
    await erase(bound, 'message', 'm4');
    expect(leftSteps(bound.runs.newest(runKeyOf(SEAT)))).toBeNull();
    expect(bound.store.journal(HALL, 1)).toHaveLength(1);
    await bound.store.close();
  });

  test('of a text that was put in the place of an erased one shows', async () => {
    using place = folder();
    const bound = await worked(place.file());
    await erase(bound, 'person', 'ada');
    await bound.store.close();
    const db = new Database(place.file());
    db.exec(`UPDATE journal SET body = '[["salt","evil"]]' WHERE facts LIKE '%callSettled%' AND body IS NULL`);
    db.close();
    await bound.dies().catch(() => {});
    expect(bound.store.verify()).not.toEqual([]);
    await bound.store.close();
  });
});
