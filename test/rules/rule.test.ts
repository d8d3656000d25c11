import { describe, expect, test } from 'vitest';
import { parseRule, wildcard } from '../../src/rules/rule.ts';
import { rule } from './fixture.ts';

describe('a rule', () => {
  test.each([
    '*',
    'read',
    'switch_mode',
    'Bash',
    'mcp__github__*',
    'mcp__*__delete_*',
    'Bash(npm test)',
    'fetch(domain:*.a.org)',
  ])('is read from %s', (text) => {
    expect(rule(text).text).toBe(text);
  });

  test.each([
    ['', 'Expected a rule such as "execute", "Bash(npm test)" or "mcp__github__*"'],
    ['Bash(npm test', 'Expected a rule such as'],
    ['Bash npm', 'Expected a rule such as'],
    ['Bsh', 'There is no tool "Bsh": known are read, search'],
    ['constructor', 'There is no tool "constructor"'],
    ['Bash()', 'There is nothing in the brackets: write "Bash" for every use of this tool'],
    ['*(x)', 'Nothing can stand in brackets after "*"'],
    ['mcp__github', `a server's name has no "_"`],
    ['mcp__my_server__x', `a server's name has no "_"`],
    ['Bash(a && b)', 'Expected the words of one command'],
    ['Bash(a | b)', 'Expected the words of one command'],
    ['Bash(echo $HOME)', 'Expected the words of one command'],
    ['Bash(FOO=1 npm test)', 'Expected the words of one command'],
    ['Bash(npm test > log)', 'Expected the words of one command'],
    ['Bash("npm)', 'Expected the words of one command'],
    ['Edit(../other/**)', 'Expected a path without ".."'],
    ['Edit(!src)', 'A path cannot begin with "!"'],
    ['WebFetch(docs.example.org)', 'Expected "domain:docs.example.org"'],
    ['WebFetch(domain:*)', 'Expected "domain:docs.example.org"'],
    ['WebFetch(domain:a.org/x)', 'Expected "domain:docs.example.org"'],
    ['mcp__github__x(acme)', 'Expected "key=value"'],
    ['mcp__github__x(a=1, a=2)', '"a" is given twice'],
  ])('is not read from %j', (text, message) => {
    const read = parseRule(text);
    expect(read.ok ? 'it was read' : read.message).toContain(message);
  });
});

describe('a wildcard', () => {
  test.each([
    ['a', 'a', true],
    ['a', 'ab', false],
    ['*', '', true],
    ['a*', 'a', true],
    ['a*b', 'a', false],
    ['a*a', 'a', false],
    ['a*b', 'a\nb', true],
    ['*b*', 'abc', true],
    ['a*b*c', 'acb', false],
    ['a*bc*bc', 'abc', false],
    ['a*bc*bc', 'abcbc', true],
    ['a.c', 'abc', false],
    ['**', 'x', true],
  ])('%j on %j: matches %j', (pattern, text, fits) => {
    expect(wildcard(pattern)(text)).toBe(fits);
  });
});
