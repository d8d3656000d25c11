import { useState } from 'preact/hooks';
import type { ComponentChildren, JSX } from 'preact';
import { visible } from '../../../lib/visible.ts';
import { runWords } from '../../../turns/text/words.ts';
import { decisionWords, endingOf } from '../../../turns/tool-calls.ts';
import { Time, toneOf } from '../parts.tsx';
import { CodeBlock } from '../conversation/code-block.tsx';
import { exactTime, isSameDay, now, shortTime, timeToTheSecond } from '../now.ts';
import { channelNameOf, nameOf } from '../state.ts';
import type { ShownCall } from '../../console/protocol.ts';

/** One tool call on one line. Unfolded, it shows its details. */
export function RecordedCall({ call }: { readonly call: ShownCall }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const { agent, aside, channel, tool, input, askedAt } = call;
  const ending = endingOf(call);
  return (
    <li class={`call ${toneOf(agent)} is-${ending}`} data-testid="call" data-seq={call.seq}>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <Time at={askedAt} shown={isSameDay(askedAt, now.peek()) ? timeToTheSecond : shortTime} />
          <span class="call-who cut">
            <span class="speaker">{nameOf(agent)}</span>{' '}
            <span class="faint">
              {aside === true ? 'background,' : 'in'} #{channelNameOf(channel)}
            </span>
          </span>
          <span class="call-what cut">
            <strong>{visible(tool)}</strong> <code>{visible(inShort(input))}</code>
          </span>
          <span class={`badge by-${call.decision}`}>{decisionWords(call)}</span>
          <span class={`badge ended-${ending}`}>{ENDED[ending]}</span>
        </summary>
        {isOpen && <Record call={call} />}
      </details>
    </li>
  );
}

/** How a tool call ended, or that it is open, in words. */
export const ENDED = { open: 'open', complete: 'complete', error: 'error', unknown: 'outcome unknown' } as const;
const SHORT = 160;

function inShort(input: ShownCall['input']): string {
  const text = JSON.stringify(input);
  return text.length > SHORT ? `${text.slice(0, SHORT).toWellFormed()}…` : text;
}

function Record({ call }: { readonly call: ShownCall }): JSX.Element {
  const { cut, input, output, run, step, task, taint, code, rule, requestedBy, approval, digest, definition } = call;
  const text = (value: string | null): ComponentChildren => value !== null && visible(value);
  const mark = (value: string | null, kind?: string): ComponentChildren =>
    value !== null && <code class={kind}>{visible(value)}</code>;
  const lines: readonly (readonly [name: string, words: ComponentChildren])[] = [
    ['Decision', decided(call)],
    ['Rule', mark(rule)],
    ['Requested by', visible(requestedBy || 'nobody known')],
    ['Part of', `${runWords(run)}, step ${step}: ${visible(task)}`],
    ['Untrusted input', text(taint)],
    ['Time', timed(call)],
    ['Error', text(code)],
    ['Reported by', call.source === 'conch' ? 'Conch, which ran it' : `${visible(call.program ?? 'the agent')} itself`],
    ['Question', mark(approval, 'digest')],
    ['Digest', mark(digest, 'digest')],
    ['Definition', mark(definition, 'digest')],
  ];
  return (
    <div class="record">
      {cut === true ? (
        <p class="faint">Too long for this page. Export the calls to read it.</p>
      ) : (
        <>
          <h4>Input</h4>
          <CodeBlock code={visible(JSON.stringify(input, null, 2))} language="json" closed={true} />
        </>
      )}
      <dl>
        {lines.map(
          ([name, words]) =>
            words !== false && (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{words}</dd>
              </div>
            ),
        )}
      </dl>
      {output !== null && output !== '' && (
        <>
          <h4>Output</h4>
          <CodeBlock code={visible(output)} language="" closed={true} />
        </>
      )}
    </div>
  );
}

function decided(call: ShownCall): string {
  const { decidedBy, reason, askedAt, waitMs } = call;
  const who = decidedBy === null ? '' : ` by ${visible(decidedBy)}, ${exactTime(askedAt + waitMs)}`;
  return `${decisionWords(call)}${who}${reason === null ? '' : `: “${visible(reason)}”`}`;
}

function timed({ askedAt, startedAt, endedAt, waitMs, durationMs }: ShownCall): string {
  return [
    `asked ${exactTime(askedAt)}`,
    ...(waitMs === 0 ? [] : [`waited ${seconds(waitMs)} for a person`]),
    ...(startedAt === null ? [] : [`began ${timeToTheSecond(startedAt)}`]),
    ...(durationMs === null ? [] : [`took ${seconds(durationMs)}`]),
    ...(endedAt === null ? [] : [`ended ${timeToTheSecond(endedAt)}`]),
  ].join(' · ');
}

const SECONDS = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

function seconds(ms: number): string {
  return `${SECONDS.format(ms / 1_000)} s`;
}
