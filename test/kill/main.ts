import { asked, askedOfConsole, tell, tellFaults } from './command-line.ts';
import { runKillLoop } from './loop.ts';

/** The limit for a start after a kill, as a multiple of a start on an empty folder on the same machine. */
const MOST_RECOVERY_TIMES = 4;

const { json, ...plan } = asked('main.ts', 20);
const { modes, burst } = askedOfConsole();
const report = await runKillLoop({ ...plan, modes, burst, tell: json ? () => {} : tell });
const { faults, recoveryMsP99, recoveryTimes, messages, cutShort, witnessed, mostAtOnce, calls, forms, reports, dir } =
  report;
const found = tellFaults(faults, dir);
const { cycles } = plan;
const { lost, twice, doubleHolders, doneUnseen, effectsTwice, unknownUnmarked, approvalsLost } = found;
process.stdout.write(
  json
    ? `${JSON.stringify({ cycles, messages, lost, twice, doubleHolders, recoveryMsP99, recoveryTimes, doneUnseen, witnessed, mostAtOnce, calls, forms, reports, effectsTwice, unknownUnmarked, approvalsLost })}\n`
    : `${cycles} kills, ${messages} messages, ${cutShort} posts cut short: ${lost} lost, ${twice} twice, ${doubleHolders} double holders, ${doneUnseen} done unseen, ${reports} reports of work beside the floor, ${calls} tool calls and ${forms} forms: ${effectsTwice} done twice, ${unknownUnmarked} of unknown outcome and unmarked, ${approvalsLost} approvals lost; ready again within ${recoveryMsP99} ms (p99), ${recoveryTimes} times a start on nothing\n`,
);
const isClean = Object.values(found).every((count) => count === 0);
process.exitCode = isClean && recoveryTimes <= MOST_RECOVERY_TIMES ? 0 : 1;
