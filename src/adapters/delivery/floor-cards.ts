import type { Logger } from 'pino';
import { backoffMs } from '../../lib/retry.ts';
import type { Clock, Instant, Timer, Timers } from '../../lib/time.ts';
import type { AgentId, ChannelId, MessageId } from '../../turns/floor/settings.ts';
import { requestsOn } from '../../turns/floor/seats.ts';
import { reviewLine } from '../../turns/text/announcement-values.ts';
import type { FloorView, ReviewView } from '../../turns/view.ts';
import { ChatError } from '../port.ts';
import type { FloorQueries, Memory } from '../port.ts';
import { MOST_BUTTONS, cardOf, fitGroups } from './card.ts';
import { crewCard } from './crew-card.ts';
import type { CrewCard } from './crew-card.ts';
import { isAfter } from './message-client.ts';
import type { Content, MessageClient } from './message-client.ts';
import { createThrottle } from './rate-limits.ts';
import type { RateLimits, Throttle } from './rate-limits.ts';

type FloorCardsPorts = {
  readonly client: MessageClient;
  readonly rates: RateLimits;
  readonly nameOf: (agent: AgentId) => string;
  readonly queries: Pick<FloorQueries, 'review' | 'crew' | 'pastThread'>;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly memory: Memory;
  readonly log: Logger;
  readonly isPosting: (channel: ChannelId) => boolean;
  /** Called when a card of unknown id may be in the channel. */
  readonly requestSearch: (channel: ChannelId) => void;
};

/**
 * The shortest time between two edits of a card, in milliseconds. A closed question causes an edit without this wait.
 */
const INTERVAL_MS = 3_000;
/**
 * The shortest time between two edits of a card that shows an open review, a crew or a ticket, in milliseconds. Counts
 * from the platform's answer to the earlier edit. A closed question causes an edit without this wait.
 */
const WORK_INTERVAL_MS = 10_000;
/** A card with more messages than this below it is posted again at the end of the channel. */
const MOST_BELOW = 10;
/** On a platform that counts down the time itself, a change of the deadline by fewer milliseconds causes no edit. */
const DEADLINE_MS = 10_000;
/**
 * How long a card is not drawn after the floor became free, in milliseconds: the turn's last text may still be posted.
 */
const HANDED_OVER_MS = 1_000;
const AGAIN = { firstMs: 5_000, longestMs: 60_000 };
/**
 * The wait before the next try after a channel refused the card, in milliseconds. Ends early when the channel takes
 * messages.
 */
const REFUSED_MS = 60_000;
/** With this many channels' card states in memory, a new state drops one that has no work left, if there is one. */
const CHANNELS_KEPT = 1_000;

type Drawing = {
  readonly content: Content;
  readonly endsAt: Instant | null;
  readonly withoutTime: string;
  readonly crew: CrewCard | null;
  readonly gapMs: number;
};

type State = {
  readonly throttle: Throttle;
  /**
   * When the platform answered the last edit of the card. `WORK_INTERVAL_MS` counts from this time. `-Infinity`: the
   * next edit does not wait.
   */
  answeredAt: Instant;
  /** Message ids: the current card first, then cards to remove. */
  ids: readonly MessageId[];
  view: FloorView | null;
  /** When the last holder lost the floor; `-Infinity` when no view showed that. */
  floorFreedAt: Instant;
  crewAsks: readonly string[];
  /**
   * True when one of these happened since the state was created: an exchange was open, there was a background run, a
   * crew ran or had tickets in work, or an agent's folder was untrusted.
   */
  hasBegun: boolean;
  lastDrawing: Drawing | null;
  messagesBelow: number;
  /** True when the card must be posted again at the end of the channel. */
  isMoving: boolean;
  /** True when a card of unknown id may be in the channel. */
  isUnclear: boolean;
  isRefused: boolean;
  /** True while the card waits until no post of the channel is being sent, edited, searched or retried. */
  isWaiting: boolean;
  failures: number;
  timer: Timer | null;
};

/**
 * Shows each floor as one message with buttons near the end of its channel. A channel gets its first card with the
 * first open exchange, background run, untrusted folder, or crew that runs or has tickets in work. Errors are logged
 * and retried, never thrown.
 */
export class FloorCards {
  readonly #ports: FloorCardsPorts;
  readonly #states = new Map<ChannelId, State>();
  #isStopped = false;

  constructor(ports: FloorCardsPorts) {
    this.#ports = ports;
  }

  /** Called when the floor or its crew changed. Draws the card as soon as the waits between edits and posts allow. */
  draw(channel: ChannelId, view: FloorView): void {
    const state = this.#stateOf(channel);
    const isBeginning = view.condition === 'open' && (state.view?.condition ?? 'resting') === 'resting';
    const isEnding = view.condition === 'resting' && (state.view?.condition ?? 'resting') !== 'resting';
    const before = questionsOf(state.view);
    const after = questionsOf(view);
    const hasNewQuestion = after.some((question) => !before.includes(question));
    const isOver = before.some((question) => !after.includes(question));
    if ((isBeginning || isEnding || hasNewQuestion) && state.messagesBelow > 0) state.isMoving = true;
    if (view.holder === null && state.view !== null && state.view.holder !== null)
      state.floorFreedAt = this.#ports.clock.now();
    state.view = view;
    state.hasBegun ||= view.condition === 'open' || view.asides !== undefined || view.trust !== undefined;
    // Removes the buttons of a closed question without the wait between two edits.
    if (isOver) {
      state.answeredAt = -Infinity;
      state.throttle.hurry(true);
    } else state.throttle.kick();
  }

  /**
   * Counts one more message below the card. Moves a card with more than 10 messages below it to the end of the channel.
   */
  countBelow(channel: ChannelId): void {
    const state = this.#stateOf(channel);
    state.messagesBelow += 1;
    if (state.messagesBelow <= MOST_BELOW || state.view === null) return;
    state.isMoving = true;
    state.throttle.kick();
  }

  /**
   * Redraws a card that waited while a post was sent, edited or searched. `isWritable`: the channel takes messages, so
   * a refused card is redrawn, too.
   */
  resume(channel: ChannelId, { isWritable }: { readonly isWritable: boolean }): void {
    const state = this.#stateOf(channel);
    if (state.isWaiting || (isWritable && state.isRefused)) state.throttle.hurry();
  }

  /**
   * Called with the cards found in the channel's history, oldest first; with none after a refused search. The newest
   * unknown card becomes the current card in two cases: there is no current card, or the outcome of the last send is
   * unknown and the current card is older. All other cards are removed later.
   */
  settle(channel: ChannelId, cards: readonly MessageId[]): void {
    if (cards.length === 0 && !this.#states.has(channel)) return;
    const state = this.#stateOf(channel);
    const unknownCards = cards.filter((id) => !state.ids.includes(id));
    const newest = unknownCards.at(-1);
    const [current] = state.ids;
    const isLost = state.isUnclear && newest !== undefined && (current === undefined || isAfter(newest, current));
    if (isLost || current === undefined) {
      state.ids = [...unknownCards.toReversed(), ...state.ids];
      if (isLost) state.isMoving = false;
      state.lastDrawing = null;
    } else state.ids = [...state.ids, ...unknownCards];
    const isNews = unknownCards.length > 0 || state.isUnclear;
    state.isUnclear = false;
    if (isNews) state.throttle.hurry();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    const states = [...this.#states.values()];
    for (const { timer } of states) timer?.cancel();
    await Promise.all(states.map(({ throttle }) => throttle.stop()));
  }

  #stateOf(channel: ChannelId): State {
    const known = this.#states.get(channel);
    if (known !== undefined) return known;
    if (this.#states.size >= CHANNELS_KEPT) this.#forgetOne();
    const { clock, timers, memory } = this.#ports;
    const gapMs = (): number => state.lastDrawing?.gapMs ?? INTERVAL_MS;
    const ids = (memory.get(keyOf(channel)) ?? '').split(' ').filter((id) => id !== '');
    const state: State = {
      throttle: createThrottle({ clock, timers, gapMs }, () => this.#draw(channel, state)),
      answeredAt: -Infinity,
      ids,
      view: null,
      crewAsks: [],
      floorFreedAt: -Infinity,
      hasBegun: false,
      lastDrawing: null,
      // A stored card counts as having one message below it, so that it can move to the end.
      messagesBelow: ids.length === 0 ? 0 : 1,
      isMoving: false,
      isUnclear: false,
      isRefused: false,
      isWaiting: false,
      failures: 0,
      timer: null,
    };
    this.#states.set(channel, state);
    return state;
  }

  #forgetOne(): void {
    for (const [channel, state] of this.#states) {
      if (!this.#isSettled(state)) continue;
      void state.throttle.stop();
      this.#states.delete(channel);
      return;
    }
  }

  #isSettled({ view, lastDrawing, ids, timer, ...state }: State): boolean {
    const isBusy = state.isMoving || state.isUnclear || state.isRefused || state.isWaiting || state.failures > 0;
    if (isBusy || timer !== null || ids.length > 1) return false;
    if (view === null) return true;
    return view.condition === 'resting' && lastDrawing !== null && this.#isShown(this.#drawingOf(view), lastDrawing);
  }

  async #draw(channel: ChannelId, state: State): Promise<number | null> {
    if (state.isUnclear) return null;
    const isFree = state.view?.holder === null;
    const soonMs = isFree ? state.floorFreedAt + HANDED_OVER_MS - this.#ports.clock.now() : 0;
    if (soonMs > 0) return soonMs;
    state.isWaiting = isFree && this.#ports.isPosting(channel);
    if (state.isWaiting) return null;
    try {
      const waitMs = state.view === null ? null : await this.#show(channel, state, state.view);
      await this.#clear(channel, state);
      Object.assign(state, { failures: 0, isRefused: false });
      this.#countDown(state);
      return waitMs;
    } catch (error) {
      return this.#failed(channel, state, error);
    }
  }

  /** Edits or posts the card. Resolves with the wait in milliseconds if the edit must wait, else with `null`. */
  async #show(channel: ChannelId, state: State, view: FloorView): Promise<number | null> {
    const { rates } = this.#ports;
    const drawing = this.#drawingOf(view);
    this.#considerCrew(state, drawing.crew);
    const [id] = state.ids;
    if (id !== undefined && !state.isMoving) {
      if (this.#isShown(drawing, state.lastDrawing)) return null;
      const soonMs = state.answeredAt + WORK_INTERVAL_MS - this.#ports.clock.now();
      if (soonMs > 0 && state.lastDrawing?.gapMs === WORK_INTERVAL_MS) return soonMs;
      if (!rates.takeEdit()) return INTERVAL_MS;
      const outcome = await rates.change({ channel, id }, drawing.content);
      state.answeredAt = this.#ports.clock.now();
      if (outcome === 'changed') {
        state.lastDrawing = drawing;
        return null;
      }
      state.ids = state.ids.slice(1);
    } else if (id === undefined && !state.hasBegun) return null;
    await this.#post(channel, state, drawing);
    return null;
  }

  #considerCrew(state: State, crew: CrewCard | null): void {
    const asks = crew?.asks ?? [];
    if (state.messagesBelow > 0 && asks.some((each) => !state.crewAsks.includes(each))) state.isMoving = true;
    state.crewAsks = asks;
    state.hasBegun ||= crew?.isBusy === true;
  }

  async #post(channel: ChannelId, state: State, drawing: Drawing): Promise<void> {
    // Reset before the card is sent: messages that arrive during the send can be below the card.
    Object.assign(state, { messagesBelow: 0, isMoving: false });
    try {
      const id = await this.#ports.rates.send(channel, drawing.content);
      Object.assign(state, { ids: [id, ...state.ids], lastDrawing: drawing });
    } catch (error) {
      state.isMoving = state.ids.length > 0;
      state.isUnclear = error instanceof ChatError && error.fault === 'unclear';
      throw error;
    }
    await this.#remember(channel, state);
  }

  async #clear(channel: ChannelId, state: State): Promise<void> {
    for (const id of state.ids.slice(1)) {
      await this.#ports.client.remove({ channel, id });
      state.ids = state.ids.filter((each) => each !== id);
    }
    await this.#remember(channel, state);
  }

  async #remember(channel: ChannelId, { ids }: State): Promise<void> {
    const { memory } = this.#ports;
    const value = ids.join(' ');
    if ((memory.get(keyOf(channel)) ?? '') !== value) await memory.set(keyOf(channel), value);
  }

  #failed(channel: ChannelId, state: State, error: unknown): number | null {
    const { log, requestSearch } = this.#ports;
    const isRefused = !(error instanceof ChatError) || error.fault === 'refused';
    if (isRefused && !state.isRefused)
      log.warn({ channel, err: error }, 'the channel refuses the floor card; retried every minute');
    else log.debug({ channel, err: error }, 'the floor card could not be drawn');
    state.isRefused = isRefused;
    state.failures += 1;
    if (state.isUnclear) requestSearch(channel);
    if (isRefused) return REFUSED_MS;
    return error.retryAfterMs ?? backoffMs(AGAIN, state.failures);
  }

  #countDown(state: State): void {
    const { timeLeftEveryMs } = this.#ports.client.limits;
    state.timer?.cancel();
    state.timer = null;
    if (timeLeftEveryMs === null || this.#isStopped || state.lastDrawing === null || state.lastDrawing.endsAt === null)
      return;
    state.timer = this.#ports.timers.after(timeLeftEveryMs, () => state.throttle.kick());
  }

  #drawingOf(view: FloorView): Drawing {
    const { client, nameOf, queries } = this.#ports;
    const floor = this.#floorCard(view, (at) => client.timeLeft(at));
    const { endsAt } = floor;
    const crewView = queries.crew?.(view.channel, 0) ?? null;
    const crew = crewView === null ? null : crewCard(crewView, view.channel);
    const room = MOST_BUTTONS - floor.buttons.length;
    const buttons = [...floor.buttons, ...fitGroups(crew?.buttons ?? [], room)];
    const review = this.#reviewIn(view.channel);
    const work = [crew?.text, review === null ? undefined : reviewLine(review, nameOf)].flatMap((each) => each ?? []);
    const text = [...work, floor.text].join('\n');
    const withoutTime = JSON.stringify([work, this.#floorCard(view, () => '').text, buttons]);
    return {
      crew,
      gapMs: crew === null && review === null ? INTERVAL_MS : WORK_INTERVAL_MS,
      content: { kind: 'card', speaker: null, text, buttons, epoch: view.epoch, outboxId: null },
      endsAt,
      withoutTime,
    };
  }

  #floorCard(view: FloorView, timeLeft: Parameters<typeof cardOf>[2]): ReturnType<typeof cardOf> {
    const { nameOf, queries } = this.#ports;
    const finishedTicket = view.seats.length > 0 ? null : (queries.pastThread?.(view.channel) ?? null);
    return finishedTicket === null
      ? cardOf(view, nameOf, timeLeft)
      : { text: `✓ ${finishedTicket} is finished.`, buttons: [], endsAt: null };
  }

  #reviewIn(channel: ChannelId): ReviewView | null {
    const review = this.#ports.queries.review?.(channel) ?? null;
    return review?.outcome === null ? review : null;
  }

  #isShown(drawing: Drawing, lastDrawing: Drawing | null): boolean {
    if (lastDrawing === null || drawing.withoutTime !== lastDrawing.withoutTime) return false;
    if (drawing.content.text === lastDrawing.content.text) return true;
    if (this.#ports.client.limits.timeLeftEveryMs !== null || drawing.endsAt === null || lastDrawing.endsAt === null)
      return false;
    return Math.abs(drawing.endsAt - lastDrawing.endsAt) < DEADLINE_MS;
  }
}

/** Returns the questions that are shown in the channel: numbers of requests, and ids of files to trust. */
function questionsOf(view: FloorView | null): readonly (number | string)[] {
  if (view === null) return [];
  const requestNumbers = requestsOn(view).flatMap(({ question }) => (question.shown ? [question.question] : []));
  return [...requestNumbers, ...(view.trust ?? []).flatMap(({ shown, id }) => (shown ? [id] : []))];
}

function keyOf(channel: ChannelId): string {
  return `floor-card:${channel}`;
}
