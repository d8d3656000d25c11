import { describe, expect, test } from 'vitest';
import { bench } from '../bench.ts';

type Bench = Awaited<ReturnType<typeof bench>>;

/** How an agent handles a turn. */
const WAYS = ['answers', 'hangs', 'hangs after a word', 'fails'] as const;
type Way = (typeof WAYS)[number];

const REOPENS_MS = 60_000;

describe('an agent whose turn times out without a sign of work', () => {
  test('T59 loses its session, cools down, and joins again with the next session', async () => {
    const { prompt, hangs, session, sessions, moves, types, supervisor, time, logged } = await bench();
    await prompt(1);
    session().stopsWhenInterrupted = false;
    await hangs(1);
    expect(sessions[0]?.calls).toEqual(['prompt #1 grant', 'close']);
    expect(moves.at(-1)).toBe('Spawning SessionExited(Timeout) CoolingDown None');
    expect(supervisor.status('dev')?.[1]).toContain(
      '1 errors in a row, 1 in all; last: its turn timed out without a sign of work',
    );
    expect(logged).toEqual(['warn: agent session failed its turn timed out without a sign of work']);
    expect(types()).toEqual(['join']);
    await time.advance(2_000);
    expect(types()).toEqual(['join', 'join']);
    expect(await prompt(2)).toMatchObject({ state: 'confirmed' });
  });

  test('T59 has its later output dropped', async () => {
    const { prompt, hangs, session, types } = await bench();
    await prompt(1);
    const former = session();
    await hangs(1);
    former.report?.text('late');
    former.ends({ how: 'completed' });
    expect(types()).toEqual(['join']);
  });

  test('T59 is stopped by the fifth timeout in a row, and leaves the floor', async () => {
    const { prompt, hangs, sessions, supervisor, floors, time, logged } = await bench();
    for (let epoch = 1; epoch <= 5; epoch += 1) {
      await prompt(epoch);
      await hangs(epoch);
      await time.advance(REOPENS_MS);
    }
    expect(sessions).toHaveLength(5);
    expect(supervisor.status('dev')?.[1]).toContain('Stopped (until /agent restart): 5 errors in a row');
    expect(floors.told.at(-1)).toEqual({
      type: 'leave',
      agent: 'dev',
      cause: 'its turn timed out without a sign of work',
      error: { code: 'AGENT_EXECUTION_ERROR', recoverable: false },
    });
    expect(logged.at(-1)).toBe('error: agent stopped its turn timed out without a sign of work');
    await supervisor.restart('dev');
    expect(supervisor.list()[0]?.state).toBe('BuildingPrompt (ready)');
  });

  test('T59 that answered at the same instant joins again at once, without an error counted', async () => {
    const { prompt, hangs, session, types, supervisor, time } = await bench();
    await prompt(1);
    session().report?.text('words');
    session().ends({ how: 'completed' });
    await time.settle();
    await hangs(1);
    expect(types().filter((type) => type === 'join')).toHaveLength(2);
    expect(supervisor.status('dev')?.[1]).toContain('0 errors in a row, 0 in all');
  });

  test("T59 has the specification's error counters after every order of five turns", { timeout: 60_000 }, async () => {
    const orders = WAYS.flatMap((first) => ordersFrom([first], 5));
    expect(orders).toHaveLength(1_024);
    for (const order of orders) expect([order, await played(order, 'hangs')]).toEqual([order, told(order)]);
  });

  test('T59 has other error counters when a timeout only interrupts the turn', { timeout: 60_000 }, async () => {
    const order: readonly Way[] = ['hangs', 'hangs', 'hangs', 'hangs', 'hangs'];
    expect(await played(order, 'interrupt')).toEqual({ inRow: 0, inAll: 0, isStopped: false });
  });
});

function ordersFrom(order: readonly Way[], length: number): readonly (readonly Way[])[] {
  return order.length === length ? [order] : WAYS.flatMap((way) => ordersFrom([...order, way], length));
}

/** The error counters after these turns, and whether the agent is stopped. */
type Counted = { readonly inRow: number; readonly inAll: number; readonly isStopped: boolean };

/**
 * Returns the counters that the specification demands. A turn's output resets the failures in a row before the turn's
 * end counts. Five failures in a row stop the session.
 */
function told(order: readonly Way[]): Counted {
  const counted = { inRow: 0, inAll: 0 };
  for (const way of order) {
    if (way === 'answers' || way === 'hangs after a word') counted.inRow = 0;
    if (way === 'answers') continue;
    counted.inRow += 1;
    counted.inAll += 1;
  }
  return { ...counted, isStopped: counted.inRow === 5 };
}

async function played(order: readonly Way[], ends: 'hangs' | 'interrupt'): Promise<Counted> {
  const stage = await bench();
  for (const [index, way] of order.entries()) await turn(stage, way, { epoch: index + 1, ends });
  const [, line = ''] = stage.supervisor.status('dev') ?? [];
  const [, inRow, inAll] = /(\d+) errors in a row, (\d+) in all/u.exec(line) ?? [];
  return { inRow: Number(inRow), inAll: Number(inAll), isStopped: line.includes('Stopped') };
}

async function turn(
  { prompt, session, time, hangs, interrupt }: Bench,
  way: Way,
  { epoch, ends }: { readonly epoch: number; readonly ends: 'hangs' | 'interrupt' },
): Promise<void> {
  await prompt(epoch);
  if (way === 'answers' || way === 'hangs after a word') session().report?.text('words');
  if (way === 'answers') session().ends({ how: 'completed' });
  else if (way === 'fails') session().ends(new Error('exited with code 1'));
  else await (ends === 'hangs' ? hangs(epoch) : interrupt(epoch));
  await time.advance(REOPENS_MS);
}
