import type { ChatAdapter } from '../adapters/port.ts';
import type { AgentBackend } from '../agents/backends/backend.ts';
import type { AgentSpec } from '../agents/session/seated-agent.ts';
import type { FloorPort } from '../agents/session/floor-port.ts';
import type { SupervisorSettings } from '../agents/session/supervisor.ts';
import { createSupervisor } from '../agents/session/supervisor.ts';
import type { Supervisor } from '../agents/session/supervisor.ts';
import type { AgentConfig, Config } from '../config/config.ts';
import type { Clock, Timers } from '../lib/time.ts';
import type { AgentId, ChannelId } from '../turns/floor/settings.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import type { Log } from './log.ts';
import type { ReadModel } from './read-model.ts';

/** What running the agents needs of the program. */
export type AgentsPorts = {
  readonly store: FloorStore;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  readonly config: () => Config;
  readonly floors: ReadModel;
  readonly apply: FloorPort['apply'];
  readonly adapterOf: (channel: ChannelId) => ChatAdapter | null;
  readonly backendFor: (agent: AgentConfig) => AgentBackend;
  /** Does work again while the disk is full. */
  readonly retrying: (work: () => Promise<void>) => Promise<void>;
  /** Takes out what must never be shown. */
  readonly clean: (text: string) => string;
};

/** The agents of the configuration, run by one supervisor; `configure` brings it in step with configuration and seats. */
export function createAgents(ports: AgentsPorts): { readonly supervisor: Supervisor; configure(): Promise<void> } {
  const { store, clock, timers, log, config, floors, apply, adapterOf, retrying, clean } = ports;
  const backendOf = keptBackends(ports.backendFor);
  const draft: FloorPort['draft'] = (channel, agent, epoch, text) =>
    adapterOf(channel)?.draft?.(channel, floors.speaker(agent), epoch, text === null ? null : clean(text));
  const supervisor = createSupervisor({
    agents: [],
    clock,
    timers,
    log,
    memory: {
      load: (channel, agent) => store.agent(`${channel} ${agent}`),
      save: (channel, agent, session) => retrying(() => store.saveAgent(`${channel} ${agent}`, session)),
    },
    floors: { ...floors, apply, draft },
    settings: settingsOf(config),
  });
  return { supervisor, configure: () => supervisor.configure(specsOf(ports, backendOf)) };
}

function settingsOf(config: () => Config): SupervisorSettings {
  const { heartbeatSeconds, heartbeatTimeoutSeconds, interruptGraceSeconds } = config().turnConfig;
  return {
    heartbeatMs: heartbeatSeconds * 1_000,
    heartbeatTimeoutMs: heartbeatTimeoutSeconds * 1_000,
    interruptGraceMs: interruptGraceSeconds * 1_000,
    channel: (id) => {
      const found = config().channels.find((channel) => channel.id === id);
      const { turnCompleteSignal: signal, ...rest } = found?.turnConfig ?? config().turnConfig;
      const { coalesceMs, contextTokens, maxConsecutiveErrors, maxTotalErrors } = rest;
      return { coalesceMs, contextTokens, signal, thresholds: { maxConsecutiveErrors, maxTotalErrors } };
    },
  };
}

/** Every agent with the channels in which it has a seat, by the configuration or by an operator. */
function specsOf({ config, floors }: AgentsPorts, backendOf: AgentsPorts['backendFor']): readonly AgentSpec[] {
  const { agents, channels } = config();
  return agents.map((agent) => {
    const { id, name, description, persona } = agent;
    const seats = channels.map((channel) => channel.id).filter((channel) => floors.isSeated(channel, id));
    return { id, name, description, persona, backend: backendOf(agent), channels: seats };
  });
}

/** An agent keeps its backend for as long as that is configured the same. */
function keptBackends(make: AgentsPorts['backendFor']): AgentsPorts['backendFor'] {
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
