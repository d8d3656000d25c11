import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import type { Outcome } from '../../../turns/floor/fact.ts';
import type { TurnRecord } from '../../../turns/view.ts';
import { Block, Button, toneOf } from '../parts.tsx';
import { tab, nameOf, turns, view } from '../state.ts';
import { durationText, now, timeOfDay, timeToTheSecond } from '../now.ts';

const OUTCOMES: Readonly<Record<Outcome | 'open', { readonly sign: string; readonly words: string }>> = {
  open: { sign: '●', words: 'has the floor' },
  completed: { sign: '', words: 'completed' },
  passed: { sign: '–', words: 'passed, nothing to say' },
  lapsed: { sign: '…', words: 'ended by silence' },
  expired: { sign: '⏱', words: 'timed out' },
  forfeited: { sign: '✕', words: 'lost: the agent disconnected' },
  revoked: { sign: '■', words: 'ended by an operator' },
};

const GAP_MS = 60_000;
const selected = signal<number | null>(null);

/** The turns of this floor as a score: a line per agent, a block per turn, in the order in which they were. */
export function Turns({ isStrip }: { readonly isStrip: boolean }): JSX.Element {
  const shown = isStrip ? turns.value.slice(-24) : turns.value;
  const detailed = turns.value.find(({ epoch }) => epoch === selected.value) ?? shown.at(-1);
  return (
    <Block id="turns" title="Turns" data-testid="turns" data-count={turns.value.length}>
      {detailed === undefined ? (
        <p class="faint">No turn yet.</p>
      ) : (
        <>
          <Score shown={shown} />
          <p class="turn-detail faint" aria-live="off">
            {sentence(detailed)}
          </p>
          {isStrip ? (
            <Button kind="link" onClick={() => (tab.value = 'turns')}>
              All turns in words
            </Button>
          ) : (
            <List />
          )}
        </>
      )}
    </Block>
  );
}

function Score({ shown }: { readonly shown: readonly TurnRecord[] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const last = shown.at(-1)?.epoch;
  useLayoutEffect(() => {
    if (box.current !== null) box.current.scrollLeft = box.current.scrollWidth;
  }, [last]);
  const seated = (view.value?.seats ?? []).map((seat) => seat.agent);
  const lanes = [...new Set([...seated, ...shown.map((turn) => turn.agent)])];
  return (
    <div class="score">
      <ul class="score-names" aria-hidden="true">
        {lanes.map((agent) => (
          <li key={agent} class={`cut ${toneOf(agent)}`}>
            {nameOf(agent)}
          </li>
        ))}
      </ul>
      <div class="score-scroll" ref={box}>
        <div class="score-turns" style={{ gridTemplateRows: `repeat(${lanes.length}, 28px)` }}>
          {shown.map((turn, place) => (
            <TurnBlock
              key={turn.epoch}
              turn={turn}
              row={lanes.indexOf(turn.agent) + 1}
              column={place + 1}
              before={shown[place - 1]}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

type TurnBlockProps = {
  readonly turn: TurnRecord;
  readonly row: number;
  readonly column: number;
  readonly before: TurnRecord | undefined;
};

function TurnBlock({ turn, row, column, before }: TurnBlockProps): JSX.Element {
  const rested = before !== undefined && before.endedAt !== null && turn.startedAt - before.endedAt > GAP_MS;
  const outcome = turn.outcome ?? 'open';
  const isOpen = turn.endedAt === null;
  const length = (turn.endedAt ?? now.value) - turn.startedAt;
  const width = Math.round(Math.min(88, 16 + 7 * Math.sqrt(Math.max(0, length) / 1000)));
  return (
    <Button
      kind={`turn ${toneOf(turn.agent)} is-${outcome}${rested ? ' after-rest' : ''}${turn.waits.length > 0 ? ' has-wait' : ''}`}
      style={{ gridRow: row, gridColumn: column, width: `${width}px` }}
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
    </Button>
  );
}

function List(): JSX.Element {
  return (
    <ol class="turn-list" reversed>
      {turns.value.toReversed().map((turn) => (
        <li key={turn.epoch} class={toneOf(turn.agent)}>
          <span class="speaker">{nameOf(turn.agent)}</span> {OUTCOMES[turn.outcome ?? 'open'].words}
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
  return `#${turn.epoch} ${nameOf(turn.agent)} ${words} · ${timeToTheSecond(turn.startedAt)}, ${length}${waits}`;
}
