import { useEffect, useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import { Icon } from '../icons.tsx';
import { helpOpen } from '../layout.ts';
import { SHORTCUTS } from './shortcuts.ts';

/** The list of shortcuts, over the page. */
export function Help(): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = helpOpen.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={() => (helpOpen.value = false)}>
      <div class="help-head">
        <h2 id="help-title">Keyboard</h2>
        <button type="button" class="quiet square" aria-label="Close" onClick={() => (helpOpen.value = false)}>
          <Icon name="close" />
        </button>
      </div>
      <dl>
        {SHORTCUTS.map(({ keys, what }) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
