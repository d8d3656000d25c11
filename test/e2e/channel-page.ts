import type { Shown } from '../adapters/discord/server-view.ts';
import type { Seen } from '../adapters/slack/server-people.ts';
import { objects, unescaped, words } from '../adapters/slack/state-text.ts';
import type { Json } from '../adapters/slack/state.ts';

/** A message as the page draws it. `html`: its text. `marks`: small texts below. `style`: the class of a button. */
type Drawn = Pick<Shown, 'author' | 'at' | 'reactions'> & {
  readonly isApp: boolean;
  /** True: the page shows its author and time, although the message before has the same author. */
  readonly isApart: boolean;
  readonly avatar: string;
  readonly html: string;
  readonly buttons: readonly { readonly label: string; readonly style: string }[];
  readonly files: readonly string[];
  readonly marks: readonly string[];
};

/** Returns an HTML page that shows a channel of the loopback Discord in dark colours. */
export function channelPage(guild: string, channel: string, messages: readonly Shown[]): string {
  return page({ title: `#${channel}`, place: guild, look: 'discord' }, messages.map(onDiscord));
}

/** Returns an HTML page that shows a channel of the loopback Slack. `names`: of people and channels, by id. */
export function slackPage(title: string, messages: readonly Seen[], names: Names): string {
  return page(
    { title, place: 'Lagoon', look: 'slack' },
    messages.map((message) => onSlack(message, names)),
  );
}

type Names = Readonly<Record<string, string>>;

function page({ title, place, look }: Readonly<Record<string, string>>, messages: readonly Drawn[]): string {
  const rows = messages.map((message, index) => row(message, continues(messages[index - 1], message)));
  const shown = escaped(title ?? '');
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${shown}</title><style>${STYLE}</style>
<body class="${look}"><nav><h1>${escaped(place ?? '')}</h1><p>Text channels</p><b>${shown}</b></nav>
<main><header>${shown}</header><section>${rows.join('')}</section>
<footer>Message ${shown}</footer></main></body></html>`;
}

const ORDINARY = 0;
const GROUP_MS = 420_000;
const COLOURS = ['#5865f2', '#23a55a', '#f0b232', '#eb459e', '#e67e22', '#1abc9c', '#9b59b6'];
const DISCORD_STYLES = ['', 'primary', 'plain', 'good', 'danger'];

/** Returns whether the page omits author and time, because the message before has the same author. */
function continues(before: Drawn | undefined, message: Drawn): boolean {
  return before?.author === message.author && !message.isApart && message.at - before.at < GROUP_MS;
}

function row(message: Drawn, isSame: boolean): string {
  const { author, isApp, at, html, buttons, reactions, files, marks } = message;
  const time = new Date(at).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
  const head = `<h2 style="color:${isApp ? 'var(--strong)' : colourOf(author)}">${escaped(author)}${isApp ? '<i>APP</i>' : ''}<time>Today at ${time}</time></h2>`;
  const pills = Object.entries(reactions).map(([emoji, users]) => `<span>${emoji} <em>${users.length}</em></span>`);
  const keys = buttons.map(({ label, style }) => `<button class="${style}">${escaped(label)}</button>`);
  return `<article class="${isSame ? 'same' : 'first'}">${isSame ? '' : avatarOf(message)}<div>${isSame ? '' : head}
<div class="text">${html}${marks.map((mark) => `<small>${mark}</small>`).join('')}</div>
${files.map((file) => `<p class="file">📄 ${escaped(file)}</p>`).join('')}
${keys.length === 0 ? '' : `<p class="buttons">${keys.join('')}</p>`}
${pills.length === 0 ? '' : `<p class="reactions">${pills.join('')}</p>`}</div></article>`;
}

function onDiscord(message: Shown): Drawn {
  const { author, at, reactions, bot, text, edited, buttons, attachments, replyTo, type } = message;
  const styles = buttonStyles(message.components);
  return {
    author,
    at,
    reactions,
    isApp: bot,
    avatar: signOf(author),
    isApart: replyTo !== null || type !== ORDINARY,
    html: markdown(text),
    buttons: buttons.map(({ label }, index) => ({ label, style: DISCORD_STYLES[styles[index] ?? 2] ?? '' })),
    files: attachments.map(({ name, size }) => `${name} · ${size} bytes`),
    marks: edited && buttons.length === 0 && !text.endsWith('▌') ? ['(edited)'] : [],
  };
}

function onSlack({ author, ts, own, icon, plain, blocks, reactions, files, ...message }: Seen, names: Names): Drawn {
  const others = blocks.filter(({ type }) => type !== 'actions');
  const elements = blocks.flatMap(({ type, elements: all }) => (type === 'actions' ? objects(all) : []));
  return {
    author,
    at: Number(ts) * 1_000,
    reactions,
    isApp: own,
    avatar: icon ?? signOf(author),
    isApart: false,
    html: blocks.length === 0 ? mrkdwn(plain, names) : others.map((each) => blockHtml(each, names)).join(''),
    buttons: elements.map((each) => ({
      label: `${textIn(each['text'] ?? each['placeholder'])}${each['type'] === 'button' ? '' : ' ▾'}${each['confirm'] === undefined ? '' : ' …'}`,
      style: words(each['style']),
    })),
    files: files.map(({ name, content }) => `${name} · ${content.length} bytes`),
    marks: [
      ...(message.edited && elements.length === 0 ? ['(edited)'] : []),
      ...(message.thread === null && message.replies > 0 ? [`<br>💬 ${message.replies} replies`] : []),
    ],
  };
}

/** Draws a block of Slack that has no buttons. Shows a block of an unknown type as JSON. */
function blockHtml(block: Json, names: Names): string {
  const { type, text, elements } = block;
  if (type === 'divider') return '<hr>';
  if (type === 'markdown') return markdown(unescaped(words(text)));
  if (type === 'header') return `<p><strong>${escaped(textIn(text))}</strong></p>`;
  if (type === 'context')
    return `<p class="context">${objects(elements)
      .map((each) => mrkdwn(textIn(each), names))
      .join(' ')}</p>`;
  return `<div>${type === 'section' ? mrkdwn(textIn(text), names) : escaped(JSON.stringify(block))}</div>`;
}

function textIn(text: unknown): string {
  return typeof text === 'object' && text !== null && 'text' in text ? words(text.text) : '';
}

/** Converts Slack's markup to HTML. A mention of an unknown id shows the id. */
function mrkdwn(text: string, names: Names): string {
  return text
    .split(/```([\s\S]*?)```/)
    .map((part, index) => (index % 2 === 1 ? `<pre>${part.trim()}</pre>` : prose(part.trim(), names)))
    .join('');
}

function prose(text: string, names: Names): string {
  return text
    .replaceAll(/<([@#])(\w+)(?:\|[^>]*)?>/g, (_all, sign, id: string) => `<mark>${sign}${names[id] ?? id}</mark>`)
    .replaceAll(/<(https?:[^|>]+)(?:\|([^>]*))?>/g, (_all, url: string, label = url) => `<u>${label}</u>`)
    .replaceAll(/`([^`\n]+)`/g, '<code>$1</code>')
    .replaceAll(/(?<![\w*])\*([^*\n]+)\*(?![\w*])/g, '<strong>$1</strong>')
    .replaceAll(/(?<![\w_])_([^_\n]+)_(?![\w_])/g, '<em>$1</em>')
    .replaceAll('\n', '<br>');
}

/** Returns the style numbers of a message's buttons, row by row, as Discord defines them. */
function buttonStyles(components: readonly unknown[]): readonly number[] {
  return components.flatMap((one) => {
    if (typeof one !== 'object' || one === null) return [];
    if ('components' in one && Array.isArray(one.components)) return buttonStyles(one.components);
    return 'style' in one && typeof one.style === 'number' ? [one.style] : [];
  });
}

function avatarOf({ author, avatar }: Drawn): string {
  return `<span class="avatar" style="background:${colourOf(author)}">${escaped(avatar)}</span>`;
}

/** Returns the first character of a name, as a capital: an agent's emoji, or a letter. */
function signOf(author: string): string {
  const [first = ''] = new Intl.Segmenter('en').segment(author);
  return (typeof first === 'string' ? first : first.segment).toUpperCase();
}

function colourOf(name: string): string {
  const sum = Buffer.from(name).reduce((all, byte) => (all * 33 + byte) % 9_973, 7);
  return COLOURS[sum % COLOURS.length] ?? '';
}

function markdown(text: string): string {
  const parts = text.split(/```(?:\w*\n)?([\s\S]*?)(?:```|$)/);
  return parts
    .map((part, index) => (index % 2 === 1 ? `<pre>${escaped(part.trimEnd())}</pre>` : inline(part.trim())))
    .join('');
}

function inline(text: string): string {
  return escaped(text)
    .replaceAll(/`([^`\n]+)`/g, '<code>$1</code>')
    .replaceAll(/\*\*([^*\n]+)\*\*/g, '<strong>$1</strong>')
    .replaceAll(/&lt;t:(\d+):R&gt;/g, (_whole, seconds: string) => `<mark>${timeFrom(Number(seconds))}</mark>`)
    .replaceAll(/^- /gm, '•&nbsp; ')
    .replaceAll('\n', '<br>');
}

function timeFrom(seconds: number): string {
  const left = Math.round(seconds - Date.now() / 1_000);
  const [count, unit] = Math.abs(left) < 60 ? [left, 'second'] : [Math.round(left / 60), 'minute'];
  return new Intl.RelativeTimeFormat('en').format(count, unit === 'second' ? 'second' : 'minute');
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

const STYLE = `
* { box-sizing: border-box; margin: 0 }
body { --strong: #f2f3f5; display: flex; height: 100vh; background: #313338; color: #dbdee1; font: 16px/1.375 "gg sans", "DejaVu Sans", sans-serif }
nav { width: 200px; background: #2b2d31; padding: 0 8px }
nav h1 { font-size: 16px; line-height: 48px; padding: 0 8px; color: #f2f3f5; border-bottom: 1px solid #1f2023; margin: 0 -8px 16px; padding-left: 16px }
nav p { font-size: 12px; text-transform: uppercase; color: #949ba4; padding: 0 8px 6px }
nav b { display: block; background: #404249; border-radius: 4px; padding: 6px 8px; font-weight: 500; color: #f2f3f5 }
main { flex: 1; display: flex; flex-direction: column; min-width: 0 }
header { height: 48px; line-height: 48px; padding: 0 16px; font-weight: 600; color: #f2f3f5; border-bottom: 1px solid #26272b }
section { flex: 1; display: flex; flex-direction: column; justify-content: flex-end; overflow: hidden; padding-bottom: 16px }
footer { margin: 0 16px 20px; padding: 10px 16px; border-radius: 8px; background: #383a40; color: #6d6f78 }
article { display: flex; padding: 2px 48px 2px 72px; position: relative; flex: none }
article.first { margin-top: 15px }
article > div { min-width: 0; flex: 1 }
.avatar { position: absolute; left: 16px; top: 4px; width: 40px; height: 40px; border-radius: 50%; color: #fff; font-size: 19px; line-height: 40px; text-align: center }
h2 { font-size: 16px; font-weight: 500; line-height: 22px }
h2 i { font-style: normal; font-size: 10px; background: #5865f2; color: #fff; border-radius: 3px; padding: 1px 5px; margin-left: 6px; vertical-align: 2px }
time { font-size: 12px; font-weight: 400; color: #949ba4; margin-left: 8px }
small { font-size: 10px; color: #949ba4; margin-left: 4px }
strong { color: var(--strong) }
code, pre { font: 14px/18px "DejaVu Sans Mono", monospace; background: #2b2d31; border-radius: 4px }
code { padding: 1px 4px } pre { padding: 8px; margin: 6px 0; border: 1px solid #1e1f22; white-space: pre-wrap }
mark { background: #3f4147; color: inherit; border-radius: 3px; padding: 0 2px }
.buttons { display: flex; gap: 8px; margin-top: 8px }
button { font: 500 14px/16px inherit; font-family: inherit; border: 0; border-radius: 3px; padding: 8px 16px; color: #fff; background: #4e5058 }
button.good { background: #248046 } button.danger { background: #da373c } button.primary { background: #5865f2 }
.reactions { display: flex; gap: 4px; margin-top: 5px }
.reactions span { background: #2b2d31; border-radius: 8px; padding: 2px 7px; font-size: 15px }
.reactions em { font-style: normal; font-size: 13px; color: #b5bac1; margin-left: 3px }
.file { background: #2b2d31; border: 1px solid #1e1f22; border-radius: 8px; padding: 10px; margin-top: 4px; width: fit-content }
.slack { height: auto; min-height: 100vh; background: #fff; font-size: 15px; font-family: Lato, "DejaVu Sans", sans-serif; --strong: #1d1c1d }
.slack, .slack header, .slack strong { color: #1d1c1d }
.slack nav, .slack nav b { background: #4a154b; color: #fff }
.slack code, .slack pre, .slack .file, .slack footer, .slack .reactions span { background: #f6f6f6; border-color: #ddd }
.slack mark { background: #e8f0fa; color: #1264a3 }
.slack .context { font-size: 13px; color: #616061 }
.slack .buttons { flex-wrap: wrap }
.slack button { background: #fff; border: 1px solid #bbb; color: #1d1c1d }
.slack button.primary { background: #007a5a; color: #fff } .slack button.danger { background: #e01e5a; color: #fff }
.slack hr { border: 0; border-top: 1px solid #ddd; margin: 8px 0 }
`;
