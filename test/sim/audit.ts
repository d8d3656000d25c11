import type Database from 'better-sqlite3';
import type { Fact } from '../../src/turns/floor/fact.ts';
import type { Announcement } from '../../src/turns/floor/announcement.ts';
import type { ReplayStep } from '../../src/engine/replay.ts';
import type { Floor, Held } from '../../src/turns/floor/floor.ts';
import { splitText, postTextsOf } from '../../src/turns/text/split.ts';
import type { WatchedStore } from './store.ts';
import { announcementText } from '../../src/turns/text/announcement-values.ts';
import type { Cast } from './cast.ts';
import type { Platform, Posted } from './platform.ts';
import { must } from './violation.ts';
import { completeTexts } from '../../src/config/announcements.ts';

/** The data that the audit compares at the end of a seed. */
export type Books = {
  readonly store: WatchedStore;
  readonly db: Database.Database;
  readonly platform: Platform;
  readonly cast: Cast;
  readonly channels: readonly string[];
  readonly surfaced: ReadonlySet<string>;
  readonly textLimit: number;
};

type Row = {
  readonly id: string;
  readonly part: number;
  readonly text: string;
  readonly type: string;
  readonly state: string;
  readonly platform_id: string | null;
  /** Rows with the same key are about the same event: each later row edits the first post. */
  readonly key: string | null;
  /** The kind of the announcement; `null`: no announcement. */
  readonly kind: string | null;
};

/** Compares decisions, stored data and the platform's messages of a whole seed. */
export function audit(books: Books): void {
  const problems = books.store.verify();
  must('I16', problems.length === 0, () => problems.join('; '));
  for (const channel of books.store.floors.keys()) {
    const expected = readJournal(books, channel);
    const rows = rowsOf(books.db, channel);
    checkRows(channel, rows, expected);
    checkPosts(books, channel, rows);
    checkSeen(books, channel);
  }
  for (const channel of books.channels) checkMessages(books, channel);
}

/** Returns the texts that a journal has for posting, in order. Checks each fact on the way. */
function readJournal(books: Books, channel: string): readonly string[] {
  const { store, textLimit, cast } = books;
  const reader = new JournalReader(channel, textLimit, cast);
  let broken: unknown = null;
  const replayed = store.floors.replay(channel, (step) => {
    if (broken !== null) return;
    try {
      reader.read(step);
    } catch (error) {
      broken = error;
    }
  });
  if (broken instanceof Error) throw broken;
  const why = replayed.stoppedBy ?? 'it differs';
  must(
    'I16',
    replayed.equal && replayed.stoppedBy === null,
    () => `the journal of ${channel} does not fold to its floor: ${why}`,
  );
  must('I16', replayed.booked, () => `the ledger differs from the journal of ${channel}`);
  reader.checkContext();
  return reader.texts;
}

/** Text that people saw before a crash is part of the text that was said in that turn. */
function checkSeen({ store, platform }: Books, channel: string): void {
  const said = store.floors.journal(channel, Infinity).flatMap(({ fact }) => (fact.type === 'said' ? [fact] : []));
  for (const seen of platform.seen.filter((each) => each.channel === channel)) {
    const isSaid = said.some(
      ({ agent, epoch, text }) => agent === seen.agent && epoch === seen.epoch && text.startsWith(seen.text.trim()),
    );
    must(
      'I15',
      isSaid,
      () => `${seen.agent} #${seen.epoch} was seen to write "${seen.text}" in ${channel}, and it is gone`,
    );
  }
}

class JournalReader {
  readonly texts: string[] = [];
  readonly #channel: string;
  readonly #textLimit: number;
  readonly #cast: Cast;
  #epoch = 0;
  #lines = 0;
  #holder = '';
  /** By line: the author, or the id of the message. That agent, or an agent that saw the message, knows the line. */
  readonly #authors: string[] = [''];
  /** By agent: the line before its first prompt and the last line of its last prompt. */
  readonly #spans = new Map<string, { readonly after: number; upto: number }>();
  readonly #dropped = new Set<string>();

  constructor(channel: string, textLimit: number, cast: Cast) {
    this.#channel = channel;
    this.#textLimit = textLimit;
    this.#cast = cast;
  }

  read({ fact, state: floor, hashOk, seq }: ReplayStep<Floor, Fact>): void {
    const channel = this.#channel;
    must('I16', hashOk, () => `entry ${seq} of ${channel} does not continue its chain`);
    const line = 'line' in fact ? fact.line : null;
    if (line !== null) {
      must('I16', line === this.#lines + 1, () => `line ${line} of ${channel} after ${this.#lines}`);
      this.#lines = line;
      this.#authors[line] = 'agent' in fact ? fact.agent : 'id' in fact ? fact.id : '';
    }
    if (fact.type === 'turnGranted' || fact.type === 'turnResumed') this.#prompted(fact);
    if (fact.type === 'seatDropped') this.#dropped.add(fact.agent);
    if (fact.type === 'said') {
      const isHolder = this.#holder === `${fact.agent} #${fact.epoch}`;
      must(
        'I3',
        isHolder,
        () => `${fact.agent} #${fact.epoch} spoke in ${channel}, the floor was with ${this.#holder}`,
      );
      this.texts.push(...splitText(fact.text, this.#textLimit));
    }
    if (fact.type === 'turnEnded' && (fact.outcome === 'completed' || fact.outcome === 'passed')) {
      const unseen = fact.answered.filter((id) => !this.#cast.seenBy.has(`${id} ${fact.agent}`));
      must(
        'I8',
        unseen.length === 0,
        () => `${fact.agent} #${fact.epoch} answered ${unseen.join()} in ${channel} and never saw it`,
      );
    }
    this.texts.push(...announced(this.#channel, fact, this.#textLimit));
    const active = floor.seats.filter(({ status }) => status === 'ACTIVE');
    must('I1', active.length <= 1, () => `two seats of ${channel} are ACTIVE at entry ${seq}`);
  }

  /** Each agent was given every line up to its last prompt, sooner or later. */
  checkContext(): void {
    for (const [agent, { after, upto }] of this.#spans) {
      if (this.#dropped.has(agent)) continue;
      const key = `${this.#channel} ${agent}`;
      const given = this.#cast.lines.get(key) ?? new Set();
      const first = Math.max(after + 1, this.#cast.beginnings.get(key) ?? 0);
      for (let line = first; line <= upto; line += 1) {
        const author = this.#authors[line] ?? '';
        const isKnown = given.has(line) || author === agent || this.#cast.seenBy.has(`${author} ${agent}`);
        must(
          'I8',
          isKnown,
          () =>
            `${agent} was never given line ${line} of ${this.#channel}, by ${author}, and was prompted up to line ${upto}`,
        );
      }
    }
  }

  #prompted(fact: Extract<Fact, { type: 'turnGranted' | 'turnResumed' }>): void {
    const { agent, epoch, afterLine, uptoLine } = fact;
    must('I2', epoch > this.#epoch, () => `epoch ${epoch} of ${this.#channel} after ${this.#epoch}`);
    this.#epoch = epoch;
    this.#holder = `${agent} #${epoch}`;
    const span = this.#spans.get(agent) ?? { after: afterLine, upto: afterLine };
    if (this.#cast.prompted.has(`${this.#channel} ${epoch}`)) span.upto = Math.max(span.upto, uptoLine);
    this.#spans.set(agent, span);
  }
}

function announced(channel: string, fact: Fact, textLimit: number): readonly string[] {
  if (fact.type !== 'announced' || !fact.shown) return [];
  const words = (announcement: Announcement, _channel: string, repeat: number) =>
    announcementText(announcement, completeTexts({}), String, repeat);
  const effect = { ...fact, type: 'announce' } as const;
  return postTextsOf(channel, effect, { words, textLimit: () => textLimit }).texts.filter((text) => text !== null);
}

function rowsOf(db: Database.Database, channel: string): readonly Row[] {
  return db
    .prepare<[string], Row>(
      `SELECT id, part, text, type, state, platform_id, key, json_extract(effect, '$.announcement.kind') AS kind
       FROM outbox WHERE lane = 'posts' AND channel = ? ORDER BY n`,
    )
    .all(channel);
}

function checkRows(channel: string, rows: readonly Row[], expected: readonly string[]): void {
  must('I11', rows.length === expected.length, () => `${channel} owed ${expected.length} posts and has ${rows.length}`);
  for (const [index, row] of rows.entries()) {
    must(
      'I12',
      row.text === expected[index],
      () => `${row.id} of ${channel} is "${row.text}", not "${expected[index]}"`,
    );
    must(
      'I23',
      row.state === 'confirmed' || row.state === 'failed',
      () => `${row.id} of ${channel} is still ${row.state}`,
    );
  }
}

function checkPosts({ platform, surfaced }: Books, channel: string, rows: readonly Row[]): void {
  const shown = (platform.history.get(channel) ?? []).filter(({ post }) => post !== null);
  const byOutbox = new Map<string, Posted[]>();
  for (const posted of shown) {
    const id = posted.post?.outboxId ?? '';
    byOutbox.set(id, [...(byOutbox.get(id) ?? []), posted]);
  }
  const finalTexts = new Map<string, string>();
  const lastWords = new Set<string>();
  for (const row of rows) {
    const posts = byOutbox.get(row.id) ?? [];
    if (row.state === 'failed')
      must('I11', surfaced.has(row.id) && platform.refused.has(row.id), () => `${row.id} failed without a word`);
    if (row.state === 'confirmed') {
      const { platform_id: id } = row;
      must(
        'I11',
        id !== null && platform.byId.has(id),
        () => `${row.id} is confirmed as ${id}, which the platform does not have`,
      );
      must(
        'I11',
        posts.length > 0 || finalTexts.has(id),
        () => `${row.id} is confirmed and the platform shows nothing of it`,
      );
      for (const part of partsOver(rows, row)) finalTexts.set(part, 'Part of the question above, which is closed.');
      finalTexts.set(id, row.text);
      // The decision stays in the channel, even if its question was deleted before.
      if (endsQuestion(row)) lastWords.add(id);
    }
    must(
      'I11',
      posts.length <= 1 || posts.some(({ late }) => late),
      () => `${row.id} was posted ${posts.length} times`,
    );
    byOutbox.delete(row.id);
  }
  must('I11', byOutbox.size === 0, () => `${[...byOutbox.keys()].join()} was posted in ${channel} and never owed`);
  for (const [id, text] of finalTexts) {
    const found = platform.byId.get(id)?.text;
    const mayStay = platform.byId.get(id)?.deleted === true && !lastWords.has(id);
    must('I12', found === text || mayStay, () => `${id} of ${channel} shows "${found}", not "${text}"`);
  }
  // A request whose row was refused for good may still arrive, and Conch cannot know it.
  checkOrder(
    channel,
    shown.filter(({ post }) => !platform.refused.has(post?.outboxId ?? '')),
  );
}

function endsQuestion({ kind }: Row): boolean {
  return kind === 'answered' || kind === 'trustAnswered';
}

/** The messages after the first of a question that this row closes. */
function partsOver(rows: readonly Row[], row: Row): readonly string[] {
  if (!endsQuestion(row)) return [];
  const before = rows.slice(0, rows.indexOf(row));
  const first = before.findLastIndex(({ key, platform_id: id }) => key === row.key && id !== null);
  if (first === -1) return [];
  return before
    .slice(first + 1)
    .filter(({ part }, index) => part === index + 1)
    .flatMap(({ platform_id: id }) => (id === null ? [] : [id]));
}

function checkOrder(channel: string, shown: readonly Posted[]): void {
  const seen = new Set<string>();
  let last = { row: 0, place: -1 };
  let epoch = 0;
  for (const { post, late } of shown) {
    if (post === null || late || seen.has(post.outboxId)) continue;
    seen.add(post.outboxId);
    const [, row = 0, place = 0] = post.outboxId.split('-').map(Number);
    const isLater = row > last.row || (row === last.row && place > last.place);
    must('I12', isLater, () => `post ${post.outboxId} of ${channel} stands after one of row ${last.row}`);
    last = { row, place };
    if (post.epoch === null) continue;
    must('I3', post.epoch >= epoch, () => `a post of epoch ${post.epoch} stands after one of ${epoch} in ${channel}`);
    epoch = post.epoch;
  }
}

/**
 * True for a held message that may wait at rest: for the next exchange, or at a reached limit. A program's message does
 * not end a limit, and no message ends the limit of a day.
 */
export function mayStayHeld({ limit }: Pick<Floor, 'limit'>, { until, fromProgram, line }: Held): boolean {
  return until === 'next' || (limit !== null && (fromProgram === true || line !== null));
}

function checkMessages({ store, platform, cast }: Books, channel: string): void {
  const ids = new Set<string>();
  const floor = store.floors.state(channel);
  for (const { id, author, deleted, wordings, known, isKnownDeleted } of platform.history.get(channel) ?? []) {
    if (author === null) continue;
    const row = store.message(id);
    if (row === null) {
      must('I7', deleted, () => `${id} of ${channel} was never taken in`);
      continue;
    }
    must('I7', row.fate !== null, () => `${id} of ${channel} has no fate`);
    const held = floor?.held.find((message) => message.id === id);
    const isEnded =
      row.fate.state !== 'held' ||
      row.fate.until === 'next' ||
      (floor !== null && held !== undefined && mayStayHeld(floor, held));
    must('I7', isEnded, () => `${id} of ${channel} is still held`);
    const told = wordings.indexOf(row.text);
    // No agent is given any wording of a deleted message. A later edit changes nothing.
    must('I7', deleted || !row.deleted, () => `${id} of ${channel} is on record as deleted, and stands there`);
    must(
      'I7',
      row.deleted || told >= known,
      () => `${id} of ${channel} is on record as "${row.text}", which was replaced by "${wordings[known]}"`,
    );
    must('I7', row.deleted || !isKnownDeleted, () => `${id} of ${channel} was deleted, and is on record as if not`);
    must('I7', !ids.has(id), () => `${id} of ${channel} is there twice`);
    ids.add(id);
    const routes = store.why(id).flatMap(({ fact }) => (fact.type === 'messageRouted' ? [fact] : []));
    const lines = routes.filter(({ line }) => line !== null).length;
    const isDelivered = row.fate.state === 'delivered';
    must('I8', lines <= 1 && (!isDelivered || lines === 1), () => `${id} of ${channel} became ${lines} lines`);
    if (!isDelivered || row.deleted) continue;
    must(
      'I8',
      cast.seen.has(id),
      () => `${id} of ${channel} counts as delivered to ${JSON.stringify(row.fate)} and nobody ever saw it`,
    );
  }
}
