import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import type { Outcome } from '../../../turns/floor/fact.ts';
import type { TurnRecord } from '../../../turns/view.ts';
import { toneOf } from '../parts.tsx';
import { tab, agentOf, turns, view } from '../state.ts';
import { durationText, now, timeOfDay, timeToTheSecond } from '../now.ts';

const OUTCOMES: Readonly<Record<Outcome | 'open', { readonly sign: string; readonly words: string }>> = {
  open: { sign: '●', words: 'has the floor' },
  completed: { sign: '', words: 'completed' },
  passed: { sign: '–', words: 'passed, nothing to say' },
  lapsed: { sign: '…', words: 'lapsed into silence' },
  expired: { sign: '⏱', words: 'ran out of time' },
  forfeited: { sign: '✕', words: 'lost: the agent went away' },
  revoked: { sign: '■', words: 'ended by an operator' },
};

const GAP_MS = 60_000;
const selected = signal<number | null>(null);

/** The turns of this floor as a score: a line per agent, a block per turn, in the order in which they were. */
export function Turns(props: { readonly strip?: boolean }): JSX.Element {
  const shown = props.strip === true ? turns.value.slice(-24) : turns.value;
  return (
    <section
      class="block turns-block"
      data-testid="turns"
      data-count={turns.value.length}
      aria-labelledby="turns-title"
    >
      <h2 id="turns-title">Turns</h2>
      {shown.length === 0 ? <p class="faint">No turn yet.</p> : <Score shown={shown} />}
      {shown.length > 0 && <Detail />}
      {props.strip !== true ? (
        <List />
      ) : shown.length === 0 ? null : (
        <button type="button" class="link" onClick={() => (tab.value = 'turns')}>
          All turns in words
        </button>
      )}
    </section>
  );
}

function Score({ shown }: { readonly shown: readonly TurnRecord[] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const last = shown.at(-1)?.epoch;
  useLayoutEffect(() => {
    if (box.current !== null) box.current.scrollLeft = box.current.scrollWidth;
  }, [last]);
  const lanes = lanesOf(shown);
  return (
    <div class="score">
      <ul class="score-names" aria-hidden="true">
        {lanes.map((agent) => (
          <li key={agent} class={toneOf(agent)}>
            {agentOf(agent).name}
          </li>
        ))}
      </ul>
      <div class="score-scroll" ref={box}>
        <div class="score-turns" style={{ gridTemplateRows: `repeat(${lanes.length}, 28px)` }}>
          {shown.map((turn, place) => (
            <Block
              key={turn.epoch}
              turn={turn}
              place={{ row: lanes.indexOf(turn.agent) + 1, column: place + 1 }}
              rest={rested(shown[place - 1], turn)}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

function lanesOf(shown: readonly TurnRecord[]): readonly string[] {
  const seated = (view.value?.seats ?? []).map((seat) => seat.agent);
  return [...new Set([...seated, ...shown.map((turn) => turn.agent)])];
}

/** The floor rested before this turn. */
function rested(before: TurnRecord | undefined, turn: TurnRecord): boolean {
  return before !== undefined && before.endedAt !== null && turn.startedAt - before.endedAt > GAP_MS;
}

function Block(props: {
  readonly turn: TurnRecord;
  readonly place: { readonly row: number; readonly column: number };
  readonly rest: boolean;
}): JSX.Element {
  const { turn, place, rest } = props;
  const outcome = turn.outcome ?? 'open';
  const isOpen = turn.endedAt === null;
  const length = (turn.endedAt ?? now.value) - turn.startedAt;
  const width = Math.round(Math.min(88, 16 + 7 * Math.sqrt(Math.max(0, length) / 1000)));
  return (
    <button
      type="button"
      class={`turn ${toneOf(turn.agent)} is-${outcome}${rest ? ' after-rest' : ''}${turn.waits.length > 0 ? ' has-wait' : ''}`}
      style={{ gridRow: place.row, gridColumn: place.column, width: `${width}px` }}
      data-testid="turn"
      data-agent={turn.agent}
      data-epoch={turn.epoch}
      data-outcome={outcome}
      aria-pressed={selected.value === turn.epoch}
      aria-label={sentence(turn)}
      title={sentence(turn)}
      onClick={() => (selected.value = selected.value === turn.epoch ? null : turn.epoch)}
    >
      {isOpen ? '' : OUTCOMES[outcome].sign}
    </button>
  );
}

function Detail(): JSX.Element {
  const turn = turns.value.find((one) => one.epoch === selected.value) ?? turns.value.at(-1);
  return (
    <p class="turn-detail" aria-live="off">
      {turn === undefined ? '' : sentence(turn)}
    </p>
  );
}

function List(): JSX.Element {
  return (
    <ol class="turn-list" reversed>
      {turns.value.toReversed().map((turn) => (
        <li key={turn.epoch} class={toneOf(turn.agent)}>
          <span class="speaker">{agentOf(turn.agent).name}</span> {OUTCOMES[turn.outcome ?? 'open'].words}
          <span class="faint">
            {' '}
            {timeOfDay(turn.startedAt)} · {durationText((turn.endedAt ?? now.value) - turn.startedAt)} · #{turn.epoch}
            {turn.said > 0 && ` · ${turn.said} ${turn.said === 1 ? 'message' : 'messages'}`}
            {turn.waits.length > 0 && ` · waited for ${turn.waits.map((wait) => wait.reason).join(', ')}`}
          </span>
        </li>
      ))}
    </ol>
  );
}

function sentence(turn: TurnRecord): string {
  const length = durationText((turn.endedAt ?? now.value) - turn.startedAt);
  const waits =
    turn.waits.length === 0 ? '' : `, waited ${turn.waits.length === 1 ? 'once' : `${turn.waits.length} times`}`;
  const words = OUTCOMES[turn.outcome ?? 'open'].words;
  return `#${turn.epoch} ${agentOf(turn.agent).name} ${words} · ${timeToTheSecond(turn.startedAt)}, ${length}${waits}`;
}
