import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CourseName, Script } from './courses.ts';

/** What a scripted worker is told, and where. `call`: the number of the prompt of its ticket, from 1. */
type Scene = {
  readonly folder: string;
  readonly ticket: string;
  readonly course: CourseName;
  readonly call: number;
  readonly prompt: string;
};

/** How a step of a scripted worker ends. */
export type Act =
  | { readonly do: 'say'; readonly text: string }
  | { readonly do: 'ask'; readonly question: string }
  | { readonly do: 'fail'; readonly why: string }
  | { readonly do: 'hang' };

/** The question that a worker asks people. */
export const QUESTION = 'Which number do you want?';
/** The file by which a person sees that a worker is in the middle of its work. */
export const HALF = 'half.txt';

/** The scene of this process, from the variables that the trial sets. Counts the prompt. */
export function sceneOf(prompt: string): Scene & { readonly stepMs: number } {
  const { CONCH_TICKET: ticket = '', CREW_STATE: state = '/tmp', CREW_STEP_MS: stepMs = '0' } = process.env;
  const script = JSON.parse(process.env['CREW_SCRIPT'] ?? '{}') as Script;
  mkdirSync(state, { recursive: true });
  appendFileSync(join(state, ticket), '.');
  const call = readFileSync(join(state, ticket), 'utf8').length;
  return { folder: process.cwd(), ticket, course: script[ticket] ?? 'works', call, prompt, stepMs: Number(stepMs) };
}

/**
 * Performs one step: changes the folder and says how the step ends. It looks at the tree and not at memory, so a step
 * that is repeated after a kill does no edit twice. Lists are kept in order, so the tickets lead to the same tree in any
 * order.
 */
export function performStep(scene: Scene): Act {
  const { prompt, course, call } = scene;
  const tree = treeIn(scene.folder);
  const isMending = prompt.includes('cannot be merged') || prompt.includes('The tests of ticket');
  const early = isMending ? null : EARLY[course]?.(call, tree, scene);
  if (early != null) return early;
  if (isMending) tree.mergeMain();
  (EDITS[scene.ticket] ?? listTalk)(tree);
  tree.commit(scene.ticket);
  return { do: 'say', text: 'The ticket is finished.\nDONE' };
}

type Tree = ReturnType<typeof treeIn>;

function treeIn(folder: string) {
  const git = (...args: readonly string[]): string =>
    execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  const read = (path: string): string =>
    existsSync(join(folder, path)) ? readFileSync(join(folder, path), 'utf8') : '';
  const write = (path: string, text: string): void => writeFileSync(join(folder, path), text);
  return {
    folder,
    git,
    read,
    write,
    remove: (path: string) => rmSync(join(folder, path), { force: true }),
    sources: () => readdirSync(join(folder, 'src')),
    commit(ticket: string): void {
      git('add', '-A');
      if (git('status', '--porcelain', '--untracked-files=no') !== '') git('commit', '-q', '-m', `Do ${ticket}`);
    },
    /** Merges main here, and keeps the lines of both sides; a file that one side deleted goes. */
    mergeMain(): void {
      spawnSync('git', ['-C', folder, 'merge', '--no-edit', 'main']);
      for (const path of git('-c', 'core.quotePath=false', 'diff', '--name-only', '--diff-filter=U').split('\n')) {
        if (path === '') continue;
        const text = read(path);
        if (!text.includes('<<<<<<<')) git('rm', '-q', '-f', '--', path);
        else {
          write(path, text.replaceAll(/^(?:<{7}|={7}|>{7}).*\n/gm, ''));
          git('add', '--', path);
        }
      }
      if (existsSync(join(git('rev-parse', '--absolute-git-dir'), 'MERGE_HEAD'))) git('commit', '-q', '--no-edit');
    },
  };
}

const say = (text: string): Act => ({ do: 'say', text });

/** What a course does before the ticket is finished; `null` when it goes on to finish it. */
const EARLY: Partial<Record<CourseName, (call: number, tree: Tree, scene: Scene) => Act | null>> = {
  prose: (call) => (call === 1 ? say('I am DONE soon.\n```\nDONE\n```') : null),
  quotes: (call) => (call === 1 ? say('The ticket says:\n> DONE') : null),
  dies(call) {
    if (call === 2) process.exit(1);
    return call === 1 ? say('I looked around.') : null;
  },
  hangs: (call) => (call === 1 ? { do: 'hang' } : null),
  limit: (call) => (call === 1 ? { do: 'fail', why: 'Usage limit reached: it resets in 20 s.' } : null),
  asks: (_call, _tree, { prompt }) => (prompt.includes(ANSWER) ? null : { do: 'ask', question: QUESTION }),
  unchanged: (call) => (call === 1 ? say('DONE') : null),
  'never commits'(_call, tree, { ticket }) {
    EDITS[ticket]?.(tree);
    return say('I never commit.\nDONE');
  },
  slow: (call, tree) => (call < 20 ? progress(call, tree) : ended(tree)),
  endless: (call, tree) => (call <= 20 ? progress(call, tree) : ended(tree)),
  killed(call, tree) {
    if (call > 1) return null;
    tree.write(HALF, 'half of the work\n');
    return { do: 'hang' };
  },
  vanishes(call, tree) {
    if (call > 1) return null;
    rmSync(tree.folder, { recursive: true, force: true });
    return say('I cleaned up.');
  },
  leaves() {
    const serve = `require('net').createServer().listen(${process.env['CONCH_PORT_BASE'] ?? '0'}, '127.0.0.1')`;
    // In a session of its own, it is in no process group that ends with the worker.
    spawn(process.execPath, ['-e', serve], { stdio: 'ignore', detached: true }).unref();
    return null;
  },
  meddles(_call, tree) {
    const path = '.tickets/t-01.md';
    tree.write(path, tree.read(path).replace('status: closed', 'status: open').concat('\nChanged by a worker.\n'));
    return null;
  },
};

/** What people answer to the question of a worker. */
export const ANSWER = 'Take the number that the tests want.';

function progress(call: number, tree: Tree): Act {
  tree.write('progress.txt', `${call}\n`);
  return say(`Step ${call}.`);
}

function ended(tree: Tree): null {
  tree.remove('progress.txt');
  return null;
}

/** Adds a line to those that a pattern finds, and sorts them. */
function addLine(tree: Tree, path: string, { pattern, line }: { readonly pattern: RegExp; readonly line: string }) {
  const lines = tree.read(path).split('\n');
  const found = lines.filter((each) => pattern.test(each));
  const at = lines.findIndex((each) => pattern.test(each));
  const others = lines.filter((each) => !pattern.test(each));
  others.splice(at === -1 ? 0 : at, 0, ...[...new Set([...found, line])].toSorted());
  tree.write(path, others.join('\n'));
}

function addToList(tree: Tree, word: string): void {
  addLine(tree, 'src/list.js', { pattern: /^ {2}'/, line: `  '${word}',` });
  addLine(tree, 'CHANGELOG.md', { pattern: /^- /, line: `- ${word}` });
}

/** The work of a ticket that was made of a message. */
function listTalk(tree: Tree): void {
  addToList(tree, 'talk');
}

/** The name that the widely imported module exports now. */
function named(tree: Tree): string {
  return tree.read('src/names.js').includes('newName') ? 'newName' : 'oldName';
}

const USES_HELPER = "import { helper } from './helper.js';\n\n";
const FOUR =
  "import { two } from './two.js';\nimport { three } from './three.js';\n\nexport const four = () => two() + three();\n";

const EDITS: Readonly<Record<string, (tree: Tree) => void>> = {
  't-01': ({ write }) => write('src/helper.js', 'export const helper = () => 1;\n'),
  't-02': ({ write }) => write('src/two.js', `${USES_HELPER}export const two = () => helper() + 1;\n`),
  't-03': ({ write }) => write('src/three.js', `${USES_HELPER}export const three = () => helper() + 2;\n`),
  't-04': ({ write }) => write('src/four.js', FOUR),
  't-05': (tree) => addToList(tree, 'five'),
  't-06': (tree) => addToList(tree, 'six'),
  't-07'({ sources, read, write }) {
    for (const name of sources()) {
      const text = read(`src/${name}`);
      if (text.includes('oldName')) write(`src/${name}`, text.replaceAll('oldName', 'newName'));
    }
  },
  't-08'(tree) {
    const name = named(tree);
    tree.write('src/caller.js', `import { ${name} } from './names.js';\n\nexport const caller = () => ${name}();\n`);
  },
  't-09': (tree) => addLine(tree, 'src/same.js', { pattern: /^export/, line: 'export const nine = 1;' }),
  't-10': (tree) => addLine(tree, 'src/same.js', { pattern: /^export/, line: 'export const ten = 1;' }),
  't-11': ({ remove }) => remove('src/legacy.js'),
  't-12'({ read, write }) {
    if (read('src/legacy.js') !== '') write('src/legacy.js', "export const legacy = () => 'changed';\n");
    write('src/modern.js', "export const modern = () => 'changed';\n");
  },
};
