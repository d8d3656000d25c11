import * as fc from 'fast-check';
import assert from 'node:assert/strict';
import { describe, expect, test } from 'vitest';
import { parseRule } from '../../src/rules/rule.ts';
import { labelsOf } from '../../src/rules/labels.ts';
import { offersFor } from '../../src/rules/offers.ts';
import { readShell } from '../../src/rules/shell.ts';
import { toolUse } from '../../src/rules/tool-use.ts';
import {
  decideForMember,
  decideUse,
  isAbout,
  reachesTool,
  toolRefusalText,
  uniteRules,
} from '../../src/rules/verdict.ts';
import type { ToolLists } from '../../src/rules/verdict.ts';
import { AT, NOTHING, asked, bash, decided, place, remembering, rule, use, verdictOf } from './fixture.ts';

describe('the order of the lists', () => {
  const status = bash('git status');
  test('deny counts before ask!, then remembered rules, ask, allow, and the default', () => {
    const git = 'Bash(git status)';
    const lists = { deny: [git], ask: ['execute', `${git}!`], allow: [git], default: 'deny' } as const;
    const memory = remembering(git);
    expect([
      decided(lists, status, memory),
      decided({ ...lists, deny: [] }, status, memory),
      decided({ ...lists, deny: [], ask: ['execute'] }, status, memory),
      decided({ ...lists, deny: [], ask: ['execute'] }, status),
      decided({ ...lists, deny: [], ask: [] }, status),
      decided({ default: 'ask' }, status),
      decided({ allow: ['read'] }, status),
    ]).toEqual([
      'deny by deny',
      'ask by ask!',
      'allow by remembered',
      'ask by ask',
      'allow by allow',
      'ask by default',
      'deny by default',
    ]);
  });

  test('a more specific rule does not count more', () => {
    expect(decided({ deny: ['execute'], allow: ['Bash(git status)'] }, status)).toBe('deny by deny');
    expect(decided({ ask: ['*'], allow: ['Bash(git status)'] }, status)).toBe('ask by ask');
  });

  test('the deciding rule is returned as it is written, with its scope', () => {
    const rules = uniteRules([
      { scope: 'bot', lists: { allow: ['Bash(git *)'] } },
      { scope: 'channel', lists: { ask: ['Bash(git status)!'] } },
    ]);
    expect(decideUse(status, rules, NOTHING).rule).toMatchObject({ text: 'Bash(git status)!', scope: 'channel' });
  });

  test('what is remembered ends at its hour, and with the definition of the tool', () => {
    const tool = use('mcp__files__write', { path: 'a' });
    const memory = { ...remembering('mcp__files__write'), definition: 'd1' };
    const [one] = memory.remembered.map((each) => ({ ...each, definition: 'd1' }));
    assert(one);
    const by = (at: number, definition: string): string =>
      decided({ ask: ['*'] }, tool, { at, definition, remembered: [one] });
    expect([by(AT, 'd1'), by(AT + 1, 'd1'), by(AT, 'd2')]).toEqual(['allow by remembered', 'ask by ask', 'ask by ask']);
  });
});

describe('without any rules', () => {
  test.each([
    ['reading in the folder is free', use('Read', { file_path: 'src/a.ts' }), 'allow by allow'],
    ['searching the folder is free', use('Grep', { pattern: 'x' }), 'allow by allow'],
    ['reading outside asks', use('Read', { file_path: '/etc/passwd' }), 'ask by default'],
    ['searching outside asks', use('Grep', { pattern: 'x', path: '..' }), 'ask by default'],
    ['reading what is not named asks', use('Read', {}), 'ask by default'],
    ['an edit asks', use('Edit', { file_path: 'src/a.ts' }), 'ask by default'],
    ['a command asks', bash('ls'), 'ask by default'],
    ['a tool of a server asks', use('mcp__files__read', {}), 'ask by default'],
  ])('%s', (_fact, one, verdict) => {
    expect([decided(undefined, one), decided({ allow: [], ask: [] }, one)]).toEqual([verdict, verdict]);
  });
});

describe('the lists of several places', () => {
  const lists = (bot: ToolLists, agent: ToolLists, only: readonly string[] | null = null) =>
    uniteRules(
      [
        { scope: 'bot', lists: bot },
        { scope: 'agent', lists: agent },
        { scope: 'channel', lists: undefined },
      ],
      only,
    );
  const by = (rules: ReturnType<typeof lists>, command: string): string => {
    const decision = decideUse(bash(command), rules, NOTHING);
    return `${decision.verdict} by ${decision.by}`;
  };

  test('count together: a narrower place can allow, deny and ask', () => {
    const rules = lists({ allow: ['Bash(a *)'] }, { allow: ['Bash(b)'], deny: ['Bash(a x)'], ask: ['Bash(a y)'] });
    expect(['a', 'b', 'a x', 'a y', 'c'].map((command) => by(rules, command))).toEqual([
      'allow by allow',
      'allow by allow',
      'deny by deny',
      'ask by ask',
      'deny by default',
    ]);
  });

  test('have the default of the narrowest place that sets one', () => {
    expect(by(lists({ default: 'deny' }, { default: 'ask' }), 'c')).toBe('ask by default');
    expect(by(lists({ default: 'ask' }, { allow: ['read'] }), 'c')).toBe('ask by default');
  });

  test('deny what a run leaves out, and allow nothing more for what it names', () => {
    const rules = lists({ allow: ['Bash(a)'], ask: ['Bash(b)'] }, {}, ['Bash(a)', 'Bash(c)']);
    expect(['a', 'b', 'c'].map((command) => by(rules, command))).toEqual([
      'allow by allow',
      'deny by run',
      'deny by default',
    ]);
  });
});

describe('a rule on commands', () => {
  test.each([
    ['Bash(npm test)', 'npm test', true],
    ['Bash(npm test)', 'npm  "test"', true],
    ['Bash(npm test)', 'npm test --watch', false],
    ['Bash(npm test)', 'npm tests', false],
    ['Bash(npm test *)', 'npm test', true],
    ['Bash(npm test *)', 'npm test --watch', true],
    ['Bash(npm test:*)', 'npm test --watch', true],
    ['Bash(npm test *)', 'npm testing', false],
    ['Bash(git commit -m "a (b)")', "git commit -m 'a (b)'", true],
    ['Bash(*)', 'ls -l', true],
    ['Bash(*)', 'sh -c x', false],
    ['execute', 'sh -c "x" | y > z', true],
    ['Bash(rm *)', '/bin/rm x', false],
    ['Bash(ls *.ts)', 'ls *.ts', true],
    ['Bash(ls *.ts)', 'ls a.ts', false],
    ['Bash(npm run *)', 'npm run build', true],
    ['Bash(git -c *)', 'git -c a=b log', true],
    ['Bash(git -c *)', 'git -c a=b -c c=d log', true],
  ])('allow %s and "%s": allowed is %j', (text, command, allowed) => {
    expect(decided({ allow: [text] }, bash(command))).toBe(allowed ? 'allow by allow' : 'deny by default');
  });

  test.each([
    'a && b',
    'a; b',
    'a | b',
    'a\nb',
    'a & b',
    'a $(b)',
    'a `b`',
    'a <(b)',
    'a > /tmp/b',
    'a "$(b)"',
    'a $b',
    'FOO=1 b',
    'FOO=1 a',
    'sh -c b',
    'env b',
    'timeout 1 b',
    'a <<< b',
    '(a)',
    'a || b',
    './a',
    '/tmp/a',
    'eval a',
    'a\u200B',
    '',
  ])('for "a *" does not allow "%s"', (command) => {
    expect(decided({ allow: ['Bash(a *)'], default: 'ask' }, bash(command))).toBe('ask by default');
  });

  test.each([
    ['Bash(git *)', 'git -c core.pager=b log'],
    ['Bash(git *)', 'git log --output=/etc/x'],
    ['Bash(git *)', 'git rebase -x b'],
    ['Bash(git *)', 'git config alias.x !b'],
    ['Bash(git *)', 'git -C /tmp/other log'],
    ['Bash(find *)', 'find . -exec b ;'],
    ['Bash(find *)', 'find . -delete'],
    ['Bash(rg *)', 'rg --pre b x'],
    ['Bash(sort *)', 'sort --compress-program=b x'],
  ])('%s does not allow "%s" to start another program', (text, command) => {
    expect(decided({ allow: [text], default: 'ask' }, bash(command))).toBe('ask by default');
  });

  test.each([
    'cd bare && git status',
    'cd bare; git status',
    'cd bare | git status',
    'pushd bare && git status',
    'cd bare && cd /work && git status',
    'cd work && git status',
    'popd && git status',
    'cd && git status',
    'git -C bare status',
    'git -Cbare status',
    'git --git-dir=bare status',
    'env -C bare git status',
    'make -C bare test',
    'make -sC bare test',
    'make --directory=bare test',
  ])('T75 a part that runs in another folder asks: %s', (command) => {
    const allow = [
      'Bash(cd *)',
      'Bash(pushd *)',
      'Bash(popd)',
      'Bash(git status)',
      'Bash(git *)',
      'Bash(env *)',
      'Bash(make *)',
    ];
    expect(decided({ allow, default: 'ask' }, bash(command))).toBe('ask by default');
    expect(decided({ ask: ['execute'] }, bash(command), remembering(...allow))).toBe('ask by ask');
  });

  test("T75 a part after a change to the agent's own folder runs there", () => {
    const allow = ['Bash(cd *)', 'Bash(git status)'];
    expect(decided({ allow, default: 'ask' }, bash('cd /work && git status'))).toBe('allow by allow');
    expect(decided({ allow, default: 'ask' }, bash('git status && cd src'))).toBe('allow by allow');
  });

  test('T75 git asks in a folder that is itself a bare repository', () => {
    const bare = place({ '/work/HEAD': '/work/HEAD' });
    const whole = place({ '/work/HEAD': '/work/HEAD', '/work/.git': '/work/.git' });
    const status = (at: typeof bare): string =>
      decided({ allow: ['Bash(git status)'], default: 'ask' }, use('Bash', { command: 'git status' }, at));
    expect([status(bare), status(whole), status(place())]).toEqual([
      'ask by default',
      'allow by allow',
      'allow by allow',
    ]);
  });

  test.each([
    ['Read(.env)', 'cat .env'],
    ['Read(.env)', 'cat src/../.env'],
    ['Read(.env)', 'head -3 .env | wc -l'],
    ['Read(.env)', 'npm test --env-file=.env'],
    ['Read(.env)', "sh -c 'cat .env'"],
    ['Read(secrets/**)', 'grep -r x secrets'],
    ['Read(~/.ssh/**)', 'cat ~/.ssh/id_rsa'],
  ])('T79 a command may not name a file that may not be read: %s and "%s"', (text, command) => {
    const allow = ['Bash(cat *)', 'Bash', 'execute'];
    expect(decided({ deny: [text], allow }, bash(command))).toBe('deny by deny');
    expect(decided({ ask: [text], allow }, bash(command))).toBe('ask by ask');
  });

  test.each([
    ['a pattern in a large folder', 'cat *'],
    ['many names', `cat ${Array.from({ length: 600 }, (_, at) => `a${at}`).join(' ')}`],
  ])(
    'T79 a command with more than 512 file names is labelled, and denied where a file may not be read: %s',
    (_how, command) => {
      const names = Array.from({ length: 600 }, (_, at) => `a${at}`);
      const at = { ...place(), namesIn: () => names };
      const cat = use('Bash', { command }, at);
      expect(decided({ deny: ['Read(key.txt)'], allow: ['Bash(cat *)'] }, cat)).toBe('deny by deny');
      expect(decided({ allow: ['Bash(cat *)'] }, cat)).toBe('ask by ask!');
      const labels = labelsOf(cat, uniteRules([]), { open: false, isHarmless: false });
      expect([labels.private, labels.untrusted].includes(null)).toBe(false);
      const few = use('Bash', { command: 'cat a1 a2' }, at);
      expect(decided({ deny: ['Read(key.txt)'], allow: ['Bash(cat *)'] }, few)).toBe('allow by allow');
    },
  );

  test('T79 tools that name more than 512 files are denied where a file may not be read', () => {
    const paths = Array.from({ length: 600 }, (_, at) => `a${at}`);
    const lists = { deny: ['Read(key.txt)'], default: 'allow' as const };
    expect(decided(lists, use('Read', { paths }))).toBe('deny by deny');
    expect(decided(lists, use('mcp__files__read_many', { paths }))).toBe('deny by deny');
    expect(decided(lists, use('mcp__files__write', { paths }))).toBe('deny by deny');
    expect(decided(lists, use('Read', { paths: paths.slice(0, 5) }))).toBe('allow by default');
  });

  test('T79 a pattern may not expand to an option that names a file that may not be read', () => {
    const names = ['--files0-from=key.txt', 'a.md'];
    const at = { ...place({ '/work/key.txt': '/work/key.txt' }), namesIn: () => names };
    const wc = (command: string) =>
      decided({ deny: ['Read(key.txt)'], allow: ['Bash(wc *)'] }, use('Bash', { command }, at));
    expect([wc('wc *'), wc('wc *.md')]).toEqual(['deny by deny', 'allow by allow']);
  });

  test('T79 a pattern of a command may not match a file that may not be read', () => {
    const at = { ...place({ '/work/key.txt': '/work/key.txt' }), namesIn: () => ['key.txt', 'src'] };
    const cat = (command: string) =>
      decided({ deny: ['Read(key.txt)'], allow: ['Bash(cat *)'] }, use('Bash', { command }, at));
    expect([cat('cat k*.txt'), cat('cat ?ey.*'), cat('cat *.md')]).toEqual([
      'deny by deny',
      'deny by deny',
      'allow by allow',
    ]);
  });

  test('T79 a tool of a server may not name a file that may not be read', () => {
    const read = use('mcp__files__read', { path: '.env' });
    expect(decided({ deny: ['Read(.env)'], allow: ['mcp__files__*'] }, read)).toBe('deny by deny');
    expect(decided({ deny: ['Read(.env)'], allow: ['Bash(cat *)'] }, bash('cat .envrc'))).toBe('allow by allow');
    expect(decided({ deny: ['Read(**)'], allow: ['Bash(npm test)'] }, bash('npm test'))).toBe('allow by allow');
  });

  test('each part of a call may be allowed by a rule of its own', () => {
    const allow = ['Bash(a)', 'Bash(b *)'];
    expect(decided({ allow }, bash('a && b c | b'))).toBe('allow by allow');
    expect(decided({ allow }, bash('a && c'))).toBe('deny by default');
  });

  test.each([
    'rm -rf x',
    '/bin/rm -rf x',
    'ls; rm -rf x',
    'ls && (rm -rf x)',
    'ls $(rm -rf x)',
    'sudo rm -rf x',
    `sh -c 'rm -rf x'`,
    'ls | xargs rm -rf',
    'find . -exec rm -rf x ;',
    'FOO=1 rm -rf x',
    'if true; then rm -rf x; fi',
    'rm -rf x > log',
    'eval rm -rf x',
    'env -i rm -rf x',
  ])('deny "rm *" is tried on all that may run: %s', (command) => {
    expect(decided({ deny: ['Bash(rm *)'], allow: ['execute'] }, bash(command))).toBe('deny by deny');
  });

  test('a command in the input counts, whatever kind the tool claims', () => {
    const claimed = asked({ kind: 'read', input: { command: 'rm x' }, locations: ['/work/src/a'] });
    expect(decided({ allow: ['read'] }, claimed)).toBe('deny by default');
    expect(decided({ allow: ['read', 'Bash(rm x)'] }, claimed)).toBe('allow by allow');
    expect(decided({ allow: ['execute'], deny: ['read'] }, claimed)).toBe('deny by deny');
  });

  test.each([
    ['Bash(ls)', { command: 'ls', cmd: 'rm x' }],
    ['Bash(ls)', { cmd: 'rm x', command: ['ls'] }],
    ['Bash(ls)', { command: 'ls', CommandLine: 'rm x' }],
    ['Bash(ls)', { command: 'ls', shell_command: 'rm x' }],
    ['Bash(ls)', { command: 'ls', commands: ['ls', 'rm x'] }],
    ['Bash(git)', { command: 'git', args: ['push', '--force'] }],
    ['Bash(git status)', { command: 'git status', args: '; rm x' }],
    ['Bash(npm test)', { command: 'npm test', env: { NODE_OPTIONS: '-r ./x' } }],
    ['Bash(ls)', { cmd: 'ls', shell: './x' }],
    ['Bash(npm test)', { command: 'npm test', workdir: '/etc' }],
    ['Bash(npm test)', { command: 'npm test', cwd: 'src' }],
    ['Bash(npm test)', { command: 'npm test', directory: 'src/../docs' }],
    ['Bash(cat)', { command: 'cat', stdin: 'x' }],
  ])('%s does not allow a call whose input means something else: %j', (text, input) => {
    expect(decided({ allow: [text], default: 'ask' }, asked({ kind: 'execute', input }))).toBe('ask by default');
  });

  test.each([
    { command: 'npm test', workdir: '/work', env: {}, shell: '/bin/bash', args: [], timeout: 5, description: 'x' },
    { command: 'npm test', cwd: '.', shell: 'zsh' },
    { command: 'npm test', cwd: '/work/src/..' },
    { command: 'npm', args: ['test'] },
  ])('allows a call that means the same in other fields: %j', (input) => {
    expect(decided({ allow: ['Bash(npm test)'] }, asked({ kind: 'execute', input }))).toBe('allow by allow');
  });

  test('a rule that denies counts for every key of the input', () => {
    const call = asked({ kind: 'execute', input: { command: 'ls', script: 'rm x', workdir: 'src' } });
    expect(decided({ deny: ['Bash(rm *)'], default: 'allow' }, call)).toBe('deny by deny');
  });

  test('a command may be a list of words; the script of a shell counts as the command', () => {
    const words = (...command: readonly string[]) => asked({ kind: 'execute', input: { command } });
    expect(decided({ allow: ['Bash(git status)'] }, words('git', 'status'))).toBe('allow by allow');
    expect(decided({ allow: ['Bash(git status)'] }, words('bash', '-lc', 'git status'))).toBe('allow by allow');
    expect(decided({ allow: ['Bash(git *)'] }, words('bash', '-lc', 'git status; x'))).toBe('deny by default');
    expect(decided({ allow: ['Bash(echo *)'] }, words('echo', "'; x; '"))).toBe('allow by allow');
    expect(decided({ allow: ['Bash(git *)'] }, words('git', 'log', 'a;', 'x'))).toBe('allow by allow');
  });

  test('a command that is not a text matches no rule', () => {
    const odd = asked({ kind: 'read', input: { command: { run: 'rm x' }, path: 'src/a' } });
    expect(decided({ allow: ['read', 'Bash(*)'] }, odd)).toBe('deny by default');
  });

  test('a command that is not told is allowed by no words', () => {
    expect(decided({ allow: ['Bash(*)'] }, asked({ kind: 'execute', input: {} }))).toBe('deny by default');
    expect(decided({ allow: ['Bash'] }, asked({ kind: 'execute', input: {} }))).toBe('allow by allow');
  });
});

describe('a rule on paths', () => {
  test.each([
    ['Edit(src/**)', 'src/a/b.ts', true],
    ['Edit(src/**)', '/work/src/a.ts', true],
    ['Edit(src/**)', './src/../src/a.ts', true],
    ['Edit(src/**)', 'src/../../etc/passwd', false],
    ['Edit(src/**)', 'docs/src/a.ts', false],
    ['Edit(src/**)', 'SRC/a.ts', false],
    ['Edit(src/**)', 'src\u2215a.ts', false],
    ['Edit(src/**)', 'src', false],
    ['Edit(*.md)', 'docs/deep/a.md', true],
    ['Edit(/*.md)', 'docs/a.md', false],
    ['Edit(./docs/*)', 'docs/a.md', true],
    ['Edit(docs/)', 'docs/deep/a.md', true],
    ['Edit(**)', 'a', true],
    ['Edit(**)', '../a', false],
    ['Edit(**)', '/etc/passwd', false],
    ['Edit(//etc/**)', '/etc/passwd', true],
    ['Edit(//etc/**)', 'etc/passwd', false],
    ['Edit(~/notes/**)', '~/notes/a', true],
    ['Edit(~/notes/**)', '/home/ann/notes/a', true],
    ['Edit(~/notes/**)', '~/notes/../.ssh/id', false],
    ['Edit(~/notes/**)', 'notes/a', false],
  ])('allow %s and %j: allowed is %j', (text, file, allowed) => {
    expect(decided({ allow: [text] }, use('Write', { file_path: file }))).toBe(
      allowed ? 'allow by allow' : 'deny by default',
    );
  });

  test('links are followed, those of the nearest parent that is there', () => {
    const linked = place({ '/work/src/out': '/etc' });
    const edit = (file: string) => use('Edit', { file_path: file }, linked);
    expect(decided({ allow: ['Edit(src/**)'] }, edit('src/out/new/file'))).toBe('deny by default');
    expect(decided({ allow: ['Edit(//etc/**)'] }, edit('src/out/new/file'))).toBe('allow by allow');
    expect(decided({ allow: ['*'], deny: ['Edit(//etc/**)'] }, edit('src/out/passwd'))).toBe('deny by deny');
    expect(decided({ allow: ['*'], deny: ['Edit(src/**)'] }, edit('src/out/passwd'))).toBe('deny by deny');
  });

  test('what is after a link and ".." must be meant wherever it leads', () => {
    const linked = place({ '/work/src/out': '/etc/ssl' });
    const edit = use('Edit', { file_path: 'src/out/../passwd' }, linked);
    expect(decided({ allow: ['Edit(src/**)'] }, edit)).toBe('deny by default');
    expect(decided({ allow: ['Edit(//etc/**)'] }, edit)).toBe('deny by default');
    expect(decided({ allow: ['Edit(src/**)', 'Edit(//etc/**)'] }, edit)).toBe('deny by default');
    expect(decided({ deny: ['Edit(//etc/**)'], default: 'allow' }, edit)).toBe('deny by deny');
  });

  test('takes a linked folder of the agent as the root', () => {
    const linked = { ...place({ '/link': '/work' }), folder: '/link' };
    expect(decided({ allow: ['Edit(src/**)'] }, use('Edit', { file_path: 'src/a' }, linked))).toBe('allow by allow');
  });

  test('that denies ignores case and Unicode composition', () => {
    const edit = (file: string) => use('Edit', { file_path: file });
    expect(decided({ deny: ['Edit(src/**)'], default: 'allow' }, edit('SRC/a'))).toBe('deny by deny');
    expect(decided({ deny: ['Edit(caf\u00E9)'], default: 'allow' }, edit('cafe\u0301'))).toBe('deny by deny');
  });

  test.each([
    { file_path: 'src/a', filepath: '/etc/x' },
    { file_path: 'src/a', TargetFile: '/etc/x' },
    { file_path: 'src/a', 'old-folder': '/etc/x' },
    { file_path: 'src/a', uri: 'file:///etc/x' },
    { file_path: 'src/a', patch: '*** Begin Patch\n*** Update File: src/a\n*** Move to: /etc/x\n' },
    { file_path: 'src/a', diff: '--- src/a\n+++ /etc/x\n@@ -1 +1 @@' },
    { file_path: 'src/a', input: '*** Begin Patch\n*** Delete File: ../x' },
    { path: 'file:///etc/x' },
    { path: 'file:///work/src/%2e%2e/docs/x' },
  ])('counts for a path in any field: %j', (input) => {
    expect(decided({ allow: ['Edit(src/**)'] }, use('Edit', input))).toBe('deny by default');
  });

  test('takes a changed line that looks like a patch header for no file', () => {
    const edit = use('Edit', {
      file_path: 'src/a',
      new_string: '--- x\n+++ y\n',
      diff: '--- src/a\n+++ src/a\n--- gone',
    });
    expect(decided({ allow: ['Edit(src/**)'] }, edit)).toBe('allow by allow');
  });

  test('must allow every path of a call', () => {
    const move = asked({ kind: 'move', input: { source: 'src/a', destination: '/etc/a' } });
    expect(decided({ allow: ['Edit(src/**)'] }, move)).toBe('deny by default');
    expect(decided({ allow: ['Edit(src/**)', 'Edit(//etc/a)'] }, move)).toBe('allow by allow');
    const patch = asked({ kind: 'edit', input: { changes: { 'src/a': {}, 'docs/b': {} } }, locations: ['src/a'] });
    expect(decided({ allow: ['Edit(src/**)'] }, patch)).toBe('deny by default');
  });

  test('allows a search only if it covers everything that is searched', () => {
    const search = (path?: string) => use('Grep', { pattern: 'x', ...(path === undefined ? {} : { path }) });
    expect(decided({ allow: ['Grep(src/**)'] }, search('src'))).toBe('allow by allow');
    expect(decided({ allow: ['Grep(src/**)'] }, search())).toBe('deny by default');
    expect(decided({ allow: ['Grep(*.ts)'] }, search())).toBe('deny by default');
    expect(decided({ allow: ['Grep(**)'] }, search())).toBe('allow by allow');
  });

  test.each([
    ['Glob', { pattern: '/etc/**' }, 'ask by default'],
    ['Glob', { pattern: '../**/*.ts' }, 'ask by default'],
    ['Glob', { pattern: 'src/**/*.ts' }, 'allow by allow'],
    ['Glob', { pattern: '{src,..}/*' }, 'ask by default'],
    ['search', { pattern: '~/.ssh/*' }, 'ask by default'],
    ['Grep', { pattern: '/api/v1' }, 'allow by allow'],
    ['Grep', { pattern: 'x', glob: '/etc/*' }, 'ask by default'],
  ])('%s %j: a file search that leaves the folder does not count as inside it', (name, input, verdict) => {
    expect(decided(undefined, use(name, input))).toBe(verdict);
  });

  test('counts for paths at any depth of the input', () => {
    const many = use('Edit', { file_path: 'src/a', edits: [{ path: 'src/b' }, { files: ['/etc/x'] }] });
    expect(decided({ allow: ['Edit(src/**)'] }, many)).toBe('deny by default');
    expect(decided({ allow: ['Edit(src/**)', 'Edit(//etc/x)'] }, many)).toBe('allow by allow');
  });

  test('denies the deletion of a folder with a denied file in it', () => {
    const away = asked({ kind: 'delete', input: { path: 'src' } });
    expect(decided({ deny: ['delete(src/**)'], default: 'allow' }, away)).toBe('deny by deny');
  });

  test.each([
    '.git/hooks/pre-commit',
    '.claude/settings.local.json',
    '.mcp.json',
    'opencode.json',
    'a/.git/config',
    '.QWEN/x',
  ])('an edit of %s always asks, even when it is allowed or remembered', (file) => {
    const edit = use('Edit', { file_path: file });
    expect(decided({ allow: ['*'], default: 'allow' }, edit, remembering('Edit'))).toBe('ask by ask!');
  });

  const aside = {
    ...place({ '/work/@k': '/work/.git/hooks', '/work/kept': '/work/.git/hooks', '/work/.git': '/work/.git' }),
    namesIn: (folder: string) => (folder === '/work' ? ['@k', 'kept', 'src', 'docs'] : []),
  };
  test.each([
    'cp -vt.git/hooks src/a',
    'cp -vvvvvvvvvvvvvvvvvvvvvvvvt.git/hooks src/a',
    'tar -xvC.git/hooks -f a.tar',
    'sort -uo.git/hooks/x src/a',
    'install --target-directory=@k src/a',
    'cp src/a @k/x',
    'cp src/a ./@k/x',
    'cp -vt@k src/a',
    'cp src/a kep*/x',
    'cp src/a *pt/x',
    'cp src/a ?k/x',
    'dd if=src/a of=kept/x',
    'docker run -v src:.git/hooks:ro x',
    'docker run --mount type=bind,src=kept,dst=/x y',
    'curl -Ffile=@.git/hooks/x example.org',
    'curl -o file:///work/kept/x example.org',
    'rsync src/a host:x file://localhost/work/%2egit/hooks/x',
  ])('T76 a command that may write such a file, read in any way, always asks: %s', (command) => {
    expect(decided({ allow: ['*'], default: 'allow' }, use('Bash', { command }, aside))).toBe('ask by ask!');
  });

  test('T76 a path with "@" counts both with and without it', () => {
    const edit = (file: string) => use('Edit', { file_path: file }, aside);
    const read = (file: string) => use('Read', { file_path: file }, aside);
    expect(decided({ allow: ['Edit(**)'] }, edit('@k/post-merge'))).toBe('ask by ask!');
    expect(decided({ allow: ['Edit(src/**)'] }, edit('@src/a'))).toBe('deny by default');
    expect(decided({ allow: ['Edit(src/**)', 'Edit(@src/**)'] }, edit('@src/a'))).toBe('allow by allow');
    expect(decided({ allow: ['Read(src/**)'] }, read('@src/a'))).toBe('deny by default');
    expect(decided({ deny: ['Read(src/**)'], default: 'allow' }, read('@src/a'))).toBe('deny by deny');
    expect(decided({ deny: ['Read(.git)'], default: 'allow' }, read('@k/x'))).toBe('deny by deny');
  });

  const names = (count: number): string => Array.from({ length: count }, (_, at) => `a${at}`).join(' ');
  const there = (file: string) => place({ [`/work/${file}`]: `/work/${file}` });
  const repo = place({ '/work/hooks': '/work/.git/hooks', '/work/notes.md': '/home/ann/.codex/config.toml' });
  test.each([
    ['in another folder', use('Edit', { file_path: '/home/ann/.claude/settings.json' })],
    ['in the repository above the folder', use('Edit', { file_path: '../.git/hooks/pre-commit' })],
    ['by a link to its folder', use('Write', { file_path: 'hooks/pre-commit' }, repo)],
    ['by a link to it', use('Write', { file_path: 'notes.md' }, repo)],
    ['moved there', asked({ kind: 'move', input: { source: 'src/a.json', destination: '.claude/settings.json' } })],
    ['taken away with its folder', asked({ kind: 'delete', input: { path: '.husky' } })],
    ['told beside the input', asked({ kind: 'edit', locations: ['.mcp.json'] })],
    ['under a key that nobody knows', asked({ kind: 'edit', input: { where: '.qwen/settings.json' } })],
    [
      'by an agent elsewhere',
      toolUse({ name: 'Edit', kind: 'edit', input: { file_path: 'a/.gemini/x' }, locations: [] }, null),
    ],
    [
      'by a tool that is new',
      asked({ kind: 'other', name: 'patch_file', input: { at: { file: '.codex/config.toml' } } }),
    ],
    ['by a server', use('mcp__files__write_file', { path: '/work/.claude/settings.local.json', content: '{}' })],
    ['moved there by a server', use('mcp__files__move_file', { source: '/work/a', destination: '/work/.git/hooks/x' })],
    ['by a server, as an address', use('mcp__files__put', { uri: 'file:///work/opencode.json' })],
    ['copied there', bash('cp src/a .git/hooks/pre-commit')],
    ['copied there in another part', bash('ls && cp -t.claude src/settings.json')],
    ['copied there behind an option', bash('install --target-directory=.husky src/a')],
    ['written by a shell', bash('echo "{}" > .mcp.json')],
    ['written by a loop', bash('for i in 1 2; do echo $i; done >> .envrc')],
    ['written by a script', bash("sh -c 'echo x > .git/hooks/post-merge'")],
    ['written from inside its folder', bash('cd .git/hooks && cp /etc/ssl/x post-merge')],
    ['by a link that is made to it', bash('ln -s .claude/settings.json src/a')],
    ['written by a program that mostly reads', bash('find src -fprint .mcp.json')],
    ['overwritten by git', bash('git checkout evil -- .mcp.json')],
    ['overwritten by what git would show', bash('git log -p --output=.mcp.json')],
    ['taken away by a search', bash('find .claude -name x -delete')],
    ['given to a program that a search starts', bash('rg --pre ./x .husky')],
    ['behind six hundred others', bash(`cp ${names(600)} hooks`)],
    ['behind six hundred others, by a server', use('mcp__files__put', { files: names(600).split(' ') })],
    ['far away', bash(`cp src/a ${'./'.repeat(2_000)}.git/hooks/x`)],
    ['far away, by a server', use('mcp__files__put', { path: `${'./'.repeat(2_000)}.git/hooks/x` })],
    ['behind a line feed', bash('cp src/a "x\n/../.git/hooks/x"')],
    ['by letters by number', use('mcp__files__put', { uri: 'file:///work/%2Egit/hooks/x' })],
    ['by a key beside the known one', use('Edit', { file_path: 'src/a', target_file: '.git/hooks/x' })],
    ['by a patch', asked({ kind: 'edit', input: { patchText: '*** Begin Patch\n*** Add File: .mcp.json\n+{}' } })],
    ['by a tool that also searches', use('mcp__files__search_and_replace', { path: '.mcp.json', a: 'b' })],
    ['in the folder of the command', asked({ kind: 'execute', input: { command: 'cp a b', workdir: '.git/hooks' } })],
    ['by a pattern', use('Bash', { command: 'cp src/a .gi?/hooks/x' }, there('.git'))],
    ['by a set of letters', use('Bash', { command: 'cp src/a .[g]it/hooks/x' }, there('.git'))],
    ['by braces', use('Bash', { command: 'cp src/a .gi{t,x}/hooks/x' }, there('.git'))],
    ['by a pattern for all of its kind', use('Bash', { command: 'tee *.json' }, there('opencode.json'))],
  ])('pitfall 6: a file that grants something always asks, %s', (_way, call) => {
    const all = remembering('*', 'execute', 'mcp__files__*');
    expect(decided({ allow: ['*'], default: 'allow' }, call, all)).toBe('ask by ask!');
    expect(
      offersFor(call, verdictOf({ allow: ['*'] }, call), { shownWhole: true, tainted: false, trusted: true }),
    ).toEqual([]);
  });

  test.each([
    ['is read', use('Read', { file_path: '.mcp.json' })],
    [
      'is looked at by a command',
      bash('cat .mcp.json | grep -v x && git diff --stat .claude && find . -not -path "./.git/*"'),
    ],
    ['is read by a server', use('mcp__files__read_text_file', { path: '/work/.mcp.json' })],
    ['is not there for a pattern', bash('cp *.json src/.g* docs')],
    ['is hidden from a pattern', use('Bash', { command: 'cp src/a */x' }, there('.git'))],
    ['is one of few', bash(`cp ${names(400)} src`)],
    ['is only written about', use('mcp__files__write_file', { path: '/work/a.md', content: '.mcp.json' })],
    ['has a name like it', use('Edit', { file_path: 'src/opencode.json.ts' })],
    [
      'is what the folder of the agent lies in',
      use('Edit', { file_path: '/r/.claude/w/a.ts' }, { ...place(), folder: '/r/.claude/w' }),
    ],
  ])('a file that grants something is like any other when it %s', (_fact, call) => {
    expect(decided({ allow: ['*'] }, call)).toBe('allow by allow');
  });
});

describe('a rule on addresses', () => {
  test.each([
    ['domain:docs.example.org', 'https://docs.example.org/a?b', true],
    ['domain:docs.example.org', 'https://DOCS.example.org./', true],
    ['domain:docs.example.org', 'https://example.org', false],
    ['domain:docs.example.org', 'https://docs.example.org@evil.org', false],
    ['domain:docs.example.org', String.raw`https://docs.example.org\@evil.org`, false],
    ['domain:docs.example.org', 'https://docs.exam\tple.org', false],
    ['domain:docs.example.org', 'https://evil.org/docs.example.org', false],
    ['domain:docs.example.org', 'https://docs.example.org.evil.org', false],
    ['domain:docs.example.org', 'file://docs.example.org/etc/passwd', false],
    ['domain:docs.example.org', 'docs.example.org', false],
    ['domain:*.example.org', 'https://a.b.example.org', true],
    ['domain:*.example.org', 'https://example.org', false],
    ['domain:*.example.org', 'https://evilexample.org', false],
    ['domain:bücher.example', 'https://xn--bcher-kva.example/', true],
  ])('%s and %s: allowed is %j', (spec, url, allowed) => {
    expect(decided({ allow: [`WebFetch(${spec})`] }, use('WebFetch', { url }))).toBe(
      allowed ? 'allow by allow' : 'deny by default',
    );
  });

  test('does not count for a web search', () => {
    expect(decided({ allow: ['fetch(domain:a.org)'] }, use('WebSearch', { query: 'a.org' }))).toBe('deny by default');
    expect(decided({ allow: ['WebSearch'] }, use('WebSearch', { query: 'a.org' }))).toBe('allow by allow');
  });
});

describe('a rule on the tools of servers', () => {
  test.each([
    ['mcp__github__create_issue', 'mcp__github__create_issue', {}, true],
    ['mcp__github__*', 'mcp__github__create_issue', {}, true],
    ['mcp__*__read_*', 'mcp__files__read_file', {}, true],
    ['mcp__git__*', 'mcp__github__x', {}, false],
    ['mcp__github__create', 'mcp__github__create_issue', {}, false],
    ['mcp__github__x(repo=acme/*)', 'mcp__github__x', { repo: 'acme/web' }, true],
    ['mcp__github__x(repo=acme/*)', 'mcp__github__x', { repo: 'evil/acme/web' }, false],
    ['mcp__github__x(repo=acme/*)', 'mcp__github__x', {}, false],
    ['mcp__github__x(repo=acme/*)', 'mcp__github__x', { repo: 'acme/../evil/web' }, false],
    ['mcp__github__x(repo=acme/*)', 'mcp__github__x', { repo: 'acme/%2e./evil/web' }, false],
    ['mcp__github__x(repo=acme/*)', 'mcp__github__x', { repo: 'acme/..web' }, true],
    ['mcp__github__x(repo=*)', 'mcp__github__x', { repo: ['acme'] }, false],
    ['mcp__github__x(n=1, dry=true)', 'mcp__github__x', { n: 1, dry: true, more: 'x' }, true],
    ['mcp__github__x(n=1, dry=true)', 'mcp__github__x', { n: 1 }, false],
    ['mcp__github__x(toString=*)', 'mcp__github__x', {}, false],
    ['other', 'mcp__github__x', {}, true],
    ['read', 'mcp__github__read', { path: 'src/a' }, false],
    ['execute', 'mcp__shell__run', { command: 'ls' }, false],
  ])('%s and %s with %j: allowed is %j', (text, name, input, allowed) => {
    expect(decided({ allow: [text] }, use(name, input))).toBe(allowed ? 'allow by allow' : 'deny by default');
  });

  test("ignores the claimed kind of a tool with a server's name", () => {
    const claimed = asked({ name: 'mcp__github__delete_repo', kind: 'read', input: { path: 'src/a' } });
    expect(decided({ allow: ['read'] }, claimed)).toBe('deny by default');
  });
});

describe('the text of a refusal', () => {
  test('names the denying rule and the usable tools, and no other rule', () => {
    const lists = {
      deny: ['Bash(curl *)', 'Bash(wget *)'],
      allow: ['Read(secret-plans/**)', 'mcp__github__*'],
      ask: ['Bash'],
    };
    const rules = uniteRules([{ scope: 'bot', lists }]);
    const curl = bash('curl https://example.org/x');
    expect(toolRefusalText(curl, decideUse(curl, rules, NOTHING), rules)).toBe(
      'AGENT_TOOL_NOT_ALLOWED: execute(curl https://example.org/x) is denied by rule "Bash(curl *)". You may: Read, mcp__github__*; Bash after approval.',
    );
  });

  test('says when no rule covers the call, and when the run leaves the tool out', () => {
    const rules = uniteRules([{ scope: 'bot', lists: { deny: ['Bash'] } }]);
    const edit = use('Edit', { file_path: 'a' });
    expect(toolRefusalText(edit, decideUse(edit, rules, NOTHING), rules)).toBe(
      'AGENT_TOOL_NOT_ALLOWED: edit is denied: no rule covers it. You may: use no tools.',
    );
    const narrow = uniteRules([{ scope: 'bot', lists: undefined }], ['Read']);
    expect(toolRefusalText(edit, decideUse(edit, narrow, NOTHING), narrow)).toBe(
      'AGENT_TOOL_NOT_ALLOWED: edit is denied: it is not among the tools of this run. You may: read, search; everything else after approval.',
    );
  });
});

const WORD = fc.constantFrom(
  'a',
  'b',
  'git',
  'sh',
  'find',
  '-c',
  '-exec',
  'status',
  'x y',
  '$z',
  '*',
  "'q'",
  '/bin/a',
  'eval',
  'env',
  'rm',
);
const JOINT = fc.constantFrom(
  ' ',
  ' ',
  ' ',
  ' && ',
  '; ',
  ' | ',
  '\n',
  ' $(',
  ' `',
  ') ',
  '` ',
  ' > ',
  ' "',
  '" ',
  ' <(',
  ' & ',
  '=',
  ' {',
  '}',
  '\\',
  '#',
);
const LINE = fc
  .array(fc.tuple(WORD, JOINT), { minLength: 1, maxLength: 8, size: 'max' })
  .map((pairs) => pairs.flat().join(''));
const RULES = fc.array(
  fc.constantFrom(
    'Bash(a)',
    'Bash(a *)',
    'Bash(git status)',
    'Bash(git *)',
    'Bash(find *)',
    'Bash(sh -c *)',
    'Bash(rm *)',
    'Bash(b *)',
    'read',
  ),
  { maxLength: 5 },
);

describe('whether a tool of a server can ever be used', () => {
  const reached = (lists: ToolLists, tool: string | null = 'write_file') =>
    reachesTool(uniteRules([{ scope: 'bot', lists }]), 'files', tool);

  test.each<[ToolLists, boolean]>([
    [{}, true],
    [{ deny: ['mcp__files__write_file'] }, false],
    [{ deny: ['mcp__files__*'], allow: ['mcp__files__write_file'] }, false],
    [{ deny: ['other'] }, false],
    [{ deny: ['*'] }, false],
    [{ deny: ['mcp__files__write_file(path=/etc/*)'], default: 'ask' }, true],
    [{ allow: ['mcp__files__read_*'] }, false],
    [{ allow: ['mcp__files__write_file(path=/tmp/*)'] }, true],
    [{ ask: ['mcp__files__*'] }, true],
    [{ ask: ['mcp__files__*!'] }, true],
    [{ allow: ['Read'] }, false],
    [{ allow: ['Read'], default: 'ask' }, true],
  ])('%j', (lists, expected) => {
    expect(reached(lists)).toBe(expected);
  });

  test('is known for a whole server, too: a server with only denied tools need not start', () => {
    expect(reached({ deny: ['mcp__files__*'] }, null)).toBe(false);
    expect(reached({ deny: ['mcp__files__write_*'] }, null)).toBe(false);
    expect(reached({ deny: ['mcp__files__write_*'], default: 'ask' }, null)).toBe(true);
    expect(reached({ allow: ['mcp__files__read_*'] }, null)).toBe(true);
    expect(reached({ allow: ['mcp__other__*'] }, null)).toBe(false);
  });
});

describe('any command line', () => {
  test('is allowed only if a rule allows each of its parts', () => {
    fc.assert(
      fc.property(LINE, RULES, (line, allow) => {
        const { verdict } = verdictOf({ allow, default: 'ask' }, bash(line));
        const { parts } = readShell(line);
        const isEach = parts?.every((words) => {
          const quoted = words.map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`).join(' ');
          return allow.some((text) => bash(quoted).parts.every((part) => isAbout(rule(text), part, false)));
        });
        assert.equal(verdict, isEach === true ? 'allow' : 'ask', line);
      }),
      { numRuns: 2_000 },
    );
  });

  test('stays denied, asked or unnamed when another part is added', () => {
    fc.assert(
      fc.property(LINE, LINE, RULES, RULES, (one, other, allow, deny) => {
        const lists = { allow, deny, default: 'ask' } as const;
        const order = ['allow', 'ask', 'deny'];
        const alone = verdictOf(lists, bash(one)).verdict;
        if (readShell(one).parts === null) return;
        const both = verdictOf(lists, bash(`${one}\n${other}`)).verdict;
        assert(order.indexOf(both) >= order.indexOf(alone), `${one} is ${alone}, with ${other} ${both}`);
      }),
      { numRuns: 2_000 },
    );
  });

  test('the text of a rule that was read is read to the same rule', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), (text) => {
        for (const written of [text, `Bash(${text})`, `Edit(${text})`, `mcp__a__b(${text})`, `fetch(domain:${text})`]) {
          const read = parseRule(written);
          if (read.ok) assert.equal(rule(read.rule.text).text, read.rule.text);
          else assert(read.message.length > 10);
        }
      }),
    );
  });
});

describe('a run for a person who is not an operator', () => {
  const lists = { allow: ['Bash(npm test)', 'Read'], deny: ['Bash(curl *)'], default: 'ask' } as const;
  const after = (members: 'ask' | 'deny' | 'same' | null, one = bash('npm test'), isHarmless = false): string => {
    const rules = uniteRules([{ scope: 'bot', lists: members === null ? lists : { ...lists, members } }]);
    const { verdict, by } = decideForMember(one, decideUse(one, rules, NOTHING), { ...rules, isHarmless });
    return `${verdict} by ${by}`;
  };

  test('asks even for what is allowed, unless told otherwise', () => {
    expect([after(null), after('ask'), after('deny'), after('same')]).toEqual([
      'ask by members',
      'ask by members',
      'deny by members',
      'allow by allow',
    ]);
  });

  test('may read, and denied calls stay denied', () => {
    const read = use('Read', { file_path: '/work/src/a.ts' });
    expect([after('deny', read), after('ask', bash('curl x'))]).toEqual(['allow by allow', 'deny by deny']);
  });

  test('may use a tool that changes nothing on a trusted server', () => {
    const tool = use('mcp__files__read_file', { path: 'a' });
    expect([after('deny', tool, true), after('deny', tool)]).toEqual(['ask by default', 'deny by members']);
  });

  test('does not count a call that reads and runs as reading', () => {
    const both = asked({ kind: 'read', input: { command: 'npm test' } });
    expect(after('ask', both)).toBe('ask by members');
  });

  test('goes by the narrowest place that sets it, without effect on other rules', () => {
    const rules = uniteRules([
      { scope: 'bot', lists: { members: 'deny' } },
      { scope: 'channel', lists: { members: 'same' } },
    ]);
    expect([rules.members, rules.default, uniteRules([]).members]).toEqual(['same', 'ask', 'ask']);
  });

  test('is told the reason of a denial', () => {
    const rules = uniteRules([{ scope: 'bot', lists: { ...lists, members: 'deny' } }]);
    const one = bash('npm test');
    const verdict = decideForMember(one, decideUse(one, rules, NOTHING), { ...rules, isHarmless: false });
    expect(toolRefusalText(one, verdict, rules)).toContain('it was asked for by somebody who is not an operator');
  });
});
