import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { Fragment } from 'preact';
import type { JSX, RefObject } from 'preact';
import type { ChatMessage } from '../../console/protocol.ts';

import { Answered, QuestionInPlace } from '../floor/question.tsx';
import { focusComposer } from '../composer/composer.tsx';
import { Shell } from '../icons.tsx';
import { Button, CommandAnswer, Toasts } from '../parts.tsx';
import {
  answered,
  channel,
  connection,
  drafts,
  following,
  hasEarlier,
  hasLater,
  messages,
  openQuestions,
  returning,
  SHOWN,
  unread,
  view,
  writable,
} from '../state.ts';
import { Afterwards, Message } from './message.tsx';
import { dayText, isSameDay } from '../now.ts';
import { answers, askFor, keepUnfinished, showBeginning, showEnd, unsent } from '../sending.ts';

const NEAR_PX = 40;
const SAME_SPEAKER_MS = 5 * 60_000;

/** The conversation. It follows new messages while the reader is at the end. */
export function Conversation(): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const keep = useScroll(box);
  const undrawnQuestions = openHere().filter(({ id }) => messages.value.every(({ asks }) => asks !== id));
  return (
    <div class="conversation-frame">
      <h2 class="unseen">Conversation</h2>
      <div
        class="conversation"
        data-testid="conversation"
        ref={box}
        onScroll={keep}
        tabIndex={0}
        aria-label="Conversation"
      >
        <div>
          <Beginning />
          <ol class="messages">
            {answersBetween(0, messages.value[0]?.seq)}
            {messages.value.map(drawMessage)}
            {!hasLater.value && undrawnQuestions.map(({ id }) => <OpenQuestionRow key={id} id={id} />)}
          </ol>
          {!hasLater.value && <Afterwards />}
        </div>
      </div>
      <Toasts />
      <Pill />
    </div>
  );
}

function openHere(): readonly { readonly id: string }[] {
  return openQuestions.value.filter((open) => open.channel.id === channel.value);
}

function OpenQuestionRow({ id }: { readonly id: string }): JSX.Element {
  return (
    <li class="asked">
      <QuestionInPlace id={id} />
    </li>
  );
}

function drawMessage(message: ChatMessage, place: number, all: readonly ChatMessage[]): JSX.Element {
  const { id, seq, sentAt, asks } = message;
  const before = all[place - 1];
  const next = all[place + 1];
  const beginsDay = before === undefined || !isSameDay(before.sentAt, sentAt);
  // Of several messages with one question, only the first is drawn: the open question, later its outcome.
  const isFurther = asks !== null && all.findIndex((each) => each.asks === asks) < place;
  const isOpen = openHere().some((open) => open.id === asks);
  return (
    <Fragment key={id}>
      {beginsDay && (
        <li class="day" data-testid="day">
          <span>{dayText(sentAt)}</span>
        </li>
      )}
      {isOpen && !isFurther && <OpenQuestionRow id={asks ?? ''} />}
      {!isOpen && !isFurther && <Message message={message} goesOn={!beginsDay && goesOn(before, message)} />}
      {answersBetween(seq, next?.seq)}
      {
        // A channel of another platform has no messages of Conch here, so decided requests are inserted by time.
        (channel.value?.startsWith('console:') === true ? [] : answered.value)
          .filter(({ at }) => at >= sentAt && at < (next?.sentAt ?? Infinity))
          .map((question) => (
            <Answered key={question.question} answered={question} />
          ))
      }
    </Fragment>
  );
}

function answersBetween(from: number, to = Infinity): readonly JSX.Element[] {
  return answers.value
    .filter(({ channel: where, after }) => where === channel.value && after >= from && after < to)
    .map((answer) => <CommandAnswer key={answer.key} answer={answer} />);
}

function goesOn(before: ChatMessage | undefined, message: ChatMessage): boolean {
  return (
    before !== undefined &&
    before.kind === message.kind &&
    before.speaker.id === message.speaker.id &&
    message.replyTo === null &&
    message.sentAt - before.sentAt < SAME_SPEAKER_MS
  );
}

/** Scroll position and sizes, and a visible message near the top with its distance from the top, in pixels. */
type Place = {
  readonly top: number;
  readonly height: number;
  readonly viewHeight: number;
  readonly anchor: { readonly id: string; readonly at: number } | null;
};

function useScroll(box: RefObject<HTMLDivElement | null>): () => void {
  const place = useRef<Place>({ top: 0, height: 0, viewHeight: 0, anchor: null });
  const settle = (): void => {
    const element = box.current;
    if (element === null) return;
    if (following.peek()) element.scrollTop = element.scrollHeight;
    else hold(element, place.current.anchor);
    place.current = placeOf(element);
  };
  useLayoutEffect(settle, [messages.value, drafts.value, unsent.value, answers.value, view.value]);
  useEffect(() => {
    const watcher = new ResizeObserver(settle);
    for (const element of [box.current, box.current?.firstElementChild]) if (element != null) watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  return () => {
    if (box.current === null) return;
    scrolled(box.current, place.current);
    place.current = placeOf(box.current);
  };
}

function placeOf(element: HTMLElement): Place {
  const { scrollTop: top, scrollHeight: height, clientHeight: viewHeight } = element;
  return { top, height, viewHeight, anchor: following.peek() ? null : anchorIn(element) };
}

function anchorIn(element: HTMLElement): Place['anchor'] {
  const { left, top, width } = element.getBoundingClientRect();
  for (const down of [8, 64, 160]) {
    const message = document.elementFromPoint(left + width / 2, top + down)?.closest<HTMLElement>('[data-id]');
    const id = message?.dataset['id'];
    if (message != null && id !== undefined) return { id, at: message.getBoundingClientRect().top - top };
  }
  return null;
}

function hold(element: HTMLElement, anchor: Place['anchor']): void {
  if (anchor === null) return;
  const message = element.querySelector(`[data-id="${CSS.escape(anchor.id)}"]`);
  if (message === null) return;
  element.scrollTop += message.getBoundingClientRect().top - element.getBoundingClientRect().top - anchor.at;
}

/** Scrolling up by hand stops following; a change of sizes does not. */
function scrolled(element: HTMLElement, before: Place): void {
  const { scrollTop: top, scrollHeight: height, clientHeight: viewHeight } = element;
  const atEnd = height - top - viewHeight < NEAR_PX;
  const byHand = height === before.height && viewHeight === before.viewHeight && top < before.top - 1;
  if (returning.peek()) return;
  if (atEnd && hasLater.peek()) {
    if (unread.peek() > SHOWN) return showEnd();
    askFor({ after: messages.peek().at(-1)?.seq });
  }
  if (atEnd) following.value = !hasLater.peek();
  else if (byHand) following.value = false;
  if (following.peek()) unread.value = 0;
}

function Earlier(): JSX.Element {
  const showEarlier = (): void => {
    following.value = false;
    askFor({ before: messages.peek()[0]?.seq });
  };
  return (
    <p class="earlier">
      <Button kind="quiet" onClick={showEarlier}>
        Show earlier messages
      </Button>
      <Button kind="quiet" onClick={showBeginning}>
        Go to the beginning
      </Button>
    </p>
  );
}

function Beginning(): JSX.Element | null {
  if (connection.value === 'connecting') return null;
  if (hasEarlier.value) return <Earlier />;
  if (messages.value.length > 0 || unsent.value.length > 0) return null;
  return (
    <div class="empty">
      <Shell />
      <p class="empty-title">Nobody has spoken yet</p>
      {writable.value && (
        <>
          <p>Write a message: the agents answer one at a time.</p>
          <p class="buttons openings">
            {OPENINGS.map((text) => (
              <Button key={text} kind="small-button" onClick={() => begin(text)}>
                {text}
              </Button>
            ))}
          </p>
        </>
      )}
    </div>
  );
}

function begin(text: string): void {
  keepUnfinished({ text });
  focusComposer();
}

const OPENINGS = ['Plan a status page for our customers', 'Why do our tests take 20 minutes?'];

function Pill(): JSX.Element | null {
  if (following.value) return null;
  const count = unread.value;
  return (
    <Button icon="down" kind="pill" onClick={showEnd}>
      {count === 0 ? 'Newest' : `${count > 999 ? '999+' : count} new`}
    </Button>
  );
}
