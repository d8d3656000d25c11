import { reviewOnFloor } from '../../src/work/reviews/review-binding.ts';
import { catchInCrews } from './planted-crews.ts';
import { catchInReviews } from './planted-reviews.ts';
import { searchReviewed } from './reviews.ts';
import { crewOnFloor } from '../../src/work/crews/crew-binding.ts';
import { searchCrews } from './crews.ts';
import { parseArgs } from 'node:util';
import { TurnManager } from '../../src/turns/manager.ts';
import { floorMachine } from '../../src/turns/floor-store.ts';
import { runMachine } from '../../src/work/runs/run-machine.ts';
import { CHANNELS } from './channels.ts';
import { catchInRounds, catchPlanted } from './plant.ts';
import { keepWays } from './ways.ts';
import { floorWithWork } from '../../src/work/floor-with-work.ts';
import { runOnFloor } from '../../src/work/runs/floor-binding.ts';
import { createOperators } from '../../src/turns/commands/execute.ts';
import { createRunCommands } from '../../src/work/runs/run-commands.ts';
import { searchClicks } from './approvers.ts';
import { BESIDE } from './beside.ts';
import { FolderTrust } from '../../src/agents/trust/folder-trust.ts';
import { searchFolders } from './folders.ts';
import { catchInFolders } from './planted-folders.ts';
import { CUT, searchJoined } from './joined.ts';
import { catchInClicks, catchInJoined } from './planted-joined.ts';
import { catchInRuns } from './planted-runs.ts';
import { searchRounds } from './rounds.ts';
import { searchRuns } from './runs.ts';
import type { FoundRun } from './runs.ts';
import { search } from './search.ts';
import type { Explored, Found } from './search.ts';

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    small: { type: 'boolean', default: false },
    depth: { type: 'string' },
    ways: { type: 'boolean', default: false },
  },
});
const log = values.json ? console.error : console.log;

/** The fewest planted bugs that count as a test of the search. */
const LEAST_PLANTED = 25;

const explored = CHANNELS.map((channel) => {
  const usual = values.small ? channel.smallDepth : channel.depth;
  const one = search(floorMachine, channel, {
    depth: values.depth === undefined ? usual : Number(values.depth),
    first: false,
  });
  log(rowOf(one));
  for (const found of one.found) log(traceOf(found));
  return one;
});
const rounds = await searchRounds(TurnManager, { events: values.small ? 1 : 2, first: false });
log(`${rounds.schedules} orders of happenings in the rounds of deadlines, ${rounds.steps} steps`);
for (const found of rounds.found) log(traceOf(found));
const runs = searchRuns(runMachine, { depth: values.small ? 6 : 8, first: false });
log(rowOf(runs));
for (const found of runs.found) log(traceOf(found));
const hosted = { floorWithWork, runOnFloor };
const joined = searchJoined(hosted, { depth: values.small ? 4 : 6, first: false });
const cut = searchJoined(hosted, { depth: values.small ? 6 : 7, first: false, scene: CUT });
const beside = searchJoined(hosted, { depth: values.small ? 6 : 8, first: false, scene: BESIDE });
log(`${joined.states} states of a floor with its run, ${joined.transitions} transitions`);
log(`${cut.states} states of them after a restart that took who asks, ${cut.transitions} transitions`);
log(`${beside.states} states of a floor with work beside it, ${beside.transitions} transitions`);
for (const { invariant, what, trace } of [...joined.found, ...cut.found, ...beside.found])
  log(`${invariant} ${what}: ${JSON.stringify(trace)}`);
const reviewed = searchReviewed({ floorWithWork, reviewOnFloor }, { depth: values.small ? 7 : 10, first: false });
log(`${reviewed.states} states of a floor with its review, ${reviewed.transitions} transitions`);
for (const { invariant, what, trace } of reviewed.found) log(`${invariant} ${what}: ${JSON.stringify(trace)}`);
const crewed = searchCrews({ floorWithWork, crewOnFloor }, { small: values.small, first: false });
log(`${crewed.states} states of a crew with its floors, ${crewed.transitions} transitions`);
for (const { invariant, what, where, trace } of crewed.found)
  log(`${invariant} ${what}: ${JSON.stringify(trace)}, from "${where}"`);
const clicks = await searchClicks({ createOperators, createRunCommands }, { first: false });
log(`${clicks.clicks} clicks of everybody on what agents ask`);
for (const { invariant, what, trace } of clicks.found) log(`${invariant} ${what}: ${trace.join(', ')}`);
const folders = await searchFolders({ FolderTrust, createOperators }, { depth: values.small ? 4 : 6, first: false });
log(`${folders.states} states of an agent's folder, ${folders.transitions} transitions`);
for (const { invariant, what, trace } of folders.found) log(`${invariant} ${what}: ${trace.join(', ')}`);
const planted = [
  ...(await catchPlanted()).map(({ bug, found }) => ({ bug, found, where: found?.channel ?? '' })),
  ...(await catchInRounds()).map(({ bug, found }) => ({ bug, found, where: found?.channel ?? '' })),
  ...(await catchInRuns()).map(({ bug, found }) => ({ bug, found, where: 'runs' })),
  ...(await catchInClicks()).map(({ bug, found }) => ({ bug, found, where: 'clicks' })),
  ...(await catchInJoined()).map(({ bug, found }) => ({ bug, found, where: found?.where ?? '' })),
  ...(await catchInReviews()).map(({ bug, found }) => ({ bug, found, where: 'reviews' })),
  ...(await catchInCrews()).map(({ bug, found }) => ({ bug, found, where: found?.where ?? '' })),
  ...(await catchInFolders()).map(({ bug, found }) => ({ bug, found, where: "an agent's folder" })),
];
for (const caught of planted) log(plantedRowOf(caught));
if (values.ways)
  keepWays(
    planted.flatMap(({ bug, found, where }) => (found === null ? [] : [{ name: bug.name, where, moves: found.trace }])),
  );

const sum = (count: (one: Explored) => number): number => explored.reduce((total, one) => total + count(one), 0);
const result = {
  states:
    sum((one) => one.states) +
    runs.states +
    joined.states +
    cut.states +
    beside.states +
    reviewed.states +
    crewed.states +
    folders.states,
  transitions:
    sum((one) => one.transitions) +
    runs.transitions +
    joined.transitions +
    cut.transitions +
    beside.transitions +
    reviewed.transitions +
    crewed.transitions +
    folders.transitions,
  diameter: Math.max(...explored.map((one) => one.diameter)),
  schedules: rounds.schedules,
  violations:
    sum((one) => one.found.length) +
    rounds.found.length +
    runs.found.length +
    joined.found.length +
    cut.found.length +
    beside.found.length +
    reviewed.found.length +
    crewed.found.length +
    clicks.found.length +
    folders.found.length,
  planted: planted.length,
  caught: planted.filter(({ found }) => found !== null).length,
};
const isClean = result.violations === 0 && result.caught === result.planted && result.planted >= LEAST_PLANTED;
process.exitCode = isClean ? 0 : 1;
if (values.json) console.log(JSON.stringify(result));
else
  log(
    `\n${Object.entries(result)
      .map(([name, value]) => `${value} ${name}`)
      .join(', ')}`,
  );

function rowOf({ channel, states, transitions, diameter, closed }: Omit<Explored, 'found'>): string {
  const reached = `${states}`.padStart(8) + `${transitions}`.padStart(10);
  return `${channel.padEnd(26)}${reached} transitions, ${diameter} commands deep${closed ? ', to the end' : ''}`;
}

/** The shortest path to a broken invariant: one command a line, for `decide` from the empty floor on. */
function traceOf({ invariant, what, trace }: Found | FoundRun): string {
  const first = trace[0]?.at ?? 0;
  const steps = trace.map(({ at, command }) => `    +${at - first} ms ${JSON.stringify(command)}`);
  return [`  ${invariant} broken: ${what}`, ...steps].join('\n');
}

function plantedRowOf({ bug, found, where }: (typeof planted)[number]): string {
  return found === null
    ? `NOT CAUGHT  ${bug.name} (${bug.file})`
    : `caught  ${bug.name}: ${found.invariant}, ${found.what}, after ${found.trace.length} commands in "${where}"`;
}
