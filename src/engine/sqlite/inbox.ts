import type { Database } from 'better-sqlite3';
import { isNewerEdit, isStale } from '../port.ts';
import type { Attachment, HumanMessage, MessageChange, StoredMessage } from '../port.ts';
import { checksum, inserter } from './rows.ts';

type Row = {
  readonly id: string;
  readonly channel: string;
  readonly sort: string;
  readonly position: string;
  readonly author_id: string;
  readonly author_name: string;
  readonly text: string;
  readonly sent_at: number;
  readonly addressed: string;
  readonly attachments: string;
  readonly ignore_rule: string | null;
  readonly fate: string | null;
  readonly edited: number;
  readonly deleted: number;
  readonly version: string | null;
  readonly bot: number;
  readonly since: number;
  readonly thread: string | null;
};

/**
 * Messages of people and programs: each id once, in its latest wording. The fate of a message says what the floor did
 * with it, such as deliver, hold or ignore.
 */
export class Inbox {
  /** Messages accepted in the current transaction and not written yet. */
  #accepted = new Map<string, Row>();
  readonly #sql;

  constructor(db: Database) {
    this.#sql = statements(db);
  }

  /** `since`: the last journal row. No row up to it names the message. */
  accept(message: HumanMessage, since: number): 'new' | 'duplicate' {
    const { id } = message;
    if (this.#accepted.has(id) || this.#sql.known.get(id) !== undefined) return 'duplicate';
    this.#accepted.set(id, rowOf(message, since));
    return 'new';
  }

  writeAccepted(): void {
    for (const row of this.#accepted.values()) this.#sql.insert(row);
    this.#accepted = new Map();
  }

  undone(): void {
    this.#accepted = new Map();
  }

  /**
   * Edits or deletes a message. `unchanged`: the message was deleted before, or an edit has the same text or no newer
   * version. `unknown`: the channel has no such message.
   */
  amend(change: MessageChange): 'changed' | 'unchanged' | 'unknown' {
    this.writeAccepted();
    const row = this.#sql.read.get(change.id);
    if (row === undefined || row.channel !== change.channel) return 'unknown';
    const known = storedMessage(row);
    const isNewer = isNewerEdit(change, known);
    if (change.change === 'deleted') {
      if (isNewer) this.#sql.delete.run({ id: change.id, deleted: 1 });
    } else if (!known.deleted && !isStale(change, known)) {
      // Also keeps the version of an edit to an equal text: an older edit may arrive later.
      const { id, text, version = row.version } = change;
      this.#sql.edit.run({ id, text, version, edited: isNewer ? 1 : row.edited });
    }
    return isNewer ? 'changed' : 'unchanged';
  }

  /** Stores the fate of a message as JSON. Replaces an earlier fate. */
  decideFate(id: string, fate: unknown): void {
    const accepted = this.#accepted.get(id);
    const stored = JSON.stringify(fate);
    if (accepted === undefined) this.#sql.fate.run({ id, fate: stored });
    else this.#accepted.set(id, { ...accepted, fate: stored });
  }

  read(id: string): StoredMessage | null {
    const row = this.#accepted.get(id) ?? this.#sql.read.get(id);
    return row === undefined ? null : storedMessage(row);
  }

  /** Messages whose delivery is not decided yet, sorted by channel, then in the platform's order. */
  unapplied(): readonly HumanMessage[] {
    return this.#sql.unapplied.all().map(messageOf);
  }

  /** The newest written message of a channel, in the platform's order; `null` for none. */
  lastSeen(channel: string): HumanMessage | null {
    const row = this.#sql.lastSeen.get(channel);
    return row === undefined ? null : messageOf(row);
  }
}

function statements(db: Database) {
  return {
    known: db.prepare<[string], number>('SELECT 1 FROM inbox WHERE id = ?').pluck(),
    insert: inserter(db, 'inbox'),
    read: db.prepare<[string], Row>('SELECT * FROM inbox WHERE id = ?'),
    fate: db.prepare<{ id: string; fate: string }>(
      `UPDATE inbox SET fate = @fate, checksum = ${checksum('inbox', ['fate'])} WHERE id = @id`,
    ),
    edit: db.prepare<{ id: string; text: string; version: string | null; edited: number }>(
      `UPDATE inbox SET text = @text, version = @version, edited = @edited,
         checksum = ${checksum('inbox', ['text', 'version', 'edited'])} WHERE id = @id`,
    ),
    delete: db.prepare<{ id: string; deleted: number }>(
      `UPDATE inbox SET deleted = @deleted, checksum = ${checksum('inbox', ['deleted'])} WHERE id = @id`,
    ),
    unapplied: db.prepare<[], Row>('SELECT * FROM inbox WHERE fate IS NULL ORDER BY channel, sort, rowid'),
    lastSeen: db.prepare<[string], Row>('SELECT * FROM inbox WHERE channel = ? ORDER BY sort DESC LIMIT 1'),
  };
}

/**
 * A text that sorts as platforms count: numbers (also with a fraction) by value, before everything else, which sorts
 * as text.
 */
export function sortKey(order: string): string {
  const number = /^0*(?<whole>\d+)(?<fraction>\.\d+)?$/u.exec(order)?.groups;
  if (number === undefined) return `~${order}`;
  const { whole = '', fraction = '' } = number;
  return `${String(whole.length).padStart(6, '0')}${whole}${fraction}`;
}

function rowOf(message: HumanMessage, since: number): Row {
  return {
    id: message.id,
    channel: message.channel,
    sort: sortKey(message.order),
    position: message.order,
    author_id: message.author.id,
    author_name: message.author.name,
    text: message.text,
    sent_at: message.sentAt,
    addressed: JSON.stringify(message.addressed),
    attachments: JSON.stringify(message.attachments),
    ignore_rule: message.ignore ?? null,
    version: message.version ?? null,
    bot: message.bot === true ? 1 : 0,
    fate: null,
    edited: 0,
    deleted: 0,
    since,
    thread: message.thread ?? null,
  };
}

function messageOf(row: Row): HumanMessage {
  return {
    id: row.id,
    channel: row.channel,
    ...(row.thread === null ? {} : { thread: row.thread }),
    author: { id: row.author_id, name: row.author_name },
    text: row.text,
    sentAt: row.sent_at,
    order: row.position,
    addressed: JSON.parse(row.addressed) as string[],
    attachments: JSON.parse(row.attachments) as Attachment[],
    ...(row.ignore_rule === null ? {} : { ignore: row.ignore_rule }),
    ...(row.version === null ? {} : { version: row.version }),
    ...(row.bot === 0 ? {} : { bot: true }),
  };
}

function storedMessage(row: Row): StoredMessage {
  return {
    ...messageOf(row),
    fate: row.fate === null ? null : JSON.parse(row.fate),
    edited: row.edited === 1,
    deleted: row.deleted === 1,
    since: row.since,
  };
}
