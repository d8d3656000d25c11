import type { MachineDecision } from '../../engine/machine.ts';
import type { Instant } from '../../lib/time.ts';
import { MOST_TURNS, TURN_LIMITS, lastNumber } from './run.ts';
import type { Run, RunState } from './run.ts';
import { RUN_GUARDS, isListed, isRunEvent } from './run-table.ts';
import type { RunEventName } from './run-table.ts';
import type { RunCommand, RunFact, RunRefusal } from './run-events.ts';
import {
  LOST,
  RunDecision,
  claimCall,
  closeApproval,
  decideApproval,
  dropCalls,
  endCall,
  failRun,
  forgetAgent,
  goOnAfterPause,
  goOnWithRun,
  isForPeople,
  markSession,
  pauseRun,
  isWaiting,
  reportCall,
  requestCalls,
  settleCall,
  standStill,
  addCall,
  withdrawCall,
} from './run-calls.ts';
import { defined } from '../../lib/defined.ts';

type Of<Type extends RunCommand['type']> = Extract<RunCommand, { type: Type }>;

/** Decides a command: facts, or a refusal that changes nothing. */
export function decideRun(state: RunState, command: RunCommand, at: Instant): MachineDecision<RunFact, RunRefusal> {
  const { cause } = command;
  if (cause !== undefined && state.causes.includes(cause)) return { ok: false, refusal: 'REPEATED', facts: [] };
  const decision = new RunDecision(state, at);
  const refusal = carryOut(decision, command);
  if (refusal !== null) return { ok: false, refusal, facts: [] };
  if (cause !== undefined) decision.record({ type: 'causeNoted', cause });
  return { ok: true, facts: decision.facts };
}

function carryOut(decision: RunDecision, command: RunCommand): RunRefusal | null {
  if (command.type === 'PAUSE' && isCutOff(decision, command)) return withdrawRequest(decision);
  const { type } = command;
  if (isRunEvent(type) && !isListed(decision.state.status, type)) return unlisted(decision, type);
  return decide(type, command, decision);
}

function decide<T extends RunCommand['type']>(type: T, command: Of<T>, decision: RunDecision): RunRefusal | null {
  return DECIDERS[type](decision, command);
}

type Deciders = {
  readonly [T in RunCommand['type']]: (decision: RunDecision, command: Of<T>) => RunRefusal | null;
};

const DECIDERS: Deciders = {
  START: start,
  STEP: step,
  PAUSE: (decision, { reason, context = null }) => {
    pauseRun(decision, reason, context);
    return null;
  },
  RESUME: resume,
  ERROR: fail,
  COMPLETE: complete,
  ABORT: (decision, command) => {
    if (command.while !== undefined && decision.state.status !== command.while) return 'AGENT_NOT_RUNNING';
    abort(decision, command);
    return null;
  },
  KEEP: keep,
  REQUEST: requestCalls,
  CLAIM: claimCall,
  SETTLE: settleCall,
  REPORT: reportCall,
  TAINT: (decision, { label = 'untrusted', from }) => (markSession(decision, label, from) ? null : 'UNCHANGED'),
  CLEANSE: cleanse,
  WITHDRAW: withdrawCall,
  DECIDE: decideApproval,
  REVOKE: revoke,
  ATTACH: attach,
  LOST: lose,
  RECOVER: recover,
  STANDSTILL: delay,
  SKIP_NUMBERS: skipNumbers,
  TICK: tick,
};

function cleanse(decision: RunDecision): RunRefusal | null {
  if (decision.state.taint === undefined && decision.state.secret === undefined) return 'UNCHANGED';
  decision.record({ type: 'cleansed' });
  return null;
}

function delay(decision: RunDecision, { ms }: Of<'STANDSTILL'>): RunRefusal | null {
  const { pause = null, errorUntil = null } = decision.state.run ?? {};
  if ((pause?.until ?? errorUntil) === null) return 'UNCHANGED';
  decision.record({ type: 'delayed', ms });
  return null;
}

function skipNumbers(decision: RunDecision, { by }: Of<'SKIP_NUMBERS'>): null {
  decision.record({ type: 'numbersSkipped', by });
  return null;
}

/** Refuses an event that the specification's matrix does not list, with the specification's code. */
function unlisted({ state }: RunDecision, type: RunEventName): RunRefusal {
  if (type === 'START') return 'AGENT_ALREADY_RUNNING';
  return type === 'COMPLETE' && (state.status === 'idle' || state.status === 'completed')
    ? 'AGENT_NO_AVAILABLE_TASK'
    : 'AGENT_NOT_RUNNING';
}

/** Starts a run: rows 1 and 15 of the specification's table. */
function start(decision: RunDecision, command: Of<'START'>): RunRefusal | null {
  const { task, runType, prompt, session, by, requestedBy, waitMs, allowedTools, model } = command;
  if (task === null || !RUN_GUARDS.hasValidTask(command)) return 'TASK_NOT_FOUND';
  const { state } = decision;
  for (const call of state.run?.calls ?? []) endCall(decision, call, { code: LOST, outcome: 'unknown' });
  const run = `${state.key}#${lastNumber(state) + 1}`;
  const maxTurns = command.maxTurns ?? TURN_LIMITS[runType];
  const requester = defined({ requestedBy });
  const startFields = { runType, prompt, session, by, ...requester, waitMs, allowedTools, ...defined({ model }) };
  decision.record({ type: 'runStarted', run, task: task.id, ...startFields, maxTurns });
  return null;
}

/**
 * Begins a step: rows 2, 4 and 5 of the specification's table. A first step that reaches the step limit is row 2 and
 * then row 6.
 */
function step(decision: RunDecision, command: Of<'STEP'>): RunRefusal | null {
  const { run } = decision;
  if (!RUN_GUARDS.hasValidSession(run, command)) return 'AGENT_NOT_RUNNING';
  if (command.turn !== run.turn + 1) return 'STEP_OUT_OF_ORDER';
  if (!run.calls.every(isWaiting)) return 'CALL_OPEN';
  const ids = command.toolCalls.map(({ id }) => id);
  if (new Set(ids).size < ids.length) return 'CALL_REPEATED';
  decision.record({ type: 'stepped', turn: command.turn, output: command.output ?? null });
  for (const call of command.toolCalls) addCall(decision, call);
  if (RUN_GUARDS.atTurnLimit(run, command)) pauseRun(decision, 'turn_limit', null);
  else goOnWithRun(decision);
  return null;
}

function keep(decision: RunDecision, command: Of<'KEEP'>): RunRefusal | null {
  const { status } = decision.state;
  const isOpen = status === 'running' || status === 'paused';
  if (!isOpen || !RUN_GUARDS.hasValidSession(decision.run, command)) return 'AGENT_NOT_RUNNING';
  const { said, calls } = command;
  decision.record({ type: 'stepKept', said, calls });
  return null;
}

/** Continues a paused run, or retries a failed one: rows 11 and 13 of the specification's table. */
function resume(decision: RunDecision, command: Of<'RESUME'>): RunRefusal | null {
  const { state, run } = decision;
  if (state.status === 'error' && (run.lastError === null || !RUN_GUARDS.isRecoverable(run.lastError))) {
    return 'AGENT_EXECUTION_ERROR';
  }
  const refusal = floorRefusal(state, run, command);
  if (refusal !== null) return refusal;
  if (run.pause?.approval) return 'APPROVAL_OPEN';
  const more = command.more ?? run.turnsAtOnce;
  if (more < 1 || more > MOST_TURNS) return 'AGENT_TURN_LIMIT_EXCEEDED';
  const maxTurns = run.maxTurns + (run.pause?.reason === 'turn_limit' ? more : 0);
  const { by, feedback = null, told: decider } = command;
  decision.record({ type: 'resumed', by, feedback, input: null, maxTurns, ...defined({ told: decider }) });
  goOnAfterPause(decision);
  return null;
}

/** Fails the run: rows 3, 8 and 9 of the specification's table. */
function fail(decision: RunDecision, command: Of<'ERROR'>): RunRefusal | null {
  if (!RUN_GUARDS.hasValidSession(decision.run, command)) return 'AGENT_NOT_RUNNING';
  failRun(decision, command.error);
  return null;
}

/** Completes the run: row 7 of the specification's table. */
function complete(decision: RunDecision, command: Of<'COMPLETE'>): RunRefusal | null {
  const { run } = decision;
  if (!RUN_GUARDS.hasValidSession(run, command)) return 'AGENT_NOT_RUNNING';
  if (run.calls.some(({ status }) => status === 'running')) return 'CALL_OPEN';
  for (const call of run.calls) endCall(decision, call, { code: 'DROPPED', outcome: 'known' });
  const { result, by = null } = command;
  decision.record({ type: 'runCompleted', result, diff: null, turnCount: run.turn, ...(by === null ? {} : { by }) });
  return null;
}

/**
 * Aborts a run: rows 10, 12 and 14 of the specification's table, and the state `starting`, which only its matrix lists.
 * Calls that Conch still runs are settled when they end.
 */
function abort(decision: RunDecision, { reason, by }: { readonly reason: string; readonly by: string | null }): void {
  closeApproval(decision, 'void');
  dropCalls(decision, 'DROPPED');
  decision.record({ type: 'aborted', reason, by });
}

function revoke(decision: RunDecision, { id, by, name }: Of<'REVOKE'>): RunRefusal | null {
  const stored = decision.state.remembered.find((each) => each.id === id);
  if (stored === undefined) return 'RULE_UNKNOWN';
  decision.record({ type: 'ruleRevoked', id, by, told: { rule: stored.rule, name } });
  return null;
}

function attach(decision: RunDecision, { session }: Of<'ATTACH'>): RunRefusal | null {
  const { status } = decision.state;
  if (status === 'idle' || status === 'completed') return 'AGENT_NOT_RUNNING';
  if (session !== decision.run.session) forgetAgent(decision);
  decision.record({ type: 'attached', session });
  const { pause } = decision.run;
  if (pause !== null && isForPeople(decision.run)) pauseRun(decision, pause.reason, pause.context);
  return null;
}

/**
 * Returns why the run of a turn or a background run must not resume now; `null` when it may. A failed run of a turn
 * does not resume: another turn begins another run. Always `null` for a task.
 */
function floorRefusal({ status }: RunState, run: Run, { by }: Of<'RESUME'>): RunRefusal | null {
  if (run.type === 'task') return null;
  if (status === 'error') return run.type === 'background' && by !== null ? null : 'AGENT_EXECUTION_ERROR';
  if (by !== null && (run.pause?.reason === 'user_input' || run.pause?.muted === true)) return 'AGENT_NOT_RUNNING';
  return by === null && isForPeople(run) ? 'APPROVAL_OPEN' : null;
}

function lose(decision: RunDecision, command: Of<'LOST'>): RunRefusal | null {
  const { state } = decision;
  if (state.status !== 'paused' || !RUN_GUARDS.hasValidSession(decision.run, command)) return 'AGENT_NOT_RUNNING';
  forgetAgent(decision);
  decision.record({ type: 'lost', error: command.error });
  return null;
}

function recover(decision: RunDecision): RunRefusal | null {
  if (decision.state.run === null) return 'NOT_DUE';
  const { type, pause } = decision.run;
  const isOnFloor = type !== 'task' && isListed(decision.state.status, 'ABORT');
  const isLasting = pause?.approval?.lasting !== undefined;
  if (isOnFloor && !isLasting) closeApproval(decision, 'void');
  const running = decision.run.calls.filter(({ source, status }) => source === 'conch' && status === 'running');
  for (const call of running) endCall(decision, call, { code: 'RESTARTED', outcome: 'unknown' });
  forgetAgent(decision);
  // A background run with a lasting request stays open to a decision.
  if (isOnFloor && !(isLasting && type === 'background')) standStill(decision);
  if (decision.facts.length === 0) return 'NOT_DUE';
  goOnWithRun(decision);
  return null;
}

/** Returns whether the turn of a paused run no longer waits for the run's request, but for something else. */
function isCutOff({ state }: RunDecision, { reason }: Of<'PAUSE'>): boolean {
  const isAsking = state.run?.pause?.reason !== 'user_input' && state.run?.pause?.muted !== true;
  return state.status === 'paused' && state.run?.waitMs === null && reason === 'user_input' && isAsking;
}

function withdrawRequest(decision: RunDecision): null {
  closeApproval(decision, 'void');
  standStill(decision);
  return null;
}

function tick(decision: RunDecision): RunRefusal | null {
  const { pause: waits, errorUntil } = decision.state.run ?? { pause: null, errorUntil: null };
  if (decision.at < (waits?.until ?? errorUntil ?? Infinity)) return 'NOT_DUE';
  closeApproval(decision, 'expired');
  abort(decision, { reason: 'nobody answered in time', by: null });
  return null;
}
