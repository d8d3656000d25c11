import { fenceAfter } from '../../turns/text/fence.ts';
import type { Fence } from '../../turns/text/fence.ts';

/**
 * An agent's Markdown as Slack's markdown block may hold it: it reads the same, but no mention can form in it, in code
 * neither, and no link says that it leads to another host than it does. Slack reads its own `<…>` in such a block; it shows
 * `&lt;` as "<" and never reads it again, so that is enough outside code. Code stays as it is, but for what would be a mention.
 */
export function inertMarkdown(text: string): string {
  return stretches(text)
    .map((stretch) => (stretch.isCode ? inertCode(stretch.text) : inertProse(stretch.text)))
    .join('\n');
}

/** Words that address everybody, parted by a character that nobody sees, so that they address nobody. */
export function withoutBroadcasts(text: string): string {
  return text.replaceAll(/@(?=(?:channel|here|everyone|group)(?![\p{L}\p{N}_]))/giu, `@${JOINER}`);
}

/** The beginning of a text, at most so long; neither a character nor an entity is cut in two. */
export function clipped(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const whole = text.slice(0, limit - 1).replace(/&[a-z]{0,3}$/, '');
  return `${/[\uD800-\uDBFF]$/.test(whole) ? whole.slice(0, -1) : whole}…`;
}

type Stretch = { readonly isCode: boolean; readonly text: string };

/** Neither seen nor a place to break a line. */
const JOINER = '\u2060';
/** What Slack could take for a mention, a channel, a date or a link with a text of its own. */
const TOKEN = /<(?=@|#[A-Z\d]|!(?!doctype|--|\[)|(?:https?|mailto|tel|slack):[^>\n]{0,2000}\|)/gi;
/** Its text, and its address with or without the angle brackets. */
const LINK =
  /\[((?:[^[\]\\]|\\.|\[[^[\]]{0,300}\]){1,300})\]\(\s{0,3}(?:<([^<>\n]{1,2000})>|((?:[^\s()<>]|\([^\s()<>]{0,300}\)){1,2000}))(?:\s{1,3}["'(][^\n]{0,300}["')])?\s{0,3}\)/g;
const AUTOLINK = /<(https?:\/\/[^\s<>|]{1,2000})>/g;
const ADDRESS =
  /^(?:[a-z][a-z\d+.-]{0,20}:\/\/)?(?:[^\s@/]{1,200}@)?([\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,20})\.?(?::\d{1,5})?(?:[/?#]\S{0,300})?$/iu;

/** Blocks of code and what stands between them, in order, without the line feeds between. */
function stretches(text: string): readonly Stretch[] {
  const found: { isCode: boolean; lines: string[] }[] = [];
  let fence: Fence | null = null;
  for (const line of text.split('\n')) {
    const wasInside: boolean = fence?.block === true;
    fence = fenceAfter(fence, line);
    const isCode: boolean = wasInside || fence?.block === true;
    const last = found.at(-1);
    if (last?.isCode === isCode) last.lines.push(line);
    else found.push({ isCode, lines: [line] });
  }
  return found.map(({ isCode, lines }) => ({ isCode, text: lines.join('\n') }));
}

function inertCode(code: string): string {
  return withoutBroadcasts(code.replaceAll(TOKEN, `<${JOINER}`));
}

function inertProse(prose: string): string {
  return prose
    .split(/(\n[^\S\n]*\n)/)
    .map((paragraph) => inertParagraph(openly(paragraph)))
    .join('');
}

/** Links whose text is another address than theirs show both. */
function openly(paragraph: string): string {
  return paragraph.replaceAll(LINK, (_link, label: string, quoted: string | undefined, plain: string | undefined) => {
    const url = (quoted ?? plain ?? '').trim();
    return isMasked(label, url) ? `${label} (${url})` : `[${label}](${url})`;
  });
}

function inertParagraph(paragraph: string): string {
  let shown = '';
  let end = 0;
  for (const { at, closes } of runsOf(paragraph)) {
    if (at < end || closes === null) continue;
    shown += inertWords(paragraph.slice(end, at)) + inertCode(paragraph.slice(at, closes));
    end = closes;
  }
  return shown + inertWords(paragraph.slice(end));
}

function inertWords(words: string): string {
  return withoutBroadcasts(words.replaceAll(AUTOLINK, '$1').replaceAll('<', '&lt;'));
}

/** Where backticks stand, and where the code that they open ends. */
type Run = { readonly at: number; readonly closes: number | null };

function runsOf(paragraph: string): readonly Run[] {
  const later = new Map<number, number>();
  return [...paragraph.matchAll(/`+/g)]
    .toReversed()
    .map(({ index, 0: { length } }) => {
      const next = later.get(length);
      later.set(length, index);
      return { at: index, closes: next === undefined ? null : next + length };
    })
    .toReversed();
}

/** Whether a link's text is itself an address, of another host. */
function isMasked(label: string, url: string): boolean {
  const [, shown] = ADDRESS.exec(label.replaceAll(/[*_~`[\]\\\u200B-\u200D\u2060\uFEFF]/g, '').trim()) ?? [];
  return shown !== undefined && bare(shown) !== bare(hostOf(url));
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).hostname : url;
}

function bare(host: string): string {
  return host.toLowerCase().replace(/^www\./, '');
}
