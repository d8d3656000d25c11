import { execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { reachedFrom, readSource } from './house/imports.ts';

/**
 * `check.ts`: format, lint and types of the whole tree, in parallel. `--changed`: format and lint of the files changed
 * since the branch left `main` (`--since` names another branch), types of the whole tree, and the tests of the changed
 * files. Exits with 1 when a step failed.
 */
const { values } = parseArgs({ options: { changed: { type: 'boolean' }, since: { type: 'string', default: 'main' } } });
const ROOT = new URL('..', import.meta.url).pathname;
const TYPES: readonly Step[] = [
  ['tsc', '--noEmit', '-p', '.'],
  ['tsc', '--noEmit', '-p', 'src/adapters/page'],
  ['tsc', '--noEmit', '-p', 'test/browser'],
];

/** A program and its arguments. */
type Step = readonly [string, ...string[]];

process.exitCode = (await passed(values.changed === true ? stepsOf(changedFiles()) : [...lint([]), ...TYPES])) ? 0 : 1;

function lint(files: readonly string[]): readonly Step[] {
  return [
    ['oxlint', '--deny-warnings', ...files],
    ['oxfmt', '--check', ...files],
  ];
}

function stepsOf(changed: readonly string[]): readonly Step[] {
  const code = changed.filter((file) => /\.[jt]sx?$/.test(file));
  const tests = testsOf(code);
  console.log(`changed: ${changed.join(' ') || 'nothing'}\ntests: ${tests.join(' ') || 'none'}`);
  return [
    ...(code.length === 0 ? [] : lint(code)),
    ...TYPES,
    ...(tests.length === 0 ? [] : [['vitest', 'run', ...tests] as const]),
  ];
}

/** Files that differ from the last common commit with the other branch, without deleted files. */
function changedFiles(): readonly string[] {
  const git = (...args: readonly string[]): readonly string[] =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' })
      .split('\n')
      .filter((line) => line !== '');
  const [base = 'HEAD'] =
    git('branch', '--list', values.since).length === 0 ? [] : git('merge-base', 'HEAD', values.since);
  const files = [...git('diff', '--name-only', base), ...git('ls-files', '--others', '--exclude-standard')];
  return [...new Set(files)].filter((file) => existsSync(`${ROOT}${file}`));
}

/**
 * The tests of a file: a test file itself; for a helper, the tests that import it, directly or not; for a source file,
 * the tests of its folder in `test`, or of the nearest folder above with tests.
 */
function testsOf(changed: readonly string[]): readonly string[] {
  const tree = readSource(`${ROOT}test`);
  const tests = tree.files.filter((file) => file.endsWith('.test.ts'));
  const inside = (folder: string): readonly string[] =>
    folder === '.'
      ? []
      : tests.some((file) => dirname(file) === folder)
        ? tests.filter((file) => dirname(file) === folder)
        : inside(dirname(folder));
  const found = changed.flatMap((path) => {
    if (path.startsWith('src/')) return inside(dirname(path.slice('src/'.length)));
    const file = path.slice('test/'.length);
    return path.startsWith('test/') ? tests.filter((each) => reachedFrom([each], tree).includes(file)) : [];
  });
  return [...new Set(found)].map((file) => `test/${file}`);
}

/** Runs all steps in parallel. Prints the output of failed steps and of the tests. */
async function passed(steps: readonly Step[]): Promise<boolean> {
  const ends = steps.map(async ([program, ...args]) => {
    const started = performance.now();
    // Programs that tests start inherit the environment, and tests read their output: it must have no colours.
    const colours = program === 'vitest' ? {} : { FORCE_COLOR: '1' };
    const child = spawn(program, args, { cwd: ROOT, env: { ...process.env, ...colours } });
    const output: string[] = [];
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (text: Buffer) => void output.push(text.toString()));
    const code = await new Promise<number | null>((done, failed) => child.on('close', done).on('error', failed));
    if (code !== 0 || program === 'vitest') console.log(output.join(''));
    const seconds = ((performance.now() - started) / 1_000).toFixed(1);
    console.log(`${code === 0 ? '✓' : '✗'} ${[program, ...args].join(' ').slice(0, 100)} ${seconds} s`);
    return code === 0;
  });
  return (await Promise.all(ends)).every((isGreen) => isGreen);
}
