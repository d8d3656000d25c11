import { createHash } from 'node:crypto';
import type { REST } from 'discord.js';
import type { Logger } from 'pino';
import { Routes } from 'discord.js';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import { ChatError } from '../port.ts';
import type { Memory, Observatory, OutgoingPost } from '../port.ts';
import type { Speaking } from '../delivery/speaking.ts';
import { FILE_ABOVE, body, contentOf, sameContent, shownOf } from './body.ts';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { createCalls } from './calls.ts';
import type { Calls } from './calls.ts';
import type { DiscordSettings, Self } from './client.ts';
import { createCards } from './card.ts';
import type { Cards } from './card.ts';
import { createDrafts } from './drafts.ts';
import type { Drafts } from './drafts.ts';
import { isUnknownMessage, wordsOf } from './errors.ts';
import { createIdentities } from './identity.ts';
import type { Identities } from './identity.ts';
import { platformChannel } from './ids.ts';
import { createLocator } from './location.ts';
import type { Locator } from './location.ts';
import { sameName, usernameOf } from './names.ts';
import { channelPermissions } from './permissions.ts';
import { createReceipts } from './receipts.ts';
import type { Receipts } from './receipts.ts';
import { createRoles } from './roles.ts';
import type { Roles } from './roles.ts';
import { isAfter, newest, search } from './search.ts';
import type { SeenMessage } from './search.ts';
import { createTidying } from './tidying.ts';
import type { Tidying } from './tidying.ts';
import { createTyping } from './typing.ts';
import type { Typing } from './typing.ts';
import { createVoice } from './voice.ts';
import type { Saying, Standing, Voice } from './voice.ts';
import { createWebhooks } from './webhooks.ts';
import type { Webhooks } from './webhooks.ts';

export type OutgoingPorts = {
  readonly rest: REST;
  readonly self: () => Self;
  readonly observatory: Observatory;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
  readonly memory: Memory;
  readonly settings: DiscordSettings;
};

/** Everything that Conch says on Discord. */
export type Outgoing = Speaking & {
  readonly identities: Identities;
  /** A message of this floor stands in a thread that shares it: that is where its receipts belong. */
  stands(message: MessageId, thread: string): void;
  /** The channel can be used again: what Discord refused there may be tried again. */
  reopen(channel: ChannelId): void;
};

type Parts = {
  readonly calls: Calls;
  readonly locate: Locator;
  readonly webhooks: Webhooks;
  readonly roles: Roles;
  readonly voice: Voice;
  readonly drafts: Drafts;
  readonly cards: Cards;
  readonly receipts: Receipts;
  readonly typing: Typing;
  readonly tidying: Tidying;
  /** The newest post of each channel. */
  readonly newest: Map<ChannelId, string>;
  /** Drafts that a post was written into without an answer, by outbox id: it is written there again. */
  readonly unsettled: BoundedMap<string, Standing>;
};

const UNSETTLED_KEPT = 1_000;
const CHANNELS_AT_ONCE = 8;

/** The sending side of one bot. */
export function createOutgoing(ports: OutgoingPorts): Outgoing {
  const parts = assemble(ports);
  const { calls, cards, drafts, receipts, typing, tidying } = parts;
  const inOrder = createLanes();
  return {
    identities: createIdentities({ observatory: ports.observatory, ...parts }),
    start: () => start(ports, parts),
    post: (channel, post) => inOrder(channel, () => publish(parts, channel, post)),
    find: (channel, post) => inOrder(channel, () => find(ports, parts, { channel, post })),
    edit: (channel, platformId, text) => inOrder(channel, () => edit(calls, { channel, platformId }, text)),
    receipt: (channel, message, receipt) => receipts.show(channel, message, receipt),
    draft: (channel, speaker, epoch, text) => drafts.draft(channel, speaker, epoch, text),
    card(channel, view) {
      cards.show(channel, view);
      typing.show(channel, view);
    },
    tidy: (channel) => inOrder(channel, () => tidying.tidy(channel)),
    seen: (channel) => cards.passed(channel),
    stands: (message, thread) => receipts.stands(message, thread),
    reopen: (channel) => calls.reopen(channel),
    async stop() {
      typing.stop();
      tidying.stop();
      await Promise.all([drafts.stop(), cards.stop()]);
    },
  };
}

function assemble(ports: OutgoingPorts): Parts {
  const { settings, self } = ports;
  const calls = createCalls(ports);
  const locate = createLocator({ calls, observatory: ports.observatory });
  const applicationId = (): string => self().applicationId;
  const webhooks = createWebhooks({ ...ports, calls, locate, applicationId, enabled: settings.webhooks });
  const voice = createVoice({ calls, locate, webhooks });
  const cards = createCards({ ...ports, calls, enabled: settings.cards });
  const tidying = createTidying({ ...ports, calls, cards, voice, webhooks, userId: () => self().userId });
  return {
    calls,
    locate,
    webhooks,
    voice,
    cards,
    tidying,
    roles: createRoles({ ...ports, calls }),
    drafts: createDrafts({
      ...ports,
      voice,
      enabled: settings.streaming,
      strayed: (channel, messageId) => tidying.soon(channel, messageId),
    }),
    receipts: createReceipts({ calls, clock: ports.clock }),
    typing: createTyping({ ...ports, calls, enabled: settings.typing }),
    newest: new Map(),
    unsettled: new BoundedMap(UNSETTLED_KEPT),
  };
}

async function start(ports: OutgoingPorts, parts: Parts): Promise<void> {
  const { observatory, settings, log } = ports;
  const own = observatory.channels().filter(({ parent }) => parent === null);
  const guilds = new Set<string>();
  const prepare = async (channel: ChannelId): Promise<void> => {
    try {
      const { guild } = await parts.locate(channel);
      if (settings.roles && guild !== null && !guilds.has(guild)) {
        guilds.add(guild);
        await parts.roles.ensure(guild, channel);
      }
      await parts.webhooks.of(channel);
    } catch (error) {
      log.debug({ channel, why: wordsOf(error) }, 'a channel could not be prepared yet');
    }
  };
  for (let first = 0; first < own.length; first += CHANNELS_AT_ONCE) {
    await Promise.all(own.slice(first, first + CHANNELS_AT_ONCE).map(({ id }) => prepare(id)));
  }
}

async function publish(parts: Parts, channel: ChannelId, post: OutgoingPost): Promise<string> {
  if (post.text.trim() === '') {
    throw new ChatError('There is nothing to post', { method: 'post', channel, fault: 'refused' });
  }
  const standing = parts.unsettled.get(post.outboxId) ?? (await takeOver(parts, channel, post));
  const written = standing === null ? null : await intoDraft(parts, channel, { standing, post });
  const id = written ?? (await afresh(parts, channel, post));
  parts.newest.set(channel, id);
  parts.cards.passed(channel);
  return id;
}

/** A draft is taken over only when no post stands below it; else it goes. */
async function takeOver(parts: Parts, channel: ChannelId, post: OutgoingPost): Promise<Standing | null> {
  const taken = await parts.drafts.take(channel, post);
  if (taken === null) return null;
  const above = [parts.newest.get(channel), post.afterId].filter((id) => typeof id === 'string');
  if (post.text.length <= FILE_ABOVE && above.every((id) => isAfter(taken.id, id))) return taken;
  await parts.drafts.drop(channel, taken);
  return null;
}

/** Writes a post into its draft; `null` when that draft cannot be written to any more. */
async function intoDraft(
  parts: Parts,
  channel: ChannelId,
  { standing, post }: { readonly standing: Standing; readonly post: OutgoingPost },
): Promise<string | null> {
  try {
    await parts.voice.change(channel, standing, (isWebhook) => contentOf(post.speaker, post.text, isWebhook));
    parts.unsettled.delete(post.outboxId);
    return standing.id;
  } catch (error) {
    if (error instanceof ChatError && error.fault !== 'refused') {
      parts.unsettled.set(post.outboxId, standing);
      throw error;
    }
    parts.unsettled.delete(post.outboxId);
    if (!isUnknownMessage(error)) await parts.drafts.drop(channel, standing);
    return null;
  }
}

async function afresh(parts: Parts, channel: ChannelId, post: OutgoingPost): Promise<string> {
  const { text, files } = shownOf(post);
  const saying: Saying = {
    what: 'post',
    speaker: post.speaker,
    write: (isWebhook) => contentOf(post.speaker, text, isWebhook),
    files,
    nonce: nonceOf(post.outboxId),
  };
  try {
    return (await parts.voice.say(channel, saying)).id;
  } catch (error) {
    // The nonce of a message that was posted and then deleted by somebody: it was delivered.
    if (isUnknownMessage(error)) return post.afterId ?? NO_MESSAGE;
    throw error;
  }
}

type Sought = { readonly channel: ChannelId; readonly post: OutgoingPost };

async function find(ports: OutgoingPorts, parts: Parts, { channel, post }: Sought): Promise<string | null> {
  // Which webhooks are Conch's own must be known before a message can be told to be missing.
  if (post.speaker !== null) await parts.webhooks.of(channel);
  const afterId = post.afterId === NO_MESSAGE ? null : post.afterId;
  const fits = fitting(ports, parts.webhooks, post);
  const found = await search(parts.calls, { channel, afterId }, fits);
  if (found === null) return mustBeReadable(ports, parts, channel);
  parts.unsettled.delete(post.outboxId);
  parts.newest.set(channel, found.id);
  return found.id;
}

/** A bot that may not read the history is shown an empty one: then nothing can be said about a missing message. */
async function mustBeReadable(ports: OutgoingPorts, parts: Parts, channel: ChannelId): Promise<null> {
  const [last] = await newest(parts.calls, channel, { limit: 1 });
  if (last !== undefined) return null;
  const { missing } = await channelPermissions(ports.rest, ports.self(), platformChannel(channel));
  if (!missing.includes('Read Message History')) return null;
  const where = { method: 'find', channel, fault: 'refused' } as const;
  throw new ChatError('The bot lacks the permission "Read Message History"', where);
}

/** Whether a message is the post: said by Conch, under the agent's name, in the same words. */
function fitting(ports: OutgoingPorts, webhooks: Webhooks, post: OutgoingPost): (message: SeenMessage) => boolean {
  const { speaker } = post;
  const { text } = shownOf(post);
  const [byWebhook, byBot] = [true, false].map((isWebhook) => body(contentOf(speaker, text, isWebhook)).content);
  const nonce = nonceOf(post.outboxId);
  return ({ author, content, webhook_id: webhook, nonce: shown }) => {
    if (typeof webhook === 'string') {
      if (speaker === null || !webhooks.isOwn(webhook) || !sameName(author.username, usernameOf(speaker))) return false;
      return sameContent(content, byWebhook ?? '');
    }
    return author.id === ports.self().userId && (shown === nonce || sameContent(content, byBot ?? ''));
  };
}

async function edit(
  calls: Calls,
  message: { readonly channel: ChannelId; readonly platformId: string },
  text: string,
): Promise<void> {
  const { channel, platformId } = message;
  const route = Routes.channelMessage(platformChannel(channel), platformId);
  try {
    await calls.tell({ method: 'patch', route, channel, what: 'edit', body: body(contentOf(null, text, false)) });
  } catch (error) {
    if (!isUnknownMessage(error)) throw error;
  }
}

/** Stands for a message whose id nobody learnt. */
const NO_MESSAGE = '0';

/** At most 25 characters, the same for the same row of the outbox for ever. */
function nonceOf(outboxId: string): string {
  return createHash('sha256').update(outboxId).digest('base64url').slice(0, 24);
}

/** Runs what belongs to one channel one after the other. */
function createLanes(): <T>(channel: ChannelId, job: () => Promise<T>) => Promise<T> {
  const lanes = new Map<ChannelId, Promise<unknown>>();
  return (channel, job) => {
    const done = (lanes.get(channel) ?? Promise.resolve()).then(job);
    const settled = done.catch(() => null);
    lanes.set(channel, settled);
    void settled.then(() => lanes.get(channel) === settled && lanes.delete(channel));
    return done;
  };
}
