import { getNodeValue, parseTree, printParseErrorCode, visit } from 'jsonc-parser';
import type { JSONVisitor, ParseOptions } from 'jsonc-parser';
import { pathText } from './error.ts';
import type { Problem } from './error.ts';

/** A JSON text as a value, with the line of every key and element; or the syntax error. */
type JsonReading =
  | {
      readonly ok: true;
      readonly value: unknown;
      /**
       * Returns the line of the value at a path, from 1. For a missing value: the line of the nearest value around it.
       */
      readonly lineOf: (path: readonly PropertyKey[]) => number;
      readonly problems: readonly Problem[];
    }
  | { readonly ok: false; readonly problem: Problem };

/**
 * Reads JSON. Comments, and a comma after the last key or element, are allowed. A syntax error has its line. Nesting
 * deeper than 64 levels is a syntax error. A key that appears twice is a problem.
 */
export const readJson = (source: string): JsonReading => {
  const text = source.replace(/^\u{FEFF}/u, '');
  const survey = new Survey(text);
  try {
    visit(text, survey.visitor, LENIENT);
    survey.end();
  } catch (fault) {
    if (!(fault instanceof SyntaxError)) throw fault;
    return { ok: false, problem: { path: '', line: survey.line, message: fault.message } };
  }
  const tree = parseTree(text, [], LENIENT);
  if (tree === undefined) throw new Error('impossible: a text without a fault has no value');
  const { lines, problems } = survey;
  return { ok: true, value: getNodeValue(tree), lineOf: (path) => nearest(lines, path), problems };
};

type Path = readonly (string | number)[];

const LENIENT: ParseOptions = { allowTrailingComma: true };
const DEEPEST = 64;

const EXPECTED: Readonly<Record<string, string>> = {
  PropertyNameExpected: 'a key in double quotes',
  ValueExpected: 'a value',
  ColonExpected: 'a colon after the key',
  CloseBraceExpected: 'a comma or "}"',
  CloseBracketExpected: 'a comma or "]"',
  EndOfFileExpected: 'the end of the file',
  UnexpectedEndOfComment: 'a comment that ends with "*/"',
  UnexpectedEndOfString: 'a text that ends on its line with a double quote',
  UnexpectedEndOfNumber: 'a number with digits after each sign',
  InvalidUnicode: 'a text with four hexadecimal digits after each "\\u"',
  InvalidEscapeCharacter: 'a text in which a backslash is written as "\\\\"',
};

class Survey {
  readonly lines = new Map<string, number>();
  readonly problems: Problem[] = [];
  readonly #text: string;
  readonly #open: { readonly isObject: boolean; readonly keys: Set<string> }[] = [];
  #fault: { readonly token: string; readonly column: number } | null = null;
  /** The line of the text that is being read, from 1. */
  line = 1;

  constructor(text: string) {
    this.#text = text;
  }

  /** Throws a `SyntaxError` if an unexpected token was found. */
  end(): void {
    if (this.#fault !== null) this.#throwExpected('JSON');
  }

  readonly visitor: JSONVisitor = {
    onObjectBegin: (...[, , line, , path]) => this.#begin(true, path(), line),
    onObjectEnd: () => void this.#open.pop(),
    onArrayBegin: (...[, , line, , path]) => this.#begin(false, path(), line),
    onArrayEnd: () => void this.#open.pop(),
    onObjectProperty: (key, ...[, , line, , path]) => this.#key([...path(), key], line),
    onLiteralValue: (...[, , , line, , path]) => this.#note(path(), line),
    onError: (code, ...[offset, , line, column]) => this.#failed(printParseErrorCode(code), offset, { line, column }),
  };

  #begin(isObject: boolean, path: Path, line: number): void {
    this.#note(path, line);
    this.#open.push({ isObject, keys: new Set() });
    if (this.#open.length > DEEPEST)
      throw new SyntaxError(`Values in this file cannot be nested more than ${DEEPEST} levels deep`);
  }

  #key(path: Path, line: number): void {
    this.#note(path, line);
    const keys = this.#open.at(-1)?.keys;
    const key = String(path.at(-1));
    if (keys?.has(key) === true)
      this.problems.push({ path: pathText(path), line: this.line, message: 'This key appears twice: remove one' });
    keys?.add(key);
  }

  #note(path: Path, line: number): void {
    this.line = line + 1;
    const text = pathText(path);
    if (!this.lines.has(text)) this.lines.set(text, this.line);
  }

  #failed(code: string, offset: number, at: { readonly line: number; readonly column: number }): void {
    if (this.#fault === null) {
      this.line = at.line + 1;
      // One character: what follows can be a secret.
      const [first] = this.#text.slice(offset, offset + 2);
      const token = first === undefined ? 'the end of the file' : JSON.stringify(first);
      this.#fault = { token, column: at.column + 1 };
    }
    if (code === 'InvalidCharacter')
      throw new SyntaxError('A text contains a tab or a control character: write it as \\t or \\u001f');
    const isObject = this.#open.at(-1)?.isObject === true;
    const expected = code === 'CommaExpected' ? `a comma or "${isObject ? '}' : ']'}"` : EXPECTED[code];
    if (expected !== undefined) this.#throwExpected(expected);
  }

  #throwExpected(expected: string): never {
    throw new SyntaxError(`Expected ${expected}, found ${this.#fault?.token} (column ${this.#fault?.column})`);
  }
}

const nearest = (lines: ReadonlyMap<string, number>, path: readonly PropertyKey[]): number => {
  for (let length = path.length; length > 0; length -= 1) {
    const line = lines.get(pathText(path.slice(0, length)));
    if (line !== undefined) return line;
  }
  return lines.get('') ?? 1;
};
