import type { WebClient } from '@slack/web-api';
import { z } from 'zod';
import type { Timer } from '../../lib/time.ts';
import { RECEIPTS } from '../../turns/floor/react.ts';
import type { Receipt } from '../../turns/floor/react.ts';
import type { ChannelId, AgentId, MessageId } from '../../turns/floor/settings.ts';
import type { FloorView } from '../../turns/view.ts';
import { ChatError } from '../port.ts';
import type { AdapterParts, FloorQueries, Speaker } from '../port.ts';
import type { Content, HistoryRange, MessageClient, MessageRef, OwnMessage } from '../delivery/message-client.ts';
import { ANY_ANSWER, call, isDirect, messageId, platformChannel, platformMessage, slackCode } from './client.ts';
import type { Self, SlackSettings } from './client.ts';
import { emojiName, roughlyLeft, wordingOf, identityOf } from './content.ts';
import { PAGE, pageSchema } from './history.ts';
import { isOwn, messageSchema, sentAt } from './parse-message.ts';

type MessageClientPorts = Pick<AdapterParts, 'clock' | 'timers' | 'log'> & {
  readonly web: WebClient;
  readonly self: Self;
  readonly queries: Pick<FloorQueries, 'agents'>;
  /**
   * `status`: whether Slack shows who is writing. `agentSessions`: the app is an agent at Slack, with sessions and a
   * Stop button.
   */
  readonly settings: Pick<SlackSettings, 'status' | 'agentSessions'>;
};

/** The message client of Slack, with a method to start it. */
export type SlackMessageClient = MessageClient & {
  /** Asks Slack whether agents may post under their own names. Never rejects. */
  start(): Promise<void>;
};

/**
 * Slack allows about one message per second in a channel, and about 50 edits per minute. Drafts and cards get 40 of
 * these edits. The rest is for other edits, such as of finished drafts and closed questions.
 */
const LIMITS = { postGapMs: 1_000, editsPerMinute: 40, fileAbove: null, timeLeftEveryMs: 30_000 } as const;

/**
 * Writes and finds Conch's messages through Slack's Web API. Message metadata, which people do not see, holds the
 * message's kind and outbox id. Slack's own streams are not used: a stream has no metadata until it ends. After a
 * crash, an open stream could not be told from a post.
 */
export function createMessageClient(ports: MessageClientPorts): SlackMessageClient {
  const { web, self, clock } = ports;
  const { write, speakAsOneself } = createWriter(ports);
  const statuses = new Statuses(ports);
  return {
    limits: LIMITS,
    start: () => checkScopes(ports, speakAsOneself),
    async send(channel, content) {
      const { channel: slackChannel, thread } = platformChannel(channel);
      const place = { channel: slackChannel, ...FRESH, ...(thread === null ? {} : { thread_ts: thread }) };
      const posted = await write('chat.postMessage', channel, { content, extra: place });
      if (hasStatus(channel)) statuses.showAgain(channel);
      const update = { channel: slackChannel, ts: posted.ts, ...INERT };
      if (posted.isUnnamed) await write('chat.update', channel, { content, extra: update }).catch(() => undefined);
      return messageId(slackChannel, posted.ts);
    },
    async change({ channel, id }, content) {
      const extra = { ...platformMessage(id), ...INERT };
      const change = write('chat.update', channel, { content, extra }).then(() => 'changed' as const);
      return ignoreCodes(GONE_CODES, change, 'gone');
    },
    async remove({ channel, id }) {
      const request = { method: 'chat.delete', channel, args: platformMessage(id), answer: ANY_ANSWER };
      await ignoreCodes(GONE_CODES, call(web, request), {});
    },
    readOwn: (channel, range) => ownMessages(ports, channel, range),
    async react({ channel, id }, receipt, isShown) {
      const { channel: slackChannel, ts } = platformMessage(id);
      const args = { channel: slackChannel, timestamp: ts, name: reactionOf(receipt) };
      const method = isShown ? 'reactions.add' : 'reactions.remove';
      if (isDirect(channel)) statuses.anchor(channel, id);
      await ignoreCodes(REACTION_CODES, call(web, { method, channel, args, answer: ANY_ANSWER }), {});
    },
    receipts: (message) => receiptsOn(web, self, message),
    status(channel, view) {
      if (hasStatus(channel)) statuses.show(channel, view);
    },
    stop: () => statuses.stop(),
    sentAt: (message) => sentAt(platformMessage(message).ts),
    timeLeft: (endsAt) => roughlyLeft(endsAt - clock.now()),
  };
}

/** Slack shows a status only in threads and direct messages. */
function hasStatus(channel: ChannelId): boolean {
  return platformChannel(channel).thread !== null || isDirect(channel);
}

async function checkScopes({ web, log }: MessageClientPorts, speakAsOneself: () => void): Promise<void> {
  try {
    const { response_metadata: about } = await web.auth.test();
    if (about?.scopes !== undefined && !about.scopes.includes('chat:write.customize')) speakAsOneself();
  } catch {
    log.debug('the scopes of the bot token are not known');
  }
}

function reactionOf(receipt: Receipt): string {
  return emojiName(RECEIPTS[receipt]) ?? receipt;
}

type Args = Readonly<Record<string, unknown>>;
type Writing = { readonly content: Content; readonly extra: Args };
type WrittenMessage = { readonly ts: string; readonly isUnnamed: boolean };

/**
 * Arguments that stop Slack from making mentions of names in plain text. `FRESH`, for new messages, also switches link
 * previews off.
 */
const INERT = { parse: 'none', link_names: false } as const;
const FRESH = { ...INERT, unfurl_links: false, unfurl_media: false } as const;

/** Error codes for a message that is gone or can no longer be changed. */
const GONE_CODES = new Set(['message_not_found', 'cant_update_message', 'cant_delete_message', 'edit_window_closed']);
/** Error codes for a reaction that needs no change, or whose message is gone. */
const REACTION_CODES = new Set(['already_reacted', 'no_reaction', 'message_not_found', 'thread_not_found']);
const TOO_BIG_CODES = new Set([
  'msg_too_long',
  'msg_blocks_too_long',
  'invalid_blocks',
  'invalid_blocks_format',
  'no_text',
]);
/** Error codes for a name or picture that Slack does not accept from this app. Nothing was posted. */
const NAME_CODES = new Set(['missing_scope', 'reserved_username', 'invalid_username', 'invalid_icon']);
const NO_CUSTOMIZE =
  'Slack ignores names from this app: agents speak as the app, with their name before the text. ' +
  'Add the scope chat:write.customize and install the app again.';

const writtenSchema = z.looseObject({
  ts: z.string(),
  message: z.looseObject({ username: z.string().optional(), bot_profile: z.unknown().optional() }).optional(),
});

/**
 * Returns `write`, which posts or edits a message. When Slack refuses the message's blocks or the agent's name, `write`
 * sends the request once more without them. The refused request posted nothing, so the message is not posted twice.
 * After `speakAsOneself`, messages have the agent's name in their text.
 */
function createWriter({ web, log }: MessageClientPorts) {
  let isCustomized = true;
  const speakAsOneself = (): void => {
    if (isCustomized) log.warn(NO_CUSTOMIZE);
    isCustomized = false;
  };
  const send = async (method: string, channel: ChannelId, args: Args): Promise<WrittenMessage> => {
    const { ts, message } = await call(web, { method, channel, args, answer: writtenSchema });
    // Slack's answer has no `username` when Slack ignored the name.
    return { ts, isUnnamed: message !== undefined && message.username === undefined && 'bot_profile' in message };
  };
  const write = async (method: string, channel: ChannelId, { content, extra }: Writing): Promise<WrittenMessage> => {
    const isThread = platformChannel(channel).thread !== null;
    const args = (hasBlocks = true): Args => ({
      ...extra,
      ...metadataOf(content),
      ...wordingOf(content, { isCustomized, isThread, hasBlocks }),
    });
    const first = args();
    try {
      const { ts, isUnnamed } = await send(method, channel, first);
      const isIgnored = isUnnamed && method === 'chat.postMessage' && 'username' in first;
      if (isIgnored) speakAsOneself();
      return { ts, isUnnamed: isIgnored };
    } catch (error) {
      const code = slackCode(error) ?? '';
      if (TOO_BIG_CODES.has(code) && 'blocks' in first) return send(method, channel, args(false));
      if (!NAME_CODES.has(code) || !('username' in first)) throw error;
      speakAsOneself();
      return send(method, channel, args());
    }
  };
  return { write, speakAsOneself };
}

/** Returns the metadata of a message; none for an edit of a post, which keeps its metadata. */
function metadataOf({ kind, speaker, epoch, outboxId }: Content): Args {
  if (kind === 'post' && outboxId === null) return {};
  const payload = {
    ...(outboxId === null ? {} : { outbox_id: outboxId }),
    ...(speaker === null ? {} : { agent: speaker.id }),
    ...(epoch === null ? {} : { epoch }),
  };
  return { metadata: { event_type: `conch_${kind}`, event_payload: payload } };
}

async function ignoreCodes<T>(codes: ReadonlySet<string>, work: Promise<T>, instead: T | 'gone'): Promise<T | 'gone'> {
  try {
    return await work;
  } catch (error) {
    if (codes.has(slackCode(error) ?? '')) return instead;
    throw error;
  }
}

const KINDS = Object.keys(RECEIPTS) as readonly Receipt[];
const reactedSchema = z.looseObject({
  message: z.looseObject({
    reactions: z.array(z.looseObject({ name: z.string(), users: z.array(z.string()).default([]) })).default([]),
  }),
});

async function receiptsOn(web: WebClient, { userId }: Self, { channel, id }: MessageRef): Promise<readonly Receipt[]> {
  const { channel: slackChannel, ts } = platformMessage(id);
  const args = { channel: slackChannel, timestamp: ts, full: true };
  const answer = await call(web, { method: 'reactions.get', channel, args, answer: reactedSchema });
  const { reactions } = answer.message;
  const ownReactions = new Set(reactions.filter(({ users }) => users.includes(userId)).map(({ name }) => name));
  return KINDS.filter((kind) => ownReactions.has(reactionOf(kind)));
}

/** Slack's limit for a page. A thread cannot be read from its end, so its pages are long. */
const THREAD_PAGE = 999;
const MOST_PAGES = 15;
const DEFAULT_NEWEST = 100;

const foundSchema = messageSchema.extend({
  metadata: z
    .looseObject({
      event_type: z.enum(['conch_post', 'conch_draft', 'conch_card']),
      event_payload: z.looseObject({ outbox_id: z.string().optional() }).catch({}),
    })
    .optional()
    .catch(undefined),
});
type FoundMessage = z.infer<typeof foundSchema>;

/** Returns Conch's own messages of a range. Slack pages channels from the newest message, threads from the oldest. */
async function ownMessages(
  { web, self }: Pick<MessageClientPorts, 'web' | 'self'>,
  channel: ChannelId,
  range: HistoryRange,
): Promise<readonly OwnMessage[]> {
  const { channel: slackChannel, thread } = platformChannel(channel);
  const after = range.after === null ? '' : platformMessage(range.after).ts;
  const newest = range.newest ?? (after === '' ? DEFAULT_NEWEST : Infinity);
  const messages = new Map<string, FoundMessage>();
  const isBackwards = thread === null;
  const method = isBackwards ? 'conversations.history' : 'conversations.replies';
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const args = {
      channel: slackChannel,
      ...(isBackwards ? {} : { ts: thread }),
      ...(isBackwards && newest < Infinity ? {} : { oldest: after || '0', inclusive: false }),
      limit: isBackwards ? Math.min(PAGE, newest - messages.size) : THREAD_PAGE,
      include_all_metadata: true,
      cursor,
    };
    const answer = await call(web, { method, channel, args, answer: pageSchema });
    for (const message of answer.messages.flatMap((each) => foundSchema.safeParse(each).data ?? [])) {
      messages.set(message.ts, message);
    }
    cursor = answer.response_metadata?.next_cursor || undefined;
    const isEnough = isBackwards && (messages.size >= newest || [...messages.keys()].some((ts) => ts <= after));
    if (cursor === undefined || isEnough)
      return toOwnMessages(slackChannel, [...messages.values()], { self, after, newest });
  }
  const why = `The history since the post is too long to search by ${method}`;
  throw new ChatError(why, { method, channel, fault: 'refused' });
}

type OwnRange = { readonly self: Self; readonly after: string; readonly newest: number };

function toOwnMessages(
  channel: string,
  messages: readonly FoundMessage[],
  { self, after, newest }: OwnRange,
): readonly OwnMessage[] {
  return messages
    .filter(({ ts }) => ts > after)
    .toSorted((one, other) => (one.ts < other.ts ? -1 : 1))
    .slice(newest === Infinity ? 0 : -newest)
    .flatMap((message) => {
      const { ts, metadata } = message;
      // Any app can write the same metadata, so the author's ids decide.
      if (metadata === undefined || !isOwn(message, self)) return [];
      const { outbox_id: outboxId } = metadata.event_payload;
      return [
        {
          id: messageId(channel, ts),
          kind: KIND_OF[metadata.event_type],
          matches: (post) => post.outboxId === outboxId,
        },
      ];
    });
}

const KIND_OF = { conch_post: 'post', conch_draft: 'draft', conch_card: 'card' } as const;

/** How often a status is sent again, in milliseconds. Slack removes a status after two minutes. */
const REFRESH_MS = 90_000;
/** The wait before a status is shown again after a post, in milliseconds. Slack removes the status at each post. */
const AFTER_POST_MS = 2_000;
const STATUS = 'assistant.threads.setStatus';
const SESSION = 'agents.sessions.setStatus';

/** Error codes after which Conch does not call a status method of Slack again until the next start. */
const USELESS_CODES = new Set([
  'unknown_method',
  'missing_scope',
  'not_allowed_token_type',
  'access_denied',
  'method_deprecated',
  'feature_not_enabled',
]);

type Session = 'active' | 'processing' | 'suspended' | 'closed';

type Line = {
  readonly channel: ChannelId;
  readonly thread: string;
  writer: AgentId | null;
  shownWriter: AgentId | null;
  session: Session | null;
  timer: Timer | null;
  calls: Promise<void>;
};

class Statuses {
  readonly #ports: MessageClientPorts;
  readonly #lines = new Map<ChannelId, Line>();
  readonly #newest = new Map<ChannelId, string>();
  readonly #refusedMethods = new Set<string>();

  constructor(ports: MessageClientPorts) {
    this.#ports = ports;
  }

  show(channel: ChannelId, view: FloorView): void {
    const { status, agentSessions } = this.#ports.settings;
    if (!status && !agentSessions) return;
    const line = this.#line(channel);
    if (line === null) return;
    line.writer = view.holder?.status === 'ACTIVE' ? view.holder.agent : null;
    if (line.writer !== line.shownWriter) this.#write(line);
    this.#setSession(line, sessionOf(view));
    if (view.condition === 'resting' && line.writer === null) this.#lines.delete(channel);
  }

  /**
   * Called when a receipt is added to or removed from a message in a direct message. A later new status is shown below
   * the newest such message.
   */
  anchor(channel: ChannelId, message: MessageId): void {
    const { ts } = platformMessage(message);
    if (ts > (this.#newest.get(channel) ?? '')) this.#newest.set(channel, ts);
  }

  /** Called after a message of Conch, which removed the status at Slack. */
  showAgain(channel: ChannelId): void {
    const line = this.#lines.get(channel);
    if (line === undefined || line.shownWriter === null) return;
    line.shownWriter = null;
    this.#arm(line, AFTER_POST_MS);
  }

  async stop(): Promise<void> {
    for (const line of this.#lines.values()) {
      line.timer?.cancel();
      line.writer = null;
      if (line.shownWriter !== null) this.#write(line);
      if (line.session === 'processing') this.#setSession(line, 'suspended');
    }
    await Promise.all([...this.#lines.values()].map(({ calls }) => calls));
  }

  #line(channel: ChannelId): Line | null {
    const known = this.#lines.get(channel);
    if (known !== undefined) return known;
    const thread = platformChannel(channel).thread ?? this.#newest.get(channel) ?? null;
    if (thread === null) return null;
    const initial = { writer: null, shownWriter: null, session: null, timer: null };
    const line: Line = { channel, thread, ...initial, calls: Promise.resolve() };
    this.#lines.set(channel, line);
    return line;
  }

  #speakerOf(agent: AgentId): NonNullable<Speaker> {
    return this.#ports.queries.agents().find(({ id }) => id === agent) ?? { id: agent, name: agent, avatar: null };
  }

  #arm(line: Line, ms: number): void {
    line.timer?.cancel();
    line.timer = this.#ports.timers.after(ms, () => {
      line.timer = null;
      if (line.writer !== null) this.#write(line);
    });
  }

  #write(line: Line): void {
    if (!this.#ports.settings.status) return;
    const { writer } = line;
    line.shownWriter = writer;
    if (writer === null) line.timer?.cancel();
    else this.#arm(line, REFRESH_MS);
    const args = writer === null ? { status: '' } : { status: 'is writing…', ...identityOf(this.#speakerOf(writer)) };
    this.#call(line, STATUS, args);
  }

  /**
   * Sends the state of a thread's session to Slack when the state changed. The first state sent is `processing` or
   * `suspended`: `active` and `closed` are not sent before.
   */
  #setSession(line: Line, session: Session): void {
    const hasSession = this.#ports.settings.agentSessions && platformChannel(line.channel).thread !== null;
    if (!hasSession || session === line.session) return;
    if (line.session === null && (session === 'closed' || session === 'active')) return;
    line.session = session;
    this.#call(line, SESSION, { status: session });
  }

  #call(line: Line, method: string, args: Readonly<Record<string, unknown>>): void {
    const { web } = this.#ports;
    const { channel, thread } = line;
    const allArgs = { channel_id: platformChannel(channel).channel, thread_ts: thread, ...args };
    const send = async (): Promise<void> => {
      if (!this.#refusedMethods.has(method)) await call(web, { method, channel, args: allArgs, answer: ANY_ANSWER });
    };
    line.calls = line.calls.then(send).catch((error: unknown) => this.#failed(line, method, error));
  }

  #failed({ channel }: Line, method: string, error: unknown): void {
    const { log } = this.#ports;
    const code = slackCode(error);
    if (code === null || !USELESS_CODES.has(code)) return log.debug({ channel, method, err: error }, 'no status shown');
    if (!this.#refusedMethods.has(method))
      log.warn({ method, why: code }, 'Slack refuses this method to this app: it is not called again');
    this.#refusedMethods.add(method);
  }
}

/** Returns the state of a floor's session at Slack. Slack shows its Stop button while the session is `processing`. */
function sessionOf({ holder, condition }: FloorView): Session {
  if (holder !== null) return holder.status === 'ACTIVE' ? 'processing' : 'suspended';
  if (condition === 'paused') return 'suspended';
  return condition === 'open' ? 'active' : 'closed';
}
