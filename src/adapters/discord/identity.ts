import { createHash } from 'node:crypto';
import { Routes } from 'discord.js';
import { z } from 'zod';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import { BoundedMap } from '../../lib/keyed.ts';
import { ChatError } from '../port.ts';
import type { AdapterParts, FloorQueries, Memory, Speaker } from '../port.ts';
import { wordsOf, platformChannel } from './client.ts';
import type { Calls, Self } from './client.ts';
import type { Location, Places } from './places.ts';

/** Maps Discord ids to agents. Shown names count only in messages that are known to be Conch's own. */
export type Identities = {
  /** Returns whether this webhook or application is Conch's own. */
  isOwnWebhook(webhookId: string): boolean;
  /** Returns the agent with this mentionable role; `null` for other roles. */
  agentOfRole(roleId: string): AgentId | null;
  /**
   * Returns the agent that one of Conch's own messages shows as author: by the shown name (webhook), or by the
   * "**name**:" prefix (bot). `null` when the name fits no agent or several.
   */
  agentOfPost(post: {
    readonly shownName: string;
    readonly content: string;
    readonly byWebhook: boolean;
  }): AgentId | null;
};

type IdentityPorts = Pick<AdapterParts, 'memory' | 'log'> & {
  readonly calls: Calls;
  readonly self: Self;
  readonly queries: Pick<FloorQueries, 'agents'>;
  readonly webhooks: Pick<Webhooks, 'isOwn'>;
};

type OwnIdentities = Identities & {
  /**
   * Creates the roles that a guild lacks, and deletes those of former agents. Never rejects: after an error, some
   * agents may have no role to mention.
   */
  ensureRoles(guild: string, channel: ChannelId): Promise<void>;
};

const roleSchema = z.object({ id: z.string() });
const listedRoleSchema = z.object({
  id: z.string(),
  name: z.string(),
  color: z.number(),
  permissions: z.string(),
  mentionable: z.boolean(),
  hoist: z.boolean(),
});
type ListedRole = z.infer<typeof listedRoleSchema>;
const rolesSchema = z.array(z.unknown());

/**
 * Creates the map from Discord ids to agents. It finds roles by their stored ids. Roles from a lost data folder are
 * found by name, colour and settings.
 */
export function createIdentities(ports: IdentityPorts): OwnIdentities {
  const { queries, webhooks, log } = ports;
  const agents = new Map<string, AgentId>();
  return {
    isOwnWebhook: (webhookId) => webhooks.isOwn(webhookId),
    agentOfRole: (roleId) => agents.get(roleId) ?? null,
    agentOfPost({ shownName, content, byWebhook }) {
      const fitting = queries
        .agents()
        .filter((agent) => (byWebhook ? sameName(usernameOf(agent), shownName) : content.startsWith(prefixOf(agent))));
      const [only] = fitting;
      return only !== undefined && fitting.length === 1 ? only.id : null;
    },
    async ensureRoles(guild, channel) {
      try {
        const route = Routes.guildRoles(guild);
        const listed = await ports.calls.ask({ method: 'get', route, channel, what: 'list roles' }, rolesSchema);
        const roles = listed.flatMap((role) => listedRoleSchema.safeParse(role).data ?? []);
        const scope = { guild, channel, mark: markOf(ports.self) };
        for (const agent of queries.agents()) agents.set(await roleOf(ports, scope, { agent, roles }), agent.id);
        for (const { id, ...listedRole } of roles) {
          if (agents.has(id) || !isMarked(listedRole, scope.mark)) continue;
          const role = { route: Routes.guildRole(guild, id), channel, what: 'delete a role' };
          await ports.calls.tell({ method: 'delete', ...role });
        }
      } catch (error) {
        log.warn({ channel, why: wordsOf(error) }, 'agents cannot be mentioned by role');
      }
    },
  };
}

type NamedSpeaker = NonNullable<Speaker>;

/** Discord's limit for a webhook's name, in UTF-16 units. */
const NAME_LIMIT = 80;
const EMOJI_LENGTH = 16;

/**
 * Returns the name above an agent's messages, in at most 80 UTF-16 units. An emoji avatar stands in front. The words
 * that Discord forbids in names are broken by a hair space.
 */
export function usernameOf(speaker: NamedSpeaker): string {
  const name = speaker.name.replaceAll(/\s+/g, ' ').trim();
  const emoji = isEmoji(speaker.avatar) ? `${speaker.avatar} ` : '';
  const whole = `${emoji}${name === '' ? speaker.id : name}`.toWellFormed();
  const allowed = whole.replaceAll(/disc(?=ord)|cly(?=de)/gi, (word) => `${word}\u200A`);
  return allowed
    .slice(0, NAME_LIMIT)
    .replace(/[\uD800-\uDBFF]$/, '')
    .trim();
}

/** Returns the URL of an agent's avatar; `null` when it is not an https URL. */
export function avatarUrlOf(speaker: NamedSpeaker): string | null {
  return speaker.avatar?.startsWith('https://') === true ? speaker.avatar : null;
}

/** Returns the agent's name for the start of a message that the bot itself posts: "**dev**:". */
export function prefixOf(speaker: NamedSpeaker): string {
  const name = usernameOf(speaker)
    .replaceAll(/[*_~|`\\>]/g, '')
    .trim();
  return `**${name === '' ? speaker.id : name}**:`;
}

/**
 * Returns whether two shown names are equal in the Unicode form NFKC, apart from white space and invisible characters.
 * Discord changes such characters.
 */
export function sameName(one: string, other: string): boolean {
  return plain(one) === plain(other);
}

function isEmoji(avatar: string | null): avatar is string {
  return avatar !== null && avatar.length <= EMOJI_LENGTH && /\p{Extended_Pictographic}|\p{RI}/u.test(avatar);
}

function plain(name: string): string {
  return name.normalize('NFKC').replaceAll(/[\s\p{Cf}]+/gu, '');
}

type Agent = ReturnType<FloorQueries['agents']>[number];

type RoleScope = { readonly guild: string; readonly channel: ChannelId; readonly mark: number };

async function roleOf(
  ports: IdentityPorts,
  scope: RoleScope,
  { agent, roles }: { readonly agent: Agent; readonly roles: readonly ListedRole[] },
): Promise<string> {
  const { calls, memory } = ports;
  const { guild, channel, mark: color } = scope;
  const name = usernameOf({ ...agent, avatar: null });
  const storedRole = roles.find(({ id }) => id === memory.get(roleKey(guild, agent.id)));
  if (storedRole !== undefined) {
    const route = Routes.guildRole(guild, storedRole.id);
    if (storedRole.color !== color)
      await calls.tell({ method: 'patch', route, channel, what: 'mark a role', body: { color } });
    return storedRole.id;
  }
  const body = { name, permissions: '0', mentionable: true, hoist: false, color };
  const call = { method: 'post', route: Routes.guildRoles(guild), channel, what: 'make a role', body } as const;
  const sameRole = roles.find((role) => role.name === name && isMarked(role, color));
  const { id } = sameRole ?? (await calls.ask(call, roleSchema));
  await memory.set(roleKey(guild, agent.id), id);
  return id;
}

function isMarked({ color, permissions, mentionable, hoist }: Omit<ListedRole, 'id'>, mark: number): boolean {
  return color === mark && permissions === '0' && mentionable && !hoist;
}

/** Returns the colour by which a bot recognizes its own roles. */
function markOf({ applicationId }: Self): number {
  return createHash('sha256').update(applicationId).digest().readUIntBE(0, 3) || 1;
}

function roleKey(guild: string, agent: AgentId): string {
  return `role:${guild}:${agent}`;
}

/** A webhook that Conch created. Whoever knows the token can post in the channel. */
export type Webhook = { readonly id: string; readonly token: string };

type WebhooksPorts = Pick<AdapterParts, 'queries' | 'clock' | 'memory' | 'log'> & {
  readonly calls: Calls;
  readonly locate: Places['locate'];
  readonly self: Self;
  readonly enabled: boolean;
};

const NAME = 'Floor';
const WITHOUT_MS = 600_000;
const IDS_KEPT = 2_000;
const IDS_REMEMBERED = 20;

const webhookSchema = z.object({ id: z.string(), application_id: z.string().nullish(), token: z.string().nullish() });
const listSchema = z.array(z.unknown());

type State = {
  readonly users: Set<ChannelId>;
  lookup: Promise<Webhook | null> | null;
  withoutUntil: Instant;
  hasWarned: boolean;
  lostWebhook: Webhook | null;
  lostAt: Instant;
};

/**
 * The webhooks of one bot, through which agents post: one for each channel, created when it is missing. Tokens are
 * neither stored nor logged. Ids are stored, to recognize messages of earlier webhooks as Conch's own.
 */
export class Webhooks {
  readonly #ports: WebhooksPorts;
  readonly #states = new Map<string, State>();
  readonly #ownWebhookIds = new BoundedMap<string, true>(IDS_KEPT);

  constructor(ports: WebhooksPorts) {
    this.#ports = ports;
    for (const { id, parent } of ports.queries.channels()) {
      for (const webhook of storedWebhooks(ports.memory, platformChannel(parent ?? id)))
        this.#ownWebhookIds.set(webhook, true);
    }
  }

  /**
   * Returns the webhook of a channel and its threads; `null` when the bot itself must post. Rejects with a `ChatError`
   * when the search for a webhook failed without a refusal; nothing was posted then.
   */
  async get(channel: ChannelId): Promise<Webhook | null> {
    if (!this.#ports.enabled) return null;
    const location = await this.#locate(channel);
    const state = this.#stateOf(location);
    state.users.add(channel);
    if (this.#ports.clock.now() < state.withoutUntil) return null;
    state.lookup ??= this.#lookUp(channel, location, state);
    return state.lookup;
  }

  /**
   * Forgets a webhook that was deleted, or moved to another channel. The next `get` finds or creates another one. After a second loss within 10 minutes, the bot itself posts for up to 10 minutes.
   */
  async markLost(channel: ChannelId, webhook: Webhook): Promise<void> {
    const { clock, log } = this.#ports;
    const state = this.#stateOf(await this.#locate(channel));
    const current = await state.lookup?.catch(() => null);
    if (current?.id !== webhook.id || current.token !== webhook.token) return;
    const isAgain = clock.now() - state.lostAt < WITHOUT_MS;
    Object.assign(state, { lookup: null, lostWebhook: webhook, lostAt: clock.now() });
    if (isAgain) this.#pause(state, channel, 'its webhook was lost twice');
    else log.warn({ channel, webhook: webhook.id }, 'a webhook was deleted or its token changed; another one is used');
  }

  /** Called when permissions may have changed. Where the bot itself posts, `get` looks for a webhook again. */
  reopen(channel: ChannelId): void {
    const ownId = platformChannel(channel);
    for (const [id, state] of this.#states) if (id === ownId || state.users.has(channel)) state.withoutUntil = 0;
  }

  isOwn(webhookId: string): boolean {
    return this.#ownWebhookIds.has(webhookId) || webhookId === this.#ports.self.applicationId;
  }

  #locate(channel: ChannelId): Promise<Location> {
    return this.#ports.locate(channel).catch((error: unknown) => Promise.reject(noWebhookError(error, channel)));
  }

  #stateOf({ channel }: Location): State {
    const known = this.#states.get(channel);
    if (known !== undefined) return known;
    const state: State = {
      users: new Set(),
      lookup: null,
      withoutUntil: 0,
      hasWarned: false,
      lostWebhook: null,
      lostAt: -Infinity,
    };
    this.#states.set(channel, state);
    return state;
  }

  async #lookUp(channel: ChannelId, location: Location, state: State): Promise<Webhook | null> {
    try {
      const listed = await listWebhooks(this.#ports, channel, location);
      const usable = listed.find(({ id, token }) => id !== state.lostWebhook?.id || token !== state.lostWebhook.token);
      return await this.#remember(location, usable ?? (await createWebhook(this.#ports, channel, location)));
    } catch (error) {
      state.lookup = null;
      if (!(error instanceof ChatError) || error.fault !== 'refused') throw noWebhookError(error, channel);
      this.#pause(state, channel, wordsOf(error));
      return null;
    }
  }

  async #remember(location: Location, webhook: Webhook): Promise<Webhook> {
    const { memory } = this.#ports;
    this.#ownWebhookIds.set(webhook.id, true);
    const known = storedWebhooks(memory, location.channel);
    if (known.includes(webhook.id)) return webhook;
    await memory.set(webhooksKey(location.channel), [...known, webhook.id].slice(-IDS_REMEMBERED).join(' '));
    return webhook;
  }

  #pause(state: State, channel: ChannelId, why: string): void {
    state.withoutUntil = this.#ports.clock.now() + WITHOUT_MS;
    if (!state.hasWarned) this.#ports.log.warn({ channel, why }, 'agents post as the bot, with their names in front');
    state.hasWarned = true;
  }
}

async function listWebhooks(ports: WebhooksPorts, channel: ChannelId, location: Location): Promise<readonly Webhook[]> {
  const route = Routes.channelWebhooks(location.channel);
  const listed = await ports.calls.ask({ method: 'get', route, channel, what: 'list webhooks' }, listSchema);
  return listed.flatMap((each) => {
    const parsed = webhookSchema.safeParse(each);
    if (!parsed.success || parsed.data.application_id !== ports.self.applicationId) return [];
    const { id, token } = parsed.data;
    return typeof token === 'string' && token !== '' ? [{ id, token }] : [];
  });
}

async function createWebhook(ports: WebhooksPorts, channel: ChannelId, location: Location): Promise<Webhook> {
  const route = Routes.channelWebhooks(location.channel);
  const call = { method: 'post', route, channel, what: 'make a webhook', body: { name: NAME } } as const;
  const created = await ports.calls.ask(call, webhookSchema);
  if (typeof created.token === 'string') return { id: created.id, token: created.token };
  throw new ChatError('The new webhook has no token', { method: 'make a webhook', channel, fault: 'refused' });
}

/**
 * Converts an error of the search for a webhook to one whose fault is never `unclear`, because nothing was posted yet.
 */
function noWebhookError(error: unknown, channel: ChannelId): ChatError {
  if (error instanceof ChatError && error.fault !== 'unclear') return error;
  const where = { method: 'find a webhook', channel, fault: 'unreachable' } as const;
  return new ChatError(`No webhook could be found (${wordsOf(error)})`, { ...where, cause: error });
}

function webhooksKey(snowflake: string): string {
  return `webhooks:${snowflake}`;
}

function storedWebhooks(memory: Memory, snowflake: string): readonly string[] {
  return (memory.get(webhooksKey(snowflake)) ?? '').split(' ').filter((id) => id !== '');
}
