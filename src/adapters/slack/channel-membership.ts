import { z } from 'zod';
import type { WebClient } from '@slack/web-api';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { ChannelAccess } from '../delivery/channel-access.ts';
import type { ChannelAccessPorts } from '../delivery/channel-access.ts';
import type { FloorQueries } from '../port.ts';
import { call, channelId, platformChannel, channelTrouble, slackCode } from './client.ts';

type ChannelMembershipPorts = Pick<ChannelAccessPorts, 'intake' | 'reopened' | 'timers' | 'signal' | 'log'> & {
  readonly web: WebClient;
  readonly queries: FloorQueries;
};

const infoSchema = z.looseObject({
  channel: z.looseObject({
    is_archived: z.boolean().optional(),
    is_member: z.boolean().optional(),
    is_im: z.boolean().optional(),
  }),
});

/** Error codes that concern one thread. Other error codes concern a channel with all its threads. */
const OF_THREAD: ReadonlySet<string> = new Set(['restricted_action_thread_locked', 'thread_not_found']);

/** Tracks which channels Conch can use. A thread is closed with its channel, or alone for an error of its own. */
export class ChannelMembership extends ChannelAccess {
  readonly #checkedChannels = new Set<ChannelId>();

  constructor({ web, queries, ...ports }: ChannelMembershipPorts) {
    super({
      ...ports,
      ask: async (channel) => whyAway(await lookUp(web, channel)),
      whyClosed: channelTrouble,
      floorsOf: (channel) =>
        platformChannel(channel).thread === null
          ? queries.channels().flatMap(({ id }) => (ownChannel(id) === channel ? [id] : []))
          : [channel],
    });
  }

  override callFailed(floor: ChannelId, error: unknown): void {
    super.callFailed(OF_THREAD.has(slackCode(error) ?? '') ? floor : ownChannel(floor), error);
  }

  override postSucceeded(floor: ChannelId): void {
    super.postSucceeded(floor);
    if (ownChannel(floor) !== floor) super.postSucceeded(ownChannel(floor));
  }

  /**
   * Called before a floor's history is read. Asks Slack about a channel the first time, and each time while the channel
   * is closed: events may have been missed. Threads are not checked.
   */
  async checkBeforeCatchUp(floor: ChannelId): Promise<void> {
    const channel = ownChannel(floor);
    if (floor !== channel || (this.#checkedChannels.has(channel) && !this.isClosed(channel))) return;
    await this.check(channel);
    this.#checkedChannels.add(channel);
  }
}

function ownChannel(floor: ChannelId): ChannelId {
  return channelId(platformChannel(floor).channel);
}

type ChannelInfo = z.output<typeof infoSchema>['channel'];

function whyAway({ is_archived: isArchived, is_member: isMember, is_im: isDirect }: ChannelInfo): string | null {
  if (isArchived === true) return 'the channel is archived';
  return isMember === false && isDirect !== true ? 'Conch is not in the channel' : null;
}

/** Returns Slack's description of a floor's channel. Rejects with a `ChatError`. */
export async function lookUp(web: WebClient, floor: ChannelId): Promise<ChannelInfo> {
  const args = { channel: platformChannel(floor).channel };
  return (await call(web, { method: 'conversations.info', channel: floor, args, answer: infoSchema })).channel;
}
