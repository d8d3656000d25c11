import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';

const ROOT = new URL('../..', import.meta.url).pathname;
const names = z.record(z.string(), z.string()).default({});
const packageSchema = z.object({ dependencies: names, optionalDependencies: names, peerDependencies: names });
const lockSchema = z.object({
  packages: z.record(
    z.string(),
    z.object({
      license: z.string().optional(),
      dev: z.boolean().default(false),
      devOptional: z.boolean().default(false),
      hasInstallScript: z.boolean().default(false),
    }),
  ),
});

const read = (path: string): unknown => JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
const own = packageSchema.parse(read('package.json'));
const needed = Object.keys({ ...own.dependencies, ...own.optionalDependencies, ...own.peerDependencies }).toSorted();
const installed = Object.entries(lockSchema.parse(read('package-lock.json')).packages).filter(([path]) => path !== '');
const document = readFileSync(join(ROOT, 'docs/dependencies.md'), 'utf8').replaceAll(/ +/g, ' ');

/** The rows of a table, found by its first heading, as lists of cells. */
function table(heading: string): readonly (readonly string[])[] {
  const [, rest = ''] = document.split(`\n| ${heading}`);
  const rows = rest.split('\n\n')[0]?.split('\n').slice(2) ?? [];
  return rows.map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

describe('docs/dependencies.md', () => {
  const rows = table('Package | What for');

  test('has a reason for each package that Conch needs to run, in order, and for no other package', () => {
    expect(rows.map(([name]) => name)).toEqual(needed);
    expect(rows.filter(([, reason = '']) => reason.length < 8)).toEqual([]);
  });

  test('names the licence of each installed package', () => {
    const licences = rows.map(([name = '']) => {
      const path = `node_modules/${name}/package.json`;
      return [name, existsSync(join(ROOT, path)) ? z.object({ license: z.string() }).parse(read(path)).license : null];
    });
    expect(rows.map(([name, , licence]) => [name, licence])).toEqual(licences);
  });

  test('allows the licence of every package that is not only for development', () => {
    const allowed = new Set(table('Licence | Why').flatMap(([licences = '']) => licences.split(', ')));
    const other = installed.filter(
      ([, { dev, devOptional, license = 'none' }]) => !dev && !devOptional && !allowed.has(license),
    );
    expect(other.map(([path, { license }]) => `${nameOf(path)}: ${license ?? 'none'}`)).toEqual([]);
  });

  test('has a reason for each package with an install script', () => {
    const scripts = installed.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => nameOf(path));
    expect(table('Package | What its script').map(([name]) => name)).toEqual([...new Set(scripts)].toSorted());
  });
});
