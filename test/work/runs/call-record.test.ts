import { expect, test } from 'vitest';
import { settlement } from '../../../src/work/runs/call-record.ts';

test('an output that is cut within a character ends with no half of the character', () => {
  const output = `${'a'.repeat(65_535)}😀 and more`;
  const result = { status: 'complete', output, durationMs: 1, code: null } as const;
  const [settled] = settlement({ id: 'a', tool: 'read' }, result, (text) => text);
  expect(settled.output?.slice(65_534, 65_540)).toBe('a\uFFFD\n… (');
});
