import { spawnSync } from 'node:child_process';
import { mkdtempSync, cpSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';

const LAUNCHER = new URL('../../src/conch.js', import.meta.url).pathname;

describe('the launcher on an old Node', () => {
  test.each(['12.22.0', '18.20.8', '20.20.2', '22.17.1', '23.5.0'])('says in one line what to do: %s', (version) => {
    const result = launch('process.stdout.write("loaded")', version);
    expect(result.status).toBe(EXIT_CODES.oldNode);
    expect(result.stdout).toBe('');
    expect(result.stderr.trim().split('\n')).toHaveLength(1);
    expect(result.stderr).toContain(`Conch needs Node 22.18 or newer, found ${version}. Run it with "npm start"`);
  });

  test('T41 under npm start does not advise npm start again, but to install the devDependencies', () => {
    const result = launch('process.stdout.write("loaded")', '20.20.2', [], { npm_lifecycle_event: 'start' });
    expect(result.status).toBe(EXIT_CODES.oldNode);
    expect(result.stderr).toContain('run "npm install --include=dev" or install a newer one');
    expect(result.stderr).not.toContain('npm start');
  });

  test('contains no syntax that an old Node cannot parse', () => {
    const text = readFileSync(LAUNCHER, 'utf8');
    expect(text).not.toMatch(/\?\.|\?\?|\bawait\b|node:|^import /m);
  });
});

describe('the launcher on a new Node', () => {
  test.each(['22.18.0', '23.6.0', '24.0.0', '100.0.0'])('runs the program: %s', (version) => {
    expect(launch('process.stdout.write("loaded")', version)).toMatchObject({
      status: 0,
      stdout: 'loaded',
      stderr: '',
    });
  });

  test('passes its arguments to the program and ends with its exit code', () => {
    const result = launch('process.stdout.write(argv.join("|")); return 9', process.versions.node, ['ctl', 'stop']);
    expect(result).toMatchObject({ status: 9, stdout: 'ctl|stop' });
  });

  test('reports an error of the program as unexpected', () => {
    const result = launch('throw new Error("impossible: two holders")', process.versions.node);
    expect(result.status).toBe(EXIT_CODES.unexpected);
    expect(result.stderr).toContain('Conch failed unexpectedly: Error: impossible: two holders');
  });
});

/** Runs a copy of the launcher with a program that has this body, on a Node that reports this version. */
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
