import type { Database } from 'better-sqlite3';
import type { Pruned } from '../port.ts';
import type { Instant } from '../../lib/time.ts';
import { LOOKED_AT, configsIn } from './configs.ts';
import type { FactFields } from '../machine.ts';
import type { Configs } from './configs.ts';
import { checkpointOf, journalRewriter } from './rows.ts';
import type { JournalRow, Owner, Rows, Snapshot } from './rows.ts';

/** The state after a part of a journal, in its stored form. */
export type FoldedState = Pick<Snapshot, 'state' | 'version' | 'deadline' | 'rest'>;

/** The parts of the store that pruning needs. */
export type RetentionPorts = {
  readonly db: Database;
  readonly rows: Rows;
  readonly configs: Configs;
  /** Runs a write in a commit. Other work may run between two writes. */
  readonly write: <T>(write: () => T) => Promise<T>;
  /** The machine of a key; throws when the machine is not hosted. */
  readonly keeperOf: (owner: Owner) => {
    readonly machine: { readonly texts?: FactFields };
    /** True when the key is a channel, whose messages and posts belong to this machine. */
    readonly ownsChannels: boolean;
    foldOn(owner: Owner, from: FoldedState | null, rows: readonly JournalRow[]): FoldedState;
    store(key: string): void;
  };
};

/** How many journal rows are folded, messages deleted or pages freed at a time. */
export const TAKEN_OUT = 100;

/**
 * Deletes rows older than each key's instant (`null`: none), in short commits: journal rows, which a checkpoint
 * replaces, and their ledger rows. For a key that is a channel, also deletes settled posts, messages of the page, and
 * messages of the inbox. Of these, keeps a message whose delivery is not decided yet, a message that the state names,
 * and each channel's newest. Deletes unused configurations if journal rows were deleted. `isDryRun` only counts.
 */
export async function prune(
  ports: RetentionPorts,
  before: (owner: Owner) => Instant | null,
  isDryRun: boolean,
): Promise<Pruned> {
  const { db, rows, write } = ports;
  const sql = pruningStatements(db);
  const cuts = new Map<string, number>();
  const last = new Map<number, number>();
  const named = new Set<string>();
  let [entries, messages, posts, calls] = [0, 0, 0, 0];
  for (const owner of rows.owners()) {
    const instant = before(owner);
    if (instant === null) continue;
    const old = await oldRows(ports, owner, instant);
    const cut = old.at(-1);
    entries += Math.max(0, old.length - 1);
    if (old.length > 1) calls += sql.countCalls.get(owner.id, cut ?? 0) ?? 0;
    for (const id of configsIn((await cutChain(ports, owner, { old, isDryRun }))?.state ?? '')) named.add(id);
    if (cut !== undefined && old.length > 1) last.set(owner.id, cut);
    if (!ports.keeperOf(owner).ownsChannels) continue;
    if (cut !== undefined) cuts.set(owner.key, cut);
    const parameters = { channel: owner.key, before: instant, machine: owner.id };
    if (isDryRun)
      for await (const page of pages(sql.inboxPage, write))
        messages += sql.countMessages.get({ ...parameters, ...page }) ?? 0;
    else
      messages += await untilNone(() =>
        write(() => (ports.keeperOf(owner).store(owner.key), sql.messages.run(parameters).changes)),
      );
    if (!isDryRun) await untilNone(() => write(() => sql.conversation.run(parameters).changes));
  }
  for await (const page of cuts.size === 0 ? [] : pages(sql.outboxPage, write)) {
    const done = sql.posts.all(page).filter(({ id, channel }) => Number(id.split('-')[1]) <= (cuts.get(channel) ?? 0));
    posts += done.length;
    if (!isDryRun) await write(() => done.forEach(({ n }) => sql.post.run(n)));
  }
  const isGone = (machine: number, row: number): boolean => row <= (last.get(machine) ?? 0);
  const ofConfigs = (): Promise<number> =>
    isDryRun ? ports.configs.count(write, { isGone, named }) : ports.configs.prune(write);
  return { entries, messages, posts, calls, configs: entries > 0 ? await ofConfigs() : 0 };
}

/** Gives free pages to the disk and empties the write-ahead log. Returns `false` when a reader keeps the log in use. */
export async function giveBack({ db, write }: Pick<RetentionPorts, 'db' | 'write'>): Promise<boolean> {
  const free = (): number => Number(db.pragma('freelist_count', { simple: true }));
  for (let left = free(), before = Infinity; left > 0 && left < before; before = left, left = free())
    await write(() => db.pragma(`incremental_vacuum(${TAKEN_OUT})`));
  return emptyLog(db);
}

/**
 * Writes the file anew and empties the write-ahead log. Returns `false` when a reader keeps the log in use. SQLite
 * moves rows between pages and does not overwrite each place that they leave, not even with `secure_delete`: an erased
 * text can stay there until the page is written anew. Nothing else runs meanwhile.
 */
export async function writeAnew({ db, write }: Pick<RetentionPorts, 'db' | 'write'>): Promise<boolean> {
  await write(() => undefined);
  db.exec('VACUUM');
  return emptyLog(db);
}

function emptyLog(db: Database): boolean {
  return Number(db.pragma('wal_checkpoint(TRUNCATE)', { simple: true })) === 0;
}

/** The rows of a key before an instant, oldest first, up to its stored state. */
async function oldRows({ db, rows, write }: RetentionPorts, owner: Owner, before: Instant): Promise<readonly number[]> {
  const found: number[] = [];
  const snapshot = rows.snapshot(owner.name, owner.key);
  const step = db.prepare<[number], Pick<JournalRow, 'prev' | 'at'>>('SELECT prev, at FROM journal WHERE row = ?');
  let looked = 0;
  for (let row = snapshot?.row ?? null; row !== null;) {
    const { prev, at }: Pick<JournalRow, 'prev' | 'at'> = step.get(row) ?? { prev: null, at: before };
    // A clock may have been set back, so a row counts as old only when all rows before it are old, too.
    if (at < before) found.push(row);
    else found.length = 0;
    row = prev !== null && prev < row ? prev : null;
    looked += 1;
    if (looked % LOOKED_AT === 0) await write(() => undefined);
  }
  return found.toReversed();
}

/**
 * Replaces a journal's old rows by a checkpoint, in slices. After each slice the hash chain is whole. Resolves with the
 * checkpoint's state; `null` for fewer than two old rows.
 */
async function cutChain(
  { db, rows, write, keeperOf }: RetentionPorts,
  owner: Owner,
  { old, isDryRun }: { readonly old: readonly number[]; readonly isDryRun: boolean },
): Promise<FoldedState | null> {
  if (old.length < 2) return null;
  const sql = pruningStatements(db);
  let folded: FoldedState | null = null;
  let first: number | null = null;
  for (let from = 0; from < old.length; from += TAKEN_OUT) {
    const numbers = old.slice(from, from + TAKEN_OUT);
    const last = numbers.at(-1) ?? 0;
    folded = await write(() => {
      const read = numbers.flatMap((number) => rows.read(number) ?? []);
      const state = keeperOf(owner).foldOn(owner, folded, read);
      const row = read.at(-1);
      if (row?.row !== last) throw new Error(`impossible: row ${last} of the journal is missing`);
      if (isDryRun) return state;
      const { version, deadline } = state;
      sql.rewrite(() => {
        sql.checkpoint.run({ row: last, version, deadline, facts: checkpointOf(row, state) });
        sql.calls.run(owner.id, last);
        for (const number of [first ?? last, ...numbers]) if (number !== last) sql.entry.run(number);
      });
      return state;
    });
    first = last;
  }
  return folded;
}

async function untilNone(takeOut: () => Promise<number>): Promise<number> {
  let sum = 0;
  for (let removed = await takeOut(); removed > 0; removed = await takeOut()) sum += removed;
  return sum;
}

/** Row numbers of a table: those above `after`, up to `upto`. */
export type RowRange = { readonly after: number; readonly upto: number };

/** Yields ranges of a table's row numbers. `last`: returns the last row number of the range that follows a number. */
export async function* pages(
  last: { get(after: number): number | null | undefined },
  write: RetentionPorts['write'],
): AsyncGenerator<RowRange> {
  let after = 0;
  for (;;) {
    const upto = await write(() => last.get(after) ?? null);
    if (upto === null || upto <= after) return;
    yield { after, upto };
    after = upto;
  }
}

/** Prepares the query for the end of each range of `pages`: `LOOKED_AT` rows further by the column `number`. */
export function pageOf(db: Database, table: string, number: string) {
  return db
    .prepare<[number], number | null>(
      `SELECT max(n) FROM (SELECT ${number} AS n FROM ${table} WHERE ${number} > ? ORDER BY ${number} LIMIT ${LOOKED_AT})`,
    )
    .pluck();
}

type Asked = { readonly channel: string; readonly before: Instant; readonly machine: number };

function pruningStatements(db: Database) {
  // Keeps messages whose delivery is not decided yet, and messages that the state names. Keeps each channel's newest
  // message: it marks how far Conch has read.
  const isPrunable = `channel = @channel AND sent_at < @before AND fate IS NOT NULL
    AND sort < (SELECT max(sort) FROM inbox WHERE channel = @channel)
    AND instr((SELECT state FROM machines WHERE id = @machine), json_quote(id)) = 0`;
  return {
    rewrite: journalRewriter(db),
    checkpoint: db.prepare<{ row: number; version: number; deadline: Instant | null; facts: string }>(
      'UPDATE journal SET prev = NULL, version = @version, deadline = @deadline, facts = @facts, body = NULL WHERE row = @row',
    ),
    entry: db.prepare<[number]>('DELETE FROM journal WHERE row = ?'),
    // Deletes the ledger rows of journal rows that a checkpoint replaces.
    calls: db.prepare<[number, number]>('DELETE FROM ledger WHERE machine = ? AND row <= ?'),
    countCalls: db
      .prepare<[number, number], number>('SELECT count(*) FROM ledger WHERE machine = ? AND row <= ?')
      .pluck(),
    countMessages: db
      .prepare<Asked & RowRange, number>(
        `SELECT count(*) FROM inbox WHERE rowid > @after AND rowid <= @upto AND ${isPrunable}`,
      )
      .pluck(),
    messages: db.prepare<Asked>(
      `DELETE FROM inbox WHERE rowid IN (
         SELECT oldest.n FROM (SELECT rowid AS n FROM inbox WHERE channel = @channel ORDER BY sort LIMIT ${LOOKED_AT}) AS oldest
         JOIN inbox ON inbox.rowid = oldest.n WHERE ${isPrunable} LIMIT ${TAKEN_OUT})`,
    ),
    conversation: db.prepare<Asked>(
      `DELETE FROM conversation WHERE seq IN (
         SELECT seq FROM (SELECT seq, sent_at FROM conversation WHERE channel = @channel ORDER BY seq LIMIT ${LOOKED_AT})
         WHERE sent_at < @before LIMIT ${TAKEN_OUT})`,
    ),
    posts: db.prepare<RowRange, { n: number; id: string; channel: string }>(
      "SELECT n, id, channel FROM outbox WHERE n > @after AND n <= @upto AND state IN ('confirmed', 'failed')",
    ),
    post: db.prepare<[number]>('DELETE FROM outbox WHERE n = ?'),
    inboxPage: pageOf(db, 'inbox', 'rowid'),
    outboxPage: pageOf(db, 'outbox', 'n'),
  };
}
