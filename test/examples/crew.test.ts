import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { CREW, TICKETS, git } from '../../examples/crew/repository.ts';
import { markedProcesses } from '../../src/lib/marked-processes.ts';
import { Page } from '../kill/page.ts';

const PROGRAM = new URL('../../examples/crew/main.ts', import.meta.url).pathname;
const CHANNEL = `console:${CREW}`;
const SOON = { timeout: 120_000, interval: 100 };

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** Starts the demo as a person does, with its own folder for temporary files. */
function startDemo(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
  const temporary = mkdtempSync(join(tmpdir(), 'conch-demo-test-'));
  const child = spawn(process.execPath, [PROGRAM, '--pace', '0.02', ...args], {
    env: { ...process.env, TMPDIR: temporary, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (out += text));
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
  closing.push(() => {
    child.kill('SIGKILL');
    rmSync(temporary, { recursive: true, force: true });
  });
  const root = () => join(temporary, readdirSync(temporary).find((name) => name.startsWith('conch-demo-')) ?? 'none');
  return {
    repo: () => join(root(), 'shop'),
    out: () => out,
    ended,
    async page(): Promise<Page> {
      await vi.waitFor(() => expect(out).toContain('Ctrl-C ends the demo'), SOON);
      const [, port = ''] = /127\.0\.0\.1:(\d+)/.exec(out) ?? [];
      const page = await Page.open({ port: Number(port), dataDir: join(root(), '.conch') }, CHANNEL);
      closing.push(() => page.close());
      return page;
    },
    /** Ends the demo as Ctrl-C does. Resolves with everything that is left. */
    async end(): Promise<{ readonly code: number | null; readonly left: readonly unknown[] }> {
      child.kill('SIGINT');
      const code = await ended;
      const processes = markedProcesses().filter(({ folder }) => folder.startsWith(temporary));
      // Lock files of port numbers stay as empty files.
      return { code, left: [...readdirSync(temporary).filter((name) => !name.endsWith('.lock')), ...processes] };
    },
  };
}

/** The tickets whose work is on main. */
function merged(repo: string): readonly string[] {
  const log = git(repo, 'log', '--first-parent', '--format=%(trailers:key=Conch-Ticket,valueonly)', 'main');
  return log
    .split('\n')
    .filter((line) => line !== '')
    .toSorted();
}

test(
  "the demo merges its twelve tickets with a person's answers, and leaves nothing behind",
  { timeout: 300_000 },
  async () => {
    const demo = startDemo();
    const page = await demo.page();
    const ps = async (): Promise<string> => (await page.command(CHANNEL, '/crew ps')).text;
    await vi.waitFor(async () => expect(await ps()).toContain('asks: Which number'), SOON);
    await page.say(`${CHANNEL}/${CREW}/t-01`, 'Take 7, please.');
    // A conflict after the answer makes another commit, for which people are asked again.
    let asked = 0;
    const isOver = async (): Promise<void> => {
      const [, worker] = /(\w) done · t-11 .*\n.*\n.*The changes make tests weaker/.exec(await ps()) ?? [];
      if (worker !== undefined) asked += Number((await page.command(CHANNEL, `/crew answer ${worker} merge`)).ok);
      expect(demo.out()).toContain('All twelve tickets are merged.');
    };
    await vi.waitFor(isOver, { ...SOON, timeout: 240_000 });
    expect(asked).toBeGreaterThan(0);
    expect(merged(demo.repo())).toEqual(Object.keys(TICKETS));
    expect(git(demo.repo(), 'show', 'main:src/helper.js')).toContain('=> 7;');
    for (const id of ['t-05', 't-06'])
      expect(git(demo.repo(), 'show', `main:.tickets/${id}.md`)).toContain(
        'agreed on their conflict: keep the lines of both',
      );
    expect(await demo.end()).toEqual({ code: 0, left: [] });
  },
);

test(
  'with --votes, a merge needs a person’s vote besides Ben’s, and an early end leaves nothing behind',
  { timeout: 300_000 },
  async () => {
    const demo = startDemo(['--votes']);
    const page = await demo.page();
    const ps = async (): Promise<string> => (await page.command(CHANNEL, '/crew ps')).text;
    await vi.waitFor(async () => expect(await ps()).toContain('1 of 2 want it merged: Ben.'), SOON);
    expect(merged(demo.repo())).toEqual([]);
    const [, worker = ''] = /^. (\w) done .*\n.*\n.*Ben\./m.exec(await ps()) ?? [];
    expect(await page.command(CHANNEL, `/crew answer ${worker} merge`)).toMatchObject({ ok: true });
    await vi.waitFor(() => expect(merged(demo.repo())).toHaveLength(1), SOON);
    expect(await demo.end()).toEqual({ code: 0, left: [] });
  },
);

test.each([
  ['is missing', null, 'git was not found. Install git 2.30 or newer.\n'],
  ['is too old', '#!/bin/sh\necho git version 2.29.3\n', 'git 2.29 is too old. Install git 2.30 or newer.\n'],
])('when git %s, the demo says so and makes nothing', async (_how, script, words) => {
  const bin = mkdtempSync(join(tmpdir(), 'conch-demo-bin-'));
  closing.push(() => rmSync(bin, { recursive: true, force: true }));
  if (script !== null) writeFileSync(join(bin, 'git'), script, { mode: 0o755 });
  const demo = startDemo([], { PATH: `${bin}:/bin-without-git` });
  expect(await demo.ended).toBe(2);
  expect(demo.out()).toBe(words);
  expect(existsSync(demo.repo())).toBe(false);
});
