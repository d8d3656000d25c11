import type { Logger } from 'pino';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import { ChatError } from '../port.ts';
import type {
  Capabilities,
  ChatAdapter,
  History,
  Intake,
  FloorQueries,
  Position,
  Memory,
  OutgoingPost,
} from '../port.ts';
import { BoundedMap, KeyedQueue } from '../../lib/keyed.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import type { Receipt } from '../../turns/floor/react.ts';
import { Drafts } from './posts.ts';
import { FloorCards } from './floor-cards.ts';
import { isAfter } from './message-client.ts';
import type { Content, MessageClient, MessageRef } from './message-client.ts';
import { RateLimits } from './rate-limits.ts';
import { StaleMessages } from './stale-messages.ts';

/** A platform that has told who Conch is there. */
export type OpenPlatform = {
  readonly sender: MessageSender;
  /** Resolves when messages come in; rejects with an `AdapterError` when they never will. */
  connect(): Promise<void>;
  /** Hears nothing more, and gives up what was not taken in. */
  disconnect(): Promise<void>;
  readHistory(channel: ChannelId, after: Position | null): Promise<History>;
  /** A call for a channel failed: perhaps it cannot be used any more. */
  failed(channel: ChannelId, error: unknown): void;
};

/** What makes an adapter of a platform. */
export type PlatformOptions = {
  readonly name: string;
  /** The platform's name in sentences. */
  readonly title: string;
  readonly capabilities: Capabilities;
  /** Reaches the platform, with patience. Rejects with an `AdapterError` when that will never be. */
  readonly open: (ports: {
    readonly intake: Intake;
    readonly queries: FloorQueries;
    readonly signal: AbortSignal;
  }) => Promise<OpenPlatform>;
};

/** While it connects, posts are tried again after so long, whatever the attempts of former runs were. */
const CONNECTING_MS = 1_000;

/**
 * A chat adapter of one platform: what is asked of it before it is connected, or after it was stopped, rejects as unreachable.
 */
export function createChatAdapter(options: PlatformOptions): ChatAdapter {
  const ending = new AbortController();
  const state: State = { platform: null };
  const { trying, up } = asking(options, state);
  return {
    name: options.name,
    capabilities: options.capabilities,
    async start(intake, queries) {
      try {
        const opened = await options.open({ intake, queries, signal: ending.signal });
        if (ending.signal.aborted) return;
        state.platform = opened;
        await opened.connect();
      } catch (error) {
        if (!ending.signal.aborted) throw error;
      }
    },
    async stop() {
      ending.abort();
      const { platform } = state;
      state.platform = null;
      await platform?.disconnect();
      await platform?.sender.stop();
    },
    post: (channel, post) => trying('post', channel, ({ sender }) => sender.post(channel, post)),
    find: (channel, post) => trying('find', channel, ({ sender }) => sender.find(channel, post)),
    edit: (channel, id, text) => trying('edit', channel, ({ sender }) => sender.edit(channel, id, text)),
    receipt: async (channel, message, receipt) => up('receipt', channel).sender.receipt(channel, message, receipt),
    draft: (channel, speaker, epoch, text) => state.platform?.sender.draft(channel, speaker, epoch, text),
    card: (channel, view) => state.platform?.sender.card(channel, view),
    catchUp: (channel, after) =>
      trying('catchUp', channel, async (here) => {
        const history = await here.readHistory(channel, after);
        await here.sender.tidy(channel);
        return history;
      }),
  };
}

type State = { platform: OpenPlatform | null };

function asking({ title }: PlatformOptions, state: State) {
  const up = (method: string, channel: ChannelId): OpenPlatform => {
    if (state.platform !== null) return state.platform;
    const where = { method, channel, fault: 'unreachable', retryAfterMs: CONNECTING_MS } as const;
    throw new ChatError(`${title} is not connected yet`, where);
  };
  const trying = async <T>(
    method: string,
    channel: ChannelId,
    work: (here: OpenPlatform) => Promise<T>,
  ): Promise<T> => {
    const here = up(method, channel);
    try {
      return await work(here);
    } catch (error) {
      here.failed(channel, error);
      throw error;
    }
  };
  return { up, trying };
}

/** The sending half of a chat adapter. What is posted rejects with a `ChatError` and is not tried again here; nothing else surfaces an error. */
export type MessageSender = Required<Pick<ChatAdapter, 'post' | 'find' | 'edit' | 'receipt' | 'draft' | 'card'>> & {
  /** Takes away drafts and cards that a former run left behind; called with every catch-up of a channel. Never rejects. */
  tidy(channel: ChannelId): Promise<void>;
  /** A message by somebody other than Conch appeared in the channel. */
  readonly seen: (channel: ChannelId) => void;
  /** The channel can be written to again. */
  reopened(channel: ChannelId): void;
  /** Takes away what is only for the moment. */
  stop(): Promise<void>;
};

/** What a sender needs. */
export type MessageSenderPorts = {
  readonly client: MessageClient;
  readonly queries: Pick<FloorQueries, 'agents'>;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly memory: Memory;
  /** Whether what agents write is shown while they write it, and whether channels have cards. */
  readonly settings: { readonly streaming: boolean; readonly cards: boolean };
};

const ADOPTED_KEPT = 1_000;

/**
 * Says everything that Conch says on one platform. A second call for a post that was being written into its draft changes the
 * same message. A message that somebody deleted stays deleted.
 */
export function createMessageSender(ports: MessageSenderPorts): MessageSender {
  const parts = assemble(ports);
  const { drafts, cards, stale, rates } = parts;
  const { streaming, cards: hasCards } = ports.settings;
  const show = createReceipts(ports);
  const lanes = new KeyedQueue<ChannelId>();
  return {
    post: (channel, post) => lanes.run(channel, () => publish(parts, channel, post)),
    find: (channel, post) => lanes.run(channel, () => find(parts, channel, post)),
    async edit(channel, id, text) {
      const content: Content = { kind: 'post', speaker: null, text, buttons: [], epoch: null, outboxId: null };
      await lanes.run(channel, () => rates.change({ channel, id }, content));
    },
    receipt: (channel, id, receipt) => show({ channel, id }, receipt),
    draft(channel, speaker, epoch, text) {
      if (streaming) drafts.show(channel, speaker, epoch, text);
    },
    card(channel, view) {
      if (hasCards) cards.draw(channel, view);
      ports.client.status?.(channel, view);
    },
    tidy: (channel) => stale.tidy(channel),
    seen: (channel) => cards.passed(channel),
    reopened: (channel) => cards.writable(channel),
    async stop() {
      stale.stop();
      rates.stop();
      await Promise.all([drafts.stop(), cards.stop(), ports.client.stop?.()]);
    },
  };
}

type Parts = {
  readonly client: MessageClient;
  readonly rates: RateLimits;
  readonly drafts: Drafts;
  readonly cards: FloorCards;
  readonly stale: StaleMessages;
  /** The newest post of each channel. */
  readonly newest: Map<ChannelId, MessageId>;
  /** Drafts that a post was written into without an answer, by outbox id: it is written there again. */
  readonly adopted: BoundedMap<string, MessageId>;
};

function assemble(ports: MessageSenderPorts): Parts {
  const { queries } = ports;
  const rates = new RateLimits(ports);
  const doubt = (channel: ChannelId): void => stale.doubt(channel);
  const drafts = new Drafts({ ...ports, rates, doubt });
  const nameOf = (agent: string): string => queries.agents().find(({ id }) => id === agent)?.name ?? agent;
  const cards = new FloorCards({ ...ports, rates, nameOf, doubt });
  const stale = new StaleMessages({ ...ports, rates, drafts, cards });
  return {
    client: ports.client,
    rates,
    drafts,
    cards,
    stale,
    newest: new Map(),
    adopted: new BoundedMap(ADOPTED_KEPT),
  };
}

async function publish(parts: Parts, channel: ChannelId, post: OutgoingPost): Promise<MessageId> {
  if (post.text.trim() === '') {
    throw new ChatError('There is nothing to post', { method: 'post', channel, fault: 'refused' });
  }
  const draft = parts.adopted.get(post.outboxId) ?? (await takeOver(parts, channel, post));
  const written = draft === null ? null : await intoDraft(parts, { channel, id: draft }, post);
  const id = written ?? (await parts.rates.send(channel, contentOf(post)));
  parts.newest.set(channel, id);
  parts.cards.passed(channel);
  parts.cards.writable(channel);
  return id;
}

/** A draft is taken over only when no post stands below it; else it goes. */
async function takeOver(parts: Parts, channel: ChannelId, post: OutgoingPost): Promise<MessageId | null> {
  const { client, drafts, newest } = parts;
  const id = await drafts.take(channel, post);
  if (id === null) return null;
  const { fileAbove } = client.limits;
  const above = [newest.get(channel), post.afterId].filter((each) => typeof each === 'string');
  if (post.text.length <= (fileAbove ?? Infinity) && above.every((each) => isAfter(id, each))) return id;
  await drafts.drop({ channel, id });
  return null;
}

/** Writes a post into its draft; `null` when that draft cannot be written to any more. */
async function intoDraft(
  { rates, drafts, adopted }: Parts,
  draft: { readonly channel: ChannelId; readonly id: MessageId },
  post: OutgoingPost,
): Promise<MessageId | null> {
  try {
    const outcome = await rates.change(draft, contentOf(post));
    adopted.delete(post.outboxId);
    return outcome === 'changed' ? draft.id : null;
  } catch (error) {
    if (error instanceof ChatError && error.fault !== 'refused') {
      adopted.set(post.outboxId, draft.id);
      throw error;
    }
    adopted.delete(post.outboxId);
    await drafts.drop(draft);
    return null;
  }
}

async function find(parts: Parts, channel: ChannelId, post: OutgoingPost): Promise<MessageId | null> {
  const own = await parts.client.own(channel, { after: post.afterId, newest: null });
  const content = contentOf(post);
  const found = own.find((message) => message.kind === 'post' && message.is(content));
  if (found === undefined) return null;
  parts.adopted.delete(post.outboxId);
  parts.newest.set(channel, found.id);
  return found.id;
}

function contentOf({ speaker, text, epoch, outboxId }: OutgoingPost): Content {
  return { kind: 'post', speaker, text, buttons: [], epoch, outboxId };
}

/** Shows one receipt under a message: a new one takes the place of those before it. Rejects with a `ChatError`. */
export type ShowReceipt = (message: MessageRef, receipt: Receipt) => Promise<void>;

const MESSAGES_KEPT = 2_000;

/** The receipts of one adapter. Messages from before it began are looked at first, for what a former run left there. */
export function createReceipts({
  client,
  clock,
}: {
  readonly client: MessageClient;
  readonly clock: Clock;
}): ShowReceipt {
  const bornAt = clock.now();
  const shown = new BoundedMap<MessageId, ReadonlySet<Receipt>>(MESSAGES_KEPT);
  return async (message, receipt) => {
    const isOlder = client.sentAt(message.id) < bornAt;
    const left = new Set(shown.get(message.id) ?? (isOlder ? await seen(client, message) : []));
    if (!left.has(receipt)) await client.react(message, receipt, true);
    shown.set(message.id, left.add(receipt));
    for (const old of [...left].filter((one) => one !== receipt)) {
      await client.react(message, old, false);
      left.delete(old);
    }
  };
}

/** None when that cannot be seen. */
async function seen(client: MessageClient, message: MessageRef): Promise<readonly Receipt[]> {
  try {
    return await client.receipts(message);
  } catch {
    return [];
  }
}
