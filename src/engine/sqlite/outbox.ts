import type { Database } from 'better-sqlite3';
import type { Instant } from '../../lib/time.ts';
import type { Cancel, NewEntry } from '../machine-uses.ts';
import type { Lease, OutboxEntry, Settlement } from '../port.ts';
import { checksumOf } from './rows.ts';
import { Deadlines } from '../../lib/time.ts';

const AFTER = 'after:';

/** SQL: the recorded number of a row up to which all rows are settled; 0 when there is none. */
const SETTLED = "coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'settled'), 0)";

/** SQL condition: the row is not settled. */
export const OPEN = `n > ${SETTLED} AND state IN ('owed', 'uncertain')`;

/** SQL condition: the row may be open, but its state is unknown. Found only in a damaged file. */
export const UNCLEAR = `n > ${SETTLED} AND state NOT IN ('owed', 'uncertain', 'confirmed', 'failed')`;

/** An outbox entry. `n` is its row in the table, or `null` when it lives in memory only. */
type Entry = {
  readonly n: number | null;
  readonly row: Omit<OutboxEntry<unknown>, 'attempts' | 'uncertain' | 'afterId' | 'editsId' | 'editsParts'>;
  readonly kind: string;
  readonly epoch: number | null;
  readonly key: string | null;
  readonly repeats: number;
  attempts: number;
  uncertain: boolean;
  inFlight: boolean;
  isCancelled: boolean;
};

const FRESH = { attempts: 0, uncertain: false, inFlight: false, isCancelled: false };

type Lane = {
  readonly name: string;
  entries: Entry[];
  isReady: boolean;
  /** True while the settlement of the last entry is not durable yet. */
  isSettling: boolean;
  /** The lane whose first entry waits for this lane. */
  behind: Lane | null;
};

const DONE = Promise.resolve();

type Settled = {
  readonly lane: Lane;
  readonly write: () => void;
  readonly channel: string;
  /**
   * The key of the announcement; `null` for other entries. `shown`: the platform id of the post; `null` for none.
   */
  readonly key: string | null;
  readonly shown: string | null;
};

/** Runs `write` in a commit. `durable` is called before the promise resolves. */
type SettlingCommit = (write: () => void, durable: () => void) => Promise<void>;

/** How long the settlement of a lane's last entry may wait for another commit, in milliseconds. */
const SETTLED_WITHIN_MS = 1_000;

/** After this many settlements, the outbox records the number of the row up to which all rows are settled. */
const NOTED_EVERY = 10_000;

/** Empty lanes are dropped when there are this many lanes more than twice those in use at the last drop. */
const MOST_EMPTY = 1_000;

/**
 * Effects to deliver, in lanes. Entries live in memory; lasting ones are stored, too. Handing out an entry writes
 * nothing, so after a crash the first entry of every lane may have been in flight.
 */
export class Outbox {
  readonly #sql;
  readonly #storeId: string;
  #lanes = new Map<string, Lane>();
  #mostLanes = MOST_EMPTY;
  /** Lanes whose first entry may be handed out. A lane that is no longer ready is skipped. */
  #ready: Lane[] = [];
  readonly #later = new Deadlines();
  #staged: (Entry | Cancel)[] = [];
  /** Settlements for the next transaction. `#settledAt`: when `lease` first found one waiting; `null` before. */
  #settled: Settled[] = [];
  #settledAt: Instant | null = null;
  #settling: readonly Settled[] = [];
  #n = 0;
  /** By channel: the platform id of the last confirmed text, if newer than the one in the table `posted`. */
  readonly #posted = new Map<string, string>();
  #unnoted = 0;

  /** `storeId`: prefix of the id of each new entry. */
  constructor(db: Database, storeId: string) {
    this.#sql = statements(db);
    this.#storeId = storeId;
    this.#loadNumbers();
    for (const stored of this.#sql.open.iterate()) this.#queue(entryOf(stored));
  }

  /** Adds the entries of a journal row, and cancels pending entries. Both take effect with `committed`. */
  add(journalRow: number, all: readonly (NewEntry | Cancel)[]): void {
    let index = 0;
    for (const change of all) {
      if (change.type === 'cancel') this.#staged.push(change);
      else
        for (const [part, text] of change.texts.entries()) {
          this.#stage(change, { id: `${this.#storeId}-${journalRow}-${index}`, part, text });
          index += 1;
        }
    }
  }

  writeSettled(): void {
    this.#settling = this.#settled;
    this.#settled = [];
    this.#settledAt = null;
    for (const { write } of this.#settling) write();
    if (this.#unnoted >= NOTED_EVERY) this.#note();
  }

  /** True when a settlement must be committed now: it waited long enough, or the next entry of its lane is ready. */
  mustSettle(at: Instant): boolean {
    if (this.#settledAt !== null && at >= this.#settledAt + SETTLED_WITHIN_MS) return true;
    return this.#settled.some(({ lane }) => lane.isReady) || this.#settling.some(({ lane }) => lane.isReady);
  }

  /** Called when the transaction is durable: its entries can be handed out, and its cancellations take effect. */
  committed(): void {
    for (const { lane } of this.#settling) lane.isSettling = false;
    this.#settling = [];
    for (const staged of this.#staged.splice(0)) {
      if ('row' in staged) this.#queue(staged);
      else this.#cancel(staged);
    }
  }

  /** Called after a rollback: drops the transaction's entries. The next transaction writes `#settling` again. */
  undone(): void {
    this.#staged = [];
    this.#settled = [...this.#settling, ...this.#settled];
    this.#settling = [];
    this.#loadNumbers();
  }

  /**
   * Hands out the first entries of ready lanes, at most `limit`. `next`: when to call again at the latest, if fewer
   * than `limit` entries came.
   */
  lease(limit: number, at: Instant): Lease<unknown> {
    const { keys, next } = this.#later.due(at);
    for (const name of keys) {
      this.#later.set(name, null);
      this.#wake(this.#lane(name));
    }
    const rows: OutboxEntry<unknown>[] = [];
    let count = 0;
    for (const lane of this.#ready) {
      if (rows.length === limit) break;
      count += 1;
      const entry = lane.isReady ? lane.entries[0] : undefined;
      lane.isReady = false;
      if (entry === undefined || this.#waits(lane, entry)) continue;
      rows.push(this.#leased(entry));
      entry.inFlight = true;
      entry.attempts += 1;
    }
    this.#ready = this.#ready.slice(count);
    if (this.#settled.length === 0) return { rows, next };
    this.#settledAt ??= at;
    return { rows, next: Math.min(next ?? Infinity, this.#settledAt + SETTLED_WITHIN_MS) };
  }

  /**
   * Settles an entry that was handed out; ignores others. The final settlement of a stored entry is durable before the
   * next entry of the lane is handed out, so a crash leaves at most one entry of a lane in doubt. The settlement of a
   * lane's last entry is written with the next transaction.
   */
  settle(row: OutboxEntry<unknown>, settlement: Settlement, commit: SettlingCommit): Promise<void> {
    const lane = this.#lanes.get(laneOf(row));
    const entry = lane?.entries[0];
    if (lane === undefined || entry?.row.id !== row.id || !entry.inFlight) return DONE;
    if (settlement.state === 'retry' || settlement.state === 'uncertain') {
      entry.uncertain ||= settlement.state === 'uncertain' && entry.n !== null;
      this.#again(lane, entry, settlement.notBefore);
      return DONE;
    }
    if (entry.n !== null) {
      const write = (): void => this.#write(entry, row, settlement);
      if (lane.entries.length > 1) return commit(write, () => this.#shift(lane));
      lane.isSettling = true;
      const shown = settlement.state === 'confirmed' ? (settlement.platformId ?? row.editsId) : null;
      this.#settled.push({ lane, write, channel: row.channel, key: entry.key, shown });
    }
    this.#shift(lane);
    return DONE;
  }

  /** Replaces the effect and the text of an entry in memory. A delivery in progress keeps the old ones. */
  reworded(
    { n, ...place }: Pick<Stored, 'n' | 'channel' | 'lane'>,
    words: { readonly effect: unknown; readonly text: string | null },
  ): void {
    const lane = this.#lanes.get(laneOf(place));
    if (lane === undefined) return;
    lane.entries = lane.entries.map((entry) => (entry.n === n ? { ...entry, row: { ...entry.row, ...words } } : entry));
  }

  /**
   * Called once at the start. Drops entries that live in memory only. `first`: the first entry of every lane becomes
   * uncertain, because it may have been in flight. `noted`: a clean end has recorded the uncertain entries. `all`:
   * every entry becomes uncertain, for a restored file.
   */
  recover(which: 'noted' | 'first' | 'all'): void {
    for (const lane of this.#lanes.values()) {
      lane.entries = lane.entries.filter(({ n }) => n !== null);
      for (const [index, entry] of lane.entries.entries()) {
        if (which === 'all' || (which === 'first' && index === 0) || entry.inFlight) entry.uncertain = true;
        entry.inFlight = false;
      }
      this.#later.set(lane.name, null);
      this.#wake(lane);
    }
  }

  doubt(): void {
    this.#sql.doubt.run();
  }

  /** Called at a clean end: records which entries are uncertain or in flight. */
  note(): void {
    for (const { entries } of this.#lanes.values())
      for (const entry of entries) if (entry.uncertain || entry.inFlight) this.#become(entry, 'uncertain');
    this.#note();
  }

  #stage(entry: NewEntry, { id, part, text }: { id: string; part: number; text: string | null }): void {
    const { channel, lane, effect, kind, epoch, repeats } = entry;
    const key = part === 0 ? entry.key : null;
    if (entry.lasting) this.#n += 1;
    const n = entry.lasting ? this.#n : null;
    const row = { id, channel, lane, effect, part, text };
    this.#staged.push({ n, row, kind, epoch, key, repeats, ...FRESH });
    if (n === null) return;
    const columns = [n, id, channel, lane, kind, JSON.stringify(effect), part, text, key, repeats];
    this.#sql.insert.run(...columns, checksumOf(columns));
  }

  #queue(entry: Entry): void {
    const lane = this.#lane(laneOf(entry.row));
    lane.entries.push(entry);
    if (lane.entries.length === 1) this.#wake(lane);
  }

  #lane(name: string): Lane {
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    if (this.#lanes.size >= this.#mostLanes) this.#dropEmpty();
    const lane = { name, entries: [], isReady: false, isSettling: false, behind: null };
    this.#lanes.set(name, lane);
    return lane;
  }

  #dropEmpty(): void {
    const used = [...this.#lanes].filter(([, { entries, isSettling }]) => entries.length > 0 || isSettling);
    this.#lanes = new Map(used);
    this.#mostLanes = 2 * used.length + MOST_EMPTY;
  }

  /** Cancels entries that live in memory only. An entry in flight stays until its attempt ends. */
  #cancel({ channel, lane: name, kinds, upto }: Cancel): void {
    const lane = this.#lanes.get(laneOf({ channel, lane: name }));
    if (lane === undefined) return;
    const isMeant = ({ n, kind, epoch }: Entry): boolean =>
      n === null && kinds.includes(kind) && epoch !== null && epoch <= upto;
    for (const entry of lane.entries) entry.isCancelled ||= isMeant(entry);
    const [first] = lane.entries;
    lane.entries = lane.entries.filter((entry) => !entry.isCancelled || entry.inFlight);
    if (lane.entries[0] === first) return;
    this.#later.set(lane.name, null);
    this.#wake(lane);
  }

  #again(lane: Lane, entry: Entry, notBefore: Instant): void {
    entry.inFlight = false;
    if (entry.isCancelled) this.#shift(lane);
    else this.#later.set(lane.name, notBefore);
  }

  /** True when an entry of the lane `after:<lane>` must wait for an earlier entry of `<lane>` in its channel. */
  #waits(lane: Lane, { n, row: { channel, lane: name } }: Entry): boolean {
    if (n === null || !name.startsWith(AFTER)) return false;
    const before = this.#lanes.get(laneOf({ channel, lane: name.slice(AFTER.length) }));
    const first = before?.entries[0]?.n ?? null;
    if (before === undefined || first === null || first >= n) return false;
    before.behind = lane;
    return true;
  }

  #shift(lane: Lane): void {
    lane.entries.shift();
    this.#wake(lane);
    if (lane.behind !== null) this.#wake(lane.behind);
    lane.behind = null;
  }

  #wake(lane: Lane): void {
    const isReady = lane.entries[0]?.inFlight === false;
    if (isReady && !lane.isReady) this.#ready.push(lane);
    lane.isReady = isReady;
  }

  #write(entry: Entry, row: OutboxEntry<unknown>, settlement: Settlement): void {
    this.#unnoted += 1;
    if (settlement.state === 'failed') this.#become(entry, 'failed', { why: settlement.why });
    else if (settlement.state === 'confirmed' && row.text !== null) {
      const platformId = settlement.platformId ?? row.editsId;
      this.#become(entry, 'confirmed', { platformId });
      if (platformId !== null) this.#posted.set(row.channel, platformId);
    } else this.#sql.remove.run(entry.n);
  }

  /** The key of the newest announcement that a message shows, among keys that begin with `prefix`; `null` for none. */
  announcementAt(channel: string, id: string, prefix: string): string | null {
    const unwritten = [...this.#settling, ...this.#settled].findLast(
      (each) => each.channel === channel && each.shown === id && each.key?.startsWith(prefix) === true,
    );
    return unwritten?.key ?? this.#sql.shown.get({ channel, from: prefix, to: `${prefix}\u{10FFFF}`, id }) ?? null;
  }

  #become({ n }: Entry, state: string, { platformId = null, why = null }: Outcome = {}): void {
    if (n !== null) this.#sql.become.run(state, platformId, why, n);
  }

  #note(): void {
    this.#unnoted = 0;
    for (const [channel, id] of this.#posted) this.#sql.notePosted.run(channel, id);
    this.#posted.clear();
    const open = [...this.#lanes.values()].flatMap(({ entries }) => entries.find(({ n }) => n !== null)?.n ?? []);
    const staged = this.#staged.flatMap((each) => ('row' in each ? (each.n ?? []) : []));
    const first = [...open, ...staged].reduce((least, n) => Math.min(least, n), this.#n + 1);
    this.#sql.noteSettled.run(String(first - 1));
  }

  /**
   * Reads the last row number and the newest confirmed texts. After a rollback or a start, the number of a deleted row
   * may be used again.
   */
  #loadNumbers(): void {
    this.#n = Math.max(this.#sql.last.get() ?? 0, Number(this.#sql.settled.get() ?? 0));
    for (const { channel, id } of this.#sql.posted.iterate()) this.#posted.set(channel, id);
  }

  #leased({ n, row, attempts, uncertain, key, repeats }: Entry): OutboxEntry<unknown> {
    const { channel } = row;
    const posted = n === null ? null : (this.#posted.get(channel) ?? this.#sql.lastPosted.get(channel));
    const isRepeated = n !== null && key !== null && repeats > 1;
    const [edited, ...parts] = isRepeated ? this.#sql.announced.all({ channel, key, n }) : [];
    const further = parts.length === 0 ? {} : { editsParts: parts };
    return { ...row, attempts, uncertain, afterId: posted ?? null, editsId: edited ?? null, ...further };
  }
}

type Outcome = { readonly platformId?: string | null; readonly why?: string | null };

type Stored = Pick<OutboxEntry<string>, 'id' | 'channel' | 'lane' | 'effect' | 'part' | 'text'> &
  Pick<Entry, 'key' | 'repeats'> & {
    readonly n: number;
    readonly type: string;
    readonly state: string;
    readonly platform_id: string | null;
  };

function statements(db: Database) {
  return {
    last: db.prepare<[], number | null>('SELECT max(n) FROM outbox').pluck(),
    open: db.prepare<[], Stored>(`SELECT * FROM outbox WHERE ${OPEN} ORDER BY n`),
    posted: db.prepare<[], { channel: string; id: string }>(
      `SELECT channel, platform_id AS id, max(n) FROM outbox
       WHERE n > ${SETTLED} AND state = 'confirmed' AND text IS NOT NULL AND platform_id IS NOT NULL GROUP BY channel`,
    ),
    settled: db.prepare<[], string>("SELECT value FROM meta WHERE name = 'settled'").pluck(),
    noteSettled: db.prepare<[string]>("INSERT OR REPLACE INTO meta VALUES ('settled', ?)"),
    insert: db.prepare(
      `INSERT INTO outbox (n, id, channel, lane, type, effect, part, text, key, repeats, state, checksum)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'owed', unhex(?))`,
    ),
    doubt: db.prepare(`UPDATE outbox SET state = 'uncertain' WHERE ${OPEN}`),
    become: db.prepare('UPDATE outbox SET state = ?, platform_id = ?, why = ? WHERE n = ?'),
    remove: db.prepare<[number | null]>('DELETE FROM outbox WHERE n = ?'),
    lastPosted: db.prepare<[string], string>('SELECT platform_id FROM posted WHERE channel = ?').pluck(),
    notePosted: db.prepare<[string, string]>(
      'INSERT INTO posted VALUES (?, ?) ON CONFLICT (channel) DO UPDATE SET platform_id = excluded.platform_id',
    ),
    shown: db
      .prepare<[{ readonly channel: string; readonly from: string; readonly to: string; readonly id: string }], string>(
        `SELECT key FROM outbox WHERE channel = @channel AND key >= @from AND key < @to AND platform_id = @id
         ORDER BY n DESC LIMIT 1`,
      )
      .pluck(),
    /**
     * The messages of the last confirmed announcement with this key before row `n`, first part first. The rows of its
     * parts follow each other; the next row after them has part 0.
     */
    announced: db
      .prepare<[{ readonly channel: string; readonly key: string; readonly n: number }], string>(
        `WITH last (first) AS (SELECT n FROM outbox WHERE channel = @channel AND key = @key AND n < @n
           AND platform_id IS NOT NULL ORDER BY n DESC LIMIT 1)
         SELECT platform_id FROM (
           SELECT platform_id, part, row_number() OVER (ORDER BY n) - 1 AS place FROM last JOIN outbox ON n >= first
             AND n < coalesce((SELECT n FROM outbox WHERE n > first AND part = 0 ORDER BY n LIMIT 1), first + 1e9)
           WHERE channel = @channel)
         WHERE part = place AND platform_id IS NOT NULL ORDER BY place`,
      )
      .pluck(),
  };
}

function entryOf({ n, id, channel, lane, type, effect, part, text, key, repeats, state }: Stored): Entry {
  const row = { id, channel, lane, effect: JSON.parse(effect), part, text };
  return { ...FRESH, n, row, kind: type, epoch: null, key, repeats, uncertain: state === 'uncertain' };
}

function laneOf({ channel, lane }: Pick<OutboxEntry<unknown>, 'channel' | 'lane'>): string {
  return `${channel} ${lane}`;
}
