import { signal } from '@preact/signals';
import { memo } from 'preact/compat';
import { useState } from 'preact/hooks';
import type { ComponentChild, JSX } from 'preact';
import { Button } from '../parts.tsx';
import type { highlighted } from './highlight.ts';

/** Colours code. `null` until it is loaded, with the first complete block that names a language. */
const highlighter = signal<typeof highlighted | null>(null);
let isRequested = false;

const LABEL_MS = 2_000;

/** A scrollable block of code with its language, colours and a copy button. */
export const CodeBlock = memo(function CodeBlock(props: {
  readonly code: string;
  readonly language: string;
  /** True when the block is complete. A block that is still being written is not coloured. */
  readonly closed: boolean;
}): JSX.Element {
  const [language = ''] = props.language.split(/\s/, 1);
  return (
    <div class="code-block">
      <div class="code-head">
        <span>{language}</span>
        <Copy code={props.code} />
      </div>
      <pre ref={focusableIfCut}>
        <code>{props.closed ? coloured(props.code, language) : props.code}</code>
      </pre>
    </div>
  );
});

function coloured(code: string, language: string): ComponentChild {
  if (language === '') return code;
  if (!isRequested) {
    isRequested = true;
    void import('./highlight.ts').then((module) => (highlighter.value = module.highlighted));
  }
  const spans = highlighter.value?.(code, language) ?? null;
  if (spans === null) return code;
  return spans.map(({ kind, text }, place) =>
    kind === null ? (
      text
    ) : (
      <span key={place} class={`is-${kind}`}>
        {text}
      </span>
    ),
  );
}

function Copy(props: { readonly code: string }): JSX.Element {
  const [label, setLabel] = useState<'Copy' | 'Copied' | 'Not copied'>('Copy');
  const copy = async (): Promise<void> => {
    const result = await navigator.clipboard.writeText(props.code).then(
      () => 'Copied' as const,
      () => 'Not copied' as const,
    );
    setLabel(result);
    setTimeout(() => setLabel('Copy'), LABEL_MS);
  };
  return (
    <Button icon="copy" kind="quiet copy" aria-label="Copy the code" onClick={() => void copy()}>
      <span aria-live="polite">{label}</span>
    </Button>
  );
}

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const { scrollWidth, clientWidth, scrollHeight, clientHeight } = target;
    if (scrollWidth > clientWidth + 1 || scrollHeight > clientHeight + 1) target.setAttribute('tabindex', '0');
    else target.removeAttribute('tabindex');
  }
});

/** For `ref`: makes an element focusable while its content is cut, so that it can be scrolled by keyboard. */
export function focusableIfCut(element: HTMLElement | null): (() => void) | void {
  if (element === null) return;
  sizes.observe(element);
  return () => sizes.unobserve(element);
}
