import { z } from 'zod';
import { backoffMs } from '../../lib/retry.ts';
import type { Instant, Timer } from '../../lib/time.ts';
import type { McpServerConfig } from '../../config/config.ts';
import type { CallOutcome, McpCall, McpConnection, McpPorts } from './mcp-connection.ts';
import { differenceOf } from './mcp-tools.ts';
import type { ServerTool } from './mcp-tools.ts';
import { LoginNeededError } from './server-logins.ts';
import { parsedJson, errorMessage } from '../../lib/defined.ts';

/**
 * One MCP server: started at its first use, stopped after 10 minutes without use. After a failure the server starts
 * again at its next use, at the earliest after its backoff. After five failures without a successful call between them
 * the server stays down until `reset`. A server that needs a login stays down until the login or `reset`.
 */
export class McpServer {
  readonly id: string;
  readonly config: McpServerConfig;
  readonly #ports: McpPorts;
  #connection: Promise<McpConnection> | null = null;
  /** The last list of tools; `null` before the first, after a change of the tools, and after a failure or a stop. */
  #list: Promise<readonly ServerTool[]> | null = null;
  #closing: Promise<unknown> = Promise.resolve();
  #idle: Timer | null = null;
  #busy = 0;
  #failures = 0;
  #notBefore: Instant = -Infinity;
  #why = '';
  #isTrouble = false;
  #needsLogin = false;
  #over = false;
  /**
   * The last accepted definition of each tool, by name; the first counts as accepted. `null` before they are loaded.
   */
  #known: Map<string, KnownTool> | null = null;

  constructor(id: string, config: McpServerConfig, ports: McpPorts) {
    this.id = id;
    this.config = config;
    this.#ports = ports;
  }

  /** Why the server was given up; `null` when it was not given up. */
  get down(): string | null {
    return this.#failures < MOST_FAILURES ? null : this.#why;
  }

  /** Why the server failed since it last listed its tools; `null` when it did not fail. */
  get trouble(): string | null {
    return this.#isTrouble ? this.#why : null;
  }

  /** Lists the current tools. Rejects with an error for people when the server cannot be used now. */
  async tools(): Promise<readonly ServerTool[]> {
    return await this.#use((connection) => (this.#list ??= this.#read(connection)));
  }

  /** Returns the text with which the MCP server explains its tools; empty while the server is not running. */
  async instructions(): Promise<string> {
    const connection = await this.#connection?.catch(() => null);
    return connection?.instructions ?? '';
  }

  /**
   * Returns how a tool's definition differs from the accepted definition; `null` when it does not. Returns `UNCOMPARED`
   * for a tool without a stored definition once no more definitions can be stored.
   */
  changeOf(tool: ServerTool): string | null {
    const known = this.#definitions.get(tool.name);
    if (known === undefined && this.#definitions.size >= MOST_KNOWN) return UNCOMPARED;
    return known === undefined || known.digest === tool.digest ? null : differenceOf(known, tool);
  }

  /**
   * Resolves with why a call of a tool must be refused: the tool's definition changed after it was shown, or the server
   * cannot be used now. `null` when the call may run.
   */
  async whyNot({ name, digest }: ServerTool): Promise<string | null> {
    try {
      const now = (await this.tools()).find((tool) => tool.name === name);
      return now?.digest === digest ? null : 'its definition changed after it was shown';
    } catch (error) {
      return wordsOf(error);
    }
  }

  /** Accepts this definition of a tool: `changeOf` compares later definitions with it, if it can be stored. */
  accept(tool: ServerTool): void {
    if (this.#definitions.get(tool.name)?.digest === tool.digest) return;
    this.#keep([tool]);
  }

  /**
   * Sends a tool call to the server, once. Never rejects: resolves also when the call was not run or its outcome is
   * unknown.
   */
  async call(tool: ServerTool, call: McpCall): Promise<CallOutcome> {
    try {
      const outcome = await this.#use((connection) => connection.call(tool, call));
      if (outcome.code === null) this.#failures = 0;
      // A server knows the tokens of its login and may repeat them in its output.
      return { ...outcome, text: this.#ports.logins?.redact(outcome.text) ?? outcome.text };
    } catch (error) {
      return { text: `The call was not run: ${wordsOf(error)}.`, images: [], isError: true, code: 'TOOL_FAILED' };
    }
  }

  /** Clears all failures and the need for a login, so that the server can start at once. */
  reset(): void {
    this.#needsLogin = false;
    this.#failures = 0;
    this.#notBefore = -Infinity;
  }

  /** Ends the server and its calls. A later use starts the server again. Resolves when the server has ended. */
  async stop(): Promise<void> {
    this.#idle?.cancel();
    const connection = this.#forget();
    this.#closing = Promise.all([this.#closing, closed(connection)]);
    await this.#closing;
  }

  /** Ends the server for good. */
  async close(): Promise<void> {
    this.#over = true;
    await this.stop();
  }

  async #use<T>(work: (connection: McpConnection) => Promise<T>): Promise<T> {
    this.#busy += 1;
    this.#idle?.cancel();
    try {
      return await work(await this.#connected());
    } finally {
      this.#busy -= 1;
      if (this.#busy === 0) this.#idle = this.#ports.timers.after(IDLE_MS, () => void this.stop());
    }
  }

  async #connected(): Promise<McpConnection> {
    if (this.#over) throw new Error('it is not configured any more');
    if (this.#needsLogin && this.#ports.logins?.isReady(this.config) === true) this.reset();
    if (this.#needsLogin) throw new Error(this.#why);
    if (this.#connection !== null) return await this.#connection;
    if (this.down !== null) throw new Error(`it is not tried again after ${MOST_FAILURES} failures: ${this.#why}`);
    const waitMs = this.#notBefore - this.#ports.clock.now();
    if (waitMs > 0) throw new Error(`it is tried again in ${Math.ceil(waitMs / 1_000)} s: ${this.#why}`);
    const connection = this.#connect();
    this.#connection = connection;
    try {
      return await connection;
    } catch (error) {
      if (this.#connection === connection) {
        void this.#forget();
        this.#note(error);
      }
      throw error;
    }
  }

  /** The MCP library is loaded here, because most installations have no server. */
  async #connect(): Promise<McpConnection> {
    await this.#closing;
    const { connectServer } = await import('./mcp-connection.ts');
    const { id, config } = this;
    let opened: McpConnection | null = null;
    const lost = async (why: Error): Promise<void> => {
      if ((await this.#connection?.catch(() => null)) !== opened) return;
      // When a login is needed, only new uses fail: the calls under way go on.
      if (why instanceof LoginNeededError) this.#list = null;
      else void this.#forget();
      this.#note(why);
    };
    opened = await connectServer({
      id,
      config,
      ports: this.#ports,
      changed: () => void (this.#list = null),
      lost: (why) => void lost(why),
    });
    return opened;
  }

  #note(error: unknown): void {
    const why = wordsOf(error);
    this.#needsLogin = error instanceof LoginNeededError;
    this.#failures = this.#needsLogin ? MOST_FAILURES : this.#failures + 1;
    this.#why = why;
    this.#isTrouble = true;
    this.#notBefore = this.#ports.clock.now() + backoffMs(BACKOFF, this.#failures);
    const about = { server: this.id, cause: why, failures: this.#failures };
    this.#ports.log.warn(about, this.down === null ? 'a server of tools failed' : 'a server of tools is given up');
    if (this.down !== null) this.#ports.turned?.(why);
  }

  #forget(): Promise<McpConnection> | null {
    const connection = this.#connection;
    this.#connection = null;
    this.#list = null;
    return connection;
  }

  async #read(connection: McpConnection): Promise<readonly ServerTool[]> {
    try {
      const { tools, refused } = await connection.list();
      for (const why of refused) this.#ports.log.warn({ server: this.id, why }, 'a tool is not used');
      this.#keep(tools.filter(({ name }) => !this.#definitions.has(name)));
      for (const tool of tools) this.#compare(tool);
      this.#isTrouble = false;
      this.#ports.turned?.(null);
      return tools;
    } catch (error) {
      this.#list = null;
      throw error;
    }
  }

  get #definitions(): ReadonlyMap<string, KnownTool> {
    const { memory, name = this.id } = this.#ports;
    this.#known ??= new Map(Object.entries(readKnown(memory?.recall(name) ?? null)));
    return this.#known;
  }

  #keep(tools: readonly ServerTool[]): void {
    const known = new Map(this.#definitions);
    const fits = ({ name }: ServerTool): boolean => known.has(name) || known.size < MOST_KNOWN;
    const kept = tools.filter((tool) => fits(tool) && known.set(tool.name, knownTool.parse(tool)));
    if (kept.length === 0) return;
    this.#known = known;
    const { memory, name = this.id } = this.#ports;
    memory?.remember(name, JSON.stringify(Object.fromEntries(this.#known)));
  }

  #compare(tool: ServerTool): void {
    const change = this.#definitions.has(tool.name) ? this.changeOf(tool) : null;
    if (change !== null) this.#ports.log.warn({ server: this.id, tool: tool.name, change }, 'a tool was changed');
  }
}

async function closed(connection: Promise<McpConnection> | null): Promise<void> {
  const opened = await connection?.catch(() => null);
  await opened?.close();
}

function wordsOf(error: unknown): string {
  return errorMessage(error).replaceAll(/\s+/g, ' ').slice(0, LONGEST_WORDS);
}

const knownTool = z.object({
  digest: z.string(),
  description: z.string(),
  schema: z.record(z.string(), z.unknown()),
  claims: z.object({ readOnly: z.boolean(), closedWorld: z.boolean(), destructive: z.boolean() }),
});
type KnownTool = z.output<typeof knownTool>;

/** Returns the stored definitions; empty when they cannot be parsed: then the next definitions are accepted. */
function readKnown(text: string | null): Readonly<Record<string, KnownTool>> {
  return parsedJson(text ?? '{}', z.record(z.string(), knownTool)) ?? {};
}

const LONGEST_WORDS = 500;
/** Most stored definitions of one server. None is deleted for another: a changed tool could then pass as a new tool. */
const MOST_KNOWN = 1_000;
/** Why Conch cannot compare a tool's definition, for people. */
export const UNCOMPARED = `its server has more than ${MOST_KNOWN} tools, so Conch cannot notice a change of this one`;
/** Time without use after which a server is stopped, in milliseconds. */
const IDLE_MS = 600_000;
const BACKOFF = { firstMs: 1_000, longestMs: 60_000 };
const MOST_FAILURES = 5;
