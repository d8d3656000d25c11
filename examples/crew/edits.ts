import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GIT_ENVIRONMENT } from './repository.ts';

/** A worktree of the shop, for a worker's changes. */
export type Tree = ReturnType<typeof treeIn>;

/** Opens the worktree in a folder. */
export function treeIn(folder: string) {
  const git = (...args: readonly string[]): string =>
    execFileSync('git', ['-C', folder, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      env: GIT_ENVIRONMENT,
    }).trim();
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
    /** Commits everything, if anything changed. */
    commit(subject: string): void {
      git('add', '-A');
      if (git('status', '--porcelain', '--untracked-files=no') !== '') git('commit', '-q', '-m', subject);
    },
    /** Merges main here, and keeps the lines of both sides. Deletes a file that one side deleted. */
    mergeMain(): void {
      spawnSync('git', ['-C', folder, 'merge', '--no-edit', 'main'], { env: GIT_ENVIRONMENT });
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

/** Returns the change for a ticket. Applying it again changes nothing. `answer`: people's number for t-01. */
export function editFor(ticket: string): (tree: Tree, answer?: string) => void {
  return EDITS[ticket] ?? listTalk;
}

/** Adds a line to the lines that match a pattern, and sorts them. */
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

/** The work of the ticket that is made of a message. */
function listTalk(tree: Tree): void {
  addToList(tree, 'talk');
}

/** The present name of the export of the widely imported module. */
function named(tree: Tree): string {
  return tree.read('src/names.js').includes('newName') ? 'newName' : 'oldName';
}

const USES_HELPER = "import { helper } from './helper.js';\n\n";
const FOUR =
  "import { two } from './two.js';\nimport { three } from './three.js';\n\nexport const four = () => two() + three();\n";

/** The changes of the twelve tickets. Lists stay sorted, so any order of changes gives the same tree. */
const EDITS: Readonly<Record<string, (tree: Tree, answer?: string) => void>> = {
  't-01'({ read, write }, answer) {
    if (answer !== undefined || read('src/helper.js') === '')
      write('src/helper.js', `export const helper = () => ${answer ?? '1'};\n`);
  },
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
