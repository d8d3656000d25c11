import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { databaseIn, openDataFolder } from '../../src/runtime/data-folder.ts';

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

  test('is refused in one line when a file has its name', async () => {
    using place = folder();
    writeFileSync(join(place.path, 'taken'), '');
    await expect(opened(join(place.path, 'taken'))).rejects.toMatchObject({
      name: 'StoreError',
      message: expect.stringContaining('cannot be used'),
    });
  });
});
