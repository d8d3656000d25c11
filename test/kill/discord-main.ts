import { asked, tell, tellFaults } from './command-line.ts';
import { runDiscordKillLoop } from './discord-loop.ts';

const { json, ...plan } = asked('discord-main.ts', 50);
const report = await runDiscordKillLoop({ ...plan, ...(json ? {} : { tell }) });
const { cycles, faults, kills, messages, recoveryMsP99, dir } = report;
const found = tellFaults(faults, dir);
process.stdout.write(`${JSON.stringify({ cycles, kills, messages, ...found, recoveryMsP99 })}\n`);
process.exitCode = Object.values(found).every((count) => count === 0) ? 0 : 1;
