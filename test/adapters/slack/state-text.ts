import type { Json, Message } from './state.ts';

/** The most characters of one block, by kind. For markdown: of all markdown blocks together. */
const LIMITS: Readonly<Record<string, number>> = { markdown: 12_000, section: 3_000, header: 150 };
/** The largest text of all blocks together, in characters (measured: about 13,200). */
const BLOCKS_TOTAL = 13_200;
const BLOCK_KINDS = new Set([
  ...'actions context context_actions divider file header image input markdown rich_text'.split(' '),
  ...'section table video plan task_card alert card carousel container data_table'.split(' '),
]);
const ACTION_ID_LENGTH = 255;
const BUTTON_TEXT_LENGTH = 75;
const BUTTON_VALUE_LENGTH = 2_000;
const OPTION_VALUE_LENGTH = 150;
const LABEL_LENGTH = 2_000;

/** The parts of a message that can notify people. */
export type Wording = {
  readonly text: string;
  readonly blocks: readonly Json[];
  readonly attachments?: readonly Json[];
  /** True for `parse: "full"` or `link_names`: a plain "@channel" also notifies. */
  readonly linkNames?: boolean;
};

/**
 * Returns everyone who would be notified: 'channel', 'here', 'everyone', 'user:U…', 'subteam:S…'. Counts doubtful
 * cases, such as mentions in code or in the fallback text beside blocks.
 */
export function pingsIn(wording: Wording): Set<string> {
  const pings = new Set(mentions(wording.text, wording.linkNames === true));
  for (const part of [...wording.blocks, ...(wording.attachments ?? [])])
    for (const ping of nested(part)) pings.add(ping);
  return pings;
}

/** Returns Slack's error for these blocks; `null`: they are valid. */
export function blocksProblem(blocks: readonly Json[]): string | null {
  if (blocks.length > 50) return 'invalid_blocks';
  for (const block of blocks) {
    if (typeof block !== 'object' || !BLOCK_KINDS.has(String(block['type']))) return 'invalid_blocks';
    if (badBlock(block)) return 'invalid_blocks';
  }
  const markdown = blocks.filter(({ type }) => type === 'markdown');
  if (sum(markdown) > (LIMITS['markdown'] ?? 0)) return 'msg_blocks_too_long';
  return sum(blocks) > BLOCKS_TOTAL ? 'msg_blocks_too_long' : null;
}

/** Returns the visible text: the blocks, or without blocks the text, with Slack's three entities decoded. */
export function rendered(message: Pick<Message, 'text' | 'blocks'>): string {
  const lines = message.blocks.map(blockText).filter((line) => line !== '');
  return unescaped(message.blocks.length > 0 ? lines.join('\n') : message.text);
}

/** Returns blocks as the API shows them. Slack converts a markdown block to rich text. */
export function shownBlocks(blocks: readonly Json[]): Json[] {
  return blocks.map((block, index) => {
    const id = words(block['block_id']) || `b${index}`;
    if (block['type'] !== 'markdown') return { block_id: id, ...block };
    const text = { type: 'text', text: unescaped(String(block['text'])) };
    return { type: 'rich_text', block_id: id, elements: [{ type: 'rich_text_section', elements: [text] }] };
  });
}

/** Returns every button and menu of a message in order, with its block. */
export function actionsIn(blocks: readonly Json[]): { readonly block: Json; readonly element: Json }[] {
  return blocks.flatMap((block) => {
    const elements = block['type'] === 'actions' ? objects(block['elements']) : objects([block['accessory']]);
    return elements.map((element) => ({ block, element }));
  });
}

export function objects(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** Returns a text unchanged; an empty text for other values. */
export function words(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function mentions(text: string, bare: boolean): string[] {
  const found = [
    ...text.matchAll(/<(?:!(channel|here|everyone)|@([UW][A-Z0-9]+)|!subteam\^(S[A-Z0-9]+))(?:\|[^>]*)?>/g),
  ].map(([, all, user, group]) => all ?? (user === undefined ? `subteam:${group}` : `user:${user}`));
  if (!bare) return found;
  return [...found, ...[...text.matchAll(/(?<![\p{L}\p{N}])@(channel|here|everyone)\b/gu)].map(([, all = '']) => all)];
}

/** Slack parses plain mentions in `mrkdwn` without `verbatim: true`, so they count there. */
function nested(part: unknown): string[] {
  if (Array.isArray(part)) return part.flatMap(nested);
  if (!isObject(part)) return [];
  const { type, text } = part;
  if (type === 'plain_text') return [];
  if (type === 'user') return [`user:${String(part['user_id'])}`];
  if (type === 'usergroup') return [`subteam:${String(part['usergroup_id'])}`];
  if (type === 'broadcast') return [String(part['range'])];
  const own =
    typeof text === 'string' && type !== 'text' ? mentions(text, type === 'mrkdwn' && part['verbatim'] !== true) : [];
  const others = ['pretext', 'fallback', 'title', 'value'].flatMap((key) =>
    typeof part[key] === 'string' && type === undefined ? mentions(part[key], false) : [],
  );
  return [...own, ...others, ...Object.values(part).flatMap((one) => (typeof one === 'object' ? nested(one) : []))];
}

function badBlock(block: Json): boolean {
  const limit = LIMITS[String(block['type'])];
  if (limit !== undefined && block['type'] !== 'markdown' && ownText(block['text']).length > limit) return true;
  if (block['type'] === 'markdown') return typeof block['text'] !== 'string' || block['text'] === '';
  if (block['type'] === 'section') return ownText(block['text']) === '' && objects(block['fields']).length === 0;
  if (block['type'] === 'context')
    return objects(block['elements']).length === 0 || objects(block['elements']).length > 10;
  if (block['type'] === 'input') return badInput(block);
  if (block['type'] !== 'actions') return false;
  const elements = objects(block['elements']);
  const ids = elements.map((element) => String(element['action_id']));
  return elements.length === 0 || elements.length > 25 || new Set(ids).size < ids.length || elements.some(badElement);
}

function badElement(element: Json): boolean {
  if (words(element['action_id']).length > ACTION_ID_LENGTH) return true;
  if (element['type'] !== 'button') return false;
  const style = element['style'];
  if (style !== undefined && style !== 'primary' && style !== 'danger') return true;
  const label = ownText(element['text']);
  return label === '' || label.length > BUTTON_TEXT_LENGTH || words(element['value']).length > BUTTON_VALUE_LENGTH;
}

/** The kinds of form fields, each with a check of Slack's limits. */
const FIELDS: Readonly<Record<string, (element: Json) => boolean>> = {
  plain_text_input: ({ max_length: most = 3_000, initial_value: before = '' }) =>
    Number(most) >= 1 && Number(most) <= 3_000 && words(before).length <= Number(most),
  number_input: ({ is_decimal_allowed: decimal, initial_value: before = '0' }) =>
    typeof decimal === 'boolean' && !Number.isNaN(Number(before)),
  static_select: (element) =>
    offers(element, element['initial_option'] === undefined ? [] : [element['initial_option']]),
  multi_static_select: (element) =>
    offers(element, objects(element['initial_options'])) && Number(element['max_selected_items'] ?? 1) >= 1,
};

function badInput(block: Json): boolean {
  const { element } = block;
  const label = ownText(block['label']);
  const hint = block['hint'] === undefined ? 'none' : ownText(block['hint']);
  if (label === '' || hint === '' || Math.max(label.length, hint.length) > LABEL_LENGTH || !isObject(element))
    return true;
  const action = words(element['action_id']);
  return action === '' || action.length > ACTION_ID_LENGTH || FIELDS[String(element['type'])]?.(element) !== true;
}

/** Returns whether a menu is valid: it has short, distinct options, and its initial option is exactly one of them. */
function offers(element: Json, before: readonly unknown[]): boolean {
  const options = objects(element['options']);
  const known = new Set(options.map((option) => JSON.stringify(option)));
  const isGood = (option: Json): boolean => {
    const [text, value] = [ownText(option['text']), words(option['value'])];
    return text !== '' && text.length <= BUTTON_TEXT_LENGTH && value !== '' && value.length <= OPTION_VALUE_LENGTH;
  };
  const isWhole = options.length > 0 && options.length <= 100 && options.every(isGood);
  const isUnique = new Set(options.map(({ value }) => value)).size === options.length;
  return isWhole && isUnique && before.every((option) => known.has(JSON.stringify(option)));
}

function ownText(text: unknown): string {
  if (typeof text === 'string') return text;
  return isObject(text) && typeof text['text'] === 'string' ? text['text'] : '';
}

/** Returns the length of all texts at any depth, in characters. */
function sum(part: unknown): number {
  if (Array.isArray(part)) return part.reduce<number>((total, one) => total + sum(one), 0);
  if (!isObject(part)) return 0;
  return Object.entries(part).reduce(
    (total, [key, value]) => total + (key === 'text' && typeof value === 'string' ? value.length : sum(value)),
    0,
  );
}

function blockText(block: Json): string {
  if (block['type'] === 'actions') return '';
  if (block['type'] === 'divider') return '---';
  const parts = [
    ownText(block['text']),
    ...['fields', 'elements'].flatMap((key) => objects(block[key]).map(elementText)),
  ];
  return parts.filter((part) => part !== '').join('\n');
}

function elementText(element: Json): string {
  const inner = objects(element['elements']);
  if (inner.length > 0) return inner.map(elementText).join('');
  if (element['type'] === 'broadcast') return `@${String(element['range'])}`;
  if (element['type'] === 'user') return `<@${String(element['user_id'])}>`;
  return ownText(element['text']);
}

/** Returns a text of Slack with its three entities decoded. */
export function unescaped(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}
