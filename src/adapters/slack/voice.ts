import type { WebClient } from '@slack/web-api';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { ChatError } from '../port.ts';
import type { Speaker } from '../port.ts';
import { ANY_ANSWER, call } from './client.ts';
import { slackCode } from './errors.ts';
import { identityOf, prefixed } from './identity.ts';
import { platformChannel } from './ids.ts';
import { clipped, inertMarkdown, withoutBroadcasts } from './markdown.ts';
import type { Budget, Pace } from './pace.ts';
import { escaped } from './text.ts';

/** What Conch writes on its own messages, so that it knows them again; people do not see it. */
export type Mark = {
  readonly event_type: 'conch_post' | 'conch_draft' | 'conch_card';
  readonly event_payload: Readonly<Record<string, string | number>>;
};

/** One message as it is to stand in the channel. */
export type Message = {
  readonly speaker: Speaker;
  /** Markdown, as agents write it. */
  readonly text: string;
  /** `null` leaves the mark of an existing message as it is. */
  readonly mark: Mark | null;
  /** In place of the text, which is then what notifications show. */
  readonly blocks?: readonly Readonly<Record<string, unknown>>[];
};

/** Messages of Conch's own, through Slack's API. Every method rejects with a ChatError and none retries. */
export type Voice = {
  /** Returns the `ts` of the new message. Waits for the channel's next place. */
  post(channel: ChannelId, message: Message): Promise<string>;
  update(channel: ChannelId, ts: string, message: Message): Promise<void>;
  /** A message that is gone already is no error. */
  remove(channel: ChannelId, ts: string): Promise<void>;
  /** From now on agents' names stand before their texts: Slack takes no other names from this app. */
  speakAsOneself(): void;
};

/** What a voice needs. `updates` is what drafts and cards may use of Slack's limit on edits. */
export type VoicePorts = {
  readonly web: WebClient;
  readonly log: Logger;
  readonly pace: Pace;
  readonly updates: Budget;
  /** A new message of Conch's stands in the channel. */
  readonly posted: (channel: ChannelId) => void;
};

/** Slack's answers that say that the message to change is not there any more, or cannot be changed. */
export function isGone(error: unknown): boolean {
  return GONE.has(slackCode(error) ?? '');
}

/** Speaks through Slack's Web API. */
export function createVoice(ports: VoicePorts): Voice {
  const { web, pace, updates } = ports;
  const { execute, speakAsOneself, isIgnored } = createWriter(ports);
  const update = (channel: ChannelId, ts: string, message: Message): Promise<Posted> =>
    execute('chat.update', channel, message, { channel: platformChannel(channel).channel, ts, ...INERT });
  return {
    speakAsOneself,
    async post(channel, message) {
      const { channel: own, thread } = platformChannel(channel);
      await pace.take(own);
      const extra = { channel: own, ...FRESH, ...(thread === null ? {} : { thread_ts: thread }) };
      const posted = await execute('chat.postMessage', channel, message, extra).catch((error: unknown) => {
        if (error instanceof ChatError && error.fault === 'limited') pace.hold(own, error.retryAfterMs ?? 0);
        throw error;
      });
      ports.posted(channel);
      if (isIgnored(message, posted)) {
        speakAsOneself();
        await update(channel, posted.ts, message).catch(() => undefined);
      }
      return posted.ts;
    },
    async update(channel, ts, message) {
      await update(channel, ts, message).catch((error: unknown) => {
        if (error instanceof ChatError && error.fault === 'limited') updates.hold(error.retryAfterMs ?? 0);
        throw error;
      });
    },
    async remove(channel, ts) {
      const args = { channel: platformChannel(channel).channel, ts };
      await call(web, { method: 'chat.delete', channel, args, answer: ANY_ANSWER }).catch((error: unknown) => {
        if (!isGone(error)) throw error;
      });
    },
  };
}

type Writer = {
  /** Sends a message as Slack takes it: under its author's name or without, with blocks or, when it is too long, without. */
  readonly execute: (method: string, channel: ChannelId, message: Message, extra: Args) => Promise<Posted>;
  readonly speakAsOneself: () => void;
  /** Whether Slack left out the name under which a message was posted. */
  readonly isIgnored: (message: Message, posted: Posted) => boolean;
};

/** A first attempt that Slack refused was not carried out, so a second one in other words makes no second message. */
function createWriter({ web, log }: VoicePorts): Writer {
  let isCustomized = true;
  const speakAsOneself = (): void => {
    if (isCustomized) log.warn(NO_CUSTOMIZE);
    isCustomized = false;
  };
  return {
    speakAsOneself,
    isIgnored: ({ speaker }, { message }) =>
      speaker !== null && isCustomized && message !== undefined && isUnnamed(message),
    async execute(method, channel, message, extra) {
      const mark = message.mark === null ? {} : { metadata: message.mark };
      const send = (wording: Args): Promise<Posted> =>
        call(web, { method, channel, args: { ...extra, ...mark, ...wording }, answer: postedSchema });
      const wording = wordingOf(message, isCustomized);
      try {
        return await send(wording);
      } catch (error) {
        const code = slackCode(error) ?? '';
        if (TOO_BIG.has(code) && 'blocks' in wording) return send(withoutBlocks(wording, message, isCustomized));
        if (!NAME_REFUSED.has(code) || !('username' in wording)) throw error;
        speakAsOneself();
        return send(wordingOf(message, false));
      }
    },
  };
}

type Args = Readonly<Record<string, unknown>>;

const postedSchema = z.looseObject({
  ts: z.string(),
  message: z.looseObject({ username: z.string().optional(), bot_profile: z.unknown().optional() }).optional(),
});
type Posted = z.infer<typeof postedSchema>;

/** Slack shows long notifications badly from here on, and cuts texts without blocks there. */
const NOTICE_LIMIT = 4_000;
const TEXT_LIMIT = 39_000;
const BLOCK_LIMIT = 12_000;

const INERT = { parse: 'none', link_names: false } as const;
const FRESH = { ...INERT, unfurl_links: false, unfurl_media: false } as const;

const GONE = new Set(['message_not_found', 'cant_update_message', 'cant_delete_message', 'edit_window_closed']);
const TOO_BIG = new Set(['msg_too_long', 'msg_blocks_too_long', 'invalid_blocks', 'invalid_blocks_format', 'no_text']);
/** Names and pictures that Slack does not take from this app; nothing was posted. */
const NAME_REFUSED = new Set(['missing_scope', 'reserved_username', 'invalid_username', 'invalid_icon']);
const NO_CUSTOMIZE =
  'Slack takes no names from this app: agents speak as the app, with their name before the text. ' +
  'Add the scope chat:write.customize and install the app again.';

/** Texts and names of a message; nothing in them mentions anybody. */
function wordingOf({ speaker, text, blocks }: Message, isCustomized: boolean): Args {
  const named = speaker === null || isCustomized ? text : prefixed(speaker, text);
  const markdown = inertMarkdown(named);
  const own = blocks ?? (markdown.length > BLOCK_LIMIT ? null : [{ type: 'markdown', text: markdown }]);
  return {
    text: clipped(plain(named), own === null ? TEXT_LIMIT : NOTICE_LIMIT),
    ...(own === null ? {} : { blocks: own }),
    ...(speaker === null || !isCustomized ? {} : identityOf(speaker)),
  };
}

function withoutBlocks(args: Args, message: Message, isCustomized: boolean): Args {
  return { ...args, text: clipped(plain(namedText(message, isCustomized)), TEXT_LIMIT), blocks: [] };
}

function namedText({ speaker, text }: Message, isCustomized: boolean): string {
  return speaker === null || isCustomized ? text : prefixed(speaker, text);
}

function plain(text: string): string {
  return escaped(withoutBroadcasts(text));
}

/** Whether a message that was posted under an agent's name shows the app's own: Slack leaves out names that it ignored. */
function isUnnamed(message: NonNullable<Posted['message']>): boolean {
  return message.username === undefined && message.bot_profile !== undefined;
}
