import { deliveryBackoffMs } from '../../engine/outbox-delivery.ts';
import type { Carrier } from '../../engine/outbox-delivery.ts';
import { requestPostId } from '../../turns/floor/seats.ts';
import type { Settlement } from '../../engine/port.ts';
import type { ChannelId, AgentId } from '../../turns/floor/settings.ts';
import { KeyedQueue } from '../../lib/keyed.ts';
import type { Instant } from '../../lib/time.ts';
import type { OutboxRow } from '../../turns/floor-store.ts';
import type { Effect } from '../../turns/floor/react.ts';
import { isQuestion } from '../../turns/text/split.ts';
import { ChatError } from '../port.ts';
import type {
  AdapterParts,
  Capabilities,
  ChatAdapter,
  Intake,
  FloorQueries,
  OutgoingPost,
  PostButton,
  Speaker,
} from '../port.ts';
import { Drafts, Posts, createReceipts, StaleMessages } from './posts.ts';
import type { ChannelAccess } from './channel-access.ts';
import { FloorCards } from './floor-cards.ts';
import type { Content, MessageClient, MessageRef, MessageSender } from './message-client.ts';
import { RateLimits } from './rate-limits.ts';

/** A platform after Conch has signed in. */
export type OpenPlatform = {
  readonly sender: MessageSender;
  /**
   * Starts to listen for the platform's events, and resolves when Conch listens. Rejects with an `AdapterError` when
   * the platform refuses Conch for good. Can settle earlier when Conch stops.
   */
  connect(): Promise<void>;
  /** Stops listening. Drops incoming events that are not stored yet. */
  disconnect(): Promise<void>;
  readonly readHistory: ChatAdapter['catchUp'];
  readonly access: Pick<ChannelAccess, 'callFailed' | 'postSucceeded'>;
  readonly link: (channel: ChannelId, message: string) => string | null;
  /** Opens the thread under a message of Conch, or finds the existing one. Resolves with the thread's id. */
  readonly threadUnder: (message: MessageRef, name: string) => Promise<ChannelId>;
};

type PlatformOptions = {
  readonly name: string;
  /** The platform's name as written in messages. */
  readonly title: string;
  readonly capabilities: Capabilities;
  /**
   * Signs in to the platform, with retries. Rejects with an `AdapterError` when the platform refuses Conch for good.
   */
  readonly open: (ports: {
    readonly intake: Intake;
    readonly queries: FloorQueries;
    readonly signal: AbortSignal;
  }) => Promise<OpenPlatform>;
};

const CONNECTING_MS = 1_000;

/**
 * Creates the chat adapter of one platform. Before Conch has signed in, and after `stop`, calls to the platform reject
 * as `unreachable`, and drafts and cards are dropped.
 */
export function createChatAdapter(options: PlatformOptions): ChatAdapter {
  const stopping = new AbortController();
  const state: State = { platform: null, failing: new Set() };
  const { call, requirePlatform } = platformCalls(options, state);
  return {
    name: options.name,
    capabilities: options.capabilities,
    link: (channel, message) => state.platform?.link(channel, message) ?? null,
    async start(intake, queries) {
      try {
        const platform = await options.open({ intake, queries, signal: stopping.signal });
        if (stopping.signal.aborted) return;
        state.platform = platform;
        await platform.connect();
      } catch (error) {
        if (!stopping.signal.aborted) throw error;
      }
    },
    async stop() {
      stopping.abort();
      const { platform } = state;
      state.platform = null;
      await platform?.disconnect();
      await platform?.sender.stop();
    },
    post: (channel, post) => call('post', channel, ({ sender }) => sender.post(channel, post)),
    find: (channel, post) => call('find', channel, ({ sender }) => sender.find(channel, post)),
    edit: (channel, id, text) => call('edit', channel, ({ sender }) => sender.edit(channel, id, text)),
    receipt: async (channel, message, receipt) =>
      requirePlatform('receipt', channel).sender.receipt(channel, message, receipt),
    draft: (channel, speaker, epoch, text) => state.platform?.sender.draft(channel, speaker, epoch, text),
    card: (channel, view) => state.platform?.sender.card(channel, view),
    openThread: (channel, name, key) =>
      call('openThread', channel, async ({ sender, threadUnder }) => {
        const root = { outboxId: `thread ${key}`, speaker: null, text: name, afterId: null, epoch: null };
        const id = (await sender.find(channel, root)) ?? (await sender.post(channel, root));
        return { id: await threadUnder({ channel, id }, name), parent: channel, name };
      }),
    catchUp: (channel, after, mark) =>
      call('catchUp', channel, async (platform) => {
        const history = await platform.readHistory(channel, after, mark);
        await platform.sender.tidy(channel);
        return history;
      }),
  };
}

type State = {
  platform: OpenPlatform | null;
  readonly failing: Set<ChannelId>;
};

function platformCalls({ title }: PlatformOptions, state: State) {
  const requirePlatform = (method: string, channel: ChannelId): OpenPlatform => {
    if (state.platform !== null) return state.platform;
    const where = { method, channel, fault: 'unreachable', retryAfterMs: CONNECTING_MS } as const;
    throw new ChatError(`${title} is not connected yet`, where);
  };
  const call = async <T>(
    method: string,
    channel: ChannelId,
    work: (platform: OpenPlatform) => Promise<T>,
  ): Promise<T> => {
    const platform = requirePlatform(method, channel);
    try {
      const result = await work(platform);
      if (method === 'post' && state.failing.delete(channel)) platform.access.postSucceeded(channel);
      return result;
    } catch (error) {
      state.failing.add(channel);
      platform.access.callFailed(channel, error);
      throw error;
    }
  };
  return { requirePlatform, call };
}

type MessageSenderPorts = Pick<AdapterParts, 'clock' | 'timers' | 'log' | 'memory'> & {
  readonly client: MessageClient;
  readonly queries: Pick<FloorQueries, 'agents' | 'thread' | 'review' | 'crew' | 'pastThread'>;
  readonly settings: { readonly streaming: boolean; readonly cards: boolean };
};

/** Creates the sender of one platform's messages. Posts of one channel are sent one after another. */
export function createMessageSender(ports: MessageSenderPorts): MessageSender {
  const { queue, posts, drafts, cards, staleMessages, rates } = assemble(ports);
  const { streaming, cards: hasCards } = ports.settings;
  const showReceipt = createReceipts(ports);
  const runInOrder = async <T extends MessageRef | null>(channel: ChannelId, work: () => Promise<T>): Promise<T> => {
    let message: T | null = null;
    try {
      message = await queue.run(channel, work);
      if (message?.channel === channel) cards.countBelow(channel);
      return message;
    } finally {
      cards.resume(channel, { isWritable: message !== null });
    }
  };
  return {
    post: async (channel, post) => (await runInOrder(channel, () => posts.publish(channel, post))).id,
    find: async (channel, post) => (await runInOrder(channel, () => posts.find(channel, post)))?.id ?? null,
    async edit(channel, id, text) {
      const content: Content = { kind: 'post', speaker: null, text, buttons: [], epoch: null, outboxId: null };
      const edited = queue.run(channel, () => rates.change({ channel, id }, content));
      return await edited.finally(() => cards.resume(channel, { isWritable: false }));
    },
    receipt: (channel, id, receipt) => showReceipt({ channel, id }, receipt),
    draft(channel, speaker, epoch, text) {
      if (streaming) drafts.show(channel, speaker, epoch, text);
    },
    card(channel, view) {
      if (hasCards) cards.draw(channel, view);
      ports.client.status?.(channel, view);
    },
    tidy: (channel) => staleMessages.tidy(channel),
    countBelow: (channel) => cards.countBelow(channel),
    reopened: (channel) => cards.resume(channel, { isWritable: true }),
    async stop() {
      staleMessages.stop();
      rates.stop();
      await Promise.all([drafts.stop(), cards.stop(), ports.client.stop?.()]);
    },
  };
}

function assemble(ports: MessageSenderPorts) {
  const rates = new RateLimits(ports);
  const requestSearch = (channel: ChannelId): void => staleMessages.requestSearch(channel);
  const drafts = new Drafts({ ...ports, rates, requestSearch });
  const nameOf = (agent: string): string => ports.queries.agents().find(({ id }) => id === agent)?.name ?? agent;
  const queue = new KeyedQueue<ChannelId>();
  const isPosting = (channel: ChannelId): boolean => queue.unfinished(channel) > 0 || posts.isSending(channel);
  const cards = new FloorCards({ ...ports, rates, nameOf, requestSearch, isPosting });
  const staleMessages = new StaleMessages({ ...ports, rates, drafts, cards });
  const posts = new Posts({ ...ports, rates, drafts, beginThread: (thread) => staleMessages.begin(thread) });
  return { queue, rates, drafts, cards, staleMessages, posts };
}

/** Returns the adapter of a channel, or `null` when none serves it. */
export function adapterOf<Named extends Pick<ChatAdapter, 'name'>>(
  adapters: readonly Named[],
  channel: ChannelId,
): Named | null {
  return adapters.find(({ name }) => channel.startsWith(`${name}:`)) ?? null;
}

type OutboxSenderPorts = {
  readonly adapterOf: (channel: ChannelId) => ChatAdapter | null;
  readonly speakerOf: (agent: AgentId) => Speaker;
  /**
   * Returns the thread of the row's post, or of the message under which the row's receipt is shown. `null`: the channel
   * itself.
   */
  readonly threadOf: (row: OutboxRow) => ChannelId | null;
  readonly buttonsOf?: (row: OutboxRow) => readonly PostButton[];
  readonly now: () => Instant;
  /** Redacts secrets. */
  readonly clean: (text: string) => string;
  /** Called when a text may be in the channel twice, or not at all, because the history cannot be read. */
  readonly reportDoubtfulPost: (row: OutboxRow, done: 'posted again' | 'dropped', why: string) => void;
};

/** How often a post of unknown outcome is searched for in the channel before it is sent again. */
const SCANS = 2;
const SCAN_GAP_MS = 3_000;

/** Added to an agent's text that is posted again because the history cannot be read. */
const DOUBT = '\n(possible repeat)';

/**
 * Creates the function that delivers an outbox entry (post, announcement or receipt) to its channel's platform. It
 * resolves with the result of one attempt, also after a `ChatError`. The outbox does the retries.
 */
export function createOutboxSender(ports: OutboxSenderPorts): Carrier<Effect> {
  return new OutboxSender(ports).carry;
}

class OutboxSender {
  readonly #ports: OutboxSenderPorts;
  readonly #scans = new Map<string, number>();
  readonly #refusals = new Map<string, Refusals>();
  /**
   * By channel: the epoch of the turn whose post failed for good last. Later ✅ receipts of this epoch are not shown.
   */
  readonly #failedTurns = new Map<ChannelId, number>();

  constructor(ports: OutboxSenderPorts) {
    this.#ports = ports;
  }

  readonly carry = async (row: OutboxRow): Promise<Settlement> => {
    const { channel, effect } = row;
    const isDone = effect.type === 'receipt' && effect.receipt === 'done' && effect.epoch !== undefined;
    if (isDone && effect.epoch === this.#failedTurns.get(channel)) return { state: 'confirmed', platformId: null };
    const settlement = await this.#settle(row);
    if (!('notBefore' in settlement)) {
      this.#scans.delete(row.id);
      this.#refusals.delete(row.id);
    }
    // Texts of background runs have the epoch 0.
    const isOfTurn = effect.type === 'post' && effect.epoch > 0;
    if (settlement.state === 'failed' && isOfTurn) this.#failedTurns.set(channel, effect.epoch);
    return settlement;
  };

  async #settle(row: OutboxRow): Promise<Settlement> {
    const { now } = this.#ports;
    const adapter = this.#ports.adapterOf(row.channel);
    if (adapter === null) return { state: 'failed', why: `no adapter serves ${row.channel}` };
    try {
      return await this.#attempt(row, adapter);
    } catch (error) {
      if (!(error instanceof ChatError)) throw error;
      if (!isRetried(error)) return settlementOf(error, row, now());
      const { count, since } = this.#refusals.get(row.id) ?? { count: 0, since: now() };
      this.#refusals.set(row.id, { count: count + 1, since });
      if (now() - since < RETRY_FOR_MS) return { state: 'retry', notBefore: now() + deliveryBackoffMs(count + 1) };
      return { state: 'failed', why: error.message };
    }
  }

  async #attempt(row: OutboxRow, adapter: ChatAdapter): Promise<Settlement> {
    const { threadOf, clean, now } = this.#ports;
    const { channel, effect } = row;
    if (effect.type === 'receipt') {
      await adapter.receipt?.(threadOf(row) ?? channel, effect.message, effect.receipt);
      return { state: 'confirmed', platformId: null };
    }
    if (row.editsId !== null && adapter.edit !== undefined) {
      const edited = await adapter.edit(channel, row.editsId, clean(row.text ?? ''));
      await collapse(adapter, row);
      // If the question's message cannot be edited (`gone`), the answer becomes a new post: the channel must show the
      // decision.
      if (edited === 'changed' || !endsQuestion(row)) return { state: 'confirmed', platformId: row.editsId };
    }
    const plain = postOf(row, this.#ports);
    const post = { ...plain, text: `${plain.text}${lateWords(this.#refusals.get(row.id))}` };
    if (row.uncertain && !adapter.capabilities.idempotentPosts) {
      const found = await searchFor(adapter, post, channel);
      if ('unreadable' in found) return this.#postBlindly(row, post, { adapter, why: found.unreadable });
      if (found.id !== null) return { state: 'confirmed', platformId: found.id };
      const scanCount = (this.#scans.get(row.id) ?? 0) + 1;
      this.#scans.set(row.id, scanCount);
      if (scanCount < SCANS) return { state: 'uncertain', notBefore: now() + SCAN_GAP_MS };
      this.#scans.delete(row.id);
    }
    return { state: 'confirmed', platformId: await adapter.post(channel, post) };
  }

  async #postBlindly(
    row: OutboxRow,
    post: OutgoingPost,
    { adapter, why }: { readonly adapter: ChatAdapter; readonly why: string },
  ): Promise<Settlement> {
    const { reportDoubtfulPost } = this.#ports;
    if (post.speaker === null) {
      reportDoubtfulPost(row, 'dropped', why);
      return { state: 'failed', why: `it may have been posted, and the history cannot be read: ${why}` };
    }
    reportDoubtfulPost(row, 'posted again', why);
    const platformId = await adapter.post(row.channel, { ...post, text: `${post.text}${DOUBT}` });
    return { state: 'confirmed', platformId };
  }
}

type Refusals = { readonly count: number; readonly since: Instant };

/** How long this process retries an outbox row whose refusal can be temporary, in milliseconds: 24 hours. */
const RETRY_FOR_MS = 86_400_000;
/** A text that was refused this many times, for about 15 s, gets a mark that it is late. */
const LATE_AFTER = 5;

function isRetried(error: ChatError): boolean {
  return error.fault === 'refused' && error.retryAfterMs !== null && !error.channelIsGone;
}

function lateWords(refusals: Refusals | undefined): string {
  if (refusals === undefined || refusals.count < LATE_AFTER) return '';
  const time = new Date(refusals.since).toISOString().slice(11, 16);
  return `\n(said at ${time} UTC, when this channel took no messages)`;
}

const MARKS = /(?:\n\(said at \d\d:\d\d UTC, when this channel took no messages\))?(?:\n\(possible repeat\))?$/;

/**
 * Removes the marks that Conch adds to a late or repeated text. The outbox does not store the marks, so a search for a
 * post must ignore them.
 */
export function withoutMarks(text: string): string {
  return text.replace(MARKS, '');
}

/**
 * For the answer to a question of several messages: replaces the text of each message after the first with `PART_OVER`.
 */
async function collapse(adapter: ChatAdapter, row: OutboxRow): Promise<void> {
  if (!endsQuestion(row)) return;
  for (const id of row.editsParts ?? []) await adapter.edit?.(row.channel, id, PART_OVER);
}

function endsQuestion({ effect }: OutboxRow): boolean {
  return effect.type === 'announce' && ['answered', 'trustAnswered'].includes(effect.announcement.kind);
}

const PART_OVER = 'Part of the question above, which is closed.';

type SearchResult = { readonly id: string | null } | { readonly unreadable: string };

async function searchFor(adapter: ChatAdapter, post: OutgoingPost, channel: ChannelId): Promise<SearchResult> {
  try {
    return { id: await adapter.find(channel, post) };
  } catch (error) {
    // No post can exist in a channel that is gone. The error counts as a refusal of the post.
    if (error instanceof ChatError && error.channelIsGone) throw error;
    if (error instanceof ChatError && error.fault === 'refused' && !isRetried(error))
      return { unreadable: error.message };
    throw error;
  }
}

function postOf(row: OutboxRow, ports: OutboxSenderPorts): OutgoingPost {
  const { effect } = row;
  const isSpeech = effect.type === 'post';
  const thread = isSpeech ? ports.threadOf(row) : null;
  const announcement = effect.type === 'announce' ? effect.announcement : null;
  const buttons = isSpeech ? [] : (ports.buttonsOf?.(row) ?? []);
  return {
    outboxId: row.id,
    speaker: isSpeech ? ports.speakerOf(effect.agent) : null,
    text: ports.clean(row.text ?? ''),
    afterId: row.afterId,
    epoch: isSpeech ? effect.epoch : null,
    ...(announcement !== null && isQuestion(announcement) ? { asks: requestPostId(announcement) } : {}),
    ...(thread === null ? {} : { thread }),
    ...(buttons.length === 0 ? {} : { buttons }),
  };
}

function settlementOf(error: ChatError, row: OutboxRow, now: Instant): Settlement {
  const retryAt = now + (error.retryAfterMs ?? deliveryBackoffMs(row.attempts + 1));
  switch (error.fault) {
    case 'refused':
      return { state: 'failed', why: error.message };
    case 'limited':
    case 'unreachable':
      return { state: 'retry', notBefore: retryAt };
    case 'unclear':
      return { state: 'uncertain', notBefore: retryAt };
  }
}
