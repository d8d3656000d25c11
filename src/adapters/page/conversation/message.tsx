import { signal } from '@preact/signals';
import { memo } from 'preact/compat';
import { useEffect, useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import { RECEIPTS } from '../../../turns/floor/react.ts';
import type { Receipt } from '../../../turns/floor/react.ts';
import { whyHeld } from '../../../turns/commands/read.ts';
import type { ChatMessage } from '../../console/protocol.ts';
import { Avatar, Button, SignButton, Time, toneOf } from '../parts.tsx';
import { RichText } from './rich-text.tsx';
import { sendEdit, sendCommand, ask, toast } from '../sending.ts';
import { nameOf, messages, person, view, writable, channel, connection } from '../state.ts';
import { keepUnfinished } from '../composer/unfinished.ts';

const RECEIPT_WORDS: Readonly<Record<Exclude<Receipt, 'held'>, string>> = {
  injected: 'delivered to the holder mid-turn',
  preempted: 'interrupted the turn and is answered first',
  observed: 'every agent sees it with its next prompt at the latest',
  done: 'answered',
  cut: 'the answer was cut short',
  unrouted: 'reached no agent',
};

/** The message of one's own that is being rewritten. */
const editing = signal<string | null>(null);

type Shown = {
  readonly message: ChatMessage;
  /** The same speaker went on: the name is not repeated. */
  readonly goesOn: boolean;
};

/** One message; drawn again only when it changes. */
export const Message = memo(function Message({ message, goesOn }: Shown): JSX.Element {
  const { kind, speaker, sentAt, deleted } = message;
  if (kind === 'system') return <SystemMessage message={message} />;
  const tone = kind === 'person' ? 'tone-person' : toneOf(speaker.id);
  const isOwn = kind === 'person' && speaker.id === person.value.id;
  return (
    <li
      class={`message is-${isOwn ? 'own' : kind} ${tone}${goesOn ? ' goes-on' : ''}${deleted ? ' is-deleted' : ''}`}
      data-testid="message"
      data-id={message.id}
      data-kind={kind}
      data-speaker={speaker.id}
      data-epoch={message.epoch ?? undefined}
    >
      {!goesOn && !isOwn && <Avatar {...speaker} kind={kind} />}
      <div class="message-body">
        <div class={goesOn ? 'message-head unseen' : 'message-head'}>
          <span class={isOwn ? 'speaker unseen' : 'speaker'}>{speaker.name}</span>
          <Time at={sentAt} />
        </div>
        <Quote of={message.replyTo} />
        <Text message={message} />
        <Receipts of={message} />
      </div>
      {isSettled(message) && <MessageActions message={message} isOwn={isOwn} />}
    </li>
  );
});

/** Neither deleted nor being deleted or rewritten. */
function isSettled({ id, deleted }: ChatMessage): boolean {
  return !deleted && !deleting.value.has(id) && editing.value !== id;
}

function SystemMessage({ message }: { readonly message: ChatMessage }): JSX.Element {
  return (
    <li class="message is-system" data-testid="message" data-id={message.id} data-kind="system">
      <div class="system-text">
        <RichText text={message.text} />
      </div>
      <Time at={message.sentAt} />
    </li>
  );
}

function Quote(props: { readonly of: string | null }): JSX.Element | null {
  if (props.of === null) return null;
  const quoted = messages.peek().find((message) => message.id === props.of);
  const words = quoted === undefined ? 'an earlier message' : `${quoted.speaker.name}: ${quoted.text.slice(0, 120)}`;
  return <p class="quote faint cut">{words}</p>;
}

function Text({ message }: { readonly message: ChatMessage }): JSX.Element {
  const going = message.deleted ? 'sent' : deleting.value.get(message.id);
  if (going !== undefined) return <Deleted id={message.id} isFinal={going === 'sent'} />;
  if (editing.value === message.id) return <Editor message={message} />;
  return (
    <div class="text">
      <RichText text={message.text} />
      {message.edited && <span class="edited">edited</span>}
    </div>
  );
}

function Deleted({ id, isFinal }: { readonly id: string; readonly isFinal: boolean }): JSX.Element {
  if (isFinal) return <p class="text faint">This message was deleted.</p>;
  return (
    <p class="text faint" role="status">
      Deleted.{' '}
      <Button kind="link" onClick={() => keepMessage(id)}>
        Undo
      </Button>
    </p>
  );
}

function Editor({ message }: { readonly message: ChatMessage }): JSX.Element {
  const form = useRef<HTMLFormElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    const { current } = field;
    current?.focus();
    current?.setSelectionRange(current.value.length, current.value.length);
  }, []);
  const close = (): void => {
    const shown = form.current?.closest('[data-id]');
    editing.value = null;
    requestAnimationFrame(() => shown?.querySelector<HTMLElement>('[data-action="edit"]')?.focus());
  };
  const save = (event: Event): void => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? '';
    if (text !== '' && text !== message.text) sendEdit(message.id, text);
    close();
  };
  const press = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    event.stopPropagation();
    if (event.key === 'Escape') close();
    else if (event.key === 'Enter' && !event.shiftKey) save(event);
  };
  return (
    <form ref={form} class="editor" onSubmit={save} onKeyDown={press}>
      <textarea ref={field} aria-label="Your message" defaultValue={message.text} rows={3} />
      <button type="submit">Save</button>
      <Button kind="quiet" onClick={close}>
        Cancel
      </Button>
    </form>
  );
}

/** What a receipt says now: of a message that is held, what it waits for. */
function receiptWords(receipt: Receipt, id: string): string {
  if (receipt !== 'held') return RECEIPT_WORDS[receipt];
  const floor = view.value;
  if (floor === null || !floor.held.includes(id)) return 'received';
  return `held: ${whyHeld(floor, nameOf) ?? 'until an agent is prompted'}`;
}

function Receipts({ of: { id, receipts } }: { readonly of: ChatMessage }): JSX.Element | null {
  if (receipts.length === 0) return null;
  return (
    <ul class="receipts" aria-label="What became of this message">
      {receipts.map((receipt) => (
        <li key={receipt} class="receipt" data-receipt={receipt} title={receiptWords(receipt, id)}>
          <span aria-hidden="true">{RECEIPTS[receipt]}</span>
          <span class="receipt-words">{receiptWords(receipt, id)}</span>
        </li>
      ))}
    </ul>
  );
}

function MessageActions(props: { readonly message: ChatMessage; readonly isOwn: boolean }): JSX.Element {
  const { message } = props;
  const { id, speaker, text, kind } = message;
  const own = props.isOwn && writable.value;
  return (
    <div class="message-actions">
      {writable.value && (
        <Action icon="reply" label="Reply" act={() => keepUnfinished({ replyTo: { id, name: speaker.name, text } })} />
      )}
      {kind === 'person' && (
        <Action icon="help" label="What became of it?" act={() => sendCommand(`/why ${id}`, { typed: true })} />
      )}
      {own && <Action icon="edit" label="Edit" act={() => (editing.value = id)} />}
      {own && <Action icon="trash" label="Delete" act={() => deleteSoon(id)} />}
    </div>
  );
}

function Action(props: {
  readonly icon: 'reply' | 'help' | 'edit' | 'trash';
  readonly label: string;
  readonly act: () => void;
}): JSX.Element {
  const { icon, label, act } = props;
  return <SignButton kind="small" icon={icon} label={label} title={label} data-action={icon} onClick={act} />;
}

/** How long a deletion can be taken back. */
const UNDO_MS = 5_000;
/** How long the server has to answer before the message is drawn as it is there. */
const ANSWER_MS = 3_000;

/** Messages that are being deleted: `waiting` can still be undone, `sent` cannot. */
export const deleting = signal<ReadonlyMap<string, 'waiting' | 'sent'>>(new Map());

const waiting = new Map<string, { readonly timer: ReturnType<typeof setTimeout>; readonly send: () => void }>();

/** Deletes a message of one's own in a moment; until then `keepMessage` undoes it. Whoever leaves the page meant it. */
export function deleteSoon(id: string): void {
  const where = channel.peek();
  if (where === null) return;
  const send = (): void => {
    forget(id);
    if (connection.peek() !== 'open') {
      toast('refused', 'Conch is unreachable. Nothing was deleted.');
      return mark(id, null);
    }
    mark(id, 'sent');
    ask({ type: 'delete', channel: where, key: crypto.randomUUID(), id });
    setTimeout(() => mark(id, null), ANSWER_MS);
  };
  waiting.set(id, { timer: setTimeout(send, UNDO_MS), send });
  mark(id, 'waiting');
}

/** Takes a deletion back. */
export function keepMessage(id: string): void {
  forget(id);
  mark(id, null);
}

function forget(id: string): void {
  clearTimeout(waiting.get(id)?.timer);
  waiting.delete(id);
}

addEventListener('pagehide', () => {
  for (const { send } of waiting.values()) send();
});

function mark(id: string, state: 'waiting' | 'sent' | null): void {
  const next = new Map(deleting.peek());
  if (state === null) next.delete(id);
  else next.set(id, state);
  deleting.value = next;
}
