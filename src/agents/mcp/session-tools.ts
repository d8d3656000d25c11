import { z } from 'zod';
import type { Clock } from '../../lib/time.ts';
import type { SeatContext } from '../backends/backend.ts';
import type { KnownSecrets } from '../tools/known-secrets.ts';
import type { OfferedTool } from '../tools/tool-server.ts';
import { KeptOutputs, READ_OUTPUT, READ_OUTPUT_TOOL } from './mcp-output.ts';
import type { McpPool, SeatTools } from './mcp-pool.ts';

/** What a session of a model has of tools beside the floor's. */
export type SessionTools = {
  readonly seat: SeatContext;
  readonly servers: SeatTools;
  readonly secrets: () => KnownSecrets;
  /** Whether the model takes pictures. */
  readonly images: boolean;
  readonly kept: KeptOutputs;
  /** What an agent that keeps its own conversation has not been told yet of servers whose tools are not there, or are again. */
  readonly absences: () => string;
  readonly clock: Clock;
};

/** What all agents that Conch runs tools for have of servers. */
export type ServerTools = {
  readonly pool: McpPool;
  /** What must not leave without a question. */
  readonly secrets: () => KnownSecrets;
  readonly clock: Clock;
};

/** What an agent that keeps its own conversation is told that there is: the servers' tools, and a way to read on in what was cut. */
export async function offeredTools({ servers, seat }: SessionTools): Promise<readonly OfferedTool[]> {
  const { tools } = await servers.offer(seat.reaches ?? (() => true));
  const { description, input } = READ_OUTPUT_TOOL;
  return tools.length === 0 ? [] : [...tools, { alias: READ_OUTPUT, description, schema: z.toJSONSchema(input) }];
}

/** The tools of servers for a session that begins; `images`: it takes pictures. */
export function sessionTools(seat: SeatContext, { pool, ...rest }: ServerTools, images: boolean): SessionTools {
  const servers = pool.open(seat);
  return { ...rest, seat, images, servers, kept: new KeptOutputs(), absences: absenceTeller(servers, seat) };
}

/** Such an agent lists its tools once, and is told of no other list. */
function absenceTeller(servers: SeatTools, { reaches = () => true }: SeatContext): () => string {
  const told = new Set<string>();
  return () => {
    const absent = servers.absent(reaches);
    const gone = [...absent].filter(([server]) => !told.has(server));
    const back = [...told].filter((server) => !absent.has(server));
    for (const [server] of gone) told.add(server);
    for (const server of back) told.delete(server);
    return [...gone.map(([, note]) => note), ...back.map((server) => `The tools of ${server} are there again.`)].join(
      '\n',
    );
  };
}
