import { Routes } from 'discord.js';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Clock, Instant } from '../../lib/time.ts';
import { BoundedMap } from '../../lib/keyed.ts';
import { ChatError } from '../port.ts';
import type { FloorQueries, Memory } from '../port.ts';
import { platformChannel } from './client.ts';
import type { Calls, Self } from './client.ts';
import { wordsOf } from './errors.ts';
import type { Location, Places } from './places.ts';

/** A webhook of Conch's own. The token is as good as a password for the channel. */
export type Webhook = { readonly id: string; readonly token: string };

type WebhooksPorts = {
  readonly calls: Calls;
  readonly locate: Places['locate'];
  readonly queries: FloorQueries;
  readonly self: Self;
  readonly clock: Clock;
  readonly memory: Memory;
  readonly log: Logger;
  /** Whether there may be any. */
  readonly enabled: boolean;
};

/** What Conch's webhooks are called in the channel's settings. */
const NAME = 'Floor';
const WITHOUT_MS = 600_000;
const IDS_KEPT = 2_000;
const IDS_REMEMBERED = 20;

const webhookSchema = z.object({
  id: z.string(),
  application_id: z.string().nullish(),
  token: z.string().nullish(),
});
const listSchema = z.array(z.unknown());

type State = {
  looking: Promise<Webhook | null> | null;
  /** Until when the bot speaks itself. */
  withoutUntil: Instant;
  warned: boolean;
  lost: Webhook | null;
  lostAt: Instant;
};

/**
 * The webhooks through which agents speak: one for each channel, made when it is missing. The webhooks of one bot. Their
 * tokens are neither stored nor logged; their ids are remembered to know old echoes.
 */
export class Webhooks {
  readonly #ports: WebhooksPorts;
  readonly #states = new Map<string, State>();
  readonly #own = new BoundedMap<string, true>(IDS_KEPT);

  constructor(ports: WebhooksPorts) {
    this.#ports = ports;
    for (const { id, parent } of ports.queries.channels()) {
      for (const webhook of remembered(ports.memory, platformChannel(parent ?? id))) this.#own.set(webhook, true);
    }
  }

  /**
   * The webhook of a channel and its threads; `null` when the bot itself must speak there. Rejects with a `ChatError` when
   * Discord could not be asked; nothing was said then.
   */
  async of(channel: ChannelId): Promise<Webhook | null> {
    if (!this.#ports.enabled) return null;
    const location = await locating(this.#ports.locate(channel), channel);
    const state = this.#stateOf(location);
    if (this.#ports.clock.now() < state.withoutUntil) return null;
    state.looking ??= this.#look(channel, location, state);
    return state.looking;
  }

  /** Discord does not know this webhook any more: another one is made once, then the bot speaks itself for a while. */
  async lost(channel: ChannelId, webhook: Webhook): Promise<void> {
    const { clock, log } = this.#ports;
    const state = this.#stateOf(await locating(this.#ports.locate(channel), channel));
    const current = await state.looking?.catch(() => null);
    if (current?.id !== webhook.id || current.token !== webhook.token) return;
    const isAgain = clock.now() - state.lostAt < WITHOUT_MS;
    Object.assign(state, { looking: null, lost: webhook, lostAt: clock.now() });
    if (isAgain) this.#without(state, channel, 'its webhook was lost twice');
    else log.warn({ channel, webhook: webhook.id }, 'a webhook is gone, another one is made');
  }

  /** What was refused may be asked again. */
  reopen(channel: ChannelId): void {
    const state = this.#states.get(platformChannel(channel));
    if (state !== undefined) state.withoutUntil = 0;
  }

  isOwn(webhookId: string): boolean {
    return this.#own.has(webhookId) || webhookId === this.#ports.self.applicationId;
  }

  #stateOf({ channel }: Location): State {
    const known = this.#states.get(channel);
    if (known !== undefined) return known;
    const state: State = { looking: null, withoutUntil: 0, warned: false, lost: null, lostAt: -Infinity };
    this.#states.set(channel, state);
    return state;
  }

  async #look(channel: ChannelId, location: Location, state: State): Promise<Webhook | null> {
    try {
      const listed = await list(this.#ports, channel, location);
      const usable = listed.find(({ id, token }) => id !== state.lost?.id || token !== state.lost.token);
      return await this.#found(location, usable ?? (await create(this.#ports, channel, location)));
    } catch (error) {
      state.looking = null;
      if (!(error instanceof ChatError) || error.fault !== 'refused') throw notSaid(error, channel);
      this.#without(state, channel, wordsOf(error));
      return null;
    }
  }

  async #found(location: Location, webhook: Webhook): Promise<Webhook> {
    const { memory } = this.#ports;
    this.#own.set(webhook.id, true);
    const known = remembered(memory, location.channel);
    if (known.includes(webhook.id)) return webhook;
    await memory.set(keyOf(location.channel), [...known, webhook.id].slice(-IDS_REMEMBERED).join(' '));
    return webhook;
  }

  #without(state: State, channel: ChannelId, why: string): void {
    state.withoutUntil = this.#ports.clock.now() + WITHOUT_MS;
    if (!state.warned) this.#ports.log.warn({ channel, why }, 'agents speak as the bot itself');
    state.warned = true;
  }
}

async function list(ports: WebhooksPorts, channel: ChannelId, location: Location): Promise<readonly Webhook[]> {
  const route = Routes.channelWebhooks(location.channel);
  const listed = await ports.calls.ask({ method: 'get', route, channel, what: 'list webhooks' }, listSchema);
  return listed.flatMap((each) => {
    const parsed = webhookSchema.safeParse(each);
    if (!parsed.success || parsed.data.application_id !== ports.self.applicationId) return [];
    const { id, token } = parsed.data;
    return typeof token === 'string' && token !== '' ? [{ id, token }] : [];
  });
}

async function create(ports: WebhooksPorts, channel: ChannelId, location: Location): Promise<Webhook> {
  const route = Routes.channelWebhooks(location.channel);
  const made = await ports.calls.ask(
    { method: 'post', route, channel, what: 'make a webhook', body: { name: NAME } },
    webhookSchema,
  );
  if (typeof made.token === 'string') return { id: made.id, token: made.token };
  throw new ChatError('The new webhook has no token', { method: 'make a webhook', channel, fault: 'refused' });
}

async function locating(location: Promise<Location>, channel: ChannelId): Promise<Location> {
  try {
    return await location;
  } catch (error) {
    throw notSaid(error, channel);
  }
}

/** Whatever failed on the way to a webhook, nothing was said yet. */
function notSaid(error: unknown, channel: ChannelId): ChatError {
  if (error instanceof ChatError && error.fault !== 'unclear') return error;
  const where = { method: 'find a webhook', channel, fault: 'unreachable' } as const;
  return new ChatError(`No webhook could be found (${wordsOf(error)})`, { ...where, cause: error });
}

function keyOf(snowflake: string): string {
  return `webhooks:${snowflake}`;
}

function remembered(memory: Memory, snowflake: string): readonly string[] {
  return (memory.get(keyOf(snowflake)) ?? '').split(' ').filter((id) => id !== '');
}
