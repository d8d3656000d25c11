import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { AgentBackend, SeatContext } from '../agents/backends/backend.ts';
import { uncheckedWords } from '../agents/backends/check-record.ts';
import { folderOf } from '../agents/trust/agent-folder.ts';
import { OPEN_GATE } from '../agents/trust/folder-trust.ts';
import type { FolderGate, FolderTrust } from '../agents/trust/folder-trust.ts';
import type { ServerLogins } from '../agents/mcp/server-logins.ts';
import type { AgentSandbox } from '../agents/mcp/mcp-connection.ts';
import type { SandboxPlan } from '../agents/process/sandbox.ts';
import type { ServerTools } from '../agents/mcp/session-tools.ts';
import type { KnownSecrets } from '../agents/tools/known-secrets.ts';
import type { RemoteHost } from '../agents/backends/remote/remote-host.ts';
import type { AgentSpec } from '../agents/session/session-executor.ts';
import type { AgentConfig, ChannelConfig, Config } from '../config/config.ts';
import type { Log } from './log.ts';
import { TOOL_KINDS } from '../rules/rule.ts';
import type { ToolKind } from '../rules/rule.ts';
import { kindsAsked, kindsDenied } from '../rules/verdict.ts';
import { connectsItself, toolRulesOf } from '../config/config.ts';
import { atMost } from '../lib/keyed.ts';
import type { Clock, Timers } from '../lib/time.ts';
import { planOf, plansWord } from '../turns/channel-plan.ts';
import type { StoredTexts } from '../turns/floor-store.ts';
import { VARIABLE_FILES } from './runs/tool-judge.ts';
import type { Plans } from '../turns/channel-plan.ts';
import type { AgentId, ChannelId } from '../turns/floor/settings.ts';

const SECOND_MS = 1_000;
/** The owner under which definitions of MCP servers' tools are stored. */
const TOOLS = 'tools';
/** The most coding agents that start at once: each start takes seconds of a core and hundreds of megabytes. */
const STARTS = 3;

/** Dependencies of all backends. */
export type BackendsParts = {
  readonly config: Config;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  /** Stores the definitions of MCP servers' tools. */
  readonly texts?: Pick<StoredTexts, 'recall' | 'remember'>;
  /** Logins at MCP servers; absent: no logins. */
  readonly logins?: ServerLogins;
  /**
   * Called for every session of a local coding agent. `program`: the name and version that the agent reports; `null`
   * when it reports none.
   */
  readonly opened?: (agent: AgentConfig, program: string | null) => void;
  /** Decides whether agents may start in their folders. Absent: folders with files that agents obey are refused. */
  readonly trust?: FolderTrust;
};

/**
 * Returns a function that logs a warning, at most once for each agent and release. It warns unless the last `conch
 * agent check` of the release showed that the agent asks before it acts.
 */
export function warnOfUnchecked({
  config,
  log,
}: Pick<BackendsParts, 'config' | 'log'>): NonNullable<BackendsParts['opened']> {
  const warnedPrograms = new Set<string>();
  return ({ id: agent, backend }, program) => {
    if (backend.kind !== 'acp' || warnedPrograms.has(`${agent}\n${program}`)) return;
    warnedPrograms.add(`${agent}\n${program}`);
    const words = uncheckedWords(config.dataDir, { agent, profile: backend.profile, program });
    if (words !== null) log.warn({ agent, program }, `${agent} ${words}. Run: conch agent check ${agent}`);
  };
}

/** The backends of a configuration. */
export type Backends = {
  /** Makes the backend of an agent. The agent's configuration must be loaded. */
  readonly backendFor: (agent: AgentConfig) => AgentBackend;
  /** Loads only the code of the backends that agents and crews use. Then puts the configuration in force. */
  load(config: Config): Promise<void>;
  /** Starts the server for remote agents, if there are any. Rejects when its port is not available. */
  start(): Promise<void>;
  /** Stops the servers for agents, and the MCP servers. Call it after the sessions have ended. */
  stop(): Promise<void>;
};

/** Loads the code of the backends that the configuration uses. */
export async function createBackends(parts: BackendsParts): Promise<Backends> {
  const makers = new Map<string, Maker>();
  const doors: Doors = { host: null, serverTools: null, closing: [] };
  const inForce = { config: parts.config };
  const agents = new Map<AgentId, AgentConfig>();
  const shared = { ...parts, inForce: () => inForce.config, agentOf: (id: AgentId) => agents.get(id) };
  const load = async (config: Config): Promise<void> => {
    for (const { backend } of [...config.agents, ...config.crews])
      if (!makers.has(backend.kind)) makers.set(backend.kind, await MAKERS[backend.kind](shared, doors));
    inForce.config = config;
  };
  await load(parts.config);
  return {
    load,
    backendFor(agent) {
      agents.set(agent.id, agent);
      const make = makers.get(agent.backend.kind);
      if (make === undefined) throw new Error(`impossible: what runs ${agent.id} was not loaded`);
      return make(agent);
    },
    async start() {
      await doors.host?.start();
    },
    async stop() {
      await doors.host?.stop();
      for (const close of doors.closing) await close();
    },
  };
}

/** Returns every agent with its backend. */
export function agentSpecs({ agents }: Config, backendFor: Backends['backendFor']): readonly AgentSpec[] {
  return agents.map((agent) => {
    const { id, name, description, persona } = agent;
    return { id, name, description, persona, backend: backendFor(agent) };
  });
}

/**
 * Returns the plan of each floor: its settings and seats. `configured`: the loaded configuration. `config`: the same
 * with threads and with workers of crews. With remote agents, each start checks all floors, because a remote agent may
 * be gone.
 */
export function plansOf(
  { configured, config }: { readonly configured: Config; readonly config: Config },
  channelOf: (channel: ChannelId) => ChannelConfig | undefined,
  backendFor: Backends['backendFor'],
): Plans {
  const remoteIds = config.agents.filter((agent) => backendFor(agent).connectsItself === true).map(({ id }) => id);
  return {
    word: remoteIds.length === 0 ? plansWord(configured) : null,
    all: () => config.channels.map(planOf),
    of(channel) {
      const channelConfig = channelOf(channel);
      return channelConfig === undefined ? null : planOf(channelConfig);
    },
    mayRest: (seats) => seats.every(({ agent }) => !remoteIds.includes(agent)),
  };
}

/**
 * Reuses an agent's backend until the agent's `backend` or `trusted` changes, or the kinds of tools that it is denied
 * or must ask for.
 */
export function reuseBackends(make: Backends['backendFor'], config: () => Config): Backends['backendFor'] {
  const backends = new Map<AgentId, { readonly by: string; readonly backend: AgentBackend }>();
  return (agent) => {
    const by = JSON.stringify([agent.backend, agent.trusted, toolLimitsOf(config(), agent)]);
    const reusable = backends.get(agent.id);
    if (reusable?.by === by) return reusable.backend;
    const backend = make(agent);
    backends.set(agent.id, { by, backend });
    return backend;
  };
}

/** Dependencies of all backends. `inForce` returns the present configuration, which a reload replaces. */
type SharedParts = BackendsParts & {
  readonly inForce: () => Config;
  /** An agent, also of a crew, whose backend was made; `undefined` for other ids. */
  readonly agentOf: (id: AgentId) => AgentConfig | undefined;
};

type Kind = AgentConfig['backend']['kind'];
type Maker = (agent: AgentConfig) => AgentBackend;
type Of<Wanted extends Kind> = Extract<AgentConfig['backend'], { kind: Wanted }>;

/**
 * Servers that several agents share: the server for remote agents, and the pool of MCP servers. Each is `null` until a
 * backend needs it. `closing`: functions to call when Conch ends.
 */
type Doors = { host: RemoteHost | null; serverTools: ServerTools | null; readonly closing: (() => Promise<void>)[] };

type LoadMaker = (parts: SharedParts, doors: Doors) => Promise<Maker>;

/** Loads the code of the backends of each kind. */
const MAKERS: Readonly<Record<Kind, LoadMaker>> = { scripted, llm, acp, command, remote };

function makerFor<Wanted extends Kind>(
  kind: Wanted,
  make: (backend: Of<Wanted>, agent: AgentConfig) => AgentBackend,
): Maker {
  const isOfKind = (backend: AgentConfig['backend']): backend is Of<Wanted> => backend.kind === kind;
  return (agent) => {
    if (!isOfKind(agent.backend)) throw new Error(`impossible: ${agent.id} is not of the kind ${kind}`);
    return make(agent.backend, agent);
  };
}

async function scripted(parts: SharedParts, doors: Doors): Promise<Maker> {
  const { createScriptedBackend, typingSpeed } = await import('../agents/backends/scripted/scripted-backend.ts');
  const { SCRIPTS } = await import('../agents/backends/scripted/personas.ts');
  const serverTools = await serverToolsOf(parts, doors);
  return makerFor('scripted', ({ script, wordMs }) =>
    createScriptedBackend({
      script: SCRIPTS[script],
      speed: typingSpeed(wordMs),
      serverTools,
    }),
  );
}

async function llm(parts: SharedParts, doors: Doors): Promise<Maker> {
  const { createLlmBackend } = await import('../agents/backends/llm/llm-backend.ts');
  const serverTools = await serverToolsOf(parts, doors);
  const { timers } = parts;
  return makerFor('llm', (backend) =>
    createLlmBackend({
      ...backend,
      inputUsdPerMTok: backend.inputUsdPerMTok ?? undefined,
      outputUsdPerMTok: backend.outputUsdPerMTok ?? undefined,
      cachedInputUsdPerMTok: backend.cachedInputUsdPerMTok ?? undefined,
      cacheWriteUsdPerMTok: backend.cacheWriteUsdPerMTok ?? undefined,
      stepTimeoutMs: backend.stepTimeoutSeconds * SECOND_MS,
      timers,
      serverTools,
    }),
  );
}

async function serverToolsOf(parts: SharedParts, doors: Doors): Promise<ServerTools> {
  const { clock, timers, log, logins, inForce, agentOf, texts } = parts;
  const { McpPool } = await import('../agents/mcp/mcp-pool.ts');
  const secrets = await secretsOf(parts);
  if (doors.serverTools !== null) return doors.serverTools;
  const lost = (error: unknown): void =>
    log.error({ err: error }, 'the tool definitions of an MCP server could not be stored');
  const memory = texts && {
    recall: (name: string) => texts.recall(TOOLS, name),
    remember: (name: string, text: string) => void texts.remember(TOOLS, name, text).catch(lost),
  };
  const storage = { ...(logins && { logins }), ...(memory && { memory }) };
  const sandboxed = (id: AgentId): AgentSandbox | undefined => agentSandbox(inForce(), agentOf(id));
  const pool = new McpPool(() => inForce().mcp, { clock, timers, log, sandboxOf: sandboxed, ...storage });
  doors.closing.push(() => pool.close());
  doors.serverTools = { pool, secrets, clock };
  return doors.serverTools;
}

/** The secrets that need approval before they are sent: of the present configuration, and tokens of logins. */
async function secretsOf({ inForce, logins }: SharedParts): Promise<() => KnownSecrets> {
  const { KnownSecrets } = await import('../agents/tools/known-secrets.ts');
  const { TOKEN_NAME } = await import('../agents/mcp/server-logins.ts');
  let cached: {
    readonly config: Config;
    readonly loginSecrets: readonly string[];
    readonly secrets: KnownSecrets;
  } | null = null;
  return () => {
    const [config, loginSecrets] = [inForce(), logins?.secrets ?? NONE];
    if (cached?.config !== config || cached.loginSecrets !== loginSecrets) {
      const configuredSecrets = config.secrets.map((secret) => ({
        name: secret.name ?? 'a secret',
        value: secret.reveal(),
      }));
      const tokens = loginSecrets.map((value) => ({ name: TOKEN_NAME, value }));
      cached = { config, loginSecrets, secrets: new KnownSecrets([...configuredSecrets, ...tokens]) };
    }
    return cached.secrets;
  };
}

const NONE: readonly string[] = [];

async function acp(parts: SharedParts, doors: Doors): Promise<Maker> {
  const { config, inForce, timers, log, opened } = parts;
  const { createAcpBackend } = await import('../agents/backends/acp/acp-backend.ts');
  const { createToolServer } = await import('../agents/tools/tool-server.ts');
  const toolServer = createToolServer(log);
  doors.closing.push(() => toolServer.close());
  const serverTools = await serverToolsOf(parts, doors);
  const starts = atMost(STARTS);
  return makerFor('acp', ({ kind: _kind, env, set, sandbox, ...rest }, agent) =>
    createAcpBackend({
      ...rest,
      sandbox: sandboxOf(config, agent.id, sandbox),
      ...toolLimitsOf(inForce(), agent),
      trusted: agent.trusted === true,
      env: set,
      passEnv: env,
      toolServer,
      serverTools,
      timers,
      starts,
      ...gateOf(parts, agent),
      ...(opened !== undefined && { opened: (program) => opened(agent, program) }),
      lastWords: lastWordsTo(log),
      noise: (seat, line) =>
        log.debug({ ...seat, persona: undefined, line }, 'noise on the standard output of an agent'),
    }),
  );
}

function sandboxOf({ dataDir, file }: Config, agent: AgentId, wanted: SandboxWish): SandboxPlan | undefined {
  if (wanted === undefined || wanted === false) return undefined;
  const hidden = [dataDir, ...VARIABLE_FILES, ...(file === null ? [] : [file])].map((path) => resolve(path));
  const network = wanted === 'offline' ? null : { hosts: wanted === true ? null : wanted, ports: [] };
  return { home: resolve(dataDir, 'homes', agent), hidden, readable: [], network };
}

/** The sandbox of an agent for the MCP servers that run for it. */
function agentSandbox(config: Config, agent: AgentConfig | undefined): AgentSandbox | undefined {
  const backend = agent?.backend;
  if (agent === undefined || (backend?.kind !== 'acp' && backend?.kind !== 'command')) return undefined;
  const plan = sandboxOf(config, agent.id, backend.sandbox);
  return plan && { plan, cwd: backend.cwd ?? '.' };
}

type SandboxWish = Extract<AgentConfig['backend'], { kind: 'acp' | 'command' }>['sandbox'];

async function command(parts: BackendsParts): Promise<Maker> {
  const { config, timers, log } = parts;
  const { createCommandBackend } = await import('../agents/backends/command/command-backend.ts');
  return makerFor('command', ({ sandbox, ...backend }, agent) =>
    createCommandBackend({
      ...backend,
      ...gateOf(parts, agent),
      sandbox: sandboxOf(config, agent.id, sandbox),
      timeoutMs: backend.timeoutSeconds * SECOND_MS,
      timers,
      lastWords: lastWordsTo(log),
    }),
  );
}

/**
 * Returns the gate that decides whether a local agent may start in its folder. It is open for the workers of a trusted
 * crew.
 */
function gateOf({ trust }: BackendsParts, agent: AgentConfig): { readonly gate?: FolderGate } {
  if (agent.crew !== undefined && agent.trusted === true) return { gate: OPEN_GATE };
  const folder = folderOf(agent);
  return trust === undefined || folder === null ? {} : { gate: trust.gateFor(agent.id, folder, agent.crew) };
}

function lastWordsTo(log: Log): (seat: SeatContext, stderr: string) => void {
  return ({ channel, agent }, stderr) =>
    log.warn({ channel, agent, stderr }, 'the standard error of an agent that ended');
}

async function remote(parts: SharedParts, doors: Doors): Promise<Maker> {
  const { createRemoteBackend } = await import('../agents/backends/remote/remote-backend.ts');
  const { config, inForce, log, timers } = parts;
  const host = (doors.host ??= await openHost(parts));
  const serverTools = await serverToolsOf(parts, doors);
  const reconnectGraceMs = config.turnConfig.reconnectGraceSeconds * SECOND_MS;
  return makerFor('remote', ({ profile, injectFallback }, agent) => {
    host.start().catch((error: unknown) => log.error({ err: error }, 'agents cannot connect'));
    return createRemoteBackend({
      profile,
      injectFallback,
      ...toolLimitsOf(inForce(), agent),
      host,
      agentId: agent.id,
      reconnectGraceMs,
      serverTools,
      timers,
    });
  });
}

/**
 * Returns the tool kinds that an agent is denied, and those that it must ask for. Its one process serves all channels:
 * a denial of one channel alone is decided when the agent asks.
 */
function toolLimitsOf(config: Config, agent: AgentConfig): Record<'denied' | 'asked', readonly ToolKind[]> {
  const denied = kindsDenied(toolRulesOf(config, agent, null));
  const channels = config.channels.filter(({ tools }) => tools !== undefined);
  const askedKinds = new Set([null, ...channels].flatMap((channel) => kindsAsked(toolRulesOf(config, agent, channel))));
  return { denied, asked: TOOL_KINDS.filter((kind) => askedKinds.has(kind) && !denied.includes(kind)) };
}

async function openHost({ config, inForce, clock, timers, log }: SharedParts): Promise<RemoteHost> {
  const { RemoteHost: Host } = await import('../agents/backends/remote/remote-host.ts');
  const { openTokenBook } = await import('../agents/backends/remote/tokens.ts');
  const { port, host, origins, behindProxy, tlsCert, tlsKey } = config.remote;
  return new Host({
    port,
    host,
    origins,
    behindProxy,
    ...(tlsCert === null || tlsKey === null
      ? {}
      : { tls: { cert: readFileSync(tlsCert, 'utf8'), key: readFileSync(tlsKey, 'utf8') } }),
    tokens: openTokenBook(config.dataDir),
    // A remote worker of a crew is expected also while it has no ticket, and so no seat.
    expects: (agent) => connectsItself(inForce(), agent),
    heartbeatMs: config.turnConfig.heartbeatSeconds * SECOND_MS,
    heartbeatTimeoutMs: config.turnConfig.heartbeatTimeoutSeconds * SECOND_MS,
    clock,
    timers,
    log,
  });
}
