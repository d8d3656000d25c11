import type { Config } from '../config/config.ts';
import { copied } from '../engine/sqlite/backup.ts';
import type { Erased, Erasure, Pruned, TextStretch } from '../engine/sqlite/retention.ts';
import type { Clock, Instant, Timer, Timers } from '../lib/time.ts';
import type { Answer } from '../turns/commands/context.ts';
import type { FloorStore } from '../turns/floor-store.ts';
import type { ChannelId, MessageId } from '../turns/floor/settings.ts';
import { turnsGiven } from '../turns/requesters.ts';
import { runOnFloor, seatOfRuns } from '../work/runs/floor-binding.ts';
import { stretchesOf } from '../work/runs/run-audit.ts';
import type { UpkeepOrder } from '../adapters/console/command-endpoint.ts';
import { BackgroundCheck } from './background-check.ts';
import { databaseIn } from './data-folder.ts';
import type { Log } from './log.ts';
import { Threads } from './thread-registry.ts';

/** What upkeep works on. */
export type UpkeepParts = {
  readonly store: FloorStore;
  readonly config: () => Config;
  readonly clock: Clock;
};

const DAY_MS = 86_400_000;

/** How long after the start what is old is taken away for the first time, so that a start has the machine to itself. */
const FIRST_MS = 60_000;

/** Does what the command line asks of the database; what went wrong is a refusal in words. */
export async function carryOut(order: UpkeepOrder, parts: UpkeepParts): Promise<Answer> {
  try {
    return { ok: true, text: await done(order, parts) };
  } catch (error) {
    return { ok: false, text: error instanceof Error ? error.message : String(error) };
  }
}

/** What is done for the database while Conch runs: it is checked as a whole, and what is old is taken away once a day. */
export class Upkeep {
  readonly #parts: UpkeepParts & { readonly timers: Timers; readonly log: Log };
  readonly #check: BackgroundCheck;
  #timer: Timer | null = null;
  #isOver = false;

  constructor(parts: UpkeepParts & { readonly timers: Timers; readonly log: Log }) {
    this.#parts = parts;
    this.#check = new BackgroundCheck({ ...parts, path: databaseIn(parts.config().dataDir) });
  }

  /** Whether the last check found something. */
  get isDamaged(): boolean {
    return this.#check.isDamaged;
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
    const { store, log } = this.#parts;
    try {
      const pruned = await store.prune(keptSince(this.#parts), false);
      if (pruned.entries + pruned.messages + pruned.posts > 0) log.info({ ...pruned }, 'what is old was taken away');
    } catch (error) {
      if (!this.#isOver) log.warn({ err: error }, 'what is old could not be taken away');
    }
    this.#after(DAY_MS);
  }
}

async function done(order: UpkeepOrder, parts: UpkeepParts): Promise<string> {
  const { store } = parts;
  switch (order.act) {
    case 'backup':
      await store.backupTo(order.file);
      return copied(order.file);
    case 'prune':
      return prunedText(await store.prune(keptSince(parts), order.isDryRun), order.isDryRun);
    case 'erase':
      return erasedText(order.id, await store.erase(order, await workFor(order, store)));
  }
}

/** What agents did with their tools for a person, or in a turn that was given a message: steps and outputs hold their words. */
async function workFor({ what, id }: Erasure, store: FloorStore): Promise<readonly TextStretch[]> {
  const isMeant = (message: MessageId): boolean =>
    what === 'message' ? message === id : store.message(message)?.author.id === id;
  const turns = new Map<ChannelId, ReadonlySet<string>>();
  const channels = what === 'person' ? store.channels() : [store.message(id)?.channel ?? ''];
  for (const channel of channels) {
    turns.set(channel, turnsGiven(store.newest(channel), isMeant));
    await store.tables.write(() => undefined);
  }
  const found: TextStretch[] = [];
  for (const [key, newest] of store.journals(runOnFloor)) {
    const { channel, agent, aside } = seatOfRuns(key);
    const given = aside === true ? undefined : turns.get(channel);
    const stretches = stretchesOf(
      newest,
      ({ requestedBy, sessions }) =>
        (what === 'person' && requestedBy === id) || sessions.some((each) => given?.has(`${agent} ${each}`) === true),
    );
    found.push(...stretches.map((stretch) => ({ machine: runOnFloor.name, key, ...stretch })));
    await store.tables.write(() => undefined);
  }
  return found;
}

/** The instant since which a channel's words are kept; `null`: all of them. A thread keeps them as its channel does. */
function keptSince({ store, config, clock }: UpkeepParts): (channel: ChannelId) => Instant | null {
  const now = clock.now();
  const threads = new Threads(store);
  threads.load();
  const { channels, retention } = threads.within(config());
  const days = new Map(channels.map((channel) => [channel.id, channel.retention.days]));
  return (channel) => {
    const kept = days.has(channel) ? days.get(channel) : retention.days;
    return kept === null || kept === undefined ? null : now - kept * DAY_MS;
  };
}

function prunedText({ entries, messages, posts, calls, configs }: Pruned, isDryRun: boolean): string {
  const what = `${entries} entries of journals (${calls} of them in the ledger), ${messages} messages, ${posts} posts and ${configs} configurations`;
  if (entries + messages + posts === 0)
    return 'Nothing is older than the configuration keeps it (retention.days, for all or per channel).';
  return isDryRun ? `${what} would be taken away. Nothing was.` : `${what} were taken away.`;
}

function erasedText(id: string, { messages, posts, acts }: Erased): string {
  if (messages + posts + acts === 0) return `Nothing of ${id} is on record.`;
  return (
    `The words of ${messages} messages and ${posts} posts were taken out, and of ${acts} entries about what agents did for them. Backups made before still hold them, as do ` +
    "Discord or Slack, agents' own memories, and what others quoted."
  );
}
