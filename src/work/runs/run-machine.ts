import type { FactFields, Machine } from '../../engine/machine.ts';
import type { MachineStore } from '../../engine/port.ts';
import type { Instant } from '../../lib/time.ts';
import { RESTORE_JUMP } from '../../turns/floor-store.ts';
import { REQUEST_TEXTS } from '../../turns/requesters.ts';
import { emptyRuns, runStateSchema } from './run.ts';
import type { RunState } from './run.ts';
import { decideRun } from './run-decide.ts';
import { isRunCommand, runFactSchema } from './run-events.ts';
import type { RunCommand, RunFact, RunRefusal } from './run-events.ts';
import { evolveRun } from './run-evolve.ts';

/** The store of the runs of all seats. */
export type RunStore = MachineStore<RunState, RunCommand, RunFact, unknown, RunRefusal>;

const CALL_TEXTS = [...REQUEST_TEXTS, 'offers.rule', 'offers.words'];

/** Texts of agents and people in facts, and ids of people, for erasing. */
const RUN_TEXTS: FactFields = {
  runStarted: ['prompt', 'by', 'requestedBy'],
  stepped: ['output'],
  stepKept: ['said', 'calls'],
  paused: ['context'],
  resumed: ['by', 'feedback', 'input', 'told.name'],
  errored: ['error.message'],
  lost: ['error.message'],
  runCompleted: ['result', 'diff', 'by'],
  aborted: ['reason', 'by'],
  callRequested: ['call.input', ...CALL_TEXTS.map((field) => `call.words.${field}`), 'taint'],
  callSettled: ['output'],
  approvalClosed: ['by', 'reason'],
  ruleRevoked: ['by', 'told.name'],
  tainted: ['from'],
  grantUsed: ['said.by', 'said.reason'],
  checkpoint: ['run.calls.input', ...CALL_TEXTS.map((field) => `run.calls.words.${field}`), 'run.pause.context'],
};

/**
 * The run machine. Its key is a channel with the name of a seat's runs (`runKeyOf`). A key has at most one open run.
 */
export const runMachine = {
  name: 'run',
  channelOf: (key: string) => key.slice(0, key.lastIndexOf(' ')),
  version: 1,
  empty: emptyRuns,
  decide: decideRun,
  evolve: evolveRun,
  nextDeadline: runDeadline,
  rest: restOfRuns,
  state: runStateSchema,
  fact: runFactSchema,
  texts: RUN_TEXTS,
  restored: { type: 'SKIP_NUMBERS', by: RESTORE_JUMP },
  isCommand: isRunCommand,
} satisfies Machine<RunState, RunCommand, RunFact, never, RunRefusal>;

/** Returns whether the last of these commands would be accepted, if all were given in order. */
export function isLastAccepted(state: RunState | null, commands: readonly RunCommand[], at: Instant): boolean {
  let [after, isAccepted] = [state, false];
  for (const command of commands) {
    if (after === null) return false;
    const { ok, facts } = decideRun(after, command, at);
    after = facts.reduce((each, fact) => evolveRun(each, fact, at), after);
    isAccepted = ok;
  }
  return isAccepted;
}

function runDeadline({ run }: RunState): Instant | null {
  return run?.pause?.until ?? run?.errorUntil ?? null;
}

/** Returns '' when no run is open and no always-allow rule is stored, else `null`. */
function restOfRuns({ status, remembered }: RunState): string | null {
  return (status === 'idle' || status === 'completed') && remembered.length === 0 ? '' : null;
}
