import type { FactFields, Machine } from '../../engine/machine.ts';
import type { MachineStore } from '../../engine/port.ts';
import type { Instant } from '../../lib/time.ts';
import { RESTORE_JUMP } from '../../turns/floor-store.ts';
import { ASKED_TEXTS } from '../../turns/requesters.ts';
import { emptyRuns, runStateSchema } from './run.ts';
import type { RunApproval, RunState } from './run.ts';
import { decideRun } from './run-decide.ts';
import { runCommandSchema, runFactSchema } from './run-events.ts';
import type { RunCommand, RunFact, RunRefusal } from './run-events.ts';
import { evolveRun } from './run-evolve.ts';
import { publishedOf } from './run-published.ts';
import type { RunEvent } from './run-published.ts';

/** What the world must do for a run. A call that is to be dispatched, or answered yes, is claimed first. */
export type RunEffect =
  | { readonly type: 'publish'; readonly run: string; readonly event: RunEvent }
  | { readonly type: 'dispatch'; readonly run: string; readonly call: string }
  | { readonly type: 'answer'; readonly run: string; readonly call: string; readonly choice: 'allow' | 'reject' }
  | { readonly type: 'question'; readonly run: string; readonly approval: RunApproval }
  | { readonly type: 'questionOver'; readonly run: string; readonly approval: string; readonly state: string };

/** The runs of every seat. */
export type RunStore = MachineStore<RunState, RunCommand, RunFact, RunEffect, RunRefusal>;

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
  react: reactToRun,
  nextDeadline: runDeadline,
  rest: restOfRuns,
  state: runStateSchema,
  fact: runFactSchema,
  texts: RUN_TEXTS,
  restored: { type: 'SKIP_NUMBERS', by: RESTORE_JUMP },
  command: runCommandSchema,
} satisfies Machine<RunState, RunCommand, RunFact, RunEffect, RunRefusal>;

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

function reactToRun(fact: RunFact, state: RunState): readonly RunEffect[] {
  const run = state.run?.id ?? '';
  const events = publishedOf(fact, state).map((event): RunEffect => ({ type: 'publish', run, event }));
  switch (fact.type) {
    case 'callCleared': {
      const isOwn = state.run?.calls.some(({ id, source }) => id === fact.call && source === 'conch') === true;
      return [
        ...events,
        isOwn ? { type: 'dispatch', run, call: fact.call } : { type: 'answer', run, call: fact.call, choice: 'allow' },
      ];
    }
    case 'callSettled':
      return fact.refused ? [...events, { type: 'answer', run, call: fact.call, choice: 'reject' }] : events;
    case 'paused':
      return fact.approval === null ? events : [...events, { type: 'question', run, approval: fact.approval }];
    case 'approvalClosed':
      return [...events, { type: 'questionOver', run, approval: fact.id, state: fact.state }];
    case 'approvalDetached':
      return [...events, { type: 'questionOver', run, approval: fact.id, state: 'detached' }];
    case 'runStarted':
    case 'stepped':
    case 'resumed':
    case 'attached':
    case 'errored':
    case 'lost':
    case 'runCompleted':
    case 'aborted':
    case 'stepKept':
    case 'callRequested':
    case 'callClaimed':
    case 'grantUsed':
    case 'tainted':
    case 'cleansed':
    case 'numbersSkipped':
    case 'delayed':
    case 'yesRevoked':
    case 'causeNoted':
      return events;
  }
}
