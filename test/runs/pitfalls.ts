import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { ROOT } from '../docs/documents.ts';
import { outcome } from './scenario.ts';
import type { Outcome, Scenario, Size } from './scenario.ts';

/** Row 16: known pitfalls, and the tests which show that runs avoid them. */
export const PITFALLS: readonly Scenario[] = [{ id: 16, name: 'the pitfalls above', run: shown }];

/** By pitfall: words of the titles of the tests about it. */
const TITLES: readonly (readonly [number, string, ...string[]])[] = [
  [1, "T51 does not treat a question as the floor's when ", 'T51 goes to people every time when only its title names'],
  [2, 'T21 people see everything that would run', 'T21 shows what would run, even if only an earlier update'],
  [3, 'is denied when its text is too long to show', 'does not count before the channel shows the whole request'],
  [4, 'T53 a text in which something would hide', 'cannot end the block of code that it is shown in'],
  [5, 'each part of a call may be allowed by a rule of its own', 'a command line that is not known with certainty'],
  [
    6,
    'links are followed, those of the nearest parent that is there',
    'what is after a link and ".." must be meant',
    'pitfall 6: a file that grants',
  ],
  [
    7,
    'decides as the first of fifty at once, and forty-nine learn who decided',
    'after a restart starts no call',
    'operator any more counts for nothing',
  ],
  [8, 'T52 is not covered by the permission of an earlier call with the same id'],
  [
    9,
    'what is remembered ends at its hour, and with the definition of the tool',
    'leaves an approval that ends with the run',
  ],
  [
    10,
    'T52 is set back once, and the agent is stopped when it leaves the mode again',
    'T52 although people denied it stops the agent',
  ],
  [11, 'T53 is never answered with an always-allow option'],
  [
    12,
    'that the server answers with a',
    'has names that every provider accepts, each once',
    'is not followed to another host',
    'cannot end its fence',
  ],
  [
    13,
    'taints every agent that reads its text, also after a restart',
    'needs an approval before a change although a rule allows it, says since when',
    'is tainted by members who are no operators, as far as it may have read their text',
    'pitfall 13: a coding agent',
  ],
  [
    14,
    'pitfall 14: has no previews and links no names',
    'pitfall 14: T53 links get no preview, neither in posts nor in edits',
  ],
  [
    15,
    'is shown without secrets and with invisible characters spelled out',
    'pitfall 15: a known secret',
    'pitfall 15: a secret in the input',
  ],
  [16, 'with a number that never existed, or is in the future, is refused', 'Last-Event-ID'],
  [17, 'cannot be changed by accident', '300 flipped bytes are each found out or change nothing'],
  [18, 'is raised by no text of an agent, and by nobody who is no operator', '/run continue 999999'],
  [19, 'a call for a member who is no operator', 'asks even for what is allowed, unless told otherwise'],
  [20, 'a program that is killed between a request and its result'],
];

/** By requirement: words of the titles of the tests about it. Other products failed these requirements. */
const REQUIREMENTS: readonly (readonly [string, string, ...string[]])[] = [
  ['each part of a command is allowed by itself', 'each part of a call may be allowed by a rule of its own'],
  ['what no rule names is asked', 'a command that is not told is allowed by no words', 'without any rules'],
  ['rules that never count are found', 'a rule that looks right', 'says which rule refuses, whose it is'],
  [
    'what is allowed for always is not asked again',
    'is allowed without a request by an always-allow rule, until the rule is revoked',
  ],
  ['always is narrow, and not for everything', 'offers nothing for what was not shown whole'],
  ['agents are never given always', 'T53 is never answered with an always-allow option'],
  ['the row is there before the question', 'makes the turn wait in the same transaction in which the run pauses'],
  ['nobody waits for a question that nobody sees', 'is impossible when the platform never shows the question'],
  ['the channel hears of each answer', 'replaces the question, with the name of the person who gave it'],
  ['one answer decides', 'decides as the first of fifty at once, and forty-nine learn who decided'],
  ['a yes is for what was shown', 'does not start when it has changed, or the rules deny it by then'],
  [
    'a call is claimed before it starts',
    'can be claimed once',
    'gives running calls an unknown outcome, never repeats them',
  ],
  [
    'each call has a result',
    'gets an error text for unknown tools and invalid input',
    'gets a failure as a result, and its turn continues',
  ],
  ['what runs unasked stops its agent', 'T52 although people denied it stops the agent'],
  ['rows say by whose account', 'has calls recorded that it ran without asking'],
  ['an id alone is no proof', 'T52 is not covered by the permission of an earlier call with the same id'],
  ['refusals are seen', 'is announced in the channel, the first one of a run'],
  ['a limit is no crash', 'at its limit asks people, and continues with as many steps again'],
  ['no step is outside the limit', 'begins a step with the first call after each text'],
  ['servers of tools end with all that they started', 'that is stopped ends with its child processes'],
  ['outputs are cut, and read on', 'is cut when it is long, and can be read on', 'that is repeated counts once'],
  ['a tool that is another has no yes of before', 'to a tool with a changed definition is asked once'],
  [
    'silence is no yes',
    'counts until the last millisecond before the deadline',
    'is denied at once when nobody can be asked',
  ],
  ['a run is not over before its calls', 'is refused while a call runs'],
  [
    'people are not asked what need not be',
    'may read in its folder without any rule',
    'approvals lists repeated requests',
  ],
];

async function shown(size: Size): Promise<Outcome> {
  const files = testFiles(join(ROOT, 'test'));
  const texts = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]));
  const pitfalls = TITLES.map(([pitfall, ...titles]) => ({ shows: String(pitfall), titles }));
  const requirements = REQUIREMENTS.map(([requirement, ...titles]) => ({ shows: requirement, titles }));
  const all = [...pitfalls, ...requirements].map(({ shows, titles }) => {
    const found = titles.map((title) => ({
      title,
      in: files.filter((file) => texts.get(file)?.includes(title) === true),
    }));
    return { shows, found };
  });
  const missing = all.flatMap(({ shows, found }) =>
    found.filter((each) => each.in.length === 0).map(({ title }) => `${shows}: ${title}`),
  );
  const untested = all.filter(({ found }) => found.every((each) => each.in.length === 0)).map(({ shows }) => shows);
  const measured = {
    pitfalls: TITLES.length,
    requirements: REQUIREMENTS.length,
    untested: untested.length,
    missingTests: missing.length,
    missing,
  };
  if (size === 'short') return outcome(measured, { untested: 0, missingTests: 0 });
  const titles = all.flatMap(({ found }) => found.flatMap((each) => (each.in.length > 0 ? [each.title] : [])));
  const ran = await run([...new Set(all.flatMap(({ found }) => found.flatMap((each) => each.in)))], titles);
  const red = ran.filter(({ status }) => status !== 'passed').map(({ fullName }) => fullName);
  const isGreen = (title: string) =>
    ran.some(({ fullName, status }) => fullName.includes(title) && status === 'passed');
  const green = all.filter(
    ({ found }) =>
      found.some(({ title }) => isGreen(title)) &&
      found.every(({ title }) => !red.some((name) => name.includes(title))),
  );
  return outcome(
    { ...measured, tests: ran.length, green: green.length, red },
    { untested: 0, missingTests: 0, green: all.length },
  );
}

function testFiles(folder: string): readonly string[] {
  // Skips hidden folders: they hold copies that another test may delete meanwhile.
  const isCopy = (name: string): boolean => name.startsWith('.');
  return globSync('**/*.test.ts', { cwd: folder, exclude: isCopy }).map((name) => join(folder, name));
}

type Ran = { readonly fullName: string; readonly status: string };

/** Runs the tests whose titles have these words. */
async function run(files: readonly string[], titles: readonly string[]): Promise<readonly Ran[]> {
  const folder = mkdtempSync(join(tmpdir(), 'conch-pitfalls-'));
  const file = join(folder, 'report.json');
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const named = titles.map((title) => title.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('|');
  const paths = files.map((path) => relative(ROOT, path));
  const args = [vitest, 'run', ...paths, '-t', named, '--reporter=json', `--outputFile=${file}`, '--maxWorkers=1'];
  try {
    await once(spawn(process.execPath, args, { cwd: ROOT, stdio: 'ignore' }), 'exit');
    const report = JSON.parse(readFileSync(file, 'utf8')) as { testResults: { assertionResults: Ran[] }[] };
    const tests = report.testResults.flatMap(({ assertionResults }) => assertionResults);
    return tests.filter(({ fullName }) => titles.some((title) => fullName.includes(title)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
