import { useSignalEffect, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { pagePart } from '../access.tsx';
import { Toasts } from '../frame/answers.tsx';
import { Icon } from '../icons.tsx';
import { auditOpen, connection, agents, channels } from '../state.ts';
import { exactTime, now } from '../now.ts';
import { ask, toast } from '../sending.ts';
import { RecordedCall } from './call.tsx';
import { calls, hasEarlierCalls, isFull, isReading, keyOfCall, readUpTo, wanted } from './calls.ts';
import { Standing } from './standing.tsx';
import { CALL_ENDINGS, DECISIONS, isDecision } from '../../../turns/tool-calls.ts';
import type { AuditWanted } from '../../../turns/tool-calls.ts';
import './audit.css';

/** Every tool call of every agent, the newest first, and what people are asked and have said yes to for longer. */
export function AuditView(): JSX.Element {
  useSignalEffect(() => {
    if (connection.value !== 'open') return;
    isReading.value = true;
    ask({ type: 'audit', wanted: wanted.value });
    return () => ask({ type: 'audit', wanted: null });
  });
  return (
    <main class="audit" aria-labelledby="audit-title">
      <div class="audit-page">
        <header class="audit-head">
          <h2 id="audit-title">Tool calls</h2>
          <span class="spring" />
          <button type="button" class="small-button" onClick={() => void saveCalls()}>
            Export
          </button>
          <button type="button" class="small-button" onClick={() => (auditOpen.value = false)}>
            <Icon name="close" />
            Back
          </button>
        </header>
        <Standing />
        <section class="audit-list" aria-labelledby="calls-title">
          <h3 id="calls-title">Calls</h3>
          <Filters />
          <ol class="calls" data-testid="calls" data-reading={isReading.value}>
            {calls.value.map((call) => (
              <RecordedCall key={keyOfCall(call)} call={call} />
            ))}
          </ol>
          <Foot />
        </section>
        <Toasts />
      </div>
    </main>
  );
}

/** How many there are, and the way further back. */
function Foot(): JSX.Element {
  const count = calls.value.length;
  const isFiltered = Object.keys(wanted.value).length > 0;
  const found = count === 0 ? (isFiltered ? 'No such call' : 'No agent has used a tool') : `${count} shown`;
  const upto = readUpTo.value;
  return (
    <div class="audit-foot">
      <p class="faint" role="status" data-testid="calls-found">
        {isReading.value ? 'Reading…' : hasEarlierCalls.value && count === 0 ? 'No such call so far' : found}
        {!isReading.value && hasEarlierCalls.value && upto !== null && `, back to ${exactTime(upto)}`}
        {isFull.value && '. More are not drawn: choose fewer above, or export them.'}
      </p>
      {hasEarlierCalls.value && !isFull.value && (
        <button
          type="button"
          class="small-button"
          data-testid="earlier-calls"
          disabled={isReading.value}
          onClick={askBack}
        >
          {count === 0 ? 'Look further back' : 'Earlier'}
        </button>
      )}
    </div>
  );
}

function askBack(): void {
  isReading.value = true;
  ask({ type: 'audit-earlier' });
}

/** Saves the wanted calls as a file. The request carries the page's part of the session, which a plain link cannot. */
async function saveCalls(): Promise<void> {
  const answer = await fetch(`/runs/audit${queryOf()}`, { headers: { 'Conch-Page': pagePart() } }).catch(() => null);
  if (answer === null || !answer.ok) {
    toast('notice', 'The calls could not be exported. Try again.');
    return;
  }
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await answer.blob());
  link.download = 'conch-audit.jsonl';
  link.click();
  URL.revokeObjectURL(link.href);
}

function queryOf(): string {
  const given = Object.entries(wanted.value).map(([name, value]) => [name, `${value}`]);
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
}

type Option = readonly [value: string, words: string];

const HOUR_MS = 3_600_000;
const SINCE: readonly (readonly [ms: number, words: string])[] = [
  [HOUR_MS, 'the last hour'],
  [24 * HOUR_MS, 'the last 24 hours'],
  [7 * 24 * HOUR_MS, 'the last 7 days'],
  [30 * 24 * HOUR_MS, 'the last 30 days'],
];
const ENDED: Readonly<Record<(typeof CALL_ENDINGS)[number], string>> = {
  open: 'not ended yet',
  complete: 'complete',
  error: 'error',
  unknown: 'nobody knows',
};

/** Which calls are wanted; each change asks for them anew. */
export function Filters(): JSX.Element {
  const { agent, channel, decision, outcome, tool } = wanted.value;
  return (
    <form class="filters" aria-label="Which calls" onSubmit={(event) => event.preventDefault()}>
      <Choice
        label="Agent"
        value={agent}
        options={agents.value.map(({ id, name }) => [id, name])}
        choose={(value) => want({ agent: value })}
      />
      <Choice
        label="Channel"
        value={channel}
        options={channels.value.map(({ id, name }) => [id, `#${name}`])}
        choose={(value) => want({ channel: value })}
      />
      <Choice
        label="Decision"
        value={decision}
        options={[['people', 'people were asked'], ...Object.entries(DECISIONS)]}
        choose={(value) => want({ decision: decisionOf(value) })}
      />
      <Choice
        label="Outcome"
        value={outcome}
        options={CALL_ENDINGS.map((each) => [each, ENDED[each]])}
        choose={(value) => want({ outcome: CALL_ENDINGS.find((each) => each === value) })}
      />
      <Since />
      <label class="filter">
        <span>Tool</span>
        <input
          type="search"
          data-testid="filter-tool"
          value={tool ?? ''}
          maxLength={200}
          placeholder="any"
          onChange={(event) => want({ tool: event.currentTarget.value.trim() || undefined })}
        />
      </label>
    </form>
  );
}

function Choice(props: {
  readonly label: string;
  readonly value: string | undefined;
  readonly options: readonly Option[];
  readonly choose: (value: string | undefined) => void;
}): JSX.Element {
  const { label, value, options, choose } = props;
  return (
    <label class="filter">
      <span>{label}</span>
      <select
        data-testid={`filter-${label.toLowerCase()}`}
        value={value ?? ''}
        onChange={(event) => choose(event.currentTarget.value || undefined)}
      >
        <option value="">any</option>
        {options.map(([option, words]) => (
          <option key={option} value={option}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

/** How long ago, in milliseconds, as it was chosen. */
const sinceChosen = signal('');

function Since(): JSX.Element {
  return (
    <label class="filter">
      <span>Since</span>
      <select
        data-testid="filter-since"
        value={sinceChosen.value}
        onChange={({ currentTarget: { value } }) => {
          sinceChosen.value = value;
          want({ since: value === '' ? undefined : Math.floor(now.peek()) - Number(value) });
        }}
      >
        <option value="">ever</option>
        {SINCE.map(([ms, words]) => (
          <option key={ms} value={`${ms}`}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}

function decisionOf(value = ''): AuditWanted['decision'] {
  return value === 'people' || isDecision(value) ? value : undefined;
}

/** What is not asked about is not sent. */
function want(change: AuditWanted): void {
  const all = Object.entries({ ...wanted.peek(), ...change }).filter(([, value]) => value !== undefined);
  wanted.value = Object.fromEntries(all);
}
