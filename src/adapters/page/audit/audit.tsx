import { useSignalEffect, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { pagePart } from '../access.tsx';
import { Toasts } from '../frame/answers.tsx';
import { defined } from '../../../lib/defined.ts';
import { Button, Select } from '../parts.tsx';
import { auditOpen, connection, agents, channels } from '../state.ts';
import { exactTime, now } from '../now.ts';
import { ask, toast } from '../sending.ts';
import { ENDED, RecordedCall } from './call.tsx';
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
          <Button kind="small-button" onClick={() => void saveCalls()}>
            Export
          </Button>
          <Button icon="close" kind="small-button" onClick={() => (auditOpen.value = false)}>
            Back
          </Button>
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
  const found = count === 0 ? (isFiltered ? 'No matching call' : 'No tool calls yet') : `${count} shown`;
  const upto = readUpTo.value;
  return (
    <div class="audit-foot">
      <p class="faint" role="status" data-testid="calls-found">
        {isReading.value ? 'Reading…' : hasEarlierCalls.value && count === 0 ? 'No matching call so far' : found}
        {!isReading.value && hasEarlierCalls.value && upto !== null && `, back to ${exactTime(upto)}`}
        {isFull.value && '. Older calls are not shown: filter, or export all.'}
      </p>
      {hasEarlierCalls.value && !isFull.value && (
        <Button kind="small-button" data-testid="earlier-calls" disabled={isReading.value} onClick={askBack}>
          {count === 0 ? 'Look further back' : 'Earlier'}
        </Button>
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
    toast('notice', 'The export failed. Try again.');
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

const HOUR_MS = 3_600_000;
const SINCE = [
  [`${HOUR_MS}`, 'the last hour'],
  [`${24 * HOUR_MS}`, 'the last 24 hours'],
  [`${7 * 24 * HOUR_MS}`, 'the last 7 days'],
  [`${30 * 24 * HOUR_MS}`, 'the last 30 days'],
] as const;

/** Since when, in milliseconds before now, as it was chosen. */
const sinceChosen = signal('');

/** Which calls are wanted; each change asks for them anew. */
function Filters(): JSX.Element {
  return (
    <form class="filters" aria-label="Which calls" onSubmit={(event) => event.preventDefault()}>
      {filters().map((filter) => (
        <Filter key={filter.name} {...filter} />
      ))}
      <label class="filter">
        <span>Tool</span>
        <input
          type="search"
          data-testid="filter-tool"
          value={wanted.value.tool ?? ''}
          maxLength={200}
          placeholder="any"
          onChange={(event) => want({ tool: event.currentTarget.value.trim() || undefined })}
        />
      </label>
    </form>
  );
}

type FilterProps = {
  readonly name: string;
  /** What it says when nothing is chosen; "any" unless given. */
  readonly any?: string;
  readonly value: string | undefined;
  readonly options: readonly (readonly [value: string, words: string])[];
  readonly choose: (value: string) => void;
};

function filters(): readonly FilterProps[] {
  const { agent, channel, decision, outcome } = wanted.value;
  return [
    {
      name: 'Agent',
      value: agent,
      options: agents.value.map(({ id, name }) => [id, name]),
      choose: (value) => want({ agent: value || undefined }),
    },
    {
      name: 'Channel',
      value: channel,
      options: channels.value.map(({ id, name }) => [id, `#${name}`]),
      choose: (value) => want({ channel: value || undefined }),
    },
    {
      name: 'Decision',
      value: decision,
      options: [['people', 'people were asked'], ...Object.entries(DECISIONS)],
      choose: (value) => want({ decision: value === 'people' || isDecision(value) ? value : undefined }),
    },
    {
      name: 'Outcome',
      value: outcome,
      options: CALL_ENDINGS.map((each) => [each, ENDED[each]]),
      choose: (value) => want({ outcome: CALL_ENDINGS.find((each) => each === value) }),
    },
    {
      name: 'Since',
      any: 'ever',
      value: sinceChosen.value,
      options: SINCE,
      choose: (value) => {
        sinceChosen.value = value;
        want({ since: value === '' ? undefined : Math.floor(now.peek()) - Number(value) });
      },
    },
  ];
}

function Filter({ name, any = 'any', value = '', options, choose }: FilterProps): JSX.Element {
  return (
    <label class="filter">
      <span>{name}</span>
      <Select
        data-testid={`filter-${name.toLowerCase()}`}
        value={value}
        options={[['', any], ...options]}
        choose={choose}
      />
    </label>
  );
}

/** What is not asked about is not sent. */
function want(change: { readonly [Key in keyof AuditWanted]?: AuditWanted[Key] | undefined }): void {
  wanted.value = defined({ ...wanted.peek(), ...change });
}
