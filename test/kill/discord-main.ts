import { parseArgs } from 'node:util';
import { runDiscordKillLoop } from './discord-loop.ts';

const { values } = parseArgs({
  options: {
    cycles: { type: 'string', default: '50' },
    seed: { type: 'string' },
    json: { type: 'boolean' },
    keep: { type: 'boolean' },
  },
});
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const cycles = Number(values.cycles);
const tell = (line: string): void => void process.stderr.write(`${line}\n`);

tell(`node test/kill/discord-main.ts --cycles ${cycles} --seed ${seed}`);
const report = await runDiscordKillLoop({
  cycles,
  seed,
  keep: values.keep === true,
  ...(values.json === true ? {} : { tell }),
});
const { faults, kills, messages, recoveryMsP99, dir } = report;
const found = Object.entries(faults).flatMap(([kind, texts]) => texts.map((text) => `${kind}: ${text}`));
for (const text of found.slice(0, 40)) tell(text);
if (found.length > 40) tell(`and ${found.length - 40} more`);
if (dir !== null) tell(`The databases are in ${dir}`);
const counts = Object.fromEntries(Object.entries(faults).map(([kind, texts]) => [kind, texts.length]));
process.stdout.write(`${JSON.stringify({ cycles, kills, messages, ...counts, recoveryMsP99 })}\n`);
process.exitCode = found.length > 0 ? 1 : 0;
