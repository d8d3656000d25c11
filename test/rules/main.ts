import { parseArgs } from 'node:util';
import { PLANTED, search } from './search.ts';

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    candidates: { type: 'string', default: '10000' },
    json: { type: 'boolean', default: false },
  },
});

const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const candidates = Number(values.candidates);
console.log(`npm run rules -- --seed ${seed} --candidates ${candidates}`);
const caught: string[] = [];
for (const [name, judge] of Object.entries(PLANTED)) {
  const { through, candidates: judged } = await search({ seed, candidates, isFirst: true }, judge);
  const [first] = through;
  if (first !== undefined) caught.push(name);
  console.log(
    first === undefined ? `not caught: ${name}` : `caught after ${judged}: ${name}: ${first.command}: ${first.why}`,
  );
}
const { allowed, through, candidates: judged } = await search({ seed, candidates });
for (const { command, allow, remembered, why } of through) {
  console.log(`through: ${JSON.stringify(command)} by ${[...allow, ...remembered].join(', ')}: ${why}`);
}
const planted = Object.keys(PLANTED).length;
if (!values.json) console.log(`${planted} bugs planted, ${caught.length} caught`);
console.log(
  values.json
    ? JSON.stringify({ candidates: judged, allowed, through: through.length, planted, caught: caught.length })
    : `${judged} commands judged, ${allowed} allowed and carried out, ${through.length} did more than a rule says`,
);
process.exitCode = through.length === 0 && caught.length === planted ? 0 : 1;
