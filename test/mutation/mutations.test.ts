import { describe, expect, test } from 'vitest';
import { mutated, mutationsOf, randomOf } from './mutations.ts';

const CODE = [
  '// a comment: a === b',
  'import x from "a";',
  'if (a === b && !c) return null;',
  'const n = m + 1;',
].join('\n');

describe('mutations of a file', () => {
  test('are changes of code, never of comments and imports', () => {
    expect(mutationsOf('a.ts', CODE).map(({ line, after }) => [line, after])).toEqual([
      [3, 'if (a !== b && !c) return null;'],
      [3, 'if (a === b || !c) return null;'],
      [3, 'if (a === b && !c) return undefined as never;'],
      [4, 'const n = m - 1;'],
    ]);
  });

  test('change one line of the text', () => {
    const [first] = mutationsOf('a.ts', CODE);
    const lines = first === undefined ? [] : mutated(CODE, first).split('\n');
    expect(lines.filter((line, index) => line !== CODE.split('\n')[index])).toEqual([
      'if (a !== b && !c) return null;',
    ]);
  });

  test('are chosen by a seed that repeats', () => {
    const [one, same, other] = [randomOf(7), randomOf(7), randomOf(8)].map((random) => [random(), random()]);
    expect(one).toEqual(same);
    expect(one).not.toEqual(other);
  });
});
