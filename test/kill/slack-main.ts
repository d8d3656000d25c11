import { parseArgs } from 'node:util';
import { runSlackKills } from './slack-loop.ts';

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

tell(`node test/kill/slack-main.ts --cycles ${cycles} --seed ${seed}`);
const { faults, dir, ...numbers } = await runSlackKills({
  cycles,
  seed,
  keep: values.keep === true,
  tell: values.json === true ? () => {} : tell,
});
const found = Object.entries(faults).flatMap(([kind, texts]) => texts.map((text) => `${kind}: ${text}`));
for (const text of found.slice(0, 40)) tell(text);
if (found.length > 40) tell(`and ${found.length - 40} more`);
if (dir !== null) tell(`The database is in ${dir}`);
const counts = Object.fromEntries(Object.entries(faults).map(([kind, texts]) => [kind, texts.length]));
const { atAcknowledgement, atPosting, duringStart, messages, cutShort, recoveryMsP99 } = numbers;
process.stdout.write(
  values.json === true
    ? `${JSON.stringify({ ...numbers, ...counts })}\n`
    : `${atAcknowledgement} kills at an acknowledgement, ${atPosting} at a post, ${duringStart} during the start; ${messages} messages, ${cutShort} posts cut short: ${JSON.stringify(counts)}, ready again within ${recoveryMsP99} ms (p99)\n`,
);
const isWhole = atAcknowledgement >= cycles && atPosting >= cycles;
process.exitCode = found.length > 0 || !isWhole ? 1 : 0;
