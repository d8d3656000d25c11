import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { PLANTED, search } from './search.ts';

const hasBash = spawnSync('/bin/bash', ['-c', 'git --version'], { encoding: 'utf8' }).status === 0;
const hasCurl = spawnSync('curl', ['--version']).status === 0;

describe.runIf(hasBash)('commands that rules allow, run by real Bash', { timeout: 120_000 }, () => {
  const seed = Number(process.env['CONCH_RULES_SEED'] ?? 7);

  test(`T74 T75 T76 T77 start, write and send nothing but what a rule says (seed ${seed})`, async () => {
    const { allowed, through } = await search({ seed, candidates: 300 });
    expect(through).toEqual([]);
    expect(allowed).toBeGreaterThan(50);
  });

  const planted = Object.entries(PLANTED).filter(([name]) => hasCurl || !name.includes('address'));
  test.each(planted)('are caught doing more when the judge has this bug: %s', async (_name, judge) => {
    const { through } = await search({ seed: 7, candidates: 600, isFirst: true }, judge);
    expect(through).toHaveLength(1);
  });
});
