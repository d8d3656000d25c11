import type { Status } from './core/seat.ts';
import type { AgentId, ChannelId, Instant, InterruptMode, MessageId, OrderPolicy } from './core/settings.ts';
import type { Outcome } from './core/fact.ts';

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
    /** When it ends by itself; `null` while a tool call keeps it open (then `hardEndAt` counts). */
    readonly deadlineAt: Instant | null;
    readonly waitingFor: 'answer' | 'human' | 'approval' | null;
    readonly working: boolean;
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
  readonly limit: string | null;
  readonly catchingUp: boolean;
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
