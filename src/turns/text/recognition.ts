import { foundOnce } from '../../lib/keyed.ts';
import type { AgentId } from '../floor/settings.ts';
import { codeSpans, fenceAfter, isQuote } from './split.ts';
import type { Fence } from './split.ts';

type Addressee = { readonly id: AgentId; readonly name: string };

/**
 * Returns the agents that a message's text addresses, in the order of first mention. Counts "@id" and "@Name" anywhere,
 * and an id or name at the start before ":" or "," ("dev: …", "dev, qa: …"). Case-insensitive; the longest name wins.
 * Ignores names without "@" elsewhere, e-mail and http addresses, code and block quotes.
 */
export function addressedIn(text: string, agents: readonly Addressee[]): AgentId[] {
  const words = folded(text);
  if (!ADDRESSING.test(words)) return [];
  const names = namesOf(agents);
  const plain = withoutCode(words);
  return [...new Set([...firstNames(plain, names), ...mentions(plain, names)])];
}

/**
 * Returns the agents that an agent's text mentions by "@id" or "@Name". Sentences with thanks do not count, nor does
 * text in e-mail and http addresses, code and block quotes.
 */
export function mentionsIn(text: string, agents: readonly Addressee[]): AgentId[] {
  if (!AT.test(text)) return [];
  const names = namesOf(agents);
  const calling = sentencesOf(text).filter((sentence) => !THANKS.test(sentence));
  return [...new Set(calling.flatMap((sentence) => [...mentions(sentence, names)]))];
}

/**
 * Returns the agent that an agent's text asks: the only one mentioned in its last sentence, if that is a question.
 * Otherwise `null`.
 */
export function askedAgentIn(text: string, agents: readonly Addressee[]): AgentId | null {
  if (!AT.test(text)) return null;
  const last = sentencesOf(text).at(-1) ?? '';
  const [askedAgent, ...others] = new Set(mentions(last, namesOf(agents)));
  return askedAgent === undefined || others.length > 0 || !QUESTION_END.test(last) ? null : askedAgent;
}

/**
 * Returns whether a text is an operator command: one line with "/" or "!" and a known first word ("floor", "agent").
 * After "stop" any text may follow.
 */
export function isCommandLine(text: string, commandNames: readonly string[]): boolean {
  const found = /^[/!](\S+)(.*)$/s.exec(text.trim());
  if (found === null) return false;
  const [, word = '', rest = ''] = found;
  if (isStopWord(word)) return commandNames.includes('stop');
  return !rest.includes('\n') && commandNames.some((each) => each.toLowerCase() === word.toLowerCase());
}

/** Returns whether a word means stop: "stop", "STOP!!" or "stop,". */
export function isStopWord(word: string): boolean {
  return /^stop[\p{P}\p{S}]*$/iu.test(word);
}

/** Returns whether a text is one of the words that pass a turn. Ignores case and punctuation. */
export function isPassWord(text: string, words: readonly string[]): boolean {
  const begun = begunPassWords(text, words);
  const plain = begun.length === 0 ? '' : unmarked(text);
  return plain !== '' && begun.some((word) => word.plain === plain);
}

/** Returns whether a text is a pass word, or the beginning of one. */
export function beginsPassWord(text: string, words: readonly string[]): boolean {
  const begun = begunPassWords(text, words);
  if (begun.length === 0) return false;
  const plain = unmarked(text);
  return begun.some((word) => word.plain.startsWith(plain));
}

/** The return value of `SignalScanner.end`. `argument`: the agent to hand over to, without "@". */
type SignalEnd = {
  /** The text to show that `push` held back, without the signal. */
  readonly text: string;
  readonly signalled: boolean;
  readonly argument: string | null;
};

/** Matches "@", ":" and ",". Every text that addresses an agent has one of these characters. */
const ADDRESSING = /[@:,]/;
/** Matches "@" and its variants that Unicode normalization converts to "@". */
const AT = /[@\uFE6B\uFF20]/u;
const FIRST_WORD = /[\p{L}\p{N}]+/u;
const QUESTION_END = /\?["'”’)\]*_]*$/;
const THANKS = /\b(?:thanks?|thx|cheers|kudos|well done|(?:nice|good|great) (?:work|job|catch)|danke|merci|gracias)\b/;

function sentencesOf(text: string): readonly string[] {
  const pieces = withoutCode(folded(text)).split(/(?<=[.!?…]["'”’)\]*_]*)\s+|\n+/);
  return pieces.map((piece) => piece.trim()).filter((piece) => piece !== '');
}

type Names = {
  readonly agents: ReadonlyMap<string, AgentId>;
  readonly lengths: readonly number[];
};

/**
 * A character that continues a word. Chinese, Japanese, Korean and Thai letters do not count: "@devさん" mentions dev.
 */
const LETTER =
  /[[\p{L}\p{M}\p{N}_]--[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}]]/v;
const BEFORE_AT = new RegExp(`(?:${LETTER.source}|[+%@])$`, 'v');
const GOES_ON = new RegExp(`(?:\\u200d|[.@\\/\\-]?${LETTER.source})`, 'vy');
const AFTER_FIRST = /\s*[:,](?![\d/:])/y;

function folded(text: string): string {
  return text.normalize('NFKC').toLowerCase();
}

function namesOf(agents: readonly Addressee[]): Names {
  const byName = agents.map(({ id, name }) => [folded(name.trim()), id] as const);
  const byId = agents.map(({ id }) => [folded(id), id] as const);
  const agentsByName = new Map([...byName, ...byId].filter(([name]) => name !== ''));
  const lengths = [...new Set([...agentsByName.keys()].map((name) => name.length))].sort((a, b) => b - a);
  return { agents: agentsByName, lengths };
}

type PassWord = { readonly first: string; readonly plain: string };

const passWordsOf = foundOnce((words: readonly string[]): readonly PassWord[] =>
  words.map((word) => ({ first: firstWord(word), plain: unmarked(word) })),
);

function begunPassWords(text: string, words: readonly string[]): readonly PassWord[] {
  const first = firstWord(text);
  const begun: PassWord[] = [];
  for (const word of passWordsOf(words)) if (word.first.startsWith(first)) begun.push(word);
  return begun;
}

function firstWord(text: string): string {
  return FIRST_WORD.exec(text.slice(0, LONGEST_PASS))?.[0].toLowerCase() ?? '';
}

/**
 * Returns the letters and digits in lower case, with single spaces between words. A text longer than 200 characters is
 * returned unchanged, because it cannot be a pass word.
 */
function unmarked(text: string): string {
  const words =
    text
      .slice(0, LONGEST_PASS)
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? [];
  return text.length > LONGEST_PASS ? text : words.join(' ');
}

const LONGEST_PASS = 200;

function* mentions(text: string, names: Names): Generator<AgentId> {
  for (const { index } of text.matchAll(/@/g)) {
    if (BEFORE_AT.test(text.slice(Math.max(0, index - 2), index))) continue;
    const found = nameAt(text, index + 1, names);
    if (found !== null) yield found.agent;
  }
}

function* firstNames(text: string, names: Names): Generator<AgentId> {
  let at = skip(text, 0);
  for (let found = nameAt(text, at, names); found !== null; found = nameAt(text, at, names)) {
    AFTER_FIRST.lastIndex = found.end;
    if (!AFTER_FIRST.test(text)) return;
    yield found.agent;
    at = skip(text, AFTER_FIRST.lastIndex);
  }
}

function skip(text: string, from: number): number {
  const space = /\s*/y;
  space.lastIndex = from;
  space.test(text);
  return space.lastIndex;
}

function nameAt(text: string, at: number, names: Names): { readonly agent: AgentId; readonly end: number } | null {
  for (const length of names.lengths) {
    const agent = names.agents.get(text.slice(at, at + length));
    GOES_ON.lastIndex = at + length;
    if (agent !== undefined && !GOES_ON.test(text)) return { agent, end: at + length };
  }
  return null;
}

function withoutCode(text: string): string {
  let fence: Fence | null = null;
  const lines = text.split('\n').map((line) => {
    const isInside = fence?.block === true;
    const isQuoted = fence === null && isQuote(line);
    fence = fenceAfter(fence, line);
    return isInside || isQuoted || fence?.block === true ? '' : line;
  });
  const paragraphs = lines.join('\n').split(/\n(?=\n)/);
  return paragraphs
    .map(withoutInlineCode)
    .join('\n')
    .replaceAll(/\bhttps?:\/\/\S+/g, ' ');
}

function withoutInlineCode(paragraph: string): string {
  let shown = '';
  let from = 0;
  for (const { at, end } of codeSpans(paragraph)) {
    shown += `${paragraph.slice(from, at)} `;
    from = end;
  }
  return shown + paragraph.slice(from);
}

const ARGUMENT = /^@?[\w-]{1,64}$/;
const BEGUN_ARGUMENT = /^@?[\w-]{0,64}$/;

/**
 * Scans one agent's streamed output for the turn signal at the very end, however the stream splits it. Removes the
 * signal and the white space before it. The signal counts, case-sensitively, on its own line or as the last word of the
 * last line ("I am done. TURN_COMPLETE"). White space may follow, and the agent to hand over to: "@dev", or "dev" if
 * the signal is on its own line. In code, in a block quote or elsewhere it is text. An output without the signal is
 * shown unchanged.
 */
export class SignalScanner {
  readonly #signal: string;
  #pending = '';
  /** The current word. `null` once it cannot be part of a signal. */
  #word: string | null = '';
  #afterSignal = false;
  /** The code block or inline code that is open before the current line. `#line`: the shown part of that line. */
  #fence: Fence | null = null;
  #line = '';

  constructor(signal: string) {
    if (!/^\S+$/.test(signal)) throw new RangeError(`Expected \`signal\` to be one word, got "${signal}"`);
    this.#signal = signal;
  }

  /** Returns the text that can be shown now. Holds back white space and text that may become the signal. */
  push(chunk: string): string {
    let shown = '';
    for (const [piece] of chunk.matchAll(/\s+|\S+/g)) {
      shown += /^\s/.test(piece) ? this.#space(piece) : this.#letters(piece);
    }
    this.#follow(shown);
    return shown;
  }

  /** Ends the scan. Call it once, after the last chunk. */
  end(): SignalEnd {
    const { length } = this.#line;
    const rest = this.#line + this.#pending;
    const { textLength, argument } = rest.includes(this.#signal) ? cut(rest, this.#fence, this.#signal) : UNCUT;
    if (textLength === null) return { text: this.#pending, signalled: false, argument: null };
    return { text: this.#pending.slice(0, Math.max(0, textLength - length)), signalled: true, argument };
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

type Cut = { readonly textLength: number | null; readonly argument: string | null };

const UNCUT: Cut = { textLength: null, argument: null };

function cut(text: string, open: Fence | null, signal: string): Cut {
  const lines = linesOf(text, open);
  let cutAt: number | null = null;
  let argument: string | null = null;
  for (const line of lines.toReversed()) {
    const words = [...line.text.matchAll(/\S+/g)].map((match) => ({ at: match.index, text: match[0] }));
    const found = lastSignal(words, signal);
    if (found.from === words.length && words.length > 0) break;
    const before = line.text.slice(0, words[found.from]?.at ?? 0);
    if (words.length > 0 && (line.isCode || isQuote(before))) break;
    if (words.length > 0) cutAt = line.at + before.trimEnd().length;
    argument ??= found.argument;
    if (found.from > 0) break;
  }
  return { textLength: cutAt === null ? null : text.slice(0, cutAt).trimEnd().length, argument };
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
