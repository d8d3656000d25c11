import { describe, expect, test } from 'vitest';
import { readShell, startsOther } from '../../src/rules/shell.ts';

describe('a command line that is known with certainty', () => {
  test.each([
    ['one command', 'git status', [['git', 'status']]],
    ['quotes and escapes', `git commit -m "a b" 'c d' e\\ f`, [['git', 'commit', '-m', 'a b', 'c d', 'e f']]],
    ['and, or', 'a && b || c', [['a'], ['b'], ['c']]],
    ['semicolons and line feeds', 'a; b\nc', [['a'], ['b'], ['c']]],
    ['pipes', 'a | b |& c', [['a'], ['b'], ['c']]],
    ['the background', 'a & b', [['a'], ['b']]],
    ['what is not and what takes time', '! a && time b', [['a'], ['b']]],
    ['a broken line', 'gi\\\nt status', [['git', 'status']]],
    ['a comment', 'a # b', [['a']]],
    ['names of files that are filled in', 'ls *.ts ?', [['ls', '*.ts', '?']]],
    ['streams that are joined or thrown away', 'a 2>&1 >/dev/null 2>/dev/null </dev/null', [['a']]],
    ['an option with a value', 'git log --since=1.day', [['git', 'log', '--since=1.day']]],
  ])('has %s taken apart', (_what, text, parts) => {
    expect(readShell(text).parts).toEqual(parts);
  });
});

describe('pitfall 5: a command line that is not known with certainty', () => {
  test.each([
    ['a substitution', 'a $(b)', ['b']],
    ['backticks', 'a `b`', ['b']],
    ['a substitution in quotes', 'a "x $(b) y"', ['b']],
    ['the output of another', 'a <(b)', ['b']],
    ['the input of another', 'a >(b)', ['b']],
    ['a variable', 'a $X', ['a', '$X']],
    ['a variable in quotes', 'a "$X"', ['a', '$X']],
    ['a variable as program', '$X y', ['$X', 'y']],
    ['braces', 'git {push,--force}', ['git', '{push,--force}']],
    ['a pattern as program', '/bin/r? x', ['/bin/r?', 'x']],
    ['a set of letters', 'ls [ab]', ['ls', '[ab]']],
    ['letters by number', String.raw`git $'pu\x73h'`, ['git', 'push']],
    ['a here-document', 'a <<E\nb\nE', ['a']],
    ['a here-string', 'a <<< b', ['a']],
    ['a file written', 'a > f', ['a']],
    ['a file added to', 'a >> f', ['a']],
    ['a file read', 'a < f', ['a']],
    ['an assignment before it', 'LD_PRELOAD=x git status', ['git', 'status']],
    ['eval', 'eval b', ['b']],
    ['a command by exec', 'exec b c', ['b', 'c']],
    ['a file taken in', '. ./b', ['.', './b']],
    ['a loop', 'for i in 1 2; do b; done', ['b']],
    ['a condition', 'if a; then b; fi', ['b']],
    ['a subshell', '(b)', ['b']],
    ['a group', '{ b; }', ['b']],
    ['a function', 'a() { b; }', ['b']],
    ['a coprocess', 'coproc b', ['b']],
    ['a quote without an end', 'b "c', ['b', 'c']],
    ['what is no Bash', 'b ;;', ['b']],
    ['a letter that cannot be seen', 'b\u200B', ['b\u200B']],
    ['a space that is none', 'b\u00A0c', ['b\u00A0c']],
    ['a carriage return', 'b\rc', ['b\rc']],
  ])('is one with %s, and what may run is seen', (_what, text, seen) => {
    const reading = readShell(text);
    expect(reading.parts).toBeNull();
    expect(reading.seen).toContainEqual(seen);
  });

  test('is one of nothing at all', () => {
    expect([readShell(''), readShell(' # b')]).toEqual([
      { parts: null, seen: [], written: [] },
      { parts: null, seen: [], written: [] },
    ]);
  });
});

describe('a program that starts another', () => {
  test.each([
    ['a shell', `sh -c 'rm -rf x'`],
    ['a shell in a shell', `bash -c "sh -c 'rm -rf x'"`],
    ['an environment', 'env FOO=1 rm -rf x'],
    ['a time limit', 'timeout 1 rm -rf x'],
    ['another user', 'sudo -u root rm -rf x'],
    ['arguments from a stream', 'ls | xargs rm -rf x'],
    ['a search', 'find . -name y -exec rm -rf x ;'],
  ])('is seen through: %s', (_what, text) => {
    expect(readShell(text).seen).toContainEqual(expect.arrayContaining(['rm', '-rf', 'x']));
    expect(readShell(text).seen.some(([program]) => program === 'rm')).toBe(true);
  });

  test.each([
    [['git', 'status'], -1],
    [['git', '-c', 'core.pager=x', 'log'], 1],
    [['git', '-ccore.pager=x', 'log'], 1],
    [['git', 'rebase', '--exec', 'x'], 2],
    [['find', '.', '-name', 'x'], -1],
    [['find', '.', '-exec', 'x'], 2],
    [['npm', 'test'], -1],
    [['npm', 'run', 'x'], 1],
    [['sh', '-c', 'x'], 0],
    [['/usr/bin/env', 'x'], 0],
    [['tar', '--to-command=x'], 1],
    [['go', 'run', 'x'], 1],
  ])('%j names it in word %i', (words, at) => {
    expect(startsOther(words)).toBe(at);
  });
});
