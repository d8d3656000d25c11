import { useState } from 'preact/hooks';
import type { ComponentChildren, JSX } from 'preact';
import { visible } from '../../../lib/visible.ts';
import { runWords } from '../../../turns/text/words.ts';
import { DECISIONS, endingOf } from '../../../turns/tool-calls.ts';
import { toneOf } from '../parts.tsx';
import { CodeBlock } from '../conversation/code-block.tsx';
import { exactTime, isSameDay, now, shortTime, timeToTheSecond } from '../now.ts';
import { agentOf, channels } from '../state.ts';
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
          <time dateTime={new Date(askedAt).toISOString()} title={exactTime(askedAt)}>
            {isSameDay(askedAt, now.peek()) ? timeToTheSecond(askedAt) : shortTime(askedAt)}
          </time>
          <span class="call-who">
            <span class="speaker">{agentOf(agent).name}</span>{' '}
            <span class="faint">
              {aside === true ? 'beside' : 'in'} #{nameOfChannel(channel)}
            </span>
          </span>
          <span class="call-what">
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

const ENDED = { open: 'open', complete: 'complete', error: 'error', unknown: 'outcome unknown' } as const;
const SHORT = 160;

function inShort(input: ShownCall['input']): string {
  const text = JSON.stringify(input);
  return text.length > SHORT ? `${text.slice(0, SHORT).toWellFormed()}…` : text;
}

function nameOfChannel(id: string): string {
  return channels.value.find((entry) => entry.id === id)?.name ?? id;
}

function Record({ call }: { readonly call: ShownCall }): JSX.Element {
  const { cut, input, output, run, step, task, taint, code, rule, requestedBy } = call;
  return (
    <div class="record">
      {cut === true ? (
        <p class="faint">It is too long for this page: the export has it whole.</p>
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
        <Line name="Asked for by">{requestedBy === null ? 'nobody by name' : visible(personName(requestedBy))}</Line>
        <Line name="Part of">
          {runWords(run)}, step {step}: {visible(task)}
        </Line>
        {taint !== null && <Line name="Had read">{visible(taint)}, which nobody vouches for</Line>}
        <Line name="Time">{timed(call)}</Line>
        {code !== null && <Line name="Error">{visible(code)}</Line>}
        <Line name="Told by">
          {call.source === 'conch'
            ? 'Conch, which ran it'
            : `${visible(call.program ?? 'the agent')}, by its own account`}
        </Line>
        <Marks {...call} />
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

/** What a call is found by, and what its yes is bound to. */
function Marks({ approval, digest, definition }: ShownCall): JSX.Element {
  const marks = [
    ['Question', approval],
    ['Digest', digest],
    ['Definition', definition],
  ] as const;
  return (
    <>
      {marks.map(([name, mark]) =>
        mark === null ? null : (
          <Line key={name} name={name}>
            <code class="digest">{visible(mark)}</code>
          </Line>
        ),
      )}
    </>
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
