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
  const overfull = new Set<ChannelId>();
  const changes = new BoundedMap<MessageId, MessageChange>(CHANGES_KEPT);
  const push: Push = (channel, act) => {
    const { inbound, intake, log } = ports;
    if (inbound.hasRoom(channel)) return inbound.push(channel, act);
    if (!overfull.has(channel)) {
      overfull.add(channel);
      log.error({ channel }, 'too many messages wait to be stored; later ones are read from the history');
      void inbound.push(channel, async () => {
        overfull.delete(channel);
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
type Listener = (here: EventContext, payload: unknown) => Promise<unknown> | null;

function on<T>(event: string, schema: z.ZodType<T>, listen: (here: EventContext, payload: T) => unknown) {
  const listener: Listener = (here, payload) => {
    const parsed = schema.safeParse(payload);
    const taken = parsed.success ? listen(here, parsed.data) : null;
    if (parsed.success) return taken instanceof Promise ? taken : null;
    const problems = parsed.error.issues.map(({ path, code }) => `${path.join('.')}: ${code}`);
    here.log.warn({ event, problems }, 'an event from Discord has an unexpected form and was dropped');
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
  on(GatewayDispatchEvents.MessageCreate, messageSchema, takeMessage),
  on(GatewayDispatchEvents.MessageUpdate, z.unknown(), takeEdit),
  on(GatewayDispatchEvents.MessageDelete, deletedSchema, (here, { id, channel_id: channel }) =>
    takeDeletions(here, channel, [id]),
  ),
  on(GatewayDispatchEvents.MessageDeleteBulk, bulkDeletedSchema, (here, { ids, channel_id: channel }) =>
    takeDeletions(here, channel, ids),
  ),
  on(GatewayDispatchEvents.MessageReactionAdd, reactionSchema, takeReaction),
  on(GatewayDispatchEvents.InteractionCreate, z.unknown(), (here, payload) => void here.interactions.take(payload)),
  on(GatewayDispatchEvents.GuildCreate, guildSchema, openGuild),
  on(GatewayDispatchEvents.GuildDelete, guildSchema, closeGuild),
  on(GatewayDispatchEvents.GuildRoleUpdate, inGuildSchema, recheckGuild),
  on(GatewayDispatchEvents.GuildMemberUpdate, inGuildSchema, recheckGuild),
  on(GatewayDispatchEvents.ChannelCreate, channelSchema, takeChannel),
  on(GatewayDispatchEvents.ChannelUpdate, channelSchema, takeChannel),
  on(GatewayDispatchEvents.ChannelDelete, channelSchema, closeChannel),
  on(GatewayDispatchEvents.ThreadCreate, channelSchema, takeChannel),
  on(GatewayDispatchEvents.ThreadUpdate, channelSchema, takeChannel),
  on(GatewayDispatchEvents.ThreadDelete, channelSchema, closeChannel),
  on(GatewayDispatchEvents.ThreadListSync, guildSchema.pick({ threads: true }), (here, { threads }) =>
    learnAll(here, threads),
  ),
]);

function takeReaction(
  here: EventContext,
  { channel_id: channel, ...reaction }: z.infer<typeof reactionSchema>,
): Promise<unknown> | null {
  const { places, interactions } = here;
  const { id, name } = reaction.emoji;
  const kind = id == null ? reactionKind(name ?? '') : null;
  const author = reaction.member?.user;
  if (kind === null || author == null || author.bot === true || places.at(channel) === null) return null;
  return here.push(channelId(channel), async () => {
    const where = await places.resolve(channel);
    if (where === null) return;
    await interactions.reacted({ ...reaction, author, kind, channel: where.channel });
  });
}

function takeMessage(here: EventContext, message: MessagePayload): Promise<unknown> | null {
  const { places, context, intake, interactions, sender, changes } = here;
  const at = places.at(message.channel_id);
  if (isOwn(message, context)) return null;
  if (at === null) {
    if (isSpeech(message) && message.mentions.some(({ id }) => id === context.self.userId))
      here.interactions.unplaced(message);
    return null;
  }
  if (!isSpeech(message)) {
    if (at !== undefined) sender.countBelow(at.channel);
    return null;
  }
  void interactions.typed(message);
  return here.push(channelId(message.channel_id), async () => {
    const where = await places.resolve(message.channel_id);
    if (where === null) return;
    const overtaking = changes.get(message.id);
    if (overtaking?.change === 'deleted') return;
    sender.countBelow(where.channel);
    await intake.message(humanMessage(message, where, context));
    if (overtaking !== undefined) await intake.amend(overtaking);
  });
}

/** Discord also sends an update when it adds embeds. Only an update with a time of editing is an edit. */
function takeEdit(here: EventContext, payload: unknown): Promise<unknown> | null {
  const { places, context } = here;
  const parsed = editSchema.safeParse(payload);
  if (!parsed.success || isOwn(parsed.data, context)) return null;
  const message = parsed.data;
  if (places.at(message.channel_id) === null) return null;
  return here.push(channelId(message.channel_id), async () => {
    const where = await places.resolve(message.channel_id);
    const change = where === null ? null : editOf(message, where.channel, context);
    if (change !== null) await amend(here, change);
  });
}

async function amend({ intake, changes }: EventContext, change: MessageChange): Promise<void> {
  changes.set(change.id, change);
  await intake.amend(change);
}

function takeDeletions(here: EventContext, channel: string, ids: readonly string[]): Promise<unknown> | null {
  const { places } = here;
  if (places.at(channel) === null) return null;
  return here.push(channelId(channel), async () => {
    const where = await places.resolve(channel);
    if (where === null) return;
    for (const id of ids) await amend(here, { change: 'deleted', id, channel: where.channel });
  });
}

/** Called when a server becomes available: after connecting, after the bot joined it, after an outage. */
function openGuild(here: EventContext, guild: z.infer<typeof guildSchema>): void {
  if (guild.unavailable === true) return;
  learnAll(here, [...guild.channels, ...guild.threads], guild.id);
  here.membership.changed({ guild: guild.id });
}

function closeGuild(here: EventContext, { id, unavailable }: z.infer<typeof guildSchema>): void {
  const { log, places, membership } = here;
  if (unavailable === true) return log.warn({ guild: id }, 'a server of Discord has an outage');
  const isThere = (channel: ChannelId, parent: ChannelId | null): boolean =>
    places.guildOf(platformChannel(parent ?? channel)) === id;
  membership.closeAll(isThere, 'the bot was removed from the server');
}

function recheckGuild(here: EventContext, { guild_id: guild }: z.infer<typeof inGuildSchema>): void {
  here.membership.changed({ guild });
}

function takeChannel(here: EventContext, channel: ChannelPayload): void {
  here.places.learn(channel);
  const { archived = false, locked = false } = channel.thread_metadata ?? {};
  const own = channelId(channel.id);
  if (archived && locked) here.membership.closeAll((id) => id === own, 'the thread was closed');
  else here.membership.changed({ channel: channel.id });
}

function closeChannel(here: EventContext, channel: ChannelPayload): void {
  const own = channelId(channel.id);
  const what = isThread(channel) ? 'the thread was deleted' : 'the channel was deleted';
  here.membership.closeAll((id, parent) => id === own || parent === own, what);
  here.places.forget(channel.id);
}

function learnAll(here: EventContext, channels: readonly unknown[], guild?: string): void {
  for (const each of channels) {
    const parsed = channelSchema.safeParse(each);
    if (parsed.success) here.places.learn(guild === undefined ? parsed.data : { ...parsed.data, guild_id: guild });
  }
}
