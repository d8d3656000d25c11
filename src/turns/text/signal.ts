import { fenceAfter, isQuote } from './split.ts';
import type { Fence } from './split.ts';

/** What the end of an output said. `argument` is whom it hands over to, without the "@". */
export type SignalEnd = {
  /** What is still to be shown. */
  readonly text: string;
  readonly signalled: boolean;
  readonly argument: string | null;
};

/** Reads one output as it streams. */
export type SignalScanner = {
  /** Returns the text that may be shown now; keeps back only white space and what could still be the signal. */
  push(chunk: string): string;
  /** The output is over. Called once, after the last chunk. */
  end(): SignalEnd;
};

/**
 * Finds the signal at the very end of an agent's own output, however the stream cuts it, and takes it out of what is shown
 * together with the white space before it. It counts, in its exact case, as a line of its own or as the last word of the
 * last line ("I am done. TURN_COMPLETE"); white space may follow, and so may whom to hand over to: "@dev", or on a line of
 * its own "dev" too. In code, in a block quote and anywhere else it is text. Without it, every byte is shown as it came.
 */
export function createSignalScanner(options: { readonly signal: string }): SignalScanner {
  return new Scanner(options.signal);
}

const ARGUMENT = /^@?[\w-]{1,64}$/;
const BEGUN_ARGUMENT = /^@?[\w-]{0,64}$/;

class Scanner implements SignalScanner {
  readonly #signal: string;
  /** Not yet shown: white space, signals with their arguments, and the word under way. */
  #pending = '';
  /** The word under way; `null` once it cannot belong to a signal. */
  #word: string | null = '';
  /** The word before it on the same line was the signal. */
  #afterSignal = false;
  /** Code that is open before the line under way, and what of that line was shown. */
  #fence: Fence | null = null;
  #line = '';

  constructor(signal: string) {
    if (!/^\S+$/.test(signal)) throw new RangeError(`Expected \`signal\` to be one word, got "${signal}"`);
    this.#signal = signal;
  }

  push(chunk: string): string {
    let shown = '';
    for (const [piece] of chunk.matchAll(/\s+|\S+/g)) {
      shown += /^\s/.test(piece) ? this.#space(piece) : this.#letters(piece);
    }
    this.#follow(shown);
    return shown;
  }

  end(): SignalEnd {
    const { length } = this.#line;
    const { kept, argument } = cut(this.#line + this.#pending, this.#fence, this.#signal);
    if (kept === null) return { text: this.#pending, signalled: false, argument: null };
    return { text: this.#pending.slice(0, Math.max(0, kept - length)), signalled: true, argument };
  }

  #space(piece: string): string {
    const isSignal = this.#word === this.#signal;
    const isTarget = this.#afterSignal && ARGUMENT.test(this.#word ?? '');
    const shown = this.#word === '' || isSignal || isTarget ? '' : this.#release();
    this.#afterSignal = (isSignal || (this.#afterSignal && this.#word === '')) && !piece.includes('\n');
    this.#word = '';
    this.#pending += piece;
    return shown;
  }

  #letters(piece: string): string {
    this.#pending += piece;
    if (this.#word !== null) {
      this.#word += piece;
      if (this.#signal.startsWith(this.#word)) return '';
      if (this.#afterSignal && BEGUN_ARGUMENT.test(this.#word)) return '';
    }
    this.#word = null;
    this.#afterSignal = false;
    return this.#release();
  }

  #release(): string {
    const shown = this.#pending;
    this.#pending = '';
    return shown;
  }

  #follow(shown: string): void {
    const lines = shown.split('\n');
    const last = lines.pop() ?? '';
    for (const line of lines) {
      this.#fence = fenceAfter(this.#fence, this.#line + line);
      this.#line = '';
    }
    this.#line += last;
  }
}

type Cut = { readonly kept: number | null; readonly argument: string | null };

/** Where the signals at the end of a text begin, with the white space before them; `null` if there is none. */
function cut(text: string, open: Fence | null, signal: string): Cut {
  const lines = linesOf(text, open);
  let kept: number | null = null;
  let argument: string | null = null;
  for (const line of lines.toReversed()) {
    const words = [...line.text.matchAll(/\S+/g)].map((match) => ({ at: match.index, text: match[0] }));
    const found = lastSignal(words, signal);
    if (found.from === words.length && words.length > 0) break;
    const before = line.text.slice(0, words[found.from]?.at ?? 0);
    if (words.length > 0 && (line.isCode || isQuote(before))) break;
    if (words.length > 0) kept = line.at + before.trimEnd().length;
    argument ??= found.argument;
    if (found.from > 0) break;
  }
  return { kept: kept === null ? null : text.slice(0, kept).trimEnd().length, argument };
}

function linesOf(
  text: string,
  open: Fence | null,
): { readonly at: number; readonly text: string; readonly isCode: boolean }[] {
  let fence = open;
  let at = 0;
  return text.split('\n').map((line) => {
    fence = fenceAfter(fence, line);
    const found = { at, text: line, isCode: fence !== null };
    at += line.length + 1;
    return found;
  });
}

type Word = { readonly text: string };

/** The index of the word from which a line consists of signals and their arguments only. */
function lastSignal(
  words: readonly Word[],
  signal: string,
): { readonly from: number; readonly argument: string | null } {
  let from = words.length;
  let argument: string | null = null;
  while (from > 0) {
    const last = words[from - 1]?.text ?? '';
    if (last === signal) from -= 1;
    else if (words[from - 2]?.text === signal && isArgument(last, from === 2)) {
      argument ??= last.replace('@', '');
      from -= 2;
    } else break;
  }
  return { from, argument };
}

function isArgument(word: string, isOwnLine: boolean): boolean {
  return ARGUMENT.test(word) && (isOwnLine || word.startsWith('@'));
}
