import type { JSX } from 'preact';
import { command } from './sending.ts';
import { agentOf, view } from './state.ts';

/** What the holder asks a yes for, whole, with the two answers. Nothing when it asks for none. */
export function ApprovalBar(): JSX.Element | null {
  const holder = view.value?.holder ?? null;
  const asked = holder?.approval ?? null;
  if (holder === null || asked === null) return null;
  const { question, title, detail, shown } = asked;
  /** The second half of a double click may come when the next question stands under the pointer: it answers nothing. */
  const answer = (line: string) => (event: MouseEvent) => {
    if (event.detail < 2) command(`${line} ${question}`, { epoch: holder.epoch });
  };
  return (
    <section class="approval" data-testid="approval" role="alertdialog" aria-label="A request for permission">
      <p>
        <strong>{agentOf(holder.agent).name}</strong> asks for a yes ({question}): {title}
      </p>
      {detail !== '' && <pre tabIndex={0}>{detail}</pre>}
      <div class="actions" role="group" aria-label="Your answer">
        <button type="button" data-testid="allow" disabled={!shown} onClick={answer('/allow')}>
          Allow
        </button>
        <button type="button" data-testid="reject" onClick={answer('/reject')}>
          Reject
        </button>
      </div>
    </section>
  );
}
