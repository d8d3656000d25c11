import { CALLING } from './calling.ts';
import { CRASHES } from './crashes.ts';
import { DECIDING } from './deciding.ts';
import { PITFALLS } from './pitfalls.ts';
import { READING_ALONG } from './reading-along.ts';
import { REAL } from './real-agents.ts';
import type { Scenario } from './scenario.ts';
import { SERVING } from './serving.ts';

/** The rows of the acceptance of runs. */
export const SCENARIOS: readonly Scenario[] = [
  CALLING,
  DECIDING,
  SERVING,
  READING_ALONG,
  CRASHES,
  PITFALLS,
  REAL,
].flat();
