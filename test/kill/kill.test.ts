import { describe, expect, test } from 'vitest';
import type { ServerFrame } from '../../src/adapters/console/protocol.ts';
import type { FloorView } from '../../src/turns/view.ts';
import { Ledger } from './ledger.ts';
import { runKillLoop } from './loop.ts';

const NOTHING = { lost: [], twice: [], doubleHolders: [], doneUnseen: [], other: [] };

describe('a program that is killed under load', () => {
  test('loses nothing, says nothing twice and has one holder at most', async () => {
    const { faults, messages, recoveriesMs, mostAtOnce } = await runKillLoop({
      cycles: 3,
      seed: 20,
      burst: 60,
    });
    expect(faults).toEqual(NOTHING);
    expect(messages).toBeGreaterThan(20);
    expect(mostAtOnce).toBeGreaterThan(50);
    expect(recoveriesMs.length).toBeGreaterThan(1);
  }, 300_000);
});

describe('what pages are shown', () => {
  const seat = (agent: string, status: 'ACTIVE' | 'QUEUED') => ({ agent, status, disabled: false, waitUntil: null });
  const shown = (epoch: number, holder: string | null, active: readonly string[]): ServerFrame => {
    const held = {
      epoch,
      status: 'ACTIVE',
      startedAt: 0,
      deadlineAt: null,
      waitingFor: null,
      working: false,
      approval: null,
    } as const;
    const view: FloorView = {
      channel: 'console:demo',
      condition: 'open',
      mode: 'inject',
      order: 'round-robin',
      epoch,
      holder: holder === null ? null : { agent: holder, ...held },
      seats: ['pm', 'dev'].map((agent) => seat(agent, active.includes(agent) ? 'ACTIVE' : 'QUEUED')),
      next: [],
      held: [],
      turns: null,
      obstacles: [],
    };
    return { type: 'batch', now: 0, channel: 'console:demo', messages: [], changed: [], drafts: [], view, turns: [] };
  };

  test.each([
    ['two agents ACTIVE at once', [shown(1, 'pm', ['pm', 'dev'])]],
    ['an ACTIVE agent who does not hold', [shown(1, 'pm', ['dev'])]],
    ['an epoch with two holders', [shown(1, 'pm', ['pm']), shown(1, 'dev', ['dev'])]],
  ])('counts as a double holder with %s', (_what, frames) => {
    const ledger = new Ledger();
    for (const frame of frames) ledger.look('page', frame);
    expect(ledger.faults.doubleHolders).toHaveLength(1);
  });

  test('counts as lost with an epoch that was gone back to', () => {
    const ledger = new Ledger();
    for (const epoch of [4, 5, 4]) ledger.look('page', shown(epoch, null, []));
    expect(ledger.faults).toEqual({ ...NOTHING, lost: ['page saw epoch 5 of console:demo, then 4'] });
  });
});
