import { createHash } from 'node:crypto';

/** Returns 16 hexadecimal digits of the SHA-256 of these words: equal for equal lists of words, and the words cannot be read from it. */
export function shortDigest(...words: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(words)).digest('hex').slice(0, 16);
}
