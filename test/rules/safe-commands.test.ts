import { describe, expect, test } from 'vitest';
import { isRunner, onlyReads, startsOther } from '../../src/rules/shell-programs.ts';
import { bash, decided } from './fixture.ts';

describe('a program that starts another', () => {
  test.each([
    [['git'], -1],
    [['git', 'status'], -1],
    [['git', '--no-pager', 'log', '--oneline'], -1],
    [['git', 'push', '-u', 'origin', 'main'], -1],
    [['git', 'commit', '-am', 'config'], -1],
    [['git', '-c', 'core.pager=x', 'log'], 1],
    [['git', '-ccore.pager=x', 'log'], 1],
    [['git', '--namespace', 'a', 'config', 'b', 'c'], 3],
    [['git', 'rebase', '--exec', 'x'], 2],
    [['git', 'rebase', '-ix', 'b'], 2],
    [['git', 'grep', '-nO./x', 'b'], 2],
    [['git', 'clone', '-qu', './x', '.', 'b'], 2],
    [['git', 'fetch', '--upload-p=./x', '.'], 2],
    [['git', 'x'], 1],
    [['find', '.', '-name', 'x'], -1],
    [['find', '.', '-exec', 'x'], 2],
    [['fd', '-Hx', 'x'], 1],
    [['npm', 'test'], -1],
    [['npm', 'ci'], -1],
    [['npm', 'run', 'x'], 1],
    [['npm', 'exe', 'x'], 1],
    [['npm', 'test', '--script-s=./x'], 2],
    [['npm', '--userconfig', './x', 'test'], 2],
    [['yarn', 'x'], 1],
    [['sh', '-c', 'x'], 0],
    [['/usr/bin/env', 'x'], 0],
    [['tar', 'xf', 'a'], -1],
    [['tar', '-xzf', 'a'], -1],
    [['tar', 'xIf', './x', 'a'], 1],
    [['tar', '-xIf', './x', 'a'], 1],
    [['tar', '--to-com=x'], 1],
    [['go', 'test', './...'], -1],
    [['go', 'run', 'x'], 1],
    [['go', 'vet', '-vettool=./x'], 2],
    [['cargo', 'test'], -1],
    [['cargo', 'x'], 1],
    [['printf', '%s', 'x'], -1],
    [['printf', '-v', 'a[$(x)]', 'b'], 2],
    [['test', '-f', 'x'], -1],
    [['[', '-v', 'a[$(x)]', ']'], 2],
    [['wait', '-p', 'a[$(x)]'], 1],
  ])('%j names it in word %i', (words, at) => {
    expect(startsOther(words)).toBe(at);
  });

  test.each(['python3.12', 'perl5.36', 'node.exe', 'PYTHON', '/usr/bin/ruby3.0', 'taskset', 'ld-linux-x86-64.so.2'])(
    '%s is one',
    (program) => {
      expect([isRunner(program), onlyReads([program, 'x'])]).toEqual([true, false]);
    },
  );

  test.each(['sha256sum', 'ls', 'w3m', 'base64'])('%s is none', (program) => {
    expect(isRunner(program)).toBe(false);
  });

  test.each([
    ['Bash(git *)', 'git fetch --upload-p=./b .'],
    ['Bash(git *)', 'git rebase -ib HEAD -xb'],
    ['Bash(git *)', 'git b'],
    ['Bash(tar *)', 'tar xIf ./b a'],
    ['Bash(tar *)', 'tar cf a *'],
    ['Bash(sort *)', 'sort --compress-prog=./b'],
    ['Bash(npm *)', 'npm --userconfig ./b test'],
    ['Bash(printf *)', "printf -v 'a[$(b)]' x"],
    ['Bash([ *)', "[ -v 'a[$(b)]' ]"],
  ])('%s does not let "%s" start another program', (text, command) => {
    expect(decided({ allow: [text], default: 'ask' }, bash(command))).toBe('ask by default');
  });
});
