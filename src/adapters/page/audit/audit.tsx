import { useSignalEffect } from '@preact/signals';
import type { JSX } from 'preact';
import { pagePart } from '../access.ts';
import { Toasts } from '../frame/toasts.tsx';
import { Icon } from '../icons.tsx';
import { auditOpen } from '../layout.ts';
import { exactTime } from '../now.ts';
import { ask, toast } from '../sending.ts';
import { connection } from '../state.ts';
import { RecordedCall } from './call.tsx';
import { calls, hasEarlierCalls, isFull, isReading, keyOfCall, readUpTo, wanted } from './calls.ts';
import { Filters } from './filters.tsx';
import { Standing } from './standing.tsx';
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
