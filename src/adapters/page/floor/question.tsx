import { useEffect, useRef, useState } from 'preact/hooks';
import type { ComponentChildren, JSX } from 'preact';
import { BoundedMap } from '../../../lib/keyed.ts';
import { defined } from '../../../lib/defined.ts';
import type { TrustQuestion } from '../../../turns/floor/floor.ts';
import { requestPostId, requestsOn } from '../../../turns/floor/seats.ts';
import type { FloorQuestion } from '../../../turns/floor/seats.ts';
import type { FormField } from '../../../turns/floor/settings.ts';
import { fieldHint, formWords, parseList } from '../../../turns/text/form.ts';
import type { FilledForm } from '../../../turns/text/form.ts';
import {
  answerText,
  decisionHints,
  requestFacts,
  formNote,
  isDiff,
  reasonLabel,
  trustAnswers,
} from '../../../turns/text/words.ts';
import type { AnsweredQuestion } from '../../console/protocol.ts';
import { answerButtons, trustButtons } from '../../delivery/card.ts';
import type { CardButton } from '../../delivery/card.ts';
import { CodeBlock } from '../conversation/code-block.tsx';
import { useFocusWhenWanted } from '../frame/attention.tsx';
import { inLocalTime, now } from '../now.ts';
import { Button, Time } from '../parts.tsx';
import { sendCommand } from '../sending.ts';
import { channel, nameOf, view } from '../state.ts';

/**
 * The keys "a" and "r" are ignored for this time, in milliseconds, after a question is drawn. They may be meant for
 * what the page showed before.
 */
const SETTLED_MS = 500;

/** An open question with its answers; nothing once it is answered. */
export function QuestionInPlace({ id }: { readonly id: string }): JSX.Element | null {
  const floor = view.value;
  const request = floor === null ? undefined : requestsOn(floor).find(({ question }) => requestPostId(question) === id);
  if (request !== undefined) return <Request request={request} />;
  const trust = floor?.trust?.find((question) => requestPostId({ agent: question.agent, id: question.id }) === id);
  return trust === undefined ? null : <Trust {...trust} />;
}

/** How a request was decided or closed. */
export function Answered({ answered }: { readonly answered: AnsweredQuestion }): JSX.Element {
  return (
    <li class="message is-system" data-testid="answered" data-choice={answered.choice}>
      <div class="system-text">{inLocalTime(answerText(answered, nameOf), answered.at)}</div>
      <Time at={answered.at} />
    </li>
  );
}

type RequestProps = { readonly request: FloorQuestion };

function Request({ request }: RequestProps): JSX.Element {
  const { question: number, title, detail, shown, about } = request.question;
  const isDanger = about?.danger === true;
  const why = useRef<HTMLInputElement>(null);
  const settled = useSettled();
  const name = nameOf(request.agent);
  const buttons = answerButtons(request);
  const drawnFor = buttons[0]?.drawnFor;
  const answer = (line: string): void => {
    const words = line === `/reject ${number}` ? (why.current?.value.trim() ?? '') : '';
    sendCommand(words === '' ? line : `${line} ${words}`, defined({ drawnFor }));
  };
  const form = buttons.find(({ opens }) => opens?.what === 'form');
  return (
    <QuestionBox
      id={requestPostId(request.question)}
      class={isDanger ? 'approval is-danger' : 'approval'}
      data-testid="approval"
      data-settled={settled}
      aria-label={`Question ${number}`}
      tabIndex={-1}
      onKeyDown={(event) => pressKey(event, { request, settled, answer })}
    >
      <Title request={request} />
      <Lines of={requestFacts(request.question, name)} />
      {form !== undefined && <FormAnswers request={request} form={form} answer={answer} />}
      <Detail text={detail} folded={form === undefined ? undefined : !title.endsWith('…')} />
      <Lines of={decisionHints({ ...request.question, always: [], ...defined({ until: untilOf(request) }) }, name)} />
      {form === undefined && (
        <Answers buttons={buttons} shown={shown} answer={answer} below={<Rules request={request} answer={answer} />}>
          <input
            ref={why}
            type="text"
            data-testid="why"
            class="why"
            maxLength={500}
            placeholder="Deny with reason…"
            aria-label="Deny with reason"
            title={reasonLabel(request.question)}
          />
        </Answers>
      )}
    </QuestionBox>
  );
}

function Title({ request: { agent, isBackground, question } }: RequestProps): JSX.Element {
  const who = `✋ ${nameOf(agent)}${isBackground ? '’s background run' : ''}`;
  const title = <strong>{question.title}</strong>;
  const number = `(${question.question})`;
  if (question.pause !== undefined) return <p class="asked-title">{[`${who} is paused ${number}: `, title]}</p>;
  if (question.about?.answer !== undefined) return <p class="asked-title">{[`${who} asks ${number}: `, title]}</p>;
  return <p class="asked-title">{[`${who} wants to run `, title, ` ${number}`]}</p>;
}

/** Draws the text of a question. `folded`: whether the text is folded below a form; undefined without a form. */
function Detail({ text, folded }: { readonly text: string; readonly folded: boolean | undefined }): JSX.Element | null {
  if (text === '') return null;
  const whole = <CodeBlock code={text} language={isDiff(text) ? 'diff' : ''} closed={true} />;
  if (folded === undefined) return whole;
  return (
    <details open={!folded}>
      <summary>The question in words</summary>
      {whole}
    </details>
  );
}

type KeyPress = RequestProps & { readonly settled: boolean; readonly answer: Answer };

/** Decides a request by a key: outside of fields "a" allows and "r" denies; Enter in the field of the reason denies. */
function pressKey(event: KeyboardEvent, { request: { question }, settled, answer }: KeyPress): void {
  const { key, target, altKey, ctrlKey, metaKey } = event;
  const { question: number, shown, about } = question;
  const isReason = target instanceof Element && target.matches('.why');
  if (isReason && key === 'Enter') answer(`/reject ${number}`);
  const isInField = isReason || (target instanceof Element && target.closest('.answer-field') !== null);
  if (isInField || !settled || altKey || ctrlKey || metaKey) return;
  // The key "a" allows no dangerous call.
  const mayAllow = shown && about?.danger !== true && about?.answer === undefined;
  if (key !== 'r' && !(key === 'a' && mayAllow)) return;
  answer(`/${key === 'r' ? 'reject' : 'allow'} ${number}`);
  event.preventDefault();
  event.stopPropagation();
}

function untilOf({ agent, isBackground }: FloorQuestion): number | undefined {
  const { holder, asides: backgroundRuns = [] } = view.value ?? {};
  if (!isBackground) return holder?.deadlineAt ?? undefined;
  return backgroundRuns.find((run) => run.agent === agent)?.until;
}

type BoxProps = Omit<JSX.IntrinsicElements['section'], 'id'> & { readonly id: string };

function QuestionBox({ id, ...rest }: BoxProps): JSX.Element {
  const box = useRef<HTMLElement>(null);
  useFocusWhenWanted(id, box);
  return <section ref={box} class="approval" data-asked={id} {...rest} />;
}

function Lines(props: { readonly of: readonly string[] }): JSX.Element | null {
  if (props.of.length === 0) return null;
  return (
    <ul class="facts">
      {props.of.map((line) => (
        <li key={line}>{inLocalTime(line, now.peek())}</li>
      ))}
    </ul>
  );
}

type Answer = (line: string) => void;
type AnswersProps = {
  readonly buttons: readonly CardButton[];
  /** True when the channel shows the whole question: only then can a person allow it. */
  readonly shown: boolean;
  readonly answer: Answer;
  readonly isForm?: true;
  readonly children?: ComponentChildren;
  readonly below?: ComponentChildren;
};

/** The buttons that answer a question at once. Leaves out buttons that open a form, a list of rules or a field. */
function Answers({ buttons, shown, answer, isForm, children, below }: AnswersProps): JSX.Element {
  return (
    <div role="group" aria-label="Your answer">
      <div class="actions answers">
        {isForm && (
          <button type="submit" data-testid="send-answer" disabled={!shown}>
            Answer
          </button>
        )}
        {buttons
          .filter(({ opens }) => opens === undefined)
          .map(({ label, line, style }) => {
            const { id, key, isNo, needsAll } = ANSWER_BUTTONS.find(({ begins }) => line.startsWith(begins)) ?? {};
            return (
              <Button
                key={line}
                data-testid={id}
                data-no={isNo}
                title={line}
                disabled={needsAll === true && !shown}
                onClick={onSingle(() => answer(line))}
              >
                {label}{' '}
                {key !== undefined && !(key === 'a' && style === 'danger') && <kbd class="wide-only">{key}</kbd>}
              </Button>
            );
          })}
        {children}
      </div>
      {below}
    </div>
  );
}

/**
 * Test id and keyboard shortcut of an answer, by the beginning of its command line. `needsAll`: disabled until the
 * channel shows the whole question.
 */
const ANSWER_BUTTONS: readonly {
  readonly begins: string;
  readonly id: string;
  readonly key?: 'a' | 'r';
  readonly isNo?: true;
  readonly needsAll?: true;
}[] = [
  { begins: '/allow', id: 'allow', key: 'a', needsAll: true },
  { begins: '/answer', id: 'done', needsAll: true },
  { begins: '/reject', id: 'reject', key: 'r', isNo: true },
  { begins: '/run complete', id: 'complete' },
  { begins: '/agent trust', id: 'trust-folder', needsAll: true },
  { begins: '/agent distrust', id: 'leave-folder', isNo: true, needsAll: true },
];

function Rules({ request, answer }: RequestProps & { readonly answer: Answer }): JSX.Element | null {
  const { always, shown } = request.question;
  const rules = answerButtons(request).flatMap(({ opens }) => (opens?.what === 'rules' ? opens.of : []));
  if (rules.length === 0) return null;
  return (
    <div class="actions answers">
      {rules.map(({ words, line }, index) => (
        <Button
          key={line}
          data-testid="always"
          title={`${always?.[index]?.rule ?? words}, for ${nameOf(request.agent)} in this channel, for 30 days`}
          disabled={!shown}
          onClick={onSingle(() => answer(line))}
        >
          Always allow: {words}
        </Button>
      ))}
    </div>
  );
}

/** Ignores the second click of a double click, which may hit the next question. */
function onSingle(act: () => void): (event: MouseEvent) => void {
  return (event) => {
    if (event.detail < 2) act();
  };
}

function useSettled(): boolean {
  const [settled, setSettled] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(true), SETTLED_MS);
    return () => clearTimeout(timer);
  }, []);
  return settled;
}

function Trust(question: TrustQuestion): JSX.Element {
  const { agent, id, folder, detail, shown } = question;
  const name = nameOf(agent);
  const buttons = trustButtons(question, name, view.value?.store ?? '');
  return (
    <QuestionBox id={requestPostId({ agent, id })} data-testid="trust" aria-label={`The folder of ${name} (${id})`}>
      <p class="asked-title">
        🔐 <strong>{name}</strong> is not started: files in its folder {folder} would run without approval ({id})
      </p>
      <CodeBlock code={detail} language="" closed={true} />
      <p>{trustAnswers(question)}</p>
      <Answers
        buttons={buttons}
        shown={shown}
        answer={(line) => sendCommand(line, defined({ drawnFor: buttons[0]?.drawnFor }))}
      />
    </QuestionBox>
  );
}

/** Why a filled-in form is not accepted: one text, and a text by field name. */
type FormFault = { readonly text: string; readonly fields?: Readonly<Record<string, string>> };

/** Filled-in form values of the last 100 forms, by channel and question; kept while another channel is shown. */
const filledForms = new BoundedMap<string, FilledForm>(100);

type FormProps = RequestProps & { readonly form: CardButton; readonly answer: Answer };

function FormAnswers({ request, form: { line, drawnFor, opens }, answer }: FormProps): JSX.Element {
  const { question, shown, about = {} } = request.question;
  const id = `${channel.value} ${question}`;
  const fields = opens?.what === 'form' ? opens.of : [];
  const form = useRef<HTMLFormElement>(null);
  const [wrong, setWrong] = useState<FormFault | null>(null);
  const [before] = useState(() => filledForms.get(id) ?? {});
  const refused = (why: FormFault): void => {
    setWrong(why);
    const first = fields.findIndex(({ name }) => why.fields?.[name] !== undefined);
    if (first !== -1) form.current?.querySelector<HTMLElement>(`#${fieldId(id, first)}`)?.focus();
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    setWrong(null);
    sendCommand(`${line} ${formWords(filledIn(form.current, fields))}`, { refused, drawnFor });
  };
  const isAboutField = fields.some(({ name }) => wrong?.fields?.[name] !== undefined);
  return (
    <form
      ref={form}
      class="answer-form"
      data-testid="answer-form"
      noValidate={true}
      onSubmit={submit}
      onInput={() => filledForms.set(id, filledIn(form.current, fields))}
    >
      {fields.map((field, index) => (
        <Field
          key={field.name}
          id={fieldId(id, index)}
          field={field}
          before={before[field.name]}
          wrong={wrong?.fields?.[field.name]}
        />
      ))}
      {wrong !== null && !isAboutField && (
        <p class="field-error" role="alert">
          {wrong.text}
        </p>
      )}
      <p class="faint">{formNote(about)}.</p>
      <Answers buttons={answerButtons(request)} shown={shown} answer={answer} isForm={true} />
    </form>
  );
}

type FieldProps = {
  readonly id: string;
  readonly field: FormField;
  readonly before: string | readonly string[] | undefined;
  readonly wrong: string | undefined;
};

function Field({ id, field, before, wrong }: FieldProps): JSX.Element {
  const { label, required, initial = '' } = field;
  const hint = fieldHint(field);
  const name = [label, required && <span class="field-hint"> (required)</span>];
  const described = [...(hint === '' ? [] : [`${id}-hint`]), ...(wrong === undefined ? [] : [`${id}-error`])].join(' ');
  const aria = { 'aria-invalid': wrong !== undefined, ...(described === '' ? {} : { 'aria-describedby': described }) };
  const Frame = isList(field) ? 'fieldset' : 'div';
  return (
    <Frame class="answer-field">
      {isList(field) ? <legend>{name}</legend> : <label for={id}>{name}</label>}
      {isList(field) ? (
        <Boxes id={id} field={field} value={typeof before === 'object' ? before : parseList(initial)} aria={aria} />
      ) : (
        <Control id={id} field={field} value={typeof before === 'string' ? before : initial} aria={aria} />
      )}
      {hint !== '' && (
        <span class="field-hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {wrong !== undefined && (
        <span class="field-error" id={`${id}-error`}>
          {wrong}
        </span>
      )}
    </Frame>
  );
}

function isList({ kind, options }: FormField): boolean {
  return kind === 'some' && options.length > 0;
}

type ControlProps<Value> = Pick<FieldProps, 'id' | 'field'> & { readonly value: Value; readonly aria: object };

/** Draws a checkbox for each option. The first has the field's id, so that an error of the field focuses this box. */
function Boxes({ id, field, value, aria }: ControlProps<readonly string[]>): JSX.Element {
  return (
    <>
      {field.options.map((option, index) => (
        <label key={option.value} class="check">
          <input
            {...aria}
            id={index === 0 ? id : `${id}-${index}`}
            type="checkbox"
            name={field.name}
            value={option.value}
            defaultChecked={value.includes(option.value)}
          />
          {option.label}
        </label>
      ))}
    </>
  );
}

const YES_OR_NO = [
  { value: 'yes', label: 'Yes' },
  { value: 'no', label: 'No' },
];
/** A text field without a format has several lines if it takes more characters than this. */
const SHORT_TEXT = 100;
/** Which keyboard a phone shows, by kind or format of the form field. */
const INPUT_MODES = { integer: 'numeric', number: 'decimal', email: 'email', uri: 'url' } as const;

function Control({ id, field, value, aria }: ControlProps<string>): JSX.Element {
  const { name, kind, required, options, most, format } = field;
  const common = { id, name, 'aria-required': required, 'data-testid': 'answer-field', ...aria };
  if (kind === 'boolean' || options.length > 0) {
    return (
      <select {...common}>
        <option value="">—</option>
        {(kind === 'boolean' ? YES_OR_NO : options).map((option) => (
          <option key={option.value} value={option.value} selected={option.value === value}>
            {option.label}
          </option>
        ))}
      </select>
    );
  }
  const isLong = kind === 'text' && format === undefined && (most === undefined || most > SHORT_TEXT);
  if (isLong) return <textarea {...common} rows={2} defaultValue={value} />;
  if (format === 'date') return <input {...common} type="date" defaultValue={value} />;
  const mode = Object.entries(INPUT_MODES).find(([of]) => of === kind || of === format)?.[1];
  return <input {...common} {...defined({ inputMode: mode })} type="text" autocomplete="off" defaultValue={value} />;
}

function fieldId(id: string, index: number): string {
  return `answer-${id.replaceAll(/\W/g, '-')}-${index}`;
}

function filledIn(form: HTMLFormElement | null, fields: readonly FormField[]): FilledForm {
  const data = new FormData(form ?? undefined);
  return Object.fromEntries(
    fields.map((field) => {
      const values = data.getAll(field.name).filter((value) => typeof value === 'string');
      return [field.name, isList(field) ? values : (values[0] ?? '')];
    }),
  );
}
