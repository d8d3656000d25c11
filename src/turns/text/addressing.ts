import type { AgentId } from '../floor/settings.ts';
import { fenceAfter, isQuote } from './split.ts';
import type { Fence } from './split.ts';

/** An agent as people may call it. */
export type Addressee = { readonly id: AgentId; readonly name: string };

/**
 * Whom a person's text addresses, in the order of first mention: "@id" or "@Name" anywhere, or an id or a name at the very
 * beginning before ":" or "," ("dev: …", "dev, qa: …"). In any case of letters; the longest name counts; not inside words,
 * e-mail and web addresses, code or quotes.
 */
export function addressedIn(text: string, agents: readonly Addressee[]): AgentId[] {
  const names = namesOf(agents);
  const plain = withoutCode(folded(text));
  return [...new Set([...firstNames(plain, names), ...mentions(plain, names)])];
}

/** Whom an agent's text mentions: only "@id" or "@Name", by the same rules. */
export function mentionsIn(text: string, agents: readonly Addressee[]): AgentId[] {
  return [...new Set(mentions(withoutCode(folded(text)), namesOf(agents)))];
}

/**
 * Whether a text is an operator command: one line, "/" or "!" and then one of the known first words ("floor", "agent"); for
 * "stop" whatever follows it. Anything else that begins so ("!nice", "/shrug") is an ordinary message.
 */
export function isCommandLine(text: string, known: readonly string[]): boolean {
  const [, word = '', rest = ''] = /^[/!](\S+)(.*)$/s.exec(text.trim()) ?? [];
  if (isStopWord(word)) return known.includes('stop');
  return !rest.includes('\n') && known.some((each) => each.toLowerCase() === word.toLowerCase());
}

/** Whoever writes "/stop now", "!STOP!!" or "stop, please" wants it stopped. */
export function isStopWord(word: string): boolean {
  return /^stop[\p{P}\p{S}]*$/iu.test(word);
}

type Names = {
  readonly agents: ReadonlyMap<string, AgentId>;
  /** The lengths of names, longest first. */
  readonly lengths: readonly number[];
};

/** What makes a word go on. Scripts without spaces do not: "@devさん" mentions dev. */
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
  const known = new Map([...byName, ...byId].filter(([name]) => name !== ''));
  const lengths = [...new Set([...known.keys()].map((name) => name.length))].sort((a, b) => b - a);
  return { agents: known, lengths };
}

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

/** The longest name that stands here as a whole. */
function nameAt(text: string, at: number, names: Names): { readonly agent: AgentId; readonly end: number } | null {
  for (const length of names.lengths) {
    const agent = names.agents.get(text.slice(at, at + length));
    GOES_ON.lastIndex = at + length;
    if (agent !== undefined && !GOES_ON.test(text)) return { agent, end: at + length };
  }
  return null;
}

/** The text with blanks in place of code, quotes and web addresses. */
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

/** Takes out what stands between two runs of as many backticks; a run without its like is text. */
function withoutInlineCode(paragraph: string): string {
  let shown = '';
  let end = 0;
  for (const { at, length, next } of runsOf(paragraph)) {
    if (at < end || next === null) continue;
    shown += `${paragraph.slice(end, at)} `;
    end = next + length;
  }
  return shown + paragraph.slice(end);
}

type Run = {
  readonly at: number;
  readonly length: number;
  /** Where the next run of the same length begins. */
  readonly next: number | null;
};

function runsOf(paragraph: string): readonly Run[] {
  const seen = new Map<number, number>();
  return [...paragraph.matchAll(/`+/g)]
    .toReversed()
    .map(({ index, 0: { length } }) => {
      const next = seen.get(length) ?? null;
      seen.set(length, index);
      return { at: index, length, next };
    })
    .toReversed();
}
