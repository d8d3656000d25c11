import { parseArgs } from 'node:util';
import { runKillLoop } from './loop.ts';

const RECOVERY_LIMIT_MS = 2_000;

const { values } = parseArgs({
  options: {
    cycles: { type: 'string', default: '20' },
    seed: { type: 'string' },
    json: { type: 'boolean' },
    keep: { type: 'boolean' },
  },
});
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const cycles = Number(values.cycles);
const tell = (line: string): void => void process.stderr.write(`${line}\n`);

tell(`node test/kill/main.ts --cycles ${cycles} --seed ${seed}`);
const report = await runKillLoop({
  cycles,
  seed,
  keep: values.keep === true,
  tell: values.json === true ? () => {} : tell,
});
const { faults, recoveryMsP99, messages, cutShort, dir } = report;
const found = Object.entries(faults).flatMap(([kind, texts]) => texts.map((text) => `${kind}: ${text}`));
for (const text of found.slice(0, 40)) tell(text);
if (found.length > 40) tell(`and ${found.length - 40} more`);
if (dir !== null) tell(`The databases are in ${dir}`);
const { lost, twice, doubleHolders } = faults;
const counts = { cycles, lost: lost.length, twice: twice.length, doubleHolders: doubleHolders.length, recoveryMsP99 };
process.stdout.write(
  values.json === true
    ? `${JSON.stringify(counts)}\n`
    : `${cycles} kills, ${messages} messages, ${cutShort} posts cut short: ${lost.length} lost, ${twice.length} twice, ${doubleHolders.length} double holders, ready again within ${recoveryMsP99} ms (p99)\n`,
);
process.exitCode = found.length > 0 || recoveryMsP99 >= RECOVERY_LIMIT_MS ? 1 : 0;
