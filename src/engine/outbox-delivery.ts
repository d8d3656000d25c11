import { setImmediate } from 'node:timers/promises';
import { errorMessage } from '../lib/defined.ts';
import { Alarm } from '../lib/time.ts';
import { backoffMs } from '../lib/retry.ts';
import type { RetryPolicy } from '../lib/retry.ts';
import type { Clock, Instant, Timers } from '../lib/time.ts';
import type { OutboxStore, OutboxEntry, Settlement } from './port.ts';

/** Delivers one outbox entry and returns its settlement. A rejection means that the outcome is uncertain. */
export type Carrier<Effect> = (row: OutboxEntry<Effect>) => Promise<Settlement>;

type DeliveryPorts<Effect> = {
  readonly store: OutboxStore<Effect>;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly carry: Carrier<Effect>;
  /** Called when an entry fails for good (`settled`), or when `carry` rejected and the entry is retried. */
  readonly failed: (row: OutboxEntry<Effect>, why: string, settled: boolean) => void;
  readonly broken: (error: unknown) => void;
};

const BATCH = 256;
/** After this many milliseconds of handing out entries, timers and sockets get a turn. */
const SLICE_MS = 8;
const AGAIN: RetryPolicy = { firstMs: 500, longestMs: 60_000 };

/** The wait before the next attempt: 500 ms after one failed attempt, twice as long after each more, at most 60 s. */
export function deliveryBackoffMs(failures: number): number {
  return backoffMs(AGAIN, failures);
}

/** Delivers the outbox: one entry of a lane at a time, in order, each until it is settled. */
export class Delivery<Effect> {
  readonly #ports: DeliveryPorts<Effect>;
  readonly #alarm: Alarm;
  readonly #flying = new Set<Promise<void>>();
  #pumping: Promise<void> | null = null;
  #again = false;
  #running = false;

  constructor(ports: DeliveryPorts<Effect>) {
    this.#ports = ports;
    this.#alarm = new Alarm(ports.clock, ports.timers, () => this.kick());
  }

  start(): void {
    this.#running = true;
    this.kick();
  }

  /** Called when the outbox may have something to deliver. */
  kick(): void {
    if (!this.#running) return;
    this.#again = true;
    this.#pumping ??= this.#pump()
      .catch(this.#ports.broken)
      .finally(() => {
        this.#pumping = null;
        if (this.#again) this.kick();
      });
  }

  /** Stops taking entries. Resolves when all attempts in progress have ended. */
  async stop(): Promise<void> {
    this.#running = false;
    await this.#pumping;
    // The last lease may have set the alarm.
    this.#alarm.cancel();
    await Promise.all(this.#flying);
  }

  /**
   * Delivers in rounds: each round hands out entries and waits for their attempts. Resolves with `true` when nothing is
   * left to deliver now, with `false` after `rounds` rounds.
   */
  async drain(rounds: number): Promise<boolean> {
    for (let round = 0; round < rounds; round += 1) {
      this.kick();
      await this.#pumping;
      if (this.#flying.size === 0) return true;
      await Promise.all(this.#flying);
    }
    return false;
  }

  async #pump(): Promise<void> {
    while (this.#again && this.#running) {
      this.#again = false;
      const { rows, next } = await this.#ports.store.lease(BATCH, this.#ports.clock.now());
      this.#alarm.noLaterThan(next);
      let since = this.#ports.clock.now();
      for (const row of rows) {
        if (this.#running && this.#ports.clock.now() - since >= SLICE_MS) {
          await setImmediate();
          since = this.#ports.clock.now();
        }
        const serving: Promise<void> = this.#serve(row).finally(() => this.#flying.delete(serving));
        this.#flying.add(serving);
        // Yields, so that deliveries under way continue before the next entry is handed out.
        await Promise.resolve();
      }
    }
  }

  async #serve(row: OutboxEntry<Effect>): Promise<void> {
    let settlement: Settlement;
    try {
      settlement = await this.#ports.carry(row);
    } catch (error) {
      this.#ports.failed(row, errorMessage(error), false);
      settlement = { state: 'uncertain', notBefore: this.#later(row) };
    }
    try {
      if (settlement.state === 'failed') this.#ports.failed(row, settlement.why, true);
      await this.#ports.store.settle(row, settlement);
    } catch (error) {
      this.#ports.broken(error);
    }
    this.kick();
  }

  #later(row: OutboxEntry<Effect>): Instant {
    return this.#ports.clock.now() + deliveryBackoffMs(row.attempts + 1);
  }
}
