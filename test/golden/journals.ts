import { readFileSync, readdirSync } from 'node:fs';
import { sessionJournal } from '../../src/agents/session/session-journal.ts';
import { canonical } from '../../src/engine/canonical.ts';
import { readRecord, readState } from '../../src/engine/reading.ts';
import type { ConfigTable, Machine, Reading } from '../../src/engine/machine.ts';
import { reviewOnFloor } from '../../src/work/reviews/review-binding.ts';
import { runOnFloor } from '../../src/work/runs/floor-binding.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';

/** A journal that some version of a machine wrote, with its state at that time. */
export type GoldenJournal = {
  readonly machine: string;
  readonly version: number;
  readonly key: string;
  readonly rows: readonly { readonly at: number; readonly facts: readonly unknown[] }[];
  readonly state: unknown;
};

const FOLDER = new URL('./', import.meta.url);

/** The files of golden journals, by name. */
export function goldenFiles(): readonly string[] {
  return readdirSync(FOLDER).filter((name) => name.endsWith('.jsonl'));
}

/** The journals of a file. Each line is a journal. */
export function goldenJournals(name: string): readonly GoldenJournal[] {
  const lines = readFileSync(new URL(name, FOLDER), 'utf8').trim().split('\n');
  return lines.map((line) => JSON.parse(line) as GoldenJournal);
}

/** The kinds of facts in a journal, by the field with the kind. */
export function kindsIn({ rows }: GoldenJournal, field: 'type' | 'trigger'): readonly string[] {
  return rows.flatMap((row) => row.facts.map((fact) => String(Reflect.get(Object(fact), field))));
}

/** The state that today's machine folds from a journal, and the stored state, both as canonical JSON. */
export function fold(journal: GoldenJournal): { readonly folded: string; readonly stored: string } {
  switch (journal.machine) {
    case 'floor':
      return foldWith(floorMachine, journal);
    case 'run':
      return foldWith(runOnFloor, journal);
    case 'review':
      return foldWith(reviewOnFloor, journal);
    case 'session':
      return foldWith(sessionJournal, journal);
    default:
      throw new Error(`there is no machine ${journal.machine}`);
  }
}

/** These journals contain their configurations, so the table is never read. */
const HOLDING: ConfigTable = {
  idOf: () => '',
  find: (id) => {
    throw new Error(`there is no configuration ${id}`);
  },
};

type Folding<State, Fact> = Reading<State, Fact> & Pick<Machine<State, never, Fact, never>, 'empty' | 'evolve'>;

function foldWith<State, Fact>(machine: Folding<State, Fact>, { version, key, rows, state }: GoldenJournal) {
  let folded = machine.empty(key);
  for (const { at, facts } of rows) {
    const record = readRecord(machine, { version, facts: JSON.stringify(facts) }, HOLDING);
    if ('checkpoint' in record) folded = record.checkpoint;
    else for (const fact of record.facts) folded = machine.evolve(folded, fact, at);
  }
  const stored = readState(machine, { version, state: JSON.stringify(state) }, HOLDING);
  return { folded: canonical(folded), stored: canonical(stored) };
}
