import { errorMessage } from '../lib/defined.ts';
import type { Instant } from '../lib/time.ts';
import { canonical } from './canonical.ts';
import { readRecord, readState } from './reading.ts';
import type { ConfigTable, Machine, Reading } from './machine.ts';
import type { LedgerEntry } from './machine-uses.ts';
import type { Ledger, LedgerPlace } from './sqlite/ledger.ts';
import { NO_TAIL, continues } from './sqlite/rows.ts';
import type { JournalRow, Snapshot } from './sqlite/rows.ts';

/** One fact of a journal and the state after it. */
export type ReplayStep<State, Fact> = {
  readonly seq: number;
  readonly at: Instant;
  readonly fact: Fact;
  readonly state: State;
  readonly hashOk: boolean;
};

/** The result of a replay. */
export type Replayed = {
  readonly steps: number;
  /** A fact's number in the first row that breaks hash chain or numbering, or has a wrong deadline; `null` for none. */
  readonly brokenAt: number | null;
  /** Why the replay stopped before the end; `null` when it did not. When stopped, `equal` and `booked` are false. */
  readonly stoppedBy: string | null;
  /** True when folding the journal gives the stored state and its deadline, and when no state is stored. */
  readonly equal: boolean;
  /** True when the ledger has exactly the model calls that the facts report. */
  readonly booked: boolean;
};

/** The journal rows of one key, and its stored state. */
export type Recording = {
  readonly key: string;
  readonly rows: Iterable<JournalRow>;
  readonly snapshot: Snapshot | null;
  readonly configs: ConfigTable;
  readonly ledger: Pick<Ledger, 'holds'>;
};

type Folded<State, Fact> = Reading<State, Fact> &
  Pick<Machine<State, never, Fact, never>, 'empty' | 'evolve' | 'nextDeadline' | 'ledger'>;

/**
 * Folds a journal from the start and compares the result with the stored state and the ledger. Damage of the journal is
 * part of the result, not an error.
 */
export function replayJournal<State, Fact>(
  { key, rows, snapshot, configs, ledger }: Recording,
  machine: Folded<State, Fact>,
  onStep: (step: ReplayStep<State, Fact>) => void = () => {},
): Replayed {
  let state = machine.empty(key);
  let [tail, id, steps, equal]: [typeof NO_TAIL, number, number, boolean] = [NO_TAIL, 0, 0, snapshot === null];
  let brokenAt: number | null = null;
  const entries: (readonly [LedgerPlace, LedgerEntry])[] = [];
  try {
    for (const row of rows) {
      const record = readRecord(machine, row, configs);
      const facts = 'facts' in record ? record.facts : [];
      const first = row.seq - facts.length + 1;
      const hashOk = continues(tail, row);
      const isNext = 'checkpoint' in record || first === tail.seq + 1;
      if (!hashOk || !isNext) brokenAt ??= first;
      if ('checkpoint' in record) state = record.checkpoint;
      for (const [index, fact] of facts.entries()) {
        state = machine.evolve(state, fact, row.at);
        steps += 1;
        const entry = machine.ledger?.(fact) ?? null;
        if (entry !== null) entries.push([{ machine: row.machine, row: row.row, n: index, at: row.at }, entry]);
        onStep({ seq: first + index, at: row.at, fact, state, hashOk });
      }
      if (row.version === machine.version && row.deadline !== machine.nextDeadline(state)) brokenAt ??= row.seq;
      if (row.row === snapshot?.row) equal = isStored(state, { snapshot, configs }, machine);
      tail = row;
      id = row.machine;
    }
  } catch (error) {
    const why = errorMessage(error);
    return { steps, brokenAt, stoppedBy: `after entry ${tail.seq}: ${why}`, equal: false, booked: false };
  }
  return { steps, brokenAt, stoppedBy: null, equal, booked: ledger.holds(id, tail.row, entries) };
}

function isStored<State, Fact>(
  state: State,
  { snapshot, configs }: { readonly snapshot: Snapshot; readonly configs: ConfigTable },
  machine: Folded<State, Fact>,
): boolean {
  const isSame = canonical(readState(machine, snapshot, configs)) === canonical(state);
  return isSame && (snapshot.version !== machine.version || snapshot.deadline === machine.nextDeadline(state));
}
