import { changedEvent, deletedEvent, mentionEvent, messageEvent, messageJson } from './events.ts';
import { pingsIn } from './state-text.ts';
import { nextTs, replies } from './state.ts';
import type { Channel, Json, Message } from './state.ts';
import type { Slack } from './web.ts';

const HISTORY_SCOPES = { channel: 'channels:history', group: 'groups:history', im: 'im:history' } as const;

/** Adds a message to its channel and sends its event, if the app may read it. */
export function publish(slack: Slack, channel: Channel, message: Message): void {
  const { world } = slack;
  channel.messages.set(message.ts, message);
  for (const ping of pingsIn(message)) message.pings.add(ping);
  tell(slack, channel, messageEvent(world, channel, message));
  const mentioned = message.botId === null && message.text.includes(`<@${world.app.botUser}`);
  const may = world.app.botScopes.includes('app_mentions:read') && channel.kind !== 'im';
  if (mentioned && may && inIt(slack, channel)) emit(slack, mentionEvent(world, channel, message));
}

/** Changes a message and sends its event. `linkNames` as in `pingsIn`. */
export function change(
  slack: Slack,
  channel: Channel,
  message: Message,
  how: { apply: () => void; linkNames?: boolean },
): void {
  const before = messageJson(slack.world, message);
  how.apply();
  for (const ping of pingsIn({ ...message, linkNames: how.linkNames === true })) message.pings.add(ping);
  tell(slack, channel, changedEvent(slack.world, channel, { message, before }));
}

/** Deletes a message. A message with replies stays as a tombstone, and the event is an edit. */
export function takeAway(slack: Slack, channel: Channel, message: Message): void {
  const before = messageJson(slack.world, message);
  if (replies(channel, message.ts).length > 0) {
    Object.assign(message, {
      subtype: 'tombstone',
      text: 'This message was deleted.',
      user: 'USLACKBOT',
      blocks: [],
      metadata: null,
    });
    tell(slack, channel, changedEvent(slack.world, channel, { message, before }));
    return;
  }
  channel.messages.delete(message.ts);
  tell(slack, channel, deletedEvent(slack.world, channel, before));
}

/** Sends an event of a channel, if the bot is in it and may read it. */
export function tell(slack: Slack, channel: Channel, event: Json): void {
  const may = slack.world.app.botScopes.includes(HISTORY_SCOPES[channel.kind]);
  if (may && inIt(slack, channel)) emit(slack, event);
}

/** Sends an event without checks. */
export function emit(slack: Slack, event: Json): void {
  void slack.delivery.event({ event_ts: nextTs(slack.world), ...event });
}

function inIt({ world }: Slack, channel: Channel): boolean {
  return channel.members.has(world.app.botUser) && world.app.revoked === null;
}
