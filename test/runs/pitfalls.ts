import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { ROOT } from '../docs/documents.ts';
import { outcome } from './scenario.ts';
import type { Outcome, Scenario, Size } from './scenario.ts';

/** Where others fell, and which tests show that runs do not: row 16. */
export const PITFALLS: readonly Scenario[] = [{ id: 16, name: 'the pitfalls above', run: shown }];

/** Words of the titles of tests, by the pitfall that they are about. */
const TITLES: readonly (readonly [number, string, ...string[]])[] = [
  [1, 'T51 a question is not of the floor when', 'T51 goes to people every time when only its title says'],
  [2, 'T21 what runs stands in what is shown', 'T21 shows what would run, though only an earlier update'],
  [3, 'is refused when its text is too long to be read', 'before all of it stands in the channel is no yes'],
  [4, 'T53 a text in which something would hide', 'cannot end the block of code that it is shown in'],
  [5, 'each part of a call may be allowed by a rule of its own', 'a command line that is not known with certainty'],
  [6, 'links are followed, those of the nearest parent that is there', 'what is after a link and ".." must be meant'],
  [
    7,
    'of fifty at once, from everywhere',
    'after a restart answers nothing that was asked before it',
    'operator any more counts for nothing',
  ],
  [8, 'T52 has no yes of an earlier call with the same id'],
  [
    9,
    'what is remembered ends at its hour, and with the definition of the tool',
    'leaves a yes that ends with the run',
  ],
  [10, 'T52 is set back once, and the agent stopped when it leaves it again', 'T52 ran though people said no'],
  [11, 'T53 is never answered with a yes for always'],
  [
    12,
    'that the server answers with a',
    'has names that every provider takes',
    'is not followed to another host',
    'cannot end its fence',
  ],
  [
    13,
    'passes that on to whoever reads what it wrote, also after a restart',
    'that has read what nobody vouches for is cautioned before it changes something',
  ],
  [14, 'asks for no previews and links no names', 'T53 no link of what is said is looked up for a preview'],
  [15, 'is shown without secrets, and with what cannot be seen spelled out', 'a secret that is known'],
  [16, 'with a number that never was, or is of later than now, is told so', 'Last-Event-ID'],
  [17, 'cannot be changed by accident', '300 flipped bytes are each found out or change nothing'],
  [18, 'is raised by no word of an agent, and by nobody who does not operate', '/run continue 999999'],
  [19, 'a call that a member of the channel asked for', 'asks even for what is allowed, unless told otherwise'],
  [20, 'a program that is killed between a request and its result'],
];

async function shown(size: Size): Promise<Outcome> {
  const files = testFiles(join(ROOT, 'test'));
  const texts = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]));
  const all = TITLES.map(([pitfall, ...titles]) => {
    const found = titles.map((title) => ({
      title,
      in: files.filter((file) => texts.get(file)?.includes(title) === true),
    }));
    return { pitfall, found };
  });
  const missing = all.flatMap(({ pitfall, found }) =>
    found.filter((each) => each.in.length === 0).map(({ title }) => `${pitfall}: ${title}`),
  );
  const untested = all.filter(({ found }) => found.every((each) => each.in.length === 0)).map(({ pitfall }) => pitfall);
  const measured = { pitfalls: TITLES.length, untested: untested.length, missingTests: missing.length, missing };
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
    { untested: 0, missingTests: 0, green: TITLES.length },
  );
}

function testFiles(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join(folder, name));
}

type Ran = { readonly fullName: string; readonly status: string };

/** Runs the tests with these words in their titles. */
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
