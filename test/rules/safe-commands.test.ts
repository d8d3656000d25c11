import { describe, expect, test } from 'vitest';
import { labelsOf } from '../../src/rules/labels.ts';
import { offersFor } from '../../src/rules/offers.ts';
import { lintRules } from '../../src/rules/rule-lint.ts';
import { isSafe, isSafeBeginning } from '../../src/rules/safe-commands.ts';
import { isRunner, onlyReads, startsOther } from '../../src/rules/shell-programs.ts';
import { uniteRules } from '../../src/rules/verdict.ts';
import { bash, decided, remembering, verdictOf } from './fixture.ts';

describe('T74 a command that starts, writes and sends nothing', () => {
  test.each([
    'ls -la src',
    'cat -n a b',
    'git status --short',
    'git --no-pager log --oneline -5 --format=%h',
    'git diff HEAD~1 --stat -U5 -- src',
    'git show HEAD:src/a.ts',
    'git branch --show-current',
    'grep -rn --include=*.ts -A3 x src',
    'rg -n --glob=!dist x',
    'find . -not -path ./node_modules -name x -maxdepth 3',
    'sort -k2,2n -t: -u a',
    'head -20 a',
    'uniq -c',
    '/usr/bin/wc -l a',
    'jq -r .version package.json',
    'test -f a',
    'date +%F',
    String.raw`printf %s\n x`,
  ])('is safe: %s', (command) => {
    expect(isSafe(command.split(' '))).toBe(true);
  });

  test.each([
    'npm test',
    './ls',
    '/tmp/cat a',
    'git commit -m x',
    'git x',
    'git -C sub status',
    'git -c core.pager=x log',
    'git -p log',
    'git --exec-path=x status',
    'git log --output=a',
    'git log --outp=a',
    'git log --format=%G?',
    'git log --pretty=%+GG',
    'git log --show-signature',
    'git diff --ext-diff',
    'git diff --textconv',
    'git archive -o a HEAD',
    'git bundle create a HEAD',
    'git format-patch -o a HEAD',
    'git branch x',
    'git remote add x y',
    'git grep -nO./x y',
    'sort -o a b',
    'sort -uoa b',
    'sort -t -- -oa b',
    'sort --compress-program=x a',
    'find . -exec x ;',
    'find . -fprint a',
    'find . -delete',
    'rg --pre x y',
    'rg -z x',
    'uniq a b',
    'diff -l a b',
    'tree -o a',
    'tree -Io x a',
    'file -C -m a',
    'date -s 12:00',
    'date 010112002026',
    'sed -n p a',
    'cat --new-option a',
    'printf -v x y',
    'printf 12345%n PATH',
    'printf a* PATH',
    'printf %-5ln PATH',
    'printf %d a[$(b)]',
    'test -v a[$(b)]',
  ])('is none of these: %s', (command) => {
    expect(isSafe(command.split(' '))).toBe(false);
  });

  test.each(['split --filter=x a', 'scp -S ./x a b:', 'wget --use-askpass=./x a', 'gcc -wrapper ./x a.c'])(
    'is no program without an entry in the lists: %s',
    (command) => {
      expect(isSafe(command.split(' '))).toBe(false);
      const call = bash(command);
      const offers = offersFor(call, verdictOf({ ask: ['*'] }, call), {
        shownWhole: true,
        tainted: false,
        trusted: true,
      });
      expect(offers.map(({ rule }) => rule)).toEqual([`execute(${command})`]);
    },
  );

  test('may begin with an unfinished safe command', () => {
    expect([[], ['git'], ['git', 'log'], ['sort', '-u']].map(isSafeBeginning)).toEqual([true, true, true, true]);
    expect([['git', 'push'], ['npm'], ['sort', '-o']].map(isSafeBeginning)).toEqual([false, false, false]);
  });
});

describe('T74 "anything more" behind', () => {
  const by = (rule: string, command: string): string => decided({ allow: [rule], default: 'ask' }, bash(command));

  test.each([
    ['Bash(git *)', 'git fetch --upload-pack=./b .'],
    ['Bash(git *)', 'git commit -m x'],
    ['Bash(git log *)', 'git log --output=a'],
    ['Bash(sort *)', 'sort --compress-prog=./b'],
    ['Bash(sort *)', 'sort -o a b'],
    ['Bash(sort *)', 'sort *'],
    ['Bash(find *)', 'find . -exec ./b ;'],
    ['Bash([ *)', "[ -v 'a[$(b)]' ]"],
    ['Bash(*)', 'npm test'],
  ])('words of a safe command means only safe commands: %s asks for "%s"', (rule, command) => {
    expect(by(rule, command)).toBe('ask by default');
  });

  test.each([
    ['Bash(npm test *)', 'npm test --watch'],
    ['Bash(npm test *)', 'npm test -script-shell=./evil.sh'],
    ['Bash(git commit *)', 'git commit -m x'],
    ['Bash(find . -exec *)', 'find . -exec ./b ;'],
  ])('other words is obeyed, reported, and counts as outward and as writing: %s and "%s"', (rule, command) => {
    expect(by(rule, command)).toBe('allow by allow');
    expect(lintRules({ allow: [rule] }).map(({ message }) => message)).toEqual([
      expect.stringContaining('This rule can run any program'),
    ]);
    const labels = labelsOf(bash(command), uniteRules([]), { open: true, isHarmless: false });
    expect(labels).toMatchObject({ outward: true, acts: true });
  });

  test.each([
    ['another program in the same line', 'npm test; x'],
    ['another folder', 'npm test -C evil'],
    ['another folder, among other letters', 'npm test -dC evil'],
    ['another folder, by its long name', 'npm test ---prefix=evil'],
    ['a file that grants something', 'npm test .git/hooks/pre-commit'],
    ['the name of a file that may be an option', 'npm test *'],
  ])('other words still asks for %s', (_what, command) => {
    expect(by('Bash(npm test *)', command)).toMatch(/^ask/);
  });
});

describe('T79 a command that writes what an option says', () => {
  test.each([
    ['sort -o out a', 'Bash(sort *)'],
    ['sort -uoout a', 'Bash(sort *)'],
    ['git archive -o out HEAD', 'Bash(git *)'],
    ['git bundle create out HEAD', 'Bash(git *)'],
    ['git format-patch -o out HEAD~1', 'Bash(git *)'],
  ])('counts as writing: %s', (command, rule) => {
    expect(onlyReads(command.split(' '))).toBe(false);
    expect(decided({ allow: [rule], default: 'ask' }, bash(command))).toBe('ask by default');
    const granting = bash(command.replace('out', '.git/hooks/x'));
    expect(decided({ allow: ['*'], default: 'allow' }, granting)).toBe('ask by ask!');
  });
});

describe('T74 "always"', () => {
  const offered = (command: string): readonly string[] => {
    const call = bash(command);
    const facts = { shownWhole: true, tainted: false, trusted: true };
    return offersFor(call, verdictOf({ ask: ['*'] }, call), facts).map(({ rule }) => rule);
  };

  test('offers any further words for safe commands, and the exact words for others', () => {
    expect(offered('git log --oneline')).toEqual(['execute(git log --oneline)', 'execute(git log *)']);
    expect(offered('npm test')).toEqual(['execute(npm test)']);
    expect(offered('npm test --watch')).toEqual(['execute(npm test --watch)']);
    expect(offered('git commit -m x')).toEqual(['execute(git commit -m x)']);
  });

  test('asks again for a rule on any program that an earlier version offered', () => {
    expect(decided({ ask: ['*'] }, bash('npm test'), remembering('execute(npm *)'))).toBe('ask by ask');
    expect(decided({ ask: ['*'] }, bash('npm test'), remembering('execute(npm test)'))).toBe('allow by remembered');
  });

  test('does not let a safe command leave the folder', () => {
    expect(offered('cat /etc/ssl')).toEqual([]);
    const memory = remembering('execute(cat *)');
    expect(decided({ ask: ['*'] }, bash('cat src/a'), memory)).toBe('allow by remembered');
    expect(decided({ ask: ['*'] }, bash('cat /etc/ssl'), memory)).toBe('ask by ask');
    expect(decided({ ask: ['*'] }, bash('cat src/a && cat ../home/ann'), memory)).toBe('ask by ask');
    expect(decided({ ask: ['*'] }, bash('cat ~/.ss*/id*'), memory)).toBe('ask by ask');
    expect(decided({ ask: ['*'] }, bash('cat /e*/passwd'), memory)).toBe('ask by ask');
  });
});

describe('a program that can start another', () => {
  test.each([
    ['git -c core.pager=x log', true],
    ['git rebase -ix b', true],
    ['git grep -nO./x b', true],
    ['git push -u origin main', false],
    ['find . -exec x', true],
    ['find . -name x', false],
    ['npm exec x', true],
    ['npm rm y', false],
    ['tar xIf ./x a', true],
    ['go run x', true],
    ['sh -c x', true],
    ['/usr/bin/env x', true],
  ])('%j: %j', (command, starts) => {
    expect(startsOther(command.split(' '))).toBe(starts);
  });

  test.each(['python3.12', 'perl5.36', 'node.exe', 'PYTHON', '/usr/bin/ruby3.0', 'taskset', 'ld-linux-x86-64.so.2'])(
    'is known by its name: %s',
    (program) => {
      expect([isRunner(program), onlyReads([program, 'x'])]).toEqual([true, false]);
    },
  );

  test.each(['sha256sum', 'ls', 'w3m', 'base64'])('is not %s', (program) => {
    expect(isRunner(program)).toBe(false);
  });
});
