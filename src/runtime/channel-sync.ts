import { z } from 'zod';
import type { ChatAdapter, History, Position } from '../adapters/port.ts';
import type { Log } from './log.ts';
import { compareOrder } from '../turns/floor/evolve.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { TurnManager } from '../turns/manager.ts';
import type { FloorStore, KeptTexts } from '../turns/floor-store.ts';
import type { Timer, Timers } from '../lib/time.ts';

/** What keeping channels in step with their platforms needs of the program. */
type ChannelSyncPorts = {
  readonly manager: Pick<TurnManager, 'amend' | 'heard' | 'lose' | 'receive'>;
  readonly timers: Timers;
  readonly log: Log;
  readonly channelsOf: (adapter: ChatAdapter) => readonly ChannelId[];
  readonly store: Pick<FloorStore, 'lastSeen'> & { readonly keyValues: Pick<KeptTexts, 'remember' | 'recall'> };
  /** Does work again while the disk is full; rejects when the store is broken. */
  readonly retrying: (work: () => Promise<unknown>) => Promise<unknown>;
  readonly failed: (error: unknown) => void;
};

/** So often the history of platforms that may lose events is read again. */
const SWEEP_MS = 300_000;
/** So many channels are read at the same time. */
const AT_ONCE = 4;

const MARKS = 'marks';
const positionSchema = z.object({ id: z.string(), order: z.string() });

type Contact = {
  /** Counts the losses: what was read before a later one lifts nothing. */
  losses: number;
  reading: Promise<void>;
  sweep: Timer | null;
};

/**
 * Keeps floors in contact with their platforms: nothing is granted in a channel from the moment that its platform can no
 * longer be heard until its history was read, or the gap was announced.
 */
export class ChannelSync {
  readonly #ports: ChannelSyncPorts;
  readonly #contacts = new Map<ChatAdapter, Contact>();
  #running = true;

  constructor(ports: ChannelSyncPorts) {
    this.#ports = ports;
  }

  /** The platform can be heard for the first time: all of its channels are caught up, or these. */
  async begin(adapter: ChatAdapter, channels?: readonly ChannelId[]): Promise<void> {
    await this.#read(adapter, channels);
    if (adapter.capabilities.losesEvents === true) this.#sweepLater(adapter);
  }

  /** The platform can no longer be heard. */
  lost(adapter: ChatAdapter): void {
    this.#contact(adapter).losses += 1;
    this.#ports.log.warn({ adapter: adapter.name }, 'out of contact; nothing is granted until it is back');
    this.#do(() => this.#ports.manager.lose(this.#ports.channelsOf(adapter)));
  }

  /** It can be heard again. */
  back(adapter: ChatAdapter, missed: 'nothing' | 'perhaps'): void {
    this.#ports.log.info({ adapter: adapter.name, missed }, 'in contact again');
    if (missed === 'perhaps') this.#do(() => this.#read(adapter));
    else this.#do(() => this.#all(this.#ports.channelsOf(adapter), (channel) => this.#lift(channel, null)));
  }

  /** A thread has begun at this position. If Conch was there already, all of it is meant for Conch. */
  async mark(thread: ChannelId, parent: ChannelId, since: Position): Promise<void> {
    const known = this.#mark(parent);
    if (known === null || compareOrder(since.order, known.order) <= 0) return;
    await this.#ports.store.keyValues.remember(MARKS, thread, JSON.stringify(since));
  }

  /** A single channel is caught up: a thread that was just opened, or one that can be read again. */
  async catchUp(adapter: ChatAdapter, channel: ChannelId): Promise<void> {
    await this.#lift(channel, await this.#readOn(adapter, channel));
  }

  stop(): void {
    this.#running = false;
    for (const { sweep } of this.#contacts.values()) sweep?.cancel();
  }

  /** One reading after the other: a later loss leaves the lifting to the reading that follows it. */
  async #read(adapter: ChatAdapter, channels = this.#ports.channelsOf(adapter)): Promise<void> {
    const contact = this.#contact(adapter);
    const { losses, reading: before } = contact;
    const reading = (async () => {
      await before;
      await this.#all(channels, async (channel) => {
        const gap = await this.#readOn(adapter, channel);
        if (contact.losses === losses) await this.#lift(channel, gap);
      });
    })();
    contact.reading = reading.catch(() => undefined);
    await reading;
  }

  #sweepLater(adapter: ChatAdapter): void {
    this.#contact(adapter).sweep = this.#ports.timers.after(SWEEP_MS, () => {
      if (!this.#running) return;
      this.#do(async () => {
        await this.#all(this.#ports.channelsOf(adapter), (channel) => this.#readOn(adapter, channel));
        if (this.#running) this.#sweepLater(adapter);
      });
    });
  }

  /** Takes in what the history shows; resolves with what could not be read. */
  async #readOn(adapter: ChatAdapter, channel: ChannelId): Promise<string | null> {
    const { manager, retrying, store } = this.#ports;
    const mark = this.#mark(channel);
    const { messages, changes, gap, ...found } = await this.#history(adapter, channel, mark);
    if (mark === null && found.mark !== undefined) {
      await retrying(() => store.keyValues.remember(MARKS, channel, JSON.stringify(found.mark)));
    }
    const meant = messages.filter(({ order }) => mark === null || compareOrder(order, mark.order) > 0);
    for (const message of meant) await retrying(() => manager.receive(message));
    for (const change of changes) await retrying(() => manager.amend(change));
    return gap;
  }

  async #history(adapter: ChatAdapter, channel: ChannelId, mark: Position | null): Promise<History> {
    try {
      const last = this.#ports.store.lastSeen(channel);
      return await adapter.catchUp(channel, last === null ? mark : { id: last.id, order: last.order });
    } catch (error) {
      const gap = error instanceof Error ? error.message : String(error);
      this.#ports.log.error({ channel, err: error }, 'history could not be read');
      return { messages: [], changes: [], gap };
    }
  }

  /** Where the channel stood when Conch first read it. */
  #mark(channel: ChannelId): Position | null {
    const kept = this.#ports.store.keyValues.recall(MARKS, channel);
    return kept === null ? null : positionSchema.parse(JSON.parse(kept));
  }

  async #lift(channel: ChannelId, gap: string | null): Promise<void> {
    const { manager, retrying } = this.#ports;
    await retrying(() => manager.heard(channel, gap));
  }

  async #all(channels: readonly ChannelId[], work: (channel: ChannelId) => Promise<unknown>): Promise<void> {
    const waiting = channels.toReversed();
    const one = async (): Promise<void> => {
      for (let channel = waiting.pop(); channel !== undefined && this.#running; channel = waiting.pop()) {
        await work(channel);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
  }

  #contact(adapter: ChatAdapter): Contact {
    const known = this.#contacts.get(adapter);
    if (known !== undefined) return known;
    const contact: Contact = { losses: 0, reading: Promise.resolve(), sweep: null };
    this.#contacts.set(adapter, contact);
    return contact;
  }

  #do(work: () => Promise<unknown>): void {
    work().catch((error: unknown) => {
      if (this.#running) this.#ports.failed(error);
    });
  }
}

/** What suspending channels needs. */
type SuspensionsPorts = {
  readonly texts: Pick<KeptTexts, 'remember' | 'recall' | 'forget'>;
  readonly manager: Pick<TurnManager, 'apply'>;
  readonly log: Log;
};

const OWNER = 'suspended';
/** Why it was suspended, and whether it was this that paused the floor. */
const keptSchema = z.object({ why: z.string(), paused: z.boolean() });
/** Who does it, in the journal. */
const BY = 'conch';

/** Channels that their platform took away for now: nobody speaks there, and nothing is tried again and again. */
export class Suspensions {
  readonly #ports: SuspensionsPorts;
  #last: Promise<void> = Promise.resolve();

  constructor(ports: SuspensionsPorts) {
    this.#ports = ports;
  }

  /** Why the platform took a channel away; `null` when it did not. */
  why(channel: ChannelId): string | null {
    const kept = this.#ports.texts.recall(OWNER, channel);
    return kept === null ? null : keptSchema.parse(JSON.parse(kept)).why;
  }

  /** Ends the turn under way and pauses the floor. A floor that people paused already stays theirs. */
  suspend(channel: ChannelId, why: string): Promise<void> {
    return this.#next(async () => {
      const { texts, manager, log } = this.#ports;
      if (texts.recall(OWNER, channel) !== null) return;
      log.warn({ channel, why }, 'channel suspended');
      await manager.apply(channel, { type: 'stop', by: BY });
      const paused = await manager.apply(channel, { type: 'pause', by: BY });
      await texts.remember(OWNER, channel, JSON.stringify({ why, paused: paused.ok }));
    });
  }

  /** Lets the floor go on, if it was this that paused it. */
  restore(channel: ChannelId): Promise<void> {
    return this.#next(async () => {
      const { texts, manager, log } = this.#ports;
      const kept = texts.recall(OWNER, channel);
      if (kept === null) return;
      log.info({ channel }, 'channel can be used again');
      await texts.forget(OWNER, channel);
      if (keptSchema.parse(JSON.parse(kept)).paused) await manager.apply(channel, { type: 'resume', by: BY });
    });
  }

  /** One after the other, so that what comes twice is done once. */
  #next(work: () => Promise<void>): Promise<void> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }
}
