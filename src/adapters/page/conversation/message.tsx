import { signal } from '@preact/signals';
import { memo } from 'preact/compat';
import { useEffect, useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import { RECEIPTS } from '../../../turns/floor/react.ts';
import type { Receipt } from '../../../turns/floor/react.ts';
import { whyHeld } from '../../../turns/commands/read.ts';
import type { ChatMessage } from '../../console/protocol.ts';

import type { IconName } from '../icons.tsx';
import { inLocalTime } from '../now.ts';
import { Avatar, Button, SignButton, Time, toneOf } from '../parts.tsx';
import { ask, discard, keepUnfinished, sendCommand, sendEdit, sendWords, toast, unsent } from '../sending.ts';
import type { Unsent } from '../sending.ts';
import {
  agentOf,
  channel,
  connection,
  crewAsks,
  drafts,
  holder,
  messages,
  nameOf,
  person,
  view,
  writable,
} from '../state.ts';
import { RichText } from './rich-text.tsx';

const RECEIPT_WORDS: Readonly<Record<Exclude<Receipt, 'held'>, string>> = {
  injected: 'delivered to the holder mid-turn',
  preempted: 'interrupted the turn and is answered first',
  observed: 'every agent sees it with its next prompt at the latest',
  done: 'answered',
  cut: 'the answer was cut short',
  unrouted: 'reached no agent',
};

const editing = signal<string | null>(null);

type Shown = {
  readonly message: ChatMessage;
  /** True when the message soon follows one of the same speaker on the same day, and is not a reply. */
  readonly goesOn: boolean;
};

/** One message, memoized. */
export const Message = memo(function Message({ message, goesOn }: Shown): JSX.Element {
  const { id, kind, speaker, text, sentAt, deleted } = message;
  const common = { 'data-testid': 'message', 'data-id': id, 'data-kind': kind };
  if (kind === 'system') {
    return (
      <li class="message is-system" {...common}>
        <div class="system-text">
          <RichText text={inLocalTime(text, sentAt)} />
        </div>
        <Time at={sentAt} />
      </li>
    );
  }
  const tone = kind === 'person' ? 'tone-person' : toneOf(speaker.id);
  const isOwn = kind === 'person' && speaker.id === person.value.id;
  const isSettled = !deleted && !deletions.value.has(id) && editing.value !== id;
  return (
    <li
      class={`message is-${isOwn ? 'own' : kind} ${tone}${goesOn ? ' goes-on' : ''}${deleted ? ' is-deleted' : ''}`}
      data-speaker={speaker.id}
      data-epoch={message.epoch ?? undefined}
      {...common}
    >
      {!goesOn && !isOwn && <Avatar {...speaker} kind={kind} />}
      <div class="message-body">
        <div class={goesOn ? 'message-head unseen' : 'message-head'}>
          <span class={isOwn ? 'speaker unseen' : 'speaker'}>{speaker.name}</span>
          <Time at={sentAt} />
        </div>
        <Quote of={message.replyTo} />
        <Text {...message} />
        <Receipts of={message} />
      </div>
      {isSettled && <MessageActions message={message} isOwn={isOwn} />}
    </li>
  );
});

function Quote(props: { readonly of: string | null }): JSX.Element | null {
  if (props.of === null) return null;
  const quoted = messages.peek().find((message) => message.id === props.of);
  const words = quoted === undefined ? 'an earlier message' : `${quoted.speaker.name}: ${quoted.text.slice(0, 120)}`;
  return <p class="quote faint cut">{words}</p>;
}

function Text({ id, text, edited, deleted }: ChatMessage): JSX.Element {
  const deletion = deletions.value.get(id);
  if (deleted || deletion?.isSent === true) return <p class="text faint">This message was deleted.</p>;
  if (deletion !== undefined) {
    return (
      <p class="text faint" role="status">
        Deleted.{' '}
        <Button kind="link" onClick={() => endDeletion(id)}>
          Undo
        </Button>
      </p>
    );
  }
  if (editing.value === id) return <Editor id={id} text={text} />;
  return (
    <div class="text">
      <RichText text={text} />
      {edited && <span class="edited">edited</span>}
    </div>
  );
}

function Editor({ id, text }: Pick<ChatMessage, 'id' | 'text'>): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(text.length, text.length);
  }, []);
  const close = (): void => {
    const message = field.current?.closest('[data-id]');
    editing.value = null;
    requestAnimationFrame(() => message?.querySelector<HTMLElement>('[data-action="edit"]')?.focus());
  };
  const save = (event: Event): void => {
    event.preventDefault();
    const wanted = field.current?.value.trim() ?? '';
    // Without a connection nothing is sent: the editor stays open and keeps the text.
    if (wanted === '' || wanted === text || sendEdit(id, wanted)) close();
  };
  const press = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    event.stopPropagation();
    if (event.key === 'Escape') close();
    else if (event.key === 'Enter' && !event.shiftKey) save(event);
  };
  return (
    <form class="editor" onSubmit={save} onKeyDown={press}>
      <textarea ref={field} aria-label="Your message" defaultValue={text} rows={3} />
      <button type="submit">Save</button>
      <Button kind="quiet" onClick={close}>
        Cancel
      </Button>
    </form>
  );
}

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
      {receipts.map((receipt) => {
        const words = receiptWords(receipt, id);
        return (
          <li key={receipt} class="receipt" data-receipt={receipt} title={words}>
            <span aria-hidden="true">{RECEIPTS[receipt]}</span>
            <span class="receipt-words">{words}</span>
          </li>
        );
      })}
    </ul>
  );
}

function MessageActions({ message, isOwn }: { readonly message: ChatMessage; readonly isOwn: boolean }): JSX.Element {
  const { id, speaker, text, kind } = message;
  const isChangeable = isOwn && writable.value;
  const actions: readonly (readonly [icon: IconName, label: string, isOffered: boolean, act: () => void])[] = [
    ['reply', 'Reply', writable.value, () => keepUnfinished({ replyTo: { id, name: speaker.name, text } })],
    ['help', 'What became of it?', kind === 'person', () => sendCommand(`/why ${id}`, { typed: true })],
    [
      'ticket',
      'Make a ticket of it',
      kind === 'person' && crewAsks.value !== undefined,
      () => sendCommand(`/crew admit ${id}`, { typed: true }),
    ],
    ['edit', 'Edit', isChangeable, () => (editing.value = id)],
    ['trash', 'Delete', isChangeable, () => deleteSoon(id)],
  ];
  return (
    <div class="message-actions">
      {actions.map(
        ([icon, label, isOffered, act]) =>
          isOffered && (
            <SignButton key={icon} kind="small" icon={icon} label={label} data-action={icon} onClick={act} />
          ),
      )}
    </div>
  );
}

/** How long a person can undo the deletion of a message, in milliseconds. */
const UNDO_MS = 5_000;
/** Without an answer of the server in this time, in milliseconds, the deleted message is shown again. */
const ANSWER_MS = 3_000;

type Deletion = {
  readonly isSent: boolean;
  readonly timer: ReturnType<typeof setTimeout>;
  readonly send: () => void;
};

const deletions = signal<ReadonlyMap<string, Deletion>>(new Map());

/**
 * Deletes a message of the page's person once the time to undo is over, or earlier when the page is left. Without a
 * connection, deletes nothing.
 */
function deleteSoon(id: string): void {
  const where = channel.peek();
  if (where === null) return;
  const send = (): void => {
    endDeletion(id);
    if (connection.peek() !== 'open') return toast('refused', 'Conch is unreachable. Nothing was deleted.');
    ask({ type: 'delete', channel: where, key: crypto.randomUUID(), id });
    begin({ isSent: true, timer: setTimeout(() => endDeletion(id), ANSWER_MS), send });
  };
  const begin = (deletion: Deletion): void => {
    deletions.value = new Map(deletions.peek()).set(id, deletion);
  };
  begin({ isSent: false, timer: setTimeout(send, UNDO_MS), send });
}

function endDeletion(id: string): void {
  clearTimeout(deletions.peek().get(id)?.timer);
  deletions.value = new Map([...deletions.peek()].filter(([key]) => key !== id));
}

addEventListener('pagehide', () => {
  for (const { isSent, send } of deletions.peek().values()) if (!isSent) send();
});

/** Drawn below the last message: unconfirmed messages of this page, and what agents are writing. */
export function Afterwards(): JSX.Element {
  const onTheirWay = unsent.value.filter(
    ({ key, channel: where }) => where === channel.value && messages.value.every((message) => message.key !== key),
  );
  const newest = view.value?.epoch ?? 0;
  const begun = drafts.value.filter(({ text, epoch }) => text !== '' && epoch >= newest - 1);
  const silent = holder.value?.status === 'ACTIVE' ? [{ agent: holder.value.agent, text: '' }] : [];
  return (
    <>
      {onTheirWay.map((message) => (
        <OnItsWay key={message.key} message={message} />
      ))}
      {(begun.length > 0 ? begun : silent).map(({ agent, text }) => (
        <Writing key={agent} agent={agent} text={text} />
      ))}
    </>
  );
}

function OnItsWay({ message }: { readonly message: Unsent }): JSX.Element {
  const { key, text, replyTo, refusal } = message;
  const again = (): void => {
    discard(key);
    sendWords(text, replyTo);
  };
  return (
    <div class="message is-own tone-person on-its-way" data-testid="unsent">
      <div class="message-body">
        <div class="text">
          <RichText text={text} />
        </div>
        {refusal === null ? (
          <p class="faint">{connection.value === 'open' ? 'Sending…' : 'Will be sent when Conch is back'}</p>
        ) : (
          <p class="refusal">
            {refusal}{' '}
            <Button kind="link" onClick={again}>
              Try again
            </Button>{' '}
            <Button kind="link" onClick={() => discard(key)}>
              Discard
            </Button>
          </p>
        )}
      </div>
    </div>
  );
}

function Writing({ agent: id, text }: { readonly agent: string; readonly text: string }): JSX.Element {
  const agent = agentOf(id);
  const dots = (
    <span class="dots" aria-hidden="true">
      <i />
      <i />
      <i />
    </span>
  );
  return (
    <div class={`message is-agent is-draft ${toneOf(id)}`} data-testid="draft" data-speaker={id}>
      <Avatar {...agent} />
      <div class="message-body">
        <div class="message-head">
          <span class="speaker">{agent.name}</span>
          <span class="faint">{text === '' ? 'is thinking' : 'is speaking'}</span>
        </div>
        <div class="text">{text === '' ? dots : <RichText text={text} />}</div>
      </div>
    </div>
  );
}
