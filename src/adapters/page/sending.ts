import { computed, signal } from '@preact/signals';
import type { Answer } from '../../turns/commands/context.ts';
import { defined } from '../../lib/defined.ts';
import type { PageFrame } from '../console/protocol.ts';
import { forFloor } from '../delivery/card.ts';
import { channel, following, hasEarlier, hasLater, messages, returning, unread, view } from './state.ts';
import { signalOfTab } from './stored.ts';

/** A message that the server has not yet confirmed. */
export type Unsent = {
  readonly key: string;
  readonly channel: string;
  readonly text: string;
  readonly replyTo: string | null;
  /** Why the server did not take it; `null` while that is open. */
  readonly refusal: string | null;
};

/** Messages on their way; they outlive a lost connection and a reload of the page. */
export const unsent = signalOfTab<readonly Unsent[]>('conch-unsent', []);

/** What an answer to a command, a notice or a refusal says; gone after a while. */
export type Word = { readonly key: string; readonly kind: 'answer' | 'refused' | 'notice'; readonly text: string };

/** Toasts, oldest first. */
export const toasts = signal<readonly Word[]>([]);
/** The answer to a typed command, with the line that was typed and the message after which it stands. */
export type Spoken = Word & { readonly line: string; readonly channel: string; readonly after: number };

/** Answers to typed commands: they stand in the conversation, for this page only. */
export const answers = signal<readonly Spoken[]>([]);

let transmit: (frame: PageFrame) => boolean = () => false;
const asked = new Map<string, Pending>();

type Pending = Told & { readonly line: string; readonly typed: boolean; readonly channel: string };

/** Whoever sent a command hears why it was refused; nothing else shows that then. */
type Told = { readonly refused?: (answer: Answer) => void };

/** Gives this module the way to the server. */
export function setTransmitter(send: (frame: PageFrame) => boolean): void {
  transmit = send;
}

/** Sends a frame that needs no confirmation; lost when there is no connection. */
export function ask(frame: PageFrame): void {
  transmit(frame);
}

/** Asks for the messages of the open channel before or after one. */
export function askFor(stretch: { readonly before?: number | undefined; readonly after?: number | undefined }): void {
  if (channel.peek() !== null) transmit({ type: 'history', channel: channel.peek() ?? '', ...defined(stretch) });
}

/** Draws the end of the conversation, from the server if the page does not have it. */
export function showEnd(): void {
  unread.value = 0;
  following.value = true;
  if (hasLater.peek() && channel.peek() !== null) {
    returning.value = true;
    return ask({ type: 'open', channel: channel.peek() });
  }
  document.querySelector('.conversation')?.scrollTo({ top: Number.MAX_SAFE_INTEGER });
}

/** Draws the beginning of the conversation, from the server if the page does not have it. */
export function showBeginning(): void {
  following.value = false;
  if (hasEarlier.peek()) askFor({ after: 0 });
  document.querySelector('.conversation')?.scrollTo({ top: 0 });
}

/** Sends a message; it is kept until the server confirms it. */
export function sendWords(text: string, replyTo: string | null): void {
  if (channel.value === null) return;
  const message = { key: crypto.randomUUID(), channel: channel.value, text, replyTo, refusal: null };
  unsent.value = [...unsent.value, message];
  transmitSay(message);
}

/** Sends everything that is unconfirmed again, under the same keys. */
export function resend(): void {
  for (const message of unsent.value) if (message.refusal === null) transmitSay(message);
}

/** Takes a refused message back. */
export function discard(key: string): void {
  unsent.value = unsent.value.filter((message) => message.key !== key);
}

/** Runs a command line, in the open channel unless told. `typed` answers stand in the conversation, those of buttons are toasts. */
export function sendCommand(
  line: string,
  options: Told & { readonly drawnFor?: string; readonly typed?: boolean; readonly channel?: string } = {},
): void {
  const { drawnFor, typed = false, channel: where = channel.value, ...told } = options;
  if (where === null) return;
  const key = crypto.randomUUID();
  asked.set(key, { line, typed, channel: where, ...told });
  const frame = { type: 'command', channel: where, key, line } as const;
  const sent = transmit(drawnFor === undefined ? frame : { ...frame, drawnFor });
  if (!sent) answered(key, { ok: false, text: 'Conch is unreachable. Retrying…' });
}

/** Runs the command line of a button, which counts only for the floor as it is drawn now. */
export function pressButton(line: string, options: { readonly channel?: string } = {}): void {
  const floor = view.value;
  sendCommand(line, floor === null ? options : { ...options, drawnFor: forFloor(floor) });
}

/** Changes a message of one's own. */
export function sendEdit(id: string, text: string): void {
  if (channel.value === null) return;
  const sent = transmit({ type: 'edit', channel: channel.value, key: crypto.randomUUID(), id, text });
  if (!sent) toast('refused', 'Conch is unreachable. Nothing was changed.');
}

/** The server has it. */
export function accepted(key: string): void {
  if (unsent.value.some((message) => message.key === key)) discard(key);
}

/** The server did not take it. */
export function refused(key: string | null, text: string): void {
  const message = unsent.value.find((one) => one.key === key);
  if (message !== undefined) {
    unsent.value = unsent.value.map((one) => (one.key === key ? { ...one, refusal: text } : one));
  } else if (key !== null && asked.has(key)) answered(key, { ok: false, text });
  else toast('refused', text);
}

/** A command was answered. */
export function answered(key: string, answer: Answer): void {
  const question = asked.get(key);
  asked.delete(key);
  const { ok, text } = answer;
  if (!ok && question?.refused !== undefined) return question.refused(answer);
  const kind = ok ? 'answer' : 'refused';
  if (question?.typed !== true) return toast(kind, text);
  const { line, channel: where } = question;
  const spoken: Spoken = { key, kind, text, line, channel: where, after: messages.peek().at(-1)?.seq ?? 0 };
  answers.value = [...answers.value, spoken].slice(-20);
}

/** Shows a short word for a while. */
export function toast(kind: Word['kind'], text: string): void {
  const key = crypto.randomUUID();
  toasts.value = [...toasts.value, { key, kind, text }].slice(-4);
  setTimeout(() => dismiss(key), kind === 'answer' ? 5000 : 9000);
}

/** Takes a toast or an answer away. */
export function dismiss(key: string): void {
  toasts.value = toasts.value.filter((word) => word.key !== key);
  answers.value = answers.value.filter((word) => word.key !== key);
}

function transmitSay({ key, channel: where, text, replyTo }: Unsent): void {
  transmit({ type: 'say', channel: where, key, text, replyTo });
}

/** What somebody has begun to write in a channel, and the message that it will reply to. */
type Unfinished = {
  readonly text: string;
  readonly replyTo: { readonly id: string; readonly name: string; readonly text: string } | null;
};

const NOTHING: Unfinished = { text: '', replyTo: null };

const allUnfinished = signalOfTab<Readonly<Record<string, Unfinished>>>('conch-unfinished', {});

/** What is begun in the open channel; every channel keeps its own, also over a reload of the page. */
export const unfinished = computed<Unfinished>(() => allUnfinished.value[channel.value ?? ''] ?? NOTHING);

/** Whether something is begun in a channel. */
export function isUnfinished(id: string): boolean {
  return (allUnfinished.value[id] ?? NOTHING).text.trim() !== '';
}

/** Changes what is begun in the open channel. */
export function keepUnfinished(change: Partial<Unfinished>): void {
  const id = channel.peek();
  if (id === null) return;
  allUnfinished.value = { ...allUnfinished.peek(), [id]: { ...unfinished.peek(), ...change } };
}
