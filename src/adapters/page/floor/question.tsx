import { useEffect, useRef, useState } from 'preact/hooks';
import type { ComponentChildren, JSX, RefObject } from 'preact';
import { forQuestion } from '../../../turns/drawn-for.ts';
import type { TrustQuestion } from '../../../turns/floor/floor.ts';
import { askedId, askedOn } from '../../../turns/floor/seats.ts';
import type { FloorQuestion } from '../../../turns/floor/seats.ts';
import {
  answerText,
  answersAsked,
  factsAsked,
  formNote,
  isDiff,
  reasonLabel,
  trustAnswers,
} from '../../../turns/text/words.ts';
import type { AnsweredQuestion } from '../../console/protocol.ts';
import { answersTo, trustButtons } from '../../delivery/card.ts';
import type { CardButton } from '../../delivery/card.ts';
import { CodeBlock } from '../conversation/code-block.tsx';
import { useFocusWhenWanted } from '../frame/attention.tsx';
import { Button, Time } from '../parts.tsx';
import { sendCommand } from '../sending.ts';
import { channel, nameOf, view } from '../state.ts';
import { AnswerForm } from './answer-form.tsx';

/** Keys pressed within this time after a question is drawn were meant for what stood there before. Unit: milliseconds. */
const SETTLED_MS = 500;

/** An open question whole, with its answers; nothing when it is answered. */
export function QuestionInPlace({ id }: { readonly id: string }): JSX.Element | null {
  const floor = view.value;
  const asked = floor === null ? undefined : askedOn(floor).find(({ question }) => askedId(question) === id);
  if (asked !== undefined) return <Request asked={asked} />;
  const trust = floor?.trust?.find((question) => askedId({ agent: question.agent, id: question.id }) === id);
  return trust === undefined ? null : <Trust {...trust} />;
}

/** What became of a request, and through whom. */
export function Answered({ answered }: { readonly answered: AnsweredQuestion }): JSX.Element {
  return (
    <li class="message is-system" data-testid="answered" data-choice={answered.choice}>
      <div class="system-text">{answerText(answered, nameOf)}</div>
      <Time at={answered.at} />
    </li>
  );
}

type RequestProps = { readonly asked: FloorQuestion };

function Request({ asked }: RequestProps): JSX.Element {
  const { agent, question } = asked;
  const { question: number, key = '-', title, detail, shown, about } = question;
  const isDanger = about?.danger === true;
  const why = useRef<HTMLInputElement>(null);
  const settled = useSettled();
  const name = nameOf(agent);
  const answer = (line: string): void => {
    const words = line === `/reject ${number}` ? (why.current?.value.trim() ?? '') : '';
    sendCommand(words === '' ? line : `${line} ${words}`, { drawnFor: forQuestion(key) });
  };
  const press = (event: KeyboardEvent): void => {
    const isReason = event.target === why.current;
    const isPlain = !isReason && settled && !event.altKey && !event.ctrlKey && !event.metaKey && !isInField(event);
    // What is dangerous is allowed by the button alone.
    const mayAllow = shown && !isDanger && about?.answer === undefined;
    if (isReason && event.key === 'Enter') answer(`/reject ${number}`);
    if (!isPlain || !(event.key === 'r' || (event.key === 'a' && mayAllow))) return;
    answer(`/${event.key === 'r' ? 'reject' : 'allow'} ${number}`);
    event.preventDefault();
    event.stopPropagation();
  };
  const form = answersTo(asked).find(({ opens }) => opens?.what === 'form');
  const whole = detail !== '' && <CodeBlock code={detail} language={isDiff(detail) ? 'diff' : ''} closed={true} />;
  const until = untilOf(asked);
  return (
    <QuestionBox
      id={askedId(question)}
      class={isDanger ? 'approval is-danger' : 'approval'}
      data-testid="approval"
      data-settled={settled}
      aria-label={`Question ${number}`}
      tabIndex={-1}
      onKeyDown={press}
    >
      <Title asked={asked} />
      <Lines of={factsAsked(question, name)} />
      {form !== undefined && <FormAnswers asked={asked} form={form} answer={answer} />}
      {form !== undefined && whole !== false ? (
        <details open={title.endsWith('…')}>
          <summary>The question in words</summary>
          {whole}
        </details>
      ) : (
        whole
      )}
      <Lines of={answersAsked({ ...question, always: [], ...(until === null ? {} : { until }) }, name)} />
      {form === undefined && <Answers asked={asked} why={why} answer={answer} />}
    </QuestionBox>
  );
}

function Title({ asked: { agent, isAside, question } }: RequestProps): JSX.Element {
  const asks = question.about?.answer === undefined ? 'asks for approval' : 'asks';
  return (
    <p class="asked-title">
      ✋ {nameOf(agent)}
      {isAside && '’s background run'} {question.pause === undefined ? asks : 'waits'} ({question.question}):{' '}
      <strong>{question.title}</strong>
    </p>
  );
}

/** Whether a key was pressed in a field of the form. */
function isInField({ target }: Event): boolean {
  return target instanceof Element && target.closest('.answer-field') !== null;
}

function untilOf({ agent, isAside }: FloorQuestion): number | null {
  const { holder, asides = [] } = view.value ?? {};
  if (!isAside) return holder?.deadlineAt ?? null;
  return asides.find((aside) => aside.agent === agent)?.until ?? null;
}

type BoxProps = Omit<JSX.IntrinsicElements['section'], 'id'> & { readonly id: string };

/** A question; the focus goes there for whoever comes for it. */
function QuestionBox({ id, ...rest }: BoxProps): JSX.Element {
  const box = useRef<HTMLElement>(null);
  useFocusWhenWanted(id, box);
  return <section ref={box} class="approval" data-asked={id} {...rest} />;
}

/** The answers of a question in a row, and what stands below them. */
function AnswerGroup(props: { readonly children: ComponentChildren; readonly below?: ComponentChildren }): JSX.Element {
  return (
    <div role="group" aria-label="Your answer">
      <div class="actions answers">{props.children}</div>
      {props.below}
    </div>
  );
}

function Lines(props: { readonly of: readonly string[] }): JSX.Element | null {
  if (props.of.length === 0) return null;
  return (
    <ul class="facts">
      {props.of.map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  );
}

type AnswersProps = RequestProps & { readonly answer: (line: string) => void };

/** The buttons that every platform has for it; what they open elsewhere stands here already. */
function Answers({
  asked,
  answer,
  why,
}: AnswersProps & { readonly why: RefObject<HTMLInputElement | null> }): JSX.Element {
  const { shown, always } = asked.question;
  const rules = answersTo(asked).flatMap(({ opens }) => (opens?.what === 'rules' ? opens.of : []));
  const below = rules.length > 0 && (
    <div class="actions answers">
      {rules.map(({ words, line }, index) => (
        <Button
          key={line}
          data-testid="always"
          title={`${always?.[index]?.rule ?? words}, for ${nameOf(asked.agent)} in this channel, for 30 days`}
          disabled={!shown}
          onClick={onSingle(() => answer(line))}
        >
          Always allow: {words}
        </Button>
      ))}
    </div>
  );
  return (
    <AnswerGroup below={below}>
      <PlainAnswers asked={asked} answer={answer} />
      <input
        ref={why}
        type="text"
        data-testid="why"
        maxLength={500}
        placeholder="No because…"
        aria-label="No because"
        title={reasonLabel(asked.question)}
      />
    </AnswerGroup>
  );
}

/** The form that a question is answered by, and its no. */
function FormAnswers({ asked, form, answer }: AnswersProps & { readonly form: CardButton }): JSX.Element {
  const { question, shown, about = {} } = asked.question;
  const send = (words: string, refused: (answer: { readonly text: string }) => void): void =>
    sendCommand(`${form.line} ${words}`, { refused, drawnFor: form.drawnFor });
  const fields = form.opens?.what === 'form' ? form.opens.of : [];
  return (
    <AnswerForm id={`${channel.value} ${question}`} fields={fields} answer={send}>
      <p class="faint">{formNote(about)}.</p>
      <AnswerGroup>
        <button type="submit" data-testid="send-answer" disabled={!shown}>
          Answer
        </button>
        <PlainAnswers asked={asked} answer={answer} />
      </AnswerGroup>
    </AnswerForm>
  );
}

/** The answers of one press. A question that does not stand whole in its channel cannot be allowed. */
function PlainAnswers({ asked, answer }: AnswersProps): JSX.Element {
  return (
    <>
      {answersTo(asked)
        .filter(({ opens }) => opens === undefined)
        .map(({ label, line, style }) => {
          const { id, key } = MEANT.find(({ begins }) => line.startsWith(begins)) ?? {};
          const hasKey = key !== undefined && !(id === 'allow' && style === 'danger');
          return (
            <Button
              key={line}
              data-testid={id}
              data-no={id === 'reject' || undefined}
              disabled={(id === 'allow' || id === 'done') && !asked.question.shown}
              onClick={onSingle(() => answer(line))}
            >
              {label} {hasKey && <kbd class="wide-only">{key}</kbd>}
            </Button>
          );
        })}
    </>
  );
}

/** What the lines of answers say, and the keys for it. */
const MEANT: readonly { readonly begins: string; readonly id: string; readonly key?: string }[] = [
  { begins: '/allow', id: 'allow', key: 'a' },
  { begins: '/answer', id: 'done' },
  { begins: '/reject', id: 'reject', key: 'r' },
  { begins: '/run complete', id: 'complete' },
];

/** Acts on a single click. The second half of a double click may come when the next question stands under the pointer. */
function onSingle(act: () => void): (event: MouseEvent) => void {
  return (event) => {
    if (event.detail < 2) act();
  };
}

/** Whether this has been drawn for long enough to have been meant. */
function useSettled(): boolean {
  const [settled, setSettled] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(true), SETTLED_MS);
    return () => clearTimeout(timer);
  }, []);
  return settled;
}

/** An agent that does not start before somebody trusts the files in its folder, with these files and the two answers. */
function Trust(question: TrustQuestion): JSX.Element {
  const { agent, id, folder, detail, shown } = question;
  const name = nameOf(agent);
  return (
    <QuestionBox id={askedId({ agent, id })} data-testid="trust" aria-label={`The folder of ${name} (${id})`}>
      <p class="asked-title">
        🔐 <strong>{name}</strong> is not started: files in its folder {folder} would run without approval ({id})
      </p>
      <CodeBlock code={detail} language="" closed={true} />
      <p>{trustAnswers(question)}</p>
      <AnswerGroup>
        {trustButtons(question, name, view.value?.store ?? '').map(({ label, line, style, drawnFor }) => (
          <Button
            key={line}
            data-testid={style === 'good' ? 'trust-folder' : 'leave-folder'}
            data-no={style !== 'good' || undefined}
            title={line}
            disabled={!shown}
            onClick={onSingle(() => sendCommand(line, { drawnFor }))}
          >
            {label}
          </Button>
        ))}
      </AnswerGroup>
    </QuestionBox>
  );
}
