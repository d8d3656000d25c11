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

/** The events that the specification's matrix lists in each state. */
const LISTED: Readonly<Record<RunStatus, readonly RunEventName[]>> = {
  idle: ['START'],
  starting: ['STEP', 'ERROR', 'ABORT'],
  running: ['STEP', 'PAUSE', 'ERROR', 'COMPLETE', 'ABORT'],
  paused: ['RESUME', 'ABORT'],
  error: ['RESUME', 'ABORT'],
  completed: ['START'],
};

const EVENTS: ReadonlySet<string> = new Set(Object.values(LISTED).flat());

/** Whether the type of a command is one of the specification's events. */
export function isRunEvent(type: string): type is RunEventName {
  return EVENTS.has(type);
}

/** Whether the specification's matrix has an X for an event in a state. */
export function isListed(from: RunStatus, event: RunEventName): boolean {
  return LISTED[from].includes(event);
}
