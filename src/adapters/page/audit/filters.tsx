import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { CALL_ENDINGS, DECISIONS, isDecision } from '../../../turns/tool-calls.ts';
import type { AuditWanted } from '../../../turns/tool-calls.ts';
import { now } from '../now.ts';
import { agents, channels } from '../state.ts';
import { wanted } from './calls.ts';

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
