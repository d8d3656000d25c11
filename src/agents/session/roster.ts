import type { AgentId } from '../../turns/floor/settings.ts';
import type { Roster } from '../../turns/roster.ts';
import type { AgentBackend } from '../backends/backend.ts';
import type { AgentSpec, Connection } from './connection.ts';
import type { Phase } from './session-machine.ts';

/** Where the roster looks. */
export type CrewPorts = {
  readonly agents: () => readonly AgentSpec[];
  readonly connections: (agent: AgentId) => readonly Connection[];
};

/** What the owner's names of a session's states mean to people. */
export const STATE_WORDS: Readonly<Record<Phase['name'], string>> = {
  Initializing: 'connecting',
  BuildingPrompt: 'ready',
  Spawning: 'beginning its turn',
  Running: 'in its turn',
  Interrupting: 'being interrupted',
  SessionComplete: 'turn done',
  CoolingDown: 'pausing after an error, then tried again',
  Stopped: 'until /agent restart',
};

/** The agents as operators see them. */
export function createRoster(ports: CrewPorts): Roster {
  return {
    list: () =>
      ports.agents().map(({ id, name, backend, channels }) => {
        const state = stateWords(worst(ports.connections(id)));
        return { id, name, backend: kindWords(backend), state, channels };
      }),
    status: (agent) => {
      const spec = ports.agents().find(({ id }) => id === agent);
      if (!spec) return null;
      const head = `${spec.name} (${spec.id}) · ${kindWords(spec.backend)}${spec.description === '' ? '' : ` · ${spec.description}`}`;
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

/** "acp", with a warning when its agents may change things unasked. */
function kindWords({ kind, promisesToAsk }: AgentBackend): string {
  return promisesToAsk ? kind : `${kind} (⚠ does not promise to ask)`;
}

const STUCK: ReadonlySet<string> = new Set(['CoolingDown', 'Stopped']);
const BY_CONCERN: readonly Phase['name'][] = [
  'Stopped',
  'CoolingDown',
  'Interrupting',
  'Running',
  'Spawning',
  'Initializing',
  'SessionComplete',
  'BuildingPrompt',
];

function worst(connections: readonly Connection[]): Connection | null {
  const concern = ({ state, connected }: Connection) => BY_CONCERN.indexOf(state.phase.name) + (connected ? 0.5 : 0);
  return connections.toSorted((one, other) => concern(one) - concern(other))[0] ?? null;
}

/** "BuildingPrompt (ready)"; one that a session is being opened for, is connecting. */
function stateWords(connection: Connection | null): string {
  if (connection === null) return 'not running';
  const { name } = connection.state.phase;
  const isConnecting = name === 'Spawning' && !connection.connected;
  return `${name} (${STATE_WORDS[isConnecting ? 'Initializing' : name]})`;
}

function lineOf(connection: Connection): string {
  const { channel, state, lastCause } = connection;
  const { phase, sessionSeq, consecutiveErrors, totalErrors } = state;
  const counted = `session ${sessionSeq}, ${consecutiveErrors} errors in a row, ${totalErrors} in all`;
  const detail = phase.name === 'Stopped' ? `: ${phase.why}` : '';
  return `${channel}: ${stateWords(connection)}${detail}, ${counted}${lastCause === null ? '' : `; last: ${lastCause}`}`;
}
