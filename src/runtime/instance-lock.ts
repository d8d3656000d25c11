import { hash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lockFile } from '../engine/sqlite/lock.ts';
import type { FileLock } from '../engine/sqlite/lock.ts';

/** Claims a token for this process; `null` when another process on this machine has it. The token itself is not written anywhere. */
export function lockInstance(token: string, folder = tmpdir()): FileLock | null {
  return lockFile(join(folder, `conch-${hash('sha256', token).slice(0, 24)}.lock`));
}
