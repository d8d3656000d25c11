import { Routes } from 'discord.js';
import type { Logger } from 'pino';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Timer, Timers } from '../../lib/time.ts';
import type { FloorView } from '../../turns/view.ts';
import { platformChannel } from './client.ts';
import type { Calls } from './client.ts';
import { wordsOf } from './errors.ts';

/** Typing signs that show that somebody is at work: Discord forgets it after ten seconds. */
export type Statuses = {
  show(channel: ChannelId, view: FloorView): void;
  stop(): void;
};

const AGAIN_MS = 8_000;

/** The typing signs of one bot, as long as somebody holds the floor. Errors are left alone. */
export function createStatuses(ports: {
  readonly calls: Calls;
  readonly timers: Timers;
  readonly log: Logger;
  readonly enabled: boolean;
}): Statuses {
  const running = new Map<ChannelId, Timer>();
  let stopped = false;
  const type = (channel: ChannelId): void => {
    running.set(
      channel,
      ports.timers.after(AGAIN_MS, () => type(channel)),
    );
    const route = Routes.channelTyping(platformChannel(channel));
    ports.calls
      .tell({ method: 'post', route, channel, what: 'type' })
      .catch((error: unknown) => ports.log.debug({ channel, why: wordsOf(error) }, 'typing could not be shown'));
  };
  return {
    show(channel, view) {
      const isAtWork = ports.enabled && !stopped && view.holder?.status === 'ACTIVE';
      if (isAtWork && !running.has(channel)) type(channel);
      if (isAtWork) return;
      running.get(channel)?.cancel();
      running.delete(channel);
    },
    stop() {
      stopped = true;
      for (const timer of running.values()) timer.cancel();
      running.clear();
    },
  };
}
