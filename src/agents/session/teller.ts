import type { AgentCommand } from '../../turns/floor/command.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Applied } from '../../turns/records.ts';
import type { Timers } from '../../lib/time.ts';
import type { Floors, Log } from './floors.ts';

/** Where commands go, and what happens around it. */
export type TellerPorts = {
  readonly channel: ChannelId;
  readonly floors: Pick<Floors, 'apply'>;
  readonly timers: Timers;
  readonly log: Log;
};

/**
 * Hands commands to a floor one after the other, in the order in which they were told. A refused one is dropped; when the
 * floor cannot be written, the command is tried again until it can, or until the teller is closed.
 */
export class Teller {
  readonly #ports: TellerPorts;
  #last: Promise<unknown> = Promise.resolve();
  readonly #closing = Promise.withResolvers<void>();
  #closed = false;

  constructor(ports: TellerPorts) {
    this.#ports = ports;
  }

  /** Resolves when the command was applied, refused or given up (`null`). Never rejects. */
  tell(command: AgentCommand): Promise<Applied | null> {
    const told = this.#last.then(() => this.#carry(command));
    this.#last = told;
    return told;
  }

  /** Resolves when everything told so far is done; nothing is tried again from now on. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#closing.resolve();
    await this.#last;
  }

  async #carry(command: AgentCommand): Promise<Applied | null> {
    const { channel, floors, log } = this.#ports;
    const { type, agent } = command;
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      try {
        const applied = await floors.apply(channel, command);
        if (!applied.ok) log.debug({ channel, agent, command: type, refusal: applied.refusal }, 'command refused');
        return applied;
      } catch (error) {
        log.error({ channel, agent, command: type, attempt, err: error }, 'floor could not be written');
        if (this.#closed) return null;
        await this.#pause(Math.min(RETRY_MS * attempt, LONGEST_RETRY_MS));
      }
    }
    return null;
  }

  async #pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = this.#ports.timers.after(ms, resolve);
    await Promise.race([promise, this.#closing.promise]);
    timer.cancel();
  }
}

const ATTEMPTS = 120;
const RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 30_000;
