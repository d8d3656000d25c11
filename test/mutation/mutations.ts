/** A change of one line of code that a test should notice. */
export type Mutation = {
  readonly file: string;
  readonly line: number;
  readonly before: string;
  readonly after: string;
};

/** Patterns of deciding code, and their replacements. */
const REPLACEMENTS: readonly (readonly [RegExp, string])[] = [
  [/ === /u, ' !== '],
  [/ !== /u, ' === '],
  [/ && /u, ' || '],
  [/ \|\| /u, ' && '],
  [/ < /u, ' <= '],
  [/ >= /u, ' > '],
  [/ > /u, ' >= '],
  [/ <= /u, ' < '],
  [/ \+ /u, ' - '],
  [/ - /u, ' + '],
  [/\btrue\b/u, 'false'],
  [/\bfalse\b/u, 'true'],
  [/\bif \(!/u, 'if ('],
  [/\.some\(/u, '.every('],
  [/\.every\(/u, '.some('],
  [/\breturn null;/u, 'return undefined as never;'],
];

/** Lines without code that runs: comments, imports, types, and parts of templates. */
const NO_CODE =
  /^\s*(?:\/\/|\/?\*|import\b|export type\b|type\b|readonly\b|\||[`'"])|=> (?:string|boolean|void|null)\b/u;

/** All mutations of a file, in the order of its lines. */
export function mutationsOf(file: string, text: string): readonly Mutation[] {
  return text.split('\n').flatMap((before, index) => {
    if (NO_CODE.test(before)) return [];
    return REPLACEMENTS.filter(([pattern]) => pattern.test(before)).map(([pattern, by]) => ({
      file,
      line: index + 1,
      before,
      after: before.replace(pattern, by),
    }));
  });
}

/** The text of a file with a mutation in it. */
export function mutated(text: string, { line, before, after }: Mutation): string {
  const lines = text.split('\n');
  if (lines[line - 1] !== before) throw new Error(`Line ${line} is not what it was: ${before}`);
  return lines.with(line - 1, after).join('\n');
}

/** Returns numbers from 0 to 1, the same for the same seed. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d_2b_79_f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
