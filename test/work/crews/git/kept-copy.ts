import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Copies a folder. Returns the copy, which is removed when this process ends. */
export function keptCopy(folder: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'conch-crew-copy-'));
  cpSync(folder, copy, { recursive: true });
  process.once('exit', () => rmSync(copy, { recursive: true, force: true }));
  return copy;
}
