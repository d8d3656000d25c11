import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import assert from 'node:assert/strict';
import { afterAll, describe, expect, test } from 'vitest';
import { isSafe } from '../../src/rules/safe-commands.ts';
import { readShell } from '../../src/rules/shell.ts';
import type { Argv } from '../../src/rules/safe-commands.ts';

/** The folder where real Bash runs. `a`, `b` and `c` only log their arguments. */
const folder = mkdtempSync(join(tmpdir(), 'conch-bash-'));
const [bin, work] = [join(folder, 'bin'), join(folder, 'work')];
mkdirSync(bin);
mkdirSync(join(work, 'files'), { recursive: true });
for (const name of ['f', '--use-compress-program=b']) writeFileSync(join(work, 'files', name), 'x\n');
for (const name of ['a', 'b', 'c']) {
  const fake = join(bin, name);
  writeFileSync(fake, `#!/bin/sh\nprintf '%s\\0' "\${0##*/}" "$@" '\u0001' >> "$LOG"\n`);
  chmodSync(fake, 0o755);
}
for (const name of ['sh', 'env', 'timeout', 'nice', 'nohup', 'xargs', 'find', 'sort', 'tar', 'git', 'cat', 'setsid']) {
  const found = spawnSync('/bin/sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim();
  if (found !== '') symlinkSync(found, join(bin, name));
}
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

const BASH = spawnSync('bash', ['-c', 'printf %s "$BASH"'], { encoding: 'utf8' }).stdout;
const hasBash = BASH.startsWith('/');

let runs = 0;

/** The programs that Bash started, also in the background, with their arguments. */
function started(text: string): readonly Argv[] {
  const log = join(folder, `log-${(runs += 1)}`);
  writeFileSync(log, '');
  const env = { PATH: bin, HOME: work, LOG: log, GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null' };
  spawnSync(BASH, ['-c', text], { cwd: work, env, input: 'x\n', timeout: 5_000 });
  const lists: string[][] = [[]];
  for (const word of readFileSync(log, 'utf8').split('\0')) {
    if (word === '\u0001') lists.push([]);
    else lists.at(-1)?.push(word);
  }
  return lists.slice(0, -1);
}

/** Pieces of command lines, with all of Bash's ways to hide further commands in a text. */
const PIECES =
  `a|b|c|a |b |c | | |\t|\n|\\\n|&&|\\|\\||\\||\\|&|&|;|;;|!| ! |time |time -p |coproc |function f |f()|if |then |else |fi|for i in |while |do |done|case x in |x)|esac|select i in |[[ | ]]|{ | ;}|{a,b}|{1..2}|(|)|((|))|$(|\`|<(|>(|$((|$x|\${x}|\${x:-|$'|$"|\\x62|"|'|\\|#| # |~|*|?|[ab]|@(a|<<E\n|\nE\n|<<<|<|>|>>|2>&1|&>|>\\||<&-|/dev/null|x=1|x=1 |x[0]=|+=|eval |exec |command |builtin |trap |let |read |export |hash -p |printf |-v |[ | ]|test |a[$(b)]|-|--|=|%|^|\r|\f|\v|\u00A0|\u202E|é`
    .split(/(?<!\\)\|/)
    .map((piece) => piece.replaceAll('\\|', '|'));

const commandLine = fc
  .array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 10, size: 'max' })
  .map((pieces) => pieces.join(''));

describe.runIf(hasBash)('what real Bash starts', { timeout: 120_000 }, () => {
  test('is exactly the parts, word for word, of a command line that the parser knows with certainty', () => {
    let known = 0;
    const lines = Number(process.env['CONCH_BASH_RUNS'] ?? 1_500);
    fc.assert(
      fc.property(commandLine, (text) => {
        const { parts } = readShell(text);
        if (parts === null) return;
        known += 1;
        const expected = parts.filter((words) => !words.some((word) => /[*?]/.test(word) || word.startsWith('~')));
        for (const words of started(text)) {
          const isFilledIn = parts.some(([program]) => program === words[0]) && expected.length < parts.length;
          const isPart = expected.some((part) => JSON.stringify(part) === JSON.stringify(words));
          assert(isPart || isFilledIn, `${JSON.stringify(text)} started ${JSON.stringify(words)}`);
        }
      }),
      { numRuns: lines },
    );
    expect(known).toBeGreaterThan(lines / 30);
  });

  test.each([
    'a; b',
    'a $(b)',
    'a `b`',
    'a "$(b)"',
    'a <(b)',
    'cat <<E\n$(b)\nE',
    'cat <<< "$(b)"',
    'x=$(b)',
    'x=1 b',
    'if b; then a; fi',
    'for i in 1; do b; done',
    '{ b; }',
    '(b)',
    'f() { b; }; f',
    'coproc b; wait',
    'echo $((x[$(b)]))',
    'echo ${x:-$(b)}',
    '[[ -v x[$(b)] ]]',
    'eval b',
    'eval "a; b"',
    'exec b',
    'command b',
    'trap b EXIT',
    'sh -c b',
    `sh -c "sh -c 'a; b'"`,
    'env b',
    'env x=1 b',
    `env -S'b x'`,
    `env -S"b x"`,
    `env ${'x=1 '.repeat(40)}b`,
    'timeout 5 b',
    'nice b',
    'nice -n 1 nohup b',
    'setsid -w b',
    'echo x | xargs b',
    'echo x | xargs -I{} b {}',
    'find . -maxdepth 0 -exec b {} +',
    '{b,x}',
    `git -c alias.z='!b' z`,
  ])('is found in %j, and never allowed as "anything more"', (text) => {
    expect(started(text).map(([program]) => program)).toContain('b');
    const { parts, seen } = readShell(text);
    expect(seen.map(([program]) => program)).toContain('b');
    expect(parts?.every((words) => words[0] !== 'b' && isSafe(words)) ?? false).toBe(false);
  });

  test.each([
    "printf -v 'x[$(b)]' y",
    "[ -v 'x[$(b)]' ]",
    "test -v 'x[$(b)]'",
    "read 'x[$(b)]'",
    "let 'x[$(b)]'",
    "declare 'x[$(b)]=1'",
    "compgen -W '$(b)'",
    'jobs -x b',
    'mapfile -c 1 -C b',
    'hash -p $PWD/../bin/b zz; zz',
    'cd files && git grep --no-index -nOb x',
    'tar cIf b t.tar files',
    'tar --use-comp=b -cf t.tar files',
    'cd files && tar cf ../t.tar *',
  ])('by %j is never allowed as "anything more"', (text) => {
    expect(started(text).map(([program]) => program)).toContain('b');
    const { parts } = readShell(text);
    expect(parts?.every(isSafe) ?? false).toBe(false);
  });
});
