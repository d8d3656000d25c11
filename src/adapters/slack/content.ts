import { z } from 'zod';
import { COMMAND_WORDS } from '../../turns/commands/command-table.ts';
import { codeSpans, fenceAfter } from '../../turns/text/split.ts';
import type { Fence } from '../../turns/text/split.ts';
import type { AgentId } from '../../turns/floor/settings.ts';
import { ruleLabel } from '../delivery/card.ts';
import type { CardButton } from '../delivery/card.ts';
import type { Content } from '../delivery/message-client.ts';
import { parsedJson } from '../delivery/inbound.ts';
import type { Speaker } from '../port.ts';

/** The words of a message as Slack takes them; nothing in them mentions anybody. */
export type Wording = {
  readonly text: string;
  readonly blocks?: readonly object[];
  readonly username?: string;
};

/** Whether agents may speak under their own names, and whether there are to be blocks. */
type WordingOptions = {
  readonly isCustomized: boolean;
  readonly hasBlocks: boolean;
  /** Slack takes no commands with a slash in threads. */
  readonly isThread: boolean;
};

/** A message as `chat.postMessage` and `chat.update` take it. */
export function wordingOf(content: Content, { isCustomized, hasBlocks, isThread }: WordingOptions): Wording {
  const { kind, speaker } = content;
  const said = kind === 'draft' ? newest(content.text) : content.text;
  const named = speaker === null ? inSlackWords(said, isThread) : isCustomized ? said : prefixed(speaker, said);
  const blocks = hasBlocks ? blocksOf(content, named) : [];
  return {
    text: clipped(inertText(named), blocks.length === 0 ? TEXT_LIMIT : NOTICE_LIMIT),
    ...(blocks.length === 0 && hasBlocks ? {} : { blocks }),
    ...(speaker === null || !isCustomized ? {} : identityOf(speaker)),
  };
}

/** Conch's own words with its commands as Slack takes them: "/conch floor resume", and "!floor resume" in threads. */
export function inSlackWords(text: string, isThread: boolean): string {
  return stretches(text)
    .map((stretch) =>
      stretch.isCode ? stretch.text : stretch.text.replaceAll(COMMANDS, isThread ? '!$1' : '/conch $1'),
    )
    .join('\n');
}

const COMMANDS = new RegExp(`(?<![\\w/.:~-])/(${COMMAND_WORDS.join('|')})(?![\\w/.-]*/|[\\w-])`, 'g');

/** The `action_id` of the button that opens the settings. */
export const SETTINGS_ACTION = 'conch:settings';

/** What a button stands for: a command line, and the word that says what it was drawn for. */
export type ButtonValue = {
  readonly line: string;
  readonly drawnFor: string;
  readonly opens?: 'reason' | 'form' | 'rule' | undefined;
};

/** A button's value, as Slack carries it. */
export function buttonValue({ line, drawnFor, opens }: Pick<CardButton, 'line' | 'drawnFor' | 'opens'>): string {
  const isForm = opens?.what === 'reason' || opens?.what === 'form';
  return JSON.stringify({ line, drawnFor, ...(isForm ? { opens: opens.what } : {}) });
}

/** Reads a button's value back; `null` when it is not one of ours. */
export function readButtonValue(text: string): ButtonValue | null {
  return parsedJson(text, valueSchema);
}

const valueSchema = z.object({
  line: z.string().startsWith('/').max(500),
  // Those of earlier versions carry none: they are over.
  drawnFor: z.string().max(100).default(''),
  opens: z.enum(['reason', 'form', 'rule']).optional(),
});

/** The time that is left, in words that stay true until the card is written anew. */
export function roughlyLeft(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 1) return 'less than a minute left';
  if (minutes < 60) return `about ${minutes} min left`;
  return `about ${Math.round(minutes / 60)} h left`;
}

/** Slack shows long notifications badly from here on, and cuts texts without blocks there. */
const NOTICE_LIMIT = 4_000;
const TEXT_LIMIT = 39_000;
const BLOCK_LIMIT = 12_000;
const SECTION_LIMIT = 2_900;
/** What is shown of a long draft: its end. */
const DRAFT_LIMIT = 3_500;

/** None when the text is too long for one. */
function blocksOf({ kind, buttons }: Content, named: string): readonly object[] {
  if (kind === 'card') {
    const shown = inertText(named).slice(0, SECTION_LIMIT);
    return [
      { type: 'section', text: { type: 'mrkdwn', text: shown, verbatim: true } },
      { type: 'actions', elements: [...buttons.flatMap(buttonElement), SETTINGS_BUTTON] },
    ];
  }
  const markdown = inertMarkdown(named);
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

/** What is asked stands whole in the channel, so no button shows it; a rule is chosen in a menu, and confirmed in a form that has it whole. */
function buttonElement(button: CardButton, index: number): readonly object[] {
  const { opens, label, drawnFor } = button;
  if (opens?.what === 'input') return [];
  if (opens?.what === 'rules') return [rulesMenu(label, opens.of, { drawnFor, index })];
  return [plainButton(button, index)];
}

function rulesMenu(
  label: string,
  rules: readonly { readonly words: string; readonly line: string }[],
  { drawnFor, index }: { readonly drawnFor: string; readonly index: number },
): object {
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
const OPTION_LENGTH = 75;

/** Text as Slack's Block Kit has it where nothing in it is read. */
export function textObject(text: string): object {
  return { type: 'plain_text', text };
}

function plainButton(button: CardButton, index: number): object {
  return {
    type: 'button',
    action_id: `conch:${index}`,
    text: { type: 'plain_text', text: button.label, emoji: true },
    value: buttonValue(button),
    ...STYLES[button.style],
  };
}

/** The end of a text, from the beginning of a line if one is near. */
function newest(text: string): string {
  if (text.length <= DRAFT_LIMIT) return text;
  const end = text.slice(-DRAFT_LIMIT).replace(/^[\uDC00-\uDFFF]/, '');
  const line = end.indexOf('\n');
  return `…\n${line !== -1 && line < DRAFT_LIMIT / 2 ? end.slice(line + 1) : end}`;
}

/**
 * An agent's Markdown as Slack's markdown block may hold it: it reads the same, but no mention can form in it, in code
 * neither, and no link says that it leads to another host than it does. Slack reads its own `<…>` in such a block; it shows
 * `&lt;` as "<" and never reads it again, so that is enough outside code. Code stays as it is, but for what would be a mention.
 */
export function inertMarkdown(text: string): string {
  return rewritten(text, { code: inertCode, words: inertWords, paragraph: openly });
}

/** The same text outside of such a block: nothing in it is read but Slack's own `<…>`. */
function inertText(text: string): string {
  return escaped(rewritten(text, { code: same, words: withoutBroadcasts, paragraph: same }));
}

type Rewriting = {
  /** Of code, in blocks and within a line, with what opens and closes it. */
  readonly code: (text: string) => string;
  /** Of what stands between. */
  readonly words: (text: string) => string;
  /** Of each paragraph before its code is looked for. */
  readonly paragraph: (text: string) => string;
};

function same(text: string): string {
  return text;
}

function rewritten(text: string, how: Rewriting): string {
  const prose = (words: string): string =>
    words
      .split(/(\n[^\S\n]*\n)/)
      .map((paragraph) => rewrittenParagraph(how.paragraph(paragraph), how))
      .join('');
  if (!MAY_HOLD_CODE.test(text)) return prose(text);
  return stretches(text)
    .map((stretch) => (stretch.isCode ? how.code(stretch.text) : prose(stretch.text)))
    .join('\n');
}

const MAY_HOLD_CODE = /```|~~~/;

type Stretch = { readonly isCode: boolean; readonly text: string };

/** What Slack could take for a mention, a channel, a date or a link with a text of its own. */
const TOKEN = /<(?=@[UW]|#[A-Z\d]|!(?!doctype|--|\[)|(?:https?|mailto|tel|slack):[^>\n]{0,2000}\|)/gi;
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

/** Code is copied: nothing comes into it but into what Slack would read as a mention even there. */
function inertCode(code: string): string {
  return code.replaceAll(TOKEN, `<${JOINER}`);
}

/** Links whose text is another address than theirs show both. */
function openly(paragraph: string): string {
  return paragraph.replaceAll(LINK, (_link, label: string, quoted: string | undefined, plain: string | undefined) => {
    const url = (quoted ?? plain ?? '').trim();
    return isMasked(label, url) ? `${label} (${url})` : `[${label}](${url})`;
  });
}

function rewrittenParagraph(paragraph: string, { code, words }: Rewriting): string {
  if (!paragraph.includes('`')) return words(paragraph);
  let shown = '';
  let from = 0;
  for (const { at, end } of codeSpans(paragraph)) {
    shown += words(paragraph.slice(from, at)) + code(paragraph.slice(at, end));
    from = end;
  }
  return shown + words(paragraph.slice(from));
}

function inertWords(words: string): string {
  return withoutBroadcasts(words.replaceAll(AUTOLINK, '$1').replaceAll('<', '&lt;'));
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

/** Text that Slack shows as it stands: no `<!channel>`, `<!here>`, `<!subteam^…>`, `<@U…>` or link can form in it. */
export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** Words that address everybody, parted by a character that nobody sees, so that they address nobody; addresses, of pages and of mail, stay whole. */
function withoutBroadcasts(text: string): string {
  return text.replaceAll(URL_OR_BROADCAST, (_found, url: string | undefined) => url ?? `@${JOINER}`);
}

const BROADCAST = /(?<![\p{L}\p{N}])@(?=(?:channel|here|everyone|group)(?![\p{L}\p{N}_]))/giu;
const URL_OR_BROADCAST = new RegExp(`(https?:\\/\\/[^\\s<>()[\\]|@]+[^\\s<>()[\\]|]*)|${BROADCAST.source}`, 'giu');

/** The beginning of a text, at most so long; neither a character nor an entity is cut in two. */
export function clipped(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const whole = text.slice(0, limit - 1).replace(/&[a-z]{0,3}$/, '');
  return `${/[\uD800-\uDBFF]$/.test(whole) ? whole.slice(0, -1) : whole}…`;
}

/** Neither seen nor a place to break a line. */
const JOINER = '\u2060';

/** How a message, a status or a session names its author. */
type Identity = {
  readonly username: string;
  readonly icon_emoji?: string;
  readonly icon_url?: string;
};

/** The name and the picture under which an agent speaks. An emoji for which Slack has no name goes before the name. */
export function identityOf(speaker: NonNullable<Speaker>): Identity {
  const username = shownName(speaker);
  const avatar = speaker.avatar?.trim() ?? '';
  if (/^https:\/\/\S+$/.test(avatar)) return { username, icon_url: avatar };
  if (/^:[\w+-]{1,100}:$/.test(avatar)) return { username, icon_emoji: avatar };
  const emoji = emojiName(avatar);
  if (emoji !== null) return { username, icon_emoji: `:${emoji}:` };
  const isPicture = avatar !== '' && /^\P{ASCII}{1,16}$/u.test(avatar);
  return { username: isPicture ? `${avatar} ${username}` : username };
}

/** An agent's name as text that mentions nobody and that Slack takes for a name. */
export function shownName({ id, name }: { readonly id: AgentId; readonly name: string }): string {
  const plain = name.replaceAll(/[<>\p{Cc}]/gu, '').trim();
  // Nobody copies an address out of a name.
  return clipped(plain === '' ? id : plain, MOST_LETTERS).replaceAll(BROADCAST, `@${JOINER}`);
}

/** An agent's text as Conch itself says it, for apps that may not speak under other names. */
export function prefixed(speaker: NonNullable<Speaker>, text: string): string {
  const name = shownName(speaker).replaceAll(/([*_~`\\[\]])/g, '\\$1');
  const isBlock = /^(?:\s{0,3}(?:[#>|+-]|\* |\d+[.)]|`{3}|~{3})| {4})/.test(text);
  return `**${name}**:${isBlock ? '\n\n' : ' '}${text}`;
}

/** Slack takes no longer names. */
const MOST_LETTERS = 80;

/** Slack's name for an emoji that is a likely picture of an agent; `null` for one that is not in this list. */
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

/** Without the character that asks for a coloured picture. */
function uncoloured(emoji: string): string {
  return emoji.trim().replaceAll('\uFE0F', '');
}
