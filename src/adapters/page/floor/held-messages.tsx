import type { JSX } from 'preact';
import { messages, view } from '../state.ts';

/** What people wrote and no agent has been given yet. */
export function HeldMessages(): JSX.Element | null {
  const held = view.value?.held ?? [];
  return (
    <section
      class="block"
      data-testid="held"
      data-count={held.length}
      hidden={held.length === 0}
      aria-labelledby="held-title"
    >
      <h2 id="held-title">
        Held <span class="count">{held.length}</span>
      </h2>
      <ol class="held">
        {held.map((id) => (
          <li key={id}>{textOf(id)}</li>
        ))}
      </ol>
    </section>
  );
}

function textOf(id: string): string {
  const message = messages.value.find((one) => one.id === id);
  return message === undefined ? `message ${id}` : message.text.slice(0, 140);
}
