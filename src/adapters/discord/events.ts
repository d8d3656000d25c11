import { GatewayDispatchEvents } from 'discord.js';
import { z } from 'zod';
import type { ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { MessageChange } from '../../engine/port.ts';
import { BoundedMap } from '../../lib/keyed.ts';
import { reactionKind } from '../port.ts';
import type { AdapterParts } from '../port.ts';
import type { InboundQueue } from '../delivery/inbound.ts';
import type { MessageSender } from '../delivery/message-client.ts';
import type { Interactions } from './interactions.ts';
import type { ChannelMembership } from './channel-membership.ts';
import { channelId, platformChannel } from './client.ts';
import {
  bulkDeletedSchema,
  deletedSchema,
  editOf,
  editSchema,
  humanMessage,
  isOwn,
  isSpeech,
  memberSchema,
  messageSchema,
  userSchema,
} from './parse-message.ts';
import type { MessageContext, MessagePayload } from './parse-message.ts';
import { channelSchema, isThread, snowflakeSchema } from './places.ts';
import type { ChannelPayload, Places } from './places.ts';

/** Dependencies of the event handling. */
export type EventsPorts = Pick<AdapterParts, 'intake' | 'log'> & {
  readonly places: Places;
  readonly inbound: InboundQueue;
  readonly context: MessageContext;
  readonly interactions: Interactions;
  readonly sender: Pick<MessageSender, 'countBelow'>;
  readonly membership: Pick<ChannelMembership, 'closeAll' | 'changed'>;
};

/**
 * Returns the handler of gateway events. For messages, edits, deletions and reactions that concern Conch, the handler
 * returns a promise that resolves when the event is carried out or the queue stops. The promise never resolves when
 * the channel's queue is full: the history is read then. For other events, the handler returns `null`. Events that do
 * not match their schema are dropped.
 */
export function createEvents(ports: EventsPorts): (event: string, payload: unknown) => Promise<unknown> | null {
  const fullChannels = new Set<ChannelId>();
  const changes = new BoundedMap<MessageId, MessageChange>(CHANGES_KEPT);
  const push: Push = (channel, act) => {
    const { inbound, intake, log } = ports;
    if (inbound.hasRoom(channel)) return inbound.push(channel, act);
    if (!fullChannels.has(channel)) {
      fullChannels.add(channel);
      log.error({ channel }, 'too many messages wait to be stored; later ones are read from the history');
      void inbound.push(channel, async () => {
        fullChannels.delete(channel);
        intake.reconnected({ missed: 'perhaps' });
      });
    }
    return new Promise(() => undefined);
  };
  return (event, payload) => EVENTS.get(event)?.({ ...ports, push, changes }, payload) ?? null;
}

const CHANGES_KEPT = 1_000;

type Push = (channel: ChannelId, act: () => Promise<void>) => Promise<unknown>;
type EventContext = EventsPorts & {
  readonly push: Push;
  /** The last received change of the last 1,000 changed messages. An edit or deletion may arrive before its message. */
  readonly changes: BoundedMap<MessageId, MessageChange>;
};
type Listener = (ports: EventContext, payload: unknown) => Promise<unknown> | null;

function listenerFor<T>(event: string, schema: z.ZodType<T>, listen: (ports: EventContext, payload: T) => unknown) {
  const listener: Listener = (ports, payload) => {
    const parsed = schema.safeParse(payload);
    const handling = parsed.success ? listen(ports, parsed.data) : null;
    if (parsed.success) return handling instanceof Promise ? handling : null;
    const problems = parsed.error.issues.map(({ path, code }) => `${path.join('.')}: ${code}`);
    ports.log.warn({ event, problems }, 'an event from Discord has an unexpected form and was dropped');
    return null;
  };
  return [event, listener] as const;
}

const guildSchema = z.object({
  id: snowflakeSchema,
  unavailable: z.boolean().nullish().catch(null),
  channels: z.array(z.unknown()).catch([]),
  threads: z.array(z.unknown()).catch([]),
});
const reactionSchema = z.object({
  channel_id: snowflakeSchema,
  message_id: snowflakeSchema,
  /** `id`: of a server's own emoji, whose name people choose. */
  emoji: z.object({ id: z.string().nullish(), name: z.string().nullish() }),
  member: memberSchema.extend({ user: userSchema }).nullish().catch(null),
});
const inGuildSchema = z.object({ guild_id: snowflakeSchema });

const EVENTS: ReadonlyMap<string, Listener> = new Map([
  listenerFor(GatewayDispatchEvents.MessageCreate, messageSchema, takeMessage),
  listenerFor(GatewayDispatchEvents.MessageUpdate, z.unknown(), takeEdit),
  listenerFor(GatewayDispatchEvents.MessageDelete, deletedSchema, (ports, { id, channel_id: channel }) =>
    takeDeletions(ports, channel, [id]),
  ),
  listenerFor(GatewayDispatchEvents.MessageDeleteBulk, bulkDeletedSchema, (ports, { ids, channel_id: channel }) =>
    takeDeletions(ports, channel, ids),
  ),
  listenerFor(GatewayDispatchEvents.MessageReactionAdd, reactionSchema, takeReaction),
  listenerFor(
    GatewayDispatchEvents.InteractionCreate,
    z.unknown(),
    (ports, payload) => void ports.interactions.take(payload),
  ),
  listenerFor(GatewayDispatchEvents.GuildCreate, guildSchema, openGuild),
  listenerFor(GatewayDispatchEvents.GuildDelete, guildSchema, closeGuild),
  listenerFor(GatewayDispatchEvents.GuildRoleUpdate, inGuildSchema, recheckGuild),
  listenerFor(GatewayDispatchEvents.GuildMemberUpdate, inGuildSchema, recheckGuild),
  listenerFor(GatewayDispatchEvents.ChannelCreate, channelSchema, takeChannel),
  listenerFor(GatewayDispatchEvents.ChannelUpdate, channelSchema, takeChannel),
  listenerFor(GatewayDispatchEvents.ChannelDelete, channelSchema, closeChannel),
  listenerFor(GatewayDispatchEvents.ThreadCreate, channelSchema, takeChannel),
  listenerFor(GatewayDispatchEvents.ThreadUpdate, channelSchema, takeChannel),
  listenerFor(GatewayDispatchEvents.ThreadDelete, channelSchema, closeChannel),
  listenerFor(GatewayDispatchEvents.ThreadListSync, guildSchema.pick({ threads: true }), (ports, { threads }) =>
    learnAll(ports, threads),
  ),
]);

function takeReaction(
  ports: EventContext,
  { channel_id: channel, ...reaction }: z.infer<typeof reactionSchema>,
): Promise<unknown> | null {
  const { places, interactions } = ports;
  const { id, name } = reaction.emoji;
  const kind = id == null ? reactionKind(name ?? '') : null;
  const author = reaction.member?.user;
  if (kind === null || author == null || author.bot === true || places.cachedLocation(channel) === null) return null;
  return ports.push(channelId(channel), async () => {
    const location = await places.resolve(channel);
    if (location === null) return;
    await interactions.runReaction({ ...reaction, author, kind, channel: location.channel });
  });
}

function takeMessage(ports: EventContext, message: MessagePayload): Promise<unknown> | null {
  const { places, context, intake, interactions, sender, changes } = ports;
  const cached = places.cachedLocation(message.channel_id);
  if (isOwn(message, context)) return null;
  if (cached === null) {
    if (isSpeech(message) && message.mentions.some(({ id }) => id === context.self.userId))
      ports.interactions.explainNoFloor(message);
    return null;
  }
  if (!isSpeech(message)) {
    if (cached !== undefined) sender.countBelow(cached.channel);
    return null;
  }
  void interactions.runTyped(message);
  return ports.push(channelId(message.channel_id), async () => {
    const location = await places.resolve(message.channel_id);
    if (location === null) return;
    const earlierChange = changes.get(message.id);
    if (earlierChange?.change === 'deleted') return;
    sender.countBelow(location.channel);
    await intake.message(humanMessage(message, location, context));
    if (earlierChange !== undefined) await intake.amend(earlierChange);
  });
}

/** Discord also sends an update when it adds embeds. Only an update with a time of editing is an edit. */
function takeEdit(ports: EventContext, payload: unknown): Promise<unknown> | null {
  const { places, context } = ports;
  const parsed = editSchema.safeParse(payload);
  if (!parsed.success || isOwn(parsed.data, context)) return null;
  const message = parsed.data;
  if (places.cachedLocation(message.channel_id) === null) return null;
  return ports.push(channelId(message.channel_id), async () => {
    const location = await places.resolve(message.channel_id);
    const change = location === null ? null : editOf(message, location.channel, context);
    if (change !== null) await amend(ports, change);
  });
}

async function amend({ intake, changes }: EventContext, change: MessageChange): Promise<void> {
  changes.set(change.id, change);
  await intake.amend(change);
}

function takeDeletions(ports: EventContext, channel: string, ids: readonly string[]): Promise<unknown> | null {
  const { places } = ports;
  if (places.cachedLocation(channel) === null) return null;
  return ports.push(channelId(channel), async () => {
    const location = await places.resolve(channel);
    if (location === null) return;
    for (const id of ids) await amend(ports, { change: 'deleted', id, channel: location.channel });
  });
}

/** Called when a server becomes available: after connecting, after the bot joined it, after an outage. */
function openGuild(ports: EventContext, guild: z.infer<typeof guildSchema>): void {
  if (guild.unavailable === true) return;
  learnAll(ports, [...guild.channels, ...guild.threads], guild.id);
  ports.membership.changed({ guild: guild.id });
}

function closeGuild(ports: EventContext, { id, unavailable }: z.infer<typeof guildSchema>): void {
  const { log, places, membership } = ports;
  if (unavailable === true) return log.warn({ guild: id }, 'a server of Discord has an outage');
  const isThere = (channel: ChannelId, parent: ChannelId | null): boolean =>
    places.guildOf(platformChannel(parent ?? channel)) === id;
  membership.closeAll(isThere, 'the bot was removed from the server');
}

function recheckGuild(ports: EventContext, { guild_id: guild }: z.infer<typeof inGuildSchema>): void {
  ports.membership.changed({ guild });
}

function takeChannel(ports: EventContext, channel: ChannelPayload): void {
  ports.places.learn(channel);
  const { archived = false, locked = false } = channel.thread_metadata ?? {};
  const ownId = channelId(channel.id);
  if (archived && locked) ports.membership.closeAll((id) => id === ownId, 'the thread was closed');
  else ports.membership.changed({ channel: channel.id });
}

function closeChannel(ports: EventContext, channel: ChannelPayload): void {
  const ownId = channelId(channel.id);
  const why = isThread(channel) ? 'the thread was deleted' : 'the channel was deleted';
  ports.membership.closeAll((id, parent) => id === ownId || parent === ownId, why);
  ports.places.forget(channel.id);
}

function learnAll(ports: EventContext, channels: readonly unknown[], guild?: string): void {
  for (const each of channels) {
    const parsed = channelSchema.safeParse(each);
    if (parsed.success) ports.places.learn(guild === undefined ? parsed.data : { ...parsed.data, guild_id: guild });
  }
}
