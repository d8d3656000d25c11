import { spawnSync } from 'node:child_process';
import { mkdtempSync, cpSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';

const LAUNCHER = new URL('../../src/conch.js', import.meta.url).pathname;

describe('an old Node', () => {
  test.each(['12.22.0', '18.20.8', '20.20.2', '22.17.1', '23.5.0'])('%s is told what to do, in one line', (version) => {
    const result = launch('process.stdout.write("loaded")', version);
    expect(result.status).toBe(EXIT_CODES.oldNode);
    expect(result.stdout).toBe('');
    expect(result.stderr.trim().split('\n')).toHaveLength(1);
    expect(result.stderr).toContain(`Conch needs Node 22.18 or newer, found ${version}. Run it with "npm start"`);
  });

  test('T41 is not told to run what was run: without its devDependencies the project has no Node of its own', () => {
    const result = launch('process.stdout.write("loaded")', '20.20.2', [], { npm_lifecycle_event: 'start' });
    expect(result.status).toBe(EXIT_CODES.oldNode);
    expect(result.stderr).toContain('run "npm install --include=dev" or install a newer one');
    expect(result.stderr).not.toContain('npm start');
  });

  test('can read the launcher: it is written in old JavaScript', () => {
    const text = readFileSync(LAUNCHER, 'utf8');
    expect(text).not.toMatch(/\?\.|\?\?|\bawait\b|node:|^import /m);
  });
});

describe('a new Node', () => {
  test.each(['22.18.0', '23.6.0', '24.0.0', '100.0.0'])('%s runs the program', (version) => {
    expect(launch('process.stdout.write("loaded")', version)).toMatchObject({
      status: 0,
      stdout: 'loaded',
      stderr: '',
    });
  });

  test('gives the program its arguments and ends with its code', () => {
    const result = launch('process.stdout.write(argv.join("|")); return 9', process.versions.node, ['ctl', 'stop']);
    expect(result).toMatchObject({ status: 9, stdout: 'ctl|stop' });
  });

  test('says that a fault is a fault', () => {
    const result = launch('throw new Error("impossible: two holders")', process.versions.node);
    expect(result.status).toBe(EXIT_CODES.unexpected);
    expect(result.stderr).toContain('Conch failed unexpectedly: Error: impossible: two holders');
  });
});

/** Runs a copy of the launcher beside a program with this body, under a Node that says it is this version. */
function launch(body: string, version: string, argv: readonly string[] = [], env: NodeJS.ProcessEnv = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'conch-launcher-'));
  cpSync(LAUNCHER, join(dir, 'conch.js'));
  writeFileSync(join(dir, 'package.json'), '{"type":"module"}');
  writeFileSync(
    join(dir, 'main.ts'),
    `export async function main(argv: string[]): Promise<number> { ${body}; return 0; }`,
  );
  writeFileSync(
    join(dir, 'version.cjs'),
    `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: ${JSON.stringify(version)} } });`,
  );
  const args = ['--require', join(dir, 'version.cjs'), join(dir, 'conch.js'), ...argv];
  const world = { ...process.env, npm_lifecycle_event: '', ...env };
  return spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000, env: world });
}
