import { errorMessage } from '../../lib/defined.ts';
import { Alarm } from '../../lib/time.ts';
import type { Clock, Timers } from '../../lib/time.ts';
import { gitIn } from '../../lib/git.ts';
import type { FloorView } from '../../turns/view.ts';
import type { ReviewCommand, ReviewFact, ReviewRefusal } from './review-events.ts';
import { reviewMachine } from './review-binding.ts';
import type { ReviewStore } from './review-binding.ts';
import { briefOf } from './briefs.ts';
import { isOpen } from './review.ts';
import type { Review, ReviewSettings, ReviewState, ReviewedWork } from './review.ts';
import { folderForReviewer, refsOf, sweepReviews } from './leftovers.ts';
import type { StoredReviews } from './leftovers.ts';
import { changesShown, dropWork, hideWork, measureWork, showWork } from './work-tree.ts';

type ReviewsPorts = Omit<StoredReviews, 'states'> & {
  readonly reviews: ReviewStore;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly view: (channel: string) => FloorView | null;
  /**
   * Returns an agent's working folder; `null` for an unknown agent, one whose texts are its work, or a remote one.
   */
  readonly folderOf: (agent: string) => string | null;
  /** Why an agent's session in a channel was last lost or could not be opened; `null` when that is not known. */
  readonly lastCause: (channel: string, agent: string) => string | null;
  /** The model that an agent uses, with its provider; `null` when it is not known. */
  readonly modelOf: (agent: string) => string | null;
  /** The data folder, which is no part of the work. */
  readonly dataDir: string;
};

/** An order for a review. */
export type ReviewOrder = {
  readonly primary: string;
  readonly reviewer: string;
  readonly task: string;
  /** The id of the person who asks for the review. */
  readonly by: string;
  readonly settings: ReviewSettings;
};

/** Why a review was not started. `notSeated` names the agent. "TICKET": the thread belongs to a ticket of a crew. */
type StartRefusal = ReviewRefusal | 'TICKET' | { readonly notSeated: string };

/** Carries out what reviews need outside the store: measures work in folders after turns, and keeps their deadlines. */
export class Reviews {
  readonly #ports: ReviewsPorts;
  readonly #alarm: Alarm;
  /** The measurement of work under way in each channel. Measurements of a channel come one after the other. */
  readonly #measuring = new Map<string, Promise<void>>();
  readonly #clearing = new Set<Promise<void>>();
  #isRunning = false;

  constructor(ports: ReviewsPorts) {
    this.#ports = ports;
    this.#alarm = new Alarm(ports.clock, ports.timers, () => void this.#meet().catch(ports.failed));
    ports.reviews.onChange(({ key, facts, state }) => {
      if (!this.#isRunning) return;
      this.#arm(state);
      if (state.review?.turn?.ended === true && facts.some(({ type }) => type === 'turnOver')) this.#measure(key);
      if (facts.some(({ type }) => type === 'waited')) void this.#explain(key).catch(ports.failed);
      if (facts.some(({ type }) => type === 'reviewEnded') && state.review !== null) this.#clear(state.review);
    });
  }

  /** Continues the reviews that were open when Conch ended. Deletes the leftovers of ended reviews. */
  begin(): void {
    this.#isRunning = true;
    const { reviews } = this.#ports;
    for (const key of reviews.awake()) {
      const state = reviews.state(key);
      this.#arm(state);
      if (state?.review?.turn?.ended === true) this.#measure(key);
    }
    const states = (): readonly ReviewState[] => reviews.keys().flatMap((key) => reviews.state(key) ?? []);
    this.#clearWith(sweepReviews({ ...this.#ports, states }, () => null));
  }

  /** Resolves when no work is being measured or deleted. Unfinished measurements are repeated after the next start. */
  async stop(): Promise<void> {
    this.#isRunning = false;
    this.#alarm.cancel();
    await Promise.all([...this.#measuring.values(), ...this.#clearing]);
  }

  /** Calls the listener with the channel and the facts of every change. */
  onFacts(listener: (channel: string, facts: readonly ReviewFact[]) => void): void {
    this.#ports.reviews.onChange(({ key, facts }) => listener(key, facts));
  }

  /** The reviews of a channel; `null` when it had none. */
  state(channel: string): ReviewState | null {
    return this.#ports.reviews.state(channel);
  }

  /** Returns the open review's instructions for an agent's turn; empty when it is not the agent's turn. */
  briefOf(channel: string, agent: string): string {
    const review = this.state(channel)?.review ?? null;
    return review?.turn?.agent === agent ? briefOf(review) : '';
  }

  /**
   * The path of the reviewer's files in a channel's last review; `null` for none. The folder is deleted at the review's
   * end.
   */
  shownIn(channel: string): string | null {
    return this.state(channel)?.review?.work?.folder ?? null;
  }

  /** Starts a review, and deletes the stored work of the channel's last one. Returns why it cannot start, or `null`. */
  async start(channel: string, order: ReviewOrder): Promise<StartRefusal | null> {
    const { seats = [], task } = this.#ports.view(channel) ?? {};
    if (task?.kind === 'ticket') return 'TICKET';
    const notSeated = [order.primary, order.reviewer].find((each) => !seats.some(({ agent }) => agent === each));
    if (notSeated !== undefined) return { notSeated };
    const { count = 0, review = null } = this.state(channel) ?? {};
    const id = `${channel}-${count + 1}`;
    const refusal = await this.give(channel, await this.#startOf(id, this.#seatedOrder(channel, order)));
    if (refusal === null && review !== null) this.#forget(review);
    return refusal;
  }

  /**
   * Starts a review for a message, at most once for each message, and deletes the stored work of the channel's last
   * review. A refusal is not reported.
   */
  async startFor(message: string, channel: string, order: ReviewOrder): Promise<void> {
    const { count = 0, review = null } = this.state(channel) ?? {};
    const id = `${channel}-${count + 1}`;
    const { reviews, clock } = this.#ports;
    const command = await this.#startOf(id, this.#seatedOrder(channel, order));
    await reviews.applyOnce(`message ${message}`, channel, command, clock.now());
    if (review !== null && this.state(channel)?.review?.id === id) this.#forget(review);
  }

  #seatedOrder(channel: string, order: ReviewOrder): ReviewOrder {
    const { fallback, ...settings } = order.settings;
    const seats = this.#ports.view(channel)?.seats ?? [];
    return seats.some(({ agent }) => agent === fallback) ? order : { ...order, settings };
  }

  async #startOf(id: string, order: ReviewOrder): Promise<ReviewCommand> {
    await this.#markStart(id, order.primary, 'HEAD');
    const isText = this.#ports.folderOf(order.primary) === null;
    const [model, other] = [order.primary, order.reviewer].map((agent) => this.#ports.modelOf(agent));
    const same = model != null && model === other ? { sameModel: model } : {};
    return { type: 'START', id, ...order, ...same, ...(isText ? { textOnly: true as const } : {}) };
  }

  /**
   * Stores finished work of an agent as the first work of the review with this id, and checks it out for reviewers.
   * Throws when git fails, or the agent works in no repository. `base`: the commit at which the work began.
   */
  async finishedWork(id: string, agent: string, base: string): Promise<ReviewedWork> {
    await this.#markStart(id, agent, base);
    const work = await this.#storedWork(id, agent, '0', null);
    if (work === null) throw new Error(`${agent} works in no git repository, so its work cannot be reviewed`);
    return work;
  }

  /**
   * Returns the changes of the work since the newest verdict; before the first verdict, since the commit at which the
   * work began. When that commit is not known, returns the changes that were not committed. `null` without stored work
   * in a repository. Throws when git fails.
   */
  async diff({ id, primary, work, reviewed }: Review): Promise<string | null> {
    const folder = this.#ports.folderOf(primary);
    if (folder === null || work === null || work.commit === null) return null;
    const git = gitIn(folder, this.#ports.env);
    const start = git(['rev-parse', '--verify', '--quiet', this.#startOfWork(id)]).then(
      (commit) => commit.trim(),
      () => null,
    );
    return await changesShown(this.#ports.env, folder, reviewed?.commit ?? (await start), work.commit);
  }

  async #markStart(id: string, agent: string, commit: string): Promise<void> {
    const folder = this.#ports.folderOf(agent);
    if (folder !== null)
      await gitIn(folder, this.#ports.env)(['update-ref', this.#startOfWork(id), commit]).catch(() => null);
  }

  #startOfWork(id: string): string {
    return `${refsOf(this.#ports, id)}/start`;
  }

  /** Gives a command to the review of a channel. Returns why it was refused, or `null`. */
  async give(channel: string, command: ReviewCommand): Promise<ReviewRefusal | null> {
    const applied = await this.#ports.reviews.apply(channel, command, this.#ports.clock.now());
    return applied.ok ? null : applied.refusal;
  }

  #measure(channel: string): void {
    const before = this.#measuring.get(channel) ?? Promise.resolve();
    const measured: Promise<void> = before
      .then(() => this.#measured(channel))
      .catch(this.#ports.failed)
      .finally(() => {
        if (this.#measuring.get(channel) === measured) this.#measuring.delete(channel);
      });
    this.#measuring.set(channel, measured);
  }

  async #measured(channel: string): Promise<void> {
    const review = this.state(channel)?.review ?? null;
    if (!isOpen(review) || review.turn?.ended !== true || review.turn.epoch === null) return;
    const { turn, primary } = review;
    try {
      const work = await this.#workOf(review);
      if (work === null && review.work?.commit != null) throw new Error('its folder is in no git repository any more');
      if (this.#isRunning) await this.give(channel, { type: 'MEASURED', epoch: review.turn.epoch, work });
    } catch (error) {
      const why = `git could not read the work: ${errorMessage(error)}`;
      if (turn !== null && this.#isRunning) await this.give(channel, { type: 'UNABLE', agent: primary, why });
    }
  }

  #workOf({ id, primary, iteration, turn, reviewed }: Review): Promise<ReviewedWork | null> {
    const name = `${iteration}${turn?.agent === primary ? '' : '-after'}`;
    return this.#storedWork(id, primary, name, reviewed);
  }

  /**
   * Stores an agent's work under a ref that ends in `name`, and checks it out for reviewers. `before`: the work to
   * compare with. Returns `null` without a repository.
   */
  async #storedWork(
    id: string,
    agent: string,
    name: string,
    before: ReviewedWork | null,
  ): Promise<ReviewedWork | null> {
    const folder = this.#ports.folderOf(agent);
    if (folder === null) return null;
    const ref = `${refsOf(this.#ports, id)}/${name}`;
    const work = await measureWork(this.#ports.env, folder, ref, before, this.#ports.dataDir);
    if (work === null || work.commit === null) return work;
    const place = folderForReviewer(this.#ports, id);
    await showWork(this.#ports.env, folder, work.commit, place);
    return { ...work, folder: place };
  }

  /**
   * Deletes the stored work of a review. For a ticket, deletes that of all its reviews, also of reviews in earlier
   * assignments that never began. Their ids differ in the part of the session.
   */
  #forget({ id, primary, ticket }: Review): void {
    const folder = this.#ports.folderOf(primary);
    const [, thread] = (ticket === undefined ? null : /^(.*)-[0-9a-f]{8}-\d+$/.exec(id)) ?? [];
    const refs = thread === undefined ? refsOf(this.#ports, id) : `${refsOf(this.#ports, thread)}-${SESSION}-*`;
    if (folder !== null) this.#clearWith(dropWork(this.#ports.env, folder, `${refs}/*`));
  }

  /**
   * Called when a review has ended: removes the folder that its reviewer read. The stored work stays, except that of a
   * ticket's review.
   */
  #clear(review: Review): void {
    const { id, primary, ticket } = review;
    if (ticket !== undefined) this.#forget(review);
    const folder = this.#ports.folderOf(primary);
    if (folder !== null) this.#clearWith(hideWork(this.#ports.env, folder, folderForReviewer(this.#ports, id)));
  }

  #clearWith(clearing: Promise<unknown>): void {
    const cleared: Promise<void> = clearing
      .then(() => undefined, this.#ports.failed)
      .finally(() => this.#clearing.delete(cleared));
    this.#clearing.add(cleared);
  }

  /**
   * Tells a review that waits for its agents why one is offline. The floor does not know why an agent never connected.
   */
  async #explain(key: string): Promise<void> {
    const { view, lastCause } = this.#ports;
    const review = this.state(key)?.review ?? null;
    if (review?.waiting?.for !== 'agents') return;
    const seats = view(key)?.seats ?? [];
    const away = [review.primary, review.reviewer].find(
      (member) => seats.find(({ agent }) => agent === member)?.status === 'OFFLINE',
    );
    const why = away === undefined ? null : lastCause(key, away);
    if (away !== undefined && why !== null) await this.give(key, { type: 'LOST', agent: away, why });
  }

  async #meet(): Promise<void> {
    const { reviews, clock } = this.#ports;
    const { keys, next } = await reviews.due(clock.now());
    for (const key of keys) {
      await this.#explain(key);
      await this.give(key, { type: 'TICK' });
    }
    if (this.#isRunning) this.#alarm.noLaterThan(next);
  }

  #arm(state: ReviewState | null): void {
    if (state !== null) this.#alarm.noLaterThan(reviewMachine.nextDeadline(state));
  }
}

/** Matches the part of a session in the id of a ticket's review, in patterns of git. */
const SESSION = '[0-9a-f]'.repeat(8);
