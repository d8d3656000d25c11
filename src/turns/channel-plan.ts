import { createHash, hash } from 'node:crypto';
import type { ChannelConfig, Config, SpendingConfig } from '../config/config.ts';
import { canonical } from '../engine/canonical.ts';
import type { Floor } from './floor/floor.ts';
import { nextDeadline } from './floor/seats.ts';
import type { ChannelId, FloorSettings, SeatSettings } from './floor/settings.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const MICROS = 1_000_000;

/** The settings and seats of a channel. */
export type ChannelPlan = {
  readonly id: ChannelId;
  readonly settings: FloorSettings;
  readonly seats: readonly SeatSettings[];
};

/** The plans of a configuration: settings and seats for the floor of each channel. */
export type Plans = {
  /** A hash of the configured channels' plans. `null`: none, so each floor must always be compared with its plan. */
  readonly word: string | null;
  readonly all: () => readonly ChannelPlan[];
  readonly of: (channel: ChannelId) => ChannelPlan | null;
  /** Whether a floor with these seats may rest at a start: none of its agents connects to Conch from outside. */
  readonly mayRest: (seats: ChannelPlan['seats']) => boolean;
};

/** The plan of a channel's configuration. */
export function planOf({ id, turnConfig, budgets, seats }: ChannelConfig): ChannelPlan {
  return {
    id,
    settings: once(SETTINGS, [turnConfig, budgets], () => floorSettings({ turnConfig, budgets })),
    seats: once(SEATS, [seats, seats], () => seatSettings(seats)),
  };
}

/** The hash of a plan. */
export function planWord({ settings, seats }: Pick<ChannelPlan, 'settings' | 'seats'>): string {
  return once(WORDS, [settings, seats], () => hash('sha256', canonical({ settings, seats }), 'base64url'));
}

/** The hash of the plans and of the setting `threads` of all channels of a configuration. */
export function plansWord({ channels }: Pick<Config, 'channels'>): string {
  const all = createHash('sha256');
  let [alike, ids] = [channels[0], ''];
  const add = (): void => {
    if (alike === undefined) return;
    all.update(`${ids}${planWord(planOf(alike))} ${alike.turnConfig.threads}\n`);
    ids = '';
  };
  // Hashes adjacent channels with the same configuration together, because there may be many.
  for (const channel of channels) {
    const { turnConfig, budgets, seats } = channel;
    const isAlike = turnConfig === alike?.turnConfig && budgets === alike.budgets && seats === alike.seats;
    if (!isAlike || ids.length > PIECE) add();
    alike = channel;
    ids += `${channel.id}\n`;
  }
  add();
  return all.digest('base64url');
}

/**
 * The hash of the plan under which a floor rests; `null` without a plan. `null` while an exchange, a turn, a background
 * run, a held message or a deadline is open, and before the history is read. `null` also when the numbers of seats of
 * floor and plan differ, or an agent is neither connected nor disabled.
 */
export function restOf(floor: Floor): string | null {
  const { turn, exchange, facilitation, parked, held, seats, asides: backgroundRuns, configured, catchingUp } = floor;
  if (configured === null || catchingUp || nextDeadline(floor) !== null) return null;
  const isBusy =
    turn !== null ||
    exchange !== null ||
    facilitation !== null ||
    parked.length + held.length > 0 ||
    backgroundRuns !== undefined;
  const isThere = (seat: Floor['seats'][number]): boolean =>
    seat.disabled || (seat.present && seat.status !== 'OFFLINE');
  if (isBusy || seats.length !== configured.seats.length || !seats.every(isThere)) return null;
  return planWord(configured);
}

/** About how many UTF-16 units of ids are hashed at once. */
const PIECE = 65_536;

type CachedValues<Value> = WeakMap<object, WeakMap<object, Value>>;

const SETTINGS: CachedValues<FloorSettings> = new WeakMap();
const SEATS: CachedValues<readonly SeatSettings[]> = new WeakMap();
const WORDS: CachedValues<string> = new WeakMap();

function once<Value>(cache: CachedValues<Value>, [first, second]: readonly [object, object], make: () => Value): Value {
  const ofOne = cache.get(first) ?? new WeakMap<object, Value>();
  cache.set(first, ofOne);
  const value = ofOne.get(second) ?? make();
  ofOne.set(second, value);
  return value;
}

function floorSettings({ turnConfig: turns, budgets }: Pick<ChannelConfig, 'turnConfig' | 'budgets'>): FloorSettings {
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
    exchangeBudget: spending(budgets.exchange),
    dayBudget: spending(budgets.day),
  };
}

function seatSettings(seats: ChannelConfig['seats']): readonly SeatSettings[] {
  return seats.map(({ agent, priority, timeoutSeconds, rejoin }) => ({
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
