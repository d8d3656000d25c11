import type { AgentCommand } from '../../turns/floor/command.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Applied } from '../../turns/floor-machine.ts';
import { retry } from '../../lib/retry.ts';
import type { RetryPolicy } from '../../lib/retry.ts';
import type { Timers } from '../../lib/time.ts';
import type { FloorPort, AgentLog } from './floor-port.ts';

/** Where commands go, and what happens around it. */
export type CommandQueuePorts = {
  readonly channel: ChannelId;
  readonly floors: Pick<FloorPort, 'apply'>;
  readonly timers: Timers;
  readonly log: AgentLog;
};

type Waiting = { readonly command: AgentCommand; readonly resolve: (applied: Applied | null) => void };

/**
 * Hands commands to a floor in the order in which they were sent; those that wait together are handed over together, and
 * share a commit. A refused one is dropped; when the floor cannot be written, what was not is tried again until it can be,
 * or until the queue is closed.
 */
export class CommandQueue {
  readonly #ports: CommandQueuePorts;
  readonly #closing = new AbortController();
  #waiting: Waiting[] = [];
  #carrying: Promise<void> | null = null;

  constructor(ports: CommandQueuePorts) {
    this.#ports = ports;
  }

  /** Resolves when the command was applied, refused or given up (`null`). Never rejects. */
  send(command: AgentCommand): Promise<Applied | null> {
    const { promise, resolve } = Promise.withResolvers<Applied | null>();
    this.#waiting.push({ command, resolve });
    this.#carrying ??= this.#carryAll();
    return promise;
  }

  /** Resolves when everything sent so far is done; nothing is tried again from now on. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#carrying;
  }

  async #carryAll(): Promise<void> {
    // What else is sent in this task goes along.
    await Promise.resolve();
    while (this.#waiting.length > 0) await this.#carry(this.#waiting.splice(0));
    this.#carrying = null;
  }

  async #carry(batch: readonly Waiting[]): Promise<void> {
    const { channel, timers, log } = this.#ports;
    const { signal } = this.#closing;
    let left = batch;
    // What waited when the queue was closed is still tried once.
    const ports = signal.aborted ? { timers } : { timers, signal };
    const attempt = async (): Promise<void> => {
      const outcomes = await Promise.allSettled(left.map((each) => this.#apply(each)));
      left = left.filter((_, index) => outcomes[index]?.status === 'rejected');
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
    };
    try {
      await retry(attempt, POLICY, {
        ...ports,
        judge: ({ error, failures }) => {
          const { type, agent } = left[0]?.command ?? {};
          log.error({ channel, agent, command: type, attempt: failures, err: error }, 'floor could not be written');
          return signal.aborted ? 'give-up' : 'again';
        },
      });
    } catch {
      for (const { resolve } of left) resolve(null);
    }
  }

  async #apply({ command, resolve }: Waiting): Promise<void> {
    const { channel, floors, log } = this.#ports;
    const applied = await floors.apply(channel, command);
    const { type, agent } = command;
    if (!applied.ok) log.debug({ channel, agent, command: type, refusal: applied.refusal }, 'command refused');
    resolve(applied);
  }
}

const POLICY: RetryPolicy = { firstMs: 1_000, longestMs: 30_000, attempts: 120 };
