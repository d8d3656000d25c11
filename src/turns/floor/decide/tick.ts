import type { Refusal } from '../refusals.ts';
import { deadlines, seatOf, turnOf } from '../seats.ts';
import type { Deadline } from '../seats.ts';
import { facilitatorAnswered } from './control.ts';
import type { DecisionBuilder } from './decision-builder.ts';
import { finish } from './decision-builder.ts';
import { afterInterrupt, goOn } from './turns.ts';
import type { Turn } from '../floor.ts';
import type { Instant } from '../../../lib/time.ts';

/** The most deadlines that one tick handles. More would mean that a handled deadline does not go away. */
const MAX_DUE = 100;

/** Handles every deadline that has passed, earliest first. */
export function tick(decision: DecisionBuilder): Refusal | null {
  for (let done = 0; done < MAX_DUE; done += 1) {
    const due = deadlines(decision.floor)[0];
    if (due === undefined || due.at > decision.at) return done === 0 ? 'nothing-due' : null;
    meet(decision, due);
    goOn(decision);
  }
  throw new Error(`impossible: more than ${MAX_DUE} deadlines at once in ${decision.floor.channel}`);
}

function meet(decision: DecisionBuilder, due: Deadline): void {
  switch (due.kind) {
    case 'choose':
      facilitatorAnswered(decision, null, 'no answer');
      return;
    case 'limit':
      decision.record({ type: 'usageReset', why: 'midnight' });
      return;
    case 'expire':
      expire(decision, turnOf(decision.floor, due.agent));
      return;
    case 'lapse':
      finish(decision, turnOf(decision.floor, due.agent), { outcome: 'lapsed', trigger: 'SILENCE', to: 'QUEUED' });
      return;
    case 'waitOver':
      finish(decision, turnOf(decision.floor, due.agent), {
        outcome: 'expired',
        trigger: 'WAIT_TIMEOUT',
        to: 'QUEUED',
      });
      decision.announce({ kind: 'waitTimeout', agent: due.agent });
      return;
    case 'force': {
      const turn = turnOf(decision.floor, due.agent);
      decision.record({ type: 'turnStopped', agent: due.agent, epoch: turn.epoch, forced: true });
      afterInterrupt(decision, turnOf(decision.floor, due.agent));
    }
  }
}

/** Ends a turn that timed out. After a hang, marks its agent as disconnected: it gets no turn until it joins again. */
function expire(decision: DecisionBuilder, turn: Turn): void {
  const { agent } = turn;
  const hung = isHung(turn, { at: decision.at, timeoutMs: seatOf(decision.floor, agent).timeoutMs });
  finish(decision, turn, { outcome: 'expired', trigger: 'TIMEOUT', to: 'QUEUED', hung });
  if (hung) decision.record({ type: 'seatMarked', agent, mark: 'present', on: false });
  decision.announce({ kind: 'timeout', agent });
}

/**
 * Whether the agent gave no sign of work before the timeout. A turn at its hard end with recent or open work did not
 * hang, nor did a suspended turn, or a turn with open work whose end is not known.
 */
function isHung(turn: Turn, { at, timeoutMs }: { readonly at: Instant; readonly timeoutMs: number }): boolean {
  if (turn.status !== 'active' || turn.deadlineAt === null) return false;
  return turn.deadlineAt <= at || (turn.openWork === 0 && turn.deadlineAt - timeoutMs <= turn.startedAt);
}
