import { describe, expect, test } from 'vitest';
import { offersFor } from '../../src/rules/offers.ts';
import type { OfferFacts } from '../../src/rules/offers.ts';
import { asked, bash, decided, place, remembering, use, verdictOf } from './fixture.ts';
import type { ToolUse } from '../../src/rules/tool-use.ts';

const SEEN: OfferFacts = { shownWhole: true, tainted: false, trusted: true };

function offered(one: ToolUse, facts: OfferFacts = SEEN): readonly string[] {
  return offersFor(one, verdictOf({ ask: ['*'] }, one), facts).map(({ rule }) => rule);
}

describe('"always"', () => {
  test.each([
    ['a command', bash('git diff HEAD~1'), ['execute(git diff HEAD~1)', 'execute(git diff *)']],
    ['a command of one word', bash('pwd'), ['execute(pwd)']],
    ['a command without a verb', bash('ls -la "my files"'), ["execute(ls -la 'my files')", 'execute(ls *)']],
    ['an edit', use('Edit', { file_path: 'src/a.ts' }), ['edit(/src/a.ts)', 'edit(/src/**)', 'edit(**)']],
    ['an edit at the top', use('Edit', { file_path: 'a.ts' }), ['edit(/a.ts)', 'edit(**)']],
    ['a page', use('WebFetch', { url: 'https://docs.example.org/a' }), ['fetch(domain:docs.example.org)']],
    [
      'a tool of a server',
      use('mcp__files__write', { path: '/a/b.txt', text: 'hi' }),
      ['mcp__files__write(path=/a/b.txt, text=hi)', 'mcp__files__write(path=/a/b.txt)', 'mcp__files__write'],
    ],
    [
      'a tool with a long text',
      use('mcp__files__write', { path: '/a/b.txt', text: 'x'.repeat(300) }),
      ['mcp__files__write(path=/a/b.txt)', 'mcp__files__write'],
    ],
  ])('offers for %s the narrowest rule first', (_what, one, rules) => {
    expect(offered(one)).toEqual(rules);
  });

  test.each([
    ['several parts', bash('git diff && git log')],
    ['what cannot be taken apart', bash('git diff > x')],
    ['a shell', bash('sh -c x')],
    ['an interpreter', bash('python x.py')],
    ['a runner', bash('npx x')],
    ['a search that may run others', bash('find . -name x')],
    ['another machine', bash('ssh host ls')],
    ['an option that starts another program', bash('git -c core.pager=x log')],
    ['taking away', bash('rm x')],
    ['a deletion', asked({ kind: 'delete', input: { path: 'src/a' } })],
    ['a change of mode', asked({ kind: 'switch_mode', input: {} })],
    ['a path outside', use('Edit', { file_path: '/etc/x' })],
    ['a link outside', use('Edit', { file_path: 'src/out/x' }, place({ '/work/src/out': '/etc' }))],
    ['a path with a pattern in it', use('Edit', { file_path: 'src/*.ts' })],
    ['a tool of no kind', asked({ kind: 'other', input: { a: 1 } })],
    ['an address that is none', use('WebFetch', { url: 'x' })],
    ['a tool whose name would mean others', use('mcp__files__w*', { path: 'a' })],
    ['a value that leads aside', asked({ kind: 'edit', input: { path: 'src/../../x' } })],
    ['another folder', asked({ kind: 'execute', input: { command: 'git diff HEAD', workdir: 'src' } })],
    ['a variable', bash('export PATH=src')],
    ['an interpreter of a version', bash('python3.12 x.py')],
    ['a wrapper', bash('taskset 1 x')],
  ])('offers nothing for %s', (_what, one) => {
    expect(offered(one)).toEqual([]);
  });

  test('offers nothing for what was not shown whole, a tainted session, a rule that always asks', () => {
    const diff = bash('git diff HEAD');
    expect(offered(diff, { ...SEEN, shownWhole: false })).toEqual([]);
    expect(offered(diff, { ...SEEN, tainted: true })).toEqual([]);
    expect(offersFor(diff, verdictOf({ ask: ['Bash!'] }, diff), SEEN)).toEqual([]);
  });

  test('offers a tool of a server only if the server is trusted or the tool says that it destroys nothing', () => {
    const tool = use('mcp__files__write', { path: 'a' });
    expect(offered(tool, { ...SEEN, trusted: false })).toEqual([]);
    expect(offered(tool, { ...SEEN, trusted: false, destructive: true })).toEqual([]);
    expect(offered(tool, { ...SEEN, trusted: false, destructive: false })).not.toEqual([]);
  });

  test.each([
    bash("git commit -m 'a b'"),
    bash('ls -la'),
    use('Write', { file_path: 'src/deep/a.ts' }),
    use('WebFetch', { url: 'https://a.org:8443/x' }),
    use('mcp__files__write', { path: '/a b/c', n: 3, on: true }),
  ])('stores a rule that allows the same call the next time, %#', (one) => {
    const offers = offered(one);
    expect(offers.length).toBeGreaterThan(0);
    for (const text of offers) expect(decided({ ask: ['*'] }, one, remembering(text))).toBe('allow by remembered');
  });

  test('says for a tool of a server that values outside the rule may be anything', () => {
    const edit = use('mcp__files__edit', { path: 'a', edits: [{ to: 'b' }] });
    const [first] = offersFor(edit, verdictOf({ ask: ['*'] }, edit), SEEN);
    expect(first).toEqual({ rule: 'mcp__files__edit(path=a)', words: 'edit with path=a, any content' });
    const other = use('mcp__files__edit', { path: 'a', edits: [{ to: 'c' }], force: true });
    expect(decided({ ask: ['*'] }, other, remembering(first?.rule ?? ''))).toBe('allow by remembered');
  });

  test('stores a rule for an exact command that allows no other command', () => {
    const memory = remembering(offered(bash('git diff HEAD'))[0] ?? '');
    expect(decided({ ask: ['*'] }, bash('git diff HEAD'), memory)).toBe('allow by remembered');
    for (const other of ['git diff', 'git diff HEAD x', 'git diff HEAD; x', 'git diff HEAD > x', 'x git diff HEAD']) {
      expect(decided({ ask: ['*'] }, bash(other), memory)).toBe('ask by ask');
    }
  });
});
