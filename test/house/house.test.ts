import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { BOUNDS } from './bounds.ts';
import { packagesOf, reachedFrom, readSource } from './imports.ts';
import { measure } from './measure.ts';
import { ROOMS, lintPatterns } from './rooms.ts';
import { SAME_MEANING } from './same-meaning.ts';

const house = measure(new URL('../../src', import.meta.url).pathname);

describe('the source', () => {
  test('lies in its rooms, but for what starts the program', () => {
    expect(house.rooms.toSorted()).toEqual(ROOMS.map(({ name }) => name).toSorted());
    expect(house.looseFiles).toEqual(['conch-agent.js', 'conch.js', 'main.ts']);
    expect(house.deepest).toBeLessThanOrEqual(3);
  });

  test('has no folder that cannot be taken in at one look', () => {
    const { files } = house.mostFilesInAFolder;
    expect(files).toBeLessThanOrEqual(18);
  });

  test('gives every name one meaning', () => {
    expect([...house.sharedFileNames, ...house.sharedExports]).toEqual([]);
  });

  test('gives a reason for no name that does not need one', () => {
    expect(house.sharedByMeaning.map(({ name }) => name).toSorted()).toEqual(Object.keys(SAME_MEANING).toSorted());
  });

  test('has no circle of imports, types counted', () => {
    expect(house.cycles).toHaveLength(BOUNDS.cycles);
  });

  test('crosses no border that is closed', () => {
    expect(house.bordersBroken).toHaveLength(BOUNDS.bordersBroken);
  });

  test.each(['linesOfCode', 'files'] as const)('stays below the bound of %s', (key) => {
    expect(house[key]).toBeLessThanOrEqual(BOUNDS[key]);
  });

  test('keeps the page free of schemas and of Node, however far its imports reach', () => {
    const root = new URL('../../src', import.meta.url).pathname;
    const source = readSource(root);
    const page = source.files.filter((file) => file.startsWith('adapters/page/') && !file.includes('vite'));
    const others = reachedFrom(page, source).filter((file) => !page.includes(file));
    expect(others).toContain('turns/commands/command-table.ts');
    expect(others.flatMap((file) => packagesOf(root, file).map((name) => `${file} imports ${name}`))).toEqual([]);
  });

  test('has its borders held by lint', () => {
    const text = readFileSync(new URL('../../.oxlintrc.json', import.meta.url), 'utf8');
    const { overrides } = JSON.parse(text) as { overrides: { files: string[]; rules: Record<string, unknown> }[] };
    for (const room of ROOMS.filter(({ name }) => name !== 'cli')) {
      const rules = overrides.find(({ files }) => files[0] === `src/${room.name}/**`)?.rules;
      expect(rules?.['no-restricted-imports']).toEqual(['error', { patterns: lintPatterns(room) }]);
    }
  });
});
