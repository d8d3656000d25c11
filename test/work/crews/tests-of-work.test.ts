import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../reviews/stage.ts';
import { add, finished, git, mainTickets, repository, stage, ticketText } from './stage.ts';
import type { Work } from './played.ts';

const one = () => repository({ 'c-1': ticketText('c-1') });
const oneFile: Work = (folder) => {
  add(folder, 'one.txt', 'one');
  return 'DONE';
};

const script = (line: string) => `${JSON.stringify({ scripts: { test: line } })}\n`;

test('takes the test command from main, not from the branch', async () => {
  const repo = one();
  add(repo, 'package.json', script('! grep -q broken list.txt').trim());
  const prompts: string[] = [];
  const room = await stage(
    repo,
    (folder, { text }) => {
      prompts.push(text);
      const isFirst = prompts.length === 1;
      // With this file on main, another command would run.
      if (isFirst) writeFileSync(join(folder, 'yarn.lock'), '');
      writeFileSync(join(folder, 'list.txt'), isFirst ? 'broken\n' : 'first\n');
      return oneFile(folder, { text } as never, 0, '', () => '');
    },
    { test: 'auto' },
  );
  await room.command('/crew run');
  await finished(room, 1);
  expect(prompts).toHaveLength(2);
  expect(prompts[1]).toContain('npm test --silent ended with code 1');
  expect(room.posts.join('\n')).toContain('· tests: npm test --silent');
});

test('asks people about a branch that changes the test script, with exactly these lines', async () => {
  const repo = one();
  add(repo, 'package.json', script('! grep -q broken list.txt').trim());
  const room = await stage(
    repo,
    (folder, turn, ...more) => {
      writeFileSync(join(folder, 'package.json'), script('true'));
      return oneFile(folder, turn, ...more);
    },
    { test: 'auto' },
  );
  const worker = () => room.app.crews.state('web')?.workers[0];
  await room.command('/crew run');
  await until(() => worker()?.waiting?.for === 'weakened');
  expect(worker()?.waiting?.why).toBe(
    `package.json changes the test command:\n@@ -1 +1 @@\n-${script('! grep -q broken list.txt')}+${script('true')}`.trimEnd(),
  );
  await room.command('/crew answer A merge');
  await finished(room, 1);
});

test('asks about fewer tests also after people chose the merge', async () => {
  const room = await stage(one(), oneFile, {
    merge: 'ask',
    test: 'if [ -e one.txt ]; then echo "# tests 2"; else echo "# tests 3"; fi',
  });
  const asked = () => room.app.crews.state('web')?.workers[0]?.waiting?.for;
  await room.command('/crew run');
  await until(() => asked() === 'merge');
  await room.command('/crew answer A merge');
  await until(() => asked() === 'weakened');
  expect(mainTickets(room.repo)).toEqual([]);
  await room.command('/crew answer A merge');
  await finished(room, 1);
});

test('gives a worker the last 200 lines of red tests, with their command and exit code', async () => {
  const prompts: string[] = [];
  const room = await stage(
    one(),
    (folder, { text }) => {
      prompts.push(text);
      writeFileSync(join(folder, 'list.txt'), prompts.length === 1 ? 'broken\n' : 'first\n');
      return oneFile(folder, { text } as never, 0, '', () => '');
    },
    { test: 'if grep -q broken list.txt; then seq 1000; exit 3; fi' },
  );
  await room.command('/crew run');
  await finished(room, 1);
  const lines = Array.from({ length: 200 }, (_, at) => at + 801).join('\n');
  expect(prompts[1]).toContain(`seq 1000; exit 3; fi ended with code 3\n${lines}\nMend the cause`);
});

test('counts tests that hang as red, with the reason, on main and on a branch', async () => {
  const gate = join(mkdtempSync(join(tmpdir(), 'conch-crew-hang-')), 'open');
  const prompts: string[] = [];
  const room = await stage(
    one(),
    (folder, { text }) => {
      prompts.push(text);
      writeFileSync(join(folder, 'list.txt'), prompts.length === 1 ? 'hangs\n' : 'first\n');
      return oneFile(folder, { text } as never, 0, '', () => '');
    },
    { test: `if grep -q hangs list.txt || ! test -e ${gate}; then sleep 1000; fi`, testTimeoutSeconds: 1 },
  );
  const base = () => room.app.crews.state('web')?.base;
  await room.command('/crew run');
  await until(() => base()?.verdict === 'red');
  expect(base()?.why).toContain('sleep 1000; fi timed out');
  writeFileSync(gate, '');
  add(room.repo, 'other.txt', 'other');
  await finished(room, 1);
  expect(prompts[1]).toContain('sleep 1000; fi timed out');
  expect(prompts).toHaveLength(2);
});

test('counts tests that are green at their second run as flaky, and merges', async () => {
  const tried = join(mkdtempSync(join(tmpdir(), 'conch-crew-flaky-')), 'tried');
  const line = `if test -f one.txt && ! test -e ${tried}; then touch ${tried}; false; fi`;
  const room = await stage(one(), oneFile, { test: line });
  await room.command('/crew run');
  await finished(room, 1);
  expect(existsSync(tried)).toBe(true);
  expect(room.app.crews.state('web')?.counts).toEqual({ flaky: 1 });
  expect(room.posts.join('\n')).toContain('Tests are green at the second try (flaky) for c-1');
});

test('merges work without any tests only when a person says so', async () => {
  const room = await stage(one(), oneFile, { test: 'auto' });
  const worker = () => room.app.crews.state('web')?.workers[0];
  await room.command('/crew run');
  await until(() => worker()?.waiting?.for === 'untested');
  expect(room.posts.join('\n')).toContain('· tests: none found');
  await until(() => room.posts.join('\n').includes('No tests were found. Merge it untested?'));
  await room.command('/crew answer A merge');
  await finished(room, 1);
});

test('does not accept DONE for work with conflict markers', async () => {
  const prompts: string[] = [];
  const room = await stage(one(), (folder, { text }) => {
    prompts.push(text);
    const conflict = '<<<<<<< HEAD\nfirst\n=======\nother\n>>>>>>> main\n';
    writeFileSync(join(folder, 'list.txt'), prompts.length === 1 ? conflict : 'first\nother\n');
    return oneFile(folder, { text } as never, 0, '', () => '');
  });
  await room.command('/crew run');
  await finished(room, 1);
  expect(prompts).toHaveLength(2);
  expect(prompts[1]).toContain('Unresolved conflicts: list.txt');
  expect(git(room.repo, 'show', 'main:list.txt')).toBe('first\nother');
});
