import type { JSX } from 'preact';
import { SignButton } from '../parts.tsx';
import { dismiss, toasts } from '../sending.ts';
import type { Spoken } from '../sending.ts';

/** Short words about what was just asked. */
export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ key, kind, text }) => (
        <div key={key} class={`toast is-${kind}`} data-testid="toast" data-kind={kind}>
          <span class="toast-text">{text}</span>
          <SignButton icon="close" label="Dismiss" kind="small" onClick={() => dismiss(key)} />
        </div>
      ))}
    </div>
  );
}

/** The answer to a typed command, where it was typed; nobody else sees it. */
export function CommandAnswer({ answer }: { readonly answer: Spoken }): JSX.Element {
  return (
    <li class={`answer is-${answer.kind}`} data-testid="answer" data-ok={answer.kind === 'answer'}>
      <div class="answer-head">
        <code>{answer.line}</code>
        <span class="faint">only you see this</span>
        <SignButton icon="close" label="Dismiss" kind="small" onClick={() => dismiss(answer.key)} />
      </div>
      <pre class="answer-text" role="status">
        {answer.text}
      </pre>
    </li>
  );
}
