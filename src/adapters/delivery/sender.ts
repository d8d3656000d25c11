import type { Logger } from 'pino';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { KeyedQueue } from '../../lib/keyed-queue.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import type { Receipt } from '../../turns/floor/react.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { FloorView } from '../../turns/view.ts';
import { ChatError } from '../port.ts';
import type { Memory, FloorQueries, OutgoingPost, Speaker } from '../port.ts';
import { Drafts } from './drafts.ts';
import { FloorCards } from './floor-cards.ts';
import { isAfter } from './message-client.ts';
import type { Content, MessageClient } from './message-client.ts';
import { RateLimits } from './rate-limits.ts';
import { createReceipts } from './receipts.ts';
import { StaleMessages } from './stale-messages.ts';

/** The sending half of a chat adapter. What is posted rejects with a `ChatError` and is not tried again here; nothing else surfaces an error. */
export type MessageSender = {
  /** Returns the message's id. A second call for a post that was being written into its draft changes the same message. */
  post(channel: ChannelId, post: OutgoingPost): Promise<MessageId>;
  /** Looks for a post whose outcome is not known; `null` when it is not there. */
  find(channel: ChannelId, post: OutgoingPost): Promise<MessageId | null>;
  /** Changes what Conch itself said; a message that somebody deleted stays deleted. */
  edit(channel: ChannelId, id: MessageId, text: string): Promise<void>;
  receipt(channel: ChannelId, message: MessageId, receipt: Receipt): Promise<void>;
  draft(channel: ChannelId, speaker: NonNullable<Speaker>, epoch: number, text: string | null): void;
  card(channel: ChannelId, view: FloorView): void;
  /** Takes away drafts and cards that a former run left behind; called with every catch-up of a channel. Never rejects. */
  tidy(channel: ChannelId): Promise<void>;
  /** A message by somebody other than Conch appeared in the channel. */
  seen(channel: ChannelId): void;
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

/** Says everything that Conch says on one platform. */
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
    },
    tidy: (channel) => stale.tidy(channel),
    seen: (channel) => cards.passed(channel),
    reopened: (channel) => cards.writable(channel),
    async stop() {
      stale.stop();
      rates.stop();
      await Promise.all([drafts.stop(), cards.stop()]);
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
