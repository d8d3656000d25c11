import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { familyOf, processes, straysOf } from './processes.ts';
import type { Process } from './processes.ts';

const one = (pid: number, parent: number, more: Partial<Process> = {}): Process => ({
  pid,
  parent,
  group: 1,
  session: 1,
  startedAt: String(pid),
  command: 'node',
  ...more,
});
const pids = (all: readonly Process[]): readonly number[] => all.map(({ pid }) => pid);

test('a family is all descendants of a process, and no other process', () => {
  expect(pids(familyOf(10, [], [one(1, 0), one(10, 1), one(13, 12), one(12, 10), one(20, 1)]))).toEqual([13, 12]);
});

test('a family keeps known processes whose parents have ended, and the processes that they started since', () => {
  const known = [one(12, 10), one(13, 12)];
  expect(pids(familyOf(10, known, [one(10, 1), one(13, 1), one(14, 13), one(15, 1, { group: 12 })]))).toEqual([
    13, 14, 15,
  ]);
});

test('a process that reuses the pid of a known process does not belong to the family', () => {
  expect(familyOf(10, [one(12, 10)], [one(10, 1), one(12, 1, { startedAt: 'later' })])).toEqual([]);
});

test('T47 strays are processes of a family whose chain of parents does not reach the root', () => {
  const family = [one(12, 10), one(13, 12), one(14, 1), one(15, 14)];
  expect(pids(straysOf(10, family))).toEqual([14, 15]);
});

test.runIf(existsSync('/proc/self/stat'))(
  'the reaper ends the processes of a killed run',
  async () => {
    const script = `
    const { fork, spawn } = require('node:child_process');
    fork(${JSON.stringify(new URL('./reaper.ts', import.meta.url).pathname)}, { detached: true });
    const left = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' });
    setTimeout(() => console.log(left.pid), 1000);
  `;
    const run = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = (await once(run.stdout, 'data')) as [Buffer];
    const isThere = (): boolean => processes().some(({ pid }) => pid === Number(line.toString()));
    expect(isThere()).toBe(true);
    run.kill('SIGKILL');
    await expect.poll(isThere, { timeout: 60_000 }).toBe(false);
  },
  90_000,
);
