import { computed, effect, signal, useSignalEffect } from '@preact/signals';
import type { RefObject, JSX } from 'preact';
import {
  openView,
  drawerOpen,
  nameOf,
  channel,
  hasLater,
  openQuestions,
  connection,
  messages,
  view,
} from '../state.ts';
import { ask, showEnd } from '../sending.ts';
import { store, stored } from '../stored.ts';
import type { OpenQuestion } from '../state.ts';
import { useEffect } from 'preact/hooks';

const STORED_AS = 'conch-notify';

/** Whether system notifications of questions are on; `null` if this browser has none. */
export const notifies = signal<boolean | null>(
  'Notification' in globalThis ? stored(STORED_AS) === 'true' && Notification.permission === 'granted' : null,
);
/** The question that takes the focus as soon as it is drawn. */
const wantedQuestion = signal<{ readonly channel: string; readonly id: string } | null>(null);

/** Notifies of new questions in other channels, or in any channel while the page is hidden, if notifications are on. */
export function startAttention(): void {
  let knownKeys = new Set<string>();
  effect(() => {
    const open = openQuestions.value;
    const fresh = open.filter((question) => !knownKeys.has(keyOf(question)));
    knownKeys = new Set(open.map(keyOf));
    for (const question of fresh) if (document.hidden || question.channel.id !== channel.peek()) notify(question);
  });
}

/** Switches notifications off, or on if the browser permits them. */
export async function toggleNotifications(): Promise<void> {
  const wanted = notifies.peek() === false && (await Notification.requestPermission()) === 'granted';
  notifies.value = wanted;
  store(STORED_AS, String(wanted));
}

/** Shows the next open question. Questions of the open channel precede questions of other channels. */
export function showQuestion(): void {
  const open = openQuestions.peek();
  const place = open.findIndex((question) => keyOf(question) === lastShown);
  const next = open[(place + 1) % open.length];
  if (next !== undefined) show(next);
}

/** Opens a channel and scrolls to its open question with this id. */
export function showOpen(where: string, id: string): void {
  openView.value = null;
  drawerOpen.value = false;
  if (where !== channel.peek()) ask({ type: 'open', channel: where });
  else if (hasLater.peek()) showEnd();
  wantedQuestion.value = { channel: where, id };
}

/** When a person asked to see the question with this id, scrolls to its box and focuses the button that denies. */
export function useFocusWhenWanted(id: string, box: RefObject<HTMLElement | null>): void {
  useSignalEffect(() => {
    const wanted = wantedQuestion.value;
    if (wanted?.id !== id || wanted.channel !== channel.value) return;
    wantedQuestion.value = null;
    box.current?.scrollIntoView({ block: 'nearest' });
    // Focuses the button that denies: a stray Enter or Space then allows nothing.
    box.current?.querySelector<HTMLElement>('[data-no]')?.focus({ preventScroll: true });
  });
}

let lastShown = '';

function show(open: OpenQuestion): void {
  lastShown = keyOf(open);
  showOpen(open.channel.id, open.id);
}

/** A question in a few words: "dev asks in #release". */
export function questionWords({ agent, channel: { name } }: OpenQuestion): string {
  return `${nameOf(agent)} asks in #${name}`;
}

function notify(open: OpenQuestion): void {
  if (notifies.peek() !== true || Notification.permission !== 'granted') return;
  const notification = new Notification(questionWords(open), { body: open.title, tag: keyOf(open) });
  notification.addEventListener('click', () => {
    window.focus();
    show(open);
    notification.close();
  });
}

function keyOf(open: OpenQuestion): string {
  return `${open.channel.id} ${open.id}`;
}

/** Messages within this time, in milliseconds, are announced together: a screen reader cannot keep up with many. */
const GATHER_MS = 1_500;

const floorWords = computed(() => {
  const { holder, condition } = view.value ?? {};
  if (holder == null) return condition === undefined ? '' : `The floor is ${condition}`;
  return `${nameOf(holder.agent)} ${holder.status === 'WAITING' ? 'waits' : 'has the floor'}`;
});
const messageWords = signal('');

/** Announces holders, messages, questions and a lost connection to screen readers. Also sets the page's title. */
export function Announcer(): JSX.Element {
  useEffect(() => {
    const ends = [effect(showTitle), watchMessages()];
    return () => ends.forEach((end) => end());
  }, []);
  const [firstQuestion] = openQuestions.value;
  return (
    <div class="unseen">
      <p aria-live="polite">{floorWords.value}</p>
      <p aria-live="polite">{messageWords.value}</p>
      <p aria-live="assertive">
        {firstQuestion && `${questionWords(firstQuestion)}: ${firstQuestion.title}. Alt+A opens it.`}
      </p>
      <p aria-live="assertive">{connection.value === 'lost' ? 'The connection to Conch is lost. Reconnecting.' : ''}</p>
    </div>
  );
}

function showTitle(): void {
  const [first, ...others] = openQuestions.value;
  const more = others.length > 0 ? ` +${others.length}` : '';
  const agent = view.value?.holder?.agent;
  if (first !== undefined) document.title = `✋ ${questionWords(first)}${more} · Conch`;
  else document.title = agent === undefined ? 'Conch' : `🎤 ${nameOf(agent)} · Conch`;
}

function watchMessages(): () => void {
  let announced = { channel: channel.peek(), seq: messages.peek().at(-1)?.seq ?? 0 };
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tell = (): void => {
    timer = undefined;
    // Questions are announced separately.
    const fresh = messages.peek().filter(({ seq, asks }) => seq > announced.seq && asks === null);
    const last = fresh.at(-1);
    if (last === undefined) return;
    announced = { channel: channel.peek(), seq: last.seq };
    const words = `${last.speaker.name}: ${last.text.slice(0, 300)}`;
    messageWords.value = fresh.length === 1 ? words : `${fresh.length} new messages. ${words}`;
  };
  const end = effect(() => {
    const last = messages.value.at(-1)?.seq ?? 0;
    if (announced.channel !== channel.value || announced.seq === 0) announced = { channel: channel.value, seq: last };
    else if (last > announced.seq) timer ??= setTimeout(tell, GATHER_MS);
  });
  return () => {
    clearTimeout(timer);
    end();
  };
}
