import { parseCall } from '../../src/cli/arguments.ts';
import type { ProgramCall } from '../../src/cli/arguments.ts';

/** A call of the program that must be understood. */
export function callOf(argv: readonly string[]): ProgramCall {
  const understood = parseCall(argv);
  if (!understood.ok || !('call' in understood)) throw new Error(`${argv.join(' ')} was not understood as a call`);
  return understood.call;
}
