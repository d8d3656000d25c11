import type { RawFile } from 'discord.js';
import { splitText } from '../../turns/text/split.ts';
import { excerpt } from '../../turns/commands/clock-words.ts';
import { withoutMarks } from '../delivery/chat-adapter.ts';
import type { ButtonOpens, CardButton } from '../delivery/card.ts';
import { MOST_FRAME, draftText } from '../delivery/posts.ts';
import type { Content } from '../delivery/message-client.ts';
import type { Speaker } from '../port.ts';
import { prefixOf } from './identity.ts';
import { defined } from '../../lib/defined.ts';

/** Discord's limit for the content of one message, in UTF-16 units. */
const CONTENT_LIMIT = 2_000;
/**
 * The longest text of a post without a file, in UTF-16 units. The rest up to Discord's limit of 2,000 is for a name in
 * front (86), the marks of a late and repeated post (80), and links that are written out.
 */
export const TEXT_LIMIT = 1_800;
/** An agent's text longer than this is attached as a file, and its beginning is shown. In UTF-16 units. */
export const FILE_ABOVE = 7_600;
/** Ends the text of a draft. */
export const CURSOR = '▌';

const SUPPRESS_EMBEDS = 1 << 2;
/** Flag of an answer that only its receiver sees. */
export const EPHEMERAL = 1 << 6;
const SUPPRESS_NOTIFICATIONS = 1 << 12;
const STYLES = { plain: 2, good: 3, danger: 4 } as const;
const BUTTONS_A_ROW = 5;
const BUTTON_LABEL_LENGTH = 80;
const ID_LENGTH = 100;
const ID = /^conch([:rnfia])([^:]{1,80}):(.+)$/s;
const HEAD_LENGTH = 1_500;
const NOTE_LENGTH = 120;
const LONGEST_END = 800;
const CODE_END = '\n```\n';

/**
 * Builds the body of an outgoing message, cut to Discord's limit. Mentions in the text ping nobody. Link previews are
 * off: Discord would fetch each URL, and a URL could leak what an agent has read.
 */
export function body<Rest extends { readonly flags?: number }>(
  content: string,
  rest?: Rest,
): Rest & { readonly content: string; readonly allowed_mentions: { readonly parse: readonly [] } } {
  const flags = (rest?.flags ?? 0) | SUPPRESS_EMBEDS;
  const fixedFields = {
    content: cutToLimit(safeText(cutToLimit(content))),
    allowed_mentions: { parse: [] as const },
    flags,
  };
  return Object.assign({}, rest, fixedFields);
}

/** Builds the body of an answer to a person. */
export function answerBody(text: string, options: { readonly ephemeral: boolean }): ReturnType<typeof body> {
  return body(withoutCursor(text), options.ephemeral ? { flags: EPHEMERAL } : {});
}

/**
 * Writes out links whose label shows another host: "[bank.com](https://evil.org)" becomes "bank.com
 * (<https://evil.org>)". A single code block stays unchanged if no backtick precedes it, because people may be about to
 * allow exactly this code.
 */
export function safeText(text: string): string {
  const [before = '', code, after, ...more] = text.split('```');
  if (code === undefined || after === undefined || more.length > 0 || before.includes('`')) return withOpenLinks(text);
  return `${withOpenLinks(before)}\`\`\`${code}\`\`\`${withOpenLinks(after)}`;
}

function withOpenLinks(text: string): string {
  return text.replaceAll(MASKED_LINK, (link, label: string, url: string) => {
    const labelHost = hostIn(label);
    if (labelHost === null || labelHost === hostOf(url)) return link;
    return /[[\]]/.test(label) ? `[${label}] (<${url}>` : `${label} (<${url}>`;
  });
}

function contentOf(content: Content, isWebhook: boolean, withFile = true): string {
  const { speaker, kind } = content;
  if (kind === 'draft') return draftOf(speaker, content.text, isWebhook);
  const { text } = shownOf(content, withFile);
  return withPrefix(speaker, withoutCursor(text), isWebhook);
}

/**
 * Returns the text of a message that is no draft. A text that ends with a draft's cursor would be deleted as a draft.
 */
function withoutCursor(text: string): string {
  return endsWithCursor(text) ? `${text.trimEnd()}\u200B` : text;
}

/** Builds the body of one of Conch's messages, with its buttons. A card notifies nobody. */
export function bodyOf(content: Content, isWebhook: boolean, withFile = true): ReturnType<typeof body> {
  const text = contentOf(content, isWebhook, withFile);
  if (content.kind !== 'card')
    return content.buttons.length === 0
      ? body(text)
      : body(text, { components: rowsOf(content.buttons, NOTICE), flags: 0 });
  return body(text, { components: rowsOf(content.buttons), flags: SUPPRESS_NOTIFICATIONS });
}

/** Arranges buttons in rows of five. A button whose id is too long for Discord is left out. */
export function rowsOf(buttons: readonly CardButton[], mark: typeof NOTICE | null = null): readonly object[] {
  const validButtons = buttons
    .map((button) => ({
      type: 2,
      style: STYLES[button.style],
      label: cutTo(button.label, BUTTON_LABEL_LENGTH),
      custom_id: customId(button, mark),
    }))
    .filter(({ custom_id: { length } }) => length <= ID_LENGTH);
  const rows = Array.from({ length: Math.ceil(validButtons.length / BUTTONS_A_ROW) }, (_, row) => row * BUTTONS_A_ROW);
  return rows.map((from) => ({ type: 1, components: validButtons.slice(from, from + BUTTONS_A_ROW) }));
}

/** Returns the id by which Discord reports a press of the button. */
export function customId(
  { line, drawnFor, opens }: Pick<CardButton, 'line' | 'drawnFor' | 'opens'>,
  mark: typeof NOTICE | null = null,
): string {
  return `conch${mark ?? (opens === undefined ? ':' : OPENS[opens.what])}${drawnFor}:${line}`;
}

/** Parses a button's id; `null` for an id that is not Conch's. */
export function readCustomId(text: string): PressedButton | null {
  const [, letter, drawnFor = '', line = ''] = ID.exec(text) ?? [];
  const opens = OPENING_KINDS.find((each) => OPENS[each] === letter);
  return line === '' ? null : { line, drawnFor, ...defined({ opens }) };
}

/** A button that a person pressed. */
export type PressedButton = { readonly line: string; readonly drawnFor: string; readonly opens?: ButtonOpens['what'] };

/** The letter in the ids of buttons under announcements. Ids of a card's buttons have another character there. */
const NOTICE = 'a';

/** Returns whether a button's id marks its message as a card: an id of Conch without the letter `NOTICE`. */
export function isCardButton(id: string): boolean {
  return ID.exec(id) !== null && ID.exec(id)?.[1] !== NOTICE;
}

/** One letter for each thing that a button opens, because Discord limits an id to 100 characters. */
const OPENS = { rules: 'r', reason: 'n', form: 'f', input: 'i' } as const satisfies Record<ButtonOpens['what'], string>;
const OPENING_KINDS = ['rules', 'reason', 'form', 'input'] as const;

function draftOf(speaker: Speaker, text: string, isWebhook: boolean): string {
  const safe = safeText(draftText(text, TEXT_LIMIT - MOST_FRAME));
  return `${withPrefix(speaker, safe.slice(0, TEXT_LIMIT), isWebhook)} ${CURSOR}`;
}

/** Returns whether a content ends with the cursor of drafts. */
export function endsWithCursor(content: string): boolean {
  return content.trimEnd().endsWith(CURSOR);
}

/**
 * Returns a message's text and files. A post of an agent above `FILE_ABOVE`, or of Conch above `TEXT_LIMIT`, is
 * shortened, with a note. With `withFile`, the post's whole text is attached as a file.
 */
export function shownOf(
  content: Content,
  withFile = true,
): { readonly text: string; readonly files: readonly RawFile[] } {
  const { kind, text, speaker, epoch } = content;
  const { length } = withoutMarks(text);
  if (kind !== 'post' || length <= (speaker === null ? TEXT_LIMIT : FILE_ABOVE)) return { text, files: [] };
  const end = speaker === null ? endOf(text) : '';
  const [head = ''] = splitText(text, Math.min(HEAD_LENGTH, TEXT_LIMIT - NOTE_LENGTH - end.length));
  const name = speaker === null ? 'question.md' : `${speaker.id}-${epoch ?? 0}.md`;
  const whole = `This is the beginning; the whole text (${length.toLocaleString('en-US')} characters)`;
  if (!withFile)
    return { text: `${head}\n\n⚠️ ${whole} needs a file, and the bot lacks the permission "Attach Files".`, files: [] };
  return { text: `${head}\n\n📎 ${whole} is in the file.${end}`, files: [textFile({ name, text })] };
}

function endOf(text: string): string {
  const end = text.slice(text.lastIndexOf(CODE_END) + CODE_END.length - 1);
  return text.includes(CODE_END) && end.length <= LONGEST_END ? end : '';
}

/** Returns a text as one line of at most `length` UTF-16 units. Replaces half an emoji, which Discord refuses. */
export function cutTo(words: string, length: number): string {
  return excerpt(words, length).slice(0, length).toWellFormed();
}

/** Returns a text as a file to attach. */
export function textFile({ name, text }: { readonly name: string; readonly text: string }): RawFile {
  const type = name.endsWith('.md') ? 'markdown' : 'plain';
  return { name, data: Buffer.from(text.toWellFormed(), 'utf8'), contentType: `text/${type}; charset=utf-8` };
}

/**
 * Returns whether two contents are equal in the Unicode form NFC, apart from the marks of late or repeated posts, white
 * space and invisible characters.
 */
export function sameContent(one: string, other: string): boolean {
  return comparable(one) === comparable(other);
}

const MASKED_LINK = /\[([\s\S]{1,2000}?)\]\(\s*<?(https?:\/\/[^\s<>)]+)>?/gi;
const HOST = /^(?:[a-z][a-z0-9+.-]*:\/\/)?(?:[^\s/@]*@)?((?:[\p{L}\p{N}-]+\.)+[\p{L}]{2,24})(?::\d+)?(?:[/?#]\S*)?$/iu;

function hostIn(label: string): string | null {
  const words = label
    .normalize('NFKC')
    .replaceAll(/[\p{Cf}*_~|`\\<>()[\]]/gu, '')
    .trim()
    .split(/\s+/);
  const hosts = words.map((word) => HOST.exec(word.replace(/[.,;:!?]+$/, ''))?.[1] ?? null);
  return (
    hosts
      .find((host) => host !== null)
      ?.toLowerCase()
      .replace(/^www\./, '') ?? null
  );
}

function hostOf(url: string): string | null {
  const host = URL.parse(url)?.hostname ?? null;
  return host === null ? null : host.replace(/^www\./, '');
}

function cutToLimit(content: string): string {
  const whole = content.toWellFormed();
  return whole.length <= CONTENT_LIMIT ? whole : `${whole.slice(0, CONTENT_LIMIT - 1)}…`.toWellFormed();
}

/** Markdown that works only at the start of a line, so it must not follow a name. */
const BLOCK = /^\s*(?:```|~~~|#|>|[-*+]\s|\d+[.)]\s|\|)/;

function withPrefix(speaker: Speaker, text: string, isWebhook: boolean): string {
  if (speaker === null || isWebhook) return text;
  return `${prefixOf(speaker)}${BLOCK.test(text) ? '\n' : ' '}${text}`;
}

function comparable(content: string): string {
  return withoutMarks(content)
    .normalize('NFC')
    .replaceAll(/[\s\p{Cf}]+/gu, '');
}
