import { computed, signal } from '@preact/signals';
import { channel } from '../state.ts';

/** What somebody has begun to write in a channel, and the message that it will reply to. */
export type Unfinished = {
  readonly text: string;
  readonly replyTo: { readonly id: string; readonly name: string; readonly text: string } | null;
};

const STORED_AS = 'conch-unfinished';
const NOTHING: Unfinished = { text: '', replyTo: null };

const all = signal<Readonly<Record<string, Unfinished>>>(restore());

/** What is begun in the open channel; every channel keeps its own, also over a reload of the page. */
export const unfinished = computed<Unfinished>(() => all.value[channel.value ?? ''] ?? NOTHING);

/** Whether something is begun in a channel. */
export function isUnfinished(id: string): boolean {
  return (all.value[id] ?? NOTHING).text.trim() !== '';
}

/** Changes what is begun in the open channel. */
export function keepUnfinished(change: Partial<Unfinished>): void {
  if (channel.peek() === null) return;
  all.value = { ...all.peek(), [channel.peek() ?? '']: { ...unfinished.peek(), ...change } };
  try {
    sessionStorage.setItem(STORED_AS, JSON.stringify(all.peek()));
  } catch {
    return;
  }
}

function restore(): Readonly<Record<string, Unfinished>> {
  try {
    return JSON.parse(sessionStorage.getItem(STORED_AS) ?? '{}') as Record<string, Unfinished>;
  } catch {
    return {};
  }
}
