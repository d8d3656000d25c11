import { join } from 'node:path';
import { channelIn, reviewConfigOf } from '../config/config.ts';
import type { Config } from '../config/config.ts';
import type { Clock, Timers } from '../lib/time.ts';
import type { ReviewCommands } from '../turns/commands/context.ts';
import type { AgentId, ChannelId } from '../turns/floor/settings.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import { reviewOnFloor } from '../work/reviews/review-binding.ts';
import { createReviewCommands } from '../work/reviews/review-commands.ts';
import type { ReviewSettings } from '../work/reviews/review.ts';
import { Reviews } from '../work/reviews/reviews.ts';
import type { Log } from './log.ts';
import type { ReadModel } from './read-model.ts';
import { workPlaceOf } from './tool-judge.ts';

/** What the reviews of a program's channels need. */
type ChannelReviewsPorts = {
  readonly store: Pick<FloorStore, 'host' | 'id' | 'floors' | 'lines'>;
  readonly floors: Pick<ReadModel, 'view' | 'speaker'>;
  readonly config: () => Config;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
};

/** The reviews of all channels, with the settings of the configuration in force. */
export class ChannelReviews extends Reviews {
  readonly commands: ReviewCommands;

  /** Before the store recovers. */
  constructor({ store, floors, config, clock, timers, log }: ChannelReviewsPorts) {
    const { dataDir } = config();
    super({
      reviews: store.host(reviewOnFloor),
      clock,
      timers,
      view: (channel) => floors.view(channel),
      folderOf: (agent) => folderOf(config(), agent),
      env: process.env,
      owner: store.id,
      dataDir,
      scratch: join(dataDir, 'reviews'),
      failed: (error) => log.error({ err: error }, 'a review could not go on'),
    });
    this.commands = createReviewCommands({
      reviews: this,
      nameOf: (agent) => floors.speaker(agent)?.name ?? agent,
      now: () => clock.now(),
      settings: (channel) => settingsOf(config(), channel),
      lines: (channel, after) => {
        const last = store.floors.state(channel)?.lines ?? 0;
        return store.lines(channel, Math.max(after, last - LINES_SHOWN), last);
      },
    });
  }
}

/** The most lines of a conversation in one answer. */
const LINES_SHOWN = 200;

/** The folder in which an agent works; `null` when it works in none of this machine. */
function folderOf(config: Config, agent: AgentId): string | null {
  const found = config.agents.find(({ id }) => id === agent);
  return found === undefined ? null : (workPlaceOf(found, config)?.folder ?? null);
}

function settingsOf(config: Config, channel: ChannelId): ReviewSettings {
  const { maxIterations, until, onFail, patience, ...words } = reviewConfigOf(config, channel);
  const signals = { done: words.doneSignal, pass: words.passSignal, fail: words.failSignal };
  const { waitTimeoutSeconds } = (channelIn(config, channel) ?? config).turnConfig;
  return { maxIterations, until, onFail, patience, signals, waitMs: waitTimeoutSeconds * 1_000 };
}
