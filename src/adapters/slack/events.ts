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
  saidOf,
  sentAt,
  locationOf,
  tsSchema,
  usersIn,
} from './parse-message.ts';
import type { MessageContext, Said, SlackLocation } from './parse-message.ts';
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
    readonly limited: () => void;
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
    const what = parseEvent(event, self.appId === null ? { ...self, appId: appId ?? null } : self);
    if (what === null) return log.warn({ event: id, type: event.type }, 'an event of Slack was not understood');
    if (what.kind === 'nothing') return;
    if (what.kind === 'broken') return broken(ports, what.why);
    const lane = channelId(channelOf(what));
    if (!inbound.hasRoom(lane)) throw new Error(`Too many events of ${lane} wait: Slack sends this event again`);
    if (!(await inbound.push(lane, () => takeIn(ports, what))))
      throw new Error(`Conch stops: the waiting events of ${lane} were not processed`);
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

function takeOther({ log, limited }: EventsPorts, body: unknown): void {
  const type = otherSchema.safeParse(body).data?.type ?? null;
  if (type !== 'app_rate_limited') return log.warn({ type }, 'a payload of Slack was not understood');
  log.warn('Slack drops events for a minute: there are too many; the history is read after it');
  limited();
}

type Local = Exclude<SlackEvent, { readonly kind: 'nothing' | 'broken' }>;

function channelOf(what: Local): string {
  if ('said' in what) return what.said.channel;
  return 'at' in what ? what.at.channel : what.channel;
}

async function takeIn(ports: EventsPorts, what: Local): Promise<void> {
  switch (what.kind) {
    case 'said':
      return takeSaid(ports, what.said);
    case 'edited':
      return takeEdited(ports, what.said);
    case 'deleted':
      return takeDeleted(ports, what);
    case 'stopped':
      return takeStopped(ports, what);
    case 'reacted':
      return takeReaction(ports, what);
    case 'closed':
      return void ports.membership.check(channelId(what.channel), { reported: what.why });
    case 'reopened':
      return ports.membership.open(channelId(what.channel));
  }
}

/** Takes a new message. Slack sends a mention of the app as two events; a command in the message runs once. */
async function takeSaid(ports: EventsPorts, message: Said): Promise<void> {
  const { intake, queries, deduplicator } = ports;
  const found = floorLocation(queries, message);
  if (found === null && isForApp(ports, message)) ports.interactions.unplaced(message.by, message);
  if (found === null || deduplicator.has(deletedKey(message.channel, message.ts))) return;
  const { human, line } = await withFloor(ports, message, found);
  ports.sender.countBelow(found.channel);
  await intake.message(human);
  if (line === null || !(await ports.isFirst(found.channel, human.id))) return;
  void ports.interactions.typed({ user: message.by, line, at: message, floor: found.channel });
}

async function withFloor(ports: EventsPorts, message: Said, found: MessageLocation): ReturnType<typeof toHumanMessage> {
  const opens = threadAt(message, found);
  if (opens !== null) await ports.intake.thread(opens);
  return toHumanMessage(message, found, ports);
}

/**
 * Whether a person writes to the app in a channel without a floor. True once in 15 minutes per person and channel, and
 * once more after a restart.
 */
function isForApp({ self, queries, deduplicator }: EventsPorts, { author, by, text, channel }: Said): boolean {
  if (author !== 'person' || floorLocation(queries, { channel, thread: null, broadcast: false }) !== null) return false;
  const isMeant = isDirect(channelId(channel)) || usersIn(text).includes(self.userId);
  return isMeant && deduplicator.claim(`unplaced:${channel}:${by}`);
}

/**
 * Takes an edited message. An edit can arrive before its message. So a text edited within a minute of its message first
 * goes to the intake as a message, unless it is a command or was deleted. The engine ignores a message that it knows.
 */
async function takeEdited(ports: EventsPorts, message: Said): Promise<void> {
  const found = floorLocation(ports.queries, message);
  if (found === null) return;
  const isFresh = message.editedTs !== null && sentAt(message.editedTs) - sentAt(message.ts) < OVERTAKING_MS;
  if (isFresh && !ports.deduplicator.has(deletedKey(message.channel, message.ts))) {
    const { human, line } = await withFloor(ports, message, found);
    if (line === null) await ports.intake.message(human);
  }
  await ports.intake.amend(await toChange(message, found.channel, ports));
}

/** Takes a deletion. A deletion can arrive before its message, which is then ignored. */
async function takeDeleted(ports: EventsPorts, { at, ts }: Extract<Local, { kind: 'deleted' }>): Promise<void> {
  const found = floorLocation(ports.queries, at);
  if (found === null) return;
  await ports.intake.amend({ change: 'deleted', id: messageId(at.channel, ts), channel: found.channel });
  ports.deduplicator.claim(deletedKey(at.channel, ts));
}

/** Within this time, in milliseconds, events of different sockets can arrive in any order. */
const OVERTAKING_MS = 60_000;

function deletedKey(channel: string, ts: string): string {
  return `deleted:${messageId(channel, ts)}`;
}

/** Carries out a press of Slack's Stop button. In a thread without an open floor, it stops the channel's floor. */
async function takeStopped(ports: EventsPorts, { at, user }: Extract<Local, { kind: 'stopped' }>): Promise<void> {
  if (!ports.agentSessions) return;
  const channel = { ...at, thread: null };
  const own = floorAt(ports.queries, channel);
  const floor = floorAt(ports.queries, at) ?? own;
  if (floor === null) return;
  await shortly(ports, ports.interactions.typed({ user, line: '/stop', at: floor === own ? channel : at, floor }));
}

/** Runs the command that a reaction means. Slack's event does not name the thread of the message. */
async function takeReaction(
  ports: EventsPorts,
  { channel, ts, user, meaning }: Extract<Local, { kind: 'reacted' }>,
): Promise<void> {
  const { queries, people, interactions } = ports;
  const meant = queries.reaction?.(channelId(channel), messageId(channel, ts), meaning) ?? null;
  if (meant === null) return;
  await people.name(user);
  if (people.isBot(user)) return;
  const { line, drawnFor } = meant;
  const at = { ...platformChannel(meant.channel), broadcast: false };
  await shortly(ports, interactions.typed({ user, line, at, floor: meant.channel, ...defined({ drawnFor }) }));
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
  | { readonly kind: 'said'; readonly said: Said }
  | { readonly kind: 'edited'; readonly said: Said }
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
  ...[...SUBTYPES].map((subtype) => [`message/${subtype}`, on(writtenSchema, written)] as const),
  ['message/message_changed', on(changedSchema, changed)],
  ['message/message_deleted', on(deletedSchema, deleted)],
  ['app_mention', on(writtenSchema, written)],
  [
    'member_left_channel',
    on(memberSchema, (event, self) => member(event, self, closed('Conch is no longer in the channel'))),
  ],
  ['member_joined_channel', on(memberSchema, (event, self) => member(event, self, reopened))],
  ['channel_left', on(channelSchema, closed('Conch is no longer in the channel'))],
  ['group_left', on(channelSchema, closed('Conch is no longer in the channel'))],
  ['channel_archive', on(channelSchema, closed('the channel was archived'))],
  ['group_archive', on(channelSchema, closed('the channel was archived'))],
  ['channel_deleted', on(channelSchema, closed('the channel was deleted'))],
  ['group_deleted', on(channelSchema, closed('the channel was deleted'))],
  ['channel_unarchive', on(channelSchema, reopened)],
  ['group_unarchive', on(channelSchema, reopened)],
  ['agent_session_stopped', on(stoppedSchema, stopped)],
  ['reaction_added', on(reactionSchema, reacted)],
  ['app_uninstalled', () => ({ kind: 'broken', why: 'The app was removed from the workspace' })],
  ['tokens_revoked', on(revokedSchema, revoked)],
]);

function on<T>(schema: z.ZodType<T>, read: (event: T, self: Self) => SlackEvent | null): Reader {
  return (event, self) => {
    const parsed = schema.safeParse(event);
    return parsed.success ? read(parsed.data, self) : null;
  };
}

function written(message: z.output<typeof writtenSchema>, self: Self): SlackEvent | null {
  if (isOwn(message, self)) return NOTHING;
  const said = saidOf(message);
  return said === null ? null : { kind: 'said', said };
}

/** Only a changed text is an edit: link previews and reply counts also arrive as changes. A tombstone is a deletion. */
function changed(event: z.output<typeof changedSchema>, self: Self): SlackEvent | null {
  const { channel, message, previous_message: before } = event;
  if (isOwn(message, self) || (before && isOwn(before, self))) return NOTHING;
  const at = locationOf({ ...message, channel });
  if (message.subtype === 'tombstone') return { kind: 'deleted', at, ts: message.ts };
  if (!message.edited || (before && before.text === message.text) || !SUBTYPES.has(message.subtype ?? '')) {
    return NOTHING;
  }
  const said = saidOf({ ...message, channel });
  return said === null ? null : { kind: 'edited', said };
}

function deleted(event: z.output<typeof deletedSchema>, self: Self): SlackEvent {
  const { channel, deleted_ts: ts, previous_message: before } = event;
  if (before && isOwn(before, self)) return NOTHING;
  return { kind: 'deleted', at: locationOf({ ts, ...before, channel }), ts };
}

type ChannelEvent = z.output<typeof channelSchema>;

function member(
  { user, channel }: z.output<typeof memberSchema>,
  self: Self,
  meaning: (event: ChannelEvent) => SlackEvent,
): SlackEvent {
  return user === self.userId ? meaning({ channel }) : NOTHING;
}

function closed(why: string) {
  return ({ channel }: ChannelEvent): SlackEvent => ({ kind: 'closed', channel, why });
}

function reopened({ channel }: ChannelEvent): SlackEvent {
  return { kind: 'reopened', channel };
}

function stopped({ user, channel, thread_ts: thread }: z.output<typeof stoppedSchema>): SlackEvent {
  return { kind: 'stopped', user, at: { channel, thread: thread ?? null, broadcast: false } };
}

function reacted({ user, reaction, item }: z.output<typeof reactionSchema>, self: Self): SlackEvent {
  const meaning = reactionKind(reaction);
  if (meaning === null || user === self.userId || item.channel == null || item.ts == null) return NOTHING;
  return { kind: 'reacted', channel: item.channel, ts: item.ts, user, meaning };
}

function revoked({ tokens }: z.output<typeof revokedSchema>): SlackEvent {
  const isOurs = (tokens.bot ?? []).length > 0;
  return isOurs ? { kind: 'broken', why: 'The bot token of the app was revoked' } : NOTHING;
}
