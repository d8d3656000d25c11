import { appendFileSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Delivery } from '../../src/engine/outbox-delivery.ts';
import { openPostgresLog } from '../../src/engine/postgres/postgres-log.ts';
import { Heart } from '../../src/engine/shared/heart.ts';
import { openSharedStore } from '../../src/engine/shared/open-shared.ts';
import { SqliteStore } from '../../src/engine/sqlite/sqlite.ts';
import { systemClock, systemTimers } from '../../src/lib/time.ts';
import { board, boardUses, counter } from '../engine/toy.ts';

// A process of the kill loop: counts, pins and posts on a shared store until it is told to end. Writes answers and
// posts into files. Arguments: url, schema, folder, number of this process.

const [url = '', schema = '', folder = '', own = ''] = process.argv.slice(2);
const log = await openPostgresLog({ url, schema });
const clock = systemClock();
const options = { path: ':memory:', clock, lost: (error: Error) => die(error.message) };
const store = await openSharedStore(options, log, (db, all) => new SqliteStore(db, all));
const [counters, boards] = [store.host(counter), store.host(board, boardUses)];
const heart = new Heart({
  log,
  worker: store.owner,
  clock,
  timers: systemTimers,
  onBeat: () => void takeOver(),
  onBuried: () => die('buried'),
  onMissed: () => undefined,
  onSilent: () => undefined,
});
const delivery = new Delivery({
  store,
  clock,
  timers: systemTimers,
  failed: () => undefined,
  broken: (error) => die(String(error)),
  async carry({ id, channel, text, uncertain, attempts }) {
    if (text === null) return { state: 'confirmed', platformId: null };
    const again = { state: 'uncertain', notBefore: clock.now() + 1_000 } as const;
    if (uncertain && attempts < 2) return again;
    if (uncertain && posted().some((line) => line.startsWith(`${id} `))) return { state: 'confirmed', platformId: id };
    if (!heart.mayAct) return { state: 'retry', notBefore: clock.now() + 500 };
    appendFileSync(`${folder}/posted`, `${id} ${channel} ${text}\n`);
    return { state: 'confirmed', platformId: id };
  },
});
counters.onChange(() => delivery.kick());
boards.onChange(() => delivery.kick());
await store.recover();
delivery.start();
note('ready');
const state = { isRunning: true };
process.on('SIGTERM', () => {
  state.isRunning = false;
});
await Promise.all(Array.from({ length: 8 }, (_, hand) => work(hand))).catch((error: unknown) => die(String(error)));
await untilAllPosted();
await delivery.stop();
heart.stop();
await store.close();
process.exit(0);

/** Delivers all pending entries, including those of dead processes, within a minute. */
async function untilAllPosted(): Promise<void> {
  for (let round = 0; round < 120; round += 1) {
    await takeOver();
    await delivery.drain(1_000);
    const { next } = await store.owed(0, clock.now());
    if (next === null) return;
    await sleep(500);
  }
}

/** Takes over the entries of dead processes. */
async function takeOver(): Promise<void> {
  try {
    await store.recover();
    delivery.kick();
  } catch (error) {
    if (state.isRunning) die(String(error));
  }
}

/** Counts and pins with numbers that no other process uses, and records the answers. */
async function work(hand: number): Promise<void> {
  for (let count = 0; state.isRunning; count += 1) {
    const by = (Number(own) * 8 + hand) * 1_000_000 + count + 1;
    const key = `k${(by * 7) % 20}`;
    const channel = `test:${(by * 3) % 10}`;
    await counters.apply(key, { type: 'add', by }, clock.now());
    note(`added ${key} ${by}`);
    await boards.apply(channel, { type: 'pin', text: String(by) }, clock.now());
    note(`pinned ${channel} ${by}`);
    await sleep(20);
  }
}

function note(line: string): void {
  appendFileSync(`${folder}/answered`, `${Date.now()} ${own} ${line}\n`);
}

function posted(): readonly string[] {
  try {
    return readFileSync(`${folder}/posted`, 'utf8').split('\n');
  } catch {
    return [];
  }
}

function die(why: string): never {
  note(`died ${why}`);
  process.exit(3);
}
