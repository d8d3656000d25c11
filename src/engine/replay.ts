import type { Fact } from '../turns/floor/fact.ts';
import type { Floor } from '../turns/floor/floor.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { Instant } from '../lib/time.ts';
import { canonical } from './canonical.ts';
import type { Core } from './core.ts';
import { NO_TAIL, entryHash } from './sqlite/journal.ts';
import type { JournalRow } from './sqlite/journal.ts';

/** One fact of a channel's journal, and the floor after it. */
export type ReplayStep = {
  readonly seq: number;
  readonly at: Instant;
  readonly fact: Fact;
  readonly floor: Floor;
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
  /** Whether the fold is the stored floor, byte for byte. */
  readonly equal: boolean;
  readonly folded: string;
  readonly stored: string | null;
};

/** What one channel has on record. */
export type Recording = {
  readonly channel: ChannelId;
  readonly rows: Iterable<JournalRow>;
  /** The stored floor as canonical JSON. */
  readonly stored: string | null;
};

/** Folds a channel's journal from the start and compares the result with the stored floor. Never throws: damage is part of the answer. */
export function replayChannel(
  recording: Recording,
  core: Pick<Core, 'emptyFloor' | 'evolve'>,
  onStep: (step: ReplayStep) => void = () => {},
): Replayed {
  let floor = core.emptyFloor(recording.channel);
  let tail = NO_TAIL;
  let steps = 0;
  let brokenAt: number | null = null;
  let stoppedBy: string | null = null;
  for (const row of recording.rows) {
    const hashOk = row.seq === tail.seq + 1 && entryHash(tail.hash, row).equals(row.hash);
    if (!hashOk) brokenAt ??= row.seq;
    tail = row;
    try {
      const fact = JSON.parse(row.fact) as Fact;
      floor = core.evolve(floor, fact, row.at);
      onStep({ seq: row.seq, at: row.at, fact, floor, hashOk });
    } catch (error) {
      stoppedBy = `entry ${row.seq}: ${error instanceof Error ? error.message : String(error)}`;
      break;
    }
    steps += 1;
  }
  const folded = canonical(floor);
  return { steps, brokenAt, stoppedBy, equal: folded === recording.stored, folded, stored: recording.stored };
}
