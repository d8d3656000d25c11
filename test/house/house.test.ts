import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { BOUNDS } from './bounds.ts';
import { packagesOf, reachedFrom, readSource } from './imports.ts';
import { measure } from './measure.ts';
import { ROOMS, lintPatterns } from './rooms.ts';
import { SAME_MEANING } from './same-meaning.ts';

const house = measure(new URL('../../src', import.meta.url).pathname);

describe('the source', () => {
  test('is in rooms, except the files that start the program', () => {
    expect(house.rooms.toSorted()).toEqual(ROOMS.map(({ name }) => name).toSorted());
    expect(house.looseFiles).toEqual(['conch-agent.js', 'conch.js', 'main.ts']);
    expect(house.deepest).toBeLessThanOrEqual(3);
  });

  test('has no folder with too many files to survey', () => {
    const { files } = house.mostFilesInAFolder;
    expect(files).toBeLessThanOrEqual(18);
  });

  test('has one meaning for each shared name', () => {
    expect([...house.sharedFileNames, ...house.sharedExports]).toEqual([]);
  });

  test('has no reason for a name that needs none', () => {
    expect(house.sharedByMeaning.map(({ name }) => name).toSorted()).toEqual(Object.keys(SAME_MEANING).toSorted());
  });

  test('has no import cycles, including types', () => {
    expect(house.cycles).toHaveLength(BOUNDS.cycles);
  });

  test('crosses no closed border between rooms', () => {
    expect(house.bordersBroken).toHaveLength(BOUNDS.bordersBroken);
  });

  test.each(['linesOfCode', 'files'] as const)('stays below the bound of %s', (key) => {
    expect(house[key]).toBeLessThanOrEqual(BOUNDS[key]);
  });

  test('keeps schemas and Node out of the page, also through indirect imports', () => {
    const root = new URL('../../src', import.meta.url).pathname;
    const source = readSource(root);
    const page = source.files.filter((file) => file.startsWith('adapters/page/') && !file.includes('vite'));
    const others = reachedFrom(page, source).filter((file) => !page.includes(file));
    expect(others).toContain('turns/commands/command-table.ts');
    expect(others.flatMap((file) => packagesOf(root, file).map((name) => `${file} imports ${name}`))).toEqual([]);
  });

  test('has lint rules for its borders', () => {
    const text = readFileSync(new URL('../../.oxlintrc.json', import.meta.url), 'utf8');
    const { overrides } = JSON.parse(text) as { overrides: { files: string[]; rules: Record<string, unknown> }[] };
    for (const room of ROOMS.filter(({ name }) => name !== 'cli')) {
      const rules = overrides.find(({ files }) => files[0] === `src/${room.name}/**`)?.rules;
      expect(rules?.['no-restricted-imports']).toEqual(['error', { patterns: lintPatterns(room) }]);
    }
  });
});
