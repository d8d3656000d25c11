import { parseArgs } from 'node:util';
import { DOORS } from './doors.ts';
import { fuzz } from './loop.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string' },
    first: { type: 'string', default: '0' },
    inputs: { type: 'string' },
    door: { type: 'string', multiple: true },
    json: { type: 'boolean', default: false },
  },
});

const tell = (line: string): void => void process.stderr.write(`${line}\n`);
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const only = (values.door ?? []).map((name) => ` --door "${name}"`).join('');
const again = (number: number, inputs: number): string =>
  `npm run fuzz -- --seed ${seed} --first ${number} --inputs ${inputs}${only}`;

tell(`npm run fuzz -- --seed ${seed} --seconds ${values.seconds}${only}`);
const ending = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => ending.abort());
const plan = {
  seed,
  first: Number(values.first),
  inputs: Number(values.inputs ?? Number.MAX_SAFE_INTEGER),
  limitMs: Number(values.seconds) * 1_000,
  ...(values.door === undefined ? {} : { doors: values.door }),
};
const { sent, findings, faults } = await fuzz(plan, ending.signal);
for (const { kind, why, after } of findings) {
  tell(`\n${kind}: ${why}`);
  for (const { number, door, bytes } of after) tell(`  ${number} ${door}: ${bytes}`);
  const [first] = after;
  if (first !== undefined) tell(`again: ${again(first.number, after.length)}`);
}
for (const fault of faults) tell(`survived: ${fault}`);
const doors = (values.door ?? DOORS.map(({ name }) => name)).filter((name) => name in sent);
const count = (wanted: string): number => findings.filter(({ kind }) => kind === wanted).length;
const inputs = Object.values(sent).reduce((sum, each) => sum + each, 0);
const result = { doors, inputs, crashes: count('crash'), hangs: count('hang'), faults: faults.length };
if (!values.json) for (const door of doors) tell(`${String(sent[door]).padStart(8)}  ${door}`);
process.stdout.write(
  values.json
    ? `${JSON.stringify(result)}\n`
    : `${inputs} inputs at ${doors.length} doors: ${result.crashes} crashes, ${result.hangs} hangs, ${result.faults} faults that were survived\n`,
);
process.exitCode = result.crashes + result.hangs > 0 ? 1 : 0;
