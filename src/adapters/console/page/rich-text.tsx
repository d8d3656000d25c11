import type { ComponentChild, JSX } from 'preact';
import { agents } from './state.ts';
import { toneOf } from './avatar.tsx';

/** A message's text: paragraphs, code, links and mentions. Everything else is shown as it was typed. */
export function RichText(props: { readonly text: string }): JSX.Element {
  return (
    <>
      {props.text.split(FENCE).map((part, place) =>
        place % 2 === 1 ? (
          <pre key={place}>
            <code>{part.replace(/^[\w+#.-]*\n/, '').replace(/\n$/, '')}</code>
          </pre>
        ) : (
          <Words key={place} text={part} />
        ),
      )}
    </>
  );
}

const FENCE = /^```([\s\S]*?)^```[ \t]*$/m;

/** Code in backticks, links, bold, and @mentions; each is found only outside of the others. */
const TOKENS =
  /(`[^`\n]+`)|(https?:\/\/[^\s<>"']*[^\s<>"'.,;:!?)\]])|(\*\*[^*\n]+\*\*)|(@[\p{L}\p{N}][\p{L}\p{N}_-]*)/u;

function Words(props: { readonly text: string }): JSX.Element | null {
  if (props.text.trim() === '') return null;
  return <p>{spans(props.text.replace(/^\n+|\n+$/g, ''))}</p>;
}

function spans(text: string): ComponentChild[] {
  const out: ComponentChild[] = [];
  let rest = text;
  for (let found = TOKENS.exec(rest); found !== null && out.length < 2000; found = TOKENS.exec(rest)) {
    out.push(rest.slice(0, found.index), token(found, out.length));
    rest = rest.slice(found.index + found[0].length);
  }
  return [...out, rest];
}

function token(found: RegExpExecArray, key: number): ComponentChild {
  const [whole, code, link, bold] = found;
  if (code !== undefined) return <code key={key}>{code.slice(1, -1)}</code>;
  if (bold !== undefined) return <strong key={key}>{bold.slice(2, -2)}</strong>;
  if (link !== undefined) {
    return (
      <a key={key} href={link} target="_blank" rel="noopener noreferrer">
        {link}
      </a>
    );
  }
  const name = whole.slice(1).toLowerCase();
  const agent = agents.value.find((one) => one.id.toLowerCase() === name || one.name.toLowerCase() === name);
  if (agent === undefined) return whole;
  return (
    <span key={key} class={`mention ${toneOf(agent.id)}`}>
      {whole}
    </span>
  );
}
