import { computed, signal } from '@preact/signals';
import type { Answer } from '../../turns/commands/context.ts';
import { defined } from '../../lib/defined.ts';
import type { PageFrame, ServerFrame } from '../console/protocol.ts';
import { forFloor } from '../delivery/card.ts';
import { transmit } from './live-connection.ts';
import { inLocalTime } from './now.ts';
import {
  channel,
  connection,
  following,
  hasEarlier,
  hasLater,
  messages,
  returning,
  take,
  unread,
  view,
} from './state.ts';
import { signalOfTab } from './stored.ts';

/** A message that the server has not yet confirmed. */
export type Unsent = {
  readonly key: string;
  readonly channel: string;
  readonly text: string;
  readonly replyTo: string | null;
  /** Why the server refused the message; `null` if it did not. */
  readonly refusal: string | null;
};

/** Messages that the server has not confirmed; kept over a lost connection and a reload. */
export const unsent = signalOfTab<readonly Unsent[]>('conch-unsent', []);

type Word = { readonly key: string; readonly kind: 'answer' | 'refused' | 'notice'; readonly text: string };

/** Toasts, oldest first. */
export const toasts = signal<readonly Word[]>([]);
/** An answer to the command `line`, shown in the conversation after the message with the seq `after`. */
export type Spoken = Word & { readonly line: string; readonly channel: string; readonly after: number };

/** The newest 20 answers to commands that this page shows in the conversation. Other pages do not show them. */
export const answers = signal<readonly Spoken[]>([]);

const pendingCommands = new Map<string, Pending>();

type Pending = AnswerCallbacks & { readonly line: string; readonly typed: boolean; readonly channel: string };

/** `refused`: called when the command is refused or gets no answer. The failure is then not shown elsewhere. */
type AnswerCallbacks = { readonly refused?: (answer: Answer) => void };

/** Handles a frame of the server. After a `state`, sends messages again that were neither confirmed nor refused. */
export function hear(frame: ServerFrame): void {
  if (frame.type === 'accepted') discard(frame.key);
  else if (frame.type === 'refused') refused(frame.key, frame.text);
  else if (frame.type === 'answer') answered(frame.key, frame);
  else if (frame.type === 'notice') toast('notice', frame.text);
  else take(frame);
  if (frame.type !== 'state') return;
  connection.value = 'open';
  for (const message of unsent.value) if (message.refusal === null) transmitSay(message);
}

/** Sends a frame to the server. Drops the frame without a connection. */
export function ask(frame: PageFrame): void {
  transmit(frame);
}

/** Asks the server for messages of the open channel before or after a seq. */
export function askFor(stretch: { readonly before?: number | undefined; readonly after?: number | undefined }): void {
  if (channel.peek() !== null) transmit({ type: 'history', channel: channel.peek() ?? '', ...defined(stretch) });
}

/** Scrolls to the newest message. If the page lacks the newest messages, asks the server for them instead. */
export function showEnd(): void {
  unread.value = 0;
  following.value = true;
  if (hasLater.peek() && channel.peek() !== null) {
    returning.value = true;
    return ask({ type: 'open', channel: channel.peek() });
  }
  document.querySelector('.conversation')?.scrollTo({ top: Number.MAX_SAFE_INTEGER });
}

/** Scrolls to the oldest message. If the page lacks the oldest messages, also asks the server for them. */
export function showBeginning(): void {
  following.value = false;
  if (hasEarlier.peek()) askFor({ after: 0 });
  document.querySelector('.conversation')?.scrollTo({ top: 0 });
}

/** Sends a message and keeps it until the server confirms it. */
export function sendWords(text: string, replyTo: string | null): void {
  if (channel.value === null) return;
  const message = { key: crypto.randomUUID(), channel: channel.value, text, replyTo, refusal: null };
  unsent.value = [...unsent.value, message];
  transmitSay(message);
}

/** Removes a message from `unsent`. */
export function discard(key: string): void {
  if (unsent.value.some((message) => message.key === key))
    unsent.value = unsent.value.filter((message) => message.key !== key);
}

/**
 * Runs a command line, by default in the open channel. The answer is a toast, or with `typed` an entry in the
 * conversation.
 */
export function sendCommand(
  line: string,
  options: AnswerCallbacks & { readonly drawnFor?: string; readonly typed?: boolean; readonly channel?: string } = {},
): void {
  const { drawnFor, typed = false, channel: where = channel.value, ...callbacks } = options;
  if (where === null) return;
  const key = crypto.randomUUID();
  pendingCommands.set(key, { line, typed, channel: where, ...callbacks });
  const frame = { type: 'command', channel: where, key, line } as const;
  const isSent = transmit(drawnFor === undefined ? frame : { ...frame, drawnFor });
  // The answer is shown at the end of the conversation.
  if (typed) showEnd();
  if (!isSent) answered(key, { ok: false, text: 'Conch is unreachable. Retrying…' });
}

/** Runs the command line of a button for the turn that the page shows. */
export function pressButton(line: string, options: { readonly channel?: string } = {}): void {
  const floor = view.value;
  sendCommand(line, floor === null ? options : { ...options, drawnFor: forFloor(floor) });
}

/** Sends the new text of a message that this person wrote. Without a connection, sends nothing and returns false. */
export function sendEdit(id: string, text: string): boolean {
  const isSent = transmit({ type: 'edit', channel: channel.value ?? '', key: crypto.randomUUID(), id, text });
  if (!isSent) toast('refused', 'Conch is unreachable. Nothing was changed.');
  return isSent;
}

connection.subscribe((state) => {
  if (state !== 'lost') return;
  const text = 'The connection was lost before the answer.';
  for (const key of pendingCommands.keys()) answered(key, { ok: false, text });
});

function refused(key: string | null, text: string): void {
  const message = unsent.value.find((each) => each.key === key);
  if (message !== undefined) {
    unsent.value = unsent.value.map((each) => (each.key === key ? { ...each, refusal: text } : each));
  } else if (key !== null && pendingCommands.has(key)) answered(key, { ok: false, text });
  else toast('refused', text);
}

function answered(key: string, answer: Answer): void {
  const question = pendingCommands.get(key);
  pendingCommands.delete(key);
  const { ok } = answer;
  if (!ok && question?.refused !== undefined) return question.refused(answer);
  const kind = ok ? 'answer' : 'refused';
  if (question?.typed !== true) return toast(kind, answer.text);
  const text = inLocalTime(answer.text, Date.now());
  const { line, channel: where } = question;
  const spoken: Spoken = { key, kind, text, line, channel: where, after: messages.peek().at(-1)?.seq ?? 0 };
  answers.value = [...answers.value, spoken].slice(-20);
}

/** Shows a toast: an answer for 5 s, a refusal or notice for 9 s. At most four are shown. */
export function toast(kind: Word['kind'], text: string): void {
  const key = crypto.randomUUID();
  toasts.value = [...toasts.value, { key, kind, text: inLocalTime(text, Date.now()) }].slice(-4);
  setTimeout(() => dismiss(key), kind === 'answer' ? 5000 : 9000);
}

/** Removes a toast or an answer. */
export function dismiss(key: string): void {
  toasts.value = toasts.value.filter((word) => word.key !== key);
  answers.value = answers.value.filter((word) => word.key !== key);
}

function transmitSay({ key, channel: where, text, replyTo }: Unsent): void {
  transmit({ type: 'say', channel: where, key, text, replyTo });
}

type Unfinished = {
  readonly text: string;
  readonly replyTo: { readonly id: string; readonly name: string; readonly text: string } | null;
};

const NOTHING: Unfinished = { text: '', replyTo: null };

const allUnfinished = signalOfTab<Readonly<Record<string, Unfinished>>>('conch-unfinished', {});

/** The text in the composer, and the message that it replies to. Each channel has its own, which a reload keeps. */
export const unfinished = computed<Unfinished>(() => allUnfinished.value[channel.value ?? ''] ?? NOTHING);

/** Whether a channel's composer has text that was not sent. */
export function isUnfinished(id: string): boolean {
  return (allUnfinished.value[id] ?? NOTHING).text.trim() !== '';
}

/** Changes the text in the open channel's composer, or the message that the text replies to. */
export function keepUnfinished(change: Partial<Unfinished>): void {
  const id = channel.peek();
  if (id === null) return;
  allUnfinished.value = { ...allUnfinished.peek(), [id]: { ...unfinished.peek(), ...change } };
}
