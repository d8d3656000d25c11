import { SimpleShardingStrategy } from '@discordjs/ws';
import type { WebSocketManager, WebSocketShard } from '@discordjs/ws';

/**
 * Runs the connections of Discord's client in this process. A frame that the client does not expect would end the program,
 * and so would what it does by itself afterwards: here that is told to `fault`, and the connection goes on. What it then waits
 * for in vain it notices itself, and connects again.
 */
export class GuardedShards extends SimpleShardingStrategy {
  readonly #fault: (error: unknown) => void;

  constructor(manager: WebSocketManager, fault: (error: unknown) => void) {
    super(manager);
    this.#fault = fault;
  }

  override async spawn(shardIds: number[]): Promise<void> {
    await super.spawn(shardIds);
    for (const shard of this['shards'].values()) this.#guard(shard);
  }

  /** The client calls these three and looks at no rejection. */
  #guard(shard: WebSocketShard): void {
    shard['onMessage'] = this.#guarded(shard['onMessage'].bind(shard));
    shard['onClose'] = this.#guarded(shard['onClose'].bind(shard));
    shard['heartbeat'] = this.#guarded(shard['heartbeat'].bind(shard));
  }

  #guarded<A extends unknown[]>(step: (...given: A) => Promise<void>): (...given: A) => Promise<void> {
    return async (...given) => {
      try {
        await step(...given);
      } catch (error) {
        this.#fault(error);
      }
    };
  }
}
