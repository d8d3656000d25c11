import type { RawFile } from 'discord.js';
import { fenceAfter, splitText } from '../../turns/text/split.ts';
import type { Fence } from '../../turns/text/split.ts';
import type { ButtonOpens, CardButton } from '../delivery/card.ts';
import type { Content } from '../delivery/message-client.ts';
import type { Speaker } from '../port.ts';
import { prefixOf } from './identity.ts';
import { defined } from '../../lib/defined.ts';

/** The most that Discord takes as the content of one message, in UTF-16 units. */
const CONTENT_LIMIT = 2_000;
/** The longest text of one post: the rest is room for a name in front and for links that are written out. */
export const TEXT_LIMIT = 1_900;
/** What an agent says is shown as a file when it is longer than this; up to here it is several posts. */
export const FILE_ABOVE = 7_600;
/** Ends a text that is still being written; nothing that is said for good ends with it. */
export const CURSOR = '▌';

const SUPPRESS_EMBEDS = 1 << 2;
const EPHEMERAL = 1 << 6;
const SUPPRESS_NOTIFICATIONS = 1 << 12;
const STYLES = { plain: 2, good: 3, danger: 4 } as const;
const BUTTONS_A_ROW = 5;
const LABEL_LENGTH = 80;
const ID_LENGTH = 100;
const ID = /^conch([:rnfia])([^:]{1,80}):(.+)$/s;
const HEAD_LENGTH = 1_500;
/** Room for the words that tell of a file. */
const NOTE_LENGTH = 120;
const LONGEST_END = 800;
const CODE_END = '\n```\n';
const FRAME_LENGTH = 40;
const DRAFT_LENGTH = TEXT_LIMIT - 2 * FRAME_LENGTH;

/**
 * The body of a message that pings nobody, whatever its text says, and of whose links Discord makes no preview: a preview is
 * fetched, and an address can carry away what an agent has read. Every message that leaves is made here.
 */
export function body<Rest extends { readonly flags?: number }>(
  content: string,
  rest?: Rest,
): Rest & { readonly content: string; readonly allowed_mentions: { readonly parse: readonly [] } } {
  const flags = (rest?.flags ?? 0) | SUPPRESS_EMBEDS;
  const known = { content: fitted(safeText(fitted(content))), allowed_mentions: { parse: [] as const }, flags };
  return Object.assign({}, rest, known);
}

/** The body of an answer to a command or a button. */
export function answerBody(text: string, how: { readonly ephemeral: boolean }): ReturnType<typeof body> {
  return body(text, how.ephemeral ? { flags: EPHEMERAL } : {});
}

/**
 * The text with links that pretend to lead elsewhere written out: "[bank.com](https://evil.org)" becomes
 * "bank.com (<https://evil.org>)". A text with one block of code and no other backticks has no links in it: that stays
 * letter by letter, and no longer, for somebody may be about to allow it.
 */
export function safeText(text: string): string {
  const [before = '', code, after, ...more] = text.split('```');
  if (code === undefined || after === undefined || more.length > 0 || before.includes('`')) return withOpenLinks(text);
  return `${withOpenLinks(before)}\`\`\`${code}\`\`\`${withOpenLinks(after)}`;
}

function withOpenLinks(text: string): string {
  return text.replaceAll(MASKED_LINK, (link, label: string, url: string) => {
    const shown = hostIn(label);
    if (shown === null || shown === hostOf(url)) return link;
    return /[[\]]/.test(label) ? `[${label}] (<${url}>` : `${label} (<${url}>`;
  });
}

/** What a message says, by a webhook under the agent's own name or by the bot with the name in front. */
export function contentOf(content: Content, isWebhook: boolean): string {
  const { speaker, kind } = content;
  if (kind === 'draft') return draftOf(speaker, content.text, isWebhook);
  const { text } = shownOf(content);
  return named(speaker, endsWithCursor(text) ? `${text.trimEnd()}\u200B` : text, isWebhook);
}

/** The body of one of Conch's messages. A card comes with its buttons, and nobody's device rings for it. */
export function bodyOf(content: Content, isWebhook: boolean): ReturnType<typeof body> {
  const text = contentOf(content, isWebhook);
  if (content.kind !== 'card')
    return content.buttons.length === 0
      ? body(text)
      : body(text, { components: rowsOf(content.buttons, NOTICE), flags: 0 });
  return body(text, { components: rowsOf(content.buttons), flags: SUPPRESS_NOTIFICATIONS });
}

/** Buttons as rows of five. One whose id Discord would not take is left out: its line can be typed. */
export function rowsOf(buttons: readonly CardButton[], mark: typeof NOTICE | null = null): readonly object[] {
  const shown = buttons
    .map((button) => ({
      type: 2,
      style: STYLES[button.style],
      label: button.label.length > LABEL_LENGTH ? `${button.label.slice(0, LABEL_LENGTH - 1)}…` : button.label,
      custom_id: customId(button, mark),
    }))
    .filter(({ custom_id: { length } }) => length <= ID_LENGTH);
  const rows = Array.from({ length: Math.ceil(shown.length / BUTTONS_A_ROW) }, (_, row) => row * BUTTONS_A_ROW);
  return rows.map((from) => ({ type: 1, components: shown.slice(from, from + BUTTONS_A_ROW) }));
}

/** What a button is known by when it is pressed. */
export function customId(
  { line, drawnFor, opens }: Pick<CardButton, 'line' | 'drawnFor' | 'opens'>,
  mark: typeof NOTICE | null = null,
): string {
  return `conch${mark ?? (opens === undefined ? ':' : OPENS[opens.what])}${drawnFor}:${line}`;
}

/** The command line that a pressed button stands for, and what it was drawn for; `null` when it is none of Conch's. */
export function readCustomId(text: string): PressedButton | null {
  const [, letter, drawnFor = '', line = ''] = ID.exec(text) ?? [];
  const opens = WHAT.find((each) => OPENS[each] === letter);
  return line === '' ? null : { line, drawnFor, ...defined({ opens }) };
}

/** A button that somebody pressed. */
export type PressedButton = {
  readonly line: string;
  readonly drawnFor: string;
  readonly opens?: ButtonOpens['what'];
};

/** On the buttons of an announcement, by which it is told from a card. */
const NOTICE = 'a';

/** Whether a custom id is one of a card's buttons. */
export function isCardButton(id: string): boolean {
  return ID.exec(id) !== null && ID.exec(id)?.[1] !== NOTICE;
}

/** A letter each: Discord takes at most 100 characters. */
const OPENS = { rules: 'r', reason: 'n', form: 'f', input: 'i' } as const satisfies Record<ButtonOpens['what'], string>;
const WHAT = ['rules', 'reason', 'form', 'input'] as const;

/** What a draft shows of a text so far: its end when it is long, open code closed, and the cursor. */
function draftOf(speaker: Speaker, text: string, isWebhook: boolean): string {
  const whole = text.trimEnd();
  const shown = safeText(closed(whole.length > DRAFT_LENGTH ? tailOf(whole) : whole));
  return `${named(speaker, shown.slice(0, TEXT_LIMIT), isWebhook)} ${CURSOR}`;
}

/** Whether a message is a draft: somebody was still writing it. */
export function endsWithCursor(content: string): boolean {
  return content.trimEnd().endsWith(CURSOR);
}

/** The text of a message as it is shown, and the file that holds all of it when it is long. */
export function shownOf(content: Content): { readonly text: string; readonly files: readonly RawFile[] } {
  const { kind, text, speaker, epoch } = content;
  if (kind !== 'post' || text.length <= (speaker === null ? TEXT_LIMIT : FILE_ABOVE)) return { text, files: [] };
  const end = speaker === null ? endOf(text) : '';
  const [head = ''] = splitText(text, Math.min(HEAD_LENGTH, TEXT_LIMIT - NOTE_LENGTH - end.length));
  const name = speaker === null ? 'question.md' : `${speaker.id}-${epoch ?? 0}.md`;
  const length = text.length.toLocaleString('en-US');
  return {
    text: `${head}\n\n📎 This is the beginning; the whole text (${length} characters) is in the file.${end}`,
    files: [textFile({ name, text })],
  };
}

/** What stands behind the code of a question: what each answer does, and who decides until when. */
function endOf(text: string): string {
  const end = text.slice(text.lastIndexOf(CODE_END) + CODE_END.length - 1);
  return text.includes(CODE_END) && end.length <= LONGEST_END ? end : '';
}

/** A text as a file beside a message. */
export function textFile({ name, text }: { readonly name: string; readonly text: string }): RawFile {
  const type = name.endsWith('.md') ? 'markdown' : 'plain';
  return { name, data: Buffer.from(text.toWellFormed(), 'utf8'), contentType: `text/${type}; charset=utf-8` };
}

/** Whether two contents are the same message: platforms trim and fold what cannot be seen. */
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

function fitted(content: string): string {
  const whole = content.toWellFormed();
  return whole.length <= CONTENT_LIMIT ? whole : `${whole.slice(0, CONTENT_LIMIT - 1)}…`.toWellFormed();
}

/** What would not be read as Markdown after a name begins a line of its own. */
const BLOCK = /^\s*(?:```|~~~|#|>|[-*+]\s|\d+[.)]\s|\|)/;

function named(speaker: Speaker, text: string, isWebhook: boolean): string {
  if (speaker === null || isWebhook) return text;
  return `${prefixOf(speaker)}${BLOCK.test(text) ? '\n' : ' '}${text}`;
}

function tailOf(text: string): string {
  const from = text.length - DRAFT_LENGTH;
  const newline = text.indexOf('\n', from);
  const start = newline === -1 || newline > from + DRAFT_LENGTH / 2 ? from : newline + 1;
  const fence = openAt(text.slice(0, start));
  const head = fence === null ? '' : `${fence.mark}${fence.language}\n`.slice(0, FRAME_LENGTH);
  return `…${fence === null ? '' : '\n'}${head}${text.slice(start).toWellFormed()}`;
}

/** The text with a block of code that is still open closed. */
function closed(text: string): string {
  const fence = openAt(text);
  return fence === null || fence.mark.length > FRAME_LENGTH ? text : `${text}\n${fence.mark}`;
}

function openAt(text: string): Fence | null {
  let fence: Fence | null = null;
  for (const line of text.split('\n')) fence = fenceAfter(fence, line);
  return fence !== null && fence.block ? fence : null;
}

function comparable(content: string): string {
  return content.normalize('NFC').replaceAll(/[\s\p{Cf}]+/gu, '');
}
