import { useSignalEffect } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { JSX, RefObject } from 'preact';
import { wantedQuestion } from '../frame/attention.ts';
import { CodeBlock } from '../conversation/code-block.tsx';
import { sendCommand } from '../sending.ts';
import type { AnsweredQuestion } from '../../console/protocol.ts';
import { exactTime, timeOfDay } from '../now.ts';
import { answerText, answersAsked, factsAsked, isDiff } from '../../../turns/text/words.ts';
import type { Question } from '../../../turns/floor/settings.ts';
import { agentOf, channel, view } from '../state.ts';

/** A key that was meant for what stood here before answers nothing. */
const SETTLED_MS = 500;

/** What the holder asks a yes for, whole, with the two answers. Nothing when it asks for none. */
export function ApprovalBar(): JSX.Element | null {
  const holder = view.value?.holder ?? null;
  const asked = holder?.approval ?? null;
  if (holder === null || asked === null) return null;
  const { agent, epoch, deadlineAt } = holder;
  return <Request key={asked.question} agent={agent} epoch={epoch} asked={asked} until={deadlineAt} />;
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

type RequestProps = {
  readonly agent: string;
  readonly epoch: number;
  readonly asked: Question;
  readonly until: number | null;
};

function Request({ agent, epoch, asked, until }: RequestProps): JSX.Element {
  const { question, title, shown } = asked;
  const why = useRef<HTMLInputElement>(null);
  const box = useRef<HTMLElement>(null);
  const settled = useSettled();
  const { name } = agentOf(agent);
  useSignalEffect(() => {
    const wanted = wantedQuestion.value;
    if (wanted?.question !== question || wanted.channel !== channel.value) return;
    wantedQuestion.value = null;
    // A no is what the first key press says.
    box.current?.querySelector<HTMLElement>('[data-testid="reject"]')?.focus();
  });
  const answer = (line: '/allow' | '/reject', more = ''): void =>
    sendCommand([line, question, ...(more === '' ? [] : [more])].join(' '), { epoch });
  const reject = (): void => answer('/reject', why.current?.value.trim() ?? '');
  const press = (event: KeyboardEvent): void => {
    if (event.target === why.current) {
      if (event.key === 'Enter') reject();
      return;
    }
    if (event.altKey || event.ctrlKey || event.metaKey || !settled) return;
    if (event.key === 'a' && shown) answer('/allow');
    else if (event.key === 'r') reject();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <section
      ref={box}
      class="approval"
      data-testid="approval"
      data-settled={settled}
      aria-label="A request for permission"
      tabIndex={-1}
      onKeyDown={press}
    >
      <p>
        <strong>{name}</strong> asks for a yes ({question}): {title}
      </p>
      <Whole asked={asked} name={name} until={until} />
      <Answers agent={agent} epoch={epoch} asked={asked} why={why} answer={answer} reject={reject} />
    </section>
  );
}

/** All that is asked, between what it is part of and what each answer does. */
function Whole(props: { readonly asked: Question; readonly name: string; readonly until: number | null }): JSX.Element {
  const { asked, name, until } = props;
  const { detail } = asked;
  const answers = { ...asked, always: [], ...(until === null ? {} : { until }) };
  return (
    <>
      <Lines of={factsAsked(asked, name)} />
      {detail !== '' && <CodeBlock code={detail} language={isDiff(detail) ? 'diff' : ''} closed={true} />}
      <Lines of={answersAsked(answers, name)} />
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
  readonly agent: string;
  readonly epoch: number;
  readonly asked: Question;
  readonly why: RefObject<HTMLInputElement | null>;
  readonly answer: (line: '/allow', more?: string) => void;
  readonly reject: () => void;
};

function Answers({ agent, epoch, asked, why, answer, reject }: AnswersProps): JSX.Element {
  const { shown, always = [], pause } = asked;
  /** The second half of a double click may come when the next question stands under the pointer: it answers nothing. */
  const click = (act: () => void) => (event: MouseEvent) => {
    if (event.detail < 2) act();
  };
  const complete = (): void => sendCommand(`/run complete ${agent}`, { epoch });
  return (
    <div role="group" aria-label="Your answer">
      <div class="actions answers">
        <button type="button" data-testid="allow" disabled={!shown} onClick={click(() => answer('/allow'))}>
          {pause === undefined ? 'Once' : 'Continue'} <kbd class="wide-only">a</kbd>
        </button>
        <button type="button" data-testid="reject" onClick={click(reject)}>
          {pause === undefined ? 'No' : 'Abort'} <kbd class="wide-only">r</kbd>
        </button>
        {pause !== undefined && (
          <button type="button" data-testid="complete" onClick={click(complete)}>
            Complete
          </button>
        )}
        <input
          ref={why}
          type="text"
          data-testid="why"
          maxLength={500}
          placeholder="No because…"
          aria-label="No because"
        />
      </div>
      {always.length > 0 && (
        <div class="actions answers">
          {always.map(({ rule, words }, index) => (
            <button
              key={rule}
              type="button"
              data-testid="always"
              title={`${rule}, for ${agentOf(agent).name} in this channel, for 30 days`}
              disabled={!shown}
              onClick={click(() => answer('/allow', `always ${index + 1}`))}
            >
              Always: {words}
            </button>
          ))}
        </div>
      )}
    </div>
  );
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
