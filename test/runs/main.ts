import { parseArgs } from 'node:util';
import { measure } from './numbers.ts';
import { perform } from './scenario.ts';
import type { Scenario } from './scenario.ts';
import { SCENARIOS } from './scenarios.ts';

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    short: { type: 'boolean', default: false },
    long: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    numbers: { type: 'boolean', default: false },
  },
});
const only = values.only.split(',').filter(Boolean).map(Number);
const tell = (line: string): void => void process.stderr.write(`${line}\n`);

const size = values.short ? 'short' : values.long ? 'long' : 'full';
const chosen = SCENARIOS.filter(({ id }) => only.length === 0 || only.includes(id));
const done = [];
for (const scenario of chosen) {
  const waiting = Promise.withResolvers<void>();
  const found = told(scenario, waiting.resolve);
  done.push(found);
  await Promise.race([found, waiting.promise]);
}
const numbers = only.length === 0 || values.numbers ? await measured() : {};
const found = await Promise.all(done);

/** Runs a scenario and prints its result as one line. */
async function told(scenario: Scenario, waits: () => void) {
  const { id, name } = scenario;
  const from = performance.now();
  const came = await perform(scenario, size, waits);
  const tookS = Math.round((performance.now() - from) / 1_000);
  tell(`${came.ok ? '✓' : '✗'} ${id}. ${name} (${tookS} s): ${JSON.stringify(came.measured)}`);
  return [id, { name, ...came }] as const;
}

/** Measures the costs of runs. Prints an error and returns `null` when it cannot. */
async function measured() {
  try {
    const costs = await measure(size);
    tell(JSON.stringify(costs));
    return costs;
  } catch (error) {
    tell(`✗ nothing could be measured: ${error instanceof Error ? error.message : String(error)}`);
    return null;
  }
}

const scenarios = Object.fromEntries(found);
if (values.json) process.stdout.write(`${JSON.stringify({ scenarios, ...numbers })}\n`);
process.exitCode = numbers !== null && found.every(([, { ok }]) => ok) ? 0 : 1;
