import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

/**
 * A scripted developer of Conch that does one of two tickets. Its first attempt at the first ticket is wrong. It
 * corrects the attempt when the tests fail.
 */
const ticket = process.env['CONCH_TICKET'] ?? '';
const isMending = readFileSync(0, 'utf8').includes('The tests of ticket');

const DAYS = isMending
  ? "['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']"
  : "['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']";
const WORK: Readonly<Record<string, readonly (readonly [path: string, text: string])[]>> = {
  's-1': [
    [
      'src/lib/time.ts',
      `\n/** The day of the week of an instant, in UTC: three letters. */\nexport function weekdayOf(at: Instant): string {\n  return ${DAYS}[new Date(at).getUTCDay()] ?? '';\n}\n`,
    ],
    [
      'test/lib/weekday.test.ts',
      "import { expect, test } from 'vitest';\nimport { weekdayOf } from '../../src/lib/time.ts';\n\ntest('names the day of the week in UTC', () => {\n  expect(weekdayOf(0)).toBe('Thu');\n  expect(weekdayOf(86_399_999)).toBe('Thu');\n  expect(weekdayOf(86_400_000)).toBe('Fri');\n});\n",
    ],
  ],
  's-2': [
    [
      'src/lib/nearest.ts',
      '\n/** The words of a list that begin with a word, in the order of the list. */\nexport function nearWords(word: string, known: readonly string[]): readonly string[] {\n  return known.filter((each) => each.toLowerCase().startsWith(word.toLowerCase()));\n}\n',
    ],
    [
      'test/lib/near-words.test.ts',
      "import { expect, test } from 'vitest';\nimport { nearWords } from '../../src/lib/nearest.ts';\n\ntest('lists the words that begin with a word', () => {\n  expect(nearWords('Re', ['retry', 'run', 'rest'])).toEqual(['retry', 'rest']);\n});\n",
    ],
  ],
};

for (const [path, text] of WORK[ticket] ?? []) {
  const isNew = path.startsWith('test/');
  const before = isNew ? '' : execFileSync('git', ['show', `main:${path}`], { encoding: 'utf8' });
  writeFileSync(path, before + text);
}
execFileSync('git', ['add', '-A']);
execFileSync('git', ['commit', '-q', '-m', isMending ? `Mend ${ticket}` : `Do ${ticket}`]);
process.stdout.write(`${JSON.stringify({ text: 'It is finished.\nDONE' })}\n`);
