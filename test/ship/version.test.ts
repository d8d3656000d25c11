import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { versionIn, versionOf } from '../../ship/version.ts';

describe('the version of a packed file', () => {
  test.each([
    ['v1.2.3-0-gabc1234', '1.2.3'],
    ['v1.2.3-5-gabc1234', '1.2.4-dev.5.gabc1234'],
    ['v1.2.3-0-gabc1234-dirty', '1.2.4-dev.0.gabc1234.dirty'],
    ['v2.0.0-rc.1-0-gabc1234', '2.0.0-rc.1'],
    ['v2.0.0-rc.1-7-g0000001', '2.0.0-rc.1.dev.7.g0000001'],
    ['v10.20.30-0-gabc1234', '10.20.30'],
  ])('of %s is %s', (described, version) => {
    expect(versionOf(described)).toBe(version);
  });

  test.each(['v1-0-gabc', 'v1.2-3-gabc1234', '1.2.3-0-gabc1234', ''])('is refused for the tag of "%s"', (described) => {
    expect(() => versionOf(described)).toThrow('is no version. Tag releases as v1.2.3');
  });

  test('comes from the nearest version tag, or from package.json before the first tag', () => {
    const folder = mkdtempSync(join(tmpdir(), 'conch-version-'));
    const git = (...args: readonly string[]) =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.org', ...args], {
        cwd: folder,
        stdio: 'pipe',
      });
    try {
      writeFileSync(join(folder, 'package.json'), '{ "version": "0.1.0" }');
      expect(versionIn(folder)).toBe('0.1.0');
      git('init', '--quiet');
      git('add', '.');
      git('commit', '--quiet', '-m', 'one');
      git('tag', 'other');
      expect(versionIn(folder)).toBe('0.1.0');
      git('tag', 'v0.2.0');
      expect(versionIn(folder)).toBe('0.2.0');
      git('commit', '--quiet', '--allow-empty', '-m', 'two');
      expect(versionIn(folder)).toMatch(/^0\.2\.1-dev\.1\.g[0-9a-f]+$/);
      writeFileSync(join(folder, 'package.json'), '{}');
      expect(versionIn(folder)).toMatch(/\.dirty$/);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
