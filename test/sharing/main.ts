import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { openPostgresLog } from '../../src/engine/postgres/postgres-log.ts';
import { DEAD_MS } from '../../src/engine/shared/heart.ts';
import { openSharedStore } from '../../src/engine/shared/open-shared.ts';
import { SqliteStore } from '../../src/engine/sqlite/sqlite.ts';
import { board, boardUses, counter } from '../engine/toy.ts';
import { testServer } from '../engine/postgres/server.ts';
import { Random } from '../sim/random.ts';

/**
 * Kills and freezes processes that share a store in PostgreSQL, and kills the database, while they work. At the end,
 * compares the processes' answers and posts with the store. Prints one JSON object.
 */
const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    processes: { type: 'string', default: '3' },
    cycles: { type: 'string', default: '50' },
    seed: { type: 'string', default: '1' },
  },
});
const [processes, cycles] = [Number(values.processes), Number(values.cycles)];
const random = new Random(Number(values.seed));
const server = await testServer();
if (server === null) {
  process.stderr.write('There is no PostgreSQL here. Install it (apt-get install postgresql).\n');
  process.exit(2);
}
const schema = 'conch_kill';
const folder = mkdtempSync(join(tmpdir(), 'conch-scale-'));
const faults = { kill: 0, killTwo: 0, freeze: 0, killDatabase: 0 };
const faultsAt: number[] = [];
let started = 0;
let workers = await Promise.all(Array.from({ length: processes }, start));
for (let cycle = 0; cycle < cycles; cycle += 1) {
  await sleep(random.between(300, 1_500));
  const fault = random.weighted({ kill: 5, killTwo: 2, freeze: 4, killDatabase: 2 });
  faults[fault] += 1;
  faultsAt.push(Date.now());
  const count = fault === 'killTwo' ? 2 : 1;
  const hit = workers.toSorted(() => random.next() - 0.5).slice(0, count);
  switch (fault) {
    case 'kill':
    case 'killTwo':
      for (const worker of hit) worker.kill('SIGKILL');
      break;
    case 'freeze':
      for (const worker of hit) worker.kill('SIGSTOP');
      await sleep(random.between(1_000, 9_000));
      for (const worker of hit) worker.kill('SIGCONT');
      break;
    case 'killDatabase':
      await server.kill();
      await sleep(random.between(0, 4_000));
      await server.start();
      break;
  }
  await sleep(random.between(200, 1_500));
  workers = await Promise.all(workers.map(async (worker) => (hasEnded(worker) ? start() : worker)));
}
// The living processes declare the last killed ones dead, and deliver their pending entries.
await sleep(4 * DEAD_MS);
// Ends them one after the other: the last one delivers the entries of all earlier ones.
for (const worker of workers) {
  const ended = new Promise((resolve) => void worker.once('exit', resolve));
  if (!hasEnded(worker) && worker.kill('SIGTERM')) await ended;
}
const result = { cycles, faults, ...(await audit()) };
await server.stop();
process.stdout.write(`${JSON.stringify(result)}\n`);
const isClean = result.lost + result.twice + result.outOfOrder + result.unposted + result.problems.length === 0;
if (isClean) rmSync(folder, { recursive: true, force: true });
else process.stderr.write(`The notes of the processes are in ${folder}.\n`);
process.exit(isClean ? 0 : 1);

async function start(): Promise<ChildProcess> {
  started += 1;
  const file = join(import.meta.dirname, 'worker.ts');
  const args = [file, server?.url ?? '', schema, folder, String(started)];
  return spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** Compares answers and posts with the store. */
async function audit() {
  const log = await openPostgresLog({ url: server?.url ?? '', schema });
  const options = { path: ':memory:', clock: { now: () => Date.now() } };
  const store = await openSharedStore(options, log, (db, all) => new SqliteStore(db, all));
  const [counters, boards] = [store.host(counter), store.host(board, boardUses)];
  const answered = linesOf('answered').map((line) => line.split(' '));
  const stored = new Map<string, number>();
  const count = (what: string): void => void stored.set(what, (stored.get(what) ?? 0) + 1);
  for (const key of counters.keys())
    for (const { fact } of counters.newest(key)) if (fact.type === 'added') count(`added ${key} ${fact.by}`);
  const order = new Map<string, readonly string[]>();
  for (const channel of boards.keys()) {
    const texts = [...boards.newest(channel)].flatMap(({ fact }) => (fact.type === 'pinned' ? [fact.text] : []));
    order.set(channel, texts.toReversed());
    for (const text of texts) count(`pinned ${channel} ${text}`);
  }
  const done = answered
    .filter(([, , what]) => what === 'added' || what === 'pinned')
    .map((line) => line.slice(2).join(' '));
  const posted = Map.groupBy(
    linesOf('posted').map((line) => line.split(' ')),
    ([, channel = '']) => channel,
  );
  let [outOfOrder, unposted, postedTwice] = [0, 0, 0];
  for (const [channel, texts] of order) {
    const shown = (posted.get(channel) ?? []).map(([, , text = '']) => text);
    postedTwice += shown.length - new Set(shown).size;
    unposted += texts.filter((text) => !shown.includes(text)).length;
    const once = [...new Set(shown)];
    outOfOrder += once.filter((text, at) => at > 0 && texts.indexOf(text) < texts.indexOf(once[at - 1] ?? '')).length;
  }
  const problems = store.verify();
  await store.close();
  return {
    answered: done.length,
    posted: linesOf('posted').length,
    lost: done.filter((each) => !stored.has(each)).length,
    twice: [...stored.values()].filter((times) => times > 1).length + postedTwice,
    outOfOrder,
    unposted,
    problems,
    died: answered.filter(([, , what]) => what === 'died').length,
    goingOnMsP99: goingOn(answered.map(([at]) => Number(at))),
  };
}

/** The 99th percentile of the time from a fault to the next answer of any process, in milliseconds. */
function goingOn(instants: readonly number[]): number {
  const sorted = instants.toSorted((a, b) => a - b);
  const waits = faultsAt
    .map((at) => (sorted.find((each) => each > at + 50) ?? Infinity) - at)
    .toSorted((a, b) => a - b);
  return waits[Math.min(waits.length - 1, Math.floor(waits.length * 0.99))] ?? 0;
}

function linesOf(name: string): readonly string[] {
  try {
    return readFileSync(join(folder, name), 'utf8')
      .split('\n')
      .filter((line) => line !== '');
  } catch {
    return [];
  }
}
