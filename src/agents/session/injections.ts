import type { Line } from '../../turns/view.ts';
import type { Timer, Timers } from '../../lib/time.ts';
import type { AgentSession, InjectOutcome } from '../backends/backend.ts';
import type { AgentLog } from './floor-port.ts';

/** A message on its way into a turn; `report` is told its outcome, once. */
export type Injection = {
  readonly line: Line;
  readonly observed: boolean;
  readonly report: (outcome: InjectOutcome) => void;
};

/** What hands messages over to one generation. */
type InjectionPorts = {
  readonly session: AgentSession;
  readonly timers: Timers;
  readonly log: AgentLog;
  readonly coalesceMs: number;
};

/** The messages that come in the middle of one generation: a burst is handed over in one go, in order. */
export class Injections {
  readonly #ports: InjectionPorts;
  #batch: Injection[] = [];
  #timer: Timer | null = null;
  readonly #unanswered = new Set<Promise<void>>();
  readonly #late = Promise.withResolvers<InjectOutcome>();
  #closed = false;
  #abandoned = false;

  constructor(ports: InjectionPorts) {
    this.#ports = ports;
  }

  add(injection: Injection): void {
    if (this.#closed) {
      injection.report('next-prompt');
      return;
    }
    this.#batch = [...this.#batch.flatMap((waiting) => amended(waiting, injection.line)), injection];
    this.#timer ??= this.#ports.timers.after(this.#ports.coalesceMs, () => this.#handOver());
  }

  /**
   * The generation is over: what was not handed over comes with the next prompt. Resolves when every outcome is reported;
   * one that the session does not tell in time counts as not taken.
   */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    for (const { report } of this.#batch.splice(0)) report('next-prompt');
    if (this.#unanswered.size === 0) return;
    const limit = this.#ports.timers.after(OUTCOME_MS, () => this.#late.resolve('next-prompt'));
    await Promise.all(this.#unanswered);
    limit.cancel();
  }

  /** Nobody wants to know any more. */
  abandon(): void {
    this.#closed = true;
    this.#abandoned = true;
    this.#timer?.cancel();
    this.#batch = [];
    this.#late.resolve('next-prompt');
  }

  #handOver(): void {
    this.#timer = null;
    for (const injection of this.#batch.splice(0)) {
      const answered: Promise<void> = this.#hand(injection).finally(() => this.#unanswered.delete(answered));
      this.#unanswered.add(answered);
    }
  }

  async #hand({ line, observed, report }: Injection): Promise<void> {
    const outcome = await this.#outcome(line, observed);
    if (!this.#abandoned) report(outcome);
  }

  async #outcome(line: Line, observed: boolean): Promise<InjectOutcome> {
    const { session, log } = this.#ports;
    try {
      return await Promise.race([session.inject(line, observed), this.#late.promise]);
    } catch (error) {
      log.warn({ message: line.message, err: error }, 'message could not be injected');
      return 'next-prompt';
    }
  }
}

/** An injection that waits to be handed over, when its message changes. A deleted message is not handed over, and its floor expects no outcome. */
function amended(waiting: Injection, { message, change, text, attachments }: Line): readonly Injection[] {
  if (change === null || waiting.line.message !== message) return [waiting];
  if (change === 'edited') return [{ ...waiting, line: { ...waiting.line, text, attachments } }];
  return [];
}

/** How long after a generation's end its session may still tell what became of a message. */
const OUTCOME_MS = 5_000;
