import type { Run, RunStatus } from './run.ts';
import type { RunCommand } from './run-events.ts';

/** The specification's seven events. */
export type RunEventName = 'START' | 'STEP' | 'PAUSE' | 'RESUME' | 'ERROR' | 'COMPLETE' | 'ABORT';

type Of<Type extends RunCommand['type']> = Extract<RunCommand, { type: Type }>;

/**
 * Conditions of a transition, by the specification's names. The specification's `canPause` and `canResume` are rows of
 * the table (`isListed`); its `withinTurnLimit` and `notAtTurnLimit` are `!atTurnLimit`.
 */
export const RUN_GUARDS = {
  hasValidTask: ({ task }: Of<'START'>) =>
    task !== null && (task.column === 'backlog' || task.column === 'in_progress'),
  /** False when the rules or the run's `allowedTools` deny the call. A call that asks people counts as allowed. */
  isToolAllowed: ({ verdict }: { readonly verdict: 'allow' | 'ask' | 'deny' }) => verdict !== 'deny',
  isRecoverable: ({ recoverable }: { readonly recoverable: boolean }) => recoverable,
  /** True for a command of the run's present session. Commands of other sessions are refused. */
  hasValidSession: (run: Run, { session }: { readonly session: string }) => run.session === session,
  atTurnLimit: (run: Run, { turn }: Of<'STEP'>) => turn >= run.maxTurns,
} as const;

type Row = {
  /** The row's number in the specification; `null`: only in its matrix. */
  readonly row: number | null;
  readonly from: RunStatus;
  readonly event: RunEventName;
  readonly guards: readonly (keyof typeof RUN_GUARDS | '!isRecoverable' | '!atTurnLimit')[];
  readonly to: RunStatus;
};

/** The specification's fifteen rows, and one that only its matrix has. Transitions that are not listed are refused. */
export const RUN_TRANSITIONS = [
  { row: 1, from: 'idle', event: 'START', guards: ['hasValidTask'], to: 'starting' },
  { row: 2, from: 'starting', event: 'STEP', guards: [], to: 'running' },
  { row: 3, from: 'starting', event: 'ERROR', guards: [], to: 'error' },
  { row: 4, from: 'running', event: 'STEP', guards: ['!atTurnLimit'], to: 'running' },
  { row: 5, from: 'running', event: 'STEP', guards: ['atTurnLimit'], to: 'paused' },
  { row: 6, from: 'running', event: 'PAUSE', guards: [], to: 'paused' },
  { row: 7, from: 'running', event: 'COMPLETE', guards: [], to: 'completed' },
  { row: 8, from: 'running', event: 'ERROR', guards: ['isRecoverable'], to: 'error' },
  { row: 9, from: 'running', event: 'ERROR', guards: ['!isRecoverable'], to: 'idle' },
  { row: 10, from: 'running', event: 'ABORT', guards: [], to: 'idle' },
  { row: 11, from: 'paused', event: 'RESUME', guards: [], to: 'running' },
  { row: 12, from: 'paused', event: 'ABORT', guards: [], to: 'idle' },
  { row: 13, from: 'error', event: 'RESUME', guards: ['isRecoverable'], to: 'running' },
  { row: 14, from: 'error', event: 'ABORT', guards: [], to: 'idle' },
  { row: 15, from: 'completed', event: 'START', guards: ['hasValidTask'], to: 'starting' },
  { row: null, from: 'starting', event: 'ABORT', guards: [], to: 'idle' },
] as const satisfies readonly Row[];

/** Whether the specification's matrix has an X for an event in a state. */
export function isListed(from: RunStatus, event: RunEventName): boolean {
  return RUN_TRANSITIONS.some((row) => row.from === from && row.event === event);
}
