import type { Logger } from 'pino';
import { z } from 'zod';
import type { WebClient } from '@slack/web-api';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { reasonOf } from '../delivery/connect-retry.ts';
import type { Intake, FloorQueries } from '../port.ts';
import { call, channelId, platformChannel } from './client.ts';
import { channelTrouble, slackCode } from './errors.ts';

/** What asking about channels needs. */
export type ChannelMembershipPorts = {
  readonly web: WebClient;
  readonly intake: Intake;
  readonly queries: FloorQueries;
  readonly log: Logger;
};

const infoSchema = z.looseObject({
  channel: z.looseObject({
    is_archived: z.boolean().optional(),
    is_member: z.boolean().optional(),
    is_im: z.boolean().optional(),
  }),
});

/** What passes when somebody lets Conch in again. */
const PASSING: ReadonlySet<string> = new Set(['channel_not_found', 'not_in_channel', 'is_archived']);

/** Whether Conch can be in its channels. */
export class ChannelMembership {
  readonly #ports: ChannelMembershipPorts;
  readonly #checked = new Set<string>();
  readonly #away = new Set<string>();

  constructor(ports: ChannelMembershipPorts) {
    this.#ports = ports;
  }

  /** Conch was taken out of a channel, or the channel was closed: its floor and those of its threads are suspended. */
  gone(channel: string, why: string): void {
    this.#away.add(channel);
    for (const floor of this.#floorsOf(channel)) this.#ports.intake.suspend(floor, why);
  }

  /**
   * Slack told that Conch was taken out of a channel, or that the channel was closed. It may tell so long after Conch was
   * let in again: Slack is asked how things are now, and what it told counts unless it says otherwise. Never rejects.
   */
  async told(channel: string, why: string): Promise<void> {
    try {
      const found = await lookUp(this.#ports.web, channelId(channel));
      if (found.is_member === true && found.is_archived !== true) return;
    } catch (error) {
      this.#ports.log.debug({ channel: channelId(channel), err: error }, 'Slack did not tell about a channel');
    }
    this.gone(channel, why);
  }

  /** The channel can be used. */
  again(channel: string): void {
    this.#away.delete(channel);
    for (const floor of this.#floorsOf(channel)) this.#ports.intake.restore(floor);
  }

  /** A call for a floor failed; if that means that nothing can be said there any more, it is suspended. */
  trouble(floor: ChannelId, error: unknown): void {
    const why = channelTrouble(error);
    if (why === null) return;
    if (PASSING.has(slackCode(error) ?? '')) this.gone(platformChannel(floor).channel, why);
    else this.#ports.intake.suspend(floor, why);
  }

  /** Asks Slack about a channel once a run, and again while it is suspended: events may have been missed. Never rejects. */
  async check(floor: ChannelId): Promise<void> {
    const { channel, thread } = platformChannel(floor);
    if (thread !== null || (this.#checked.has(channel) && !this.#away.has(channel))) return;
    try {
      const found = await lookUp(this.#ports.web, floor);
      this.#checked.add(channel);
      if (found.is_archived === true) return this.gone(channel, 'it is archived');
      if (found.is_member === false && found.is_im !== true) return this.gone(channel, 'Conch is not in it');
      this.again(channel);
    } catch (error) {
      this.trouble(floor, error);
      this.#ports.log.debug({ channel: floor, why: reasonOf(error) }, 'Slack did not tell about a channel');
    }
  }

  #floorsOf(channel: string): readonly ChannelId[] {
    const places = this.#ports.queries.channels();
    return places.map(({ id }) => id).filter((id) => platformChannel(id).channel === channel);
  }
}

/** What Slack says of a floor's channel; rejects with a `ChatError`. */
export async function lookUp(web: WebClient, floor: ChannelId): Promise<z.output<typeof infoSchema>['channel']> {
  const args = { channel: platformChannel(floor).channel };
  return (await call(web, { method: 'conversations.info', channel: floor, args, answer: infoSchema })).channel;
}
