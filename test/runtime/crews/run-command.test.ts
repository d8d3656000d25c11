import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { systemTimers } from '../../../src/lib/time.ts';
import { commandRunner } from '../../../src/runtime/crews/run-command.ts';

const run = commandRunner(systemTimers);
const folder = mkdtempSync(join(tmpdir(), 'conch-crew-command-'));
const LIMIT = { set: { CI: '1' }, limitMs: 60_000 };

describe('a command of a crew', () => {
  test('returns its exit code and the text of both output streams', async () => {
    expect(await run('echo out; echo err >&2; exit 3', folder, LIMIT)).toEqual({
      code: 3,
      timedOut: false,
      output: 'out\nerr\n',
    });
  });

  test('runs in the folder, without input, with the variables that it is given', async () => {
    writeFileSync(join(folder, 'here.txt'), 'here');
    const { output } = await run('cat here.txt; echo "$CI"; cat', folder, LIMIT);
    expect(output).toBe('here1\n');
  });

  test('gets no secret of Conch, and its own temporary folder, which is deleted at its end', async () => {
    process.env['CONCH_TEST_TOKEN'] = 'abc-secret-9';
    const { output } = await run('env; echo "tmp=$TMPDIR"; touch "$TMPDIR/x"', folder, LIMIT);
    delete process.env['CONCH_TEST_TOKEN'];
    expect(output).not.toContain('abc-secret-9');
    const [, scratch = ''] = /tmp=(.*)/.exec(output) ?? [];
    expect(scratch).not.toBe('');
    expect(existsSync(scratch)).toBe(false);
  });

  test('is killed at its time limit, with all processes that it started', async () => {
    const file = join(folder, 'pid');
    const { code, timedOut } = await run(`sleep 600 & echo $! > ${file}; wait`, folder, { ...LIMIT, limitMs: 300 });
    expect([code, timedOut]).toEqual([null, true]);
    const { output } = await run(`ps -o stat= -p $(cat ${file})`, folder, LIMIT);
    // An ended process stays in the list as a zombie (Z) until its parent collects it.
    expect(output.trim()).toMatch(/^(?:Z.*)?$/);
  });

  test('that prints 50 MB returns at most the last 1 MiB of its output', async () => {
    const { output } = await run('head -c 50000000 /dev/zero | tr "\\0" x; echo; echo the end', folder, LIMIT);
    expect(output.length).toBeLessThanOrEqual(1_048_576);
    expect(output.endsWith('the end\n')).toBe(true);
  });
});
