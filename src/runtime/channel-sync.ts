import { z } from 'zod';
import type { ChatAdapter, History, Position } from '../adapters/port.ts';
import type { HumanMessage } from '../engine/port.ts';
import type { Log } from './log.ts';
import type { Command } from '../turns/floor/command.ts';
import { compareOrder } from '../turns/floor/evolve.ts';
import type { ChannelId } from '../turns/floor/settings.ts';
import type { TurnManager } from '../turns/manager.ts';
import type { Applied, FloorStore, StoredTexts } from '../turns/floor-store.ts';
import { errorMessage } from '../lib/defined.ts';
import { KeyedQueue } from '../lib/keyed.ts';
import type { Timer, Timers } from '../lib/time.ts';

type ChannelSyncPorts = {
  readonly manager: Pick<TurnManager, 'amend' | 'heard' | 'lose'>;
  /** Takes in a missed message like a new message. */
  readonly receive: (adapter: ChatAdapter, message: HumanMessage) => Promise<void>;
  readonly timers: Timers;
  readonly log: Log;
  readonly channelsOf: (adapter: ChatAdapter) => readonly ChannelId[];
  readonly store: Pick<FloorStore, 'lastSeen'> & { readonly keyValues: Pick<StoredTexts, 'remember' | 'recall'> };
  /** Retries work while the disk is full or another process uses the database. Rejects with other errors. */
  readonly retrying: (work: () => Promise<unknown>) => Promise<unknown>;
  readonly onBroken: (error: unknown) => void;
};

/** Time between two reads of the history of platforms that may lose events, in milliseconds. */
const SWEEP_MS = 300_000;
/** The most channels whose histories one pass reads at the same time. */
const AT_ONCE = 4;

const MARKS = 'marks';
const positionSchema = z.object({ id: z.string(), order: z.string() });

type ContactLink = { readonly contact: Contact; readonly link: object | null };

type Contact = {
  /**
   * The present connection to the platform, a new object after each loss; `null` while the connection is lost. After a
   * read of the history, grants continue only if its connection is still the present one.
   */
  link: object | null;
  /** True when the connection was lost before grants continued, so that the next connection reads the history again. */
  isUnread: boolean;
  /** Settles when the reads of the history that have begun are over. The regular reads do not count. */
  reading: Promise<void>;
  sweep: Timer | null;
  /**
   * The last message of each channel before the connection was lost, or before the first one: its history is read from
   * there. Later messages can come in before the missed ones are read.
   */
  readonly before: Map<ChannelId, Position | null>;
};

/** Reads messages that Conch missed from the histories of platforms. Stops grants while a platform is not connected. */
export class ChannelSync {
  readonly #ports: ChannelSyncPorts;
  readonly #contacts = new Map<ChatAdapter, Contact>();
  #running = true;

  constructor(ports: ChannelSyncPorts) {
    this.#ports = ports;
  }

  /**
   * Called at the first connection. Reads the missed messages of `channels`, by default of all channels of the
   * platform. Then starts the regular reads of a platform that may lose events.
   */
  async begin(adapter: ChatAdapter, channels?: readonly ChannelId[]): Promise<void> {
    await this.#read(adapter, channels);
    if (adapter.capabilities.losesEvents === true) this.#sweepLater(adapter);
  }

  /**
   * Notes the last message of each channel, from which its history is read later. Keeps an earlier note. Call it before
   * the platform is connected.
   */
  note(adapter: ChatAdapter): void {
    const { before } = this.#contact(adapter);
    for (const channel of this.#ports.channelsOf(adapter))
      if (!before.has(channel)) before.set(channel, this.#ports.store.lastSeen(channel));
  }

  /** Called when the connection is lost: stops grants in all channels of the platform. */
  lost(adapter: ChatAdapter): void {
    const contact = this.#contact(adapter);
    contact.link = null;
    const { channelsOf, log, manager, retrying } = this.#ports;
    log.warn({ adapter: adapter.name }, 'connection lost; no turn is granted until it is restored');
    this.#do(async () => {
      this.note(adapter);
      // Not after `back`: nobody would lift the floors again.
      await retrying(async () => contact.link === null && (await manager.lose(channelsOf(adapter))));
    });
  }

  /**
   * Called when the connection is back. Reads the histories of the channels if messages may be missed, or if an earlier
   * read did not end before the connection was lost. Then grants continue.
   */
  back(adapter: ChatAdapter, missed: 'nothing' | 'perhaps'): void {
    this.#ports.log.info({ adapter: adapter.name, missed }, 'connection restored');
    const contact = this.#contact(adapter);
    const link = (contact.link ??= {});
    this.#do(async () => {
      if (missed === 'nothing') await contact.reading;
      if (missed === 'perhaps' || contact.isUnread) await this.#read(adapter);
      else await this.#all(this.#ports.channelsOf(adapter), (channel) => this.#lift(channel, null, { contact, link }));
    });
  }

  /**
   * Stores `since` as the position after which a thread is read. Does nothing unless `since` is after the position at
   * which Conch first read the parent.
   */
  async mark(thread: ChannelId, parent: ChannelId, since: Position): Promise<void> {
    const parentMark = this.#mark(parent);
    if (parentMark === null || compareOrder(since.order, parentMark.order) <= 0) return;
    await this.#ports.store.keyValues.remember(MARKS, thread, JSON.stringify(since));
  }

  /** Reads the missed messages of one channel: a new thread, or a channel that the configuration added. */
  async catchUp(adapter: ChatAdapter, channel: ChannelId): Promise<void> {
    const contact = this.#contact(adapter);
    const reading = this.#lift(channel, this.#readOn(adapter, channel), { contact, link: contact.link });
    contact.reading = Promise.allSettled([contact.reading, reading]).then(() => undefined);
    await reading;
  }

  stop(): void {
    this.#running = false;
    for (const { sweep } of this.#contacts.values()) sweep?.cancel();
  }

  async #read(adapter: ChatAdapter, channels = this.#ports.channelsOf(adapter)): Promise<void> {
    const contact = this.#contact(adapter);
    const { link, reading: before } = contact;
    contact.isUnread = false;
    const lift = (channel: ChannelId) => this.#lift(channel, this.#readOn(adapter, channel), { contact, link });
    const reading = before.then(() => this.#all(channels, lift));
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

  /**
   * Takes in the missed messages and changes from a channel's history. Resolves with why the history has a gap; `null`
   * for no gap.
   */
  async #readOn(adapter: ChatAdapter, channel: ChannelId): Promise<string | null> {
    const { manager, receive, retrying, store } = this.#ports;
    const contact = this.#contact(adapter);
    const { link } = contact;
    const mark = this.#mark(channel);
    const { messages, changes, gap, ...historyRest } = await this.#history(adapter, channel, mark);
    if (mark === null && historyRest.mark !== undefined) {
      await retrying(() => store.keyValues.remember(MARKS, channel, JSON.stringify(historyRest.mark)));
    }
    const meant = messages.filter(({ order }) => mark === null || compareOrder(order, mark.order) > 0);
    for (const message of meant) await retrying(() => receive(adapter, message));
    for (const change of changes) await retrying(() => manager.amend(change));
    if (link !== null && contact.link === link) contact.before.delete(channel);
    return gap;
  }

  async #history(adapter: ChatAdapter, channel: ChannelId, mark: Position | null): Promise<History> {
    try {
      const { before } = this.#contact(adapter);
      const last = before.get(channel) ?? (before.has(channel) ? null : this.#ports.store.lastSeen(channel));
      return await adapter.catchUp(channel, last === null ? mark : { id: last.id, order: last.order }, mark);
    } catch (error) {
      const gap = errorMessage(error);
      this.#ports.log.error({ channel, err: error }, 'history could not be read');
      return { messages: [], changes: [], gap };
    }
  }

  /**
   * The position in a channel's history at which Conch first read it, or after which a thread is read; `null` for none.
   */
  #mark(channel: ChannelId): Position | null {
    const storedMark = this.#ports.store.keyValues.recall(MARKS, channel);
    return storedMark === null ? null : positionSchema.parse(JSON.parse(storedMark));
  }

  /**
   * Continues grants in a channel after its read, unless the connection `link` was lost meanwhile. `reading`: resolves
   * with the reason for a gap; `null` when nothing is read.
   */
  async #lift(
    channel: ChannelId,
    reading: Promise<string | null> | null,
    { contact, link }: ContactLink,
  ): Promise<void> {
    const gap = await reading;
    const { manager, retrying } = this.#ports;
    if (link === null || contact.link !== link) contact.isUnread = true;
    else await retrying(() => manager.heard(channel, gap));
  }

  async #all(channels: readonly ChannelId[], work: (channel: ChannelId) => Promise<unknown>): Promise<void> {
    const waiting = channels.toReversed();
    const workThrough = async (): Promise<void> => {
      for (let channel = waiting.pop(); channel !== undefined && this.#running; channel = waiting.pop()) {
        await work(channel);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, workThrough));
  }

  #contact(adapter: ChatAdapter): Contact {
    const known = this.#contacts.get(adapter);
    if (known !== undefined) return known;
    const contact = { link: {}, isUnread: false, reading: Promise.resolve(), sweep: null, before: new Map() };
    this.#contacts.set(adapter, contact);
    return contact;
  }

  #do(work: () => Promise<unknown>): void {
    work().catch((error: unknown) => {
      if (this.#running) this.#ports.onBroken(error);
    });
  }
}

type SuspensionsPorts = {
  readonly texts: Pick<StoredTexts, 'remember' | 'recall' | 'forget'>;
  readonly manager: Pick<TurnManager, 'apply' | 'floor'>;
  readonly log: Log;
};

const OWNER = 'suspended';
/** Why a channel is suspended, and whether the suspension paused its floor. */
const suspensionSchema = z.object({ why: z.string(), paused: z.boolean() });
/** The author, in the journal, of the commands that suspend or restore a channel. */
const BY = 'conch';

/** Channels that their platform suspended. Their floors are paused; an operator can resume them. */
export class Suspensions {
  readonly #ports: SuspensionsPorts;
  /** Per channel: suspensions, restorations and people's commands meanwhile. Repeated ones take effect once. */
  readonly #queue = new KeyedQueue<ChannelId>();

  constructor(ports: SuspensionsPorts) {
    this.#ports = ports;
  }

  /** Why the platform suspended a channel; `null` for an open one. */
  why(channel: ChannelId): string | null {
    const storedSuspension = this.#ports.texts.recall(OWNER, channel);
    return storedSuspension === null ? null : suspensionSchema.parse(JSON.parse(storedSuspension)).why;
  }

  /** Ends the turn and pauses the floor. A floor that people had paused stays paused after `restore`. */
  suspend(channel: ChannelId, why: string): Promise<void> {
    return this.#queue.run(channel, async () => {
      const { texts, manager, log } = this.#ports;
      if (texts.recall(OWNER, channel) !== null) return;
      const { state } = await manager.apply(channel, { type: 'stop', by: BY });
      const stored = texts.remember(OWNER, channel, JSON.stringify({ why, paused: state.condition !== 'paused' }));
      await Promise.all([stored, manager.apply(channel, { type: 'pause', by: BY })]);
      log.warn({ channel, why }, 'channel suspended');
    });
  }

  /** Resumes the floor, if the suspension paused it. */
  restore(channel: ChannelId): Promise<void> {
    return this.#queue.run(channel, async () => {
      const { texts, manager, log } = this.#ports;
      const storedSuspension = texts.recall(OWNER, channel);
      if (storedSuspension === null) return;
      const { paused } = suspensionSchema.parse(JSON.parse(storedSuspension));
      const goesOn = paused && manager.floor(channel)?.condition === 'paused';
      await Promise.all([texts.forget(OWNER, channel), goesOn && manager.apply(channel, { type: 'resume', by: BY })]);
      log.info({ channel }, 'channel can be used again');
    });
  }

  /** Gives a person's command to a floor. A floor that people pause while it is suspended stays paused after `restore`. */
  async give(channel: ChannelId, command: Command): Promise<Applied> {
    const { texts, manager } = this.#ports;
    if (this.why(channel) === null && this.#queue.unfinished(channel) === 0) return manager.apply(channel, command);
    return this.#queue.run(channel, async () => {
      const applied = await manager.apply(channel, command);
      const why = this.why(channel);
      if (command.type !== 'pause' || why === null) return applied;
      if (!applied.ok && applied.refusal !== 'already') return applied;
      await texts.remember(OWNER, channel, JSON.stringify({ why, paused: false }));
      return applied.ok ? applied : { ok: true, state: applied.state, facts: [], effects: [] };
    });
  }
}
