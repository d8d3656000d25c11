import { errorMessage } from '../../lib/defined.ts';
import type { McpServerConfig } from '../../config/config.ts';
import type { SeatContext } from '../backends/backend.ts';
import { parseSessionId } from '../../turns/floor/seats.ts';
import type { AgentId } from '../../turns/floor/settings.ts';
import { McpServer } from './mcp-server.ts';
import type { CallOutcome, McpCall, McpPorts } from './mcp-connection.ts';
import type { ServerTool } from './mcp-tools.ts';

/** The configured MCP servers, by id. */
export type McpConfig = Readonly<Record<string, McpServerConfig>>;

/**
 * True when the rules can allow this tool of a server. `tool` is `null`: when they can allow any tool of the server.
 */
type Reaches = (server: string, tool: string | null) => boolean;

/** The tools of MCP servers that an agent gets now, with notes for its model. */
export type OfferedTools = {
  readonly tools: readonly ServerTool[];
  /** Tools that the rules always deny: their calls are answered with a refusal, not run. */
  readonly withheld: readonly ServerTool[];
  /**
   * Servers for which the rules deny every tool. They are not started. Calls to their tools are answered with a
   * refusal.
   */
  readonly unused: readonly string[];
  /** Servers whose tools are missing, each with a note for the model. */
  readonly absent: ReadonlyMap<string, string>;
  /** Notes for the model about missing tools: those of `absent`, and the number of tools beyond the limits. */
  readonly notes: readonly string[];
  /** The servers' instructions for their use, where the configuration includes them. */
  readonly instructions: readonly { readonly server: string; readonly text: string }[];
};

/** The tools of MCP servers for one seat. */
export type SeatTools = {
  /** Starts the servers that the agent may use and lists their tools. Never rejects. */
  offer(reaches: Reaches): Promise<OfferedTools>;
  /** Notes for the agent about servers whose tools are missing. Starts nothing. */
  absent(reaches: Reaches): ReadonlyMap<string, string>;
  /**
   * Returns what changed in a tool's definition since it was accepted, or why Conch cannot compare; `null` for no
   * change.
   */
  changeOf(tool: ServerTool): string | null;
  /**
   * Accepts the tool's definition and carries out an allowed call, once. Does neither when the definition changed after
   * it was shown, or the server cannot be used. Never rejects.
   */
  call(tool: ServerTool, call: McpCall): Promise<CallOutcome>;
  configOf(tool: ServerTool): McpServerConfig | null;
  /** Releases the seat's servers. Ends servers that no other seat uses. */
  close(): Promise<void>;
};

/** Most tools of one agent, most bytes of their definitions, and the number of tools from which the log warns. */
const MOST_TOOLS = 64;
const LONGEST_DEFINITIONS = 64 * 1_024;
const MANY_TOOLS = 25;

/**
 * All MCP servers. Each agent has an instance of each configured server. With `share: seat`, each of its seats has one.
 */
export class McpPool {
  readonly #config: () => McpConfig;
  readonly #ports: McpPorts;
  readonly #servers = new Map<string, { readonly server: McpServer; readonly seats: Set<Seat> }>();
  readonly #warned = new Set<string>();
  /** Keys of server, agent and channel, for each channel that was told that the server is given up. */
  readonly #toldChannels = new Set<string>();

  constructor(config: () => McpConfig, ports: McpPorts) {
    this.#config = config;
    this.#ports = ports;
  }

  /** Gives a seat access to the servers. Starts nothing, but lets servers that were given up start again. */
  open(seat: Seat): SeatTools {
    const { agent } = seat;
    const servers = (): readonly McpServer[] => {
      const config = this.#config();
      this.#prune(config);
      return Object.entries(config).map(([id, each]) => this.#serverFor(id, each, seat));
    };
    const serverOf = (tool: ServerTool): McpServer | undefined => servers().find(({ id }) => id === tool.server);
    for (const server of servers()) if (server.down !== null) server.reset();
    return {
      offer: (reaches) => this.#offer(servers(), reaches, agent),
      absent(reaches) {
        const missing = servers().flatMap(({ id, trouble }) =>
          trouble !== null && reaches(id, null) ? [[id, absenceOf(id, trouble)] as const] : [],
        );
        return new Map(missing);
      },
      changeOf: (tool) => serverOf(tool)?.changeOf(tool) ?? null,
      configOf: (tool) => serverOf(tool)?.config ?? null,
      async call(tool, call) {
        const server = serverOf(tool);
        const why = server === undefined ? 'its server is gone' : await server.whyNot(tool);
        if (server === undefined || why !== null)
          return { text: `The call was not run: ${why}.`, images: [], isError: true, code: 'TOOL_FAILED' };
        server.accept(tool);
        return await server.call(tool, call);
      },
      close: () => this.#leave(seat),
    };
  }

  /** True when any server is configured. */
  get isUsed(): boolean {
    return Object.keys(this.#config()).length > 0;
  }

  /** Ends every server. */
  async close(): Promise<void> {
    const all = [...this.#servers.values()];
    this.#servers.clear();
    await Promise.all(all.map(({ server }) => server.close()));
  }

  #serverFor(id: string, config: McpServerConfig, seat: Seat): McpServer {
    const key = [id, seat.agent, ...(config.share === 'seat' ? [seat.channel] : [])].join(' ');
    const known = this.#servers.get(key);
    if (known !== undefined && same(known.server.config, config)) {
      known.seats.add(seat);
      return known.server;
    }
    void known?.server.close();
    const turned = (why: string | null): void => this.#tell(key, id, why);
    const server = new McpServer(id, config, {
      ...this.#ports,
      turned,
      name: key,
      sandbox: this.#ports.sandboxOf?.(seat.agent),
    });
    this.#servers.set(key, { server, seats: new Set([...(known?.seats ?? []), seat]) });
    return server;
  }

  #tell(key: string, id: string, why: string | null): void {
    for (const { channel, tellTools, reaches } of this.#servers.get(key)?.seats ?? []) {
      const told = `${key} ${parseSessionId(channel).channel}`;
      if (this.#toldChannels.has(told) === (why !== null) || reaches?.(id, null) === false) continue;
      if (why === null) this.#toldChannels.delete(told);
      else this.#toldChannels.add(told);
      tellTools?.(id, why);
    }
  }

  #prune(config: McpConfig): void {
    for (const [key, { server }] of this.#servers) {
      if (Object.hasOwn(config, server.id)) continue;
      this.#servers.delete(key);
      for (const told of this.#toldChannels) if (told.startsWith(`${key} `)) this.#toldChannels.delete(told);
      void server.close();
    }
  }

  async #leave(seat: Seat): Promise<void> {
    const ended: Promise<void>[] = [];
    for (const [key, { server, seats }] of this.#servers) {
      seats.delete(seat);
      if (seats.size > 0) continue;
      this.#servers.delete(key);
      ended.push(server.close());
    }
    await Promise.all(ended);
  }

  async #offer(servers: readonly McpServer[], reaches: Reaches, agent: AgentId): Promise<OfferedTools> {
    const [used, unused] = [
      servers.filter(({ id }) => reaches(id, null)),
      servers.filter(({ id }) => !reaches(id, null)),
    ];
    const all = await Promise.all(used.map(toolsOf));
    const listed = all.flatMap(({ tools }) => tools);
    const wanted = listed.filter((tool) => reaches(tool.server, tool.name));
    const withheld = listed.filter((tool) => !wanted.includes(tool));
    const tools = fitting(wanted);
    if (wanted.length >= MANY_TOOLS) this.#warn(agent, wanted.length, tools.length);
    const left = wanted.length - tools.length;
    const absent = new Map(all.flatMap(({ server, note }) => (note === undefined ? [] : [[server, note] as const])));
    const notes = [...absent.values()];
    return {
      tools,
      withheld,
      unused: unused.map(({ id }) => id),
      absent,
      notes: left === 0 ? notes : [...notes, `${left} more tools are not offered: there are too many.`],
      instructions: all.flatMap(({ instructions }) => instructions ?? []),
    };
  }

  #warn(agent: AgentId, tools: number, offered: number): void {
    const key = `${agent} ${tools} ${offered}`;
    if (this.#warned.has(key)) return;
    this.#warned.add(key);
    this.#ports.log.warn({ agent, tools, offered }, 'an agent has many tools: models choose badly among them');
  }
}

type Seat = Pick<SeatContext, 'agent' | 'channel' | 'reaches' | 'tellTools'>;

type Listed = {
  readonly server: string;
  readonly tools: readonly ServerTool[];
  readonly note?: string;
  readonly instructions?: OfferedTools['instructions'][number];
};

async function toolsOf(server: McpServer): Promise<Listed> {
  const { id } = server;
  try {
    const tools = await server.tools();
    const text = server.config.instructions ? await server.instructions() : '';
    return { server: id, tools, ...(text === '' ? {} : { instructions: { server: id, text } }) };
  } catch (error) {
    return { server: id, tools: [], note: absenceOf(id, errorMessage(error)) };
  }
}

function absenceOf(server: string, why: string): string {
  return `The tools of ${server} are unavailable: ${why}`;
}

function fitting(tools: readonly ServerTool[]): readonly ServerTool[] {
  let left = LONGEST_DEFINITIONS;
  return tools.slice(0, MOST_TOOLS).filter(({ alias, description, schema }) => {
    const size = Buffer.byteLength(JSON.stringify([alias, description, schema]));
    if (size > left) return false;
    left -= size;
    return true;
  });
}

function same(one: McpServerConfig, other: McpServerConfig): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
