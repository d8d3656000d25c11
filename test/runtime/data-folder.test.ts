import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdtempSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { databaseIn, openDataFolder } from '../../src/runtime/data-folder.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';

const clock = { now: () => 1_700_000_000_000 };

async function opened(dataDir: string): Promise<readonly string[]> {
  const lines: string[] = [];
  const texts = { textLimit: () => 100, words: () => null };
  const store = openDataFolder({ dataDir, clock, say: (line) => lines.push(line), ...texts });
  await store.close();
  return lines;
}

function folder(): { readonly path: string; [Symbol.dispose](): void } {
  const path = mkdtempSync(join(tmpdir(), 'conch-data-'));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

describe('a data folder', () => {
  test('that is missing is created for its user alone, without a message', async () => {
    using place = folder();
    const dataDir = join(place.path, 'a/b');
    expect(await opened(dataDir)).toEqual([]);
    expect(statSync(dataDir).mode & 0o777).toBe(0o700);
    expect(statSync(databaseIn({ dataDir })).mode & 0o777).toBe(0o600);
  });

  test('that others can read gets a warning and keeps its permissions', async () => {
    using place = folder();
    chmodSync(place.path, 0o750);
    expect(await opened(place.path)).toEqual([expect.stringContaining(`chmod 700 "${place.path}"`)]);
    expect(statSync(place.path).mode & 0o777).toBe(0o750);
  });

  test.runIf(process.platform === 'linux')('is refused in one line when it cannot be created', async () => {
    await expect(opened('/proc/conch/data')).rejects.toThrow(/^\/proc\/conch\/data\/conch\.db cannot be used/);
  });

  test('is refused in one line when a file has its name', async () => {
    using place = folder();
    writeFileSync(join(place.path, 'taken'), '');
    await expect(opened(join(place.path, 'taken'))).rejects.toMatchObject({
      name: 'StoreError',
      message: expect.stringContaining('cannot be used'),
    });
  });
});

const ROOT = new URL('../..', import.meta.url).pathname;
const OTHER = 10_001;

/** Starts Conch as the user 10001, on this data folder. */
function startedAsOther(dataDir: string) {
  const env = { PATH: process.env['PATH'], HOME: dataDir, CONCH_DATA_DIR: dataDir, CONCH_PORT: '0' };
  const options = { cwd: '/', env, uid: OTHER, gid: OTHER, encoding: 'utf8', timeout: 60_000 } as const;
  return spawnSync(process.execPath, [join(ROOT, 'src/conch.js'), 'start'], options);
}

describe.runIf(process.getuid?.() === 0)('a start that may not write its data, which belongs to another user', () => {
  test('ends with code 8 and one line with the chown command', () => {
    using place = folder();
    chmodSync(place.path, 0o755);
    const dataDir = join(place.path, 'data');
    mkdirSync(dataDir, { mode: 0o755 });
    const { status, stdout, stderr } = startedAsOther(dataDir);
    const line = `${dataDir} belongs to user 0, and Conch runs as user 10001, who cannot write to it. Run as root: chown -R 10001:10001 "${dataDir}"\n`;
    expect([status, stdout, stderr]).toEqual([EXIT_CODES.diskFull, '', line]);
  });

  test('names the database file of root in a data folder of its own', () => {
    using place = folder();
    chownSync(place.path, OTHER, OTHER);
    writeFileSync(join(place.path, 'conch.db'), '', { mode: 0o600 });
    const { status, stderr } = startedAsOther(place.path);
    expect([status, stderr.split('\n').length]).toEqual([EXIT_CODES.diskFull, 2]);
    expect(stderr).toMatch(/conch\.db belongs to user 0,.*Run as root: chown -R 10001:10001 "/);
  });
});
