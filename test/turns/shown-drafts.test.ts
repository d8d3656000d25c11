import { describe, expect, test } from 'vitest';
import type { Command, TurnDraft } from '../../src/turns/floor/command.ts';
import { PLAIN_SETTINGS } from '../../src/turns/floor/floor.ts';
import type { FloorSettings } from '../../src/turns/floor/settings.ts';
import type { FloorStore } from '../../src/turns/floor-store.ts';
import { TurnManager } from '../../src/turns/manager.ts';
import { createTime } from '../agents/time.ts';
import { folder, open } from '../engine/sqlite/fixture.ts';

const A = 'test:one';
const SEEN: TurnDraft = { agent: 'pm', epoch: 1, text: 'half a', mentions: [], workedAt: 0 };
const PLANS = { word: null, all: () => [], of: () => null, mayRest: () => true };

/** A manager over a store. `takeDraft` returns the draft that this process shows in the channel. */
function managed(store: FloorStore, takeDraft: () => TurnDraft | null = () => null) {
  const time = createTime();
  const failures: unknown[] = [];
  const { clock, timers } = time;
  const failed = (error: unknown): void => void failures.push(error);
  const manager = new TurnManager({
    store,
    clock,
    timers,
    takeDraft,
    failed,
    addressed: () => [],
    changed: () => {},
  });
  return { time, manager, failures };
}

/** Seats pm and dev, and shows the draft of the holder pm. */
async function streaming(store: FloorStore, settings: Partial<FloorSettings> = {}) {
  const one = managed(store);
  const seats = ['pm', 'dev'].map((agent) => ({ agent, priority: 5, timeoutMs: 60_000, rejoin: 'auto' as const }));
  const commands: readonly Command[] = [
    { type: 'configure', settings: { ...PLAIN_SETTINGS, ...settings }, seats },
    { type: 'join', agent: 'pm' },
    { type: 'join', agent: 'dev' },
    { type: 'start', by: 'ada' },
  ];
  for (const command of commands) await one.manager.apply(A, command);
  one.manager.shown(A, () => SEEN);
  return one;
}

function saidIn(store: FloorStore): readonly string[] {
  return store.floors.journal(A, Infinity).flatMap(({ fact }) => (fact.type === 'said' ? [fact.text] : []));
}

describe('a shown draft', () => {
  test('is stored after a second, and not a millisecond before', async () => {
    const store = open();
    const { time } = await streaming(store);
    await time.advance(999);
    expect(store.keyValues.remembered('drafts').size).toBe(0);
    await time.advance(1);
    expect([...store.keyValues.remembered('drafts')]).toEqual([[A, JSON.stringify(SEEN)]]);
  });

  test.for([
    ['resume', 'half a'],
    ['forfeit', 'half a … (cut off)'],
  ] as const)('is posted after a kill, before the restart is recorded: %s', async ([onRestart, text]) => {
    using place = folder();
    const killed = open(place.file());
    const { time, manager } = await streaming(killed, { onRestart });
    await time.advance(1_000);
    manager.stop();
    await killed.close();
    const store = open(place.file());
    const next = managed(store);
    await next.manager.recover(PLANS);
    await next.manager.heard(A, null);
    const types = store.floors.journal(A, Infinity).map(({ fact }) => fact.type);
    expect(saidIn(store)).toEqual([text]);
    expect(types.indexOf('said')).toBeLessThan(types.indexOf('disconnected'));
    expect(store.keyValues.remembered('drafts').size).toBe(0);
    expect(store.floors.state(A)?.epoch).toBe(1);
    await store.close();
  });

  test('is posted in the same commit as a stop, also by a process that does not run its agent', async () => {
    const store = open();
    const { time } = await streaming(store);
    await time.advance(1_000);
    const other = managed(store);
    const before = store.floors.journal(A, 1)[0]?.seq ?? 0;
    await other.manager.apply(A, { type: 'stop', by: 'ada' });
    expect(saidIn(store)).toEqual(['half a … (cut off)']);
    const rows = new Set(store.floors.journal(A, Infinity).flatMap(({ seq, hash }) => (seq > before ? [hash] : [])));
    expect(rows.size).toBe(1);
    expect(store.keyValues.remembered('drafts').size).toBe(0);
  });

  test('is not posted again once its agent has posted it', async () => {
    using place = folder();
    const killed = open(place.file());
    const { time, manager } = await streaming(killed);
    await time.advance(1_000);
    await manager.apply(A, { type: 'say', ...SEEN, text: 'half a sentence' });
    await time.advance(5_000);
    expect(killed.keyValues.remembered('drafts').size).toBe(0);
    manager.stop();
    await killed.close();
    const store = open(place.file());
    await managed(store).manager.recover(PLANS);
    await managed(store).manager.apply(A, { type: 'stop', by: 'ada' });
    expect(saidIn(store)).toEqual(['half a sentence']);
    await store.close();
  });

  test('is posted in the version of the process that runs its agent', async () => {
    const store = open();
    const drafts: TurnDraft[] = [{ ...SEEN, text: 'half a sentence' }];
    const { time } = await streaming(store);
    await time.advance(1_000);
    const other = managed(store, () => drafts.pop() ?? null);
    other.manager.shown(A, () => drafts[0] ?? null);
    await other.manager.apply(A, { type: 'skip', by: 'ada' });
    expect(saidIn(store)).toEqual(['half a sentence … (cut off)']);
    await other.time.advance(5_000);
    expect(store.keyValues.remembered('drafts').size).toBe(0);
  });

  test('of an earlier turn is not posted', async () => {
    const store = open();
    const { time } = await streaming(store);
    await time.advance(1_000);
    const end = { type: 'end', agent: 'pm', epoch: 1, outcome: 'completed', signalled: true } as const;
    await store.floors.apply(A, end, time.clock.now());
    await managed(store).manager.apply(A, { type: 'stop', by: 'ada' });
    expect([store.floors.state(A)?.epoch, saidIn(store)]).toEqual([2, []]);
  });

  test('stays stored when the commit that posts it fails, and is removed with the next one', async () => {
    const store = open();
    const { time, manager } = await streaming(store);
    await time.advance(1_000);
    const { db } = store.tables;
    db.exec("CREATE TRIGGER full BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'no room'); END");
    await expect(manager.apply(A, { type: 'say', ...SEEN })).rejects.toThrow('no room');
    expect(store.keyValues.remembered('drafts').size).toBe(1);
    db.exec('DROP TRIGGER full');
    await manager.apply(A, { type: 'say', ...SEEN });
    expect([store.keyValues.remembered('drafts').size, saidIn(store)]).toEqual([0, ['half a']]);
  });

  test('that cannot be stored is retried each second, and delays nothing', async () => {
    const store = open();
    const { time, manager, failures } = await streaming(store);
    const { db } = store.tables;
    db.exec("CREATE TRIGGER full BEFORE INSERT ON memory BEGIN SELECT RAISE(ABORT, 'no room'); END");
    await time.advance(2_999);
    expect([failures.length, store.keyValues.remembered('drafts').size]).toEqual([2, 0]);
    db.exec('DROP TRIGGER full');
    await time.advance(1);
    expect([failures.length, store.keyValues.remembered('drafts').size]).toEqual([2, 1]);
    await manager.apply(A, { type: 'say', ...SEEN });
    expect([store.keyValues.remembered('drafts').size, saidIn(store)]).toEqual([0, ['half a']]);
  });
});
