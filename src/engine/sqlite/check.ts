import type { Database } from 'better-sqlite3';
import type { Fact } from '../../turns/floor/fact.ts';
import type { Core } from '../core.ts';
import { StoreError, sentence } from '../errors.ts';
import { NO_TAIL, firstBreak, lineOf, messagesOf } from './journal.ts';
import type { Journal, JournalRow } from './journal.ts';
import type { Floors } from './floors.ts';
import { replayChannel } from '../replay.ts';
import { OPEN } from './outbox.ts';
import { countBroken } from './seal.ts';

/** What a check looks at. */
export type Checked = {
  readonly db: Database;
  readonly path: string;
  readonly journal: Journal;
  readonly floors: Floors;
};

/** How many entries of each chain a start looks at; `verifyAll` looks at all. */
const TAIL_LENGTH = 32;

/**
 * Checks what the next commands build on: every floor, the end of every chain, and the rows still to be worked on.
 * Its cost grows with the channels, not with the length of their history. Throws a `StoreError` that says what is damaged.
 */
export function checkAtStart(checked: Checked): void {
  const { db, path } = checked;
  const damage = (what: string): StoreError => new StoreError('corrupt', sentence('corrupt', path, what));
  if (countBroken(db, 'floors') > 0) throw damage('a stored floor is not what was written');
  if (countBroken(db, 'inbox', 'fate IS NULL') > 0) throw damage('a waiting message is not what was written');
  if (countBroken(db, 'outbox', OPEN) > 0) throw damage('an owed effect is not what was written');
  for (const channel of checked.floors.channels()) {
    const problem = tailProblem(checked, channel);
    if (problem !== null) throw damage(problem);
  }
}

/** Checks everything: structure, seals, every chain from its first entry, and that every journal folds to its floor. */
export function verifyAll(checked: Checked, core: Core): readonly string[] {
  const { db } = checked;
  return [
    ...integrityProblems(db),
    ...TABLES.filter((table) => countBroken(db, table) > 0).map((table) => `${table}: a row is not what was written`),
    ...journalChannels(db).flatMap((channel) => channelProblems(checked, channel, core)),
    ...indexProblems(checked),
  ];
}

const TABLES = ['inbox', 'floors', 'outbox', 'agents', 'memory'] as const;

function tailProblem({ db, journal }: Checked, channel: string): string | null {
  const rows = journal.last(channel, TAIL_LENGTH + 1);
  const [first, ...rest] = rows;
  const before = first === undefined || first.seq === 1 ? NO_TAIL : first;
  const broken = firstBreak(before, before === first ? rest : rows);
  if (broken !== null) return `the journal of ${channel} was changed at entry ${broken}`;
  const head = db.prepare<[string], Pick<JournalRow, 'seq' | 'hash'>>('SELECT seq, hash FROM floors WHERE channel = ?');
  const tail = rows.at(-1) ?? NO_TAIL;
  const floor = head.get(channel) ?? NO_TAIL;
  return floor.seq === tail.seq && floor.hash.equals(tail.hash)
    ? null
    : `the floor of ${channel} stands at entry ${floor.seq}, its journal ends at ${tail.seq}`;
}

function integrityProblems(db: Database): readonly string[] {
  const found = db.prepare<[], string>('PRAGMA integrity_check').pluck().all();
  return found.filter((line) => line !== 'ok');
}

function journalChannels(db: Database): readonly string[] {
  return db.prepare<[], string>('SELECT channel FROM journal UNION SELECT channel FROM floors').pluck().all();
}

function channelProblems(checked: Checked, channel: string, core: Core): readonly string[] {
  const { journal, floors } = checked;
  const stored = floors.snapshot(channel);
  const replayed = replayChannel({ channel, rows: journal.rows(channel), stored }, core);
  const problems: string[] = [];
  if (replayed.brokenAt !== null) problems.push(`the journal of ${channel} was changed at entry ${replayed.brokenAt}`);
  if (replayed.stoppedBy !== null) problems.push(`the journal of ${channel} cannot be folded: ${replayed.stoppedBy}`);
  if (!replayed.equal) problems.push(`the floor of ${channel} is not the fold of its journal`);
  const tail = tailProblem(checked, channel);
  if (tail !== null) problems.push(tail);
  return problems;
}

function indexProblems({ db, journal }: Checked): readonly string[] {
  const isNamed = db.prepare<[string, string, number], number>(
    'SELECT count(*) FROM mentions WHERE message = ? AND channel = ? AND seq = ?',
  );
  let named = 0;
  const problems: string[] = [];
  for (const channel of journalChannels(db)) {
    for (const row of journal.rows(channel)) {
      const fact = factOf(row);
      if (fact === null) continue;
      const messages = messagesOf(fact);
      const found = messages.every((message) => isNamed.pluck().get(message, channel, row.seq) === 1);
      named += messages.length;
      if (!found || lineOf(fact) !== row.line)
        problems.push(`entry ${row.seq} of ${channel} is not found by its names`);
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
    .map((seat) => `the seat ${seat} is not as its floor says`);
}

function factOf(row: JournalRow): Fact | null {
  try {
    return JSON.parse(row.fact) as Fact;
  } catch {
    return null;
  }
}
