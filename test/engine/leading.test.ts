import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { lead } from '../../src/engine/shared/lead.ts';
import { SqliteStore } from '../../src/engine/sqlite/sqlite.ts';
import { wrongInLead } from './leading.ts';

const CODE = { lead, SqliteStore };
const SEEDS = Array.from(
  { length: Number(process.env['SEEDS'] ?? 12) },
  (_, n) => n + Number(process.env['FROM'] ?? 1),
);

describe('three programs on one store, with one leader', () => {
  test.each(SEEDS)('act one at a time, lose nothing and post nothing twice (seed %i)', async (seed) => {
    expect(await wrongInLead(seed, CODE)).toEqual([]);
  });

  test('are found faulty with each planted bug', async () => {
    const program = new URL('leading-planted.ts', import.meta.url).pathname;
    const { stdout } = await promisify(execFile)(process.execPath, [program]);
    expect(JSON.parse(stdout)).toEqual({ planted: 16, unseen: [] });
  }, 600_000);
});
