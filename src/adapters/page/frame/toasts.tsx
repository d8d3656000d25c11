import type { JSX } from 'preact';
import { Icon } from '../icons.tsx';
import { dismiss, toasts } from '../sending.ts';

/** Short words about what was just asked. */
export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ key, kind, text }) => (
        <div key={key} class={`toast is-${kind}`} data-testid="toast" data-kind={kind}>
          <span class="toast-text">{text}</span>
          <button type="button" class="quiet square small" aria-label="Dismiss" onClick={() => dismiss(key)}>
            <Icon name="close" />
          </button>
        </div>
      ))}
    </div>
  );
}
