import type { JSX } from 'preact';
import { Icon } from '../icons.tsx';
import { dismiss } from '../sending.ts';
import type { Spoken } from '../sending.ts';

/** The answer to a typed command, where it was typed; nobody else sees it. */
export function CommandAnswer({ answer }: { readonly answer: Spoken }): JSX.Element {
  return (
    <li class={`answer is-${answer.kind}`} data-testid="answer" data-ok={answer.kind === 'answer'}>
      <div class="answer-head">
        <code>{answer.line}</code>
        <span class="faint">only you see this</span>
        <button type="button" class="quiet square small" aria-label="Dismiss" onClick={() => dismiss(answer.key)}>
          <Icon name="close" />
        </button>
      </div>
      <pre class="answer-text" role="status">
        {answer.text}
      </pre>
    </li>
  );
}
