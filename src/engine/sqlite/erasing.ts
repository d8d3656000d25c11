import type { Database } from 'better-sqlite3';
import type { AlsoErased, Erased, Erasure, TextStretch } from '../port.ts';
import { ERASED_TEXT, withoutStrings, withoutTexts } from '../reading.ts';
import type { IsMeant } from '../reading.ts';
import { LOOKED_AT } from './configs.ts';
import { TAKEN_OUT, pageOf, pages } from './pruning.ts';
import type { FoldedState, RowRange, RetentionPorts } from './pruning.ts';
import { checkpointOf, checksum, journalRewriter } from './rows.ts';
import type { JournalRow, Owner } from './rows.ts';
import type { Outbox } from './outbox.ts';

/** The parts of the store that erasing needs. */
export type ErasingPorts = RetentionPorts & {
  readonly outbox: Pick<Outbox, 'reworded'>;
  readonly isHosted: (owner: Owner) => boolean;
  /** Drops all states from memory, and calls the listeners of `onErased`. */
  readonly forget: () => void;
};

/**
 * Erases texts: first in the outbox and in the page's messages of its entries, then in each journal together with its
 * state, last in the page's other messages and in the inbox. Each journal is changed in one commit, the other rows in
 * short commits. An interrupted erasure can be run again. Other messages stay, even when they quote the erased text.
 */
export async function erase(ports: ErasingPorts, erasure: Erasure, also: AlsoErased): Promise<Erased> {
  const { db, rows, write } = ports;
  const { what, id } = erasure;
  const sql = erasing(db);
  const posts = what === 'person' ? [] : postsWith(ports, id);
  const found = rows.owners().flatMap((owner): readonly Doing[] => {
    const own = [...also.stretches, ...posts].filter(({ machine, key }) => machine === owner.name && key === owner.key);
    const isSought = ports.isHosted(owner) && (what === 'person' || own.length > 0);
    return isSought ? [{ owner, isMeant: meant(own, erasure, also) }] : [];
  });
  const last = await write(() => sql.lastEntry.get() ?? 0);
  const looked = new Map<Doing, Looked>();
  for (const doing of found) {
    const seen = await look(ports, doing);
    if (seen.erasures.size > 0) looked.set(doing, seen);
  }
  let shown = 0;
  const erasures = new Map([...looked.values()].flatMap((seen) => [...seen.erasures]));
  for await (const page of erasures.size === 0 ? [] : pages(sql.outboxPage, write))
    shown += await write(() => reword(ports, sql.entries.all(page), erasures));
  let acts = 0;
  for (const [doing, { numbers }] of looked)
    acts += await eraseIn(ports, doing, { numbers, last, person: what === 'person' ? id : null });
  if (what === 'message')
    return write(() => {
      const messages = sql.message.run({ id, erased: ERASED_TEXT }).changes;
      sql.shown.run({ ...shownAs(id), nonce: '', erased: ERASED_TEXT });
      return { messages, posts: shown, acts: Math.max(0, acts - posts.length) };
    });
  for await (const page of pages(sql.conversationPage, write))
    await write(() => sql.speaker.run({ ...page, id, erased: ERASED_TEXT }));
  let messages = 0;
  for await (const page of pages(sql.inboxPage, write))
    messages += await write(() => sql.person.run({ ...page, id, erased: ERASED_TEXT }).changes);
  return { messages, posts: shown, acts };
}

type Doing = { readonly owner: Owner; readonly isMeant: IsMeant };

/** All journal rows of a key, oldest first, and the texts to erase by row. */
type Looked = { readonly numbers: readonly number[]; readonly erasures: ReadonlyMap<number, RowErasure> };

/** Texts of a journal row to erase. `isAll`: its `body` has no other texts. */
type RowErasure = { readonly texts: ReadonlySet<string>; readonly isAll: boolean };

function meant(own: readonly TextStretch[], { what, id }: Erasure, { isTheirs }: AlsoErased): IsMeant {
  const sorted = own.toSorted((one, other) => one.from - other.from);
  let at = 0;
  return (text, type, seq) => {
    // `seq` may rise or fall from call to call.
    while (at > 0 && (sorted[at]?.from ?? Infinity) > seq) at -= 1;
    while (at < sorted.length - 1 && (sorted[at]?.upto ?? 0) < seq) at += 1;
    const { from = Infinity, upto = 0 } = sorted[at] ?? {};
    return (from <= seq && seq <= upto) || (what === 'person' && (isTheirs(text, type) || text === id));
  };
}

/** The facts of the journal rows that made posts with this platform id. All texts of these facts are erased. */
function postsWith({ db, rows }: ErasingPorts, id: string): readonly TextStretch[] {
  const owners = new Map(rows.owners().map((owner) => [owner.id, owner]));
  const found = new Set(
    erasing(db)
      .posts.all(id)
      .map((post) => rowIn(post)),
  );
  return [...found].flatMap((number): readonly TextStretch[] => {
    const row = rows.read(number);
    const owner = row === null ? undefined : owners.get(row.machine);
    if (row === null || owner === undefined) return [];
    return [{ machine: owner.name, key: owner.key, from: (rows.before(row)?.seq ?? 0) + 1, upto: row.seq }];
  });
}

function rowIn(entryId: string): number {
  return Number(entryId.split('-')[1]);
}

async function look(ports: ErasingPorts, doing: Doing): Promise<Looked> {
  const { rows, write } = ports;
  const { owner } = doing;
  const snapshot = rows.snapshot(owner.name, owner.key);
  const numbers: number[] = [];
  const erasures = new Map<number, RowErasure>();
  for (const row of snapshot === null ? [] : rows.back(rows.end(snapshot))) {
    numbers.push(row.row);
    const cleaned = cleanedRow(ports, doing, row);
    if (cleaned !== null) erasures.set(row.row, erasureOf(cleaned, row));
    if (numbers.length % LOOKED_AT === 0) await write(() => undefined);
  }
  return { numbers: numbers.toReversed(), erasures };
}

type Cleaned = NonNullable<ReturnType<typeof withoutTexts>>;

/** `isAll` is false for a checkpoint: it has no body, and its state may hold other texts. */
function erasureOf({ erased, body }: Cleaned, row: JournalRow): RowErasure {
  return { texts: new Set(erased), isAll: row.body !== null && body === null };
}

function cleanedRow(ports: ErasingPorts, { owner, isMeant }: Doing, row: JournalRow): Cleaned | null {
  const { texts } = ports.keeperOf(owner).machine;
  const isCheckpoint = row.prev === null && row.facts.startsWith('{');
  return row.body === null && !isCheckpoint ? null : withoutTexts(texts === undefined ? {} : { texts }, row, isMeant);
}

type Changed = { readonly row: JournalRow; readonly cleaned: Cleaned };

async function eraseIn(
  ports: ErasingPorts,
  doing: Doing,
  { numbers, last, person }: Pick<Looked, 'numbers'> & { readonly last: number; readonly person: string | null },
): Promise<number> {
  const { rows, write } = ports;
  const { owner } = doing;
  const changed: Changed[] = [];
  let folded: FoldedState | null = null;
  const foldOn = (read: readonly JournalRow[]): FoldedState => {
    const left = read.map((row) => {
      const cleaned = cleanedRow(ports, doing, row);
      if (cleaned !== null) changed.push({ row, cleaned });
      return cleaned === null ? row : { ...row, facts: cleaned.facts, body: cleaned.body };
    });
    return ports.keeperOf(owner).foldOn(owner, folded, left);
  };
  for (let from = 0; from < numbers.length; from += TAKEN_OUT) {
    const slice = numbers.slice(from, from + TAKEN_OUT);
    folded = await write(() => foldOn(slice.flatMap((number) => rows.read(number) ?? [])));
  }
  return write(() => {
    const snapshot = rows.snapshot(owner.name, owner.key);
    const end = snapshot === null ? null : rows.read(rows.end(snapshot));
    if (end === null) throw new Error(`impossible: the journal of ${owner.key} is missing`);
    const newer: JournalRow[] = [];
    for (const row of rows.back(end.row)) {
      if (row.row <= (numbers.at(-1) ?? 0)) break;
      newer.unshift(row);
    }
    const known = changed.length;
    const state = foldOn(newer);
    const sql = erasing(ports.db);
    for (const each of changed) rewrite(sql, each);
    const erasures = new Map(changed.slice(known).map(({ row, cleaned }) => [row.row, erasureOf(cleaned, row)]));
    if (erasures.size > 0) reword(ports, sql.entries.all({ after: last, upto: Number.MAX_SAFE_INTEGER }), erasures);
    if (person !== null) sql.requester.run({ machine: owner.id, id: person, erased: ERASED_TEXT });
    rows.store(owner, { tail: end, ...state });
    ports.forget();
    return changed.length;
  });
}

function rewrite(sql: ReturnType<typeof erasing>, { row, cleaned: { facts, body } }: Changed): void {
  if (facts === row.facts) {
    sql.body.run({ row: row.row, body });
    return;
  }
  const { checkpoint }: { readonly checkpoint: unknown } = JSON.parse(facts);
  const changed = checkpointOf(row, { state: JSON.stringify(checkpoint) });
  sql.rewrite(() => void sql.facts.run({ row: row.row, facts: changed }));
}

type StoredEntry = {
  readonly n: number;
  readonly id: string;
  readonly channel: string;
  readonly lane: string;
  readonly effect: string;
  readonly text: string | null;
  readonly platformId: string | null;
};

function reword(
  { db, outbox }: ErasingPorts,
  all: readonly StoredEntry[],
  erasures: ReadonlyMap<number, RowErasure>,
): number {
  const sql = erasing(db);
  let count = 0;
  for (const entry of all) {
    const { texts, isAll } = erasures.get(rowIn(entry.id)) ?? {};
    if (texts === undefined) continue;
    const effect = JSON.stringify(withoutStrings(JSON.parse(entry.effect), (text) => text !== '' && texts.has(text)));
    if (isAll !== true && effect === entry.effect) continue;
    const text = entry.text === null ? null : ERASED_TEXT;
    sql.post.run({ n: entry.n, effect, text });
    // Erases the page's message that the entry posted, and a message of the page that the entry edited.
    sql.shown.run({ ...shownAs(entry.platformId), nonce: entry.id, erased: ERASED_TEXT });
    outbox.reworded(entry, { effect: JSON.parse(effect), text });
    if (text !== null) count += 1;
  }
  return count;
}

/** The number of a message on the page, from its platform id; -1 for `null` and for ids of Discord and Slack. */
function shownAs(id: string | null): { readonly seq: number } {
  return { seq: id !== null && /^\d{1,15}$/u.test(id) ? Number(id) : -1 };
}

function erasing(db: Database) {
  const erased = (table: 'inbox' | 'conversation' | 'ledger', columns: readonly string[]): string => {
    const sum = columns.reduce((text, column) => text.replace(`@${column}`, '@erased'), checksum(table, columns));
    return [...columns.map((column) => `${column} = @erased`), `checksum = ${sum}`].join(', ');
  };
  const ofInbox = (columns: readonly string[]): string =>
    `attachments = '[]', ${erased('inbox', columns).replace(' attachments,', " '[]',")}`;
  return {
    message: db.prepare<{ id: string; erased: string }>(
      `UPDATE inbox SET ${ofInbox(['text', 'author_name'])} WHERE id = @id`,
    ),
    person: db.prepare<RowRange & { id: string; erased: string }>(
      `UPDATE inbox SET ${ofInbox(['text', 'author_name', 'author_id'])}
       WHERE rowid > @after AND rowid <= @upto AND author_id = @id`,
    ),
    speaker: db.prepare<RowRange & { id: string; erased: string }>(
      `UPDATE conversation SET avatar = NULL, ${erased('conversation', ['text', 'speaker_name', 'speaker_id']).replace(' avatar,', ' NULL,')}
       WHERE seq > @after AND seq <= @upto AND speaker_id = @id`,
    ),
    shown: db.prepare<{ seq: number; nonce: string; erased: string }>(
      `UPDATE conversation SET ${erased('conversation', ['text'])} WHERE seq = @seq OR nonce = @nonce`,
    ),
    posts: db.prepare<[string], string>("SELECT id FROM outbox WHERE platform_id = ? AND state = 'confirmed'").pluck(),
    lastEntry: db.prepare<[], number | null>('SELECT max(n) FROM outbox').pluck(),
    entries: db.prepare<RowRange, StoredEntry>(
      'SELECT n, id, channel, lane, effect, text, platform_id AS platformId FROM outbox WHERE n > @after AND n <= @upto',
    ),
    post: db.prepare<{ n: number; effect: string; text: string | null }>(
      `UPDATE outbox SET text = @text, effect = @effect, checksum = ${checksum('outbox', ['text', 'effect'])} WHERE n = @n`,
    ),
    body: db.prepare<{ row: number; body: string | null }>('UPDATE journal SET body = @body WHERE row = @row'),
    facts: db.prepare<{ row: number; facts: string }>('UPDATE journal SET facts = @facts WHERE row = @row'),
    rewrite: journalRewriter(db),
    requester: db.prepare<{ machine: number; id: string; erased: string }>(
      `UPDATE ledger SET ${erased('ledger', ['requested_by'])} WHERE machine = @machine AND requested_by = @id`,
    ),
    outboxPage: pageOf(db, 'outbox', 'n'),
    inboxPage: pageOf(db, 'inbox', 'rowid'),
    conversationPage: pageOf(db, 'conversation', 'seq'),
  };
}
