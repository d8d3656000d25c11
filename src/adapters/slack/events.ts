import { z } from 'zod';
import type { MessageSender } from '../delivery/message-client.ts';
import { defined } from '../../lib/defined.ts';
import { withinMs } from '../../lib/retry.ts';
import { reactionKind } from '../port.ts';
import type { AdapterParts, ReactionKind } from '../port.ts';
import { createInboundQueue } from '../delivery/inbound.ts';
import type { FirstTime, Deduplicator, MessageLocation } from '../delivery/inbound.ts';
import {
  floorAt,
  threadAt,
  toChange,
  toHumanMessage,
  floorLocation,
  SUBTYPES,
  idSchema,
  isOwn,
  messageSchema,
  toReceived,
  sentAt,
  locationOf,
  tsSchema,
  usersIn,
} from './parse-message.ts';
import type { MessageContext, ReceivedMessage, SlackLocation } from './parse-message.ts';
import { channelId, isDirect, messageId, platformChannel, slackError } from './client.ts';
import type { Self } from './client.ts';
import type { ChannelMembership } from './channel-membership.ts';
import type { Ack } from './commands.ts';
import type { Interactions } from './interactions.ts';

type EventsPorts = MessageContext &
  Pick<AdapterParts, 'intake' | 'timers' | 'log'> & {
    readonly deduplicator: Deduplicator;
    readonly membership: ChannelMembership;
    readonly agentSessions: boolean;
    readonly isFirst: FirstTime;
    readonly sender: Pick<MessageSender, 'countBelow'>;
    readonly interactions: Interactions;
    readonly onRateLimited: () => void;
  };

/** Handles the payloads that Slack sends. */
export type Events = {
  /**
   * Acknowledges a message, an edit or a deletion once it was taken in or ignored. Unknown payloads are acknowledged,
   * too: otherwise Slack would send them again. Rejects when Slack must send the payload again.
   */
  readonly take: (body: unknown, ack: Ack) => Promise<void>;
  stop(): void;
};

const eventPayloadSchema = z.looseObject({
  type: z.literal('event_callback'),
  event_id: z.string().min(1).max(100),
  api_app_id: z.string().nullish(),
  event: z.looseObject({ type: z.string() }),
});
const otherSchema = z.looseObject({ type: z.string().optional().catch(undefined) });

/**
 * Handles the events of a channel one after the other. Slack may send an event again before its acknowledgement; the
 * second delivery waits for the first.
 */
export function createEvents(ports: EventsPorts): Events {
  const { deduplicator, self, log } = ports;
  const inbound = createInboundQueue(ports);
  const takeEvent = async ({ event_id: id, api_app_id: appId, event }: EventPayload): Promise<void> => {
    const parsed = parseEvent(event, self.appId === null ? { ...self, appId: appId ?? null } : self);
    if (parsed === null) return log.warn({ event: id, type: event.type }, 'an event of Slack was not understood');
    if (parsed.kind === 'nothing') return;
    if (parsed.kind === 'broken') return broken(ports, parsed.why);
    const channel = channelId(channelOf(parsed));
    if (!inbound.hasRoom(channel)) throw new Error(`Too many events of ${channel} wait: Slack sends this event again`);
    if (!(await inbound.push(channel, () => handleEvent(ports, parsed))))
      throw new Error(`Conch stops: the waiting events of ${channel} were not processed`);
  };
  return {
    async take(body, ack) {
      const event = eventPayloadSchema.safeParse(body);
      if (event.success) await deduplicator.run(event.data.event_id, () => takeEvent(event.data));
      else if (await ports.interactions.take(body, ack)) return;
      else takeOther(ports, body);
      await ack();
    },
    stop: () => inbound.stop(),
  };
}

type EventPayload = z.output<typeof eventPayloadSchema>;

function takeOther({ log, onRateLimited }: EventsPorts, body: unknown): void {
  const type = otherSchema.safeParse(body).data?.type ?? null;
  if (type !== 'app_rate_limited') return log.warn({ type }, 'a payload of Slack was not understood');
  log.warn('Slack drops events for a minute: there are too many; the history is read after it');
  onRateLimited();
}

type LocatedEvent = Exclude<SlackEvent, { readonly kind: 'nothing' | 'broken' }>;

function channelOf(event: LocatedEvent): string {
  if ('received' in event) return event.received.channel;
  return 'at' in event ? event.at.channel : event.channel;
}

async function handleEvent(ports: EventsPorts, event: LocatedEvent): Promise<void> {
  switch (event.kind) {
    case 'said':
      return takeSaid(ports, event.received);
    case 'edited':
      return takeEdited(ports, event.received);
    case 'deleted':
      return takeDeleted(ports, event);
    case 'stopped':
      return takeStopped(ports, event);
    case 'reacted':
      return takeReaction(ports, event);
    case 'closed':
      return void ports.membership.check(channelId(event.channel), { reported: event.why });
    case 'reopened':
      return ports.membership.open(channelId(event.channel));
  }
}

/** Takes a new message. Slack sends a mention of the app as two events; a command in the message runs once. */
async function takeSaid(ports: EventsPorts, message: ReceivedMessage): Promise<void> {
  const { intake, queries, deduplicator } = ports;
  const location = floorLocation(queries, message);
  if (location === null && isForApp(ports, message)) ports.interactions.explainNoFloor(message.by, message);
  if (location === null || deduplicator.has(deletedKey(message.channel, message.ts))) return;
  const { human, line } = await withFloor(ports, message, location);
  ports.sender.countBelow(location.channel);
  await intake.message(human);
  if (line === null || !(await ports.isFirst(location.channel, human.id))) return;
  void ports.interactions.runTyped({ user: message.by, line, at: message, floor: location.channel });
}

async function withFloor(
  ports: EventsPorts,
  message: ReceivedMessage,
  location: MessageLocation,
): ReturnType<typeof toHumanMessage> {
  const opens = threadAt(message, location);
  if (opens !== null) await ports.intake.thread(opens);
  return toHumanMessage(message, location, ports);
}

/**
 * Whether a person writes to the app in a channel without a floor. True once in 15 minutes per person and channel, and
 * once more after a restart.
 */
function isForApp(
  { self, queries, deduplicator }: EventsPorts,
  { author, by, text, channel }: ReceivedMessage,
): boolean {
  if (author !== 'person' || floorLocation(queries, { channel, thread: null, broadcast: false }) !== null) return false;
  const isMeant = isDirect(channelId(channel)) || usersIn(text).includes(self.userId);
  return isMeant && deduplicator.claim(`unplaced:${channel}:${by}`);
}

/**
 * Takes an edited message. An edit can arrive before its message. So a text edited within a minute of its message first
 * goes to the intake as a message, unless it is a command or was deleted. The engine ignores a message that it knows.
 */
async function takeEdited(ports: EventsPorts, message: ReceivedMessage): Promise<void> {
  const location = floorLocation(ports.queries, message);
  if (location === null) return;
  const isFresh = message.editedTs !== null && sentAt(message.editedTs) - sentAt(message.ts) < OVERTAKING_MS;
  if (isFresh && !ports.deduplicator.has(deletedKey(message.channel, message.ts))) {
    const { human, line } = await withFloor(ports, message, location);
    if (line === null) await ports.intake.message(human);
  }
  await ports.intake.amend(await toChange(message, location.channel, ports));
}

/** Takes a deletion. A deletion can arrive before its message, which is then ignored. */
async function takeDeleted(ports: EventsPorts, { at, ts }: Extract<LocatedEvent, { kind: 'deleted' }>): Promise<void> {
  const location = floorLocation(ports.queries, at);
  if (location === null) return;
  await ports.intake.amend({ change: 'deleted', id: messageId(at.channel, ts), channel: location.channel });
  ports.deduplicator.claim(deletedKey(at.channel, ts));
}

/** Within this time, in milliseconds, events of different sockets can arrive in any order. */
const OVERTAKING_MS = 60_000;

function deletedKey(channel: string, ts: string): string {
  return `deleted:${messageId(channel, ts)}`;
}

/** Carries out a press of Slack's Stop button. In a thread without an open floor, it stops the channel's floor. */
async function takeStopped(
  ports: EventsPorts,
  { at, user }: Extract<LocatedEvent, { kind: 'stopped' }>,
): Promise<void> {
  if (!ports.agentSessions) return;
  const channel = { ...at, thread: null };
  const channelFloor = floorAt(ports.queries, channel);
  const floor = floorAt(ports.queries, at) ?? channelFloor;
  if (floor === null) return;
  await shortly(
    ports,
    ports.interactions.runTyped({ user, line: '/stop', at: floor === channelFloor ? channel : at, floor }),
  );
}

/** Runs the command that a reaction means. Slack's event does not name the thread of the message. */
async function takeReaction(
  ports: EventsPorts,
  { channel, ts, user, meaning }: Extract<LocatedEvent, { kind: 'reacted' }>,
): Promise<void> {
  const { queries, people, interactions } = ports;
  const command = queries.reaction?.(channelId(channel), messageId(channel, ts), meaning) ?? null;
  if (command === null) return;
  await people.name(user);
  if (people.isBot(user)) return;
  const { line, drawnFor } = command;
  const at = { ...platformChannel(command.channel), broadcast: false };
  await shortly(ports, interactions.runTyped({ user, line, at, floor: command.channel, ...defined({ drawnFor }) }));
}

/**
 * Waits until a command is stored, at most 2 s, because Slack wants an answer within 3 s. A command for a ticket may
 * have to wait for a merge.
 */
async function shortly({ timers }: EventsPorts, work: Promise<unknown>): Promise<void> {
  await withinMs(2_000, work, timers);
}

function broken({ intake }: EventsPorts, why: string): void {
  const todo = 'Install the app again, put its new bot token into SLACK_BOT_TOKEN and start again.';
  intake.broken(slackError(why, todo));
}

/** The meaning of an event of Slack. */
export type SlackEvent =
  | { readonly kind: 'said'; readonly received: ReceivedMessage }
  | { readonly kind: 'edited'; readonly received: ReceivedMessage }
  | { readonly kind: 'deleted'; readonly at: SlackLocation; readonly ts: string }
  /** Conch was removed from the channel, or the channel was archived or deleted. */
  | { readonly kind: 'closed'; readonly channel: string; readonly why: string }
  | { readonly kind: 'reopened'; readonly channel: string }
  | { readonly kind: 'stopped'; readonly at: SlackLocation; readonly user: string }
  /** The app was removed, or its bot token was revoked. */
  | { readonly kind: 'broken'; readonly why: string }
  | {
      readonly kind: 'reacted';
      readonly channel: string;
      readonly ts: string;
      readonly user: string;
      readonly meaning: ReactionKind;
    }
  /** The event changes nothing for Conch. */
  | { readonly kind: 'nothing' };

const writtenSchema = messageSchema.extend({ channel: idSchema });
const changedSchema = z.looseObject({
  channel: idSchema,
  message: messageSchema,
  previous_message: messageSchema.nullish().catch(null),
});
const deletedSchema = z.looseObject({
  channel: idSchema,
  deleted_ts: tsSchema,
  previous_message: messageSchema.nullish().catch(null),
});
const typeSchema = z.looseObject({ type: z.string(), subtype: z.string().nullish() });
const memberSchema = z.looseObject({ user: idSchema, channel: idSchema });
const channelSchema = z.looseObject({
  channel: z.union([idSchema, z.looseObject({ id: idSchema }).transform((channel) => channel.id)]),
});
const stoppedSchema = z.looseObject({ user: idSchema, channel: idSchema, thread_ts: tsSchema.nullish().catch(null) });
const reactionSchema = z.looseObject({
  user: idSchema,
  reaction: z.string(),
  item: z.looseObject({ type: z.string(), channel: idSchema.nullish(), ts: tsSchema.nullish().catch(null) }),
});
const revokedSchema = z.looseObject({ tokens: z.looseObject({ bot: z.array(z.string()).nullish() }) });

const NOTHING: SlackEvent = { kind: 'nothing' };

/**
 * Parses the `event` of an Events API payload. Returns `null` for an unexpected shape, or a message without an author.
 */
export function parseEvent(event: unknown, self: Self): SlackEvent | null {
  const typed = typeSchema.safeParse(event);
  if (!typed.success) return null;
  const { type, subtype } = typed.data;
  const read = READERS.get(type === 'message' ? `message/${subtype ?? ''}` : type);
  return read === undefined ? NOTHING : read(event, self);
}

type Reader = (event: unknown, self: Self) => SlackEvent | null;

const READERS: ReadonlyMap<string, Reader> = new Map<string, Reader>([
  ...[...SUBTYPES].map((subtype) => [`message/${subtype}`, withSchema(writtenSchema, messageEvent)] as const),
  ['message/message_changed', withSchema(changedSchema, changeEvent)],
  ['message/message_deleted', withSchema(deletedSchema, deletionEvent)],
  ['app_mention', withSchema(writtenSchema, messageEvent)],
  [
    'member_left_channel',
    withSchema(memberSchema, (event, self) =>
      membershipEvent(event, self, closedEvent('Conch is no longer in the channel')),
    ),
  ],
  ['member_joined_channel', withSchema(memberSchema, (event, self) => membershipEvent(event, self, reopenedEvent))],
  ['channel_left', withSchema(channelSchema, closedEvent('Conch is no longer in the channel'))],
  ['group_left', withSchema(channelSchema, closedEvent('Conch is no longer in the channel'))],
  ['channel_archive', withSchema(channelSchema, closedEvent('the channel was archived'))],
  ['group_archive', withSchema(channelSchema, closedEvent('the channel was archived'))],
  ['channel_deleted', withSchema(channelSchema, closedEvent('the channel was deleted'))],
  ['group_deleted', withSchema(channelSchema, closedEvent('the channel was deleted'))],
  ['channel_unarchive', withSchema(channelSchema, reopenedEvent)],
  ['group_unarchive', withSchema(channelSchema, reopenedEvent)],
  ['agent_session_stopped', withSchema(stoppedSchema, stopEvent)],
  ['reaction_added', withSchema(reactionSchema, reactionEvent)],
  ['app_uninstalled', () => ({ kind: 'broken', why: 'The app was removed from the workspace' })],
  ['tokens_revoked', withSchema(revokedSchema, revocationEvent)],
]);

function withSchema<T>(schema: z.ZodType<T>, read: (event: T, self: Self) => SlackEvent | null): Reader {
  return (event, self) => {
    const parsed = schema.safeParse(event);
    return parsed.success ? read(parsed.data, self) : null;
  };
}

function messageEvent(message: z.output<typeof writtenSchema>, self: Self): SlackEvent | null {
  if (isOwn(message, self)) return NOTHING;
  const received = toReceived(message);
  return received === null ? null : { kind: 'said', received };
}

/** Only a changed text is an edit: link previews and reply counts also arrive as changes. A tombstone is a deletion. */
function changeEvent(event: z.output<typeof changedSchema>, self: Self): SlackEvent | null {
  const { channel, message, previous_message: before } = event;
  if (isOwn(message, self) || (before && isOwn(before, self))) return NOTHING;
  const at = locationOf({ ...message, channel });
  if (message.subtype === 'tombstone') return { kind: 'deleted', at, ts: message.ts };
  if (!message.edited || (before && before.text === message.text) || !SUBTYPES.has(message.subtype ?? '')) {
    return NOTHING;
  }
  const received = toReceived({ ...message, channel });
  return received === null ? null : { kind: 'edited', received };
}

function deletionEvent(event: z.output<typeof deletedSchema>, self: Self): SlackEvent {
  const { channel, deleted_ts: ts, previous_message: before } = event;
  if (before && isOwn(before, self)) return NOTHING;
  return { kind: 'deleted', at: locationOf({ ts, ...before, channel }), ts };
}

type ChannelEvent = z.output<typeof channelSchema>;

function membershipEvent(
  { user, channel }: z.output<typeof memberSchema>,
  self: Self,
  meaning: (event: ChannelEvent) => SlackEvent,
): SlackEvent {
  return user === self.userId ? meaning({ channel }) : NOTHING;
}

function closedEvent(why: string) {
  return ({ channel }: ChannelEvent): SlackEvent => ({ kind: 'closed', channel, why });
}

function reopenedEvent({ channel }: ChannelEvent): SlackEvent {
  return { kind: 'reopened', channel };
}

function stopEvent({ user, channel, thread_ts: thread }: z.output<typeof stoppedSchema>): SlackEvent {
  return { kind: 'stopped', user, at: { channel, thread: thread ?? null, broadcast: false } };
}

function reactionEvent({ user, reaction, item }: z.output<typeof reactionSchema>, self: Self): SlackEvent {
  const meaning = reactionKind(reaction);
  if (meaning === null || user === self.userId || item.channel == null || item.ts == null) return NOTHING;
  return { kind: 'reacted', channel: item.channel, ts: item.ts, user, meaning };
}

function revocationEvent({ tokens }: z.output<typeof revokedSchema>): SlackEvent {
  const isOurs = (tokens.bot ?? []).length > 0;
  return isOurs ? { kind: 'broken', why: 'The bot token of the app was revoked' } : NOTHING;
}
