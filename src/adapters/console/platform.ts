import Database from 'better-sqlite3';
import type { Receipt } from '../../turns/floor/react.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { StoreError, storeError } from '../../engine/errors.ts';
import type { Clock } from '../../lib/time.ts';
import type { ChatMessage } from './protocol.ts';

/** What a page or Conch itself adds to a channel. */
export type NewMessage = {
  readonly channel: ChannelId;
  readonly kind: ChatMessage['kind'];
  readonly speaker: ChatMessage['speaker'];
  readonly text: string;
  readonly epoch: number | null;
  readonly replyTo: string | null;
  /** The outbox id of a post, or the page's key of what a person wrote: a second one with the same is the first. */
  readonly nonce: string;
};

/** A message as stored; `fresh` is false when the nonce was known. */
export type Stored = { readonly message: ChatMessage; readonly fresh: boolean };

/**
 * The console's own message store: one SQLite file, durable before a promise resolves.
 * Writes of one moment share one commit. Ids grow for ever, also when the file is lost.
 */
export type Platform = {
  add(message: NewMessage): Promise<Stored>;
  /** Rewrites a text; `null` when there is no such message. A person's text is marked as edited. */
  edit(channel: ChannelId, id: string, text: string): Promise<ChatMessage | null>;
  /** Takes a text away and keeps its place; `null` when there is no such message. */
  remove(channel: ChannelId, id: string): Promise<ChatMessage | null>;
  /** Adds a receipt once; `null` when there is no such message. */
  receipt(channel: ChannelId, id: string, receipt: Receipt): Promise<ChatMessage | null>;
  message(channel: ChannelId, id: string): ChatMessage | null;
  byNonce(nonce: string): ChatMessage | null;
  /** The newest messages before `before` (or of all), oldest first. */
  before(channel: ChannelId, limit: number, before?: number): readonly ChatMessage[];
  /** The oldest messages after `after`, oldest first. */
  after(channel: ChannelId, limit: number, after: number): readonly ChatMessage[];
  /** What people wrote after `after`, oldest first, without what they took back. */
  written(channel: ChannelId, limit: number, after: number): readonly ChatMessage[];
  /** Writes what is still waiting, then closes. */
  close(): void;
};

type Row = {
  readonly seq: number;
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

const SCHEMA_VERSION = 1;
const SCHEMA = `
  CREATE TABLE messages (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('person', 'agent', 'system')),
    speaker_id TEXT NOT NULL,
    speaker_name TEXT NOT NULL,
    avatar TEXT,
    text TEXT NOT NULL,
    epoch INTEGER,
    sent_at INTEGER NOT NULL,
    edited INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    receipts TEXT NOT NULL DEFAULT '[]',
    reply_to TEXT,
    nonce TEXT NOT NULL UNIQUE
  ) STRICT;
  CREATE INDEX messages_by_channel ON messages (channel, seq);
`;

/** Opens or creates the store. Throws one clear line when the file is damaged or newer than this program. */
export function openPlatform(options: { readonly path: string; readonly clock: Clock }): Platform {
  const database = openDatabase(options.path, options.clock);
  const commit = createCommitter(database);
  const statement = prepare(database);
  const find = (channel: ChannelId, id: string): Row | undefined =>
    statement.one.get(channel, Number(id)) as Row | undefined;
  const change = (channel: ChannelId, id: string, write: (row: Row) => void): Promise<ChatMessage | null> =>
    commit.run(() => {
      const row = find(channel, id);
      if (row === undefined) return null;
      write(row);
      return toMessage(find(channel, id) ?? row);
    });
  return {
    add: (message) => commit.run(() => insert(statement, message, options.clock)),
    edit: (channel, id, text) =>
      change(channel, id, (row) => statement.edit.run(text, row.kind === 'person' ? 1 : 0, row.seq)),
    remove: (channel, id) => change(channel, id, (row) => statement.remove.run(row.seq)),
    receipt: (channel, id, receipt) =>
      change(channel, id, (row) => {
        const receipts = parseReceipts(row.receipts);
        if (!receipts.includes(receipt)) statement.receipts.run(JSON.stringify([...receipts, receipt]), row.seq);
      }),
    message: (channel, id) => orNull(find(channel, id)),
    byNonce: (nonce) => orNull(statement.byNonce.get(nonce) as Row | undefined),
    before: (channel, limit, before = Number.MAX_SAFE_INTEGER) =>
      (statement.before.all(channel, before, limit) as Row[]).toReversed().map(toMessage),
    after: (channel, limit, after) => (statement.after.all(channel, after, limit) as Row[]).map(toMessage),
    written: (channel, limit, after) => (statement.written.all(channel, after, limit) as Row[]).map(toMessage),
    close() {
      commit.flush();
      database.close();
    },
  };
}

function openDatabase(path: string, clock: Clock): Database.Database {
  const database = new Database(path);
  try {
    const version = Number(database.pragma('user_version', { simple: true }));
    if (version > SCHEMA_VERSION) throw new Error('it was written by a newer Conch');
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = FULL');
    if (version === 0) createSchema(database, clock);
    return database;
  } catch (error) {
    database.close();
    const why = error instanceof Error ? error.message : String(error);
    const text = `The console's messages in ${path} cannot be read: ${why}. Move the file away or restore a copy.`;
    throw new StoreError(storeError(error, path).code, text, error);
  }
}

/** Ids start at the present instant, so that a lost file never gives an id a second time. */
function createSchema(database: Database.Database, clock: Clock): void {
  database.transaction(() => {
    database.exec(SCHEMA);
    database.prepare("INSERT INTO sqlite_sequence (name, seq) VALUES ('messages', ?)").run(clock.now());
    database.pragma(`user_version = ${SCHEMA_VERSION}`);
  })();
}

type Statements = ReturnType<typeof prepare>;

function prepare(database: Database.Database) {
  return {
    insert: database.prepare(
      `INSERT INTO messages (channel, kind, speaker_id, speaker_name, avatar, text, epoch, sent_at, reply_to, nonce)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
    ),
    one: database.prepare('SELECT * FROM messages WHERE channel = ? AND seq = ?'),
    byNonce: database.prepare('SELECT * FROM messages WHERE nonce = ?'),
    edit: database.prepare('UPDATE messages SET text = ?, edited = ? WHERE seq = ?'),
    remove: database.prepare("UPDATE messages SET text = '', deleted = 1 WHERE seq = ?"),
    receipts: database.prepare('UPDATE messages SET receipts = ? WHERE seq = ?'),
    before: database.prepare('SELECT * FROM messages WHERE channel = ? AND seq < ? ORDER BY seq DESC LIMIT ?'),
    after: database.prepare('SELECT * FROM messages WHERE channel = ? AND seq > ? ORDER BY seq LIMIT ?'),
    written: database.prepare(
      `SELECT * FROM messages WHERE channel = ? AND seq > ? AND kind = 'person' AND deleted = 0 ORDER BY seq LIMIT ?`,
    ),
  };
}

function insert(statement: Statements, message: NewMessage, clock: Clock): Stored {
  const known = statement.byNonce.get(message.nonce) as Row | undefined;
  if (known !== undefined) return { message: toMessage(known), fresh: false };
  const { channel, kind, speaker, text, epoch, replyTo, nonce } = message;
  const values = [channel, kind, speaker.id, speaker.name, speaker.avatar, text, epoch, clock.now(), replyTo, nonce];
  return { message: toMessage(statement.insert.get(...values) as Row), fresh: true };
}

/** Writes of one moment go into one transaction: all of them are durable, or none is. */
function createCommitter(database: Database.Database) {
  let waiting: { readonly write: () => void; readonly done: () => void; readonly failed: (why: unknown) => void }[] =
    [];
  const flush = (): void => {
    const batch = waiting;
    waiting = [];
    if (batch.length === 0) return;
    try {
      database.transaction(() => batch.forEach((one) => one.write()))();
      batch.forEach((one) => one.done());
    } catch (error) {
      batch.forEach((one) => one.failed(error));
    }
  };
  const run = <T>(write: () => T): Promise<T> =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(flush);
      let result: T;
      waiting.push({ write: () => (result = write()), done: () => resolve(result), failed: reject });
    });
  return { run, flush };
}

function orNull(row: Row | undefined): ChatMessage | null {
  return row === undefined ? null : toMessage(row);
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
    replyTo: row.reply_to,
    key: row.kind === 'person' ? row.nonce : null,
  };
}

function parseReceipts(json: string): Receipt[] {
  return JSON.parse(json) as Receipt[];
}
