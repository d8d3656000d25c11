import type { Shown } from '../adapters/discord/server-view.ts';

/** A channel as a page of its own: what stands in a loopback Discord, drawn in the manner of a dark chat. */
export function channelPage(guild: string, channel: string, messages: readonly Shown[]): string {
  const rows = messages.map((message, index) => row(message, continues(messages[index - 1], message)));
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>#${escaped(channel)}</title><style>${STYLE}</style>
<body><nav><h1>${escaped(guild)}</h1><p>Text channels</p><b># ${escaped(channel)}</b></nav>
<main><header># ${escaped(channel)}</header><section>${rows.join('')}</section>
<footer>Message #${escaped(channel)}</footer></main></body></html>`;
}

const ORDINARY = 0;
const GROUP_MS = 420_000;
const COLOURS = ['#5865f2', '#23a55a', '#f0b232', '#eb459e', '#e67e22', '#1abc9c', '#9b59b6'];

/** Whether a message stands below another one of the same author without a head of its own. */
function continues(before: Shown | undefined, message: Shown): boolean {
  if (before === undefined || message.replyTo !== null || before.type !== ORDINARY) return false;
  return before.author === message.author && before.authorId === message.authorId && message.at - before.at < GROUP_MS;
}

function row(message: Shown, isSame: boolean): string {
  const { author, bot, at, text, edited, buttons, reactions, attachments } = message;
  const time = new Date(at).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
  const head = `<h2 style="color:${bot ? '#f2f3f5' : colourOf(author)}">${escaped(author)}${bot ? '<i>APP</i>' : ''}<time>Today at ${time}</time></h2>`;
  const mark = edited && buttons.length === 0 && !text.endsWith('▌') ? '<small>(edited)</small>' : '';
  const files = attachments.map(({ name, size }) => `<p class="file">📄 ${escaped(name)} · ${size} bytes</p>`);
  const pills = Object.entries(reactions).map(([emoji, users]) => `<span>${emoji} <em>${users.length}</em></span>`);
  const styles = buttonStyles(message.components);
  const keys = buttons.map(({ label }, index) => `<button class="s${styles[index] ?? 2}">${escaped(label)}</button>`);
  return `<article class="${isSame ? 'same' : 'first'}">${isSame ? '' : avatarOf(author)}<div>${isSame ? '' : head}
<div class="text">${markdown(text)}${mark}</div>${files.join('')}
${keys.length === 0 ? '' : `<p class="buttons">${keys.join('')}</p>`}
${pills.length === 0 ? '' : `<p class="reactions">${pills.join('')}</p>`}</div></article>`;
}

/** How the buttons of a message look, row by row, as Discord numbers it. */
function buttonStyles(components: readonly unknown[]): readonly number[] {
  return components.flatMap((one) => {
    if (typeof one !== 'object' || one === null) return [];
    if ('components' in one && Array.isArray(one.components)) return buttonStyles(one.components);
    return 'style' in one && typeof one.style === 'number' ? [one.style] : [];
  });
}

/** The emoji that an agent's name begins with, or the first letter of a name. */
function avatarOf(author: string): string {
  const [first = ''] = new Intl.Segmenter('en').segment(author);
  const sign = typeof first === 'string' ? first : first.segment;
  return `<span class="avatar" style="background:${colourOf(author)}">${escaped(sign.toUpperCase())}</span>`;
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
body { display: flex; height: 100vh; background: #313338; color: #dbdee1; font: 16px/1.375 "gg sans", "DejaVu Sans", sans-serif }
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
strong { color: #f2f3f5 }
code, pre { font: 14px/18px "DejaVu Sans Mono", monospace; background: #2b2d31; border-radius: 4px }
code { padding: 1px 4px } pre { padding: 8px; margin: 6px 0; border: 1px solid #1e1f22; white-space: pre-wrap }
mark { background: #3f4147; color: inherit; border-radius: 3px; padding: 0 2px }
.buttons { display: flex; gap: 8px; margin-top: 8px }
button { font: 500 14px/16px inherit; font-family: inherit; border: 0; border-radius: 3px; padding: 8px 16px; color: #fff; background: #4e5058 }
button.s3 { background: #248046 } button.s4 { background: #da373c } button.s1 { background: #5865f2 }
.reactions { display: flex; gap: 4px; margin-top: 5px }
.reactions span { background: #2b2d31; border-radius: 8px; padding: 2px 7px; font-size: 15px }
.reactions em { font-style: normal; font-size: 13px; color: #b5bac1; margin-left: 3px }
.file { background: #2b2d31; border: 1px solid #1e1f22; border-radius: 8px; padding: 10px; margin-top: 4px; width: fit-content }
`;
