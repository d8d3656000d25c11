import { pathText, type Problem } from './error.ts';

/** A JSON text as a value, with the line of every key and element; or what is wrong with it. */
export type JsonReading =
  | {
      readonly ok: true;
      readonly value: unknown;
      /** The line of a path, or of the nearest thing around it that the text has; from 1. */
      readonly lineOf: (path: readonly PropertyKey[]) => number;
      readonly problems: readonly Problem[];
    }
  | { readonly ok: false; readonly problem: Problem };

/** Reads JSON. A syntax error has its line and what stands there; a key that appears twice is a problem, not a guess. */
export const readJson = (source: string): JsonReading => {
  const text = source.replace(/^\u{FEFF}/u, '');
  const reader = new Reader(text);
  try {
    reader.value([]);
    reader.end();
    return {
      ok: true,
      value: JSON.parse(text),
      lineOf: (path) => nearest(reader.lines, path),
      problems: reader.problems,
    };
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    return { ok: false, problem: { path: '', line: reader.line(), message: cause.message } };
  }
};

type Path = readonly (string | number)[];

const DEEPEST = 64;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const STRING = /"[^"\\\n]*(?:\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4})[^"\\\n]*)*"/y;
const SPACE = /[ \t\n\r]*/y;

/** Walks a JSON text and notes the line where each path stands. Throws a `SyntaxError` at the first fault. */
class Reader {
  readonly lines = new Map<string, number>();
  readonly problems: Problem[] = [];
  readonly #text: string;
  #at = 0;
  #line = 1;
  #counted = 0;

  constructor(text: string) {
    this.#text = text;
  }

  line(): number {
    for (; this.#counted < this.#at; this.#counted += 1) if (this.#text[this.#counted] === '\n') this.#line += 1;
    return this.#line;
  }

  value(path: Path): void {
    this.#space();
    if (!this.lines.has(pathText(path))) this.#note(path);
    if (path.length > DEEPEST) throw new SyntaxError(`Nothing in this file is nested more than ${DEEPEST} levels deep`);
    if (this.#take('{')) this.#members(path);
    else if (this.#take('[')) this.#elements(path);
    else if (this.#match(STRING) === null && this.#match(SCALAR) === null) this.#fail('a value');
  }

  end(): void {
    this.#space();
    if (this.#at < this.#text.length) this.#fail('the end of the file');
  }

  #members(path: Path): void {
    const seen = new Set<string>();
    this.#space();
    if (this.#take('}')) return;
    do {
      this.#space();
      const found = this.#match(STRING);
      if (found === null) return this.#fail('a key in double quotes');
      const key = String(JSON.parse(found));
      const here = [...path, key];
      if (seen.has(key)) this.#twice(here);
      seen.add(key);
      this.#note(here);
      this.#space();
      if (!this.#take(':')) this.#fail('a colon after the key');
      this.value(here);
      this.#space();
    } while (this.#take(','));
    if (!this.#take('}')) this.#fail('a comma or "}"');
  }

  #elements(path: Path): void {
    this.#space();
    if (this.#take(']')) return;
    let index = 0;
    do {
      this.value([...path, index]);
      index += 1;
      this.#space();
    } while (this.#take(','));
    if (!this.#take(']')) this.#fail('a comma or "]"');
  }

  #twice(path: Path): void {
    this.problems.push({ path: pathText(path), line: this.line(), message: 'This key appears twice: keep one' });
  }

  #note(path: Path): void {
    this.lines.set(pathText(path), this.line());
  }

  #space(): void {
    this.#match(SPACE);
  }

  #take(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0] ?? null;
    if (pattern === STRING && found !== null) this.#refuseControls(found);
    this.#at += found?.length ?? 0;
    return found;
  }

  #refuseControls(found: string): void {
    const index = found.search(/\p{Cc}/u);
    if (index !== -1 && found.charCodeAt(index) < 32) {
      throw new SyntaxError('A text holds a tab or another invisible character: write it as \\t or \\u001f');
    }
  }

  #fail(expected: string): never {
    const start = this.#text.lastIndexOf('\n', this.#at - 1);
    throw new SyntaxError(`Expected ${expected}, found ${this.#found()} (column ${this.#at - start})${this.#hint()}`);
  }

  #found(): string {
    const rest = this.#text.slice(this.#at).split('\n', 1)[0] ?? '';
    return this.#at >= this.#text.length ? 'the end of the file' : JSON.stringify(rest.slice(0, 20));
  }

  #hint(): string {
    const rest = this.#text.slice(this.#at);
    if (/^\/[/*]/.test(rest)) return ': JSON has no comments';
    if (/^[\]}]/.test(rest) && /,\s*$/.test(this.#text.slice(Math.max(0, this.#at - 1_000), this.#at)))
      return ': take the comma before it away';
    return '';
  }
}

const nearest = (lines: ReadonlyMap<string, number>, path: readonly PropertyKey[]): number => {
  for (let length = path.length; length > 0; length -= 1) {
    const line = lines.get(pathText(path.slice(0, length)));
    if (line !== undefined) return line;
  }
  return lines.get('') ?? 1;
};
