import type { AgentCommand } from '../../turns/floor/command.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Applied } from '../../turns/records.ts';
import { KeyedQueue } from '../../lib/keyed-queue.ts';
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

/**
 * Hands commands to a floor one after the other, in the order in which they were sent. A refused one is dropped; when the
 * floor cannot be written, the command is tried again until it can, or until the queue is closed.
 */
export class CommandQueue {
  readonly #ports: CommandQueuePorts;
  readonly #queue = new KeyedQueue<ChannelId>();
  readonly #closing = new AbortController();

  constructor(ports: CommandQueuePorts) {
    this.#ports = ports;
  }

  /** Resolves when the command was applied, refused or given up (`null`). Never rejects. */
  send(command: AgentCommand): Promise<Applied | null> {
    return this.#queue.run(this.#ports.channel, () => this.#carry(command));
  }

  /** Resolves when everything sent so far is done; nothing is tried again from now on. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#queue.settled();
  }

  async #carry(command: AgentCommand): Promise<Applied | null> {
    const { channel, floors, timers, log } = this.#ports;
    const { type, agent } = command;
    const { signal } = this.#closing;
    const about = { channel, agent, command: type };
    // What waited when the queue was closed is still tried once.
    const ports = signal.aborted ? { timers } : { timers, signal };
    try {
      const applied = await retry(() => floors.apply(channel, command), POLICY, {
        ...ports,
        judge: ({ error, failures }) => {
          log.error({ ...about, attempt: failures, err: error }, 'floor could not be written');
          return signal.aborted ? 'give-up' : 'again';
        },
      });
      if (!applied.ok) log.debug({ ...about, refusal: applied.refusal }, 'command refused');
      return applied;
    } catch {
      return null;
    }
  }
}

const POLICY: RetryPolicy = { firstMs: 1_000, longestMs: 30_000, attempts: 120 };
