import { parseArgs } from 'node:util';
import { performTrial } from './trial.ts';
import type { Measured } from './trial.ts';

/** Scripted workers of all kinds, by ticket. */
const MISBEHAVIOUR = {
  't-01': 'prose',
  't-02': 'never commits',
  't-05': 'dies',
  't-07': 'unchanged',
  't-09': 'hangs',
  't-11': 'slow',
};

const { values } = parseArgs({
  options: { json: { type: 'boolean', default: false }, small: { type: 'boolean', default: false } },
});
const crews = values.small ? [4] : [1, 4, 10];
const rows: Measured[] = [];
for (const workers of crews) rows.push((await told(`${workers} workers`, { workers, testsMain: true })).measured);
const odd = (await told('4 workers that misbehave', { workers: 4, script: MISBEHAVIOUR, testsMain: true })).measured;
rows.push(odd);
const speed = values.small ? null : await ratio();
const pace = values.small ? null : await delays();
const wrong =
  rows.filter((row) => !isInOrder(row)).length +
  Number(speed !== null && speed > 0.45) +
  Number(pace !== null && (pace.p50 > 500 || pace.p95 > 2_000));
process.stdout.write(`${JSON.stringify({ rows, fourToOne: speed, doneToMerged: pace, wrong })}\n`);
process.exit(wrong === 0 ? 0 : 1);

async function told(name: string, order: Parameters<typeof performTrial>[0]) {
  const trial = await performTrial(order);
  if (!values.json) process.stdout.write(`${name}: ${JSON.stringify(trial.measured)}\n`);
  return trial;
}

function isInOrder(row: Measured): boolean {
  const zeros = [
    row.redCommitsOnMain,
    row.closedWithoutCommit,
    row.mergedButOpen,
    row.givenTwice,
    row.controlsStarted,
    row.startedBeforeDependency,
    row.canaryFound,
  ];
  return (
    row.onMainOnce === 12 &&
    zeros.every((count) => count === 0) &&
    row.copyChanged.length === 0 &&
    row.leftOver.length === 0
  );
}

/** Wall time of four workers divided by that of one, with steps of two seconds. */
async function ratio(): Promise<number> {
  const one = await told('1 worker, steps of 2 s', { workers: 1, stepMs: 2_000 });
  const four = await told('4 workers, steps of 2 s', { workers: 4, stepMs: 2_000 });
  return four.measured.wallMs / one.measured.wallMs;
}

/** From green tests to merged in a repository of 2,000 files, without tests. */
async function delays(): Promise<{ readonly p50: number; readonly p95: number }> {
  const { measured } = await told('1 worker, 2,000 files, no tests', { workers: 1, filler: 2_000, test: 'none' });
  const all = measured.doneToMergedMs;
  const at = (part: number): number => all[Math.min(all.length - 1, Math.floor(all.length * part))] ?? 0;
  return { p50: at(0.5), p95: at(0.95) };
}
