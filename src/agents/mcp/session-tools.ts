import { z } from 'zod';
import type { Clock } from '../../lib/time.ts';
import type { SeatContext } from '../backends/backend.ts';
import type { KnownSecrets } from '../tools/known-secrets.ts';
import type { OfferedTool } from '../tools/tool-server.ts';
import { CutOutputs, READ_OUTPUT, READ_OUTPUT_TOOL } from './mcp-output.ts';
import type { McpPool, SeatTools } from './mcp-pool.ts';

/** A session's tools apart from the floor tools. */
export type SessionTools = {
  readonly seat: SeatContext;
  readonly servers: SeatTools;
  readonly secrets: () => KnownSecrets;
  /** True when pictures that tools return are given to the model. */
  readonly images: boolean;
  readonly cutOutputs: CutOutputs;
  /**
   * Returns news since its last call, for an agent that keeps its own conversation: servers whose tools are missing, or
   * are back. Empty without news.
   */
  readonly absences: () => string;
  readonly clock: Clock;
};

/** What agents need to call tools of MCP servers. All agents share one such object. */
export type ServerTools = {
  readonly pool: McpPool;
  /** Secrets that need approval before they are sent. */
  readonly secrets: () => KnownSecrets;
  readonly clock: Clock;
};

/** Returns the servers' tools and `read_output` for an agent that keeps its own conversation; `[]` without any tool. */
export async function offeredTools({ servers, seat }: SessionTools): Promise<readonly OfferedTool[]> {
  const { tools } = await servers.offer(seat.reaches ?? (() => true));
  const { description, input } = READ_OUTPUT_TOOL;
  return tools.length === 0 ? [] : [...tools, { alias: READ_OUTPUT, description, schema: z.toJSONSchema(input) }];
}

/** Makes the tools of a new session. `images`: pictures that tools return are given to the model. */
export function sessionTools(seat: SeatContext, { pool, ...rest }: ServerTools, images: boolean): SessionTools {
  const servers = pool.open(seat);
  return { ...rest, seat, images, servers, cutOutputs: new CutOutputs(), absences: absenceTeller(servers, seat) };
}

function absenceTeller(servers: SeatTools, { reaches = () => true }: SeatContext): () => string {
  const told = new Set<string>();
  return () => {
    const absent = servers.absent(reaches);
    const lost = [...absent].filter(([server]) => !told.has(server));
    const back = [...told].filter((server) => !absent.has(server));
    for (const [server] of lost) told.add(server);
    for (const server of back) told.delete(server);
    return [
      ...lost.map(([, note]) => note),
      ...back.map((server) => `The tools of ${server} are available again.`),
    ].join('\n');
  };
}
