import { parseArgs } from 'node:util';
import { performTrial } from './trial.ts';

/**
 * Kills the program after facts of a recorded run, one repetition each, and compares the tree of main. By default after
 * every fact; `--every n`: after every n-th; `--from` and `--to`: after facts with these numbers only.
 */
const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    every: { type: 'string', default: '1' },
    from: { type: 'string', default: '1' },
    to: { type: 'string', default: 'Infinity' },
  },
});
const recorded = await performTrial({ workers: 2 });
const [every, from, to] = [Number(values.every), Number(values.from), Number(values.to)];
const result = { recorded: recorded.facts, facts: 0, sameTree: 0, editsTwice: 0, leftovers: 0, broken: 0 };
for (let killAt = from; killAt < Math.min(to + 1, recorded.facts); killAt += every) {
  result.facts += 1;
  try {
    const { measured } = await performTrial({ workers: 2, kills: [killAt] });
    result.sameTree += Number(measured.tree === recorded.measured.tree);
    result.editsTwice += 12 - measured.onMainOnce;
    result.leftovers += measured.leftOver.length;
    const isWrong =
      measured.tree !== recorded.measured.tree ||
      measured.onMainOnce !== 12 ||
      measured.leftOver.length > 0 ||
      measured.copyChanged.length > 0;
    if (isWrong || !values.json) process.stdout.write(`killed at ${killAt}: ${JSON.stringify(measured)}\n`);
  } catch (error) {
    result.broken += 1;
    process.stdout.write(`killed at ${killAt}: ${String(error).slice(0, 2_000)}\n`);
  }
}
process.stdout.write(`${JSON.stringify(result)}\n`);
const isClean = result.editsTwice === 0 && result.leftovers === 0 && result.broken === 0;
process.exit(isClean && result.sameTree === result.facts ? 0 : 1);
