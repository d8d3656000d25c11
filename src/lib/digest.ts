import { createHash } from 'node:crypto';

/**
 * Returns the first 16 hexadecimal digits of the SHA-256 of these words. Equal lists give equal digests; the words
 * cannot be recovered.
 */
export function shortDigest(...words: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(words)).digest('hex').slice(0, 16);
}
