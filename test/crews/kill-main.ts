import { parseArgs } from 'node:util';
import { keepCompiled } from '../lib/compiled.ts';
import { performTrial } from './trial.ts';
import type { TrialOrder } from './trial.ts';

/**
 * Kills the program after facts of a recorded run, one repetition each, and compares the tree of main. The run has a
 * dependency, a conflict and a merged tree with red tests. `--all`: records all twelve tickets. `--people vote`,
 * `hold`: people make a ticket of a message, and vote for merges or hold them. `--people meeting`: two workers meet
 * about a conflict. Kills after every fact. `--every n`: after every n-th fact. `--from`, `--to`: only after facts with
 * these numbers. `--jobs n`: n repetitions at a time.
 */
keepCompiled();
const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    all: { type: 'boolean', default: false },
    every: { type: 'string', default: '1' },
    from: { type: 'string', default: '1' },
    to: { type: 'string', default: 'Infinity' },
    jobs: { type: 'string', default: '1' },
    people: { type: 'string' },
  },
});
const SOME = ['t-01', 't-02', 't-05', 't-06', 't-07', 't-08'];
/** Cheaper than a test that imports every module, and red in the same cases. */
const CHECK = '! { grep -rq oldName src && grep -rq newName src; } && ! grep -rqE "^(<<<<<<<|>>>>>>>)" src';
const people = (['vote', 'hold', 'meeting'] as const).find((each) => each === values.people) ?? null;
const tickets = people === null ? SOME : people === 'meeting' ? ['t-05', 't-06'] : ['t-01', 't-05'];
const order: TrialOrder = { workers: 2, test: CHECK, people, ...(values.all ? {} : { tickets }) };
const recorded = await performTrial(order);
const [every, from, to] = [Number(values.every), Number(values.from), Number(values.to)];
const result = { facts: 0, sameTree: 0, editsTwice: 0, leftovers: 0 };
const last = Math.min(to, recorded.facts - 1);
let next = from;
await Promise.all(Array.from({ length: Number(values.jobs) }, repeat));
process.stdout.write(`${JSON.stringify(result)}\n`);
process.exit(result.sameTree === result.facts && result.editsTwice + result.leftovers === 0 ? 0 : 1);

/** Counts a repetition. Resolves with its faults as a text. Rejects when it has no end, and so no tree. */
async function killedAt(killAt: number): Promise<string> {
  const { measured, dataDir } = await performTrial({ ...order, kills: [killAt] });
  const { tree, sources, onMainOnce, tickets: all, leftOver, copyChanged, keptRefs, dirtyTrees, givenTwice } = measured;
  // The text of a ticket made of a message has a time, as does a meeting's note: compares only the sources.
  const isSame = people === null ? tree === recorded.measured.tree : sources === recorded.measured.sources;
  result.sameTree += Number(isSame);
  result.editsTwice += Math.abs(recorded.measured.tickets - onMainOnce) + all - onMainOnce;
  result.leftovers += leftOver.length;
  const isRight =
    isSame &&
    onMainOnce === all &&
    all === recorded.measured.tickets &&
    leftOver.length + copyChanged.length + givenTwice === 0;
  return isRight && keptRefs === dirtyTrees ? '' : `${dataDir} ${JSON.stringify(measured)}`;
}

/** Performs repetitions until none is left. */
async function repeat(): Promise<void> {
  while (next <= last) {
    const killAt = next;
    next += every;
    const problem = await killedAt(killAt).catch(
      (error: unknown) => `${String(error)} ${String((error as Error).cause)}`,
    );
    result.facts += 1;
    if (problem !== '') process.stdout.write(`killed at ${killAt} of ${recorded.facts}: ${problem.slice(0, 2_000)}\n`);
    else if (!values.json) process.stdout.write(`killed at ${killAt} of ${recorded.facts}: as recorded\n`);
  }
}
