import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { endProcesses, markedProcesses } from '../../src/lib/marked-processes.ts';

/** Starts a shell script in a session of its own, with a mark. Resolves when it has written a line. */
async function started(mark: string, script: string): Promise<number> {
  const child = spawn('/bin/sh', ['-c', script], {
    detached: true,
    env: { PATH: process.env['PATH'], CONCH_RUN: mark },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  await new Promise((resolve) => child.stdout.once('data', resolve));
  return child.pid ?? 0;
}

const ids = (mark: string): readonly number[] =>
  markedProcesses().flatMap((found) => (found.mark === mark ? [found.pid] : []));

test('finds processes by the mark in their environment', async () => {
  const mark = randomUUID();
  const pid = await started(mark, 'echo up; exec sleep 1000');
  // `exec` replaces the shell with `sleep` after the shell wrote its line.
  await expect
    .poll(() => markedProcesses().filter((found) => found.mark === mark))
    .toEqual([{ pid, group: pid, mark, command: 'sleep 1000', folder: process.cwd() }]);
  expect(ids(mark.slice(0, -1))).toEqual([]);
});

test('asks processes to end, and waits for them', async () => {
  const mark = randomUUID();
  const file = join(mkdtempSync(join(tmpdir(), 'conch-marked-')), 'log');
  const end = `trap 'sleep 0.1; echo ended > ${file}; exit' TERM`;
  const pid = await started(mark, `${end}; echo up; while :; do sleep 0.05; done`);
  const ended = await endProcesses((found) => found.mark === mark, 60_000);
  expect(ended.map((found) => found.pid)).toContain(pid);
  expect(readFileSync(file, 'utf8')).toBe('ended\n');
  expect(ids(mark)).toEqual([]);
});

test('kills marked processes that do not end, and spares all others', async () => {
  const [mark, other] = [randomUUID(), randomUUID()];
  await started(mark, "trap '' TERM; echo up; while :; do sleep 0.05; done");
  const spared = await started(other, 'echo up; exec sleep 1000');
  await endProcesses((found) => found.mark === mark, 100);
  expect(ids(mark)).toEqual([]);
  expect(ids(other)).toEqual([spared]);
});
