import type { Logger } from 'pino';
import { z } from 'zod';
import type { Timers } from '../../lib/time.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { createInboundQueue } from '../delivery/inbound.ts';
import type { FirstTime, Deduplicator } from '../delivery/inbound.ts';
import { AdapterError } from '../port.ts';
import type { Intake } from '../port.ts';
import { floorAt, threadAt, toChange, toHumanMessage, whereabouts } from './to-human-message.ts';
import type { MessageContext } from './to-human-message.ts';
import { channelId, messageId } from './ids.ts';
import { parseEvent, sentAt } from './parse-message.ts';
import type { SlackEvent, Ourselves, Said, Spot } from './parse-message.ts';
import type { ChannelMembership } from './channel-membership.ts';

/** A command line that somebody wrote as a message, or Slack's own Stop. */
export type Typed = { readonly user: string; readonly line: string; readonly at: Spot; readonly floor: ChannelId };

/** What taking in events needs of the adapter. */
export type EventsPorts = MessageContext & {
  readonly intake: Intake;
  readonly self: () => Ourselves;
  readonly deduplicator: Deduplicator;
  readonly membership: ChannelMembership;
  readonly timers: Timers;
  readonly log: Logger;
  /** Whether Slack's own Stop means `/stop`. */
  readonly agentSessions: boolean;
  readonly typed: (command: Typed) => void;
  /** Whether a command is heard for the first time, over restarts too. */
  readonly isFirst: FirstTime;
  readonly seen: (channel: ChannelId) => void;
};

/** Takes in what Slack's Events API tells. */
export type Events = {
  /** Resolves once the event is durable and may be acknowledged; rejects when Slack had better send it again. */
  event(payload: EventPayload): Promise<void>;
  stop(): void;
};

/** The envelope of an event. */
export const eventPayloadSchema = z.looseObject({
  type: z.literal('event_callback'),
  event_id: z.string().min(1).max(100),
  api_app_id: z.string().nullish(),
  event: z.looseObject({ type: z.string() }),
});
export type EventPayload = z.output<typeof eventPayloadSchema>;

/**
 * Events of a channel are taken in one after the other, each until it is durable: an event is acknowledged then, and not
 * before. Slack sends it again in the meantime; the second delivery waits for the first.
 */
export function createEvents(ports: EventsPorts): Events {
  const { deduplicator, log } = ports;
  const inbound = createInboundQueue(ports);
  return {
    event({ event_id: id, api_app_id: appId, event }) {
      return deduplicator.run(id, async () => {
        const self = ports.self();
        const what = parseEvent(event, self.appId === null ? { ...self, appId: appId ?? null } : self);
        if (what === null) return log.warn({ event: id, type: event.type }, 'an event of Slack was not understood');
        if (what.kind === 'nothing') return;
        if (what.kind === 'broken') return broken(ports, what.why);
        const lane = channelId(channelOf(what));
        if (!inbound.hasRoom(lane)) throw new Error(`Too much waits for ${lane}: Slack sends this again`);
        if (!(await inbound.push(lane, () => takeIn(ports, what))))
          throw new Error(`Conch stops: what waits for ${lane} was not taken in`);
      });
    },
    stop: () => inbound.stop(),
  };
}

type Local = Exclude<SlackEvent, { readonly kind: 'nothing' | 'broken' }>;

function channelOf(what: Local): string {
  switch (what.kind) {
    case 'said':
    case 'edited':
      return what.said.channel;
    case 'deleted':
    case 'stopped':
      return what.at.channel;
    case 'gone':
    case 'again':
      return what.channel;
  }
}

async function takeIn(ports: EventsPorts, what: Local): Promise<void> {
  switch (what.kind) {
    case 'said':
      return said(ports, what.said);
    case 'edited':
      return edited(ports, what.said);
    case 'deleted':
      return deleted(ports, what);
    case 'stopped':
      return stopped(ports, what);
    case 'gone':
      return void ports.membership.told(what.channel, what.why);
    case 'again':
      return ports.membership.again(what.channel);
  }
}

/** A mention comes as two events with one message: its command is run once. */
async function said(ports: EventsPorts, message: Said): Promise<void> {
  const { intake, queries, deduplicator } = ports;
  const found = whereabouts(queries, message);
  if (found === null || deduplicator.has(goneKey(message.channel, message.ts))) return;
  const opens = threadAt(message, found);
  if (opens !== null) await intake.thread(opens);
  const { human, line } = await toHumanMessage(message, found, ports);
  ports.seen(found.channel);
  await intake.message(human);
  if (line === null || !(await ports.isFirst(found.channel, human.id))) return;
  ports.typed({ user: message.by, line, at: message, floor: found.channel });
}

/** An edit may overtake its message: it is handed in as the message that it made, which changes nothing if that is known. */
async function edited(ports: EventsPorts, message: Said): Promise<void> {
  const found = whereabouts(ports.queries, message);
  if (found === null) return;
  const isFresh = message.editedTs !== null && sentAt(message.editedTs) - sentAt(message.ts) < OVERTAKING_MS;
  if (isFresh && !ports.deduplicator.has(goneKey(message.channel, message.ts))) {
    const opens = threadAt(message, found);
    if (opens !== null) await ports.intake.thread(opens);
    const { human, line } = await toHumanMessage(message, found, ports);
    if (line === null) await ports.intake.message(human);
  }
  await ports.intake.amend(await toChange(message, found.channel, ports));
}

/** A deletion may overtake its message, which is not wanted then. */
async function deleted(ports: EventsPorts, gone: Extract<Local, { kind: 'deleted' }>): Promise<void> {
  const found = whereabouts(ports.queries, gone.at);
  if (found === null) return;
  await ports.intake.amend({ change: 'deleted', id: messageId(gone.at.channel, gone.ts), channel: found.channel });
  ports.deduplicator.claim(goneKey(gone.at.channel, gone.ts));
}

/** With several sockets, what is written within so long of each other comes in any order. */
const OVERTAKING_MS = 60_000;

function goneKey(channel: string, ts: string): string {
  return `gone:${messageId(channel, ts)}`;
}

/** A session may hang on a message of the channel itself: that is no thread with a floor. */
async function stopped(ports: EventsPorts, { at, user }: Extract<Local, { kind: 'stopped' }>): Promise<void> {
  if (!ports.agentSessions) return;
  const channel = { ...at, thread: null };
  const own = floorAt(ports.queries, channel);
  const floor = floorAt(ports.queries, at) ?? own;
  if (floor !== null) ports.typed({ user, line: '/stop', at: floor === own ? channel : at, floor });
}

function broken({ intake }: EventsPorts, why: string): void {
  const todo = 'Install the app again, put its new bot token into SLACK_BOT_TOKEN and start again.';
  intake.broken(new AdapterError(`${why}. ${todo}`, { adapter: 'slack' }));
}
