import { existsSync, realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { channelIn, reviewConfigOf } from '../config/config.ts';
import type { AgentConfig, Config } from '../config/config.ts';
import type { HumanMessage } from '../engine/port.ts';
import { defined } from '../lib/defined.ts';
import type { Clock, Timers } from '../lib/time.ts';
import type { ReviewCommands } from '../turns/commands/context.ts';
import type { AgentId, ChannelId } from '../turns/floor/settings.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import type { ReviewView } from '../turns/view.ts';
import { reviewWithCrew } from '../work/floor-with-work.ts';
import { createReviewCommands, reviewStand } from '../work/reviews/review-commands.ts';
import { LONGEST_TASK, openFindings } from '../work/reviews/review.ts';
import type { Review, ReviewSettings } from '../work/reviews/review.ts';
import { sweepReviews } from '../work/reviews/leftovers.ts';
import type { StoredReviews } from '../work/reviews/leftovers.ts';
import { Reviews } from '../work/reviews/reviews.ts';
import type { Log } from './log.ts';
import type { ReadModel } from './read-model.ts';
import { workPlaceOf } from './runs/tool-judge.ts';

type ChannelReviewsPorts = {
  readonly store: Pick<FloorStore, 'host' | 'id' | 'floors' | 'lastLines' | 'message'>;
  readonly floors: Pick<ReadModel, 'view' | 'speaker'>;
  readonly config: () => Config;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  readonly clean: (text: string) => string;
  readonly lastCause: (channel: ChannelId, agent: AgentId) => string | null;
};

/** The reviews of all channels, with the settings of the configuration in force. */
export class ChannelReviews extends Reviews {
  readonly commands: ReviewCommands;
  readonly #ports: ChannelReviewsPorts;

  /** Must be called before the store recovers. */
  constructor(ports: ChannelReviewsPorts) {
    const { store, floors, config, clock, timers, log, clean } = ports;
    const { dataDir } = config();
    super({
      reviews: store.host(reviewWithCrew),
      clock,
      timers,
      view: (channel) => floors.view(channel),
      folderOf: (agent) => folderOf(config(), agent),
      lastCause: (...seat) => cleaned(ports.lastCause(...seat), clean),
      modelOf: (agent) => modelOf(config(), agent),
      env: process.env,
      owner: store.id,
      dataDir: withoutLinks(dataDir),
      scratch: scratchIn(dataDir),
      folders: () => foldersOf(config()),
      failed: (error) => log.error({ err: error }, 'a review could not go on'),
    });
    this.#ports = ports;
    this.onFacts((channel, facts) => {
      for (const fact of facts)
        if (fact.type === 'signalIgnored')
          log.info({ channel, agent: fact.agent, signal: fact.signal }, 'a signal of another role was read as text');
    });
    this.commands = createReviewCommands({
      reviews: this,
      clean,
      nameOf: (agent) => floors.speaker(agent)?.name ?? agent,
      now: () => clock.now(),
      settings: (channel) => settingsOf(config(), channel),
      agents: (channel) => agentsOf(config(), channel),
      lines: (...wanted) => store.lastLines(...wanted),
    });
  }

  /**
   * Continues open reviews, and deletes the leftovers of ended ones. In each channel whose configured order is
   * `review`, the first held message can open a review, if a person wrote it.
   */
  override begin(): void {
    super.begin();
    const { store, config, log } = this.#ports;
    for (const { id, turnConfig } of config().channels) {
      if (turnConfig.order !== 'review') continue;
      const [heldMessage] = store.floors.state(id)?.held ?? [];
      const message = heldMessage === undefined ? null : store.message(heldMessage.id);
      if (message === null || message.bot === true) continue;
      this.arrived(message).catch((error: unknown) => log.error({ err: error }, 'a review could not be opened'));
    }
  }

  /**
   * The open review of a channel or its last one, for people; `null` for none. `clean` redacts secrets in its texts.
   */
  reviewView(channel: ChannelId, clean: (text: string) => string): ReviewView | null {
    const review = this.state(channel)?.review ?? null;
    return review === null ? null : reviewViewOf(review, clean);
  }

  /**
   * Opens a review for a person's message, if the channel's order is `review`, its configuration names a primary agent
   * and a reviewer, and its floor has no open task.
   */
  async arrived(message: HumanMessage): Promise<void> {
    const { channel, author } = message;
    const { config, floors } = this.#ports;
    const view = floors.view(channel);
    const agents = agentsOf(config(), channel);
    if (view?.order !== 'review' || view.task !== undefined || agents === null) return;
    const order = { ...agents, task: taskOf(message), by: author.id, settings: settingsOf(config(), channel) };
    await this.startFor(message.id, channel, order);
  }
}

function cleaned(text: string | null, clean: (text: string) => string): string | null {
  return text === null ? null : clean(text);
}

/** The most open findings in the view of a review. */
const FINDINGS_SHOWN = 50;

function reviewViewOf(review: Review, clean: (text: string) => string): ReviewView {
  const { id, reviewer, outcome } = review;
  const findings = openFindings(review).slice(0, FINDINGS_SHOWN);
  return {
    ...reviewStand(review, clean),
    id,
    reviewer,
    iterations: review.iterations.map(({ verdict, opened, fixed, disputed, reappeared, endedAt }) => ({
      verdict,
      opened,
      fixed,
      disputed,
      reappeared,
      hasEnded: endedAt !== null || outcome !== null,
    })),
    findings: findings.map(({ id: name, severity, file, line, title, status, reason }) => ({
      id: name,
      severity,
      place: file === undefined ? null : clean(line === undefined ? file : `${file}:${line}`),
      title: clean(title),
      status,
      reason: reason === undefined ? null : clean(reason),
    })),
  };
}

function taskOf({ text }: Pick<HumanMessage, 'text'>): string {
  return text.trim() === '' ? '(the message has no text)' : text.slice(0, LONGEST_TASK).toWellFormed();
}

/**
 * Returns the folder in the data folder for the files that reviewers read. Links in the data folder's path are
 * resolved, because git names folders without links.
 */
function scratchIn(dataDir: string): string {
  return join(withoutLinks(dataDir), 'reviews');
}

function withoutLinks(folder: string): string {
  return existsSync(folder) ? realpathSync(folder) : folder;
}

/**
 * Deletes the leftovers of ended reviews: folders of reviewers, and stored work that need not be kept. Returns the
 * number of reviews that had stored work to delete. `isDryRun` only counts.
 */
export function pruneReviews(
  { store, config, failed }: Pick<StoredReviews, 'failed'> & { readonly store: FloorStore; readonly config: Config },
  retentionStart: (channel: ChannelId) => number | null,
  isDryRun: boolean,
): Promise<number> {
  const at = { env: process.env, owner: store.id, scratch: scratchIn(config.dataDir), failed };
  const sources = { states: () => store.states(reviewWithCrew), folders: () => foldersOf(config) };
  return sweepReviews({ ...at, ...sources }, retentionStart, isDryRun);
}

function foldersOf(config: Config): readonly string[] {
  const own = config.agents.flatMap(({ id }) => folderOf(config, id) ?? []);
  return [...own, ...config.crews.map(({ repo }) => resolve(repo))];
}

/** Returns an agent's working folder; `null` for an unknown agent, one that only speaks, or a remote one. */
function folderOf(config: Config, agent: AgentId): string | null {
  const found = config.agents.find(({ id }) => id === agent);
  return found === undefined || onlySpeaks(found, config) ? null : (workPlaceOf(found, config)?.folder ?? null);
}

/** True for scripted agents, and for models without tool servers: their texts are their work. */
function onlySpeaks({ backend: { kind } }: AgentConfig, { mcp }: Config): boolean {
  return kind === 'scripted' || (kind === 'llm' && Object.keys(mcp).length === 0);
}

function modelOf(config: Config, agent: AgentId): string | null {
  const backend = config.agents.find(({ id }) => id === agent)?.backend;
  return backend?.kind === 'llm' ? `${backend.provider} ${backend.model}` : null;
}

function agentsOf(config: Config, channel: ChannelId): ReturnType<ReviewCommands['agents']> {
  const { primary, reviewer } = reviewConfigOf(config, channel);
  return primary === undefined || reviewer === undefined ? null : { primary, reviewer };
}

/** How long a review in a channel waits for agents and people, in milliseconds. */
export function reviewWaitMs(config: Config, channel: ChannelId): number {
  return (channelIn(config, channel) ?? config).turnConfig.waitTimeoutSeconds * 1_000;
}

function settingsOf(config: Config, channel: ChannelId): ReviewSettings {
  const { maxIterations, until, onFail, patience, session, fallback, ...words } = reviewConfigOf(config, channel);
  const signals = { done: words.doneSignal, pass: words.passSignal, fail: words.failSignal };
  const times = { patience, waitMs: reviewWaitMs(config, channel) };
  return { maxIterations, until, onFail, signals, ...times, session, ...defined({ fallback }) };
}
