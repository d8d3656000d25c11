import { useState } from 'preact/hooks';
import type { ComponentChildren, JSX } from 'preact';
import { visible } from '../../../lib/visible.ts';
import { runWords } from '../../../turns/text/words.ts';
import { DECISIONS, endingOf } from '../../../turns/tool-calls.ts';
import { Time, toneOf } from '../parts.tsx';
import { CodeBlock } from '../conversation/code-block.tsx';
import { exactTime, isSameDay, now, shortTime, timeToTheSecond } from '../now.ts';
import { channelNameOf, nameOf } from '../state.ts';
import { personName } from './calls.ts';
import type { ShownCall } from '../../console/protocol.ts';

/** One tool call in a line; unfolded, all that is on record of it. */
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
          <span class={`badge by-${call.decision}`}>{DECISIONS[call.decision]}</span>
          <span class={`badge ended-${ending}`}>{ENDED[ending]}</span>
        </summary>
        {isOpen && <Record call={call} />}
      </details>
    </li>
  );
}

/** How a call ended, in words. */
export const ENDED = { open: 'open', complete: 'complete', error: 'error', unknown: 'outcome unknown' } as const;
const SHORT = 160;

function inShort(input: ShownCall['input']): string {
  const text = JSON.stringify(input);
  return text.length > SHORT ? `${text.slice(0, SHORT).toWellFormed()}…` : text;
}

function Record({ call }: { readonly call: ShownCall }): JSX.Element {
  const { cut, input, output, run, step, task, taint, code, rule, requestedBy, approval, digest, definition } = call;
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
        <Line name="Decision">{decided(call)}</Line>
        {rule !== null && (
          <Line name="Rule">
            <code>{visible(rule)}</code>
          </Line>
        )}
        <Line name="Requested by">{requestedBy === null ? 'nobody known' : visible(personName(requestedBy))}</Line>
        <Line name="Part of">
          {runWords(run)}, step {step}: {visible(task)}
        </Line>
        {taint !== null && <Line name="Untrusted input">{visible(taint)}</Line>}
        <Line name="Time">{timed(call)}</Line>
        {code !== null && <Line name="Error">{visible(code)}</Line>}
        <Line name="Reported by">
          {call.source === 'conch' ? 'Conch, which ran it' : `${visible(call.program ?? 'the agent')} itself`}
        </Line>
        {Object.entries({ Question: approval, Digest: digest, Definition: definition }).map(
          ([name, mark]) =>
            mark !== null && (
              <Line key={name} name={name}>
                <code class="digest">{visible(mark)}</code>
              </Line>
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

function Line(props: { readonly name: string; readonly children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

function decided({ decision, decidedBy, reason, askedAt, waitMs }: ShownCall): string {
  const who = decidedBy === null ? '' : ` by ${visible(personName(decidedBy))}, ${exactTime(askedAt + waitMs)}`;
  return `${DECISIONS[decision]}${who}${reason === null ? '' : `: “${visible(reason)}”`}`;
}

function timed({ askedAt, startedAt, endedAt, waitMs, durationMs }: ShownCall): string {
  return [
    `asked ${exactTime(askedAt)}`,
    ...(waitMs === 0 ? [] : [`people took ${seconds(waitMs)}`]),
    ...(startedAt === null ? [] : [`began ${timeToTheSecond(startedAt)}`]),
    ...(durationMs === null ? [] : [`took ${seconds(durationMs)}`]),
    ...(endedAt === null ? [] : [`ended ${timeToTheSecond(endedAt)}`]),
  ].join(' · ');
}

const SECONDS = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

function seconds(ms: number): string {
  return `${SECONDS.format(ms / 1_000)} s`;
}
