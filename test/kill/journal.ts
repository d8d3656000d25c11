import Database from 'better-sqlite3';
import type { Fact } from '../../src/turns/floor/fact.ts';
import { openFloorStore } from '../../src/turns/floor-store.ts';
import type { FloorStore } from '../../src/turns/floor-store.ts';
import type { FloorView } from '../../src/turns/view.ts';
import { systemClock } from '../../src/lib/time.ts';

/** The faults found in journals, as sentences. */
export type JournalFaults = { readonly doubleHolders: string[]; readonly other: string[] };

/** Folds each journal of an ended program, compares it with the stored floor, and returns the facts by channel. */
export async function readFacts(path: string, faults: JournalFaults): Promise<ReadonlyMap<string, readonly Fact[]>> {
  const clock = systemClock();
  const store = openFloorStore({
    path,
    clock,
    textLimit: () => Number.MAX_SAFE_INTEGER,
    words: () => null,
  });
  try {
    faults.other.push(...store.verify());
    return new Map(store.floors.keys().map((channel) => [channel, replay(store, channel, faults)]));
  } finally {
    await store.close();
  }
}

/** True for a final fate in the inbox. The fate "held until the next turn" is final at rest. */
export function isTerminal(fate: string | null): boolean {
  if (fate === null) return false;
  const { state, until } = JSON.parse(fate) as { readonly state: string; readonly until?: string };
  return state === 'delivered' || state === 'unrouted' || state === 'ignored' || (state === 'held' && until === 'next');
}

/** True when a page shows a floor at rest, which holds messages only for the next turn. */
export function isResting(view: FloorView | null | undefined, database: string): boolean {
  if (view?.condition !== 'resting') return false;
  const ids = view.held.map((id) => `'${id}'`).join();
  const held = ids === '' ? [] : rows(database, `SELECT fate FROM inbox WHERE id IN (${ids})`);
  return held.every((row) => isTerminal((row as { readonly fate: string | null }).fate));
}

/** Returns the texts without those in `others`, each removed as often as `others` has it. */
export function without(texts: readonly string[], others: readonly string[]): readonly string[] {
  const left = new Map<string, number>();
  for (const text of others) left.set(text, (left.get(text) ?? 0) + 1);
  return texts.filter((text) => {
    const count = left.get(text) ?? 0;
    left.set(text, count - 1);
    return count <= 0;
  });
}

/** Returns the rows of a database query. */
export function rows(path: string, sql: string): readonly unknown[] {
  const db = new Database(path);
  try {
    return db.prepare(sql).all();
  } finally {
    db.close();
  }
}

/** Returns the beginning of a text in quotes. */
export function brief(text: string): string {
  return JSON.stringify(text.length > 90 ? `${text.slice(0, 90)}…` : text);
}

function replay(store: FloorStore, channel: string, faults: JournalFaults): readonly Fact[] {
  const facts: Fact[] = [];
  const holders = new Map<number, string>();
  const found = store.floors.replay(channel, ({ seq, fact, state: floor }) => {
    facts.push(fact);
    const active = floor.seats.filter((seat) => seat.status === 'ACTIVE').map((seat) => seat.agent);
    if (active.length > 1) faults.doubleHolders.push(`${channel}, entry ${seq}: ${active.join(' and ')} are ACTIVE`);
    if (fact.type === 'reported' && floor.turn !== null)
      faults.other.push(`${channel}, entry ${seq}: a report in the middle of the turn of ${floor.turn.agent}`);
    if (fact.type !== 'turnGranted' && fact.type !== 'turnResumed') return;
    const known = holders.get(fact.epoch) ?? fact.agent;
    if (known !== fact.agent)
      faults.doubleHolders.push(`${channel}: epoch ${fact.epoch} was given to ${known} and ${fact.agent}`);
    holders.set(fact.epoch, fact.agent);
  });
  const { brokenAt, stoppedBy, equal, booked } = found;
  if (brokenAt !== null || stoppedBy !== null || !equal || !booked)
    faults.other.push(`the journal of ${channel} is not its floor: ${JSON.stringify(found)}`);
  return facts;
}
