import { readFileSync } from 'node:fs';
import type { AgentBackend, SeatContext } from '../agents/backends/backend.ts';
import { createAcpBackend } from '../agents/backends/acp/acp-backend.ts';
import { createCommandBackend } from '../agents/backends/command/command-backend.ts';
import { createLlmBackend } from '../agents/backends/llm/llm-backend.ts';
import { TYPING, typingSpeed } from '../agents/backends/scripted/typing-speed.ts';
import { createRemoteBackend } from '../agents/backends/remote/remote-backend.ts';
import { createRemoteHost } from '../agents/backends/remote/remote-host.ts';
import type { RemoteHost } from '../agents/backends/remote/remote-host.ts';
import { SCRIPTS, createScriptedBackend } from '../agents/backends/scripted/scripted-backend.ts';
import { openTokenBook } from '../agents/backends/remote/tokens.ts';
import { createToolServer } from '../agents/tools/tool-server.ts';
import type { ToolServer } from '../agents/tools/tool-server.ts';
import type { AgentSpec } from '../agents/session/seated-agent.ts';
import type { AgentConfig, Config } from '../config/config.ts';
import type { Log } from './log.ts';
import type { Clock, Timers } from '../lib/time.ts';
import type { AgentId } from '../turns/floor/settings.ts';
import type { ReadModel } from './read-model.ts';

const SECOND_MS = 1_000;

/** What all backends share. */
export type BackendsParts = {
  readonly config: Config;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
};

/** The ways to run the agents of a configuration, with what they need of this machine. */
export type Backends = {
  readonly backendFor: (agent: AgentConfig) => AgentBackend;
  /** Opens the door for agents that connect by themselves, if there are any; rejects when its port cannot be had. */
  start(): Promise<void>;
  /** Closes every door. Call it after the sessions have ended. */
  stop(): Promise<void>;
};

/** Makes what runs agents: nothing listens and no process is started before it is needed. */
export function createBackends(parts: BackendsParts): Backends {
  const toolServer = createToolServer(parts.log);
  let host: RemoteHost | null = null;
  const door = (): RemoteHost => (host ??= openHost(parts));
  return {
    backendFor: (agent) => backendOf(agent, { ...parts, toolServer, door }),
    async start() {
      if (parts.config.agents.some(({ backend }) => backend.kind === 'remote')) await door().start();
    },
    async stop() {
      await host?.stop();
      await toolServer.close();
    },
  };
}

/** Every agent with the channels in which it has a seat, by the configuration or by an operator. */
export function agentSpecs(
  { agents, channels }: Config,
  floors: Pick<ReadModel, 'isSeated'>,
  backendFor: Backends['backendFor'],
): readonly AgentSpec[] {
  return agents.map((agent) => {
    const { id, name, description, persona } = agent;
    const seats = channels.map((channel) => channel.id).filter((channel) => floors.isSeated(channel, id));
    return { id, name, description, persona, backend: backendFor(agent), channels: seats };
  });
}

/** An agent keeps its backend for as long as that is configured the same. */
export function keptBackends(make: Backends['backendFor']): Backends['backendFor'] {
  const kept = new Map<AgentId, { readonly by: string; readonly backend: AgentBackend }>();
  return (agent) => {
    const by = JSON.stringify(agent.backend);
    const known = kept.get(agent.id);
    if (known?.by === by) return known.backend;
    const backend = make(agent);
    kept.set(agent.id, { by, backend });
    return backend;
  };
}

type RemoteConfig = Extract<AgentConfig['backend'], { kind: 'remote' }>;
type Shared = BackendsParts & { readonly toolServer: ToolServer; readonly door: () => RemoteHost };

function backendOf(agent: AgentConfig, shared: Shared): AgentBackend {
  const { backend } = agent;
  switch (backend.kind) {
    case 'scripted': {
      const { script, wordMs } = backend;
      return createScriptedBackend({
        script: SCRIPTS[script],
        speed: wordMs === undefined ? TYPING : typingSpeed(wordMs),
      });
    }
    case 'llm':
      return createLlmBackend({
        ...backend,
        inputUsdPerMTok: backend.inputUsdPerMTok ?? undefined,
        outputUsdPerMTok: backend.outputUsdPerMTok ?? undefined,
        stepTimeoutMs: backend.stepTimeoutSeconds * SECOND_MS,
        timers: shared.timers,
      });
    case 'acp': {
      const { kind: _kind, env, set, ...rest } = backend;
      return createAcpBackend({
        ...rest,
        env: set,
        passEnv: env,
        toolServer: shared.toolServer,
        timers: shared.timers,
        lastWords: lastWordsTo(shared.log),
        noise: (seat, line) =>
          shared.log.debug({ ...seat, persona: undefined, line }, 'noise on the standard output of an agent'),
      });
    }
    case 'command':
      return createCommandBackend({
        ...backend,
        timeoutMs: backend.timeoutSeconds * SECOND_MS,
        timers: shared.timers,
        lastWords: lastWordsTo(shared.log),
      });
    case 'remote':
      return remoteBackend(agent, backend, shared);
  }
}

function lastWordsTo(log: Log): (seat: SeatContext, stderr: string) => void {
  return ({ channel, agent }, stderr) =>
    log.warn({ channel, agent, stderr }, 'the standard error of an agent that ended');
}

/** An agent that a reloaded configuration brings opens the door, if it is the first of its kind. */
function remoteBackend(agent: AgentConfig, manners: RemoteConfig, shared: Shared): AgentBackend {
  const { door, config, log, timers } = shared;
  const host = door();
  host.start().catch((error: unknown) => log.error({ err: error }, 'agents cannot connect'));
  const reconnectGraceMs = config.turnConfig.reconnectGraceSeconds * SECOND_MS;
  return createRemoteBackend({
    profile: manners.profile,
    injectFallback: manners.injectFallback,
    host,
    agentId: agent.id,
    reconnectGraceMs,
    timers,
  });
}

function openHost({ config, clock, timers, log }: BackendsParts): RemoteHost {
  const { port, host, origins, behindProxy, tlsCert, tlsKey } = config.remote;
  return createRemoteHost({
    port,
    host,
    origins,
    behindProxy,
    ...(tlsCert === null || tlsKey === null
      ? {}
      : { tls: { cert: readFileSync(tlsCert, 'utf8'), key: readFileSync(tlsKey, 'utf8') } }),
    tokens: openTokenBook(config.dataDir),
    heartbeatMs: config.turnConfig.heartbeatSeconds * SECOND_MS,
    heartbeatTimeoutMs: config.turnConfig.heartbeatTimeoutSeconds * SECOND_MS,
    clock,
    timers,
    log,
  });
}
