import { computed, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { factWords } from '../../../turns/commands/fact-words.ts';
import type { JournalEntry } from '../../../turns/view.ts';
import { timeToTheSecond } from '../now.ts';
import { Block, Button } from '../parts.tsx';
import { ask } from '../sending.ts';
import { channel, journal, journalHasEarlier, nameOf } from '../state.ts';

const DRAWN = 1500;
/** Signs of work are many and say little. */
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

/** Every fact of this floor, newest first, in words; unfolded, as it is stored. */
export function Journal(): JSX.Element {
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

function Entry({ entry }: { readonly entry: JournalEntry }): JSX.Element {
  const { seq, at, fact } = entry;
  return (
    <li class={`entry is-${KINDS[fact.type] ?? 'other'}`} data-fact={fact.type}>
      <details>
        <summary>
          <time dateTime={new Date(at).toISOString()}>{timeToTheSecond(at)}</time>
          <span class="entry-words">{words(entry)}</span>
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

/** The words of an entry; its type when this page is older than Conch and does not know the type. */
function words({ fact }: JournalEntry): string {
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
