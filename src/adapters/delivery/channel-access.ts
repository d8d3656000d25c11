import { delay } from '../../lib/retry.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { AdapterParts, Intake } from '../port.ts';
import { reasonOf } from './connect-retry.ts';

/** What knowing whether channels can be used needs. */
export type ChannelAccessPorts = Pick<AdapterParts, 'timers' | 'signal' | 'log'> & {
  /** Asks the platform: why a channel cannot be used, `null` when it can. Rejects when the platform does not say. */
  readonly ask: (channel: ChannelId) => Promise<string | null>;
  /** Why nothing can be said in a channel, if that is what an error means; `null` for every other error. */
  readonly whyClosed: (error: unknown) => string | null;
  /** The floors that live and die with a channel. */
  readonly floorsOf: (channel: ChannelId) => readonly ChannelId[];
  readonly intake: Pick<Intake, 'suspend' | 'restore'>;
  /** What was refused in a channel may be tried again. */
  readonly reopened: (channel: ChannelId) => void;
};

/** A channel that is closed is asked about again after so long: what changed is not always told. */
export const ASK_AGAIN_MS = 60_000;
/** What a channel refuses though the platform says that it is open is believed after so many times in a row. */
const REFUSALS_BELIEVED = 3;
/** One that was closed so opens again after so many questions, for a trial. */
const QUESTIONS_TO_TRIAL = 10;

type Closed = { readonly why: string; readonly isDespite: boolean };

/**
 * Which channels of a platform can be used. A call that is refused is no proof: the platform is asked before a channel's floors
 * are suspended, and every minute until it can be used again. Nothing here rejects.
 */
export class ChannelAccess {
  readonly #ports: ChannelAccessPorts;
  readonly #closed = new Map<ChannelId, Closed>();
  /** How often an open channel has refused something since something was written there. */
  readonly #refusals = new Map<ChannelId, number>();
  readonly #asking = new Map<ChannelId, Promise<void>>();
  readonly #awaited = new Set<ChannelId>();

  constructor(ports: ChannelAccessPorts) {
    this.#ports = ports;
  }

  isClosed(channel: ChannelId): boolean {
    return this.#closed.has(channel);
  }

  /** A call for the channel failed. */
  failed(channel: ChannelId, error: unknown): void {
    const why = this.#ports.whyClosed(error);
    if (why === null || this.#closed.has(channel)) return;
    this.#refusals.set(channel, (this.#refusals.get(channel) ?? 0) + 1);
    void this.check(channel, { refusal: why });
  }

  /** The channel took a message. */
  written(channel: ChannelId): void {
    this.#refusals.delete(channel);
    if (this.#closed.has(channel)) this.open(channel);
  }

  /** The channel can be used. */
  open(channel: ChannelId): void {
    if (this.#closed.delete(channel)) this.#ports.reopened(channel);
    for (const floor of this.#ports.floorsOf(channel)) this.#ports.intake.restore(floor);
  }

  /** The channel cannot be used, for certain. */
  close(channel: ChannelId, why: string, isDespite = false): void {
    this.#closed.set(channel, { why, isDespite });
    for (const floor of this.#ports.floorsOf(channel)) this.#ports.intake.suspend(floor, why);
    this.#askLater(channel, 1);
  }

  /** Asks how it is with a channel. `told` is what the platform said of it, which counts if it cannot be asked. */
  async check(channel: ChannelId, why: { readonly told?: string; readonly refusal?: string } = {}): Promise<void> {
    const asking = this.#asking.get(channel) ?? this.#ask(channel, why).finally(() => this.#asking.delete(channel));
    this.#asking.set(channel, asking);
    await asking;
  }

  async #ask(
    channel: ChannelId,
    { told, refusal }: { readonly told?: string; readonly refusal?: string },
  ): Promise<void> {
    const { ask, whyClosed, reopened, log } = this.#ports;
    try {
      const found = await ask(channel);
      if (found !== null) return this.close(channel, found);
      if (refusal === undefined) return this.open(channel);
      log.warn({ channel, why: refusal }, 'the channel refused a message, though it is open');
      if ((this.#refusals.get(channel) ?? 0) >= REFUSALS_BELIEVED) return this.close(channel, refusal, true);
      reopened(channel);
    } catch (error) {
      const found = whyClosed(error) ?? told ?? null;
      log[this.isClosed(channel) ? 'debug' : 'warn'](
        { channel, why: reasonOf(error) },
        'a channel could not be looked at',
      );
      if (found !== null) this.close(channel, found);
    }
  }

  #askLater(channel: ChannelId, questions: number): void {
    if (this.#awaited.has(channel)) return;
    this.#awaited.add(channel);
    const again = async (): Promise<void> => {
      await delay(ASK_AGAIN_MS, this.#ports);
      this.#awaited.delete(channel);
      const closed = this.#closed.get(channel);
      if (closed === undefined) return;
      if (!closed.isDespite || questions >= QUESTIONS_TO_TRIAL) await this.check(channel);
      if (this.#closed.has(channel)) this.#askLater(channel, questions + 1);
    };
    again().catch(() => this.#awaited.delete(channel));
  }
}
