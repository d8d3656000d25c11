import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Roster, RosterEntry } from '../../turns/commands/context.ts';
import type { AgentBackend } from '../backends/backend.ts';
import type { SeatedAgent } from './seated-agent.ts';
import type { AgentSpec } from './session-executor.ts';
import type { Phase } from './session-machine.ts';

/**
 * An agent's seats. `channels`: the channels of all seats. `disabled`: the channels where an operator disabled the
 * agent. `seated`: the seats with a session that is open or being opened, failed, or was stopped. Any other enabled
 * seat gets a session with the agent's next work.
 */
export type Presence = {
  readonly channels: readonly ChannelId[];
  readonly disabled: readonly ChannelId[];
  readonly seated: readonly SeatedAgent[];
};

/** The phases of a session in words for people. */
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

/** Returns an agent's entry in the list of all agents. Of several sessions, shows the state of most concern. */
export function rosterEntry({ id, name, backend }: AgentSpec, presence: Presence): RosterEntry {
  const { channels, seated } = presence;
  const isAtRest = channels.length > 0 && seated.length === 0;
  const state = isAtRest ? (isDisabled(presence) ? DISABLED : AT_REST) : stateWords(worst(seated));
  return { id, name, backend: kindWords(backend), state, channels };
}

/**
 * The status of one agent: a line about the agent, a line for each seat in `seated`, a line for each disabled channel,
 * and one line with the number of the other channels.
 */
export function statusLines(spec: AgentSpec, { channels, disabled, seated }: Presence): readonly string[] {
  const { id, name, backend, description } = spec;
  const resting = channels.length - seated.length - disabled.length;
  return [
    `${name} (${id}) · ${kindWords(backend)}${description === '' ? '' : ` · ${description}`}`,
    ...seated.map(lineOf),
    ...disabled.map((channel) => `${channel}: ${DISABLED}`),
    ...(resting > 0 ? [`${AT_REST} in ${resting} of ${channels.length} channels`] : []),
  ];
}

/** Restarts the sessions of an agent's seats. `spec` is `undefined` when the configuration has no such agent. */
export async function restartAgent(
  agent: AgentId,
  spec: AgentSpec | undefined,
  presence: Presence,
): ReturnType<Roster['restart']> {
  const { channels, seated } = presence;
  if (seated.length === 0) {
    if (isDisabled(presence)) return { ok: false, text: `${agent} is disabled: run /agent enable ${agent}.` };
    if (spec !== undefined && channels.length > 0)
      return { ok: true, text: `${agent} starts afresh with its next turn.` };
    return { ok: false, text: `No agent "${agent}" is running.` };
  }
  await Promise.all(seated.map((each) => each.restart('restarted by an operator')));
  const executors = seated.map(({ executor }) => executor);
  const refused = executors.find(({ untrusted }) => untrusted !== null);
  if (refused) return { ok: false, text: `${agent} does not start: ${refused.untrusted}` };
  const first = executors.find(({ state }) => STUCK.has(state.phase.name));
  if (!first) return { ok: true, text: `${agent} is restarted.` };
  return { ok: false, text: `${agent} does not start: ${first.lastCause ?? first.state.phase.name}` };
}

function isDisabled({ channels, disabled }: Presence): boolean {
  return channels.length > 0 && channels.length === disabled.length;
}

const DISABLED = 'disabled (until /agent enable)';
const AT_REST = 'idle (its session opens with its next turn)';

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
  const concern = ({ executor: { state, session } }: SeatedAgent) =>
    BY_CONCERN.indexOf(state.phase.name) + (session === null ? 0 : 0.5);
  return seated.toSorted((one, other) => concern(one) - concern(other))[0] ?? null;
}

function stateWords(agent: SeatedAgent | null): string {
  if (agent === null) return 'not running';
  const { session, state, untrusted } = agent.executor;
  const { name } = state.phase;
  if (untrusted !== null) return `${name} (not started: its folder is not trusted)`;
  const isConnecting = name === 'Spawning' && session === null;
  return `${name} (${STATE_WORDS[isConnecting ? 'Initializing' : name]})`;
}

function lineOf(agent: SeatedAgent): string {
  const { channel, executor } = agent;
  const { state, lastCause } = executor;
  const { phase, sessionSeq, consecutiveErrors, totalErrors } = state;
  const counted = `session ${sessionSeq}, ${consecutiveErrors} errors in a row, ${totalErrors} in all`;
  const detail = phase.name === 'Stopped' ? `: ${phase.why}` : '';
  return `${channel}: ${stateWords(agent)}${detail}, ${counted}${lastCause === null ? '' : `; last: ${lastCause}`}`;
}
