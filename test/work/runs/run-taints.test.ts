import { describe, expect, test } from 'vitest';
import { RunTaints } from '../../../src/work/runs/run-taints.ts';
import { spoken } from '../../agents/backends/conversation.ts';
import { folder } from '../../engine/sqlite/fixture.ts';
import { BESIDE, Bound, HALL, SEAT } from './bound.ts';
import { call } from './fixture.ts';

const DEV = { channel: HALL, agent: 'dev' };

function taintsOf(bound: Bound): RunTaints {
  const clock = { now: () => bound.at };
  const failed = (error: unknown) => {
    throw error;
  };
  return new RunTaints({ runs: bound.runs, clock, failed });
}

const line = (agent: string, at: number) => ({ ...spoken(1, agent, 'Write it'), at });
const settled = (): Promise<void> => new Promise(setImmediate);

describe('a session that has read what nobody vouches for', () => {
  test('is tainted in the transaction of the result, and stays so over a restart', async () => {
    using place = folder();
    const bound = await new Bound(place.file()).begins();
    const taints = taintsOf(bound);
    expect(taints.of(SEAT)).toBeNull();
    await bound.run({ type: 'STEP', session: '1', turn: 2, toolCalls: [call('a')] });
    await bound.run({ type: 'CLAIM', call: 'a', digest: 'd-a', verdict: 'allow' });
    const result = { status: 'complete', output: '', duration: 1, code: null } as const;
    await bound.run({ type: 'SETTLE', call: 'a', ...result, taint: 'mcp__web__fetch' });
    const taint = { since: bound.at, from: 'mcp__web__fetch' };
    expect([taints.of(SEAT), bound.state.taint]).toEqual([taint, taint]);
    await bound.dies();
    const later = taintsOf(bound);
    expect(later.of(SEAT)).toEqual(taint);
    await bound.store.close();
  });

  test('taints whoever reads what it wrote since, and nobody who reads what it wrote before', async () => {
    const bound = await new Bound().begins();
    const taints = taintsOf(bound);
    taints.mark(SEAT, 'mcp__web__fetch');
    taints.read(DEV, [line('pm', bound.at - 1), line('qa', bound.at)]);
    expect(taints.of(DEV)).toBeNull();
    taints.read(DEV, [line('pm', bound.at)]);
    await settled();
    expect(taints.of(DEV)?.from).toBe('mcp__web__fetch, by way of pm');
    taints.read({ channel: HALL, agent: 'qa' }, [line('dev', bound.at)]);
    expect(taints.of({ channel: HALL, agent: 'qa' })?.from).toBe('mcp__web__fetch, by way of dev');
  });

  test('beside a floor taints by its report whoever reads that, also when it is over by then, and by nothing else', async () => {
    const bound = await new Bound().begins();
    const taints = taintsOf(bound);
    taints.mark(BESIDE, 'mcp__web__fetch');
    await settled();
    bound.at += 1_000;
    taints.forget(BESIDE);
    await settled();
    bound.at += 1_000;
    taints.read(DEV, [line('pm', bound.at)]);
    expect(taints.of(DEV)).toBeNull();
    taints.read(DEV, [{ ...line('pm', bound.at), aside: true }]);
    expect(taints.of(DEV)?.from).toBe('mcp__web__fetch, by way of pm');
  });

  test('is clean when another begins that knows nothing, and tainted again when that reads what it wrote then', async () => {
    const bound = await new Bound().begins();
    const taints = taintsOf(bound);
    taints.mark(SEAT, 'mcp__web__fetch');
    await settled();
    const written = line('pm', bound.at);
    bound.at += 1_000;
    taints.forget(SEAT);
    await settled();
    expect([taints.of(SEAT), bound.state.taint]).toEqual([null, undefined]);
    taints.read(SEAT, [line('pm', bound.at + 1)]);
    expect(taints.of(SEAT)).toBeNull();
    taints.read(SEAT, [written]);
    expect(taints.of(SEAT)?.from).toBe('mcp__web__fetch, by way of pm');
  });

  test('of many sessions still knows when each was tainted', async () => {
    const bound = await new Bound().begins();
    const taints = taintsOf(bound);
    const beginning = bound.at;
    for (let session = 0; session < 30; session += 1) {
      taints.mark(SEAT, 'mcp__web__fetch');
      await settled();
      bound.at += 1_000;
      taints.forget(SEAT);
      await settled();
    }
    expect(bound.state.wrote).toHaveLength(20);
    taints.read(DEV, [line('pm', beginning)]);
    expect(taints.of(DEV)).not.toBeNull();
  });
});
