import type { FactFields, Machine } from '../../engine/machine.ts';
import type { MachineStore } from '../../engine/port.ts';
import type { Instant } from '../../lib/time.ts';
import { RESTORE_JUMP } from '../../turns/floor-store.ts';
import { ASKED_TEXTS } from '../../turns/requesters.ts';
import { emptyRuns, runStateSchema } from './run.ts';
import type { RunState } from './run.ts';
import { decideRun } from './run-decide.ts';
import { runCommandSchema, runFactSchema } from './run-events.ts';
import type { RunCommand, RunFact, RunRefusal } from './run-events.ts';
import { evolveRun } from './run-evolve.ts';

/** The runs of every seat. */
export type RunStore = MachineStore<RunState, RunCommand, RunFact, unknown, RunRefusal>;

const ASKED_WORDS = [...ASKED_TEXTS, 'offers.rule', 'offers.words'];

/** What was said, asked, answered and called with in a run, and who did. */
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
  callRequested: ['call.input', ...ASKED_WORDS.map((field) => `call.words.${field}`), 'taint'],
  callSettled: ['output'],
  approvalClosed: ['by', 'reason'],
  yesRevoked: ['by', 'told.name'],
  tainted: ['from'],
  grantUsed: ['said.by', 'said.reason'],
  checkpoint: ['run.calls.input', ...ASKED_WORDS.map((field) => `run.calls.words.${field}`), 'run.pause.context'],
};

/**
 * The run machine. Its key is a seat, and it holds that seat's runs, one after the other: a second one cannot begin while one
 * is open. Calls are claimed before they start, so that none starts twice.
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
  command: runCommandSchema,
} satisfies Machine<RunState, RunCommand, RunFact, never, RunRefusal>;

/** Whether the last of these commands, one after the other, would be carried out. */
export function isTaken(state: RunState | null, commands: readonly RunCommand[], at: Instant): boolean {
  let [after, taken] = [state, false];
  for (const command of commands) {
    if (after === null) return false;
    const { ok, facts } = decideRun(after, command, at);
    after = facts.reduce((each, fact) => evolveRun(each, fact, at), after);
    taken = ok;
  }
  return taken;
}

/** When nobody has answered in time. */
function runDeadline({ run }: RunState): Instant | null {
  return run?.pause?.until ?? run?.errorUntil ?? null;
}

/** At rest nothing is under way, nobody is asked, and nothing is remembered: whoever looks for such seats leaves this one alone. */
function restOfRuns({ status, remembered }: RunState): string | null {
  return (status === 'idle' || status === 'completed') && remembered.length === 0 ? '' : null;
}
