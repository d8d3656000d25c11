import { describe, expect, test } from 'vitest';
import { audited } from '../../src/cli/database.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { folder } from '../engine/sqlite/fixture.ts';
import { callOf } from './call.ts';
import { AT, settle } from '../work/runs/fixture.ts';
import { Bound } from '../work/runs/bound.ts';

const DAY_MS = 86_400_000;

/** Stores two calls of pm: ann allowed the first an hour before `NOW`, and denied the second a minute before `NOW`. */
async function called(path: string): Promise<Bound> {
  const bound = await new Bound(path).begins();
  await bound.requests('a');
  await bound.answers('allow');
  await bound.run({ type: 'CLAIM', call: 'a', digest: 'd-a', verdict: 'allow' });
  await bound.run(settle('a'));
  bound.at = AT + 59 * 60_000;
  await bound.requests('b', { input: { path: 'b' } });
  await bound.answers('reject', { reason: 'use c.txt' });
  return bound;
}

const NOW = AT + 60 * 60_000;

async function audit(path: string, words: readonly string[]) {
  return audited(path, callOf(['audit', ...words]).options, NOW);
}

describe('conch audit', () => {
  test('prints every tool call, its decider and its outcome, while Conch uses the database', async () => {
    using place = folder();
    const bound = await called(place.file());
    const { ok, text } = await audit(place.file(), []);
    expect(ok).toBe(true);
    expect(text.split('\n')).toEqual([
      `${new Date(AT).toISOString()}  console:hall pm  step 1 mcp__files__write {"path":"a"} · allowed once by ann → complete, 0:01`,
      `${new Date(AT + 59 * 60_000).toISOString()}  console:hall pm  step 1 mcp__files__write {"path":"b"} · denied by ann → error DENIED`,
    ]);
    await bound.store.close();
  });

  test('prints each call as JSON with its digest, decision and times', async () => {
    using place = folder();
    const bound = await called(place.file());
    const rows = (await audit(place.file(), ['--json'])).text.split('\n').map((line) => JSON.parse(line) as unknown);
    expect(rows).toMatchObject([
      { channel: 'console:hall', agent: 'pm', digest: 'd-a', decision: 'once', decidedBy: 'ann', output: 'ok' },
      { decision: 'denied-person', reason: 'use c.txt', startedAt: null, status: 'error', code: 'DENIED' },
    ]);
    await bound.store.close();
  });

  test.each([
    ['30m', null],
    ['1h', 2],
    ['0h', 0],
    [new Date(AT + 60_000).toISOString(), 1],
    [new Date(AT - DAY_MS).toISOString().slice(0, 10), 2],
    ['yesterday', null],
  ])('filters calls, or refuses the time, with --since %s', async (since, found) => {
    using place = folder();
    const bound = await called(place.file());
    const { ok, text, code } = await audit(place.file(), ['--json', '--since', since]);
    expect(ok ? text.split('\n').filter(Boolean).length : null).toBe(found);
    expect(code).toBe(found === null ? EXIT_CODES.usage : EXIT_CODES.ok);
    await bound.store.close();
  });
});
