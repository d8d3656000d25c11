import { parseArgs } from 'node:util';
import { testServer } from '../engine/postgres/server.ts';
import { tell, tellFaults } from './command-line.ts';
import { runStandbyLoop } from './standby.ts';

/**
 * Kills, freezes and ends programs that share a store in PostgreSQL, kills and freezes the database, and cuts connections to
 * it, while people write. The last line is one JSON object.
 */
const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    processes: { type: 'string', default: '3' },
    cycles: { type: 'string', default: '50' },
    seed: { type: 'string' },
  },
});
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const [processes, cycles] = [Number(values.processes), Number(values.cycles)];
tell(`npm run killtest:scale -- --processes ${processes} --cycles ${cycles} --seed ${seed}`);
const server = await testServer();
if (server === null) process.exit(2);
const plan = { server, processes, cycles, seed, tell: values.json ? () => {} : tell };
const { ledger, faults, goingOnMs, replaced, staleRefused, cuts } = await runStandbyLoop(plan);
await server.stop();
const found = tellFaults(ledger.faults, null);
const goingOnMsP99 = goingOnMs[Math.ceil(goingOnMs.length * 0.99) - 1] ?? 0;
const goingOnMsP50 = goingOnMs[Math.ceil(goingOnMs.length * 0.5) - 1] ?? 0;
const times = { goingOnMsP50, goingOnMsP99 };
const numbers = { cycles, faults, messages: ledger.sent.length, ...found, replaced, staleRefused, cuts, ...times };
process.stdout.write(`${JSON.stringify(numbers)}\n`);
process.exitCode = Object.values(found).every((count) => count === 0) ? 0 : 1;
