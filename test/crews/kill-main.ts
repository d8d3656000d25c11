import { parseArgs } from 'node:util';
import { performTrial } from './trial.ts';

/**
 * Kills the program after every fact of a recorded run, one repetition each, and compares the tree of main. `--every n`
 * kills at every n-th fact only.
 */
const { values } = parseArgs({ options: { json: { type: 'boolean' }, every: { type: 'string', default: '1' } } });
const recorded = await performTrial({ workers: 2 });
const every = Number(values.every);
const result = { facts: 0, sameTree: 0, editsTwice: 0, leftovers: 0, broken: 0 };
for (let killAt = 1; killAt < recorded.facts; killAt += every) {
  result.facts += 1;
  try {
    const { measured } = await performTrial({ workers: 2, kills: [killAt] });
    result.sameTree += Number(measured.tree === recorded.measured.tree);
    result.editsTwice += 12 - measured.onMainOnce;
    result.leftovers += measured.leftOver.length;
    const isWrong = measured.onMainOnce !== 12 || measured.leftOver.length > 0 || measured.copyChanged.length > 0;
    if (isWrong || values.json !== true) process.stdout.write(`killed at ${killAt}: ${JSON.stringify(measured)}\n`);
  } catch (error) {
    result.broken += 1;
    process.stdout.write(`killed at ${killAt}: ${String(error).slice(0, 2_000)}\n`);
  }
}
process.stdout.write(`${JSON.stringify(result)}\n`);
process.exit(result.editsTwice === 0 && result.leftovers === 0 && result.broken === 0 ? 0 : 1);
