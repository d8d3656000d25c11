import { computed, signal, useSignalEffect } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import { factWords } from '../../../turns/commands/fact-words.ts';
import type { Outcome } from '../../../turns/floor/fact.ts';
import type { JournalEntry, TurnRecord } from '../../../turns/view.ts';
import { durationText, now, timeOfDay, timeToTheSecond } from '../now.ts';
import { Block, Button, SignButton, Time, toneOf } from '../parts.tsx';
import { ask } from '../sending.ts';
import { channel, connection, drawerOpen, journal, journalHasEarlier, nameOf, tab, turns, view } from '../state.ts';
import { FloorTab } from './floor-tab.tsx';

const TABS = ['floor', 'turns', 'journal'] as const;

/** The panel beside the conversation: floor, turns, journal. A drawer on narrow screens. */
export function Panel(): JSX.Element {
  useSignalEffect(() => {
    if (connection.value !== 'open' || channel.value === null) return;
    ask({ type: 'watch', channel: channel.value, on: tab.value === 'journal' });
  });
  return (
    <aside class="panel" aria-label="The floor in detail">
      <div class="tabs">
        <div class="tab-list" role="tablist" aria-label="Details" onKeyDown={moveTab}>
          {TABS.map((id) => (
            <Button
              key={id}
              role="tab"
              id={`tab-${id}`}
              aria-selected={tab.value === id}
              aria-controls="panel-body"
              tabIndex={tab.value === id ? 0 : -1}
              onClick={() => (tab.value = id)}
            >
              {`${id.charAt(0).toUpperCase()}${id.slice(1)}`}
            </Button>
          ))}
        </div>
        <SignButton icon="close" label="Close" kind="narrow-only" onClick={() => (drawerOpen.value = false)} />
      </div>
      <div class="panel-body" id="panel-body" role="tabpanel" aria-labelledby={`tab-${tab.value}`}>
        {tab.value === 'floor' && <FloorTab />}
        {tab.value === 'journal' ? <Journal /> : <Turns isStrip={tab.value === 'floor'} />}
      </div>
    </aside>
  );
}

function moveTab(event: KeyboardEvent): void {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step === undefined) return;
  tab.value = TABS[(TABS.indexOf(tab.value) + step + TABS.length) % TABS.length] ?? 'floor';
  document.querySelector<HTMLElement>(`#tab-${tab.value}`)?.focus();
}

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

function Turns({ isStrip }: { readonly isStrip: boolean }): JSX.Element {
  const shownTurns = isStrip ? turns.value.slice(-24) : turns.value;
  const detailed = turns.value.find(({ epoch }) => epoch === selected.value) ?? shownTurns.at(-1);
  return (
    <Block id="turns" title="Turns" data-testid="turns" data-count={turns.value.length}>
      {detailed === undefined ? (
        <p class="faint">No turn yet.</p>
      ) : (
        <>
          <Score shownTurns={shownTurns} />
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

function Score({ shownTurns }: { readonly shownTurns: readonly TurnRecord[] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const last = shownTurns.at(-1)?.epoch;
  useLayoutEffect(() => {
    if (box.current !== null) box.current.scrollLeft = box.current.scrollWidth;
  }, [last]);
  const seated = (view.value?.seats ?? []).map((seat) => seat.agent);
  const lanes = [...new Set([...seated, ...shownTurns.map((turn) => turn.agent)])];
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
          {shownTurns.map((turn, place) => (
            <TurnBlock
              key={turn.epoch}
              turn={turn}
              row={lanes.indexOf(turn.agent) + 1}
              column={place + 1}
              before={shownTurns[place - 1]}
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
  const { epoch, agent, startedAt, waits } = turn;
  const rested = before !== undefined && before.endedAt !== null && startedAt - before.endedAt > GAP_MS;
  const outcome = turn.outcome ?? 'open';
  const width = Math.round(Math.min(88, 16 + 7 * Math.sqrt(Math.max(0, lengthOf(turn)) / 1000)));
  const marks = `${rested ? ' after-rest' : ''}${waits.length > 0 ? ' has-wait' : ''}`;
  return (
    <Button
      kind={`turn ${toneOf(agent)} is-${outcome}${marks}`}
      style={{ gridRow: row, gridColumn: column, width: `${width}px` }}
      data-testid="turn"
      data-agent={agent}
      data-epoch={epoch}
      data-outcome={outcome}
      aria-pressed={selected.value === epoch}
      aria-label={sentence(turn)}
      title={sentence(turn)}
      onClick={() => (selected.value = selected.value === epoch ? null : epoch)}
    >
      {turn.endedAt === null ? '' : OUTCOMES[outcome].sign}
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
            {timeOfDay(turn.startedAt)} · {durationText(lengthOf(turn))} · #{turn.epoch}
            {turn.said > 0 && ` · ${turn.said} ${turn.said === 1 ? 'message' : 'messages'}`}
            {turn.waits.length > 0 && ` · waited for ${turn.waits.map((wait) => wait.reason).join(', ')}`}
          </span>
        </li>
      ))}
    </ol>
  );
}

function sentence(turn: TurnRecord): string {
  const { epoch, agent, startedAt, outcome, waits } = turn;
  const waited = waits.length === 0 ? '' : `, waited ${waits.length === 1 ? 'once' : `${waits.length} times`}`;
  const words = `${nameOf(agent)} ${OUTCOMES[outcome ?? 'open'].words}`;
  return `#${epoch} ${words} · ${timeToTheSecond(startedAt)}, ${durationText(lengthOf(turn))}${waited}`;
}

/** Duration of a turn in milliseconds; an open turn counts until now. */
function lengthOf({ startedAt, endedAt }: TurnRecord): number {
  return (endedAt ?? now.value) - startedAt;
}

const DRAWN = 1500;
/** Whether a fact is hidden by default: signs of work, costs and presence are many and say little. */
function isQuiet({ fact }: JournalEntry): boolean {
  return fact.type === 'worked' || fact.type === 'spent' || (fact.type === 'seatMarked' && fact.mark === 'present');
}

const showAll = signal(false);

const listed = computed(() =>
  journal.value
    .filter((entry) => showAll.value || !isQuiet(entry))
    .slice(-DRAWN)
    .toReversed(),
);

function Journal(): JSX.Element {
  return (
    <Block id="journal" title="Journal" data-testid="journal">
      <label class="check">
        <input
          type="checkbox"
          checked={showAll.value}
          onChange={(event) => (showAll.value = event.currentTarget.checked)}
        />
        Show signs of work too
      </label>
      {listed.value.length === 0 && <p class="faint">Nothing has happened here yet.</p>}
      <ol class="journal" reversed>
        {listed.value.map((entry) => (
          <Entry key={entry.seq} entry={entry} />
        ))}
      </ol>
      {journalHasEarlier.value && (
        <Button kind="small-button" onClick={askEarlier}>
          Earlier
        </Button>
      )}
    </Block>
  );
}

function Entry({ entry: { seq, at, fact } }: { readonly entry: JournalEntry }): JSX.Element {
  return (
    <li class={`entry is-${KINDS[fact.type] ?? 'other'}`} data-fact={fact.type}>
      <details>
        <summary>
          <Time at={at} shown={timeToTheSecond} />
          <span class="entry-words">{wordsOf(fact)}</span>
        </summary>
        <pre>{`${seq}  ${JSON.stringify(fact, null, 2)}`}</pre>
      </details>
    </li>
  );
}

const KINDS: Readonly<Record<string, string>> = {
  turnGranted: 'turn',
  turnResumed: 'turn',
  turnEnded: 'turn',
  seatMoved: 'seat',
  messageRouted: 'message',
  messageAmended: 'message',
  said: 'message',
  actRefused: 'refused',
  announced: 'notice',
};

/** Words for a fact; its type if this page is older than the server and does not know it. */
function wordsOf(fact: JournalEntry['fact']): string {
  try {
    return factWords(fact, nameOf);
  } catch {
    return fact.type;
  }
}

function askEarlier(): void {
  const first = journal.value[0];
  if (channel.value !== null && first !== undefined) {
    ask({ type: 'journal', channel: channel.value, before: first.seq });
  }
}
