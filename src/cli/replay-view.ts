import { waitOf } from '../turns/floor/seats.ts';
import type { Floor } from '../turns/floor/floor.ts';
import { factWords, list, WAITS_FOR } from '../turns/commands/fact-words.ts';
import type { Replayed } from '../engine/replay.ts';
import type { FloorStep } from '../turns/floor-store.ts';

/** One line for one fact: number, time in UTC, what happened, and the floor after it in short. */
export function stepLine(step: FloorStep): string {
  const time = new Date(step.at).toISOString();
  const mark = step.hashOk ? '' : '  ✗ the hash does not hold';
  return `${String(step.seq).padStart(6)}  ${time}  ${factWords(step.fact)}  |  ${floorShort(step.state)}${mark}`;
}

/** Whether a replay from an entry on shows this step: earlier ones only when their hash is broken. */
export function isShown(step: FloorStep, from: number): boolean {
  return step.seq >= from || !step.hashOk;
}

/** The last line: whether the journal is whole and gives the stored floor. */
export function verdictLine(channel: string, found: Omit<Replayed, 'folded' | 'stored'>): string {
  const about = `${channel}: ${found.steps === 1 ? '1 entry' : `${found.steps} entries`} replayed`;
  const faults = [
    ...(found.brokenAt === null ? [] : [`the hash chain is broken at entry ${found.brokenAt}`]),
    ...(found.stoppedBy === null ? [] : [`it could not go on: ${found.stoppedBy}`]),
    ...(found.equal ? [] : ['the result differs from the stored floor']),
  ];
  return faults.length === 0
    ? `✓ ${about}; the result is the stored floor, byte for byte, and the hash chain is whole.`
    : `✗ ${about}; ${faults.join('; ')}.`;
}

/** The floor in a few words: "🎤 dev #2 · queue qa, pm". */
export function floorShort(floor: Floor): string {
  const { turn } = floor;
  const who = turn === null ? floor.condition : `${turn.agent} #${turn.epoch}`;
  const wait = waitOf(turn);
  const sign = turn === null ? '' : wait === null ? '🎤 ' : '✋ ';
  const waits = wait === null ? '' : ` waits for ${WAITS_FOR[wait.reason]}`;
  const held = floor.held.length === 0 ? [] : [`held ${floor.held.length}`];
  const parked =
    floor.parked.length === 0
      ? []
      : [
          `waiting ${list(
            floor.parked.map((each) => each.agent),
            String,
          )}`,
        ];
  return [`${sign}${who}${waits}`, `queue ${list(floor.queue, String)}`, ...parked, ...held].join(' · ');
}
