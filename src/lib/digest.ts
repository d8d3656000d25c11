import { hash } from 'node:crypto';

/** Returns the first 16 hexadecimal digits of the SHA-256 of these words as JSON. Equal lists give equal digests. */
export function shortDigest(...words: readonly string[]): string {
  return hash('sha256', JSON.stringify(words)).slice(0, 16);
}
