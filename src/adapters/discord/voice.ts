import { Routes } from 'discord.js';
import type { RawFile } from 'discord.js';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Speaker } from '../port.ts';
import { body } from './body.ts';
import { BoundedMap } from '../../lib/bounded-map.ts';
import type { Calls } from './calls.ts';
import { CODES, rejectionOf } from './errors.ts';
import { platformChannel } from './ids.ts';
import type { Locator } from './location.ts';
import { avatarUrlOf, usernameOf } from './names.ts';
import type { Webhook, Webhooks } from './webhooks.ts';

/** A message that stands in a channel, and by what means it can be changed. */
export type Standing = { readonly id: string; readonly webhook: Webhook | null };

/** Something to be said: `write` makes its content for a webhook or for the bot itself. */
export type Saying = {
  readonly what: 'post' | 'draft';
  readonly speaker: Speaker;
  readonly write: (isWebhook: boolean) => string;
  readonly files: readonly RawFile[];
  /** Under which Discord recognises a second post by the bot itself. */
  readonly nonce: string | null;
};

/** Says things in channels: agents by webhook where there is one, else the bot with the agent's name in front. */
export type Voice = {
  /** Rejects with a `ChatError`; `unclear` only when the message may stand there. */
  say(channel: ChannelId, saying: Saying): Promise<Standing>;
  change(channel: ChannelId, standing: Standing, write: Saying['write']): Promise<void>;
  /** Takes a message away; one that is not there is away. */
  remove(channel: ChannelId, standing: Standing): Promise<void>;
  /** Whether this run of the program said it. */
  isOfThisRun(messageId: string): boolean;
  /** From now on it counts as left over from a former run. */
  disown(messageId: string): void;
  /** Resolves when whatever is being said at this moment has been said, or has failed. */
  quiet(): Promise<void>;
};

export type VoicePorts = {
  readonly calls: Calls;
  readonly locate: Locator;
  readonly webhooks: Webhooks;
};

const messageSchema = z.object({ id: z.string() });
const SAYINGS_KEPT = 2_000;

/** The voice of one bot. */
export function createVoice(ports: VoicePorts): Voice {
  return new BotVoice(ports);
}

class BotVoice implements Voice {
  readonly #ports: VoicePorts;
  readonly #said = new BoundedMap<string, true>(SAYINGS_KEPT);
  readonly #speaking = new Set<Promise<unknown>>();

  constructor(ports: VoicePorts) {
    this.#ports = ports;
  }

  say(channel: ChannelId, saying: Saying): Promise<Standing> {
    const spoken = this.#say(channel, saying);
    const over = spoken.catch(() => null).finally(() => this.#speaking.delete(over));
    this.#speaking.add(over);
    return spoken;
  }

  async change(channel: ChannelId, standing: Standing, write: Saying['write']): Promise<void> {
    const call = await messageCall(this.#ports, channel, standing);
    const made = body(write(standing.webhook !== null));
    await this.#ports.calls.tell({ ...call, method: 'patch', what: 'edit', body: made });
  }

  async remove(channel: ChannelId, standing: Standing): Promise<void> {
    const call = await messageCall(this.#ports, channel, standing);
    try {
      await this.#ports.calls.tell({ ...call, method: 'delete', what: 'delete' });
    } catch (error) {
      if (rejectionOf(error)?.status !== 404) throw error;
    }
  }

  isOfThisRun(messageId: string): boolean {
    return this.#said.has(messageId);
  }

  disown(messageId: string): void {
    this.#said.delete(messageId);
  }

  async quiet(): Promise<void> {
    await Promise.all(this.#speaking);
  }

  async #say(channel: ChannelId, saying: Saying): Promise<Standing> {
    const { webhooks } = this.#ports;
    for (let attempt = 0; saying.speaker !== null && attempt < WEBHOOK_ATTEMPTS; attempt += 1) {
      const webhook = await webhooks.of(channel);
      if (webhook === null) break;
      try {
        return this.#stands(await execute(this.#ports, { channel, webhook }, saying), webhook);
      } catch (error) {
        if (isGone(error)) await webhooks.lost(channel, webhook);
        else if (rejectionOf(error)?.status === 400) break;
        else throw error;
      }
    }
    const { what, nonce, files } = saying;
    const route = Routes.channelMessages(platformChannel(channel));
    const made = body(saying.write(false), nonce === null ? {} : { nonce, enforce_nonce: true });
    const call = { method: 'post', route, channel, what, body: made, files } as const;
    return this.#stands((await this.#ports.calls.ask(call, messageSchema)).id, null);
  }

  #stands(id: string, webhook: Webhook | null): Standing {
    this.#said.set(id, true);
    return { id, webhook };
  }
}

/** A webhook that is gone is replaced once; what replaces it may be gone as well. */
const WEBHOOK_ATTEMPTS = 2;

type Target = { readonly channel: ChannelId; readonly webhook: Webhook };

async function execute(ports: VoicePorts, { channel, webhook }: Target, saying: Saying): Promise<string> {
  const { thread } = await ports.locate(channel);
  const { what, speaker, files } = saying;
  const avatar = speaker === null ? null : avatarUrlOf(speaker);
  const shown = {
    ...(speaker === null ? {} : { username: usernameOf(speaker) }),
    ...(avatar === null ? {} : { avatar_url: avatar }),
  };
  const query = { wait: 'true', ...(thread === null ? {} : { thread_id: thread }) };
  const route = Routes.webhook(webhook.id, webhook.token);
  const made = body(saying.write(true), shown);
  const call = { method: 'post', route, channel, what, query, body: made, files } as const;
  return (await ports.calls.ask(call, messageSchema)).id;
}

async function messageCall(ports: VoicePorts, channel: ChannelId, standing: Standing) {
  const { id, webhook } = standing;
  if (webhook === null) return { route: Routes.channelMessage(platformChannel(channel), id), channel };
  const { thread } = await ports.locate(channel);
  const route = Routes.webhookMessage(webhook.id, webhook.token, id);
  return { route, channel, ...(thread === null ? {} : { query: { thread_id: thread } }) };
}

/** Whether the webhook itself is not there any more, or its token is an old one. */
function isGone(error: unknown): boolean {
  const answer = rejectionOf(error);
  if (answer === null) return false;
  return answer.status === 401 || (answer.status === 404 && answer.code !== CODES.unknownChannel);
}
