import type { Database } from 'better-sqlite3';
import { isNewerEdit } from '../newer-edit.ts';
import type { Attachment, HumanMessage, MessageChange, StoredMessage } from '../port.ts';
import { sealing } from './seal.ts';

type Row = {
  readonly id: string;
  readonly channel: string;
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
};

/** The messages of people: each id once, in its latest wording, with its fate. */
export class Inbox {
  readonly #insert;
  readonly #seal;
  readonly #read;
  readonly #fate;
  readonly #edit;
  readonly #delete;
  readonly #unapplied;
  readonly #lastSeen;

  constructor(db: Database) {
    this.#insert = db.prepare<Omit<Row, 'fate' | 'edited' | 'deleted'> & { sort: string }>(
      `INSERT OR IGNORE INTO inbox
         (id, channel, sort, position, author_id, author_name, text, sent_at, addressed, attachments, ignore_rule, version, bot)
       VALUES
         (@id, @channel, @sort, @position, @author_id, @author_name, @text, @sent_at, @addressed, @attachments,
          @ignore_rule, @version, @bot)`,
    );
    this.#seal = db.prepare<[string]>(sealing('inbox', 'id = ?'));
    this.#read = db.prepare<[string], Row>('SELECT * FROM inbox WHERE id = ?');
    this.#fate = db.prepare<[string, string]>('UPDATE inbox SET fate = ? WHERE id = ?');
    this.#edit = db.prepare<[string, string | null, string]>(
      'UPDATE inbox SET text = ?, version = coalesce(?, version), edited = 1 WHERE id = ?',
    );
    this.#delete = db.prepare<[string]>('UPDATE inbox SET deleted = 1 WHERE id = ?');
    this.#unapplied = db.prepare<[], Row>('SELECT * FROM inbox WHERE fate IS NULL ORDER BY channel, sort, rowid');
    this.#lastSeen = db.prepare<[string], Row>('SELECT * FROM inbox WHERE channel = ? ORDER BY sort DESC LIMIT 1');
  }

  accept(message: HumanMessage): 'new' | 'duplicate' {
    const { changes } = this.#insert.run(rowOf(message));
    if (changes === 0) return 'duplicate';
    this.#seal.run(message.id);
    return 'new';
  }

  /** A change that is no newer, or comes after the deletion, is `unchanged`. */
  amend(change: MessageChange): 'changed' | 'unchanged' | 'unknown' {
    const row = this.#read.get(change.id);
    if (row === undefined || row.channel !== change.channel) return 'unknown';
    if (!isNewerEdit(change, storedMessage(row))) return 'unchanged';
    if (change.change === 'edited') this.#edit.run(change.text, change.version ?? null, change.id);
    else this.#delete.run(change.id);
    this.#seal.run(change.id);
    return 'changed';
  }

  /** Records what became of a message. */
  decideFate(id: string, fate: unknown): void {
    this.#fate.run(JSON.stringify(fate), id);
    this.#seal.run(id);
  }

  read(id: string): StoredMessage | null {
    const row = this.#read.get(id);
    return row === undefined ? null : storedMessage(row);
  }

  /** Messages that no machine has been given, in the order of their platform. */
  unapplied(): readonly HumanMessage[] {
    return this.#unapplied.all().map(messageOf);
  }

  /** The newest message of a channel, in the platform's order. */
  lastSeen(channel: string): HumanMessage | null {
    const row = this.#lastSeen.get(channel);
    return row === undefined ? null : messageOf(row);
  }
}

/**
 * A text that sorts as platforms do: numbers (with or without a fraction) by their value, whatever their length,
 * before everything else, which sorts as text.
 */
export function sortKey(order: string): string {
  const number = /^0*(?<whole>\d+)(?<fraction>\.\d+)?$/u.exec(order)?.groups;
  if (number === undefined) return `~${order}`;
  const { whole = '', fraction = '' } = number;
  return `${String(whole.length).padStart(6, '0')}${whole}${fraction}`;
}

function rowOf(message: HumanMessage): Omit<Row, 'fate' | 'edited' | 'deleted'> & { sort: string } {
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
  };
}

function messageOf(row: Row): HumanMessage {
  return {
    id: row.id,
    channel: row.channel,
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
  };
}
