import { effect, signal, useSignalEffect } from '@preact/signals';
import type { RefObject } from 'preact';
import { auditOpen, drawerOpen, goToEnd } from '../layout.ts';
import { ask } from '../sending.ts';
import { agentOf, channel, hasLater, openQuestions } from '../state.ts';
import type { OpenQuestion } from '../state.ts';

const STORED_AS = 'conch-notify';

/** Whether the person wants to be told by the system when an agent asks something; `null`: this browser cannot. */
export const notifies = signal<boolean | null>('Notification' in globalThis ? stored() : null);
/** The request for permission that is to take the focus as soon as it is drawn. */
const wantedQuestion = signal<{ readonly channel: string; readonly id: string } | null>(null);

/** Notifies of questions that the person does not see, if they wanted it. */
export function startAttention(): void {
  let known = new Set<string>();
  effect(() => {
    const open = openQuestions.value;
    const fresh = open.filter((one) => !known.has(keyOf(one)));
    known = new Set(open.map(keyOf));
    for (const one of fresh) if (document.hidden || one.channel.id !== channel.peek()) notify(one);
  });
}

/** Switches notifications on, if the browser lets us, or off. */
export async function toggleNotifications(): Promise<void> {
  const wanted = notifies.peek() === false && (await Notification.requestPermission()) === 'granted';
  notifies.value = wanted;
  try {
    localStorage.setItem(STORED_AS, String(wanted));
  } catch {
    return;
  }
}

/** Goes to the question after the one that it went to before: the open channel's first, then those of other channels. */
export function showQuestion(): void {
  const open = openQuestions.peek();
  const place = open.findIndex((one) => keyOf(one) === lastShown);
  const next = open[(place + 1) % open.length];
  if (next !== undefined) show(next);
}

/** Goes to a question by its id (`askedId`). */
export function showOpen(where: string, id: string): void {
  auditOpen.value = false;
  drawerOpen.value = false;
  if (where !== channel.peek()) ask({ type: 'open', channel: where });
  else if (hasLater.peek()) goToEnd.value += 1;
  wantedQuestion.value = { channel: where, id };
}

/** The question that somebody has come for is scrolled to and has the focus. */
export function useFocusWhenWanted(id: string, box: RefObject<HTMLElement | null>): void {
  useSignalEffect(() => {
    const wanted = wantedQuestion.value;
    if (wanted?.id !== id || wanted.channel !== channel.value) return;
    wantedQuestion.value = null;
    box.current?.scrollIntoView({ block: 'nearest' });
    // A no is what the first key press says.
    box.current?.querySelector<HTMLElement>('[data-no]')?.focus({ preventScroll: true });
  });
}

let lastShown = '';

function show(open: OpenQuestion): void {
  lastShown = keyOf(open);
  showOpen(open.channel.id, open.id);
}

/** A request in a few words: "dev asks in #release". */
export function questionWords({ agent, channel: { name } }: OpenQuestion): string {
  return `${agentOf(agent).name} asks in #${name}`;
}

function notify(open: OpenQuestion): void {
  if (notifies.peek() !== true || Notification.permission !== 'granted') return;
  const shown = new Notification(questionWords(open), { body: open.title, tag: keyOf(open) });
  shown.addEventListener('click', () => {
    window.focus();
    show(open);
    shown.close();
  });
}

function keyOf(open: OpenQuestion): string {
  return `${open.channel.id} ${open.id}`;
}

function stored(): boolean {
  try {
    return localStorage.getItem(STORED_AS) === 'true' && Notification.permission === 'granted';
  } catch {
    return false;
  }
}
