import type { Database } from 'better-sqlite3';
import { StoreError, sentence } from '../errors.ts';
import type { Hosted } from '../machine.ts';
import { NO_TAIL, firstBreak } from './journal.ts';
import type { Journal, JournalRow } from './journal.ts';
import { replayJournal } from '../replay.ts';
import type { Folded } from '../replay.ts';
import { OPEN } from './outbox.ts';
import { countBroken } from './seal.ts';
import type { States } from './states.ts';

/** What a check looks at. */
export type Checked<State, Fact> = {
  readonly db: Database;
  readonly path: string;
  readonly journal: Journal<Fact>;
  readonly states: States<State, Fact>;
};

/** What folds a journal, and what its facts are found by. */
export type Checking<State, Fact> = {
  readonly machine: Folded<State, Fact>;
  readonly index: Hosted<never, never, Fact, never>['index'];
};

/** How many entries of each chain a start looks at; `verifyAll` looks at all. */
const TAIL_LENGTH = 32;

/**
 * Checks what the next commands build on: every state, the end of every chain, and the rows still to be worked on.
 * Its cost grows with the keys, not with the length of their history. Throws a `StoreError` that says what is damaged.
 */
export function checkAtStart<State, Fact>(checked: Checked<State, Fact>): void {
  const { db, path } = checked;
  const damage = (what: string): StoreError => new StoreError('corrupt', sentence('corrupt', path, what));
  if (countBroken(db, 'floors') > 0) throw damage('a stored state is not what was written');
  if (countBroken(db, 'inbox', 'fate IS NULL') > 0) throw damage('a waiting message is not what was written');
  if (countBroken(db, 'outbox', OPEN) > 0) throw damage('an owed effect is not what was written');
  for (const key of checked.states.keys()) {
    const problem = tailProblem(checked, key);
    if (problem !== null) throw damage(problem);
  }
}

/** Checks everything: structure, seals, every chain from its first entry, and that every journal folds to its state. */
export function verifyAll<State, Fact>(
  checked: Checked<State, Fact>,
  hosted: Checking<State, Fact>,
): readonly string[] {
  const { db } = checked;
  return [
    ...integrityProblems(db),
    ...TABLES.filter((table) => countBroken(db, table) > 0).map((table) => `${table}: a row is not what was written`),
    ...journalKeys(db).flatMap((key) => foldProblems(checked, key, hosted.machine)),
    ...indexProblems(checked, hosted),
  ];
}

const TABLES = ['inbox', 'floors', 'outbox', 'agents', 'memory'] as const;

function tailProblem<State, Fact>({ db, journal }: Checked<State, Fact>, key: string): string | null {
  const rows = journal.last(key, TAIL_LENGTH + 1);
  const [first, ...rest] = rows;
  const before = first === undefined || first.seq === 1 ? NO_TAIL : first;
  const broken = firstBreak(before, before === first ? rest : rows);
  if (broken !== null) return `the journal of ${key} was changed at entry ${broken}`;
  const head = db.prepare<[string], Pick<JournalRow, 'seq' | 'hash'>>('SELECT seq, hash FROM floors WHERE channel = ?');
  const tail = rows.at(-1) ?? NO_TAIL;
  const state = head.get(key) ?? NO_TAIL;
  return state.seq === tail.seq && state.hash.equals(tail.hash)
    ? null
    : `the state of ${key} stands at entry ${state.seq}, its journal ends at ${tail.seq}`;
}

function integrityProblems(db: Database): readonly string[] {
  const found = db.prepare<[], string>('PRAGMA integrity_check').pluck().all();
  return found.filter((line) => line !== 'ok');
}

function journalKeys(db: Database): readonly string[] {
  return db.prepare<[], string>('SELECT channel FROM journal UNION SELECT channel FROM floors').pluck().all();
}

function foldProblems<State, Fact>(
  checked: Checked<State, Fact>,
  key: string,
  machine: Folded<State, Fact>,
): readonly string[] {
  const { journal, states } = checked;
  const stored = states.snapshot(key);
  const replayed = replayJournal({ key, rows: journal.rows(key), stored }, machine);
  const problems: string[] = [];
  if (replayed.brokenAt !== null) problems.push(`the journal of ${key} was changed at entry ${replayed.brokenAt}`);
  if (replayed.stoppedBy !== null) problems.push(`the journal of ${key} cannot be folded: ${replayed.stoppedBy}`);
  if (!replayed.equal) problems.push(`the state of ${key} is not the fold of its journal`);
  const tail = tailProblem(checked, key);
  if (tail !== null) problems.push(tail);
  return problems;
}

function indexProblems<State, Fact>(
  { db, journal }: Checked<State, Fact>,
  { machine, index }: Checking<State, Fact>,
): readonly string[] {
  const isNamed = db.prepare<[string, string, number], number>(
    'SELECT count(*) FROM mentions WHERE message = ? AND channel = ? AND seq = ?',
  );
  let named = 0;
  const problems: string[] = [];
  for (const key of journalKeys(db)) {
    for (const row of journal.rows(key)) {
      const fact = factOf(row, machine);
      if (fact === null) continue;
      const messages = index.messages(fact);
      const found = messages.every((message) => isNamed.pluck().get(message, key, row.seq) === 1);
      named += messages.length;
      if (!found || index.line(fact) !== row.line)
        problems.push(`entry ${row.seq} of ${key} is not found by its names`);
    }
  }
  const total = db.prepare('SELECT count(*) FROM mentions').pluck().get();
  if (total !== named) problems.push('the journal does not have the names that are on record for it');
  return [...problems, ...seatProblems(db)];
}

function seatProblems(db: Database): readonly string[] {
  const wrong = db.prepare<[], string>(
    `SELECT s.channel || ' ' || s.agent FROM seats s
     WHERE NOT EXISTS (
       SELECT 1 FROM floors f, json_each(f.floor, '$.seats') seat
       WHERE f.channel = s.channel AND seat.value ->> 'agent' = s.agent AND seat.value ->> 'status' = s.status)`,
  );
  return wrong
    .pluck()
    .all()
    .map((seat) => `the seat ${seat} is not as its state says`);
}

function factOf<Fact>(row: JournalRow, machine: Pick<Folded<never, Fact>, 'fact'>): Fact | null {
  try {
    return machine.fact.parse(JSON.parse(row.fact));
  } catch {
    return null;
  }
}
