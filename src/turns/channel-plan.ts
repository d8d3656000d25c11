import type { ChannelConfig, SpendingConfig } from '../config/config.ts';
import type { ChannelId, FloorSettings, SeatSettings } from './floor/settings.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const MICROS = 1_000_000;

/** How a channel is set up. */
export type ChannelPlan = {
  readonly id: ChannelId;
  readonly settings: FloorSettings;
  readonly seats: readonly SeatSettings[];
};

/** A channel's plan, from its configuration. */
export function planOf(channel: ChannelConfig): ChannelPlan {
  return { id: channel.id, settings: floorSettings(channel), seats: seatSettings(channel) };
}

/** What a floor goes by, from its channel's configuration. An announcement that the texts switch off is off here too. */
function floorSettings(channel: ChannelConfig): FloorSettings {
  const turns = channel.turnConfig;
  return {
    mode: turns.humanInterruptMode,
    order: turns.order,
    rounds: turns.rounds,
    maxTurns: turns.maxTurns,
    maxTurnMs: ms(turns.maxTurnSeconds),
    waitTimeoutMs: ms(turns.waitTimeoutSeconds),
    waitPolicy: turns.waitPolicy,
    interruptGraceMs: ms(turns.interruptGraceSeconds),
    interruptResponder: turns.interruptResponder,
    facilitator: turns.facilitator,
    defaultAgent: turns.defaultAgent,
    autoDetectTurnEnd: turns.autoDetectTurnEnd,
    autoDetectSilenceMs: ms(turns.autoDetectSilenceSeconds),
    onRestart: turns.onRestart,
    maxHeld: turns.maxHeld,
    announceTimeouts: turns.announceTimeouts,
    announceDisconnects: turns.announceDisconnects,
    announceLimits: turns.announceLimits,
    announceNobody: turns.announceNobody,
    announceRecovery: turns.announceRecovery,
    receipts: turns.receipts,
    exchangeBudget: spending(channel.budgets.exchange),
    dayBudget: spending(channel.budgets.day),
  };
}

/** What each seat of a channel goes by, in the order of assignment. */
function seatSettings(channel: ChannelConfig): readonly SeatSettings[] {
  return channel.seats.map(({ agent, priority, timeoutSeconds, rejoin }) => ({
    agent,
    priority,
    timeoutMs: ms(timeoutSeconds),
    rejoin,
  }));
}

function ms(seconds: number): number {
  return Math.round(seconds * SECOND_MS);
}

function spending(budget: SpendingConfig): FloorSettings['dayBudget'] {
  return {
    tokens: budget.tokens,
    costMicros: budget.costUsd === null ? null : Math.round(budget.costUsd * MICROS),
    ms: budget.minutes === null ? null : Math.round(budget.minutes * MINUTE_MS),
  };
}
