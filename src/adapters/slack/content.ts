import { z } from 'zod';
import { COMMAND_WORDS } from '../../turns/commands/command-table.ts';
import { codeSpans, fenceAfter } from '../../turns/text/split.ts';
import type { Fence } from '../../turns/text/split.ts';
import type { AgentId } from '../../turns/floor/settings.ts';
import { ruleLabel } from '../delivery/card.ts';
import type { ButtonOpens, CardButton } from '../delivery/card.ts';
import { draftText } from '../delivery/posts.ts';
import type { Content } from '../delivery/message-client.ts';
import type { Speaker } from '../port.ts';
import { parsedJson } from '../../lib/defined.ts';

/** The text fields of a message for Slack. No mention of a person or group can form in the text. */
export type Wording = { readonly text: string; readonly blocks?: readonly object[]; readonly username?: string };

type WordingOptions = {
  readonly isCustomized: boolean;
  readonly hasBlocks: boolean;
  /** Whether the message goes to a thread. Threads have no slash commands, so commands are written with "!". */
  readonly isThread: boolean;
};

/** Returns the text fields of a message for `chat.postMessage` and `chat.update`. */
export function wordingOf(content: Content, { isCustomized, hasBlocks, isThread }: WordingOptions): Wording {
  const { kind, speaker } = content;
  const spokenText = kind === 'draft' ? draftText(content.text, DRAFT_LIMIT) : content.text;
  const markdown =
    speaker === null ? inSlackWords(spokenText, isThread) : isCustomized ? spokenText : withPrefix(speaker, spokenText);
  const blocks = hasBlocks ? blocksOf(content, markdown) : [];
  return {
    text: clip(inertText(markdown), blocks.length === 0 ? TEXT_LIMIT : NOTICE_LIMIT),
    ...(blocks.length === 0 && hasBlocks ? {} : { blocks }),
    ...(speaker === null || !isCustomized ? {} : identityOf(speaker)),
  };
}

/**
 * Rewrites the commands in Conch's own text for Slack: "/conch floor resume", or "!floor resume" in threads. Commands
 * in code spans are rewritten, too; code blocks stay unchanged.
 */
export function inSlackWords(text: string, isThread: boolean): string {
  return stretches(text)
    .map((stretch) =>
      stretch.isCode ? stretch.text : stretch.text.replaceAll(COMMANDS, isThread ? '!$1' : '/conch $1'),
    )
    .join('\n');
}

const COMMANDS = new RegExp(`(?<![\\w/.:~-])/(${COMMAND_WORDS.join('|')})(?![\\w/.-]*/|[\\w-])`, 'g');

/** The `action_id` of the button that opens the form with a floor's settings. */
export const SETTINGS_ACTION = 'conch:settings';

/** Returns a button's value as text for Slack. */
export function buttonValue({ line, drawnFor, opens }: Pick<CardButton, 'line' | 'drawnFor' | 'opens'>): string {
  const isForm = opens?.what === 'reason' || opens?.what === 'form';
  return JSON.stringify({ line, drawnFor, ...(isForm ? { opens: opens.what } : {}) });
}

/** Parses a button's value. Returns `null` for any other text, and for a line of more than 500 UTF-16 units. */
export function readButtonValue(text: string): ButtonValue | null {
  return parsedJson(text, valueSchema);
}

/** The value of a button: its command line, its `drawnFor` text (may be empty), and the form that it opens. */
export type ButtonValue = z.infer<typeof valueSchema>;

const valueSchema = z.object({
  line: z.string().startsWith('/').max(500),
  // Buttons of earlier versions lack `drawnFor`. The default makes them out of date.
  drawnFor: z.string().max(100).default(''),
  opens: z.enum(['reason', 'form', 'rule']).optional(),
});

/** Returns the remaining time in rounded words, because the card is not updated every second: "about 2 min left". */
export function roughlyLeft(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 1) return 'less than a minute left';
  if (minutes < 60) return `about ${minutes} min left`;
  return minutes < 2_880
    ? `about ${Math.round(minutes / 60)} h left`
    : `about ${Math.round(minutes / 1_440)} days left`;
}

/**
 * The longest text of a message with blocks, in UTF-16 units. Slack shows the blocks, and this text in notifications.
 */
const NOTICE_LIMIT = 4_000;
/** The longest text of a message without blocks, in UTF-16 units. Slack's limit is 40,000. */
const TEXT_LIMIT = 39_000;
const BLOCK_LIMIT = 12_000;
/** The longest text of a Block Kit section, in UTF-16 units, with room below Slack's limit of 3,000. */
export const SECTION_LIMIT = 2_900;
/** The longest text of a draft that is shown whole, in UTF-16 units. Of a longer draft only the end is shown. */
const DRAFT_LIMIT = 3_500;

function blocksOf({ kind, buttons }: Content, text: string): readonly object[] {
  if (kind === 'card') {
    const sectionText = clip(inertText(text), SECTION_LIMIT);
    const section = { type: 'section', text: { type: 'mrkdwn', text: sectionText, verbatim: true } };
    // A card without buttons belongs to a finished ticket, which has no settings either.
    if (buttons.length === 0) return [section];
    return [section, { type: 'actions', elements: [...buttons.flatMap(buttonElement), SETTINGS_BUTTON] }];
  }
  const markdown = inertMarkdown(text);
  const actions = buttons.length === 0 ? [] : [{ type: 'actions', elements: buttons.flatMap(buttonElement) }];
  return markdown.length > BLOCK_LIMIT ? [] : [{ type: 'markdown', text: markdown }, ...actions];
}

const SETTINGS_BUTTON = {
  type: 'button',
  action_id: SETTINGS_ACTION,
  text: { type: 'plain_text', text: 'Settings', emoji: true },
  value: buttonValue({ line: '/settings', drawnFor: '' }),
} as const;

const STYLES = { plain: {}, good: { style: 'primary' }, danger: { style: 'danger' } } as const;

/** Returns the Block Kit elements of a button; none for "Whole input": the request's own message holds the input. */
function buttonElement(button: CardButton, index: number): readonly object[] {
  const { opens } = button;
  if (opens?.what === 'input') return [];
  if (opens?.what === 'rules') return [rulesMenu(button, opens.of, index)];
  return [plainButton(button, index)];
}

type Rules = Extract<ButtonOpens, { what: 'rules' }>['of'];

function rulesMenu({ label, drawnFor }: CardButton, rules: Rules, index: number): object {
  return {
    type: 'static_select',
    action_id: `conch:${index}`,
    placeholder: textObject(label),
    options: rules.slice(0, MOST_OPTIONS).map(({ words, line }, nth) => ({
      text: textObject(ruleLabel(words, nth, OPTION_LENGTH)),
      value: JSON.stringify({ line, drawnFor, opens: 'rule' }),
    })),
  };
}

const MOST_OPTIONS = 100;
/** Slack's limit for the text of an option or a button, in UTF-16 units. */
export const OPTION_LENGTH = 75;

/** Returns plain text for Slack's Block Kit. Slack reads no markup in it. */
export function textObject(text: string): object {
  return { type: 'plain_text', text };
}

function plainButton(button: CardButton, index: number): object {
  return {
    type: 'button',
    action_id: `conch:${index}`,
    text: { type: 'plain_text', text: clip(button.label, OPTION_LENGTH), emoji: true },
    value: buttonValue(button),
    ...STYLES[button.style],
  };
}

/**
 * Rewrites Markdown for Slack's markdown block. No mention can form in the result. Writes out links whose label shows
 * another host. In a markdown block, Slack reads `<…>` as its own markup, and shows `&lt;` as "<". So `&lt;` is safe
 * outside code. In code, only text that Slack reads as markup is changed.
 */
export function inertMarkdown(text: string): string {
  return rewrite(text, { code: inertCode, words: inertWords, paragraph: unmaskLinks });
}

/** Escapes text for Slack fields other than the markdown block. */
function inertText(text: string): string {
  return escaped(rewrite(text, { words: withoutBroadcasts }));
}

type Rewriting = {
  readonly words: (text: string) => string;
  readonly code?: (text: string) => string;
  readonly paragraph?: (text: string) => string;
};

function rewrite(text: string, rewriting: Rewriting): string {
  if (!MAY_HOLD_CODE.test(text)) return rewriteProse(text, rewriting);
  return stretches(text)
    .map((stretch) =>
      stretch.isCode ? (rewriting.code?.(stretch.text) ?? stretch.text) : rewriteProse(stretch.text, rewriting),
    )
    .join('\n');
}

const MAY_HOLD_CODE = /```|~~~/;

type Stretch = { readonly isCode: boolean; readonly text: string };

/** Matches the start of `<…>` that Slack could read as a mention, a channel, a date or a labelled link. */
const TOKEN = /<(?=@[UW]|#[A-Z\d]|!(?!doctype|--|\[)|(?:https?|mailto|tel|slack):[^>\n]{0,2000}\|)/gi;
/** Matches a Markdown link: its label, then its URL with or without angle brackets. */
const LINK =
  /\[((?:[^[\]\\]|\\.|\[[^[\]]{0,300}\]){1,300})\]\(\s{0,3}(?:<([^<>\n]{1,2000})>|((?:[^\s()<>]|\([^\s()<>]{0,300}\)){1,2000}))(?:\s{1,3}["'(][^\n]{0,300}["')])?\s{0,3}\)/g;
const AUTOLINK = /<(https?:\/\/[^\s<>|]{1,2000})>/g;
const ADDRESS =
  /^(?:[a-z][a-z\d+.-]{0,20}:\/\/)?(?:[^\s@/]{1,200}@)?([\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,20})\.?(?::\d{1,5})?(?:[/?#]\S{0,300})?$/iu;

function stretches(text: string): readonly Stretch[] {
  const spans: { isCode: boolean; lines: string[] }[] = [];
  let fence: Fence | null = null;
  for (const line of text.split('\n')) {
    const wasInside: boolean = fence?.block === true;
    fence = fenceAfter(fence, line);
    const isCode: boolean = wasInside || fence?.block === true;
    const last = spans.at(-1);
    if (last?.isCode === isCode) last.lines.push(line);
    else spans.push({ isCode, lines: [line] });
  }
  return spans.map(({ isCode, lines }) => ({ isCode, text: lines.join('\n') }));
}

/** Breaks Slack's own markup in code. All other code stays unchanged, because people copy it. */
function inertCode(code: string): string {
  return code.replaceAll(TOKEN, `<${WORD_JOINER}`);
}

/** Writes out the URL of links whose label is an address of another host. Removes link titles. */
function unmaskLinks(paragraph: string): string {
  return paragraph.replaceAll(LINK, (_link, label: string, quoted: string | undefined, plain: string | undefined) => {
    const url = (quoted ?? plain ?? '').trim();
    return isMasked(label, url) ? `${label} (${url})` : `[${label}](${url})`;
  });
}

function rewriteProse(text: string, { code, words, paragraph: rewriteParagraph }: Rewriting): string {
  let result = '';
  for (const piece of text.split(/(\n[^\S\n]*\n)/)) {
    const paragraph = rewriteParagraph?.(piece) ?? piece;
    let from = 0;
    for (const { at, end } of paragraph.includes('`') ? codeSpans(paragraph) : []) {
      const span = paragraph.slice(at, end);
      result += words(paragraph.slice(from, at)) + (code?.(span) ?? span);
      from = end;
    }
    result += words(paragraph.slice(from));
  }
  return result;
}

function inertWords(words: string): string {
  return withoutBroadcasts(words.replaceAll(AUTOLINK, '$1').replaceAll('<', '&lt;'));
}

function isMasked(label: string, url: string): boolean {
  const [, labelHost] = ADDRESS.exec(label.replaceAll(/[*_~`[\]\\\u200B-\u200D\u2060\uFEFF]/g, '').trim()) ?? [];
  return labelHost !== undefined && withoutWww(labelHost) !== withoutWww(hostOf(url));
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).hostname : url;
}

function withoutWww(host: string): string {
  return host.toLowerCase().replace(/^www\./, '');
}

/** Escapes text so that Slack reads no `<…>` in it as a mention, a channel or a labelled link. */
export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/**
 * Breaks @channel, @here, @everyone and @group with an invisible character, so that they notify nobody. URLs stay
 * whole.
 */
function withoutBroadcasts(text: string): string {
  return text.replaceAll(URL_OR_BROADCAST, (_found, url: string | undefined) => url ?? `@${WORD_JOINER}`);
}

const BROADCAST = /(?<![\p{L}\p{N}])@(?=(?:channel|here|everyone|group)(?![\p{L}\p{N}_]))/giu;
const URL_OR_BROADCAST = new RegExp(`(https?:\\/\\/[^\\s<>()[\\]|@]+[^\\s<>()[\\]|]*)|${BROADCAST.source}`, 'giu');

/**
 * Returns the text, or its start and "…", in at most `limit` UTF-16 units. Cuts no surrogate pair in two, and no entity
 * such as `&lt;`.
 */
export function clip(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const head = text.slice(0, limit - 1).replace(/&[a-z]{0,3}$/, '');
  return `${/[\uD800-\uDBFF]$/.test(head) ? head.slice(0, -1) : head}…`;
}

/** The word joiner: invisible, and no line break can follow it. */
const WORD_JOINER = '\u2060';

type Identity = { readonly username: string; readonly icon_emoji?: string; readonly icon_url?: string };

/**
 * Returns an agent's name and picture for Slack. An emoji whose Slack name Conch does not know goes before the agent's
 * name.
 */
export function identityOf(speaker: NonNullable<Speaker>): Identity {
  const username = shownName(speaker);
  const avatar = speaker.avatar?.trim() ?? '';
  if (/^https:\/\/\S+$/.test(avatar)) return { username, icon_url: avatar };
  if (/^:[\w+-]{1,100}:$/.test(avatar)) return { username, icon_emoji: avatar };
  const emoji = emojiName(avatar);
  if (emoji !== null) return { username, icon_emoji: `:${emoji}:` };
  const isPicture = avatar !== '' && /^\P{ASCII}{1,16}$/u.test(avatar);
  return { username: isPicture ? clip(`${avatar} ${username}`, MOST_LETTERS) : username };
}

function shownName({ id, name }: { readonly id: AgentId; readonly name: string }): string {
  const plain = name.replaceAll(/[<>\p{Cc}]/gu, '').trim();
  // An @ in a URL gets the invisible character, too, unlike in texts: nobody copies a URL out of a name.
  return clip((plain === '' ? id : plain).replaceAll(BROADCAST, `@${WORD_JOINER}`), MOST_LETTERS);
}

/** Returns an agent's text with the name in front, for apps that may not post under other names. */
export function withPrefix(speaker: NonNullable<Speaker>, text: string): string {
  const name = shownName(speaker).replaceAll(/([*_~`\\[\]])/g, '\\$1');
  const isBlock = /^(?:\s{0,3}(?:[#>|+-]|\* |\d+[.)]|`{3}|~{3})| {4})/.test(text);
  return `**${name}**:${isBlock ? '\n\n' : ' '}${text}`;
}

/** Slack's limit for the name of a sender, in UTF-16 units. */
const MOST_LETTERS = 80;

/** Returns Slack's name of an emoji; `null` for an emoji that Conch does not know. */
export function emojiName(emoji: string): string | null {
  return NAMES.get(uncoloured(emoji)) ?? null;
}

const LIST = `
🤖 robot_face 🧭 compass 🛠 hammer_and_wrench 🔎 mag_right 🔍 mag 🧪 test_tube 🐛 bug 🚀 rocket 📝 memo 📚 books 💡 bulb
🎨 art 🔧 wrench 🔨 hammer ⚙ gear 🧠 brain 👀 eyes 🦊 fox_face 🐙 octopus 🐳 whale 🦉 owl 🐝 bee 🐢 turtle 🦀 crab
🐍 snake 🐧 penguin 🐱 cat 🐶 dog 🦁 lion_face 🐼 panda_face 🐻 bear 🦄 unicorn_face 🐸 frog 🐚 shell 👷 construction_worker
🕵 sleuth_or_spy 🧙 mage 🥷 ninja 👩‍💻 female-technologist 👨‍💻 male-technologist 🧑‍💻 technologist 👩‍🔬 female-scientist
👨‍🔬 male-scientist 🧑‍🔬 scientist 🧑‍🎨 artist 🧑‍🏫 teacher 🧑‍⚖ judge 🧑‍🔧 mechanic 🧑‍✈ pilot 🧑‍🚀 astronaut 📊 bar_chart
📈 chart_with_upwards_trend 📋 clipboard 📌 pushpin 🔒 lock 🔐 closed_lock_with_key 🛡 shield ⚡ zap 🔥 fire ⭐ star 🌟 star2
✨ sparkles 🎯 dart 🏗 building_construction 📦 package 👻 ghost 👽 alien 🤓 nerd_face 🧐 face_with_monocle 😎 sunglasses
🎤 microphone 💬 speech_balloon ✅ white_check_mark ⏹ black_square_for_stop ✏ pencil2 🧹 broom 🧰 toolbox 🔬 microscope 🔭 telescope 🌍 earth_africa
🌱 seedling 🌈 rainbow 🍀 four_leaf_clover 👑 crown 🎩 tophat 📣 mega 🗂 card_index_dividers 💻 computer 🖥 desktop_computer
📐 triangular_ruler 🧩 jigsaw ♟ chess_pawn 🎲 game_die 🪄 magic_wand 🟢 large_green_circle 🔵 large_blue_circle
🔴 red_circle 🟡 large_yellow_circle 🟣 large_purple_circle 🟠 large_orange_circle ↪ arrow_right_hook 👁 eye ⚠ warning`;

const NAMES = new Map([...LIST.matchAll(/(\S+) (\S+)/g)].map(([, emoji = '', name = '']) => [uncoloured(emoji), name]));

function uncoloured(emoji: string): string {
  return emoji.trim().replaceAll('\uFE0F', '');
}
