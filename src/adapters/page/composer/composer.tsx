import { useSignalEffect } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { JSX, RefObject } from 'preact';
import { isCommandLine, addressedIn } from '../../../turns/text/recognition.ts';
import { COMMAND_WORDS } from '../../../turns/commands/command-table.ts';
import { Choices, chosen, pressInChoices, offer, offered } from './choices.tsx';
import { Icon } from '../icons.tsx';
import { SignButton } from '../parts.tsx';
import {
  goToEnd,
  suggestion,
  channel,
  channelName,
  writable,
  agentOf,
  nameOf,
  connection,
  holder,
  messages,
  outlook,
  view,
} from '../state.ts';
import { sendCommand, sendWords, toast } from '../sending.ts';
import { keepUnfinished, unfinished } from './unfinished.ts';
import { fateWords } from '../../../turns/commands/fact-words.ts';
import { whyHeld } from '../../../turns/commands/read.ts';
import { NOBODY } from '../../../turns/floor/gate.ts';
import type { Fate } from '../../../turns/floor/fact.ts';

/** The server takes no longer text. */
const TEXT_LIMIT = 16_000;

/** Where people write: messages, and commands that begin with a slash. */
export function Composer(): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  useSignalEffect(() => {
    const wanted = suggestion.value;
    if (wanted === null) return;
    write(field, wanted);
    field.current?.focus();
    suggestion.value = null;
  });
  useSignalEffect(() => {
    if (unfinished.value.replyTo !== null) field.current?.focus();
  });
  useSignalEffect(() => {
    if (channel.value !== null) draw(field, unfinished.peek().text);
  });
  return (
    <form
      class="composer"
      id="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit(field);
      }}
    >
      <Choices take={(line) => complete(field, line)} />
      <Replying />
      <div class="composer-row">
        <Field field={field} />
        <button
          type="submit"
          class="send"
          data-testid="send"
          aria-label="Send"
          disabled={unfinished.value.text.trim() === ''}
        >
          <Icon name="send" />
        </button>
      </div>
      <div class="composer-foot">
        <span class="fate faint" data-testid="fate">
          {deliveryPreview(isCommand(unfinished.value.text))}
        </span>
        <Count />
      </div>
    </form>
  );
}

type FieldRef = { readonly field: RefObject<HTMLTextAreaElement | null> };

function Field({ field }: FieldRef): JSX.Element {
  const placeholder = writable.value ? `Message #${channelName.value}, or / for commands` : 'Commands only: type /';
  return (
    <textarea
      ref={field}
      rows={1}
      data-testid="composer"
      aria-label="Message"
      placeholder={placeholder}
      value={unfinished.value.text}
      autocomplete="off"
      aria-autocomplete="list"
      aria-controls={offered.value.length > 0 ? 'choices' : undefined}
      aria-activedescendant={offered.value.length > 0 ? `choice-${chosen.value}` : undefined}
      onInput={(event) => write(field, event.currentTarget.value)}
      onKeyDown={(event) => press(field, event)}
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

function Count(): JSX.Element | null {
  const { length } = unfinished.value.text;
  if (length < TEXT_LIMIT * 0.9) return <span class="faint wide-only">Enter sends · Shift+Enter new line</span>;
  return (
    <span class={length > TEXT_LIMIT ? 'too-long' : 'faint'}>
      {length.toLocaleString()} of {TEXT_LIMIT.toLocaleString()} characters
    </span>
  );
}

function write(field: FieldRef['field'], value: string): void {
  keepUnfinished({ text: value });
  offer(value);
  draw(field, value);
}

function draw(field: FieldRef['field'], value: string): void {
  const element = field.current;
  if (element === null) return;
  element.value = value;
  element.style.height = 'auto';
  element.style.height = `${Math.min(element.scrollHeight, 220)}px`;
}

function press(field: FieldRef['field'], event: KeyboardEvent): void {
  if (event.isComposing) return;
  if (pressInChoices(event)) return;
  if (event.key === 'Tab' || (event.key === 'Enter' && !event.shiftKey && offered.value.length > 0)) {
    const choice = offered.value[chosen.value];
    const line = choice?.line;
    if (line !== undefined && (event.key === 'Tab' || line.trim() !== unfinished.peek().text.trim())) {
      event.preventDefault();
      return complete(field, line);
    }
  }
  if (event.key === 'Escape') keepUnfinished({ replyTo: null });
  if (event.key !== 'Enter' || event.shiftKey) return;
  event.preventDefault();
  submit(field);
}

function complete(field: FieldRef['field'], line: string): void {
  write(field, `${line} `);
  field.current?.focus();
}

function submit(field: FieldRef['field']): void {
  const wanted = unfinished.peek().text.trim();
  if (wanted === '') return;
  if (wanted.length > TEXT_LIMIT) {
    return toast('refused', `The message is longer than ${TEXT_LIMIT.toLocaleString()} characters. Nothing was sent.`);
  }
  if (isCommand(wanted)) sendCommand(wanted, { typed: true });
  else if (writable.value) sendWords(wanted, unfinished.peek().replyTo?.id ?? null);
  else return toast('refused', 'This channel lives on another platform: write there. Commands work here too.');
  keepUnfinished({ replyTo: null });
  write(field, '');
  goToEnd.value += 1;
}

/** An operator's command, or a slash and a word that is none: its answer says which command may have been meant. */
function isCommand(value: string): boolean {
  return isCommandLine(value, COMMAND_WORDS) || /^\s*\/[a-z]*(\s|$)/i.test(value);
}

/** Where the text in the composer would go, as the floor itself decides it. `line`: the text is a command. */
function deliveryPreview(line: boolean): string {
  if (connection.value === 'lost') return line ? 'Commands need a connection' : 'Will be sent when Conch is back';
  if (line) return 'A command: the answer is only for you';
  if (!writable.value) return 'Write in this channel on its own platform';
  const [first] = addressed();
  const fate = first === undefined ? outlook.value?.unaddressed : outlook.value?.addressed[first];
  if (fate === undefined) return '';
  const { agent, waitingFor } = holder.value ?? {};
  if (fate.state === 'held' && agent !== undefined && waitingFor === 'approval' && !isPlain(fate)) {
    return `${nameOf(agent)} is waiting for an approval; your message is delivered after it.`;
  }
  const preview = fate.state === 'unrouted' ? `Will reach nobody: ${fate.why}` : `Will be ${fateWords(fate, nameOf)}`;
  const why = view.value === null || isPlain(fate) ? null : whyHeld(view.value, nameOf);
  return why === null ? preview : `${preview}. ${why}`;
}

/** Whether all is said with what becomes of it. */
function isPlain(fate: Fate): boolean {
  if (fate.state === 'held') return fate.until === 'turn' || fate.until === 'exchange';
  return fate.state !== 'unrouted' || fate.why !== NOBODY;
}

/** Whom the text names, or whose message it replies to. */
function addressed(): readonly string[] {
  const { text, replyTo } = unfinished.value;
  const seated = (view.value?.seats ?? []).map(({ agent }) => agentOf(agent));
  const repliedTo = messages.value.find(({ id, kind }) => id === replyTo?.id && kind === 'agent');
  return [...(repliedTo === undefined ? [] : [repliedTo.speaker.id]), ...addressedIn(text, seated)];
}
