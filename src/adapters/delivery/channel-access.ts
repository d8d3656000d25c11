import { delay } from '../../lib/retry.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { AdapterParts, Intake } from '../port.ts';
import { reasonOf } from './connect-retry.ts';

/** Dependencies of `ChannelAccess`. */
export type ChannelAccessPorts = Pick<AdapterParts, 'timers' | 'signal' | 'log'> & {
  /**
   * Asks the platform whether Conch can use a channel. Resolves with the reason if it cannot, else with `null`. Rejects
   * when the platform gives an error or no answer.
   */
  readonly ask: (channel: ChannelId) => Promise<string | null>;
  /** Returns the reason if a call's error says that the channel is closed. Returns `null` for other errors. */
  readonly whyClosed: (error: unknown) => string | null;
  /** Returns the floors that are suspended and restored with a channel. */
  readonly floorsOf: (channel: ChannelId) => readonly ChannelId[];
  readonly intake: Pick<Intake, 'suspend' | 'restore'>;
  /** Called when calls that a channel refused can be tried again. */
  readonly reopened: (channel: ChannelId) => void;
};

/**
 * How often a channel that the platform calls closed is checked again, in milliseconds. Platforms do not report every
 * change.
 */
export const ASK_AGAIN_MS = 60_000;
/**
 * After this many refused calls without a post between them, a channel is closed although the platform reports it as
 * open.
 */
const REFUSALS_TO_CLOSE = 3;
/**
 * A channel that refused calls closed is checked with the platform at this timer check at the latest. Timer checks are
 * one minute apart.
 */
const CHECKS_TO_TRIAL = 10;

type Closed = { readonly why: string; readonly isByRefusals: boolean };
/** Why a channel is checked: a reason that the platform reported, or the reason of a refused call. */
type Causes = { reported?: string; refusal?: string };
type Check = { readonly causes: Causes; done: Promise<void> | null };

/**
 * Tracks which channels of a platform can be used. After a refused call, the platform is asked before the channel's
 * floors are suspended. A timer asks the platform about a closed channel every minute, and opens it by the answer. A
 * channel that was closed by three refused calls, although the platform reports it as open, stays closed for up to 10
 * minutes before the platform is asked. No method rejects.
 */
export class ChannelAccess {
  readonly #ports: ChannelAccessPorts;
  readonly #closed = new Map<ChannelId, Closed>();
  readonly #refusals = new Map<ChannelId, number>();
  readonly #checks = new Map<ChannelId, Check>();
  readonly #pendingChecks = new Set<ChannelId>();

  constructor(ports: ChannelAccessPorts) {
    this.#ports = ports;
  }

  isClosed(channel: ChannelId): boolean {
    return this.#closed.has(channel);
  }

  /**
   * Called when a call to the platform for the channel failed. Checks the channel if the error says that it is closed,
   * and if the channel is not marked as closed yet.
   */
  callFailed(channel: ChannelId, error: unknown): void {
    const why = this.#ports.whyClosed(error);
    if (why === null || this.#closed.has(channel)) return;
    this.#refusals.set(channel, (this.#refusals.get(channel) ?? 0) + 1);
    void this.check(channel, { refusal: why });
  }

  /** Called when a post to the channel succeeded after a failed call. Opens a closed channel. */
  postSucceeded(channel: ChannelId): void {
    this.#refusals.delete(channel);
    if (this.#closed.has(channel)) this.open(channel);
  }

  /** Marks the channel as usable and restores its floors. */
  open(channel: ChannelId): void {
    if (this.#closed.delete(channel)) this.#ports.reopened(channel);
    for (const floor of this.#ports.floorsOf(channel)) this.#ports.intake.restore(floor);
  }

  /**
   * Marks the channel as unusable and suspends its floors. `isByRefusals`: the platform reports the channel as open,
   * but refuses calls there.
   */
  close(channel: ChannelId, why: string, isByRefusals = false): void {
    this.#closed.set(channel, { why, isByRefusals });
    for (const floor of this.#ports.floorsOf(channel)) this.#ports.intake.suspend(floor, why);
    this.#askLater(channel, 1);
  }

  /**
   * Asks the platform about a channel, and closes or opens the channel by the answer. A second check of a channel waits
   * for the running one. `reported`: a reason that the platform sent earlier. It closes the channel if the check fails
   * without a reason. `refusal`: why a call was refused. After three refusals without a post between them, it closes a
   * channel that the platform reports as open.
   */
  async check(channel: ChannelId, causes: Readonly<Causes> = {}): Promise<void> {
    const check = this.#checks.get(channel) ?? { causes: {}, done: null };
    this.#checks.set(channel, check);
    Object.assign(check.causes, causes);
    check.done ??= this.#ask(channel, check.causes).finally(() => this.#checks.delete(channel));
    await check.done;
  }

  async #ask(channel: ChannelId, causes: Readonly<Causes>): Promise<void> {
    const { ask, whyClosed, reopened, log } = this.#ports;
    try {
      const reason = await ask(channel);
      if (reason !== null) return this.close(channel, reason);
      const { refusal } = causes;
      if (refusal === undefined) return this.open(channel);
      log.warn({ channel, why: refusal }, 'the channel refused a message, though it is open');
      if ((this.#refusals.get(channel) ?? 0) >= REFUSALS_TO_CLOSE) return this.close(channel, refusal, true);
      reopened(channel);
    } catch (error) {
      const reason = whyClosed(error) ?? causes.reported ?? null;
      const level = this.isClosed(channel) ? 'debug' : 'warn';
      log[level]({ channel, why: reasonOf(error) }, 'a channel could not be checked');
      if (reason !== null) this.close(channel, reason);
    }
  }

  #askLater(channel: ChannelId, checks: number): void {
    if (this.#pendingChecks.has(channel)) return;
    this.#pendingChecks.add(channel);
    const again = async (): Promise<void> => {
      await delay(ASK_AGAIN_MS, this.#ports);
      this.#pendingChecks.delete(channel);
      const closed = this.#closed.get(channel);
      if (closed === undefined) return;
      if (!closed.isByRefusals || checks >= CHECKS_TO_TRIAL) await this.check(channel);
      if (this.#closed.has(channel)) this.#askLater(channel, checks + 1);
    };
    again().catch(() => this.#pendingChecks.delete(channel));
  }
}
