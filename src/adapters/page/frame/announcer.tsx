import { effect, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { JSX } from 'preact';
import { questionWords } from './attention.ts';
import { agentOf, channel, connection, messages, openQuestions, view } from '../state.ts';
import type { OpenQuestion } from '../state.ts';

/** Messages of this long a time are told together: a screen reader cannot keep up with each of many. */
const GATHER_MS = 1_500;

const floorWords = signal('');
const messageWords = signal('');

/** Tells a screen reader who has the floor, once per change, and what was said. */
export function Announcer(): JSX.Element {
  useEffect(() => {
    const ends = [watchFloor(), watchMessages()];
    return () => ends.forEach((end) => end());
  }, []);
  return (
    <div class="unseen">
      <p aria-live="polite">{floorWords.value}</p>
      <p aria-live="polite">{messageWords.value}</p>
      <p aria-live="assertive">{questionsTold(openQuestions.value)}</p>
      <p aria-live="assertive">{connection.value === 'lost' ? 'The connection to Conch is lost. Reconnecting.' : ''}</p>
    </div>
  );
}

function questionsTold([first]: readonly OpenQuestion[]): string {
  return first === undefined ? '' : `${questionWords(first)}: ${first.title}. Alt and A goes there.`;
}

function titleFor(holder: string | null, [first, ...others]: readonly OpenQuestion[]): string {
  const more = others.length > 0 ? ` +${others.length}` : '';
  if (first !== undefined) return `✋ ${questionWords(first)}${more} · Conch`;
  return holder === null ? 'Conch' : `🎤 ${agentOf(holder).name} · Conch`;
}

function watchFloor(): () => void {
  return effect(() => {
    const floor = view.value;
    const holder = floor?.holder ?? null;
    document.title = titleFor(holder?.agent ?? null, openQuestions.value);
    if (holder === null) floorWords.value = floor === null ? '' : `The floor is ${floor.condition}`;
    else floorWords.value = `${agentOf(holder.agent).name} ${holder.status === 'WAITING' ? 'waits' : 'has the floor'}`;
  });
}

function watchMessages(): () => void {
  let told = { channel: channel.peek(), seq: messages.peek().at(-1)?.seq ?? 0 };
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tell = (): void => {
    timer = undefined;
    // What is asked was told by itself.
    const fresh = messages.peek().filter(({ seq, asks }) => seq > told.seq && asks === null);
    const last = fresh.at(-1);
    if (last === undefined) return;
    told = { channel: channel.peek(), seq: last.seq };
    const words = `${last.speaker.name}: ${last.text.slice(0, 300)}`;
    messageWords.value = fresh.length === 1 ? words : `${fresh.length} new messages. ${words}`;
  };
  const end = effect(() => {
    const last = messages.value.at(-1)?.seq ?? 0;
    if (told.channel !== channel.value || told.seq === 0) told = { channel: channel.value, seq: last };
    else if (last > told.seq) timer ??= setTimeout(tell, GATHER_MS);
  });
  return () => {
    clearTimeout(timer);
    end();
  };
}
