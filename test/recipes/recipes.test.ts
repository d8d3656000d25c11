import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RECIPES } from './recipes.ts';
import type { Recipe } from './recipes.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

/** The path of a copy of the source with all recipes applied. */
let copy = '';

beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), 'conch-recipes-'));
  cpSync(join(ROOT, 'src'), join(copy, 'src'), { recursive: true });
  cpSync(join(ROOT, 'package.json'), join(copy, 'package.json'));
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  // Without its own cache file, the compiler would replace the cache of this folder's types.
  const compilerOptions = { tsBuildInfoFile: join(copy, 'types.json') };
  const include = { include: ['src'], exclude: ['src/adapters/page'] };
  const config = { extends: join(ROOT, 'tsconfig.json'), compilerOptions, ...include };
  writeFileSync(join(copy, 'tsconfig.json'), JSON.stringify(config));
  for (const { edits } of RECIPES) for (const edit of edits) follow(edit);
});

afterAll(() => rmSync(copy, { recursive: true, force: true }));

/** Adds lines to a file of the copy. Throws unless the anchor is in the file exactly once. */
function follow({ file, after, add }: Recipe['edits'][number]): void {
  const path = join(copy, file);
  if (after === undefined) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, add, { flag: 'wx' });
    return;
  }
  const parts = readFileSync(path, 'utf8').split(after);
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} places "${after}", expected one`);
  writeFileSync(path, parts.join(`${after}\n${add}\n`));
}

/** The files in backticks that each recipe of CONTRIBUTING.md names. A folder ends with "/". */
function filesInDocument(): ReadonlyMap<string, readonly string[]> {
  const text = readFileSync(join(ROOT, 'CONTRIBUTING.md'), 'utf8');
  const section = /\n## Recipes\n([^]*?)\n## /.exec(text)?.[1] ?? '';
  const rows = section.split('\n').flatMap((line) => {
    const [, name = '', steps = ''] = /^\| ([a-z]+) \|(.*)\|$/.exec(line) ?? [];
    return name === '' ? [] : [[name, Array.from(steps.matchAll(/`(src\/[^`]+)`/g), ([, file = '']) => file)] as const];
  });
  return new Map(rows);
}

describe('the recipes of CONTRIBUTING.md', () => {
  test('name exactly the files that their examples change', () => {
    const touched = RECIPES.map(({ name, edits }) => {
      const files = edits.map(({ file, after }) => (after === undefined ? file.replace(/[^/]+\/[^/]+$/, '') : file));
      return [name, [...new Set(files)].toSorted()] as const;
    });
    const named = [...filesInDocument()].map(([name, files]) => [name, [...new Set(files)].toSorted()] as const);
    expect(named).toEqual(touched);
  });

  test('give a program without type errors', { timeout: 300_000 }, async () => {
    const tsc = join(ROOT, 'node_modules/.bin/tsc');
    const { stdout } = await run(tsc, ['--noEmit', '-p', copy]).catch((error: { readonly stdout: string }) => error);
    expect(stdout).toBe('');
  });

  test.each(RECIPES)('the example of the recipe "$name" works', { timeout: 60_000 }, async ({ name, check }) => {
    const path = join(copy, `check-${name}.ts`);
    writeFileSync(path, `import assert from 'node:assert/strict';\n${check}`);
    await expect(run(process.execPath, [path])).resolves.toMatchObject({ stderr: '' });
  });
});
