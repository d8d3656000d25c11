import { parseArgs } from 'node:util';
import { runAll } from './run-all.ts';
import { shorter } from './shorter.ts';
import { SITUATIONS } from './situations.ts';
import type { Outcome } from './world.ts';

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    events: { type: 'string', default: '2000' },
    seed: { type: 'string' },
    workers: { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
  },
});

/** The number of events from which an unmet situation counts as a failure of the simulation. */
const ENOUGH = 500_000;
/** The number of violations that are shown in full. */
const MOST_REPORTS = 5;

const count = Number(values.seeds ?? (values.seed === undefined ? 20 : 1));
const first = values.seed === undefined ? 1 : Number(values.seed);
const events = Number(values.events);
const print = (line: string): void => void process.stderr.write(`${line}\n`);

const outcomes = await runAll({
  seeds: Array.from({ length: count }, (_, index) => first + index),
  events,
  workers: Math.min(count, Number(values.workers)),
  done: () => {},
});
for (const outcome of outcomes.filter(({ broken }) => broken !== null).slice(0, MOST_REPORTS)) {
  const shortest = await shorter(outcome, events);
  report(shortest.outcome, shortest.events);
}
const counts = new Map<string, number>(SITUATIONS.map((situation) => [situation, 0]));
for (const outcome of outcomes) {
  for (const [situation, met] of outcome.counts) counts.set(situation, (counts.get(situation) ?? 0) + met);
}
const violations = outcomes.filter(({ broken }) => broken !== null).length;
/** Seeds with a message that was done without a completed generation that had it in its prompt. */
const doneUnseen = outcomes.filter(({ broken }) => broken?.rule === 'I25').length;
const total = outcomes.reduce((sum, outcome) => sum + outcome.events, 0);
const unreached = [...counts].filter(([, met]) => met === 0).map(([situation]) => situation);
if (!values.json && violations === 0)
  for (const [situation, met] of counts) print(`${String(met).padStart(8)}  ${situation}`);
const repeats = outcomes.reduce((sum, outcome) => sum + outcome.repeats, 0);
print(`${outcomes.length} seeds, ${total} events, ${violations} violations, ${repeats} conceded repeats of posts`);
if (unreached.length > 0 && violations === 0) print(`not met: ${unreached.join('; ')}`);
const result = {
  seeds: outcomes.length,
  events: total,
  violations,
  doneUnseen,
  situations: counts.size - unreached.length,
  unreached,
};
process.stdout.write(`${JSON.stringify(result)}\n`);
process.exitCode = violations > 0 || (total >= ENOUGH && unreached.length > 0) ? 1 : 0;

function report({ seed, broken }: Outcome, wanted: number): void {
  if (broken === null) return;
  for (const line of broken.trail) print(line);
  print(`seed ${seed}, event ${broken.event}: ${broken.rule} is violated: ${broken.text}`);
  print(`again: node test/sim/main.ts --seed ${seed} --events ${wanted}`);
  print('');
}
