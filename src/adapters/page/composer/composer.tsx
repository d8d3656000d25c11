import { signal, useSignalEffect } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import { COMMAND_WORDS } from '../../../turns/commands/command-table.ts';
import { completions } from '../../../turns/commands/completions.ts';
import type { Completion } from '../../../turns/commands/completions.ts';
import { fateWords } from '../../../turns/commands/fact-words.ts';
import { whyHeld } from '../../../turns/commands/read.ts';
import type { Fate } from '../../../turns/floor/fact.ts';
import { NOBODY } from '../../../turns/floor/gate.ts';
import { requestsOn } from '../../../turns/floor/seats.ts';
import { addressedIn, isCommandLine } from '../../../turns/text/recognition.ts';
import { Icon } from '../icons.tsx';
import { SignButton } from '../parts.tsx';
import { keepUnfinished, sendCommand, sendWords, showEnd, toast, unfinished } from '../sending.ts';
import {
  agentOf,
  agents,
  channelName,
  connection,
  holder,
  isPast,
  messages,
  nameOf,
  deliveryPreview,
  view,
  writable,
} from '../state.ts';

/** The longest message that the server takes, in UTF-16 units. */
const TEXT_LIMIT = 16_000;
/** The greatest height of the text field, in pixels; a longer text scrolls. */
const TALLEST_PX = 220;

const offered = signal<readonly Completion[]>([]);
const marked = signal(0);

/** Where people write messages, and commands, which begin with "/" or "!". */
export function Composer(): JSX.Element {
  const { text } = unfinished.value;
  if (isPast.value)
    return (
      <p class="composer faint" id="composer">
        This ticket is finished: its thread can only be read.
      </p>
    );
  return (
    <form
      class="composer"
      id="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <Choices />
      <Replying />
      <div class="composer-row">
        <Field />
        <button type="submit" class="send" data-testid="send" aria-label="Send" disabled={text.trim() === ''}>
          <Icon name="send" />
        </button>
      </div>
      <div class="composer-foot">
        <span class="fate faint" data-testid="fate">
          {previewWords(isCommand(text))}
        </span>
        <Count length={text.length} />
      </div>
    </form>
  );
}

/** Puts the cursor into the composer. */
export function focusComposer(): void {
  document.querySelector<HTMLTextAreaElement>('[data-testid="composer"]')?.focus();
}

function Field(): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  useSignalEffect(() => {
    const { text, replyTo } = unfinished.value;
    const element = field.current;
    if (element === null) return;
    element.value = text;
    element.style.height = 'auto';
    element.style.height = `${Math.min(element.scrollHeight, TALLEST_PX)}px`;
    if (replyTo !== null) element.focus();
  });
  const isOffered = offered.value.length > 0;
  return (
    <textarea
      ref={field}
      rows={1}
      data-testid="composer"
      aria-label="Message"
      placeholder={writable.value ? `Message #${channelName.value}, or / for commands` : 'Commands only: type /'}
      value={unfinished.value.text}
      autocomplete="off"
      aria-autocomplete="list"
      aria-controls={isOffered ? 'choices' : undefined}
      aria-activedescendant={isOffered ? `choice-${marked.value}` : undefined}
      onInput={(event) => write(event.currentTarget.value)}
      onKeyDown={press}
    />
  );
}

function Replying(): JSX.Element | null {
  const to = unfinished.value.replyTo;
  if (to === null) return null;
  return (
    <p class="replying faint">
      <Icon name="reply" />
      <span class="cut">
        Replying to <strong>{to.name}</strong>: {to.text.slice(0, 80)}
      </span>
      <SignButton icon="close" label="Do not reply" kind="small" onClick={() => keepUnfinished({ replyTo: null })} />
    </p>
  );
}

function Count({ length }: { readonly length: number }): JSX.Element {
  if (length < TEXT_LIMIT * 0.9) return <span class="faint wide-only">Enter sends · Shift+Enter new line</span>;
  return (
    <span class={length > TEXT_LIMIT ? 'too-long' : 'faint'}>
      {length.toLocaleString()} of {TEXT_LIMIT.toLocaleString()} characters
    </span>
  );
}

function Choices(): JSX.Element | null {
  const list = useRef<HTMLUListElement>(null);
  useSignalEffect(() => {
    list.current?.children[offered.value.length > 0 ? marked.value : 0]?.scrollIntoView({ block: 'nearest' });
  });
  if (offered.value.length === 0) return null;
  return (
    <ul ref={list} class="choices" id="choices" role="listbox" aria-label="Completions">
      {offered.value.map(({ line, value, summary }, place) => (
        <li
          key={line}
          id={`choice-${place}`}
          role="option"
          class="choice"
          aria-selected={place === marked.value}
          onMouseDown={(event) => {
            event.preventDefault();
            complete(line);
          }}
        >
          <span class="choice-word">{value}</span>
          <span class="faint cut">{summary}</span>
        </li>
      ))}
    </ul>
  );
}

function write(text: string): void {
  keepUnfinished({ text });
  marked.value = 0;
  offered.value = choicesFor(text);
}

function complete(line: string): void {
  write(`${line} `);
  focusComposer();
}

function press(event: KeyboardEvent): void {
  if (event.isComposing || movesMark(event)) return;
  const { key, shiftKey } = event;
  const isSend = key === 'Enter' && !shiftKey;
  const line = isSend || key === 'Tab' ? offered.value[marked.value]?.line : undefined;
  if (line !== undefined && (key === 'Tab' || line.trim() !== unfinished.peek().text.trim())) {
    event.preventDefault();
    return complete(line);
  }
  if (key === 'Escape') keepUnfinished({ replyTo: null });
  if (!isSend) return;
  event.preventDefault();
  submit();
}

/** Moves the selection in the list of completions, or closes the list, by a key. Returns whether the key did so. */
function movesMark(event: KeyboardEvent): boolean {
  const { length } = offered.value;
  if (length === 0) return false;
  const step = { ArrowDown: 1, ArrowUp: length - 1 }[event.key];
  if (step === undefined && event.key !== 'Escape') return false;
  if (step === undefined) offered.value = [];
  else marked.value = (marked.value + step) % length;
  event.preventDefault();
  event.stopPropagation();
  return true;
}

function choicesFor(line: string): readonly Completion[] {
  if (/^[/!]\S*/.test(line) && !line.includes('\n')) {
    const newest = messages.peek().filter((message) => message.kind === 'person');
    const recent = newest.slice(-10).toReversed();
    const floor = view.peek();
    return completions(line, {
      agents: agents.peek(),
      messages: recent.map(({ id, text }) => ({ id, summary: text.slice(0, 60) })),
      requests: floor === null ? [] : requestsOn(floor),
    });
  }
  const [whole, front = '', typed] = /^([\s\S]*(?:^|\s))@([\p{L}\p{N}_-]*)$/u.exec(line) ?? [];
  if (whole === undefined || typed === undefined) return [];
  return agents
    .peek()
    .filter(({ id, name }) => [id, name].some((word) => word.toLowerCase().startsWith(typed.toLowerCase())))
    .map(({ id, name }) => ({ value: `@${id}`, summary: name, line: `${front}@${id}` }));
}

function submit(): void {
  const { text, replyTo } = unfinished.peek();
  const wanted = text.trim();
  if (wanted === '') return;
  if (wanted.length > TEXT_LIMIT) {
    return toast('refused', `The message is longer than ${TEXT_LIMIT.toLocaleString()} characters. Nothing was sent.`);
  }
  if (isCommand(wanted)) sendCommand(wanted, { typed: true });
  else if (writable.value) sendWords(wanted, replyTo?.id ?? null);
  else return toast('refused', 'This channel is on another platform. Write there. Commands work here.');
  keepUnfinished({ replyTo: null });
  write('');
  showEnd();
}

/** Whether a text counts as a command: it is one, or its first word is "/" alone or "/" with any letters. */
function isCommand(value: string): boolean {
  return isCommandLine(value, COMMAND_WORDS) || /^\s*\/[a-z]*(\s|$)/i.test(value);
}

/** Where the text in the composer would go, from the server's delivery preview. `line`: the text is a command. */
function previewWords(line: boolean): string {
  if (connection.value === 'lost') return line ? 'Commands need a connection' : 'Will be sent when Conch is back';
  if (line) return 'A command: the answer is only for you';
  if (!writable.value) return 'Write in this channel on its own platform';
  const [first] = addressed();
  const fate = first === undefined ? deliveryPreview.value?.unaddressed : deliveryPreview.value?.addressed[first];
  if (fate === undefined) return '';
  const { agent, waitingFor } = holder.value ?? {};
  if (agent !== undefined && waitingFor === 'answer' && fate.state === 'delivered' && fate.to.includes(agent))
    return `Will be delivered to ${nameOf(agent)} as the answer to its question`;
  if (fate.state === 'held' && agent !== undefined && waitingFor === 'approval' && !isPlain(fate)) {
    return `${nameOf(agent)} is waiting for an approval; your message is delivered after it.`;
  }
  const preview = fate.state === 'unrouted' ? `Will reach nobody: ${fate.why}` : `Will be ${fateWords(fate, nameOf)}`;
  const why = view.value === null || isPlain(fate) ? null : whyHeld(view.value, nameOf);
  return why === null ? preview : `${preview}. ${why}`;
}

function isPlain(fate: Fate): boolean {
  if (fate.state === 'held') return fate.until === 'turn' || fate.until === 'exchange';
  return fate.state !== 'unrouted' || fate.why !== NOBODY;
}

function addressed(): readonly string[] {
  const { text, replyTo } = unfinished.value;
  const seated = (view.value?.seats ?? []).map(({ agent }) => agentOf(agent));
  const repliedTo = messages.value.find(({ id, kind }) => id === replyTo?.id && kind === 'agent');
  return [...(repliedTo === undefined ? [] : [repliedTo.speaker.id]), ...addressedIn(text, seated)];
}
