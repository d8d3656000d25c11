import type { Database } from 'better-sqlite3';
import type { Announcement } from '../../turns/floor/fact.ts';
import type { Effect } from '../../turns/floor/effect.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Instant } from '../../lib/time.ts';
import { splitText } from '../../turns/text/split.ts';
import type { OutboxRow, Settlement } from '../port.ts';
import { sealing } from './seal.ts';

/** How texts become rows. */
export type Wording = {
  /** The longest text of one post in a channel, in UTF-16 units. */
  readonly textLimit: (channel: ChannelId) => number;
  /** What an agent says or asks beyond this length stays one row, to be shown as a file; without it, or `null`, all is split. */
  readonly fileAbove?: (channel: ChannelId) => number | null;
  /** The text of an announcement; `null` when the configuration switches it off. */
  readonly words: (announcement: Announcement, channel: ChannelId, repeat: number) => string | null;
};

type Owed = Exclude<Effect, { readonly type: 'cancel' }>;

type Row = {
  readonly n: number;
  readonly id: string;
  readonly channel: string;
  readonly lane: string;
  readonly effect: string;
  readonly part: number;
  readonly text: string | null;
  readonly key: string | null;
  readonly repeats: number;
  readonly state: string;
  readonly attempts: number;
  readonly not_before: number;
  readonly cancelled: number;
};

/** The condition of rows that are not done. */
export const OPEN = "state IN ('owed', 'inflight', 'uncertain')";
const HEADS = `
  WITH RECURSIVE queues (queue) AS (
    SELECT min(queue) FROM outbox WHERE ${OPEN}
    UNION ALL
    SELECT (SELECT min(o.queue) FROM outbox o WHERE ${OPEN} AND o.queue > queues.queue) FROM queues WHERE queue IS NOT NULL
  )
  SELECT o.* FROM queues
  JOIN outbox o ON o.n = (SELECT min(n) FROM outbox WHERE ${OPEN} AND queue = queues.queue)
  WHERE queues.queue IS NOT NULL AND o.state <> 'inflight'
  ORDER BY o.n`;

/** Rows that the world is owed, in lanes. */
export class Outbox {
  readonly #wording: Wording;
  readonly #issuer: string;
  #n: number;
  readonly #insert;
  readonly #seal;
  readonly #cancelOwed;
  readonly #cancelInflight;
  readonly #heads;
  readonly #lease;
  readonly #read;
  readonly #settle;
  readonly #remove;
  readonly #lastPosted;
  readonly #lastAnnounced;

  /** `issuer` begins every id and is never used by another file. */
  constructor(db: Database, issuer: string, wording: Wording) {
    this.#wording = wording;
    this.#issuer = issuer;
    this.#n = Number(db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'").pluck().get() ?? 0);
    this.#insert = db.prepare(
      `INSERT INTO outbox (n, id, channel, lane, queue, effect, part, text, type, epoch, key, repeats)
       VALUES (@n, @id, @channel, @lane, @queue, @effect, @part, @text, @type, @epoch, @key, @repeats)`,
    );
    this.#seal = db.prepare<[number]>(sealing('outbox', 'n = ?'));
    const stale = `queue = ? AND ${OPEN} AND type IN ('prompt', 'inject') AND epoch <= ?`;
    this.#cancelOwed = db.prepare<[string, number]>(`DELETE FROM outbox WHERE ${stale} AND state = 'owed'`);
    this.#cancelInflight = db
      .prepare<[string, number], number>(`UPDATE outbox SET cancelled = 1 WHERE ${stale} RETURNING n`)
      .pluck();
    this.#heads = db.prepare<[], Row>(HEADS);
    this.#lease = db.prepare<[number]>("UPDATE outbox SET state = 'inflight', attempts = attempts + 1 WHERE n = ?");
    this.#read = db.prepare<[number, string], Row>('SELECT * FROM outbox WHERE n = ? AND id = ?');
    this.#settle = db.prepare<[string, number, string | null, string | null, number]>(
      'UPDATE outbox SET state = ?, not_before = ?, platform_id = ?, why = ? WHERE n = ?',
    );
    this.#remove = db.prepare<[number]>('DELETE FROM outbox WHERE n = ?');
    this.#lastPosted = db
      .prepare<[string, number], string>(
        `SELECT platform_id FROM outbox WHERE channel = ? AND n < ? AND platform_id IS NOT NULL ORDER BY n DESC LIMIT 1`,
      )
      .pluck();
    this.#lastAnnounced = db
      .prepare<[string, string, number], string>(
        `SELECT platform_id FROM outbox WHERE channel = ? AND key = ? AND n < ? AND platform_id IS NOT NULL
         ORDER BY n DESC LIMIT 1`,
      )
      .pluck();
  }

  /** Writes down what is owed; a `cancel` takes back what was not sent yet. */
  owe(channel: ChannelId, effects: readonly Effect[]): void {
    for (const effect of effects) {
      if (effect.type === 'cancel') this.#cancel(channel, `agent:${effect.agent}`, effect.epoch);
      else
        for (const [part, text] of this.#parts(channel, effect).entries()) this.#add({ channel, effect, part, text });
    }
  }

  /** Leases the first row of every lane that may go now, oldest first; `next` is when a lane that must wait may go on. */
  lease(limit: number, at: Instant): { readonly rows: readonly OutboxRow[]; readonly next: Instant | null } {
    const heads = this.#heads.all();
    const rows = heads.filter((row) => row.not_before <= at).slice(0, limit);
    const waiting = heads.filter((row) => row.not_before > at).map((row) => row.not_before);
    for (const row of rows) {
      this.#lease.run(row.n);
      this.#seal.run(row.n);
    }
    const next = waiting.length === 0 ? null : waiting.reduce((a, b) => Math.min(a, b));
    return { rows: rows.map((row) => this.#outboxRow(row)), next };
  }

  /** Ends a lease. A row that is not leased, or not known, is left as it is. */
  settle(row: OutboxRow, settlement: Settlement): void {
    const stored = this.#read.get(Number(row.id.slice(row.id.lastIndexOf('-') + 1)), row.id);
    if (stored === undefined || stored.state !== 'inflight') return;
    switch (settlement.state) {
      case 'confirmed':
        return this.#confirm(stored, settlement.platformId ?? row.editsId);
      case 'retry':
        return this.#again(stored, row.uncertain ? 'uncertain' : 'owed', settlement.notBefore);
      case 'uncertain':
        return this.#again(stored, 'uncertain', settlement.notBefore);
      case 'failed':
        return this.#close(stored.n, ['failed', 0, null, settlement.why]);
    }
  }

  #parts(channel: ChannelId, effect: Owed): readonly (string | null)[] {
    if (effect.type !== 'post' && effect.type !== 'announce') return [null];
    const text =
      effect.type === 'post' ? effect.text : this.#wording.words(effect.announcement, channel, effect.repeat);
    if (text === null) return [];
    const isLong = effect.type === 'post' || effect.announcement.kind === 'approval';
    const whole = isLong ? (this.#wording.fileAbove?.(channel) ?? null) : null;
    return whole !== null && text.length > whole ? [text] : splitText(text, this.#wording.textLimit(channel));
  }

  #add(owed: { channel: ChannelId; effect: Owed; part: number; text: string | null }): void {
    const { channel, effect, part, text } = owed;
    const n = (this.#n += 1);
    const lane = laneOf(effect);
    this.#insert.run({
      n,
      id: `${this.#issuer}-${n}`,
      channel,
      lane,
      queue: queueOf(channel, lane),
      effect: JSON.stringify(effect.type === 'post' ? { ...effect, text: '' } : effect),
      part,
      text,
      type: effect.type,
      epoch: 'epoch' in effect ? effect.epoch : null,
      key: effect.type === 'announce' && part === 0 ? effect.key : null,
      repeats: effect.type === 'announce' ? effect.repeat : 0,
    });
    this.#seal.run(n);
  }

  #cancel(channel: ChannelId, lane: string, epoch: number): void {
    const queue = queueOf(channel, lane);
    this.#cancelOwed.run(queue, epoch);
    for (const n of this.#cancelInflight.all(queue, epoch)) this.#seal.run(n);
  }

  #confirm(row: Row, platformId: string | null): void {
    if (row.text !== null) this.#close(row.n, ['confirmed', 0, platformId, null]);
    else this.#remove.run(row.n);
  }

  #again(row: Row, state: 'owed' | 'uncertain', notBefore: Instant): void {
    if (row.cancelled === 1) this.#remove.run(row.n);
    else this.#close(row.n, [state, notBefore, null, null]);
  }

  #close(n: number, outcome: readonly [string, number, string | null, string | null]): void {
    this.#settle.run(...outcome, n);
    this.#seal.run(n);
  }

  #outboxRow(row: Row): OutboxRow {
    const effect = JSON.parse(row.effect) as Effect;
    return {
      id: row.id,
      channel: row.channel,
      lane: row.lane,
      effect: effect.type === 'post' ? { ...effect, text: row.text ?? '' } : effect,
      part: row.part,
      text: row.text,
      attempts: row.attempts,
      uncertain: row.state === 'uncertain',
      afterId: this.#lastPosted.get(row.channel, row.n) ?? null,
      editsId:
        row.key === null || row.repeats < 2 ? null : (this.#lastAnnounced.get(row.channel, row.key, row.n) ?? null),
    };
  }
}

/** After a crash: nobody knows what became of posts in flight; what agents were handed is handed over again. */
export function recoverOutbox(db: Database): void {
  db.exec(`
    DELETE FROM outbox WHERE state = 'inflight' AND cancelled = 1;
    UPDATE outbox SET not_before = 0 WHERE ${OPEN};
    UPDATE outbox SET state = 'uncertain' WHERE state = 'inflight' AND lane IN ('posts', 'receipts');
    UPDATE outbox SET state = 'owed' WHERE state = 'inflight';
    ${sealing('outbox', OPEN)};`);
}

/** After a restore: what the copy still owed may have been posted since it was made. */
export function doubtOutbox(db: Database): void {
  db.exec(`
    UPDATE outbox SET state = 'uncertain' WHERE state = 'owed' AND lane = 'posts';
    ${sealing('outbox', OPEN)};`);
}

function laneOf(effect: Owed): string {
  switch (effect.type) {
    case 'post':
    case 'announce':
    case 'offer':
      return 'posts';
    case 'receipt':
      return 'receipts';
    case 'interrupt':
      return `interrupt:${effect.agent}`;
    case 'prompt':
    case 'inject':
    case 'observe':
    case 'ask':
    case 'decision':
      return `agent:${effect.agent}`;
  }
}

function queueOf(channel: ChannelId, lane: string): string {
  return `${channel} ${lane}`;
}
