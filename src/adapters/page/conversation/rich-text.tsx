import { Lexer } from 'marked';
import type { MarkedToken, Token, Tokens } from 'marked';
import { memo } from 'preact/compat';
import type { ComponentChild, JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { toneOf } from '../parts.tsx';
import { CodeBlock, focusableIfCut } from './code-block.tsx';
import { agents } from '../state.ts';

/** A text with more UTF-16 units is shown as typed, because the lexer would take too long. */
const LONGEST = 100_000;
/** A text with quotes or lists at this depth is shown as typed, because the lexer would recurse too deep. */
const DEEPEST = 20;
const TOO_DEEP = new RegExp(
  `^(?:[ \\t]*(?:>|[-*+][ \\t]|\\d{1,9}[.)][ \\t])){${DEEPEST},}|^(?:\\t| {2}){${DEEPEST},}(?:[-*+]|\\d{1,9}[.)])[ \\t]`,
  'm',
);

/**
 * Draws Markdown as on GitHub, with line breaks as typed and mentions of agents. Creates elements, never HTML: tags are
 * shown as typed, images become links, and only web and mail addresses become links.
 */
export function RichText(props: { readonly text: string }): JSX.Element {
  const before = useRef<Lexed>(NOTHING);
  const lexed = lexedFrom(before.current, props.text);
  before.current = lexed;
  return (
    <>
      {lexed.blocks.map((token, place) => (
        <Block key={place} token={token} />
      ))}
    </>
  );
}

/** A text in blocks, and where its last block begins: earlier blocks do not change while the text grows. */
type Lexed = { readonly text: string; readonly blocks: readonly Token[]; readonly sealed: number };

const NOTHING: Lexed = { text: '', blocks: [], sealed: 0 };

function lexedFrom(before: Lexed, text: string): Lexed {
  if (text === before.text) return before;
  const grows = before.sealed > 0 && text.startsWith(before.text.slice(0, before.sealed));
  const sealedBlocks = grows ? before.blocks.slice(0, -1) : [];
  const from = grows ? before.sealed : 0;
  const blocks = [...sealedBlocks, ...lex(text.slice(from))].filter((token) => token.type !== 'space');
  const last = blocks.at(-1);
  const sealed = last === undefined ? 0 : text.lastIndexOf(last.raw);
  return { text, blocks, sealed: blocks.length > 1 ? Math.max(0, sealed) : 0 };
}

function lex(text: string): readonly Token[] {
  try {
    if (text.length <= LONGEST && !TOO_DEEP.test(text)) return Lexer.lex(text, { gfm: true, breaks: true });
  } catch {
    return [asTyped(text)];
  }
  return [asTyped(text)];
}

function asTyped(text: string): Tokens.Paragraph {
  return { type: 'paragraph', raw: text, text, tokens: [{ type: 'escape', raw: text, text }] };
}

const Block = memo(
  function Block({ token }: { readonly token: Token }): JSX.Element {
    return <>{draw(token, 0)}</>;
  },
  (before, after) => before.token.raw === after.token.raw,
);

function drawAll(tokens: readonly Token[] | undefined): ComponentChild[] {
  return (tokens ?? []).map(draw);
}

const ELEMENTS = { strong: 'strong', em: 'em', del: 'del', paragraph: 'p', blockquote: 'blockquote' } as const;

/** Draws a Markdown token. The parameter's type includes tokens of lexer extensions, but the page has no extensions. */
function draw(any: Token, key: number): ComponentChild {
  const token = any as MarkedToken;
  switch (token.type) {
    case 'strong':
    case 'em':
    case 'del':
    case 'paragraph':
    case 'blockquote': {
      const Element = ELEMENTS[token.type];
      return <Element key={key}>{drawAll(token.tokens)}</Element>;
    }
    case 'code':
      return <CodeBlock key={key} code={token.text} language={token.lang ?? ''} closed={isClosed(token)} />;
    case 'heading':
      return (
        <p key={key} class={`heading is-${token.depth}`} role="heading" aria-level={3}>
          {drawAll(token.tokens)}
        </p>
      );
    case 'list':
      return drawList(token, key);
    case 'table':
      return drawTable(token, key);
    case 'hr':
      return <hr key={key} />;
    case 'space':
      return null;
    default:
      return drawInline(token, key);
  }
}

type Inline = Exclude<
  MarkedToken,
  { type: keyof typeof ELEMENTS | 'code' | 'heading' | 'list' | 'table' | 'hr' | 'space' }
>;

function drawInline(token: Inline, key: number): ComponentChild {
  switch (token.type) {
    case 'codespan':
      return <code key={key}>{token.text}</code>;
    case 'br':
      return <br key={key} />;
    case 'link':
    case 'image':
      return drawLink(token, key);
    case 'checkbox':
      return token.checked ? '☑ ' : '☐ ';
    case 'text':
      return token.tokens === undefined ? mentions(token.text) : drawAll(token.tokens);
    case 'escape':
      return token.text;
    case 'list_item':
      return drawAll(token.tokens);
    case 'html':
      return token.block ? <p key={key}>{token.raw.trimEnd()}</p> : token.raw;
    case 'def':
      return <p key={key}>{token.raw.trimEnd()}</p>;
  }
}

function drawLink(token: Tokens.Link | Tokens.Image, key: number): ComponentChild {
  if (!/^(?:https?:\/\/|mailto:)/i.test(token.href)) return token.raw;
  const words = token.type === 'image' ? token.text || token.href : drawAll(token.tokens);
  return (
    <a key={key} href={token.href} title={token.href} target="_blank" rel="noopener noreferrer">
      {words}
    </a>
  );
}

function drawList(list: Tokens.List, key: number): ComponentChild {
  const items = list.items.map((item, place) => (
    <li key={place} class={item.task ? 'task' : undefined}>
      {drawAll(item.tokens)}
    </li>
  ));
  if (!list.ordered) return <ul key={key}>{items}</ul>;
  return (
    <ol key={key} start={list.start === '' ? 1 : list.start}>
      {items}
    </ol>
  );
}

function drawTable(table: Tokens.Table, key: number): ComponentChild {
  const cells = (row: readonly Tokens.TableCell[], Cell: 'th' | 'td'): JSX.Element[] =>
    row.map((cell, place) => (
      <Cell key={place} style={cell.align === null ? undefined : { textAlign: cell.align }}>
        {drawAll(cell.tokens)}
      </Cell>
    ));
  return (
    <div key={key} class="table" role="group" aria-label="Table" ref={focusableIfCut}>
      <table>
        <thead>
          <tr>{cells(table.header, 'th')}</tr>
        </thead>
        <tbody>
          {table.rows.map((row, place) => (
            <tr key={place}>{cells(row, 'td')}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Whether a code block is complete: a fence that is still being written has no end. */
function isClosed({ codeBlockStyle, raw }: Tokens.Code): boolean {
  return codeBlockStyle === 'indented' || /\n[ \t]{0,3}(?:`{3,}|~{3,})[ \t]*\n*$/.test(raw);
}

const MENTION = /(?<![\p{L}\p{N}_@/.-])@[\p{L}\p{N}][\p{L}\p{N}_-]*/gu;

function mentions(text: string): ComponentChild {
  const out: ComponentChild[] = [];
  let end = 0;
  for (const { 0: whole, index } of text.matchAll(MENTION)) {
    const name = whole.slice(1).toLowerCase();
    const agent = agents.value.find((each) => each.id.toLowerCase() === name || each.name.toLowerCase() === name);
    if (agent === undefined) continue;
    const mark = (
      <span key={index} class={`mention ${toneOf(agent.id)}`}>
        {whole}
      </span>
    );
    out.push(text.slice(end, index), mark);
    end = index + whole.length;
  }
  return end === 0 ? text : [...out, text.slice(end)];
}
