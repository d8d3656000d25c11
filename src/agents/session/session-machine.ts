import { z } from 'zod';
import type { Machine, MachineDecision } from '../../engine/machine.ts';
import { backoffMs } from '../../lib/retry.ts';
import type { RetryPolicy } from '../../lib/retry.ts';
import type { Instant } from '../../lib/time.ts';
import { foundOnce } from '../../lib/keyed.ts';
import type { TurnPrompt } from '../backends/backend.ts';

/** The phases of a session, named as in the specification. */
export const PHASES = [
  'Initializing',
  'BuildingPrompt',
  'Spawning',
  'Running',
  'Interrupting',
  'SessionComplete',
  'CoolingDown',
  'Stopped',
] as const;

const phaseSchema = z.discriminatedUnion('name', [
  z.object({ name: z.enum(['Initializing', 'BuildingPrompt', 'SessionComplete']) }),
  /** `opensBy`: the instant until which the backend may open the session; `null` once the session has its prompt. */
  z.object({ name: z.literal('Spawning'), opensBy: z.number().nullable() }),
  z.object({ name: z.literal('Running'), sessionSeq: z.int().positive() }),
  z.object({ name: z.literal('Interrupting'), sessionSeq: z.int().positive(), graceEndsAt: z.number() }),
  z.object({ name: z.literal('CoolingDown'), delayMs: z.number().nonnegative(), endsAt: z.number() }),
  z.object({ name: z.literal('Stopped'), why: z.string() }),
]);

/** The phase of one agent session. Durations are in milliseconds. */
export type Phase = Readonly<z.infer<typeof phaseSchema>>;

const count = z.int().nonnegative();

/** The schema of one session's state: plain JSON. */
export const sessionState = z.object({
  phase: phaseSchema,
  /**
   * The generation's number. Grows by 1 after each generation that was not interrupted and did not fail.
   * OperatorRestart sets the number to 1.
   */
  sessionSeq: z.int().positive(),
  consecutiveErrors: count,
  totalErrors: count,
});

/** The state of one session. */
export type SessionState = Readonly<z.infer<typeof sessionState>>;

/** How a generation ended, or how its session was lost. */
export type Exit =
  | { readonly how: 'Success' }
  | { readonly how: 'Error'; readonly message: string }
  | { readonly how: 'Timeout' };

/** The events of the machine: those of the specification, and four additional ones. `departs` in the table says why. */
export type SessionEvent =
  | { readonly type: 'WorktreeReady' | 'GraceExceeded' | 'BackoffElapsed' | 'OperatorStop' }
  | { readonly type: 'PromptReady'; readonly prompt: TurnPrompt }
  | { readonly type: 'SessionStarted'; readonly seq: number }
  | { readonly type: 'SessionExited'; readonly exit: Exit }
  | { readonly type: 'UrgentMessage'; readonly graceMs: number }
  | { readonly type: 'FatalError'; readonly message: string }
  | { readonly type: 'SessionOpening' | 'SessionOpened' | 'SessionAbsent' | 'OperatorRestart' };

/** The effects of transitions, named as in the specification. `OpenSession` is additional. */
export type SessionEffect =
  | { readonly type: 'StorePrompt'; readonly prompt: TurnPrompt }
  /** `null`: the session is closed without a grace. */
  | { readonly type: 'CancelSession'; readonly graceMs: number | null }
  | { readonly type: 'LogFatal'; readonly message: string }
  | { readonly type: 'ForceStopSession' | 'IncrementSession' | 'OpenSession' };

/** How many errors stop a session: in a row, and in all since the last OperatorRestart. */
export type Thresholds = { readonly maxConsecutiveErrors: number; readonly maxTotalErrors: number };

/**
 * One transition: its target, the counters after the transition, and its effect. `effect` is `null` for the table's
 * None, and for the CancelSession of a row from `any` in phases other than Running and Interrupting.
 */
export type SessionFact = Counters & {
  readonly type: 'sessionMoved';
  readonly from: Phase['name'];
  readonly to: Phase;
  readonly trigger: SessionTrigger;
  readonly effect: SessionEffect | null;
};

type SessionTrigger = Exclude<SessionEvent['type'], 'SessionExited'> | `SessionExited(${Exit['how']})`;

/** The specification's default thresholds of errors. */
export const DEFAULT_THRESHOLDS: Thresholds = { maxConsecutiveErrors: 5, maxTotalErrors: 20 };

/** The specification's backoff: `min(2000 * 2^(n-1), 60000)` ms after the n-th error in a row. */
export const SESSION_BACKOFF: RetryPolicy = { firstMs: 2_000, longestMs: 60_000 };

/** A session before anything happened. */
export const NEW_SESSION: SessionState = {
  phase: { name: 'Initializing' },
  sessionSeq: 1,
  consecutiveErrors: 0,
  totalErrors: 0,
};

type Row = {
  readonly from: Phase['name'] | 'any';
  readonly trigger: SessionTrigger;
  readonly to: Phase['name'];
  readonly effect: SessionEffect['type'] | 'None';
  /**
   * `opening`: the row applies only while the backend opens the session. `prompted`: only once the session has its
   * prompt.
   */
  readonly during?: 'opening' | 'prompted';
  /** Why the table has a row that the specification does not have. */
  readonly departs?: string;
};

const AHEAD = 'a session is opened ahead of its first prompt, so that the floor knows who is there';
const UNTRUSTED = 'a session whose folder is no longer trusted ends, counts no error, and is opened again once it is';
const IDLE = 'a session that is lost between two prompts counts no error: another is opened';

/**
 * The specification's table, row for row (`SessionExited(*)` written out), then the additional rows. A row to
 * CoolingDown goes to Stopped with LogFatal when a counter reaches its threshold. In the rows from `any`, CancelSession
 * has an effect only in the phases Running and Interrupting.
 */
export const SESSION_TRANSITIONS = [
  { from: 'Initializing', trigger: 'WorktreeReady', to: 'BuildingPrompt', effect: 'None' },
  { from: 'BuildingPrompt', trigger: 'PromptReady', to: 'Spawning', effect: 'StorePrompt' },
  { from: 'Spawning', trigger: 'SessionStarted', to: 'Running', effect: 'None', during: 'prompted' },
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
  { from: 'any', trigger: 'OperatorStop', to: 'Stopped', effect: 'CancelSession' },
  { from: 'any', trigger: 'FatalError', to: 'Stopped', effect: 'LogFatal' },
  { from: 'BuildingPrompt', trigger: 'SessionOpening', to: 'Spawning', effect: 'OpenSession', departs: AHEAD },
  {
    from: 'Spawning',
    trigger: 'SessionOpened',
    to: 'BuildingPrompt',
    effect: 'None',
    during: 'opening',
    departs: AHEAD,
  },
  {
    from: 'Spawning',
    trigger: 'SessionAbsent',
    to: 'Initializing',
    effect: 'None',
    during: 'opening',
    departs: 'an agent that comes to us by itself is waited for, and being away counts no error',
  },
  {
    from: 'Spawning',
    trigger: 'SessionAbsent',
    to: 'Initializing',
    effect: 'None',
    during: 'prompted',
    departs: UNTRUSTED,
  },
  { from: 'Running', trigger: 'SessionAbsent', to: 'Initializing', effect: 'None', departs: UNTRUSTED },
  {
    from: 'Spawning',
    trigger: 'UrgentMessage',
    to: 'Interrupting',
    effect: 'CancelSession',
    during: 'prompted',
    departs: 'people can stop a session before its first sign of work',
  },
  {
    from: 'Interrupting',
    trigger: 'UrgentMessage',
    to: 'Interrupting',
    effect: 'CancelSession',
    departs: 'a second one may leave less grace',
  },
  { from: 'BuildingPrompt', trigger: 'SessionExited(Error)', to: 'BuildingPrompt', effect: 'None', departs: IDLE },
  { from: 'BuildingPrompt', trigger: 'SessionExited(Timeout)', to: 'BuildingPrompt', effect: 'None', departs: IDLE },
  {
    from: 'any',
    trigger: 'OperatorRestart',
    to: 'Initializing',
    effect: 'CancelSession',
    departs: 'an operator starts an agent afresh, whatever it is doing, with its counters at zero',
  },
] as const satisfies readonly Row[];

/** The session machine. Each event yields one fact, or a refusal. */
export type SessionMachine = Required<
  Pick<Machine<SessionState, SessionEvent, SessionFact, never>, 'decide' | 'evolve' | 'nextDeadline'>
>;

/**
 * Returns the machine with these thresholds, cached for the thresholds object. Refused are events that the table does
 * not list for the phase, and a SessionStarted with the number of another session.
 */
export function createSessionMachine(thresholds: Thresholds = DEFAULT_THRESHOLDS): SessionMachine {
  return machineWith(thresholds);
}

const machineWith = foundOnce((thresholds: Thresholds): SessionMachine => ({
  decide: (state, event, at) => decide({ state, event, at, thresholds }),
  evolve,
  nextDeadline,
}));

/**
 * True for a transition that must survive a restart of Conch: it changes the error counters, stops the session, or
 * starts a stopped session.
 */
export function outlives(
  { consecutiveErrors, totalErrors }: SessionState,
  { from, to, ...after }: SessionFact,
): boolean {
  const isCounted = after.consecutiveErrors !== consecutiveErrors || after.totalErrors !== totalErrors;
  return isCounted || (from === 'Stopped') !== (to.name === 'Stopped');
}

/** The longest time for a backend to open a session, in milliseconds. */
export const OPEN_MS = 60_000;
/** Extra time after the grace before the session is closed by force, in milliseconds. */
const GRACE_MARGIN_MS = 1_000;

type Moment = {
  readonly state: SessionState;
  readonly event: SessionEvent;
  readonly at: Instant;
  readonly thresholds: Thresholds;
};

type Counters = Omit<SessionState, 'phase'>;

function decide(moment: Moment): MachineDecision<SessionFact, string> {
  const { state, event } = moment;
  const trigger = triggerOf(event);
  const row = rowFor(state.phase, trigger);
  if (row === null) return refused(`${trigger} does not apply while the session is ${state.phase.name}`);
  if (event.type === 'SessionStarted' && event.seq !== state.sessionSeq) {
    return refused(`session ${event.seq} cannot start: it is session ${state.sessionSeq}`);
  }
  const counters = countersAfter(moment, row);
  const why = row.to === 'CoolingDown' ? exceeded(counters, moment.thresholds) : null;
  const moved = { type: 'sessionMoved', from: state.phase.name, trigger, ...counters } as const;
  if (why !== null) {
    const fact = { ...moved, to: { name: 'Stopped', why }, effect: { type: 'LogFatal', message: why } } as const;
    return { ok: true, facts: [fact] };
  }
  const fact = { ...moved, to: phaseAfter(moment, row.to, counters), effect: effectOf(moment, row.effect) };
  return { ok: true, facts: [fact] };
}

function evolve(state: SessionState, fact: SessionFact): SessionState {
  if (fact.from !== state.phase.name) {
    throw new Error(`impossible: ${fact.trigger} from ${fact.from} while the session is ${state.phase.name}`);
  }
  const { to, sessionSeq, consecutiveErrors, totalErrors } = fact;
  return { phase: to, sessionSeq, consecutiveErrors, totalErrors };
}

function nextDeadline({ phase }: SessionState): Instant | null {
  if (phase.name === 'CoolingDown') return phase.endsAt;
  if (phase.name === 'Interrupting') return phase.graceEndsAt;
  return phase.name === 'Spawning' ? phase.opensBy : null;
}

function rowFor(phase: Phase, trigger: SessionTrigger): Row | null {
  const rows: readonly Row[] = SESSION_TRANSITIONS;
  const during = phase.name === 'Spawning' && phase.opensBy !== null ? 'opening' : 'prompted';
  for (const row of rows) {
    const isFrom = row.from === 'any' || row.from === phase.name;
    if (isFrom && row.trigger === trigger && (row.during ?? during) === during) return row;
  }
  return null;
}

function countersAfter({ state, event }: Moment, row: Row): Counters {
  if (event.type === 'OperatorRestart') return countersOf(NEW_SESSION);
  const sessionSeq = state.sessionSeq + (row.effect === 'IncrementSession' ? 1 : 0);
  if (row.to === 'CoolingDown') {
    return { sessionSeq, consecutiveErrors: state.consecutiveErrors + 1, totalErrors: state.totalErrors + 1 };
  }
  const recovers = row.trigger === 'SessionStarted' || row.trigger === 'SessionExited(Success)';
  const consecutiveErrors = recovers ? 0 : state.consecutiveErrors;
  return { sessionSeq, consecutiveErrors, totalErrors: state.totalErrors };
}

function countersOf({ sessionSeq, consecutiveErrors, totalErrors }: SessionState): Counters {
  return { sessionSeq, consecutiveErrors, totalErrors };
}

function exceeded({ consecutiveErrors, totalErrors }: Counters, thresholds: Thresholds): string | null {
  if (consecutiveErrors >= thresholds.maxConsecutiveErrors) return `${consecutiveErrors} errors in a row`;
  return totalErrors >= thresholds.maxTotalErrors ? `${totalErrors} errors in all` : null;
}

function phaseAfter({ state, event, at }: Moment, name: Phase['name'], counters: Counters): Phase {
  switch (name) {
    case 'Initializing':
    case 'BuildingPrompt':
    case 'SessionComplete':
      return { name };
    case 'Spawning':
      return { name, opensBy: event.type === 'SessionOpening' ? at + OPEN_MS : null };
    case 'Running':
      return { name, sessionSeq: counters.sessionSeq };
    case 'Interrupting': {
      const endsAt = at + GRACE_MARGIN_MS + (event.type === 'UrgentMessage' ? event.graceMs : 0);
      const before = state.phase.name === 'Interrupting' ? state.phase.graceEndsAt : Infinity;
      return { name, sessionSeq: counters.sessionSeq, graceEndsAt: Math.min(before, endsAt) };
    }
    case 'CoolingDown': {
      const delayMs = backoffMs(SESSION_BACKOFF, counters.consecutiveErrors);
      return { name, delayMs, endsAt: at + delayMs };
    }
    case 'Stopped':
      return { name, why: event.type === 'FatalError' ? event.message : 'stopped by an operator' };
  }
}

function effectOf({ state, event }: Moment, type: Row['effect']): SessionEffect | null {
  switch (type) {
    case 'None':
      return null;
    case 'StorePrompt':
      return event.type === 'PromptReady' ? { type, prompt: event.prompt } : null;
    case 'LogFatal':
      return event.type === 'FatalError' ? { type, message: event.message } : null;
    case 'CancelSession': {
      if (event.type === 'UrgentMessage') return { type, graceMs: event.graceMs };
      const { name } = state.phase;
      return name === 'Running' || name === 'Interrupting' ? { type, graceMs: null } : null;
    }
    case 'ForceStopSession':
    case 'IncrementSession':
    case 'OpenSession':
      return { type };
  }
}

function triggerOf(event: SessionEvent): SessionTrigger {
  return event.type === 'SessionExited' ? `SessionExited(${event.exit.how})` : event.type;
}

function refused(refusal: string): MachineDecision<SessionFact, string> {
  return { ok: false, refusal, facts: [] };
}
