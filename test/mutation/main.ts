import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { readSource } from '../house/imports.ts';
import { mutated, mutationsOf, randomOf } from './mutations.ts';
import { roundsOf } from './nearest-tests.ts';
import type { Mutation } from './mutations.ts';

// Plants one-line bugs in a copy of the tree, one at a time, and runs the tests: npm run mutate -- --bugs 40 --seed 1
const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    bugs: { type: 'string', default: '40' },
    /** Takes only files whose path below `src` begins with this text. */
    under: { type: 'string', default: '' },
    /** Runs all tests on a bug that tests importing its file miss: minutes for each bug. */
    all: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
});
const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9));
const bugs = Number(values.bugs);
console.log(`npm run mutate -- --seed ${seed} --bugs ${bugs} --under '${values.under}'`);

const ROOT = new URL('../../', import.meta.url).pathname;
const copy = mkdtempSync(join(tmpdir(), 'conch-mutation-'));
const tree = join(copy, 'tree');
execFileSync('git', ['clone', '--quiet', '--shared', ROOT, tree]);
for (const folder of ['node_modules', 'dist']) symlinkSync(join(ROOT, folder), join(tree, folder));

/** The source and its tests as one tree. */
const source = readSource(tree, ['src', 'test']);
const planted = chosen();
const survived: Mutation[] = [];
try {
  for (const mutation of planted) {
    const isKilled = kills(mutation);
    if (!isKilled) survived.push(mutation);
    console.log(`${isKilled ? 'killed' : 'SURVIVED'}: ${mutation.file}:${mutation.line}: ${mutation.after.trim()}`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
const killed = planted.length - survived.length;
console.log(
  values.json
    ? JSON.stringify({ seed, bugs: planted.length, killed, survived })
    : `${killed} of ${planted.length} bugs killed`,
);

/** Mutations of different files, chosen by the seed. Each line of code has the same probability. */
function chosen(): readonly Mutation[] {
  const random = randomOf(seed);
  const all = readSource(join(ROOT, 'src'))
    .files.filter((file) => file.startsWith(values.under))
    .flatMap((file) => mutationsOf(file, readFileSync(join(tree, 'src', file), 'utf8')));
  const picked = new Map<string, Mutation>();
  for (let attempt = 0; picked.size < bugs && attempt < 100 * bugs; attempt += 1) {
    const mutation = all[Math.floor(random() * all.length)];
    if (mutation !== undefined && !picked.has(mutation.file)) picked.set(mutation.file, mutation);
  }
  return [...picked.values()];
}

/** True when a test or the type check fails with the mutation. Runs the nearest tests first, the types last. */
function kills(mutation: Mutation): boolean {
  const path = join(tree, 'src', mutation.file);
  const text = readFileSync(path, 'utf8');
  writeFileSync(path, mutated(text, mutation));
  try {
    const [near = [], ...far] = roundsOf(mutation.file, source);
    return (
      (near.length > 0 && testsFail(near)) ||
      far.some(testsFail) ||
      fails('tsc', ['--noEmit']) ||
      (values.all && testsFail([]))
    );
  } finally {
    writeFileSync(path, text);
  }
}

/** True when these tests fail. Runs all tests when no file is given. */
function testsFail(files: readonly string[]): boolean {
  return fails('vitest', ['run', '--bail', '1', ...files]);
}

function fails(program: string, args: readonly string[]): boolean {
  const path = join(ROOT, 'node_modules', '.bin', program);
  const env = { ...process.env, PATH: `${join(ROOT, 'node_modules', '.bin')}:${process.env['PATH'] ?? ''}` };
  return spawnSync(path, args, { cwd: tree, env, stdio: 'ignore', timeout: 30 * 60_000 }).status !== 0;
}
