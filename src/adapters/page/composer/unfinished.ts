import { computed } from '@preact/signals';
import { channel } from '../state.ts';
import { signalOfTab } from '../stored.ts';

/** What somebody has begun to write in a channel, and the message that it will reply to. */
export type Unfinished = {
  readonly text: string;
  readonly replyTo: { readonly id: string; readonly name: string; readonly text: string } | null;
};

const NOTHING: Unfinished = { text: '', replyTo: null };

const all = signalOfTab<Readonly<Record<string, Unfinished>>>('conch-unfinished', {});

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
}
