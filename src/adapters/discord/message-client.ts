import { createHash } from 'node:crypto';
import { Routes } from 'discord.js';
import { z } from 'zod';
import { BoundedMap } from '../../lib/keyed.ts';
import type { Instant, Timer, Timers } from '../../lib/time.ts';
import { RECEIPTS } from '../../turns/floor/react.ts';
import type { Receipt } from '../../turns/floor/react.ts';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { FloorView } from '../../turns/view.ts';
import type { Content, HistoryRange, MessageClient, MessageRef, OwnMessage } from '../delivery/message-client.ts';
import { ChatError } from '../port.ts';
import { platformChannel, timeOf, CODES, isUnknownMessage, rejectionOf, wordsOf } from './client.ts';
import type { Call, Calls, Self } from './client.ts';
import { FILE_ABOVE, bodyOf, endsWithCursor, isCardButton, sameContent, shownOf } from './content.ts';
import { PAGE, pageSchema, readPages } from './history.ts';
import type { Places } from './places.ts';
import { avatarUrlOf, sameName, usernameOf } from './identity.ts';
import type { Webhook, Webhooks } from './identity.ts';
import type { Logger } from 'pino';

type MessageClientPorts = {
  readonly calls: Calls;
  readonly locate: Places['locate'];
  readonly webhooks: Webhooks;
  readonly self: Self;
  /** Returns whether the bot may read the history. Otherwise Discord shows an empty history and no error. */
  readonly mayRead: (channel: string) => Promise<boolean>;
  readonly statuses: Statuses;
};

const MESSAGES_KEPT = 2_000;
/** The most attempts by webhook for one message: with a lost webhook and its replacement. Then the bot itself posts. */
const WEBHOOK_ATTEMPTS = 2;
/** The id of a post that was delivered and then deleted by somebody. */
const NO_MESSAGE = '0';
/** Codes of Discord's refusals after which a receipt's reaction counts as added or removed. */
const HARMLESS_CODES: ReadonlySet<number> = new Set([
  CODES.unknownMessage,
  CODES.unknownEmoji,
  CODES.reactionBlocked,
  CODES.tooManyReactions,
]);
const KINDS = Object.keys(RECEIPTS) as readonly Receipt[];

const sentSchema = z.object({ id: z.string(), channel_id: z.string().nullish() });
const reactedSchema = z.object({
  reactions: z.array(z.object({ me: z.boolean(), emoji: z.object({ name: z.string().nullish() }) })).nullish(),
});

/**
 * Posts, edits and finds Conch's own messages over Discord's REST interface. Agents post by webhook; otherwise the bot
 * posts with the agent's name in front.
 */
export class BotMessages implements MessageClient {
  readonly limits = { postGapMs: 0, editsPerMinute: null, fileAbove: FILE_ABOVE, timeLeftEveryMs: null } as const;
  readonly #ports: MessageClientPorts;
  /**
   * The webhook that posted each message. `null`: one of Conch's webhooks that cannot be used now. Missing: the bot
   * itself counts as author.
   */
  readonly #webhooks = new BoundedMap<MessageId, Webhook | null>(MESSAGES_KEPT);

  constructor(ports: MessageClientPorts) {
    this.#ports = ports;
  }

  async send(channel: ChannelId, content: Content): Promise<MessageId> {
    const { webhooks } = this.#ports;
    for (let attempt = 0; content.speaker !== null && attempt < WEBHOOK_ATTEMPTS; attempt += 1) {
      const webhook = await webhooks.get(channel);
      if (webhook === null) break;
      try {
        const sent = await this.#execute(channel, webhook, content);
        if ((sent.channel_id ?? platformChannel(channel)) === platformChannel(channel)) return sent.id;
        // A moderator moved the webhook to another channel.
        await webhooks.markLost(channel, webhook);
        await this.remove({ channel, id: sent.id }).catch(() => undefined);
      } catch (error) {
        if (isLost(error)) await webhooks.markLost(channel, webhook);
        else if (rejectionOf(error)?.status === 400) break;
        else throw error;
      }
    }
    return this.#post(channel, content);
  }

  async change(message: MessageRef, content: Content): Promise<'changed' | 'gone'> {
    const call = await this.#callFor(message);
    const body = bodyOf(content, this.#webhooks.has(message.id));
    try {
      await this.#ports.calls.tell({ ...call, method: 'patch', ...purpose(content, 'edit'), body });
      return 'changed';
    } catch (error) {
      if (isUnknownMessage(error)) return 'gone';
      throw error;
    }
  }

  async remove(message: MessageRef): Promise<void> {
    const webhook = this.#webhooks.get(message.id) ?? null;
    const call = await this.#callFor(message);
    const what = this.#webhooks.get(message.id) === null ? 'delete for a former webhook' : 'delete';
    try {
      await this.#ports.calls.tell({ ...call, method: 'delete', what });
    } catch (error) {
      // The webhook is gone, but its message is not. The bot itself deletes the message, if it has the permission.
      if (webhook !== null && isLost(error) && !isUnknownMessage(error)) {
        this.#webhooks.set(message.id, null);
        return this.remove(message);
      }
      if (rejectionOf(error)?.status !== 404) throw error;
    }
  }

  async readOwn(channel: ChannelId, range: HistoryRange): Promise<readonly OwnMessage[]> {
    const { calls, webhooks, mayRead } = this.#ports;
    // Looked up first, because the search must know which webhooks are Conch's own.
    const webhook = await webhooks.get(channel);
    const route = Routes.channelMessages(platformChannel(channel));
    const after = range.after === NO_MESSAGE ? null : range.after;
    const newest = range.newest ?? (after === null ? PAGE : null);
    const { messages, isComplete, isEmpty } = await readPages(
      (query) => calls.ask({ method: 'get', route, channel, what: 'read history', query }, pageSchema),
      { after, newest, pages: MOST_PAGES },
    );
    const failure = { method: 'find', channel, fault: 'refused' } as const;
    if (!isComplete) throw new ChatError('The history since the post is too long to search', failure);
    if (isEmpty && !(await mayRead(platformChannel(channel))))
      throw new ChatError('The bot lacks the permission "Read Message History"', failure);
    const parsed = messages.toReversed().flatMap((each) => seenSchema.safeParse(each).data ?? []);
    return parsed.flatMap((message) => this.#toOwnMessage(message, webhook) ?? []);
  }

  async react({ channel, id }: MessageRef, receipt: Receipt, isShown: boolean): Promise<void> {
    const emoji = encodeURIComponent(RECEIPTS[receipt]);
    const route = Routes.channelMessageOwnReaction(platformChannel(channel), id, emoji);
    try {
      await this.#ports.calls.tell({ method: isShown ? 'put' : 'delete', route, channel, what: 'receipt' });
    } catch (error) {
      if (!HARMLESS_CODES.has(rejectionOf(error)?.code ?? 0)) throw error;
    }
  }

  async receipts({ channel, id }: MessageRef): Promise<readonly Receipt[]> {
    const route = Routes.channelMessage(platformChannel(channel), id);
    const call = { method: 'get', route, channel, what: 'look at receipts' } as const;
    const { reactions } = await this.#ports.calls.ask(call, reactedSchema);
    const ownEmojis = new Set((reactions ?? []).filter(({ me }) => me).map(({ emoji }) => emoji.name));
    return KINDS.filter((kind) => ownEmojis.has(RECEIPTS[kind]));
  }

  status(channel: ChannelId, view: FloorView): void {
    this.#ports.statuses.show(channel, view);
  }

  async stop(): Promise<void> {
    this.#ports.statuses.stop();
  }

  sentAt(message: MessageId): Instant {
    return timeOf(message);
  }

  timeLeft(endsAt: Instant): string {
    return `ends <t:${Math.ceil(endsAt / 1_000)}:R>`;
  }

  async #execute(channel: ChannelId, webhook: Webhook, content: Content): Promise<z.infer<typeof sentSchema>> {
    const { thread } = await this.#ports.locate(channel);
    const { speaker } = content;
    const avatar = speaker === null ? null : avatarUrlOf(speaker);
    const query = { wait: 'true', ...(thread === null ? {} : { thread_id: thread }) };
    const body = {
      ...bodyOf(content, true),
      ...(speaker === null ? {} : { username: usernameOf(speaker) }),
      ...(avatar === null ? {} : { avatar_url: avatar }),
    };
    const route = Routes.webhook(webhook.id, webhook.token);
    const { files } = shownOf(content);
    const call = { method: 'post', route, channel, query, ...purpose(content, 'post'), body, files } as const;
    const sent = await this.#ports.calls.ask(call, sentSchema);
    this.#webhooks.set(sent.id, webhook);
    return sent;
  }

  async #post(channel: ChannelId, content: Content, withFile = true): Promise<MessageId> {
    const route = Routes.channelMessages(platformChannel(channel));
    const nonce = content.outboxId === null ? {} : { nonce: nonceOf(content.outboxId), enforce_nonce: true };
    const body = { ...bodyOf(content, false, withFile), ...nonce };
    const { files } = shownOf(content, withFile);
    const what = purpose(content, files.length === 0 ? 'post' : 'post a file');
    try {
      return (await this.#ports.calls.ask({ method: 'post', route, channel, ...what, body, files }, sentSchema)).id;
    } catch (error) {
      const isFileRefused = files.length > 0 && rejectionOf(error)?.code === CODES.missingPermissions;
      // Without the file, only an agent's text is cut. A question is not posted, because people decide by its whole
      // text.
      if (isFileRefused && content.speaker !== null) return this.#post(channel, content, false);
      // Discord knows the nonce, but the message was deleted by somebody: it was delivered.
      if (isUnknownMessage(error)) return NO_MESSAGE;
      throw error;
    }
  }

  async #callFor({ channel, id }: MessageRef): Promise<Pick<Call, 'route' | 'channel' | 'query'>> {
    const webhook = this.#webhooks.get(id) ?? null;
    if (webhook === null) return { route: Routes.channelMessage(platformChannel(channel), id), channel };
    const { thread } = await this.#ports.locate(channel);
    const route = Routes.webhookMessage(webhook.id, webhook.token, id);
    return { route, channel, ...(thread === null ? {} : { query: { thread_id: thread } }) };
  }

  #toOwnMessage(message: SeenMessage, webhook: Webhook | null): OwnMessage | null {
    const { id, webhook_id: by, author, content } = message;
    const { webhooks, self } = this.#ports;
    const byWebhook = typeof by === 'string';
    if (byWebhook ? !webhooks.isOwn(by) : author.id !== self.userId) return null;
    if (byWebhook && !this.#webhooks.has(id)) this.#webhooks.set(id, by === webhook?.id ? webhook : null);
    const kind = isCard(message) ? 'card' : endsWithCursor(content) ? 'draft' : 'post';
    return { id, kind, matches: (post) => isPost(message, post) };
  }
}

function isPost({ author, content, nonce, webhook_id: by }: SeenMessage, post: Content): boolean {
  const byWebhook = typeof by === 'string';
  if ([true, byWebhook].some((withFile) => sameContent(content, bodyOf(post, byWebhook, withFile).content))) {
    return !byWebhook || (post.speaker !== null && sameName(author.username, usernameOf(post.speaker)));
  }
  return !byWebhook && post.outboxId !== null && nonce === nonceOf(post.outboxId);
}

/**
 * Returns the purpose of a call. Drafts and cards have purposes of their own, so that their refusals do not block
 * posts.
 */
function purpose({ kind }: Content, what: string): Pick<Call, 'what' | 'callerRetries'> {
  return kind === 'post' ? { what } : { what: `${what} a ${kind}`, callerRetries: kind === 'card' };
}

/** Returns the nonce by which Discord recognizes a repeated post. Discord allows 25 characters. */
function nonceOf(outboxId: string): string {
  return createHash('sha256').update(outboxId).digest('base64url').slice(0, 24);
}

/**
 * Returns whether Discord does not know a webhook or its token. True also for an unknown message: its status is 404,
 * too.
 */
function isLost(error: unknown): boolean {
  const answer = rejectionOf(error);
  if (answer === null) return false;
  return answer.status === 401 || (answer.status === 404 && answer.code !== CODES.unknownChannel);
}

type SeenMessage = z.infer<typeof seenSchema>;

const seenSchema = z.object({
  id: z.string(),
  content: z.string().catch(''),
  webhook_id: z.string().nullish(),
  nonce: z.union([z.string(), z.number()]).nullish(),
  author: z.object({ id: z.string(), username: z.string().catch('') }),
  components: z.array(z.unknown()).nullish(),
});
const rowSchema = z.object({ components: z.array(z.object({ custom_id: z.string().catch('') })) });

const MOST_PAGES = 20;

function isCard({ components }: SeenMessage): boolean {
  const rows = (components ?? []).flatMap((row) => rowSchema.safeParse(row).data ?? []);
  return rows.some((row) => row.components.some((each) => isCardButton(each.custom_id)));
}

/** The bot's typing signs. Discord removes a typing sign after 10 s, so it is sent again. */
export type Statuses = { show(channel: ChannelId, view: FloorView): void; stop(): void };

const AGAIN_MS = 8_000;

/** Shows a typing sign in each channel whose holder is ACTIVE. Errors are only logged. */
export function createStatuses(ports: {
  readonly calls: Calls;
  readonly timers: Timers;
  readonly log: Logger;
  readonly enabled: boolean;
}): Statuses {
  const typingTimers = new Map<ChannelId, Timer>();
  let isStopped = false;
  const showTyping = (channel: ChannelId): void => {
    typingTimers.set(
      channel,
      ports.timers.after(AGAIN_MS, () => showTyping(channel)),
    );
    const route = Routes.channelTyping(platformChannel(channel));
    ports.calls
      .tell({ method: 'post', route, channel, what: 'type' })
      .catch((error: unknown) =>
        ports.log.debug({ channel, why: wordsOf(error) }, 'the typing sign could not be shown'),
      );
  };
  return {
    show(channel, view) {
      const isAtWork = ports.enabled && !isStopped && view.holder?.status === 'ACTIVE';
      if (isAtWork && !typingTimers.has(channel)) showTyping(channel);
      if (isAtWork) return;
      typingTimers.get(channel)?.cancel();
      typingTimers.delete(channel);
    },
    stop() {
      isStopped = true;
      for (const timer of typingTimers.values()) timer.cancel();
      typingTimers.clear();
    },
  };
}
