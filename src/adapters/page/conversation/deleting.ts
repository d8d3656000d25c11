import { signal } from '@preact/signals';
import { ask, toast } from '../sending.ts';
import { channel, connection } from '../state.ts';

/** How long a deletion can be taken back. */
const UNDO_MS = 5_000;
/** How long the server has to answer before the message is drawn as it is there. */
const ANSWER_MS = 3_000;

/** Messages that are being deleted: `waiting` can still be undone, `sent` cannot. */
export const deleting = signal<ReadonlyMap<string, 'waiting' | 'sent'>>(new Map());

const waiting = new Map<string, { readonly timer: ReturnType<typeof setTimeout>; readonly send: () => void }>();

/** Deletes a message of one's own in a moment; until then `keepMessage` undoes it. Whoever leaves the page meant it. */
export function deleteSoon(id: string): void {
  const where = channel.peek();
  if (where === null) return;
  const send = (): void => {
    forget(id);
    if (connection.peek() !== 'open') {
      toast('refused', 'There is no connection to Conch now. Nothing was deleted.');
      return mark(id, null);
    }
    mark(id, 'sent');
    ask({ type: 'delete', channel: where, key: crypto.randomUUID(), id });
    setTimeout(() => mark(id, null), ANSWER_MS);
  };
  waiting.set(id, { timer: setTimeout(send, UNDO_MS), send });
  mark(id, 'waiting');
}

/** Takes a deletion back. */
export function keepMessage(id: string): void {
  forget(id);
  mark(id, null);
}

function forget(id: string): void {
  clearTimeout(waiting.get(id)?.timer);
  waiting.delete(id);
}

addEventListener('pagehide', () => {
  for (const { send } of waiting.values()) send();
});

function mark(id: string, state: 'waiting' | 'sent' | null): void {
  const next = new Map(deleting.peek());
  if (state === null) next.delete(id);
  else next.set(id, state);
  deleting.value = next;
}
