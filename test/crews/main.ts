import { parseArgs } from 'node:util';
import { keepCompiled } from '../lib/compiled.ts';
import { MISBEHAVIOUR, MISBEHAVIOUR_OF_PEERS } from './courses.ts';
import type { Measured } from './measure.ts';
import { TICKETS } from '../../examples/crew/repository.ts';
import { measureRoom } from './rooms.ts';
import type { RoomFigures } from './rooms.ts';
import { performSelfTrial } from './self.ts';
import { performTrial } from './trial.ts';
import type { TrialOrder } from './trial.ts';

/** Measures that must be 0. */
const ZEROS = [
  'redCommitsOnMain',
  'closedWithoutCommit',
  'mergedButOpen',
  'givenTwice',
  'controlsStarted',
  'startedBeforeDependency',
  'canaryFound',
  'redAlone',
] as const;
/** Measures that must be empty. */
const EMPTY = ['copyChanged', 'leftOver', 'wrongCourses'] as const;

/**
 * Lets crews of scripted workers work through the demonstration repository, and measures the rows of the
 * specification's table. `--small`: one crew only. `--rooms`: counts messages and edits of cards on Discord, Slack and
 * the console. `--self`: two workers change a clone of Conch itself, with its tests. The last line is one JSON object;
 * `wrong` lists each measure over its limit.
 */
keepCompiled();
const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    small: { type: 'boolean', default: false },
    self: { type: 'boolean', default: false },
    rooms: { type: 'boolean', default: false },
  },
});
if (values.self) {
  const seen = await performSelfTrial();
  process.stdout.write(`${JSON.stringify(seen)}\n`);
  process.exit(seen.merged === 2 && seen.leftOver.length === 0 ? 0 : 1);
}
if (values.rooms) {
  const tickets = Object.keys(TICKETS);
  const figures: RoomFigures[] = [];
  for (const room of ['discord', 'slack', 'console'] as const)
    for (const workers of [1, 4, 10]) figures.push(await measureRoom(room, { workers, tickets, stepMs: 3_000 }));
  const isWithin = figures.every(
    ({ mostMessages, closestEdits }) => mostMessages <= 4 && (closestEdits ?? 1e9) >= 10_000,
  );
  process.stdout.write(`${JSON.stringify({ figures, isWithin })}\n`);
  process.exit(isWithin ? 0 : 1);
}
const wrong: string[] = [];
const rows: Measured[] = [];
for (const workers of values.small ? [4] : [1, 4, 10]) await row(`${workers} workers`, { workers });
await row('4 programs that misbehave', { workers: 4, script: MISBEHAVIOUR });
if (!values.small) await row('4 ACP agents that misbehave', { workers: 4, kind: 'acp', script: MISBEHAVIOUR_OF_PEERS });
// With ten workers, every branch that can conflict begins at the same commit.
const ten = rows.find(({ workers }) => workers === 10);
if (ten !== undefined) within('conflict rounds and refusals', ten.conflictRounds === 3 && ten.refusals === 1);
const fourToOne = values.small ? null : await ratio();
const doneToMerged = values.small ? null : await delays();
if (fourToOne !== null) within('4 workers ÷ 1 worker', fourToOne <= 0.45);
if (doneToMerged !== null) within('DONE to merged', doneToMerged.p50 <= 500 && doneToMerged.p95 <= 2_000);
process.stdout.write(`${JSON.stringify({ rows, fourToOne, doneToMerged, wrong })}\n`);
process.exit(wrong.length === 0 ? 0 : 1);

function within(measure: string, isWithin: boolean): void {
  if (!isWithin) wrong.push(measure);
}

async function told(name: string, order: TrialOrder): Promise<Measured> {
  const { measured } = await performTrial(order);
  if (!values.json) process.stdout.write(`${name}: ${JSON.stringify(measured)}\n`);
  return measured;
}

async function row(name: string, order: TrialOrder): Promise<void> {
  const seen = await told(name, { ...order, testsMain: true });
  rows.push(seen);
  for (const measure of ZEROS) within(`${name}: ${measure}`, seen[measure] === 0);
  for (const measure of EMPTY) within(`${name}: ${measure} ${seen[measure].join(', ')}`, seen[measure].length === 0);
  within(`${name}: on main once`, seen.onMainOnce === seen.tickets);
  within(`${name}: kept refs`, seen.keptRefs === seen.dirtyTrees);
}

/** The time of four workers divided by the time of one, with steps of two seconds. */
async function ratio(): Promise<number> {
  const one = await told('1 worker, steps of 2 s', { workers: 1, stepMs: 2_000 });
  const four = await told('4 workers, steps of 2 s', { workers: 4, stepMs: 2_000 });
  return four.wallMs / one.wallMs;
}

/** Milliseconds from green tests to the merge in a repository of 2,000 files, without tests. */
async function delays(): Promise<{ readonly p50: number; readonly p95: number }> {
  const { doneToMergedMs: all } = await told('1 worker, 2,000 files', { workers: 1, filler: 2_000, test: 'none' });
  const at = (part: number): number => all[Math.min(all.length - 1, Math.floor(all.length * part))] ?? 0;
  return { p50: at(0.5), p95: at(0.95) };
}
