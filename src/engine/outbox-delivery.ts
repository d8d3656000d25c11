import { Alarm } from '../lib/time.ts';
import { backoffMs } from '../lib/retry.ts';
import type { RetryPolicy } from '../lib/retry.ts';
import type { Clock, Instant, Timers } from '../lib/time.ts';
import type { OutboxStore, OwedEffect, Settlement } from './port.ts';

/** Does what one row of the outbox says and tells what became of it. It may reject: then the outcome is uncertain. */
export type Carrier<Effect> = (row: OwedEffect<Effect>) => Promise<Settlement>;

/** What the delivery needs. */
type DeliveryPorts<Effect> = {
  readonly store: OutboxStore<Effect>;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly carry: Carrier<Effect>;
  /** A row will never be done (`settled`), or its carrier broke and it is tried again. */
  readonly failed: (row: OwedEffect<Effect>, why: string, settled: boolean) => void;
  /** The store itself failed. */
  readonly broken: (error: unknown) => void;
};

/** How many rows are taken up at once; more follow as these are done. */
const BATCH = 256;
/** After so many milliseconds of handing over, timers and sockets have their turn; what is quick is settled in one commit. */
const SLICE_MS = 8;
const AGAIN: RetryPolicy = { firstMs: 500, longestMs: 60_000 };

/** How long to wait before a row is tried again after so many attempts, in milliseconds. */
export function deliveryBackoffMs(attempts: number): number {
  return backoffMs(AGAIN, Math.max(1, attempts));
}

/** Serves the outbox: one row of a lane at a time, in order, each until it is confirmed or known to be impossible. */
export class Delivery<Effect> {
  readonly #ports: DeliveryPorts<Effect>;
  readonly #alarm: Alarm;
  /** How many rows are under way, how many were, and who is told of the next that is not any more. */
  #flying = 0;
  #landed = 0;
  #landing: PromiseWithResolvers<void> | null = null;
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

  /** Something may be owed now. */
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

  /** Takes nothing up any more; resolves when all that was under way is settled. */
  async stop(): Promise<void> {
    this.#running = false;
    this.#alarm.cancel();
    await this.#pumping;
    await this.#allLanded();
  }

  /** Resolves when nothing is owed that could be done now, or `false` when that takes too many rounds. */
  async drain(rounds: number): Promise<boolean> {
    for (let round = 0; round < rounds; round += 1) {
      this.kick();
      await this.#pumping;
      if (this.#flying === 0) return true;
      await this.#allLanded();
    }
    return false;
  }

  /** Resolves when as many rows are done as are under way now. */
  async #allLanded(): Promise<void> {
    for (const all = this.#landed + this.#flying; this.#landed < all;) {
      this.#landing ??= Promise.withResolvers();
      await this.#landing.promise;
    }
  }

  async #pump(): Promise<void> {
    while (this.#again && this.#running) {
      this.#again = false;
      const { rows, next } = await this.#ports.store.owed(BATCH, this.#ports.clock.now());
      this.#alarm.noLaterThan(next);
      let since = this.#ports.clock.now();
      for (const row of rows) {
        if (this.#running && this.#ports.clock.now() - since >= SLICE_MS) {
          await othersTurn();
          since = this.#ports.clock.now();
        }
        void this.#serve(row);
        // Meanwhile those before it are carried out, as far as they wait for nobody: that is what takes time.
        await Promise.resolve();
      }
    }
  }

  async #serve(row: OwedEffect<Effect>): Promise<void> {
    this.#flying += 1;
    let settlement: Settlement;
    try {
      settlement = await this.#ports.carry(row);
    } catch (error) {
      this.#ports.failed(row, error instanceof Error ? error.message : String(error), false);
      settlement = { state: 'uncertain', notBefore: this.#later(row) };
    }
    try {
      if (settlement.state === 'failed') this.#ports.failed(row, settlement.why, true);
      await this.#ports.store.settle(row, settlement);
    } catch (error) {
      this.#ports.broken(error);
    }
    this.#flying -= 1;
    this.#landed += 1;
    this.#landing?.resolve();
    this.#landing = null;
    this.kick();
  }

  #later(row: OwedEffect<Effect>): Instant {
    return this.#ports.clock.now() + deliveryBackoffMs(row.attempts);
  }
}

function othersTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
