import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Roster } from '../../turns/commands/context.ts';
import type { AgentBackend } from '../backends/backend.ts';
import type { SeatedAgent } from './seated-agent.ts';
import type { AgentSpec } from './session-executor.ts';
import type { Phase } from './session-machine.ts';

/** Where the roster looks. */
type RosterPorts = {
  readonly agents: () => readonly AgentSpec[];
  readonly seated: (agent: AgentId) => readonly SeatedAgent[];
  readonly seatsOf: (agent: AgentId) => readonly ChannelId[];
  /** Whether an operator switched an agent off in a channel: it has no session there. */
  readonly isDisabled: (agent: AgentId, channel: ChannelId) => boolean;
};

/** What the specification's names of a session's states mean to people. */
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
export function createRoster(ports: RosterPorts): Roster {
  return {
    list: () =>
      ports.agents().map(({ id, name, backend }) => {
        const channels = ports.seatsOf(id);
        const isOff = channels.length > 0 && channels.every((channel) => ports.isDisabled(id, channel));
        const atRest = isOff ? DISABLED : AT_REST;
        const state =
          channels.length > 0 && ports.seated(id).length === 0 ? atRest : stateWords(worst(ports.seated(id)));
        return { id, name, backend: kindWords(backend), state, channels };
      }),
    status: (agent) => {
      const spec = ports.agents().find(({ id }) => id === agent);
      if (!spec) return null;
      const channels = ports.seatsOf(agent);
      const all = channels.length;
      const off = channels.filter((channel) => ports.isDisabled(agent, channel));
      const resting = all - ports.seated(agent).length - off.length;
      const head = `${spec.name} (${spec.id}) · ${kindWords(spec.backend)}${spec.description === '' ? '' : ` · ${spec.description}`}`;
      const rest = resting > 0 ? [`${AT_REST} in ${resting} of ${all} channels`] : [];
      return [head, ...ports.seated(agent).map(lineOf), ...off.map((channel) => `${channel}: ${DISABLED}`), ...rest];
    },
    restart: async (agent) => {
      const seated = ports.seated(agent);
      const channels = ports.seatsOf(agent);
      if (seated.length === 0 && channels.length > 0 && channels.every((channel) => ports.isDisabled(agent, channel)))
        return { ok: false, text: `${agent} is disabled: run /agent enable ${agent}.` };
      const isAtRest = ports.agents().some(({ id }) => id === agent) && ports.seatsOf(agent).length > 0;
      if (seated.length === 0 && isAtRest) return { ok: true, text: `${agent} starts afresh with its next turn.` };
      if (seated.length === 0) return { ok: false, text: `No agent "${agent}" is running.` };
      await Promise.all(seated.map((each) => each.restart('restarted by an operator')));
      const refused = seated.find(({ untrusted }) => untrusted !== null);
      if (refused) return { ok: false, text: `${agent} does not start: ${refused.untrusted}` };
      const first = seated.find(({ state }) => STUCK.has(state.phase.name));
      if (!first) return { ok: true, text: `${agent} is restarted.` };
      return { ok: false, text: `${agent} does not start: ${first.lastCause ?? first.state.phase.name}` };
    },
  };
}

const DISABLED = 'disabled (until /agent enable)';
const AT_REST = 'at rest (opened again for its next turn)';

/** "acp", with a warning when its agents may change things unasked. */
function kindWords({ kind, promisesToAsk, actsUnasked = null }: AgentBackend): string {
  if (actsUnasked !== null) return `${kind} (⚠ ${actsUnasked})`;
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

function worst(seated: readonly SeatedAgent[]): SeatedAgent | null {
  const concern = ({ state, connected }: SeatedAgent) => BY_CONCERN.indexOf(state.phase.name) + (connected ? 0.5 : 0);
  return seated.toSorted((one, other) => concern(one) - concern(other))[0] ?? null;
}

/** "BuildingPrompt (ready)"; one that a session is being opened for, is connecting. */
function stateWords(agent: SeatedAgent | null): string {
  if (agent === null) return 'not running';
  const { name } = agent.state.phase;
  if (agent.untrusted !== null) return `${name} (not started: its folder is not trusted)`;
  const isConnecting = name === 'Spawning' && !agent.connected;
  return `${name} (${STATE_WORDS[isConnecting ? 'Initializing' : name]})`;
}

function lineOf(agent: SeatedAgent): string {
  const { channel, state, lastCause } = agent;
  const { phase, sessionSeq, consecutiveErrors, totalErrors } = state;
  const counted = `session ${sessionSeq}, ${consecutiveErrors} errors in a row, ${totalErrors} in all`;
  const detail = phase.name === 'Stopped' ? `: ${phase.why}` : '';
  return `${channel}: ${stateWords(agent)}${detail}, ${counted}${lastCause === null ? '' : `; last: ${lastCause}`}`;
}
