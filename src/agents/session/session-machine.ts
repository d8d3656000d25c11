/** What one agent session is doing, by the names of the owner's table. Durations are milliseconds. */
export type Phase =
  | { readonly name: 'Initializing' | 'BuildingPrompt' | 'Spawning' | 'SessionComplete' }
  | { readonly name: 'Running' | 'Interrupting'; readonly sessionSeq: number }
  | { readonly name: 'CoolingDown'; readonly delayMs: number }
  | { readonly name: 'Stopped'; readonly why: string };

/** How a backend session ended. */
export type Exit =
  | { readonly how: 'Success' }
  | { readonly how: 'Error'; readonly message: string }
  | { readonly how: 'Timeout' };

/** What the machine is told. */
export type SessionEvent =
  | {
      readonly type:
        | 'WorktreeReady'
        | 'PromptReady'
        | 'SessionStarted'
        | 'UrgentMessage'
        | 'GraceExceeded'
        | 'BackoffElapsed'
        | 'OperatorStop';
    }
  | { readonly type: 'SessionExited'; readonly exit: Exit }
  | { readonly type: 'FatalError'; readonly message: string };

/** What has to be done after a transition, by the names of the owner's table. */
export type SessionEffect =
  | 'None'
  | 'StorePrompt'
  | 'CancelSession'
  | 'ForceStopSession'
  | 'IncrementSession'
  | 'LogFatal';

/** One session's state: plain JSON. */
export type SessionState = {
  readonly phase: Phase;
  /** Counts the generations; the first is 1. */
  readonly sessionSeq: number;
  readonly consecutiveErrors: number;
  readonly totalErrors: number;
};

/** How many errors stop a session for good. */
export type Thresholds = { readonly maxConsecutiveErrors: number; readonly maxTotalErrors: number };

/** One transition that happened: where to, with which counters, and what has to be done. */
export type SessionFact = {
  readonly type: 'sessionMoved';
  readonly from: Phase['name'];
  readonly to: Phase;
  readonly trigger: Trigger;
  readonly effect: SessionEffect;
  readonly sessionSeq: number;
  readonly consecutiveErrors: number;
  readonly totalErrors: number;
};

/** The owner's defaults. */
export const DEFAULT_THRESHOLDS: Thresholds = { maxConsecutiveErrors: 5, maxTotalErrors: 20 };

/** A session before anything happened. */
export const NEW_SESSION: SessionState = {
  phase: { name: 'Initializing' },
  sessionSeq: 1,
  consecutiveErrors: 0,
  totalErrors: 0,
};

type Trigger =
  | Exclude<SessionEvent['type'], 'SessionExited'>
  | 'SessionExited(Success)'
  | 'SessionExited(Error)'
  | 'SessionExited(Timeout)';

type Row = {
  readonly from: Phase['name'];
  readonly trigger: Trigger;
  readonly to: Phase['name'];
  readonly effect: SessionEffect;
};

/**
 * The owner's table, row for row (`SessionExited(*)` written out). A row to CoolingDown goes to Stopped with LogFatal
 * when a counter reaches its threshold. OperatorStop and FatalError go from every state to Stopped.
 */
export const SESSION_TRANSITIONS = [
  { from: 'Initializing', trigger: 'WorktreeReady', to: 'BuildingPrompt', effect: 'None' },
  { from: 'BuildingPrompt', trigger: 'PromptReady', to: 'Spawning', effect: 'StorePrompt' },
  { from: 'Spawning', trigger: 'SessionStarted', to: 'Running', effect: 'None' },
  { from: 'Spawning', trigger: 'SessionExited(Error)', to: 'CoolingDown', effect: 'None' },
  { from: 'Spawning', trigger: 'SessionExited(Timeout)', to: 'CoolingDown', effect: 'None' },
  { from: 'Running', trigger: 'SessionExited(Success)', to: 'SessionComplete', effect: 'None' },
  { from: 'Running', trigger: 'SessionExited(Error)', to: 'CoolingDown', effect: 'None' },
  { from: 'Running', trigger: 'SessionExited(Timeout)', to: 'CoolingDown', effect: 'None' },
  { from: 'Running', trigger: 'UrgentMessage', to: 'Interrupting', effect: 'CancelSession' },
  { from: 'Interrupting', trigger: 'SessionExited(Success)', to: 'BuildingPrompt', effect: 'None' },
  { from: 'Interrupting', trigger: 'SessionExited(Error)', to: 'BuildingPrompt', effect: 'None' },
  { from: 'Interrupting', trigger: 'SessionExited(Timeout)', to: 'BuildingPrompt', effect: 'None' },
  { from: 'Interrupting', trigger: 'GraceExceeded', to: 'BuildingPrompt', effect: 'ForceStopSession' },
  { from: 'SessionComplete', trigger: 'WorktreeReady', to: 'BuildingPrompt', effect: 'IncrementSession' },
  { from: 'CoolingDown', trigger: 'BackoffElapsed', to: 'BuildingPrompt', effect: 'None' },
] as const satisfies readonly Row[];

/** How long to cool down after the n-th error in a row: `min(2000 * 2^(n-1), 60000)` ms. */
export function backoffMs(consecutiveErrors: number): number {
  return Math.min(2_000 * 2 ** (consecutiveErrors - 1), 60_000);
}

/** What an event does to a session; an event that the table does not list for the state is refused. */
export function decide(
  state: SessionState,
  event: SessionEvent,
  thresholds: Thresholds,
): { readonly ok: true; readonly fact: SessionFact } | { readonly ok: false; readonly refusal: string } {
  const from = state.phase.name;
  const trigger = triggerOf(event);
  if (event.type === 'OperatorStop') {
    const live = from === 'Running' || from === 'Interrupting';
    return moved(state, trigger, { to: stopped('stopped by an operator'), effect: live ? 'CancelSession' : 'None' });
  }
  if (event.type === 'FatalError') return moved(state, trigger, { to: stopped(event.message), effect: 'LogFatal' });
  const row = SESSION_TRANSITIONS.find((candidate) => candidate.from === from && candidate.trigger === trigger);
  if (!row) return { ok: false, refusal: `${trigger} does not apply while ${from}` };
  if (row.to === 'CoolingDown') return failed(state, trigger, thresholds);
  const recovered = trigger === 'SessionStarted' || trigger === 'SessionExited(Success)';
  const sessionSeq = state.sessionSeq + (row.effect === 'IncrementSession' ? 1 : 0);
  return moved({ ...state, sessionSeq, consecutiveErrors: recovered ? 0 : state.consecutiveErrors }, trigger, {
    to: phaseOf(row.to, sessionSeq),
    effect: row.effect,
  });
}

/** The session after a fact. Throws when the fact does not start where the session is: a bug. */
export function evolve(state: SessionState, fact: SessionFact): SessionState {
  if (fact.from !== state.phase.name) {
    throw new Error(`impossible: ${fact.trigger} from ${fact.from} while the session is ${state.phase.name}`);
  }
  const { sessionSeq, consecutiveErrors, totalErrors } = fact;
  return { phase: fact.to, sessionSeq, consecutiveErrors, totalErrors };
}

function failed(state: SessionState, trigger: Trigger, thresholds: Thresholds) {
  const consecutiveErrors = state.consecutiveErrors + 1;
  const totalErrors = state.totalErrors + 1;
  const counted = { ...state, consecutiveErrors, totalErrors };
  if (consecutiveErrors >= thresholds.maxConsecutiveErrors) {
    return moved(counted, trigger, { to: stopped(`${consecutiveErrors} errors in a row`), effect: 'LogFatal' });
  }
  if (totalErrors >= thresholds.maxTotalErrors) {
    return moved(counted, trigger, { to: stopped(`${totalErrors} errors in all`), effect: 'LogFatal' });
  }
  const to: Phase = { name: 'CoolingDown', delayMs: backoffMs(consecutiveErrors) };
  return moved(counted, trigger, { to, effect: 'None' });
}

function moved(state: SessionState, trigger: Trigger, move: { readonly to: Phase; readonly effect: SessionEffect }) {
  const { phase, sessionSeq, consecutiveErrors, totalErrors } = state;
  const fact: SessionFact = {
    type: 'sessionMoved',
    from: phase.name,
    trigger,
    ...move,
    sessionSeq,
    consecutiveErrors,
    totalErrors,
  };
  return { ok: true as const, fact };
}

function triggerOf(event: SessionEvent): Trigger {
  return event.type === 'SessionExited' ? `SessionExited(${event.exit.how})` : event.type;
}

function stopped(why: string): Phase {
  return { name: 'Stopped', why };
}

type Plain = 'BuildingPrompt' | 'Spawning' | 'SessionComplete';

function phaseOf(name: Plain | 'Running' | 'Interrupting', sessionSeq: number): Phase {
  return name === 'Running' || name === 'Interrupting' ? { name, sessionSeq } : { name };
}
