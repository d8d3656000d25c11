import { existsSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { copied } from '../engine/sqlite/backup.ts';
import { formerFiles } from '../engine/sqlite/open.ts';
import { ERASED_TEXT } from '../engine/reading.ts';
import { eraseDecider } from '../agents/trust/trust-book.ts';
import type { AlsoErased, Erased, Erasure, Pruned, TextStretch } from '../engine/port.ts';
import { errorMessage } from '../lib/defined.ts';
import type { Clock, Instant, Timer, Timers } from '../lib/time.ts';
import type { Answer } from '../turns/commands/context.ts';
import { floorMachine } from '../turns/floor-store.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import type { ChannelId, MessageId } from '../turns/floor/settings.ts';
import { IN_WORDS, factsAboutWork, turnsGivenMessages } from '../turns/requesters.ts';
import type { Fact } from '../turns/floor/fact.ts';
import type { RunFact } from '../work/runs/run-events.ts';
import { runOnFloor, seatOfRuns } from '../work/runs/floor-binding.ts';
import { runsBack } from '../work/runs/run-audit.ts';
import type { MaintenanceOrder } from '../adapters/console/server.ts';
import { BackgroundCheck } from './background-check.ts';
import { pruneReviews } from './channel-reviews.ts';
import { databaseIn } from './data-folder.ts';
import type { Log } from './log.ts';
import { NAMES } from './runs/runs.ts';
import { Threads } from './thread-registry.ts';

type MaintenanceParts = {
  readonly store: FloorStore;
  readonly config: () => Config;
  readonly clock: Clock;
};

const DAY_MS = 86_400_000;

/** Delay of the first pruning after a start, in milliseconds, so that it does not slow the start down. */
const FIRST_MS = 60_000;

/** Executes a maintenance command of the command line. An error becomes the text of a refusal. */
export async function carryOut(order: MaintenanceOrder, parts: MaintenanceParts): Promise<Answer> {
  try {
    return { ok: true, text: await perform(order, parts) };
  } catch (error) {
    return { ok: false, text: errorMessage(error) };
  }
}

/** Maintenance of the database while Conch runs: a check of the whole file, and pruning once a day. */
export class Maintenance {
  readonly #parts: MaintenanceParts & { readonly timers: Timers; readonly log: Log };
  readonly #check: BackgroundCheck;
  #timer: Timer | null = null;
  #isOver = false;

  constructor(parts: MaintenanceParts & { readonly timers: Timers; readonly log: Log }) {
    this.#parts = parts;
    this.#check = new BackgroundCheck({ ...parts, path: databaseIn(parts.config()) });
  }

  /** The state of the database: `degraded` when the last check found damage. */
  get state(): 'ok' | 'degraded' {
    return this.#check.isDamaged ? 'degraded' : 'ok';
  }

  start(): void {
    this.#check.start();
    this.#after(FIRST_MS);
  }

  stop(): void {
    this.#isOver = true;
    this.#timer?.cancel();
    this.#check.stop();
  }

  #after(ms: number): void {
    if (!this.#isOver) this.#timer = this.#parts.timers.after(ms, () => void this.#prune());
  }

  async #prune(): Promise<void> {
    const { log } = this.#parts;
    try {
      const failed = (error: unknown): void =>
        log.warn({ err: error }, 'the stored work of old reviews could not be deleted');
      const pruned = await pruneAll({ ...this.#parts, failed }, false);
      if (isSome(pruned)) log.info({ ...pruned }, 'pruned old data');
    } catch (error) {
      if (!this.#isOver) log.warn({ err: error }, 'old data could not be pruned');
    }
    this.#after(DAY_MS);
  }
}

async function perform(order: MaintenanceOrder, parts: MaintenanceParts): Promise<string> {
  const { store } = parts;
  switch (order.act) {
    case 'backup':
      await store.backupTo(order.file);
      return copied(order.file);
    case 'prune':
      return prunedText(await pruneAll({ ...parts, failed: rethrow }, order.isDryRun), order.isDryRun);
    case 'erase':
      return erase(order, parts);
  }
}

/** Counts of pruned entries; in a dry run, of entries to prune. `reviews`: reviews whose stored work is pruned. */
type AllPruned = Pruned & { readonly reviews: number };

/**
 * Prunes old data, and the stored work of old reviews. `failed`: called with the error when work in a repository was
 * not pruned.
 */
async function pruneAll(
  { failed, ...parts }: MaintenanceParts & { readonly failed: (error: unknown) => void },
  isDryRun: boolean,
): Promise<AllPruned> {
  const since = retentionStart(parts);
  const pruned = await parts.store.prune(since, isDryRun);
  const at = { store: parts.store, config: parts.config(), failed };
  return { ...pruned, reviews: await pruneReviews(at, since, isDryRun) };
}

function isSome({ entries, messages, posts, reviews }: AllPruned): boolean {
  return entries + messages + posts + reviews > 0;
}

function rethrow(error: unknown): never {
  throw error;
}

async function erase(order: Erasure, { store, config }: MaintenanceParts): Promise<string> {
  const also = await alsoErased(order, store);
  const isPerson = order.what === 'person';
  if (isPerson) await store.keyValues.forget(NAMES, order.id);
  const trustDecisions = isPerson ? await eraseDecider(store.keyValues, order.id) : 0;
  const counts = await store.erase(order, also);
  return erasedText(order.id, { ...counts, acts: counts.acts + trustDecisions }, copiesIn(config()));
}

/**
 * Returns what else to erase with a person's texts or a message: runs that the person requested, and runs of turns that
 * were given the message or a message of the person; facts of floors about these runs; texts about the person.
 */
async function alsoErased(erasure: Erasure, store: FloorStore): Promise<AlsoErased> {
  const { what, id } = erasure;
  const person = what === 'person' ? new Traces(id, store.keyValues.recall(NAMES, id)) : null;
  const isMeant = (message: MessageId): boolean => {
    if (person === null) return message === id;
    const author = store.message(message)?.author;
    return author?.id === id && person.isCalled(author.name);
  };
  const turns = new Map<ChannelId, ReadonlySet<string>>();
  const channels = person === null ? [store.message(id)?.channel ?? ''] : store.floors.keys();
  for (const channel of channels) {
    turns.set(channel, turnsGivenMessages(noted(store.floors.newest(channel), person), isMeant));
    await store.tables.write(() => undefined);
  }
  const stretches: TextStretch[] = [];
  const worked = new Map<ChannelId, Set<string>>();
  for (const [key, newest] of store.journals(runOnFloor)) {
    const { channel, agent, isBackground } = seatOfRuns(key);
    const givenTurns = isBackground === true ? undefined : turns.get(channel);
    for (const run of runsBack(noted(newest, person))) {
      const isTheirs = person !== null && run.requestedBy === id;
      if (!isTheirs && !run.sessions.some((each) => givenTurns?.has(`${agent} ${each}`) === true)) continue;
      const [from, upto] = [run.entries.at(-1)?.seq ?? 0, run.entries[0]?.seq ?? 0];
      stretches.push({ machine: runOnFloor.name, key, from, upto });
      const instants = worked.get(channel) ?? new Set();
      for (const { at } of run.entries) instants.add(`${agent} ${at}`);
      worked.set(channel, instants);
    }
    await store.tables.write(() => undefined);
  }
  for (const [key, instants] of worked) {
    const seqs = factsAboutWork(store.floors.newest(key), (agent, at) => instants.has(`${agent} ${at}`));
    stretches.push(...seqs.map((seq) => ({ machine: floorMachine.name, key, from: seq, upto: seq })));
    await store.tables.write(() => undefined);
  }
  return { stretches, isTheirs: (text, type) => person?.has(text, type) === true };
}

function* noted<Entry extends { readonly fact: Fact | RunFact }>(
  newest: Iterable<Entry>,
  person: Traces | null,
): Generator<Entry> {
  for (const entry of newest) {
    person?.note(entry.fact);
    yield entry;
  }
}

/** Names of a person, and texts of the person's decisions. */
class Traces {
  readonly #id: string;
  readonly #names = new Set<string>();
  readonly #decisionTexts = new Set<string>();

  constructor(id: string, name: string | null) {
    this.#id = id;
    if (name !== null) this.#names.add(name);
  }

  /**
   * Adds a name of the person to those that `has` finds in texts. Ignores the replacement text of an erased name.
   * Returns true, so that a condition can call it.
   */
  isCalled(name: string): true {
    if (name !== ERASED_TEXT) this.#names.add(name);
    return true;
  }

  note(fact: Fact | RunFact): void {
    const { by = null } = 'by' in fact ? fact : fact.type === 'grantUsed' ? (fact.said ?? {}) : {};
    if (by !== this.#id) return;
    for (const text of decisionTextsIn(fact)) if (text !== null && text !== '') this.#decisionTexts.add(text);
  }

  /** Whether a text of a fact is about the person. Texts of agents are not, whatever they mention. */
  has(text: string, type: string): boolean {
    if (SPEECH.has(type)) return false;
    // The text may be a list of names or ids, with commas. A name may have a comma, too.
    if (
      [text, ...text.split(', ')].some((each) => each === this.#id || this.#names.has(each)) ||
      this.#decisionTexts.has(text)
    )
      return true;
    return [...this.#names].some((name) => Object.values(IN_WORDS).some((words) => text.includes(words(name))));
  }
}

const SPEECH: ReadonlySet<string> = new Set([
  'said',
  'reported',
  'asideEnded',
  'actRefused',
  'stepped',
  'stepKept',
  'callSettled',
]);

function decisionTextsIn(fact: Fact | RunFact): readonly (string | null)[] {
  switch (fact.type) {
    case 'questionClosed':
    case 'asideAnswered':
      return [fact.reason ?? null];
    case 'approvalClosed':
      return [fact.reason];
    case 'resumed':
      return [fact.feedback, fact.input];
    case 'aborted':
      return [fact.reason, `was aborted: ${fact.reason}`];
    case 'grantUsed':
      return [fact.said?.reason ?? null];
    default:
      return [];
  }
}

/** The instant since which a channel's messages are kept; `null`: all. A thread has the retention of its channel. */
function retentionStart({ store, config, clock }: MaintenanceParts): (channel: ChannelId) => Instant | null {
  const now = clock.now();
  const threads = new Threads(store);
  threads.load();
  const { channels, retention } = config();
  const settings = new Map(channels.map((channel) => [channel.id, channel.retention]));
  return (channel) => {
    const own = settings.get(channel) ?? settings.get(threads.parentOf(channel) ?? '');
    const { days } = own ?? retention;
    return days === null ? null : now - days * DAY_MS;
  };
}

function prunedText(pruned: AllPruned, isDryRun: boolean): string {
  const { entries, messages, posts, calls, configs, reviews } = pruned;
  const counts = `${entries} entries of journals (${calls} of them in the ledger), ${messages} messages, ${posts} posts, ${configs} configurations and the stored work of ${reviews} reviews`;
  if (!isSome(pruned))
    return 'Nothing is older than the configuration keeps it (retention.days, for all or per channel).';
  return isDryRun ? `Would delete ${counts}. Nothing was deleted.` : `Deleted ${counts}.`;
}

/** Copies of the database that `conch restore`, `conch move` and updates of Conch left in the data folder. */
function copiesIn({ dataDir, store }: Config): readonly string[] {
  const file = databaseIn({ dataDir });
  const moved = store !== undefined && existsSync(file) ? [file] : [];
  return [...moved, ...formerFiles(file)];
}

function erasedText(id: string, { messages, posts, acts }: Erased, copies: readonly string[]): string {
  if (messages + posts + acts === 0) return `Nothing of ${id} is on record.`;
  return (
    `Erased the texts of ${messages} messages, ${posts} posts and ${acts} records of agents' work. Earlier backups, Discord, Slack, agents' own memories and quotations still have them.` +
    (copies.length === 0 ? '' : ` So do these former databases, until you delete them: ${copies.join(', ')}.`)
  );
}
