import { useEffect, useRef, useState } from 'preact/hooks';
import type { JSX, RefObject } from 'preact';
import { useFocusWhenWanted } from '../frame/attention.tsx';
import { CodeBlock } from '../conversation/code-block.tsx';
import { sendCommand } from '../sending.ts';
import type { AnsweredQuestion } from '../../console/protocol.ts';
import { exactTime, timeOfDay } from '../now.ts';
import { answersTo, trustButtons } from '../../delivery/card.ts';
import type { CardButton } from '../../delivery/card.ts';
import { forQuestion } from '../../../turns/drawn-for.ts';
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
import type { AskedField, Question } from '../../../turns/floor/settings.ts';
import { agentOf, channel, view } from '../state.ts';
import { AnswerForm } from './answer-form.tsx';
import type { TrustQuestion } from '../../../turns/floor/floor.ts';

/** A key that was meant for what stood here before answers nothing. */
const SETTLED_MS = 500;

/** An open question whole, with its answers; nothing when it is answered. */
export function QuestionInPlace({ id }: { readonly id: string }): JSX.Element | null {
  const floor = view.value;
  const asked = floor === null ? undefined : askedOn(floor).find(({ question }) => askedId(question) === id);
  if (asked !== undefined) return <Request asked={asked} until={untilOf(asked)} />;
  const trust = floor?.trust?.find((question) => askedId({ agent: question.agent, id: question.id }) === id);
  return trust === undefined ? null : <Trust question={trust} />;
}

function untilOf({ agent, isAside }: FloorQuestion): number | null {
  const { holder, asides = [] } = view.value ?? {};
  if (!isAside) return holder?.deadlineAt ?? null;
  return asides.find((aside) => aside.agent === agent)?.until ?? null;
}

/** What became of a request, and through whom. */
export function Answered({ answered }: { readonly answered: AnsweredQuestion }): JSX.Element {
  const { at, choice } = answered;
  return (
    <li class="message is-system" data-testid="answered" data-choice={choice}>
      <div class="system-text">{answerText(answered, (agent) => agentOf(agent).name)}</div>
      <time dateTime={new Date(at).toISOString()} title={exactTime(at)}>
        {timeOfDay(at)}
      </time>
    </li>
  );
}

function Request({ asked, until }: { readonly asked: FloorQuestion; readonly until: number | null }): JSX.Element {
  const { agent, isAside } = asked;
  const { question, key = '-', title, shown, pause } = asked.question;
  const { danger: isDanger = false, answer: example } = asked.question.about ?? {};
  const why = useRef<HTMLInputElement>(null);
  const box = useRef<HTMLElement>(null);
  const settled = useSettled();
  const { name } = agentOf(agent);
  useFocusWhenWanted(askedId(asked.question), box);
  const answer = (line: string): void => {
    const words = line === `/reject ${question}` ? (why.current?.value.trim() ?? '') : '';
    sendCommand(words === '' ? line : `${line} ${words}`, { drawnFor: forQuestion(key) });
  };
  const press = (event: KeyboardEvent): void => {
    if (event.target === why.current) {
      if (event.key === 'Enter') answer(`/reject ${question}`);
      return;
    }
    if (event.target instanceof Element && event.target.closest('.answer-field') !== null) return;
    if (event.altKey || event.ctrlKey || event.metaKey || !settled) return;
    // What is dangerous is allowed by the button alone.
    if (event.key === 'a' && shown && !isDanger && example === undefined) answer(`/allow ${question}`);
    else if (event.key === 'r') answer(`/reject ${question}`);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <section
      ref={box}
      class={isDanger ? 'approval is-danger' : 'approval'}
      data-asked={askedId(asked.question)}
      data-testid="approval"
      data-settled={settled}
      aria-label={`Question ${question}`}
      tabIndex={-1}
      onKeyDown={press}
    >
      <p class="asked-title">
        ✋ {name}
        {isAside && '’s background run'}{' '}
        {pause === undefined ? (example === undefined ? 'asks for approval' : 'asks') : 'waits'} ({question}):{' '}
        <strong>{title}</strong>
      </p>
      <Whole asked={asked.question} name={name} until={until}>
        <Answers asked={asked} why={why} answer={answer} />
      </Whole>
    </section>
  );
}

type WholeProps = {
  readonly asked: Question;
  readonly name: string;
  readonly until: number | null;
  /** The answers, below all; a form says itself what is asked, and stands before the same in words. */
  readonly children: JSX.Element;
};

/** All that is asked, between what it is part of and what each answer does. */
function Whole({ asked, name, until, children }: WholeProps): JSX.Element {
  const { detail } = asked;
  const isForm = asked.about?.form !== undefined;
  const whole = <CodeBlock code={detail} language={isDiff(detail) ? 'diff' : ''} closed={true} />;
  const answers = { ...asked, always: [], ...(until === null ? {} : { until }) };
  return (
    <>
      <Lines of={factsAsked(asked, name)} />
      {isForm && children}
      {detail !== '' && isForm && (
        <details open={asked.title.endsWith('…')}>
          <summary>The question in words</summary>
          {whole}
        </details>
      )}
      {detail !== '' && !isForm && whole}
      <Lines of={answersAsked(answers, name)} />
      {!isForm && children}
    </>
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

type AnswersProps = {
  readonly asked: FloorQuestion;
  readonly why: RefObject<HTMLInputElement | null>;
  readonly answer: (line: string) => void;
};

/** The buttons that every platform has for it; what they open elsewhere stands here already. */
function Answers({ asked, why, answer }: AnswersProps): JSX.Element {
  const { shown } = asked.question;
  const buttons = answersTo(asked);
  const rules = buttons.flatMap(({ opens }) => (opens?.what === 'rules' ? opens.of : []));
  /** The second half of a double click may come when the next question stands under the pointer: it answers nothing. */
  const click = (line: string) => (event: MouseEvent) => {
    if (event.detail < 2) answer(line);
  };
  const form = buttons.find(({ opens }) => opens?.what === 'form');
  if (form?.opens?.what === 'form')
    return <FormAnswers asked={asked} form={form} fields={form.opens.of} click={click} />;
  return (
    <div role="group" aria-label="Your answer">
      <div class="actions answers">
        {buttons
          .filter(({ opens }) => opens === undefined)
          .map((button) => (
            <Answer key={button.line} button={button} shown={shown} click={click(button.line)} />
          ))}
        <input
          ref={why}
          type="text"
          data-testid="why"
          maxLength={500}
          placeholder="No because…"
          aria-label="No because"
          title={reasonLabel(asked.question)}
        />
      </div>
      {rules.length > 0 && (
        <div class="actions answers">
          {rules.map(({ words, line }, index) => (
            <button
              key={line}
              type="button"
              data-testid="always"
              title={`${asked.question.always?.[index]?.rule ?? words}, for ${agentOf(asked.agent).name} in this channel, for 30 days`}
              disabled={!shown}
              onClick={click(line)}
            >
              Always: {words}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

type FormProps = {
  readonly asked: FloorQuestion;
  readonly form: CardButton;
  readonly fields: readonly AskedField[];
  readonly click: (line: string) => (event: MouseEvent) => void;
};

/** The form that a question is answered by, and its no. */
function FormAnswers({ asked, form, fields, click }: FormProps): JSX.Element {
  const { question } = asked;
  const decline = answersTo(asked).filter(({ opens }) => opens === undefined);
  const send = (words: string, refused: (answer: { readonly text: string }) => void): void =>
    sendCommand(`${form.line} ${words}`, { refused, drawnFor: form.drawnFor });
  return (
    <AnswerForm id={`${channel.value} ${question.question}`} fields={fields} answer={send}>
      <p class="faint">{formNote(question.about ?? {})}.</p>
      <div role="group" aria-label="Your answer">
        <div class="actions answers">
          <button type="submit" data-testid="send-answer" disabled={!question.shown}>
            Answer
          </button>
          {decline.map((button) => (
            <Answer key={button.line} button={button} shown={question.shown} click={click(button.line)} />
          ))}
        </div>
      </div>
    </AnswerForm>
  );
}

/** Nothing is allowed that does not stand whole in its channel. */
function Answer(props: {
  readonly button: CardButton;
  readonly shown: boolean;
  readonly click: (event: MouseEvent) => void;
}): JSX.Element {
  const { label, line, style } = props.button;
  const { id, key } = MEANT.find(({ begins }) => line.startsWith(begins)) ?? {};
  const isYes = id === 'allow' || id === 'done';
  return (
    <button
      type="button"
      data-testid={id}
      data-no={id === 'reject' || undefined}
      disabled={isYes && !props.shown}
      onClick={props.click}
    >
      {label} {key !== undefined && !(id === 'allow' && style === 'danger') && <kbd class="wide-only">{key}</kbd>}
    </button>
  );
}

/** What the lines of answers say, and the keys for it. */
const MEANT: readonly { readonly begins: string; readonly id: string; readonly key?: string }[] = [
  { begins: '/allow', id: 'allow', key: 'a' },
  { begins: '/answer', id: 'done' },
  { begins: '/reject', id: 'reject', key: 'r' },
  { begins: '/run complete', id: 'complete' },
];

/** Whether this has been drawn for long enough to have been meant. */
function useSettled(): boolean {
  const [settled, setSettled] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(true), SETTLED_MS);
    return () => clearTimeout(timer);
  }, []);
  return settled;
}

/** An agent that is not started before somebody trusts the files in its folder, with these and the two answers. */
export function Trust({ question }: { readonly question: TrustQuestion }): JSX.Element {
  const { agent, id, folder, detail, shown } = question;
  const { name } = agentOf(agent);
  const box = useRef<HTMLElement>(null);
  useFocusWhenWanted(askedId({ agent, id }), box);
  return (
    <section
      ref={box}
      class="approval"
      data-asked={askedId({ agent, id })}
      data-testid="trust"
      aria-label={`The folder of ${name} (${id})`}
    >
      <p class="asked-title">
        🔐 <strong>{name}</strong> is not started: files in its folder {folder} act before anybody is asked ({id})
      </p>
      <CodeBlock code={detail} language="" closed={true} />
      <p>{trustAnswers(question)}</p>
      <div role="group" aria-label="Your answer">
        <div class="actions answers">
          {trustButtons(question, name, view.value?.store ?? '').map(({ label, line, style, drawnFor }) => (
            <button
              key={line}
              type="button"
              data-testid={style === 'good' ? 'trust-folder' : 'leave-folder'}
              data-no={style !== 'good' || undefined}
              title={line}
              disabled={!shown}
              onClick={(event) => event.detail < 2 && sendCommand(line, { drawnFor })}
            >
              {label}
            </button>
          ))}
        </div>
      </div>
    </section>
  );
}
