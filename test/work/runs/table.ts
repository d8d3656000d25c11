import type { RunStatus } from '../../../src/work/runs/run.ts';
import type { RunEventName } from '../../../src/work/runs/run-table.ts';

/** The specification's fifteen rows (number, from, event, to), and one row that only its matrix has. */
export const ROWS_OF_RUNS: readonly (readonly [number | null, RunStatus, RunEventName, RunStatus])[] = [
  [1, 'idle', 'START', 'starting'],
  [2, 'starting', 'STEP', 'running'],
  [3, 'starting', 'ERROR', 'error'],
  [4, 'running', 'STEP', 'running'],
  [5, 'running', 'STEP', 'paused'],
  [6, 'running', 'PAUSE', 'paused'],
  [7, 'running', 'COMPLETE', 'completed'],
  [8, 'running', 'ERROR', 'error'],
  [9, 'running', 'ERROR', 'idle'],
  [10, 'running', 'ABORT', 'idle'],
  [11, 'paused', 'RESUME', 'running'],
  [12, 'paused', 'ABORT', 'idle'],
  [13, 'error', 'RESUME', 'running'],
  [14, 'error', 'ABORT', 'idle'],
  [15, 'completed', 'START', 'starting'],
  [null, 'starting', 'ABORT', 'idle'],
];
