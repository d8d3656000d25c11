import type { Floor, Turn, WaitingTurn } from './floor.ts';
import type { AgentId } from './settings.ts';
import type { Instant } from '../../lib/time.ts';

/** Something that happens by itself at an instant. */
export type Deadline =
  | { readonly kind: 'expire' | 'lapse' | 'force' | 'waitOver'; readonly agent: AgentId; readonly at: Instant }
  | { readonly kind: 'choose' | 'limit'; readonly at: Instant };

/**
 * Every deadline of a floor, earliest first. Until the channel's history has been read only what runs has one: a wait is
 * not over before it is known what people wrote meanwhile, nor a turn whose agent has yet to come back.
 */
export function deadlines(floor: Floor): readonly Deadline[] {
  const found: Deadline[] = [];
  if (floor.turn !== null) found.push(...turnDeadlines(floor.turn));
  for (const parked of floor.parked) found.push(...turnDeadlines(parked));
  if (floor.facilitation !== null) found.push({ kind: 'choose', at: floor.facilitation.deadlineAt });
  if (floor.limit !== null && floor.limit.until !== null) found.push({ kind: 'limit', at: floor.limit.until });
  const due = floor.catchingUp ? found.filter((deadline) => isRunning(floor, deadline)) : found;
  return due.sort((a, b) => a.at - b.at);
}

function isRunning({ turn }: Floor, { kind }: Deadline): boolean {
  return kind !== 'waitOver' && kind !== 'limit' && turn?.status !== 'suspended';
}

/** When the floor next changes by itself, or `null`: the one alarm of its channel. */
export function nextDeadline(floor: Floor): Instant | null {
  return deadlines(floor)[0]?.at ?? null;
}

function turnDeadlines(turn: Turn): readonly Deadline[] {
  const { agent } = turn;
  switch (turn.status) {
    case 'waiting': {
      const { wait } = turn;
      if (wait.ready) return [];
      const over: Deadline = { kind: 'waitOver', agent, at: wait.deadlineAt };
      if (wait.reason !== 'human' || wait.graceEndAt === null) return [over];
      return [{ kind: 'force', agent, at: wait.graceEndAt }, over];
    }
    case 'active': {
      const end: Deadline = { kind: 'expire', agent, at: endOf(turn) };
      return turn.silenceAt === null ? [end] : [{ kind: 'lapse', agent, at: turn.silenceAt }, end];
    }
    case 'suspended':
      return [{ kind: 'expire', agent, at: endOf(turn) }];
  }
}

/** When a turn ends by itself, without a further sign of work or in any case. */
export function endOf({ deadlineAt, hardEndAt }: Exclude<Turn, WaitingTurn>): Instant {
  return deadlineAt === null ? hardEndAt : Math.min(deadlineAt, hardEndAt);
}
