import type { Random } from '../kill/random.ts';

/** The bytes of a caller in pieces. `end`: it closes its half, resets the connection, or stays. */
export type Input = { readonly pieces: readonly Buffer[]; readonly end: 'half' | 'reset' | 'stay' };

/** Texts that break careless parsers. */
export const ODD_TEXTS: readonly string[] = [
  [
    '',
    '\0',
    '\r\n',
    '\n',
    ' ',
    '\t',
    '%',
    '%00',
    '%ff%fe',
    '%2e%2e%2f',
    '..',
    '/',
    '//',
    '\\',
    '?',
    '#',
    '*',
    '@',
    ':',
  ],
  ['http://[', 'ws://a:b@c:99999/agent', '[::1', '0x7f.1', 'é', '😀', '\uFFFD', '\u2028', '-1', '1e999', 'NaN'],
  ['__proto__', 'constructor', 'toString', 'null', 'true', '{', '[[', '"', "'", ';', ',', '=', '<@U1>', '@everyone'],
  ['9'.repeat(40), 'x'.repeat(300), 'é'.repeat(5_000), '/floor', '!stop', '${x}', '\u202E', '\u001B[2J'],
].flat();

/** An odd text. */
export function oddText(random: Random): string {
  return random.pick(ODD_TEXTS);
}

/** Returns the bytes with some flipped, cut, doubled or inserted. */
export function mutated(random: Random, bytes: Buffer): Buffer {
  let result = bytes;
  for (let left = random.between(1, 3); left > 0; left -= 1) result = mutatedOnce(random, result);
  return result;
}

function mutatedOnce(random: Random, bytes: Buffer): Buffer {
  const at = random.between(0, bytes.length);
  const to = Math.min(bytes.length, at + random.between(1, 20));
  const [before, part, after] = [bytes.subarray(0, at), bytes.subarray(at, to), bytes.subarray(to)];
  switch (random.between(0, 4)) {
    case 0:
      return Buffer.concat([before, after]);
    case 1:
      return Buffer.concat([before, part, part, after]);
    case 2:
      return Buffer.concat([before, Buffer.from(oddText(random)), part, after]);
    case 3:
      return Buffer.concat([before, Buffer.from(part.map((byte) => byte ^ (1 << random.between(0, 7)))), after]);
    default:
      return before;
  }
}

/** Returns the input for bytes: mostly in one piece, sometimes in two, sometimes mutated, with some end. */
export function travelling(random: Random, bytes: Buffer): Input {
  const sent = random.chance(0.2) ? mutated(random, bytes) : bytes;
  const cut = random.between(0, sent.length);
  const pieces = random.chance(0.7) ? [sent] : [sent.subarray(0, cut), sent.subarray(cut)];
  return { pieces, end: leaving(random) };
}

/** Returns how a caller ends a connection that is not kept. */
export function leaving(random: Random): 'half' | 'reset' {
  return random.chance(0.85) ? 'half' : 'reset';
}
