import type { Clock } from '../../lib/time.ts';
import type { SeatContext } from '../backends/backend.ts';
import type { KnownSecrets } from '../tools/known-secrets.ts';
import { KeptOutputs } from './mcp-output.ts';
import type { McpPool, SeatTools } from './mcp-pool.ts';

/** What a session of a model has of tools beside the floor's. */
export type SessionTools = {
  readonly seat: SeatContext;
  readonly servers: SeatTools;
  readonly secrets: () => KnownSecrets;
  /** Whether the model takes pictures. */
  readonly images: boolean;
  readonly kept: KeptOutputs;
  readonly clock: Clock;
};

/** What all agents that Conch runs tools for have of servers. */
export type ServerTools = {
  readonly pool: McpPool;
  /** What must not leave without a question. */
  readonly secrets: () => KnownSecrets;
  readonly clock: Clock;
};

/** The tools of servers for a session that begins; `images`: it takes pictures. */
export function sessionTools(seat: SeatContext, { pool, ...rest }: ServerTools, images: boolean): SessionTools {
  return { ...rest, seat, images, servers: pool.open(seat), kept: new KeptOutputs() };
}
