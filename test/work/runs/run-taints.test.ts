import { describe, expect, test } from 'vitest';
import type { Requester } from '../../../src/turns/requesters.ts';
import type { Line } from '../../../src/turns/view.ts';
import type { RunSeat } from '../../../src/work/runs/floor-binding.ts';
import { RunTaints } from '../../../src/work/runs/run-taints.ts';
import { spoken } from '../../agents/backends/conversation.ts';
import { folder } from '../../engine/sqlite/fixture.ts';
import { BESIDE, Bound, HALL, SEAT } from './bound.ts';
import { call } from './fixture.ts';

const DEV = { channel: HALL, agent: 'dev' };

function taintsOf(bound: Bound, said: readonly Pick<Line, 'line' | 'at' | 'author'>[] = []): RunTaints {
  const clock = { now: () => bound.at };
  const failed = (error: unknown) => {
    throw error;
  };
  const vouched = (_seat: RunSeat, { id }: Requester) => id === 'ann';
  return new RunTaints({ runs: bound.runs, clock, failed, vouched, said: () => said });
}

const line = (agent: string, at: number) => ({ ...spoken(1, agent, 'Write it'), at });
const CLEAN = { untrusted: null, private: null };
const settled = (): Promise<void> => new Promise(setImmediate);

describe('a session that has read untrusted text', () => {
  test('is tainted as soon as the call may run, also after a restart', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    const taints = taintsOf(bound);
    expect(taints.of(SEAT)).toEqual(CLEAN);
    await bound.run({ type: 'STEP', session: '1', turn: 2, toolCalls: [call('a')] });
    const brings = { untrusted: 'mcp__web__fetch', private: '.env' };
    await bound.run({ type: 'CLAIM', call: 'a', digest: 'd-a', verdict: 'allow', brings });
    const read = {
      untrusted: { since: bound.at, from: 'mcp__web__fetch' },
      private: { since: bound.at, from: '.env' },
    };
    expect(taints.of(SEAT)).toEqual(read);
    await bound.dies();
    const later = taintsOf(bound);
    expect(later.of(SEAT)).toEqual(read);
    await bound.store.close();
  });

  test('keeps both labels over an erasure, also when its first run began after the start', async () => {
    const bound = await new Bound().begins();
    const taints = taintsOf(bound);
    expect([taints.of(SEAT), taints.of(DEV)]).toEqual([CLEAN, CLEAN]);
    taints.mark(DEV, 'mcp__web__fetch');
    taints.mark(DEV, '.env', 'private');
    await settled();
    const read = taints.of(DEV);
    taints.clearCache();
    expect(taints.of(DEV)).toEqual(read);
    expect(read).not.toEqual(CLEAN);
  });

  test('taints agents that read its later text, and not those that read its earlier text', async () => {
    const bound = await new Bound().begins();
    const taints = taintsOf(bound);
    taints.mark(SEAT, 'mcp__web__fetch');
    taints.read(DEV, [line('pm', bound.at - 1), line('qa', bound.at)]);
    expect(taints.of(DEV)).toEqual(CLEAN);
    taints.read(DEV, [line('pm', bound.at)]);
    await settled();
    expect(taints.of(DEV).untrusted?.from).toBe('mcp__web__fetch, by way of pm');
    taints.read({ channel: HALL, agent: 'qa' }, [line('dev', bound.at)]);
    expect(taints.of({ channel: HALL, agent: 'qa' }).untrusted?.from).toBe('mcp__web__fetch, by way of dev');
  });

  test('of a background run taints only by its report, also after its end', async () => {
    const bound = await new Bound().begins();
    const taints = taintsOf(bound);
    taints.mark(BESIDE, 'mcp__web__fetch');
    await settled();
    bound.at += 1_000;
    taints.forget(BESIDE, 0);
    await settled();
    bound.at += 1_000;
    taints.read(DEV, [line('pm', bound.at)]);
    expect(taints.of(DEV)).toEqual(CLEAN);
    taints.read(DEV, [{ ...line('pm', bound.at), aside: true }]);
    expect(taints.of(DEV).untrusted?.from).toBe('mcp__web__fetch, by way of pm');
  });

  test('is replaced by a clean session, which is tainted again when it reads tainted text', async () => {
    const bound = await new Bound().begins();
    const taints = taintsOf(bound);
    taints.mark(SEAT, 'mcp__web__fetch');
    await settled();
    const written = line('pm', bound.at);
    bound.at += 1_000;
    taints.forget(SEAT, 0);
    await settled();
    expect([taints.of(SEAT), bound.state.taint]).toEqual([CLEAN, undefined]);
    taints.read(SEAT, [line('pm', bound.at + 1)]);
    expect(taints.of(SEAT)).toEqual(CLEAN);
    taints.read(SEAT, [written]);
    expect(taints.of(SEAT).untrusted?.from).toBe('mcp__web__fetch, by way of pm');
  });

  test('taints readers of its text even after thirty later sessions', async () => {
    const bound = await new Bound().begins();
    const taints = taintsOf(bound);
    const beginning = bound.at;
    for (let session = 0; session < 30; session += 1) {
      taints.mark(SEAT, 'mcp__web__fetch');
      await settled();
      bound.at += 1_000;
      taints.forget(SEAT, 0);
      await settled();
    }
    expect(bound.state.wrote).toHaveLength(20);
    taints.read(DEV, [line('pm', beginning)]);
    expect(taints.of(DEV).untrusted).not.toBeNull();
  });

  test('is tainted by members who are no operators, as far as it may have read their text', async () => {
    const bound = await new Bound().begins();
    const wrote = (id: string, at: number) => ({ line: at, at, author: { kind: 'person', id, name: id } as const });
    const said = [wrote('bob', 1), ...Array.from({ length: 200 }, (_, index) => wrote('ann', 2 + index))];
    const tainted = { untrusted: { since: 1, from: 'what bob wrote, who is not an operator' }, private: null };
    const taints = taintsOf(bound, said);
    expect(taints.of(SEAT)).toEqual(tainted);
    taints.forget(SEAT, 1);
    expect(taints.of(SEAT)).toEqual(CLEAN);
    taints.forget(SEAT, 0);
    expect(taints.of(SEAT)).toEqual(tainted);
    taints.forget(SEAT, 201);
    expect(taints.of(SEAT)).toEqual(CLEAN);
    // The next session reads a message that the previous session returned, even if the message is old.
    taints.read(SEAT, said.slice(0, 1));
    expect(taints.of(SEAT)).toEqual(tainted);
    taints.forget(SEAT, 201);
    said.push(wrote('bob', 202));
    expect(taints.of(SEAT).untrusted?.since).toBe(202);
  });

  test('stays tainted when the disk is full, although nothing of the taint could be stored', async () => {
    const bound = await new Bound().begins();
    const { runs, store } = bound;
    const failed: unknown[] = [];
    const parts = { runs, clock: { now: () => bound.at }, vouched: () => true, said: () => [] };
    const taints = new RunTaints({ ...parts, failed: (error) => failed.push(error) });
    store.onErased(() => taints.clearCache());
    const { db } = store.tables;
    db.pragma(`max_page_count = ${Number(db.pragma('page_count', { simple: true }))}`);
    taints.mark(SEAT, 'x'.repeat(100_000));
    await settled();
    expect(failed).toMatchObject([{ code: 'full' }]);
    expect(taints.of(SEAT).untrusted).not.toBeNull();
  });

  test('taints readers with its private data, too, from the time at which they read', async () => {
    const bound = await new Bound().begins();
    const taints = taintsOf(bound);
    taints.mark(SEAT, '.env', 'private');
    await settled();
    const written = line('pm', bound.at);
    bound.at += 1_000;
    taints.forget(SEAT, 0);
    await settled();
    expect([bound.state.secret, bound.state.wrote]).toEqual([undefined, [expect.objectContaining({ private: true })]]);
    taints.read(DEV, [written]);
    expect(taints.of(DEV)).toEqual({ untrusted: null, private: { since: bound.at, from: '.env, by way of pm' } });
  });
});
