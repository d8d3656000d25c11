import type { InterruptMode, OrderPolicy } from './floor/policies.ts';
import type { Status, Floor, Turn } from './floor/floor.ts';
import type { AgentId, ChannelId, MessageId, Question } from './floor/settings.ts';
import type { Instant } from '../lib/time.ts';
import type { Fact, Outcome } from './floor/fact.ts';
import { endOf, waitOf, openQuestion } from './floor/seats.ts';
import { obstacles, upcoming } from './floor/gate.ts';
import type { Obstacle } from './floor/gate.ts';
import type { JournalEntry } from './records.ts';

/** One floor as people see it: plain JSON for cards, the console and `/floor status`. */
export type FloorView = {
  readonly channel: ChannelId;
  readonly condition: 'resting' | 'open' | 'paused';
  readonly mode: InterruptMode;
  readonly order: OrderPolicy;
  readonly epoch: number;
  readonly holder: {
    readonly agent: AgentId;
    readonly epoch: number;
    readonly status: 'ACTIVE' | 'WAITING';
    readonly startedAt: Instant;
    /** When it ends by itself: without a further sign of work, or in any case. */
    readonly deadlineAt: Instant | null;
    readonly waitingFor: 'answer' | 'human' | 'approval' | null;
    readonly working: boolean;
    /** What it asks a yes for; operators answer with /allow or /reject and its number. */
    readonly approval: Question | null;
  } | null;
  readonly seats: readonly {
    readonly agent: AgentId;
    readonly status: Status;
    readonly disabled: boolean;
    readonly waitUntil: Instant | null;
  }[];
  /** Who is next, in the order in which the policy would grant now. */
  readonly next: readonly AgentId[];
  readonly held: readonly MessageId[];
  /** Agent turns since the last human message, of how many. */
  readonly turns: { readonly used: number; readonly allowed: number } | null;
  /** Everything for which nobody is granted the floor now, what outlasts the rest first; with nothing, whoever is next may have it. */
  readonly obstacles: readonly Obstacle[];
};

/** One turn of the past or present, for the time line. */
export type TurnRecord = {
  readonly epoch: number;
  readonly agent: AgentId;
  readonly startedAt: Instant;
  readonly endedAt: Instant | null;
  readonly outcome: Outcome | null;
  readonly said: number;
  readonly waits: readonly { readonly reason: string; readonly at: Instant; readonly endedAt: Instant | null }[];
};

/** What people see of a floor at an instant. */
export function viewOf(floor: Floor, at: Instant): FloorView {
  const { turn, settings } = floor;
  const waits = new Map(
    [turn, ...floor.parked].flatMap((open) => (open?.status === 'waiting' ? [[open.agent, open.wait.deadlineAt]] : [])),
  );
  return {
    channel: floor.channel,
    condition: floor.condition,
    mode: settings.mode,
    order: settings.order,
    epoch: floor.epoch,
    holder: turn === null ? null : holderOf(turn, openQuestion(floor)),
    seats: floor.seats.map(({ agent, status, disabled }) => ({
      agent,
      status,
      disabled,
      waitUntil: waits.get(agent) ?? null,
    })),
    next: upcoming(floor),
    held: floor.held.map(({ id }) => id),
    turns: floor.exchange === null ? null : { used: floor.usageSincePerson.turns, allowed: settings.maxTurns },
    obstacles: obstacles(floor, at),
  };
}

/** The turns that a stretch of the journal tells of, oldest first; one that began before it is left out. */
export function turnRecords(entries: readonly Pick<JournalEntry, 'at' | 'fact'>[]): readonly TurnRecord[] {
  const records = new Map<number, TurnRecord>();
  const open = new Map<AgentId, number>();
  for (const { at, fact } of entries) {
    if (fact.type === 'turnGranted') {
      open.set(fact.agent, fact.epoch);
      const { epoch, agent } = fact;
      records.set(epoch, { epoch, agent, startedAt: at, endedAt: null, outcome: null, said: 0, waits: [] });
      continue;
    }
    if (!('agent' in fact) || typeof fact.agent !== 'string') continue;
    const epoch = open.get(fact.agent);
    const record = epoch === undefined ? undefined : records.get(epoch);
    if (record === undefined) continue;
    records.set(record.epoch, told(record, fact, at));
    if (fact.type === 'turnEnded') open.delete(fact.agent);
  }
  return [...records.values()];
}

function told(record: TurnRecord, fact: Fact, at: Instant): TurnRecord {
  switch (fact.type) {
    case 'said':
      return { ...record, said: record.said + 1 };
    case 'turnWaited':
      return { ...record, waits: [...record.waits, { reason: fact.wait.reason, at, endedAt: null }] };
    case 'turnResumed':
      return { ...record, waits: ended(record.waits, at) };
    case 'turnEnded':
      return { ...record, endedAt: at, outcome: fact.outcome, waits: ended(record.waits, at) };
    default:
      return record;
  }
}

function ended(waits: TurnRecord['waits'], at: Instant): TurnRecord['waits'] {
  return waits.map((wait) => (wait.endedAt === null ? { ...wait, endedAt: at } : wait));
}

function holderOf(turn: Turn, approval: Question | null): NonNullable<FloorView['holder']> {
  return {
    agent: turn.agent,
    epoch: turn.epoch,
    status: turn.status === 'waiting' ? 'WAITING' : 'ACTIVE',
    startedAt: turn.startedAt,
    deadlineAt: turn.status === 'waiting' ? turn.wait.deadlineAt : endOf(turn),
    waitingFor: waitOf(turn)?.reason ?? null,
    working: turn.status === 'active' && turn.openWork > 0,
    approval,
  };
}
