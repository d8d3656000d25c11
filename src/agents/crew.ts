import type { AgentId } from '../turns/core/settings.ts';
import type { Roster } from '../turns/roster.ts';
import type { AgentSpec, Connection } from './connection.ts';
import type { SessionState } from './session-machine.ts';

/** Where the roster looks. */
export type CrewPorts = {
  readonly agents: () => readonly AgentSpec[];
  readonly connections: (agent: AgentId) => readonly Connection[];
};

/** The agents as operators see them. */
export function createRoster(ports: CrewPorts): Roster {
  return {
    list: () =>
      ports.agents().map(({ id, name, backend, channels }) => {
        const connections = ports.connections(id);
        const sits = connections.map(({ channel }) => channel);
        const state = worst(connections.map((each) => each.state));
        return { id, name, backend: backend.kind, state, channels: [...new Set([...channels, ...sits])] };
      }),
    status: (agent) => {
      const spec = ports.agents().find(({ id }) => id === agent);
      if (!spec) return null;
      const head = `${spec.name} (${spec.id}) · ${spec.backend.kind}${spec.description === '' ? '' : ` · ${spec.description}`}`;
      return [head, ...ports.connections(agent).map(lineOf)];
    },
    restart: async (agent) => {
      const connections = ports.connections(agent);
      if (connections.length === 0) return { ok: false, text: `No agent "${agent}" is running.` };
      await Promise.all(connections.map((connection) => connection.restart('restarted by an operator')));
      const first = connections.find(({ state }) => STUCK.has(state.phase.name));
      if (!first) return { ok: true, text: `${agent} is restarted.` };
      return { ok: false, text: `${agent} does not start: ${first.lastCause ?? first.state.phase.name}` };
    },
  };
}

const STUCK: ReadonlySet<string> = new Set(['CoolingDown', 'Stopped']);
const BY_CONCERN = ['Stopped', 'CoolingDown', 'Interrupting', 'Running', 'Spawning', 'Initializing'] as const;

function worst(states: readonly SessionState[]): string {
  const names: readonly string[] = states.map(({ phase }) => phase.name);
  return BY_CONCERN.find((name) => names.includes(name)) ?? names[0] ?? 'Stopped';
}

function lineOf({ channel, state, lastCause }: Connection): string {
  const { phase, sessionSeq, consecutiveErrors, totalErrors } = state;
  const counted = `session ${sessionSeq}, ${consecutiveErrors} errors in a row, ${totalErrors} in all`;
  const detail = phase.name === 'Stopped' ? ` (${phase.why})` : '';
  return `${channel}: ${phase.name}${detail}, ${counted}${lastCause === null ? '' : `; last: ${lastCause}`}`;
}
