import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';

/**
 * The secret that a page or `conch ctl` shows to be let in. Kept in a file that only its owner can read,
 * so that a restart of the program does not lock an open page out.
 */
export function sessionToken(path: string): string {
  const known = readToken(path);
  if (known !== null) return known;
  const token = randomBytes(32).toString('base64url');
  writeFileSync(path, `${token}\n`, { mode: 0o600 });
  chmodSync(path, 0o600);
  return token;
}

/** Whether two secrets are the same, in a time that tells nothing about them. */
export function sameSecret(one: string, other: string): boolean {
  return timingSafeEqual(digest(one), digest(other));
}

function readToken(path: string): string | null {
  try {
    const token = readFileSync(path, 'utf8').trim();
    if (!/^[\w-]{43}$/.test(token)) return null;
    chmodSync(path, 0o600);
    return token;
  } catch {
    return null;
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
