import type { Turn, Wait } from '../../../src/turns/floor/floor.ts';
import type { Question } from '../../../src/turns/floor/settings.ts';
import type { Instant } from '../../../src/lib/time.ts';

/** A wait with all fields; `null` for fields that this kind of wait does not have. */
type FlatWait = {
  readonly reason: 'answer' | 'human' | 'approval';
  readonly deadlineAt: Instant;
  readonly ready: boolean;
  readonly answers: Turn['unseen'];
  readonly graceEndAt: Instant | null;
  readonly question: Question | null;
  readonly of: Extract<Wait, { reason: 'answer' }>['of'] | null;
};

/** A turn with all fields; `null` for fields that a turn of this status does not have. */
export type FlatTurn = Pick<
  Turn,
  'agent' | 'epoch' | 'startedAt' | 'said' | 'given' | 'unseen' | 'injecting' | 'place' | 'status' | 'extendedTo'
> & {
  readonly deadlineAt: Instant | null;
  readonly hardEndAt: Instant | null;
  readonly silenceAt: Instant | null;
  readonly leftMs: number | null;
  readonly openWork: number;
  readonly wait: FlatWait | null;
};

const NO_TIMES = { deadlineAt: null, hardEndAt: null, silenceAt: null, leftMs: null, openWork: 0, wait: null };

export function flat(turn: Turn): FlatTurn {
  if (turn.status !== 'waiting') return { ...NO_TIMES, ...turn };
  const { wait } = turn;
  return { ...NO_TIMES, ...turn, wait: { graceEndAt: null, question: null, of: null, ...wait } };
}

export function flatOrNull(turn: Turn | null | undefined): FlatTurn | null {
  return turn == null ? null : flat(turn);
}
