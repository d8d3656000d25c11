import { asked, tell, tellFaults } from './command-line.ts';
import { runSlackKills } from './slack-loop.ts';

const { json, ...plan } = asked('slack-main.ts', 20);
const { faults, dir, ...numbers } = await runSlackKills({ ...plan, tell: json ? () => {} : tell });
const found = tellFaults(faults, dir);
const { atAcknowledgement, atPosting, duringStart, messages, cutShort, recoveryMsP99 } = numbers;
process.stdout.write(
  json
    ? `${JSON.stringify({ ...numbers, ...found })}\n`
    : `${atAcknowledgement} kills at an acknowledgement, ${atPosting} at a post, ${duringStart} during the start; ${messages} messages, ${cutShort} posts cut short: ${JSON.stringify(found)}, ready again within ${recoveryMsP99} ms (p99)\n`,
);
const isWhole = atAcknowledgement >= plan.cycles && atPosting >= plan.cycles;
process.exitCode = isWhole && Object.values(found).every((count) => count === 0) ? 0 : 1;
