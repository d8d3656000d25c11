import { parseCall } from '../../src/cli/arguments.ts';
import type { ProgramCall } from '../../src/cli/arguments.ts';

/** Parses a command line. Throws when it is not a call of a command. */
export function callOf(argv: readonly string[]): ProgramCall {
  const understood = parseCall(argv);
  if (!understood.ok || !('call' in understood)) throw new Error(`${argv.join(' ')} was not understood as a call`);
  return understood.call;
}
