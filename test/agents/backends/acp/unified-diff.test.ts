import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { unifiedDiff } from '../../../../src/agents/backends/acp/acp-permission.ts';

const numbered = (count: number): string => Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join('');

test('a diff shows changes with three lines of context, and the number of changed lines', () => {
  const before = numbered(20);
  const after = before.replace('line 10\n', 'line ten\nand more\n');
  expect(unifiedDiff('a.txt', before, after).split('\n')).toEqual([
    'a.txt (+2 -1)',
    '@@ -7,7 +7,8 @@',
    ' line 7',
    ' line 8',
    ' line 9',
    '-line 10',
    '+line ten',
    '+and more',
    ' line 11',
    ' line 12',
    ' line 13',
  ]);
});

test('a diff shows a new file, an emptied file and an unchanged file', () => {
  expect(unifiedDiff('a.txt', null, 'x\n')).toBe('a.txt (a new file, +1 -0)\n@@ -0,0 +1,1 @@\n+x');
  expect(unifiedDiff('a.txt', 'x\n', '')).toBe('a.txt (+0 -1)\n@@ -1,1 +0,0 @@\n-x');
  expect(unifiedDiff('a.txt', 'x\n', 'x\n')).toBe('a.txt (+0 -0)');
});

test('a diff shows that only the line end at the end of the file was added', () => {
  expect(unifiedDiff('a.txt', 'x', 'x\n').split('\n').slice(2)).toEqual(['-x', '\\ No newline at end of file', '+x']);
});

test('a diff shows every line of two long files without common lines', () => {
  const [before, after] = [numbered(2_500), numbered(2_500).replaceAll('line', 'row')];
  const lines = unifiedDiff('a.txt', before, after).split('\n');
  expect(lines.filter((line) => line.startsWith('+row'))).toHaveLength(2_500);
  expect(lines.filter((line) => line.startsWith('-line'))).toHaveLength(2_500);
});

test('a diff applied to the old text gives the new text', () => {
  const text = fc
    .array(fc.constantFrom('a', 'b', 'c', ''), { maxLength: 30, size: 'max' })
    .map((lines) => lines.join('\n'));
  fc.assert(fc.property(text, text, (before, after) => applied(before, unifiedDiff('f', before, after)) === after));
});

/** Applies a diff like `patch`. */
function applied(before: string, diff: string): string {
  const old = before === '' ? [] : before.split(/(?<=\n)/);
  const made: string[] = [];
  let at = 0;
  const lines = diff.split('\n').slice(1);
  for (const [index, line] of lines.entries()) {
    const [, from, count] = /^@@ -(\d+),(\d+)/.exec(line) ?? [];
    if (from !== undefined) {
      const start = Number(from) - (Number(count) === 0 ? 0 : 1);
      made.push(...old.slice(at, start));
      at = start;
    } else if (!line.startsWith('\\')) {
      const end = lines[index + 1]?.startsWith('\\') === true ? '' : '\n';
      if (!line.startsWith('+')) {
        if (old[at] !== line.slice(1) + end) return `${old[at]} is not ${line}`;
        at += 1;
      }
      if (!line.startsWith('-')) made.push(line.slice(1) + end);
    }
  }
  return [...made, ...old.slice(at)].join('');
}
