import type { Database } from 'better-sqlite3';
import type { Receipt } from '../../turns/floor/react.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { checksum } from '../../engine/sqlite/rows.ts';
import type { Tables } from '../../engine/sqlite/sqlite.ts';
import { shownAt } from '../../lib/time.ts';
import type { Clock } from '../../lib/time.ts';
import type { ChatMessage } from './protocol.ts';

/** A message to add to a channel. */
export type NewMessage = Pick<ChatMessage, 'kind' | 'speaker' | 'text' | 'epoch'> & {
  readonly channel: ChannelId;
  /** Id of the message that a person replies to, or of the question that a post of Conch shows; `null`: none. */
  readonly replyTo: string | null;
  /** Outbox id of a post, or the page's key of a person's message. Only one message with each nonce is added. */
  readonly nonce: string;
};

/** A message as stored; `isNew` is false when the nonce was known. */
export type AddedMessage = { readonly message: ChatMessage; readonly isNew: boolean };

type Row = {
  readonly seq: number;
  readonly channel: ChannelId;
  readonly kind: ChatMessage['kind'];
  readonly speaker_id: string;
  readonly speaker_name: string;
  readonly avatar: string | null;
  readonly text: string;
  readonly epoch: number | null;
  readonly sent_at: number;
  readonly edited: number;
  readonly deleted: number;
  readonly receipts: string;
  readonly reply_to: string | null;
  readonly nonce: string;
};

/**
 * Store of the console's messages; a promise resolves when the change is durable. Ids keep growing after a backup was
 * restored or the file was lost: new ids are greater than the time of Conch's start in milliseconds.
 */
export class Platform {
  readonly #tables: Tables;
  readonly #clock: Clock;
  readonly #statement: Statements;
  #lastSeq: number;

  constructor(tables: Tables, clock: Clock) {
    this.#tables = tables;
    this.#clock = clock;
    this.#statement = prepare(tables.db);
    this.#lastSeq = Math.max(
      clock.now(),
      tables.read(() => this.#statement.last.get() ?? 0),
    );
  }

  async add(message: NewMessage): Promise<AddedMessage> {
    const statement = this.#statement;
    return this.#tables.write(() => {
      const known = statement.byNonce.get(message.nonce);
      if (known !== undefined) return { message: toMessage(known), isNew: false };
      if (message.kind === 'person') noteHeard(statement);
      this.#lastSeq += 1;
      const row = rowOf(message, { seq: this.#lastSeq, sentAt: shownAt(this.#clock, this.#clock.now()) });
      statement.insert.run(row);
      return { message: toMessage(row), isNew: true };
    });
  }

  /** Replaces the text of a message; `null` if there is no such message. A person's message is marked as edited. */
  async edit(channel: ChannelId, id: string, text: string): Promise<ChatMessage | null> {
    return this.#change(channel, id, ({ kind, seq }) =>
      this.#statement.edit.run({ text, edited: kind === 'person' ? 1 : 0, seq }),
    );
  }

  /** Removes the text of a message and keeps its row; `null` if there is no such message. */
  async remove(channel: ChannelId, id: string): Promise<ChatMessage | null> {
    return this.#change(channel, id, ({ seq }) => this.#statement.remove.run({ text: '', deleted: 1, seq }));
  }

  /** Adds a receipt once; `null` if there is no such message. */
  async receipt(channel: ChannelId, id: string, receipt: Receipt): Promise<ChatMessage | null> {
    return this.#change(channel, id, ({ receipts, seq }) => {
      const allReceipts = JSON.stringify([...new Set([...parseReceipts(receipts), receipt])]);
      this.#statement.receipts.run({ receipts: allReceipts, seq });
    });
  }

  message(channel: ChannelId, id: string): ChatMessage | null {
    return this.#readOne(() => this.#statement.bySeq.get(channel, Number(id)));
  }

  byNonce(nonce: string): ChatMessage | null {
    return this.#readOne(() => this.#statement.byNonce.get(nonce));
  }

  /** Returns the newest `limit` messages with a seq below `before`, oldest first. Default: of all messages. */
  before(channel: ChannelId, limit: number, before = Number.MAX_SAFE_INTEGER): readonly ChatMessage[] {
    return this.#readAll(() => this.#statement.before.all(channel, before, limit)).toReversed();
  }

  /** Returns the oldest `limit` messages with a seq above `after`, oldest first. */
  after(channel: ChannelId, limit: number, after: number): readonly ChatMessage[] {
    return this.#readAll(() => this.#statement.after.all(channel, after, limit));
  }

  /** Returns the newest `limit` messages of people with a seq above `after`, oldest first, without deleted messages. */
  personMessages(channel: ChannelId, limit: number, after: number): readonly ChatMessage[] {
    return this.#readAll(() => this.#statement.personMessages.all(channel, after, limit)).toReversed();
  }

  /** Channels with messages of people that are neither in the inbox nor deleted. */
  channelsToCatchUp(): readonly ChannelId[] {
    return this.#tables.read(() => this.#statement.channelsToCatchUp.all(heardUpTo(this.#statement)));
  }

  #readOne(find: () => Row | undefined): ChatMessage | null {
    const row = this.#tables.read(find);
    return row === undefined ? null : toMessage(row);
  }

  #readAll(find: () => readonly Row[]): readonly ChatMessage[] {
    return this.#tables.read(find).map(toMessage);
  }

  #change(channel: ChannelId, id: string, write: (row: Row) => unknown): Promise<ChatMessage | null> {
    const find = (): Row | undefined => this.#statement.bySeq.get(channel, Number(id));
    return this.#tables.write(() => {
      const row = find();
      if (row === undefined) return null;
      write(row);
      return toMessage(find() ?? row);
    });
  }
}

/** Returns the stored seq up to which all messages of people are known to be in the inbox or deleted; 0 for none. */
function heardUpTo({ heard }: Statements): number {
  return Number(heard.get() ?? 0);
}

/** Advances the stored seq that `heardUpTo` returns, by at most 1,000 messages of people. */
function noteHeard(statement: Statements): void {
  const before = heardUpTo(statement);
  const { last, missing } = statement.heardAfter.get(before) ?? { last: null, missing: null };
  const now = missing === null ? last : missing - 1;
  if (now !== null && now > before) statement.noteHeard.run(String(now));
}

const COLUMNS =
  'seq, channel, kind, speaker_id, speaker_name, avatar, text, epoch, sent_at, edited, deleted, receipts, reply_to, nonce';

type Statements = ReturnType<typeof prepare>;

const IS_MISSING = 'c.deleted = 0 AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.id = CAST(c.seq AS TEXT))';

function prepare(db: Database) {
  const update = <Column extends keyof Row>(...columns: readonly Column[]) =>
    db.prepare<Pick<Row, Column | 'seq'>>(
      `UPDATE conversation SET ${columns.map((name) => `${name} = @${name}`).join(', ')},
         checksum = ${checksum('conversation', columns)} WHERE seq = @seq`,
    );
  return {
    last: db.prepare<[], number | null>('SELECT max(seq) FROM conversation').pluck(),
    insert: db.prepare<Row>(
      `INSERT INTO conversation (${COLUMNS}, checksum)
       VALUES (${COLUMNS.replaceAll(/\w+/g, '@$&')}, ${checksum('conversation', 'all')})`,
    ),
    bySeq: db.prepare<[ChannelId, number], Row>('SELECT * FROM conversation WHERE channel = ? AND seq = ?'),
    byNonce: db.prepare<[string], Row>('SELECT * FROM conversation WHERE nonce = ?'),
    edit: update('text', 'edited'),
    remove: update('text', 'deleted'),
    receipts: update('receipts'),
    before: db.prepare<[ChannelId, number, number], Row>(
      'SELECT * FROM conversation WHERE channel = ? AND seq < ? ORDER BY seq DESC LIMIT ?',
    ),
    after: db.prepare<[ChannelId, number, number], Row>(
      'SELECT * FROM conversation WHERE channel = ? AND seq > ? ORDER BY seq LIMIT ?',
    ),
    heard: db.prepare<[], string>("SELECT value FROM meta WHERE name = 'heard'").pluck(),
    noteHeard: db.prepare<[string]>("INSERT OR REPLACE INTO meta VALUES ('heard', ?)"),
    heardAfter: db.prepare<[number], { last: number | null; missing: number | null }>(
      `SELECT max(c.seq) AS last, min(iif(${IS_MISSING}, c.seq, NULL)) AS missing FROM (
         SELECT seq, deleted FROM conversation WHERE kind = 'person' AND seq > ? ORDER BY seq LIMIT 1000) AS c`,
    ),
    channelsToCatchUp: db
      .prepare<[number], ChannelId>(
        `SELECT DISTINCT c.channel FROM conversation AS c WHERE c.kind = 'person' AND c.seq > ? AND ${IS_MISSING}`,
      )
      .pluck(),
    personMessages: db.prepare<[ChannelId, number, number], Row>(
      `SELECT * FROM conversation WHERE channel = ? AND seq > ? AND kind = 'person' AND deleted = 0 ORDER BY seq DESC LIMIT ?`,
    ),
  };
}

function rowOf(message: NewMessage, { seq, sentAt }: { readonly seq: number; readonly sentAt: number }): Row {
  const { channel, kind, speaker, text, epoch, replyTo, nonce } = message;
  const speakerColumns = { speaker_id: speaker.id, speaker_name: speaker.name, avatar: speaker.avatar };
  const initialColumns = { sent_at: sentAt, edited: 0, deleted: 0, receipts: '[]' };
  return { seq, channel, kind, ...speakerColumns, text, epoch, ...initialColumns, reply_to: replyTo, nonce };
}

function toMessage(row: Row): ChatMessage {
  return {
    id: String(row.seq),
    seq: row.seq,
    kind: row.kind,
    speaker: { id: row.speaker_id, name: row.speaker_name, avatar: row.avatar },
    text: row.text,
    epoch: row.epoch,
    sentAt: row.sent_at,
    edited: row.edited === 1,
    deleted: row.deleted === 1,
    receipts: parseReceipts(row.receipts),
    replyTo: row.kind === 'system' ? null : row.reply_to,
    asks: row.kind === 'system' ? row.reply_to : null,
    key: row.kind === 'person' ? row.nonce : null,
  };
}

function parseReceipts(json: string): Receipt[] {
  return JSON.parse(json) as Receipt[];
}
