import { describe, expect, test } from 'vitest';
import { openDatabase } from '../../../src/engine/sqlite/open.ts';
import { SqliteStore } from '../../../src/engine/sqlite/sqlite.ts';
import { runMachine } from '../../../src/work/runs/run-machine.ts';
import { folder } from '../../engine/sqlite/fixture.ts';
import { counter } from '../../engine/toy.ts';
import { AT, KEY, WAIT_MS, asking, call, claim, recover, settle, start, step } from './fixture.ts';

function open(path: string): SqliteStore {
  return new SqliteStore(openDatabase(path), { path, clock: { now: () => AT }, statesInMemory: 100 });
}

/** A machine whose facts all start the same run, as a fact of the floor starts a run. */
const granting = {
  ...counter,
  name: 'granting',
  causes: () => [{ machine: 'run', key: KEY, command: start({ cause: 'grant 1' }) }],
} satisfies typeof counter;

describe('a run in a store', () => {
  test('is in the same state after a restart, with its request and deadline, and replays to an equal state', async () => {
    using place = folder();
    const store = open(place.file());
    const runs = store.host(runMachine);
    await runs.apply(KEY, start(), AT);
    await runs.apply(KEY, step(1, [call('a'), asking('b')]), AT);
    await runs.apply(KEY, claim('a'), AT);
    await runs.apply(KEY, settle('a'), AT);
    const before = runs.state(KEY);
    await store.close();
    const again = open(place.file());
    const found = again.host(runMachine);
    expect(found.state(KEY)).toEqual(before);
    expect(await found.due(AT)).toEqual({ keys: [], next: AT + WAIT_MS });
    expect(await found.apply(KEY, recover, AT)).toMatchObject({ ok: false, refusal: 'NOT_DUE' });
    expect(found.replay(KEY, () => undefined)).toMatchObject({ brokenAt: null, stoppedBy: null, equal: true });
    expect(await found.due(AT + WAIT_MS)).toEqual({ keys: [KEY], next: null });
    await found.apply(KEY, { type: 'TICK' }, AT + WAIT_MS);
    expect([found.state(KEY)?.status, again.verify()]).toEqual(['idle', []]);
    await again.close();
  });

  test('starts once, in one transaction with the fact that causes it', async () => {
    const store = open(':memory:');
    const [runs, grants] = [store.host(runMachine), store.host(granting)];
    await grants.apply('g', { type: 'add', by: 1 }, AT);
    expect(runs.state(KEY)?.status).toBe('starting');
    await runs.apply(KEY, { type: 'ABORT', reason: 'x', by: null }, AT);
    await grants.apply('g', { type: 'add', by: 1 }, AT);
    expect([runs.state(KEY)?.status, runs.state(KEY)?.totals.runs]).toEqual(['idle', 1]);
    await store.close();
  });
});
