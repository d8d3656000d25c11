import Database from 'better-sqlite3';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Command } from '../../../src/turns/floor/command.ts';
import { floorMachine } from '../../../src/turns/floor-store.ts';
import { AT, everything, folder, open, seating, written } from './fixture.ts';
import type { FloorStore } from '../../../src/turns/floor-store.ts';

const MESSAGES = ['m1', 'm2', 'm3'];
const CHANNELS = ['test:one', 'test:two'];

const agent = fc.constantFrom('pm', 'dev', 'qa', 'ghost');
const epoch = fc.integer({ min: 0, max: 5 });
const command: fc.Arbitrary<Command> = fc.oneof(
  fc.constantFrom(...MESSAGES).map((id): Command => ({ type: 'receive', id, addressed: [] })),
  agent.map((name): Command => ({ type: 'leave', agent: name, cause: 'gone' })),
  agent.map((name): Command => ({ type: 'join', agent: name })),
  fc
    .tuple(agent, epoch)
    .map(([name, number]): Command => ({ type: 'say', agent: name, epoch: number, text: 'hello', mentions: [] })),
  fc.tuple(agent, epoch).map(([name, number]): Command => ({
    type: 'end',
    agent: name,
    epoch: number,
    outcome: 'completed',
    signalled: true,
  })),
  fc.constantFrom<Command>(
    { type: 'stop', by: 'u1' },
    { type: 'skip', by: 'u1' },
    { type: 'start', by: 'u1' },
    { type: 'tick' },
  ),
);
const script = fc.array(fc.tuple(fc.constantFrom(...CHANNELS), command, fc.nat(30_000)), {
  maxLength: 60,
  size: 'max',
});

async function prepared(statesInMemory: number): Promise<FloorStore> {
  const store = open(':memory:', { ids: () => 'same', statesInMemory });
  for (const channel of CHANNELS) for (const each of seating()) await store.floors.apply(channel, each, AT);
  for (const id of MESSAGES) await store.accept(written(id));
  return store;
}

async function outcome(store: FloorStore): Promise<string> {
  const owed = await store.lease(1000, AT + 10_000_000);
  const due = await store.floors.due(AT + 10_000_000);
  const problems = store.verify();
  await store.close();
  return JSON.stringify([owed, due, problems]);
}

/** Everything in the store without hashes: commands written together share a row, and so a hash. */
function unchained(store: FloorStore): string {
  return everything(store, MESSAGES).replaceAll(/"hash":"[0-9a-f]+",?/gu, '');
}

/** The text without entry ids, which contain the number of the row. */
function unplaced(owed: string): string {
  return owed.replaceAll(/"id":"same-[^"]+",?/gu, '');
}

describe('commands that arrive together', () => {
  test('give the same results as one by one, with floors in memory or not', async () => {
    await fc.assert(
      fc.asyncProperty(script, async (steps) => {
        const [alone, together] = [await prepared(1000), await prepared(1)];
        let at = AT;
        const timed = steps.map(([channel, each, ms]) => ({ channel, each, at: (at += ms) }));
        const one: unknown[] = [];
        for (const step of timed) one.push(await alone.floors.apply(step.channel, step.each, step.at));
        const many = await Promise.all(timed.map((step) => together.floors.apply(step.channel, step.each, step.at)));
        expect(many).toEqual(one);
        expect(unchained(together)).toBe(unchained(alone));
        expect(unplaced(await outcome(together))).toBe(unplaced(await outcome(alone)));
      }),
      { numRuns: 40 },
    );
  });

  test('are applied even when one of them throws', async () => {
    const decide: typeof floorMachine.decide = (floor, each, at) => {
      if (each.type === 'pause') throw new Error('impossible: planted');
      return floorMachine.decide(floor, each, at);
    };
    const store = open(':memory:', { machine: { ...floorMachine, decide } });
    const [first, ...rest] = seating();
    if (first === undefined) throw new Error('no seating');
    const pause: Command = { type: 'pause', by: 'u1' };
    const results = await Promise.allSettled(
      [first, pause, ...rest].map((each) => store.floors.apply('test:one', each, AT)),
    );
    expect(results.map((result) => result.status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
      'fulfilled',
    ]);
    expect(results[1]).toMatchObject({ reason: { message: 'impossible: planted' } });
    expect(store.floors.state('test:one')?.queue).toEqual(['pm', 'dev', 'qa']);
    expect(store.verify()).toEqual([]);
    await store.close();
  });

  test('leave nothing of a command that fails halfway', async () => {
    const react: typeof floorMachine.react = (fact, floor) => {
      if (fact.type === 'turnGranted') throw new Error('impossible: planted');
      return floorMachine.react(fact, floor);
    };
    const store = open(':memory:', { machine: { ...floorMachine, react } });
    for (const each of seating()) await store.floors.apply('test:one', each, AT);
    await store.accept(written('m1'));
    const before = everything(store, ['m1']);
    await expect(store.floors.apply('test:one', { type: 'receive', id: 'm1', addressed: [] }, AT)).rejects.toThrow(
      'planted',
    );
    expect(everything(store, ['m1'])).toBe(before);
    expect((await store.recover()).map((message) => message.id)).toEqual(['m1']);
    await store.close();
  });
});

test('after a failed disk write, the store confirms nothing and never writes again', async () => {
  using place = folder();
  let isBroken = false;
  const decide: typeof floorMachine.decide = (floor, each, at) => {
    if (isBroken) throw new Database.SqliteError('disk I/O error', 'SQLITE_IOERR_FSYNC');
    return floorMachine.decide(floor, each, at);
  };
  const store = open(place.file(), { machine: { ...floorMachine, decide } });
  for (const each of seating()) await store.floors.apply('test:one', each, AT);
  isBroken = true;
  const both = await Promise.allSettled([
    store.accept(written('m1')),
    store.floors.apply('test:one', { type: 'start', by: 'u1' }, AT),
  ]);
  expect(both.map((each) => each.status === 'rejected' && each.reason)).toMatchObject([
    { code: 'unavailable' },
    { code: 'unavailable' },
  ]);
  isBroken = false;
  await expect(store.accept(written('m2'))).rejects.toMatchObject({ code: 'unavailable' });
  const again = open(place.file());
  expect([again.message('m1'), again.message('m2')]).toEqual([null, null]);
  expect(again.verify()).toEqual([]);
  await again.close();
});

describe('memory', () => {
  test('keeps recently used floors, and loses none', async () => {
    const store = open(':memory:', { statesInMemory: 2 });
    const channels = ['a', 'b', 'c', 'd'];
    for (const channel of channels) for (const each of seating()) await store.floors.apply(channel, each, AT);
    expect(channels.map((channel) => store.floors.state(channel)?.queue.length)).toEqual([3, 3, 3, 3]);
    await store.close();
  });
});

test('a single command is committed before the event loop turns', async () => {
  using place = folder();
  const store = open(place.file());
  let turned = false;
  setImmediate(() => {
    turned = true;
  });
  await store.accept(written('m1'));
  expect(turned).toBe(false);
  await store.close();
});

describe('commands beyond the size of a group', () => {
  async function syncs(accept: (store: FloorStore) => Promise<readonly string[]>): Promise<number> {
    using place = folder();
    let count = 0;
    const sync = (): null => {
      count += 1;
      return null;
    };
    const store = open(place.file(), { disk: { sync, close: () => undefined } });
    await store.accept(written('m0'));
    const before = count;
    expect(new Set(await accept(store))).toEqual(new Set(['new']));
    const spent = count - before;
    await store.close();
    return spent;
  }
  const ids = Array.from({ length: 1_200 }, (_, index) => `m${index + 1}`);

  test('are committed while more commands come', async () => {
    const spent = await syncs(async (store) => {
      const accepted: Promise<string>[] = [];
      for (const id of ids) {
        accepted.push(store.accept(written(id)));
        await Promise.resolve();
      }
      return await Promise.all(accepted);
    });
    expect(spent).toBe(3);
  });

  test('share one commit when the event loop does nothing between', async () => {
    expect(await syncs((store) => Promise.all(ids.map((id) => store.accept(written(id)))))).toBe(1);
  });
});

test('a closed store commits waiting commands and refuses new ones', async () => {
  using place = folder();
  const store = open(place.file());
  const accepted = store.accept(written('m1'));
  await store.close();
  expect(await accepted).toBe('new');
  await expect(store.accept(written('m2'))).rejects.toMatchObject({ code: 'unavailable' });
  expect(() => store.message('m1')).toThrow('cannot be used');
  const again = open(place.file());
  expect(again.message('m1')?.text).toBe('text of m1');
  await again.close();
});
