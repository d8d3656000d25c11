import { effect, signal } from '@preact/signals';
import { auditOpen, drawerOpen } from '../layout.ts';
import { ask } from '../sending.ts';
import { agentOf, channel, openQuestions } from '../state.ts';
import type { OpenQuestion } from '../state.ts';

const STORED_AS = 'conch-notify';

/** Whether the person wants to be told by the system when an agent asks something; `null`: this browser cannot. */
export const notifies = signal<boolean | null>('Notification' in globalThis ? stored() : null);
/** The request for permission that is to take the focus as soon as it is drawn. */
export const wantedQuestion = signal<{ readonly channel: string; readonly question: number } | null>(null);

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

/** Goes to the next request for permission: the open channel's own, else the next channel's that has one. */
export function showQuestion(): void {
  const [first] = openQuestions.peek();
  if (first === undefined) return;
  show(first);
}

/** Goes to a question by its number. */
export function showOpen(where: string, question: number): void {
  auditOpen.value = false;
  drawerOpen.value = false;
  if (where !== channel.peek()) ask({ type: 'open', channel: where });
  wantedQuestion.value = { channel: where, question };
}

function show({ channel: { id }, question }: OpenQuestion): void {
  showOpen(id, question);
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
  return `${open.channel.id} ${open.question}`;
}

function stored(): boolean {
  try {
    return localStorage.getItem(STORED_AS) === 'true' && Notification.permission === 'granted';
  } catch {
    return false;
  }
}
