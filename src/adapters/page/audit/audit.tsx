import { computed, signal, useSignalEffect } from '@preact/signals';
import { useState } from 'preact/hooks';
import type { JSX } from 'preact';
import { visible } from '../../../lib/visible.ts';
import { requestPostId } from '../../../turns/floor/seats.ts';
import { CALL_ENDINGS, DECISIONS } from '../../../turns/tool-calls.ts';
import type { AuditWanted, OpenApproval, AlwaysAllowRule } from '../../../turns/tool-calls.ts';
import { pagePart } from '../access.tsx';

import { showOpen } from '../frame/attention.tsx';
import { exactTime, now, timeOfDay } from '../now.ts';
import { Button, Select, Toasts } from '../parts.tsx';
import { ask, pressButton, toast } from '../sending.ts';
import { agents, channelNameOf, channels, connection, nameOf, openView } from '../state.ts';
import { ENDED, RecordedCall } from './call.tsx';
import { calls, hasEarlierCalls, isFull, isReading, readUpTo, standing } from './calls.ts';
import './audit.css';

/** Chosen filters of tool calls, by name. `since`: how far back, in milliseconds before the choice. */
const chosen = signal<Readonly<Record<string, string>>>({});
const wanted = computed<AuditWanted>(() => {
  const { since, ...rest } = chosen.value;
  return since === undefined ? rest : { ...rest, since: Math.floor(now.peek()) - Number(since) };
});

/**
 * Draws the tool calls of all agents that match the filters, the newest first. Above them are the open requests and the
 * always-allow rules.
 */
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
          <Button icon="close" kind="small-button" onClick={() => (openView.value = null)}>
            Back
          </Button>
        </header>
        <OpenRequests />
        <Rules />
        <section class="audit-list" aria-labelledby="calls-title">
          <h3 id="calls-title">Calls</h3>
          <Filters />
          <ol class="calls" data-testid="calls" data-reading={isReading.value}>
            {calls.value.map((call) => (
              <RecordedCall key={call.key} call={call} />
            ))}
          </ol>
          <Foot />
        </section>
        <Toasts />
      </div>
    </main>
  );
}

function Foot(): JSX.Element {
  const count = calls.value.length;
  const isFiltered = Object.keys(chosen.value).length > 0;
  const countText = count === 0 ? (isFiltered ? 'No matching call' : 'No tool calls yet') : `${count} shown`;
  const upto = readUpTo.value;
  const askBack = (): void => {
    isReading.value = true;
    ask({ type: 'audit-earlier' });
  };
  return (
    <div class="audit-foot">
      <p class="faint" role="status" data-testid="calls-found">
        {isReading.value ? 'Reading…' : hasEarlierCalls.value && count === 0 ? 'No matching call so far' : countText}
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

/**
 * Downloads the tool calls that match the filters as a file. Uses `fetch`: the server needs the page's session secret
 * in a header, which a plain link cannot send.
 */
async function saveCalls(): Promise<void> {
  const filters = Object.entries(wanted.value).map(([name, value]) => [name, `${value}`]);
  const query = filters.length === 0 ? '' : `?${new URLSearchParams(filters)}`;
  const answer = await fetch(`/runs/audit${query}`, { headers: { 'Conch-Page': pagePart() } }).catch(() => null);
  if (answer === null || !answer.ok) return toast('notice', 'The export failed. Try again.');
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await answer.blob());
  link.download = 'conch-audit.jsonl';
  link.click();
  URL.revokeObjectURL(link.href);
}

const HOUR_MS = 3_600_000;
const SINCE = [
  [`${HOUR_MS}`, 'the last hour'],
  [`${24 * HOUR_MS}`, 'the last 24 hours'],
  [`${7 * 24 * HOUR_MS}`, 'the last 7 days'],
  [`${30 * 24 * HOUR_MS}`, 'the last 30 days'],
] as const;

type Options = readonly (readonly [value: string, words: string])[];

function Filters(): JSX.Element {
  const filters: readonly (readonly [label: string, any: string, options: Options])[] = [
    ['Agent', 'any', agents.value.map(({ id, name }) => [id, name])],
    ['Channel', 'any', channels.value.map(({ id, name }) => [id, `#${name}`])],
    ['Decision', 'any', [['people', 'people were asked'], ...Object.entries(DECISIONS)]],
    ['Outcome', 'any', CALL_ENDINGS.map((each) => [each, ENDED[each]])],
    ['Since', 'ever', SINCE],
  ];
  const choose = (form: HTMLFormElement): void => {
    const entries = [...new FormData(form)].map(([name, value]) => [
      name,
      typeof value === 'string' ? value.trim() : '',
    ]);
    chosen.value = Object.fromEntries(entries.filter(([, value]) => value !== ''));
  };
  return (
    <form
      class="filters"
      aria-label="Which calls"
      onSubmit={(event) => event.preventDefault()}
      onChange={(event) => choose(event.currentTarget)}
    >
      {filters.map(([label, any, options]) => {
        const name = label.toLowerCase();
        return (
          <label key={name} class="filter">
            <span>{label}</span>
            <Select
              name={name}
              data-testid={`filter-${name}`}
              value={chosen.value[name] ?? ''}
              options={[['', any], ...options]}
            />
          </label>
        );
      })}
      <label class="filter">
        <span>Tool</span>
        <input
          type="search"
          name="tool"
          data-testid="filter-tool"
          value={chosen.value['tool'] ?? ''}
          maxLength={200}
          placeholder="any"
        />
      </label>
    </form>
  );
}

/** A list with more always-allow rules than this is folded. */
const MOST_UNFOLDED = 3;

function OpenRequests(): JSX.Element | null {
  const openRequests = standing.value?.asked ?? [];
  if (openRequests.length === 0) return null;
  return (
    <section class="standing" aria-labelledby="asked-title">
      <h3 id="asked-title">Open requests</h3>
      <ul data-testid="asked">
        {openRequests.map((open) => (
          <RequestRow key={`${open.channel} ${open.agent} ${open.askedAt}`} {...open} />
        ))}
      </ul>
    </section>
  );
}

function RequestRow({ channel, agent, tool, askedAt, until, question }: OpenApproval): JSX.Element {
  return (
    <li>
      <p>
        <strong>{seatName(agent, channel)}</strong> wants to run <code>{visible(tool)}</code>
        <span class="faint">
          {' '}
          since {timeOfDay(askedAt)}
          {until !== null && `, until ${timeOfDay(until)}`}
        </span>
      </p>
      {question !== null && (
        <Button kind="small-button" onClick={() => showOpen(channel, requestPostId({ question }))}>
          Show
        </Button>
      )}
    </li>
  );
}

function Rules(): JSX.Element | null {
  if (standing.value === null) return null;
  const { remembered } = standing.value;
  return (
    <details class="standing" open={remembered.length <= MOST_UNFOLDED}>
      <summary>
        <h3>Always-allow rules{remembered.length > 0 && ` · ${remembered.length}`}</h3>
      </summary>
      {remembered.length === 0 ? (
        <p class="faint">There are no always-allow rules.</p>
      ) : (
        <ul data-testid="remembered">
          {remembered.map((rule) => (
            <Rule key={`${rule.channel} ${rule.revoke}`} {...rule} />
          ))}
        </ul>
      )}
    </details>
  );
}

function Rule({ channel, agent, rule, by, at, until, uses, usedAt, revoke }: AlwaysAllowRule): JSX.Element {
  const [isSure, setSure] = useState(false);
  const isOver = until <= now.value;
  const used =
    usedAt === null ? 'not used yet' : `used ${uses === 1 ? 'once' : `${uses} times`}, last ${exactTime(usedAt)}`;
  return (
    <li class={isOver ? 'is-over' : ''}>
      <p>
        <strong>{seatName(agent, channel)}</strong>: <code>{visible(rule)}</code>
        <span class="faint">
          {` by ${visible(by)}, ${exactTime(at)} · ${isOver ? 'expired' : 'until'} ${exactTime(until)} · ${used}`}
        </span>
      </p>
      {isSure ? (
        <div class="actions" role="group" aria-label={`Revoke ${rule}?`}>
          <Button
            kind="small-button stop"
            data-testid="revoke-sure"
            disabled={connection.value !== 'open'}
            onClick={() => pressButton(revoke, { channel })}
          >
            Revoke
          </Button>
          <Button kind="small-button" onClick={() => setSure(false)}>
            Keep
          </Button>
        </div>
      ) : (
        <Button
          kind="small-button"
          data-testid="revoke"
          aria-label={`Revoke ${rule}`}
          title={revoke}
          onClick={() => setSure(true)}
        >
          Revoke…
        </Button>
      )}
    </li>
  );
}

function seatName(agent: string, channel: string): string {
  return `${nameOf(agent)} in #${channelNameOf(channel)}`;
}
