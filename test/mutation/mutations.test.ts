import { describe, expect, test } from 'vitest';
import { mutated, mutationsOf, randomOf } from './mutations.ts';
import { roundsOf } from './nearest-tests.ts';

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

describe('the tests for a file', () => {
  const importing = (from: string, to: string, types = false) => ({ from, to, types });
  const imports = [
    importing('test/turns/floor.test.ts', 'src/turns/floor.ts'),
    importing('test/turns/beside.test.ts', 'src/turns/manager.ts'),
    importing('src/turns/manager.ts', 'src/turns/floor.ts'),
    importing('test/runtime/rig.ts', 'src/turns/manager.ts'),
    importing('test/runtime/app.test.ts', 'test/runtime/rig.ts'),
    importing('test/work/run.test.ts', 'src/turns/manager.ts'),
    importing('test/lib/time.test.ts', 'src/turns/floor.ts', true),
  ];
  const files = [...new Set(imports.flatMap(({ from, to }) => [from, to]))];

  test('are the tests that import it, the nearest first, without type-only imports', () => {
    expect(roundsOf('turns/floor.ts', { files, imports })).toEqual([
      ['test/turns/floor.test.ts', 'test/turns/beside.test.ts'],
      ['test/work/run.test.ts'],
      ['test/runtime/app.test.ts'],
    ]);
  });

  test('are none for a file that no test imports', () => {
    expect(roundsOf('cli/none.ts', { files, imports })).toEqual([]);
  });
});
