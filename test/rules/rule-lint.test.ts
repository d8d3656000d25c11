import { describe, expect, test } from 'vitest';
import { lintRules } from '../../src/rules/rule-lint.ts';
import type { ToolLists } from '../../src/rules/verdict.ts';

function found(lists: ToolLists): readonly string[] {
  return lintRules(lists).map(
    ({ list, index, wrong, message }) => `${list}[${index}] ${wrong ? 'wrong' : 'unwise'}: ${message}`,
  );
}

describe('rules without a fault', () => {
  test('get no message', () => {
    expect(
      found({
        allow: ['Read', 'Grep(**)', 'Bash(npm test)', 'Bash(git diff *)', 'mcp__files__read_*', 'Bash(npm run build)'],
        ask: ['Edit', 'Bash(git push *)!', 'Bash(npm publish *)'],
        deny: ['Bash(curl *)', 'mcp__files__delete_*', 'Edit(.env)'],
        default: 'ask',
      }),
    ).toEqual([]);
  });
});

describe('T79 a rule on a file beside rules on commands', () => {
  test('gets a message that it holds only for commands that name the file', () => {
    expect(found({ deny: ['Read(.env)'], allow: ['Bash(cat *)'] })).toEqual([
      'allow[0] unwise: "Read(.env)" of "deny" protects a file only from commands that name the file. Allowed commands can still reach the file through its folder.',
    ]);
    expect(lintRules({ deny: ['Read(.env)'] }, [{ allow: ['Bash(cat *)'] }]).map(({ message }) => message)).toEqual([
      'This rule protects a file only from commands that name the file. "Bash(cat *)" can still reach the file through its folder.',
    ]);
    expect(found({ deny: ['Read(.env)'], allow: ['Bash(npm test)'] })).toEqual([]);
  });
});

describe('a rule that looks right', () => {
  test.each<readonly [string, ToolLists, string]>([
    ['cannot be read', { allow: ['Bsh'] }, 'allow[0] wrong: There is no tool "Bsh"'],
    [
      'has a server with "_"',
      { deny: ['mcp__my_server__x'] },
      'deny[0] wrong: Expected "mcp__<server>__<tool>"; a server',
    ],
    ['asks always where it cannot', { allow: ['Bash(x)!'] }, 'allow[0] wrong: Only rules of "ask" may end in "!"'],
    [
      'is forbidden already',
      { deny: ['Edit'], allow: ['delete(src/**)'] },
      'allow[0] unwise: This rule has no effect: "Edit" of "deny"',
    ],
    [
      'asks already',
      { ask: ['Bash(git *)'], allow: ['Bash(git status)'] },
      'allow[0] unwise: This rule has no effect: "Bash(git *)" of "ask"',
    ],
    [
      'stands before a wider one',
      { allow: ['Bash(git log)', 'Bash(git log *)'] },
      'allow[0] unwise: This rule has no effect: "Bash(git log *)" of "allow" covers it and is at least as strict. Remove one.',
    ],
    [
      'stands after a wider one',
      { allow: ['Bash(git log *)', 'Bash(git log)'] },
      'allow[1] unwise: This rule has no effect: "Bash(git log *)" of "allow" covers it and is at least as strict. Remove one.',
    ],
    ['is there twice', { allow: ['Read', 'Read'] }, 'allow[1] unwise: This rule has no effect: "Read" of "allow"'],
    [
      'has a wider one beside it',
      { ask: ['mcp__a__x', 'mcp__a__*'] },
      'ask[0] unwise: This rule has no effect: "mcp__a__*"',
    ],
    ['asks always already', { ask: ['Bash(x)', 'Bash!'] }, 'ask[0] unwise: This rule has no effect: "Bash!"'],
    [
      'has "*" in the middle',
      { allow: ['Bash(git * main)'] },
      'allow[0] unwise: "*" inside a word matches only itself',
    ],
    [
      'has "*" at a word',
      { deny: ['Bash(git push*)'] },
      'deny[0] unwise: "*" inside a word matches only itself, as in "push*". For any further words, write a separate "*" at the end: "git push *"',
    ],
    [
      'begins at the folder',
      { deny: ['Read(/etc/**)'] },
      'deny[0] unwise: This path begins at the agent\'s folder: write "//etc/**"',
    ],
    ['lets every command run', { allow: ['execute'] }, 'allow[0] unwise: Every command runs without a request'],
    [
      'lets every command run by its other name',
      { allow: ['Bash'] },
      'allow[0] unwise: Every command runs without a request',
    ],
    ['lets everything run', { allow: ['*'] }, 'allow[0] unwise: Every tool runs without a request'],
    ['lets all words run', { allow: ['Bash(*)'] }, 'allow[0] unwise: This rule allows only commands that are known'],
    [
      'lets an interpreter run all',
      { allow: ['Bash(python *)'] },
      'allow[0] unwise: This rule can run any program: with some arguments, "python"',
    ],
    [
      'lets a runner run all',
      { allow: ['Bash(npm run *)'] },
      'allow[0] unwise: This rule can run any program: with some arguments, "npm run"',
    ],
    [
      'lets a default run all',
      { allow: ['Read'], default: 'allow' },
      'default[null] unwise: Tools that no rule names run',
    ],
  ])('and %s gets a message', (_what, lists, message) => {
    expect(found(lists)).toEqual([expect.stringContaining(message)]);
  });

  test('and repeats a rule of a wider scope gets a message, at any place in the list', () => {
    const wider = { deny: ['Bash(a)', 'Edit(x)', 'Bash(b)'] };
    expect(lintRules({ deny: ['Bash(b)'] }, [wider]).map(({ message }) => message)).toEqual([
      expect.stringContaining('"Bash(b)" of "deny"'),
    ]);
  });

  test('gets no message when the wider rule allows less than it seems', () => {
    expect(found({ allow: ['Bash(git log *)', 'Bash(git log --output=x)'] })).toEqual([]);
  });
});
