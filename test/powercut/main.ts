import { parseArgs } from 'node:util';
import { powerCuts } from './cuts.ts';

const { values } = parseArgs({
  options: {
    cuts: { type: 'string', default: '1000' },
    seed: { type: 'string' },
    json: { type: 'boolean', default: false },
    planted: { type: 'boolean', default: false },
  },
});
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const say = (line: string): void => void process.stdout.write(`${line}\n`);
if (!values.json) say(`node test/powercut/main.ts --cuts ${values.cuts} --seed ${seed}`);
const found = await powerCuts({
  cuts: Number(values.cuts),
  rounds: 90,
  seed,
  how: values.planted ? 'hasty' : 'shipped',
});
const { cuts, writes, syncs, told, faults } = found;
const lost = faults.filter(({ problems }) => problems.some((problem) => problem.startsWith('lost'))).length;
if (values.json) say(JSON.stringify({ cuts, writes, syncs, told, lost, broken: faults.length - lost }));
else {
  for (const { before, problems } of faults) say(`cut before event ${before}: ${problems.join('; ')}`);
  say(
    `${cuts} power cuts among ${writes} writes, ${syncs} syncs and ${told} answers: what was answered was lost after ${lost}, the file was broken after ${faults.length - lost}`,
  );
}
process.exitCode = faults.length === 0 ? 0 : 1;
