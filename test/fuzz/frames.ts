import type { Random } from '../kill/random.ts';
import { mutated, oddText } from './bytes.ts';

/** The sender of a frame. Clients mask frames, servers do not. */
export type Side = 'client' | 'server';

type Frame = {
  readonly opcode: number;
  readonly payload: Buffer;
  readonly fin?: boolean;
  /** The three reserved bits, 0 to 7. */
  readonly reserved?: number;
  /** The claimed length. Default: the real length. */
  readonly claims?: bigint;
};

const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
const MASK = Buffer.from([0x12, 0x34, 0x56, 0x78]);
const CLOSE_CODES = [
  0, 999, 1_000, 1_001, 1_004, 1_005, 1_006, 1_007, 1_011, 1_015, 2_999, 3_000, 4_401, 4_409, 65_535,
];

/** The frame of one text. */
export function textFrame(side: Side, text: string): Buffer {
  return encoded(side, { opcode: TEXT, payload: Buffer.from(text) });
}

/** Frames of one text: mostly a correct one, sometimes invalid ones. */
export function frameBytes(random: Random, side: Side, text: string): Buffer {
  if (random.chance(0.75)) return textFrame(side, text);
  const payload = Buffer.from(text);
  const cut = random.between(0, payload.length);
  const [first, rest] = [payload.subarray(0, cut), payload.subarray(cut)];
  const of = (frame: Frame): Buffer => encoded(side, frame);
  const code = Buffer.alloc(2);
  code.writeUInt16BE(random.pick(CLOSE_CODES));
  const choices: readonly (() => Buffer)[] = [
    () => Buffer.concat([of({ opcode: TEXT, payload: first, fin: false }), of({ opcode: 0, payload: rest })]),
    () => Buffer.concat([of({ opcode: TEXT, payload: first, fin: false }), of({ opcode: TEXT, payload: rest })]),
    () => Buffer.concat([of({ opcode: TEXT, payload: first, fin: false }), of({ opcode: PING, payload: code })]),
    () => of({ opcode: 0, payload }),
    () => of({ opcode: BINARY, payload }),
    () => of({ opcode: TEXT, payload, reserved: random.between(1, 7) }),
    () => of({ opcode: random.pick([3, 5, 7, 11, 15]), payload }),
    () => of({ opcode: TEXT, payload: Buffer.concat([Buffer.from([0xc3, 0x28, 0xff, 0xed, 0xa0, 0x80]), payload]) }),
    () => of({ opcode: PING, payload: Buffer.alloc(random.pick([0, 1, 125])) }),
    () => of({ opcode: random.pick([PING, PONG, CLOSE]), payload: Buffer.alloc(126) }),
    () => of({ opcode: random.pick([PING, CLOSE]), payload: code, fin: false }),
    () => of({ opcode: CLOSE, payload: random.pick([Buffer.alloc(0), Buffer.alloc(1), code]) }),
    () => of({ opcode: CLOSE, payload: Buffer.concat([code, Buffer.from(oddText(random)).subarray(0, 100)]) }),
    () => of({ opcode: CLOSE, payload: Buffer.concat([code, Buffer.from([0xff, 0xfe])]) }),
    () => of({ opcode: TEXT, payload, claims: random.pick([2n ** 63n, 2n ** 64n - 1n, 2n ** 31n, 2n ** 53n, 1n]) }),
    () => encoded(side === 'client' ? 'server' : 'client', { opcode: TEXT, payload }),
    () => textFrame(side, 'x'.repeat(random.pick([0, 125, 126, 65_535, 65_536, 1_048_577]))),
    () => mutated(random, textFrame(side, text)),
  ];
  return random.pick(choices)();
}

function encoded(side: Side, { opcode, payload, fin = true, reserved = 0, claims }: Frame): Buffer {
  const masked = side === 'client' ? 0x80 : 0;
  const head = [(fin ? 0x80 : 0) | (reserved << 4) | opcode];
  const length = claims ?? BigInt(payload.length);
  const long = Buffer.alloc(8);
  long.writeBigUInt64BE(length);
  if (length < 126n) head.push(masked | Number(length));
  else if (length < 65_536n) head.push(masked | 126, ...long.subarray(6));
  else head.push(masked | 127, ...long);
  if (side === 'server') return Buffer.concat([Buffer.from(head), payload]);
  const hidden = Buffer.from(payload.map((byte, at) => byte ^ (MASK[at % MASK.length] ?? 0)));
  return Buffer.concat([Buffer.from(head), MASK, hidden]);
}

/** The texts of the complete, masked frames at the beginning of some bytes. */
export function textsIn(bytes: Buffer): readonly string[] {
  const texts: string[] = [];
  for (let at = 0; at + 2 <= bytes.length;) {
    const short = (bytes[at + 1] ?? 0) & 0x7f;
    const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
    const start = at + 2 + extra + 4;
    if (start > bytes.length) break;
    const length = extra === 0 ? short : bytes.readUIntBE(at + 2 + (extra === 8 ? 2 : 0), extra === 8 ? 6 : 2);
    const mask = bytes.subarray(start - 4, start);
    const payload = bytes.subarray(start, start + length).map((byte, index) => byte ^ (mask[index % 4] ?? 0));
    texts.push(Buffer.from(payload).toString('utf8'));
    at = start + length;
  }
  return texts;
}
