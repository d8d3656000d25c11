import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MID_TURN, report, write } from './report.ts';
import { one } from './one.ts';
import { measureScale } from './scale.ts';
import type { Row } from './report.ts';

/** A package of the contestants. When it is missing, the report has no figures of contestants. */
const CONTESTANTS = fileURLToPath(new URL('node_modules/xstate', import.meta.url));

const SIZES = [1, 100, 1_000];
const ROUNDS = 2;
const REVIEW_ROUNDS = 3;
/**
 * The time of the warm-up and of the measurement, in milliseconds. One second would be too short: one process takes both
 * kinds of hand-over in turn, so each kind runs only some hundred times in it, and its code is still being compiled.
 */
const REVIEW_SPAN = [4_000, 4_000] as const;
const PEERS = ['langgraph', 'xstate'];
const ASIDE = ['xstate-groups', 'chat-sdk'];
const KNOWN = 20_000;

const isJson = process.argv.includes('--json');
/** Measures more rounds, and sizes that take longer than a few minutes. */
const isWhole = process.argv.includes('--whole');
const rounds = isWhole ? 2 * ROUNDS : ROUNDS;
const hasContestants = existsSync(CONTESTANTS);
if (process.argv.includes('--scale')) {
  process.stdout.write(`${JSON.stringify(await measureScale())}\n`);
  process.exit();
}
const folder = mkdtempSync(join(tmpdir(), 'conch-bench-'));
try {
  const rows = [
    ...(await handOvers()),
    ...(await inbound()),
    ...(await reviews()),
    ...(await others()),
    ...(await standing()),
  ];
  const told = report(rows);
  if (process.argv.includes('--write')) write(told);
  process.stdout.write(`${isJson ? '' : told.table}\n${JSON.stringify(told.figures)}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Measures all contestants in turn, `rounds` times, so that a disturbance of the machine affects all of them alike. */
async function handOvers(): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const size of SIZES) {
    const peers = hasContestants ? PEERS : [];
    const all = ['limit', 'conch', 'app', ...peers, ...(size === 1 ? ['core'] : [])];
    for (let round = 0; round < rounds; round += 1) for (const what of all) rows.push(await one({ what, size, round }));
    for (const what of hasContestants ? ASIDE : []) rows.push(await one({ what, size, round: 0 }));
    rows.push(await one({ what: 'work', size, round: 0 }));
  }
  return rows;
}

async function inbound(): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (let round = 0; round < rounds; round += 1)
    for (const what of ['inbound-limit', 'inbound', 'inbound-limit-paced', 'inbound-paced'])
      rows.push(await one({ what, size: 1_000, round }));
  return rows;
}

/** Hand-overs inside and outside an open review. Each run measures both in turn. */
async function reviews(): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (let round = 0; round < REVIEW_ROUNDS; round += 1)
    for (const what of ['review', 'review-app']) rows.push(await one({ what, size: 1, round, span: REVIEW_SPAN }));
  return rows;
}

async function others(): Promise<readonly Row[]> {
  const most = isWhole ? 1_000_000 : 100_000;
  return [
    await one({ what: 'first-text', size: 1, round: 0 }),
    await one({ what: 'deadlines', size: 10_000, round: 0 }),
    await one({ what: 'slow-disk', size: 1, round: 0 }),
    await one({ what: 'slow-disk', size: 100, round: 0 }),
    await one({ what: 'fan-in', size: 50, round: 0 }),
    await one({ what: 'growth', size: most, round: 0 }),
  ];
}

/** Starts the program on files with many and with few channels at rest. The difference is the cost of the channels. */
async function standing(): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const known of [MID_TURN, isWhole ? 5 * KNOWN : KNOWN]) {
    const kept = join(folder, `${known}.db`);
    rows.push(await one({ what: 'make', size: known, round: 0, span: [MID_TURN, 0], kept }));
    for (let round = 0; round < ROUNDS; round += 1) {
      rows.push(await one({ what: 'bare-open', size: known, round, kept }));
      rows.push(await one({ what: 'standing', size: known, round, kept }));
    }
  }
  return rows;
}
