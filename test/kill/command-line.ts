import type { InterruptMode } from '../../src/turns/floor/policies.ts';
import { INTERRUPT_MODES } from '../../src/turns/floor/policies.ts';
import { parseArgs } from 'node:util';

/** The options of a kill loop's command line. */
export type Asked = { readonly cycles: number; readonly seed: number; readonly json: boolean; readonly keep: boolean };

/** Reads `--cycles`, `--seed`, `--json` and `--keep`. Prints the command that repeats the run. */
export function asked(script: string, byDefault: number): Asked {
  const { values } = parseArgs({
    options: {
      cycles: { type: 'string', default: String(byDefault) },
      seed: { type: 'string' },
      json: { type: 'boolean' },
      keep: { type: 'boolean' },
      ...ONLY_CONSOLE,
    },
  });
  const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
  const cycles = Number(values.cycles);
  const more = [
    values.modes === undefined ? '' : ` --modes ${values.modes}`,
    values.burst === undefined ? '' : ` --burst ${values.burst}`,
  ];
  tell(`node test/kill/${script} --cycles ${cycles} --seed ${seed}${more.join('')}`);
  return { cycles, seed, json: values.json === true, keep: values.keep === true };
}

const ONLY_CONSOLE = { modes: { type: 'string' }, burst: { type: 'string' } } as const;

/** Reads the options of the console's loop: `--burst`, and `--modes` ("all", or names separated by commas). */
export function askedOfConsole(): { readonly modes: readonly InterruptMode[]; readonly burst: number } {
  const { values } = parseArgs({ options: ONLY_CONSOLE, strict: false });
  const wanted = String(values.modes ?? 'all').split(',');
  const modes = INTERRUPT_MODES.filter((mode) => wanted.includes('all') || wanted.includes(mode));
  if (modes.length === 0) throw new Error(`Expected --modes to name some of ${INTERRUPT_MODES.join(', ')}, or all`);
  return { modes, burst: Number(values.burst ?? 0) };
}

/** Prints one line of progress to standard error. */
export function tell(line: string): void {
  process.stderr.write(`${line}\n`);
}

const SHOWN = 40;

/** Prints the faults and the folder of the databases. Returns the number of faults of each kind. */
export function tellFaults(
  faults: Readonly<Record<string, readonly string[]>>,
  dir: string | null,
): Readonly<Record<string, number>> {
  const found = Object.entries(faults).flatMap(([kind, texts]) => texts.map((text) => `${kind}: ${text}`));
  for (const text of found.slice(0, SHOWN)) tell(text);
  if (found.length > SHOWN) tell(`and ${found.length - SHOWN} more`);
  if (dir !== null) tell(`The databases are in ${dir}`);
  return Object.fromEntries(Object.entries(faults).map(([kind, texts]) => [kind, texts.length]));
}
