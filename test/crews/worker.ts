import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/**
 * A scripted worker: a program that reads a prompt, changes its folder and answers, as `claude -p` does. It looks at
 * the tree and not at memory, so a step that is repeated after a kill does no edit twice. Lists are kept in order, so
 * the tickets lead to the same tree in any order.
 */
const folder = process.cwd();
const ticket = process.env['CONCH_TICKET'] ?? '';
const script = JSON.parse(process.env['CREW_SCRIPT'] ?? '{}') as Readonly<Record<string, string>>;
const state = process.env['CREW_STATE'] ?? '/tmp';
const stepMs = Number(process.env['CREW_STEP_MS'] ?? '0');
const kind = script[ticket] ?? 'works';
const prompt = readFileSync(0, 'utf8');

/** The number of this call for the ticket, from 1. */
mkdirSync(state, { recursive: true });
appendFileSync(join(state, ticket), '.');
const call = readFileSync(join(state, ticket), 'utf8').length;

function git(...args: readonly string[]): string {
  return execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
}

function read(path: string): string {
  return existsSync(join(folder, path)) ? readFileSync(join(folder, path), 'utf8') : '';
}

function write(path: string, text: string): void {
  writeFileSync(join(folder, path), text);
}

/** The name that the module exports now. */
function named(): string {
  return read('src/names.js').includes('newName') ? 'newName' : 'oldName';
}

/** Adds a line to those that a pattern finds, and sorts them. */
function addLine(path: string, pattern: RegExp, line: string): void {
  const lines = read(path).split('\n');
  const found = lines.filter((each) => pattern.test(each));
  const at = lines.findIndex((each) => pattern.test(each));
  const others = lines.filter((each) => !pattern.test(each));
  others.splice(at === -1 ? 0 : at, 0, ...[...new Set([...found, line])].toSorted());
  write(path, others.join('\n'));
}

function addToList(word: string): void {
  addLine('src/list.js', /^ {2}'/, `  '${word}',`);
  addLine('CHANGELOG.md', /^- /, `- ${word}`);
}

const EDITS: Readonly<Record<string, () => void>> = {
  't-01': () => write('src/helper.js', 'export const helper = () => 1;\n'),
  't-02': () =>
    write('src/two.js', "import { helper } from './helper.js';\n\nexport const two = () => helper() + 1;\n"),
  't-03': () =>
    write('src/three.js', "import { helper } from './helper.js';\n\nexport const three = () => helper() + 2;\n"),
  't-04': () =>
    write(
      'src/four.js',
      "import { two } from './two.js';\nimport { three } from './three.js';\n\nexport const four = () => two() + three();\n",
    ),
  't-05': () => addToList('five'),
  't-06': () => addToList('six'),
  't-07': () => {
    for (const name of readdirSync(join(folder, 'src'))) {
      const text = read(`src/${name}`);
      if (text.includes('oldName')) write(`src/${name}`, text.replaceAll('oldName', 'newName'));
    }
  },
  't-08': () =>
    write('src/caller.js', `import { ${named()} } from './names.js';\n\nexport const caller = () => ${named()}();\n`),
  't-09': () => addLine('src/same.js', /^export/, 'export const nine = 1;'),
  't-10': () => addLine('src/same.js', /^export/, 'export const ten = 1;'),
  't-11': () => rmSync(join(folder, 'src/legacy.js'), { force: true }),
  't-12': () => {
    if (existsSync(join(folder, 'src/legacy.js'))) write('src/legacy.js', "export const legacy = () => 'changed';\n");
    write('src/modern.js', "export const modern = () => 'changed';\n");
  },
};

function commit(): void {
  git('add', '-A');
  if (git('status', '--porcelain', '--untracked-files=no') !== '') git('commit', '-q', '-m', `Do ${ticket}`);
}

/** Merges main here, and keeps the lines of both sides; a file that one side deleted goes. */
function mergeMain(): void {
  spawnSync('git', ['-C', folder, 'merge', '--no-edit', 'main']);
  for (const path of git('diff', '--name-only', '--diff-filter=U')
    .split('\n')
    .filter((line) => line !== '')) {
    const text = read(path);
    if (!text.includes('<<<<<<<')) git('rm', '-q', '-f', '--', path);
    else {
      write(path, text.replaceAll(/^(?:<{7}|={7}|>{7}).*\n/gm, ''));
      git('add', '--', path);
    }
  }
  if (existsSync(join(git('rev-parse', '--absolute-git-dir'), 'MERGE_HEAD'))) git('commit', '-q', '--no-edit');
}

function answer(text: string): never {
  process.stdout.write(`${text}\n`);
  process.exit(0);
}

if (stepMs > 0) await pause(stepMs);
if (prompt.includes('cannot be merged') || prompt.includes('tests of ticket')) {
  mergeMain();
  EDITS[ticket]?.();
  commit();
  answer('It is mended.\nDONE');
}
switch (kind) {
  case 'dies':
    if (call === 2) process.exit(1);
    if (call === 1) answer('I looked around.');
    break;
  case 'hangs':
    if (call === 1) await pause(600_000);
    break;
  case 'never commits':
    EDITS[ticket]?.();
    answer('I never commit.\nDONE');
    break;
  case 'unchanged':
    if (call === 1) answer('DONE');
    break;
  case 'prose':
    if (call === 1) answer('I am DONE soon.\n```\nDONE\n```');
    break;
  case 'slow':
    if (call < 20) {
      write('progress.txt', `${call}\n`);
      answer(`Step ${call}.`);
    }
    rmSync(join(folder, 'progress.txt'), { force: true });
    break;
  default:
}
EDITS[ticket]?.();
commit();
answer('The ticket is finished.\nDONE');
