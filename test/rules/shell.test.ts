import { describe, expect, test } from 'vitest';
import { readShell } from '../../src/rules/shell.ts';

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
  ])('is split into its parts: %s', (_what, text, parts) => {
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
    ['a variable that is exported', 'export LD_PRELOAD=b; git status', ['git', 'status']],
    ['a program that stands for another', 'hash -p ./b git; git status', ['git', 'status']],
    ['a sum', "let 'a[$(b)]'", ['let', 'a[$(b)]']],
    ['a value that is read', "read 'a[$(b)]'", ['read', 'a[$(b)]']],
    ['names of files that may be options', 'tar cf a *', ['tar', 'cf', 'a', '*']],
    ['names of files that are options', 'tar cf a -*', ['tar', 'cf', 'a', '-*']],
    ['names of files behind empty quotes', `sort ''*`, ['sort', '*']],
    ['names of files behind more empty quotes', `sort ""''?x`, ['sort', '?x']],
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
  ])('has %s, and its possible programs are found', (_what, text, seen) => {
    const reading = readShell(text);
    expect(reading.parts).toBeNull();
    expect(reading.seen).toContainEqual(seen);
  });

  test.each([
    ['brackets in brackets', `b; ${'$('.repeat(100_000)}`],
    ['quotes in quotes', `b; ${'"$('.repeat(50_000)}`],
    ['a very long text', `b; ${'c '.repeat(100_000)}`],
  ])('is one of %s, and its first program is found without splitting it', (_what, text) => {
    const reading = readShell(text);
    expect(reading.parts).toBeNull();
    expect(reading.seen[0]).toEqual(['b']);
  });

  test('is an empty one', () => {
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
    ['words in one word', `env -S'rm -rf x'`],
    ['words in one word that is joined to its option', `env -S"rm -rf x"`],
    ['a value', `git -c core.pager='rm -rf x' log`],
    ['an alias', `git -c alias.y='!rm -rf x' y`],
    ['an option with a value', `tar xf y --to-command='rm -rf x'`],
    ['braces', '{rm,-rf,x}'],
    ['forty words before it', `env ${'A=1 '.repeat(40)}rm -rf x`],
    ['a processor', 'taskset 1 rm -rf x'],
    ['a version', `python3.12 -m timeit 'rm -rf x'`],
  ])('shows the program that it starts: %s', (_what, text) => {
    expect(readShell(text).seen).toContainEqual(expect.arrayContaining(['rm', '-rf', 'x']));
    expect(readShell(text).seen.some(([program]) => program === 'rm')).toBe(true);
  });
});
