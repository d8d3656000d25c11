import { parseArgs } from 'node:util';
import { testServer } from '../engine/postgres/server.ts';
import { tell, tellFaults } from './command-line.ts';
import { faultOf, runPlatformFleet } from './platform-fleet.ts';
import { runStandbyLoop } from './standby.ts';

/**
 * Kills, freezes and ends programs that share a store in PostgreSQL, kills and freezes the database, and cuts
 * connections to it, while people write. The last line is one JSON object. `--platform`: where people write, `console`
 * (the page), `discord` or `slack`; on the last two, programs are ended, killed and frozen (`--only end`: each restarts
 * in good order).
 */
const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    processes: { type: 'string', default: '3' },
    cycles: { type: 'string', default: '50' },
    seed: { type: 'string' },
    platform: { type: 'string', default: 'console' },
    only: { type: 'string', default: '' },
  },
});
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const [processes, cycles] = [Number(values.processes), Number(values.cycles)];
const { platform, only } = values;
const fault = faultOf(only);
if (!['console', 'discord', 'slack'].includes(platform)) throw new Error('--platform: console, discord or slack');
if (only !== '' && (fault === null || platform === 'console'))
  throw new Error('--only: end, kill or freeze, with --platform discord or slack');
const chosenFault = only === '' ? '' : ` --only ${only}`;
tell(
  `npm run killtest:scale -- --platform ${platform}${chosenFault} --processes ${processes} --cycles ${cycles} --seed ${seed}`,
);
const server = (await testServer()) ?? process.exit(2);
const plan = { server, processes, cycles, seed, tell: values.json ? () => {} : tell };
const numbers = platform === 'discord' || platform === 'slack' ? await onPlatform(platform) : await onConsole();
await server.stop();
process.stdout.write(`${JSON.stringify(numbers)}\n`);

async function onConsole(): Promise<object> {
  const { ledger, faults, goingOnMs, replaced, staleRefused, cuts } = await runStandbyLoop(plan);
  const found = counted(ledger.faults);
  return { cycles, faults, messages: ledger.sent.length, ...found, replaced, staleRefused, cuts, ...times(goingOnMs) };
}

async function onPlatform(chosen: 'discord' | 'slack'): Promise<object> {
  const report = await runPlatformFleet({ ...plan, platform: chosen, only: fault });
  const { faultsMade, messages, resumed, decided, forfeited, faults, goingOnMs } = report;
  return {
    platform: chosen,
    cycles,
    faults: faultsMade,
    messages,
    ...counted(faults),
    resumed,
    decided,
    forfeited,
    ...times(goingOnMs),
  };
}

/** Prints the faults and sets the exit code. Returns the number of faults of each kind. */
function counted(faults: Readonly<Record<string, readonly string[]>>): Readonly<Record<string, number>> {
  const found = tellFaults(faults, null);
  process.exitCode = Object.values(found).every((count) => count === 0) ? 0 : 1;
  return found;
}

function times(goingOnMs: readonly number[]): object {
  const at = (share: number): number => goingOnMs[Math.ceil(goingOnMs.length * share) - 1] ?? 0;
  return { goingOnMsP50: at(0.5), goingOnMsP99: at(0.99) };
}
