import { waitOf } from '../turns/floor/seats.ts';
import type { Floor } from '../turns/floor/floor.ts';
import { factWords, list, WAITS_FOR } from '../turns/commands/fact-words.ts';
import type { StoredSession, RecordedMove } from '../agents/session/session-journal.ts';
import type { Replayed, ReplayStep } from '../engine/replay.ts';

type Replayable<State, Fact> = {
  keys(): readonly string[];
  replay(key: string, onStep: (step: ReplayStep<State, Fact>) => void): Replayed;
};

type MachineWords<State, Fact> = { readonly fact: (fact: Fact) => string; readonly state: (state: State) => string };

/**
 * `key`: the key of a journal, or its end after a colon; `null` for all journals. `from`: number of the first entry to
 * print. Earlier entries are printed only if their hash is broken.
 */
type ReplayPlan = { readonly key: string | null; readonly from: number };

/** Formats facts and states of floors. */
export const FLOOR_WORDS = { fact: factWords, state: floorShort } as const;

/** Formats facts and states of agents' sessions. */
export const SESSION_WORDS = { fact: moveWords, state: sessionShort } as const;

/**
 * Replays the journals of a state machine. Prints a line for each entry from `from` on and for each with a broken hash,
 * then a verdict for each journal. Returns whether all journals are intact; `null` when no key matches.
 */
export function replayAll<State, Fact>(
  machine: Replayable<State, Fact>,
  words: MachineWords<State, Fact>,
  { key, from }: ReplayPlan,
  say: (line: string) => void,
): boolean | null {
  const keys = machine.keys().filter((id) => key === null || id === key || id.endsWith(`:${key}`));
  if (keys.length === 0) return null;
  const verdicts = keys.map((id) => {
    const replayed = machine.replay(id, (step) => {
      if (isShown(step, from)) say(stepLine(step, words));
    });
    say(verdictLine(id, replayed));
    return replayed.equal && replayed.booked && replayed.brokenAt === null && replayed.stoppedBy === null;
  });
  return verdicts.every(Boolean);
}

/** Formats one fact: number, time in UTC, words, and the state after it. */
export function stepLine<State, Fact>(step: ReplayStep<State, Fact>, words: MachineWords<State, Fact>): string {
  const time = new Date(step.at).toISOString();
  const mark = step.hashOk ? '' : '  ✗ the hash does not match';
  return `${String(step.seq).padStart(6)}  ${time}  ${words.fact(step.fact)}  |  ${words.state(step.state)}${mark}`;
}

/** True for entries from `from` on, and for earlier ones with a broken hash. */
export function isShown(step: Pick<ReplayStep<unknown, unknown>, 'seq' | 'hashOk'>, from: number): boolean {
  return step.seq >= from || !step.hashOk;
}

/** Formats the result of a replay: whether the journal is intact, gives the stored state and matches the ledger. */
export function verdictLine(key: string, replayed: Omit<Replayed, 'folded' | 'stored'>): string {
  const about = `${key}: ${replayed.steps === 1 ? '1 entry' : `${replayed.steps} entries`} replayed`;
  const faults = [
    ...(replayed.brokenAt === null ? [] : [`the hash chain is broken at entry ${replayed.brokenAt}`]),
    ...(replayed.stoppedBy === null ? [] : [`the replay stopped: ${replayed.stoppedBy}`]),
    ...(replayed.equal ? [] : ['the result differs from the stored state']),
    ...(replayed.booked || replayed.stoppedBy !== null ? [] : ['the ledger does not match the journal']),
  ];
  return faults.length === 0
    ? `✓ ${about}; the result equals the stored state, and the hash chain is intact.`
    : `✗ ${about}; ${faults.join('; ')}.`;
}

function moveWords({ from, trigger, to, cause }: RecordedMove): string {
  const why = to.name === 'Stopped' ? ` (${to.why})` : cause === null ? '' : ` (${cause})`;
  return `${from} → ${to.name}: ${trigger}${why}`;
}

function sessionShort({ sessionSeq, consecutiveErrors, totalErrors }: StoredSession): string {
  return `session ${sessionSeq} · ${consecutiveErrors} errors in a row · ${totalErrors} in all`;
}

/** Formats a floor: "🎤 dev #2 · queue qa, pm". */
export function floorShort(floor: Floor): string {
  const { turn } = floor;
  const who = turn === null ? floor.condition : `${turn.agent} #${turn.epoch}`;
  const wait = waitOf(turn);
  const sign = turn === null ? '' : wait === null ? '🎤 ' : '✋ ';
  const waits = wait === null ? '' : ` waits for ${WAITS_FOR[wait.reason]}`;
  const heldCount = floor.held.length === 0 ? [] : [`held ${floor.held.length}`];
  const waiting = floor.parked.map(({ agent }) => agent);
  const parked = waiting.length === 0 ? [] : [`waiting ${list(waiting, String)}`];
  return [`${sign}${who}${waits}`, `queue ${list(floor.queue, String)}`, ...parked, ...heldCount].join(' · ');
}
