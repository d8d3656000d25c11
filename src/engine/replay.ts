import type { Instant } from '../lib/time.ts';
import { canonical } from './canonical.ts';
import type { Machine } from './machine.ts';
import { NO_TAIL, entryHash } from './sqlite/journal.ts';
import type { JournalRow } from './sqlite/journal.ts';

/** One fact of a journal, and the state after it. */
export type ReplayStep<State, Fact> = {
  readonly seq: number;
  readonly at: Instant;
  readonly fact: Fact;
  readonly state: State;
  /** Whether the entry continues the hash chain. */
  readonly hashOk: boolean;
};

/** What a replay found. */
export type Replayed = {
  readonly steps: number;
  /** The first entry that does not continue the chain; `null` when all do. */
  readonly brokenAt: number | null;
  /** Why the fold stopped before the end, in words; `null` when it did not. */
  readonly stoppedBy: string | null;
  /** Whether the fold is the stored state, byte for byte. */
  readonly equal: boolean;
  readonly folded: string;
  readonly stored: string | null;
};

/** What one key has on record. */
export type Recording = {
  readonly key: string;
  readonly rows: Iterable<JournalRow>;
  /** The stored state as canonical JSON. */
  readonly stored: string | null;
};

/** What a fold needs of a machine. */
export type Folded<State, Fact> = Pick<Machine<State, never, Fact, unknown>, 'empty' | 'evolve' | 'fact'>;

/** Folds a journal from the start and compares the result with the stored state. Never throws: damage is part of the answer. */
export function replayJournal<State, Fact>(
  recording: Recording,
  machine: Folded<State, Fact>,
  onStep: (step: ReplayStep<State, Fact>) => void = () => {},
): Replayed {
  let state = machine.empty(recording.key);
  let tail = NO_TAIL;
  let steps = 0;
  let brokenAt: number | null = null;
  let stoppedBy: string | null = null;
  for (const row of recording.rows) {
    const hashOk = row.seq === tail.seq + 1 && entryHash(tail.hash, row).equals(row.hash);
    if (!hashOk) brokenAt ??= row.seq;
    tail = row;
    try {
      const fact = machine.fact.parse(JSON.parse(row.fact));
      state = machine.evolve(state, fact, row.at);
      onStep({ seq: row.seq, at: row.at, fact, state, hashOk });
    } catch (error) {
      stoppedBy = `entry ${row.seq}: ${error instanceof Error ? error.message : String(error)}`;
      break;
    }
    steps += 1;
  }
  const folded = canonical(state);
  return { steps, brokenAt, stoppedBy, equal: folded === recording.stored, folded, stored: recording.stored };
}
