import type { Announcement } from '../floor/announcement.ts';
import type { Effect } from '../floor/react.ts';
import type { ChannelId } from '../floor/settings.ts';

/** How texts become posts. */
export type TextRendering = {
  /** Returns the maximum length of a post in a channel, in UTF-16 units. */
  readonly textLimit: (channel: ChannelId) => number;
  /**
   * Returns the length, in UTF-16 units, above which an agent's text stays one post, shown as a file. `null` or absent:
   * long texts are split.
   */
  readonly fileAbove?: (channel: ChannelId) => number | null;
  /** Returns the maximum length of a post that asks people for a decision, in UTF-16 units. Default: `textLimit`. */
  readonly questionLimit?: (channel: ChannelId) => number;
  /** Returns the text of an announcement, or `null` when the configuration switches it off. */
  readonly words: (announcement: Announcement, channel: ChannelId, repeat: number) => string | null;
};

/**
 * Splits a text into parts of at most `limit` UTF-16 units. Splits at the end of a paragraph, else of a line, a
 * sentence or a word. Splits inside a character (grapheme) only if it is longer than a part. A code fence that is split
 * is closed and opened again with its language, unless that needs over half of the limit. Nothing else is added. Only
 * white space at the cuts and at the end is removed. A text that fits is returned unchanged; a blank text gives no
 * parts. Throws unless the limit is a whole number from 2 up.
 */
export function splitText(text: string, limit: number): string[] {
  if (!Number.isSafeInteger(limit) || limit < 2) {
    throw new RangeError(`Expected \`limit\` to be a whole number from 2 up, got ${limit}`);
  }
  const whole = text.trimEnd();
  if (whole === '') return [];
  if (text.length <= limit) return [text];
  const parts: string[] = [];
  let place: Place = { at: 0, fence: null };
  while (place.at < whole.length) {
    const { head } = frameOf(place.fence, limit);
    if (head.length + whole.length - place.at <= limit) {
      parts.push(head + whole.slice(place.at));
      break;
    }
    const cut = cutAfter(whole, place, limit);
    const body = whole.slice(place.at, cut.end);
    if (body.trim() !== '') parts.push(head + body + cut.close);
    place = cut.next;
  }
  return parts;
}

type Place = { readonly at: number; readonly fence: Fence | null };
type Cut = { readonly end: number; readonly close: string; readonly next: Place };
type LineEnds = {
  readonly paragraph: Place | null;
  readonly line: Place | null;
  readonly code: Place | null;
  readonly tooLong: Place;
};

const GRAPHEMES = new Intl.Segmenter('en');
const SENTENCE_END = /[.!?…]["'”’)\]]*(?=\s(?![\p{M}\p{Gr_Ext}\p{EMod}\u200D]))|[。！？](?![\p{M}\p{Gr_Ext}\u200D])/gu;
const WORD_END = /\S(?=\s(?![\p{M}\p{Gr_Ext}\p{EMod}\u200D]))/gu;

/**
 * The least share of a part that must be filled before a preferred cut. Below it, a less preferred cut further on is
 * used.
 */
const WORTHWHILE = 0.25;

function cutAfter(text: string, from: Place, limit: number): Cut {
  const room = limit - frameOf(from.fence, limit).head.length;
  const least = from.at + room * WORTHWHILE;
  const { paragraph, line, code, tooLong } = lineEnds(text, from, limit);
  const good = [paragraph, line, code].find((end) => end !== null && end.at >= least);
  if (good !== undefined && good !== null) return atLineEnd(text, from, { end: good, limit });
  const { close } = frameOf(tooLong.fence, limit);
  const latest = from.at + room - close.length;
  const isText = close === '';
  const word = isText ? wordEnd(text, Math.max(from.at, tooLong.at), { latest, least }) : null;
  const early = paragraph ?? line ?? code;
  if (early !== null && (word === null || word < least)) return atLineEnd(text, from, { end: early, limit });
  if (word !== null) return { end: word, close, next: { at: nextStart(text, word), fence: tooLong.fence } };
  const end = graphemeEnd(text, from.at, latest);
  return { end, close, next: { at: end, fence: tooLong.fence } };
}

function lineEnds(text: string, from: Place, limit: number): LineEnds {
  const room = limit - frameOf(from.fence, limit).head.length;
  const space = text.slice(from.at, from.at + room + 1);
  let { fence } = from;
  let start = 0;
  let ends: Omit<LineEnds, 'tooLong'> = { paragraph: null, line: null, code: null };
  for (let end = space.indexOf('\n'); end !== -1; end = space.indexOf('\n', start)) {
    const after = fenceAfter(fence, space.slice(start, end));
    const { close } = frameOf(after, limit);
    if (end + close.length > room) break;
    const place = { at: from.at + end, fence: after };
    if (close === '') {
      const isParagraph = isBlock(fence) || endsParagraph(after, lineAt(space, end + 1));
      ends = isParagraph ? { ...ends, paragraph: place } : { ...ends, line: place };
    } else if (isBlock(fence)) ends = { ...ends, code: place };
    fence = after;
    start = end + 1;
  }
  return { ...ends, tooLong: { at: from.at + start, fence } };
}

function endsParagraph(fence: Fence | null, following: string): boolean {
  return following.trim() === '' || (fence === null && isBlock(fenceAfter(fence, following)));
}

function atLineEnd(text: string, from: Place, cut: { readonly end: Place; readonly limit: number }): Cut {
  const { at, fence } = cut.end;
  const { close } = frameOf(fence, cut.limit);
  if (close === '') {
    const end = from.at + text.slice(from.at, at).trimEnd().length;
    return { end, close, next: { at: nextStart(text, at), fence } };
  }
  const following = lineAt(text, at + 1);
  if (fenceAfter(fence, following) !== null) return { end: at, close, next: { at: at + 1, fence } };
  return { end: at, close, next: { at: nextStart(text, at + 1 + following.length), fence: null } };
}

function wordEnd(
  text: string,
  start: number,
  where: { readonly latest: number; readonly least: number },
): number | null {
  const { latest, least } = where;
  const space = text.slice(start, latest + 2);
  const last = (pattern: RegExp): number | null =>
    [...space.matchAll(pattern)]
      .map((match) => start + match.index + match[0].length)
      .findLast((end) => end <= latest) ?? null;
  const sentence = last(SENTENCE_END);
  return sentence !== null && sentence >= least ? sentence : last(WORD_END);
}

function graphemeEnd(text: string, start: number, latest: number): number {
  const space = text.slice(start, latest + 64);
  const boundary = GRAPHEMES.segment(space).containing(latest - start)?.index ?? space.length;
  if (boundary > 0) return start + boundary;
  const isInsidePair = (text.codePointAt(latest - 1) ?? 0) > 0xff_ff;
  return isInsidePair ? latest - 1 : latest;
}

function nextStart(text: string, end: number): number {
  const space = /\s*/y;
  space.lastIndex = end;
  space.test(text);
  const word = space.lastIndex;
  const lineFeed = text.slice(end, word).lastIndexOf('\n');
  return lineFeed === -1 ? word : end + lineFeed + 1;
}

/**
 * Returns the text that opens and closes code in a part. Empty outside code blocks, or if the fence needs over half of
 * the limit.
 */
function frameOf(fence: Fence | null, limit: number): { readonly head: string; readonly close: string } {
  const none = { head: '', close: '' };
  if (fence === null || !fence.block) return none;
  const head = `${fence.mark}${fence.language}\n`;
  const close = `\n${fence.mark}`;
  return head.length + close.length > limit / 2 ? none : { head, close };
}

function isBlock(fence: Fence | null): boolean {
  return fence !== null && fence.block;
}

function lineAt(text: string, start: number): string {
  const end = text.indexOf('\n', start);
  return text.slice(start, end === -1 ? undefined : end);
}

/** Code that is open after a line. `block`: true for a fenced block, false for inline code. */
export type Fence = {
  readonly mark: string;
  readonly block: boolean;
  /** The first word after the opening fence: the language. */
  readonly language: string;
  readonly indent: number;
};

/**
 * Returns the code that is open after a line, which is given without its line feed. `fence`: the code open before it.
 * Differs from CommonMark: for example, fences may be indented at will, and one or two backticks open no code.
 */
export function fenceAfter(fence: Fence | null, line: string): Fence | null {
  if (!line.includes('```') && !line.includes('~~~')) return fence;
  if (fence?.block === true) return closes(fence, line) ? null : fence;
  if (fence === null) {
    if (isQuote(line)) return null;
    const block = opened(line);
    if (block !== null) return block;
  }
  return afterRuns(fence, line);
}

/**
 * Returns where the inline code of a paragraph begins and ends, with its backticks. A run of backticks without an
 * equally long one is text.
 */
export function codeSpans(paragraph: string): readonly { readonly at: number; readonly end: number }[] {
  const ends = new Map<number, number>();
  const runs = [...paragraph.matchAll(/`+/g)].toReversed().map(({ index: at, 0: { length } }) => {
    const end = ends.get(length) ?? null;
    ends.set(length, at + length);
    return { at, end };
  });
  const spans = [];
  let free = 0;
  for (const { at, end } of runs.toReversed()) {
    if (end === null || at < free) continue;
    spans.push({ at, end });
    free = end;
  }
  return spans;
}

/** Returns a text with "… (cut off)" after it; below a code block on a new line. */
export function cutOff(text: string): string {
  return `${text}${/(?:^|\n)(?:```|~~~)$/.test(text) ? '\n' : ' '}… (cut off)`;
}

/** Returns whether a line outside code is a block quote. */
export function isQuote(line: string): boolean {
  return /^\s*>/.test(line);
}

function opened(line: string): Fence | null {
  const [, space = '', mark = '', rest = ''] = /^(\s*)(`{3,}|~{3,})(.*)$/s.exec(line) ?? [];
  if (mark === '' || (mark.startsWith('`') && rest.includes('`'))) return null;
  const [language = ''] = rest.trim().split(/\s/, 1);
  return { mark, block: true, language, indent: space.length };
}

function closes(fence: Fence, line: string): boolean {
  const [, space = '', mark = ''] = /^(\s*)(`{3,}|~{3,})\s*$/.exec(line) ?? [];
  return mark.startsWith(fence.mark) && space.length <= fence.indent + 3;
}

function afterRuns(fence: Fence | null, line: string): Fence | null {
  let open = fence;
  for (const [mark] of line.matchAll(/`{3,}/g)) {
    if (open === null) open = { mark, block: false, language: '', indent: 0 };
    else if (open.mark === mark) open = null;
  }
  return open;
}

type ChannelEffect = Exclude<Effect, { readonly type: 'cancel' }>;

/**
 * `texts`: one for each post; `null` for an effect without a text. `key`: the announcement's key. `repeats`: how often
 * the announcement was made, this time included. From the second time on, the posts edit its earlier posts. `null` and
 * 0: the posts edit nothing.
 */
type PostTexts = { readonly texts: readonly (string | null)[]; readonly key: string | null; readonly repeats: number };

/**
 * Returns the posts of an effect, and the announcement that they edit. A repeated request for approval that is long
 * edits nothing: a short post below it is made.
 */
export function postTextsOf(channel: ChannelId, effect: ChannelEffect, rendering: TextRendering): PostTexts {
  const texts = textsOf(channel, effect, rendering);
  if (effect.type !== 'announce') return { texts, key: null, repeats: 0 };
  const { announcement, key, repeat } = effect;
  const isLong = texts.length > 1 || (texts[0] ?? '').length > rendering.textLimit(channel);
  if (announcement.kind !== 'approval' || repeat < 2 || !isLong) return { texts, key, repeats: repeat };
  const short: ChannelEffect = { ...effect, announcement: { ...announcement, detail: '' } };
  return { texts: textsOf(channel, short, rendering), key: null, repeats: 0 };
}

function textsOf(channel: ChannelId, effect: ChannelEffect, rendering: TextRendering): readonly (string | null)[] {
  if (effect.type !== 'post' && effect.type !== 'announce') return [null];
  const text = effect.type === 'post' ? effect.text : rendering.words(effect.announcement, channel, effect.repeat);
  if (text === null) return [];
  const { textLimit, fileAbove, questionLimit = textLimit } = rendering;
  if (effect.type === 'post')
    return text.length > (fileAbove?.(channel) ?? Infinity) ? [text] : splitText(text, textLimit(channel));
  return isQuestion(effect.announcement) ? numbered(text, questionLimit(channel)) : splitText(text, textLimit(channel));
}

/** Room for "(12 of 345)" and a line feed. */
const NUMBER_LENGTH = 20;

/** Splits a question. With a limit above 40, each part after the first begins with its number. */
function numbered(text: string, limit: number): readonly string[] {
  const parts = splitText(text, limit);
  if (parts.length < 2 || limit <= 2 * NUMBER_LENGTH) return parts;
  const shorter = splitText(text, limit - NUMBER_LENGTH);
  return shorter.map((part, index) => (index === 0 ? part : `(${index + 1} of ${shorter.length})\n${part}`));
}

type Question = Extract<Announcement, { kind: 'approval' | 'trust' }>;

/** Returns whether an announcement is a request for approval or a question about files in an agent's folder. */
export function isQuestion(announcement: Announcement): announcement is Question {
  return announcement.kind === 'approval' || announcement.kind === 'trust';
}
