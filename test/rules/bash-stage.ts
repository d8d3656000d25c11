import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { WorkPlace } from '../../src/rules/paths.ts';
import { FAKE_DEEDS, FAKE_PROGRAMS, REAL_PROGRAMS } from './programs.ts';

/** The effects of a command that real Bash ran. */
export type Done = {
  /** The names of the fakes that were started. `evil.sh` is another person's script. */
  readonly ran: readonly string[];
  /** Files that were created, changed or deleted, as paths below the folder. */
  readonly wrote: readonly string[];
};

/** A temporary folder where real Bash runs commands, with real programs that read or write and fakes of all others. */
export type BashStage = {
  readonly place: WorkPlace;
  run(command: string): Done;
  close(): void;
};

/** Makes the folder: a repository with a commit, a bare one that starts a script, and links to `.git/hooks`. */
export function openStage(): BashStage {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'conch-rules-')));
  const [bin, fresh, work, log] = ['bin', 'fresh', 'work', 'log'].map((name) => join(root, name));
  if (bin === undefined || fresh === undefined || work === undefined || log === undefined)
    throw new Error('impossible');
  makePrograms(bin, log);
  const env = {
    PATH: bin,
    HOME: root,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_AUTHOR_NAME: 'a',
    GIT_AUTHOR_EMAIL: 'a@example.org',
    GIT_COMMITTER_NAME: 'a',
    GIT_COMMITTER_EMAIL: 'a@example.org',
    LC_ALL: 'C',
  };
  const bash = (command: string, cwd: string): void =>
    void spawnSync('/bin/bash', ['-c', command], { cwd, env, input: 'x\n', timeout: 3_000, killSignal: 'SIGKILL' });
  makeFolder(fresh, log, bash);
  const renew = (): Snapshot => {
    rmSync(work, { recursive: true, force: true });
    cpSync(fresh, work, { recursive: true, verbatimSymlinks: true });
    bash('git update-index --refresh', work);
    return snapshot(work);
  };
  let before = renew();
  return {
    place: { folder: work, home: root, realpath: followed, namesIn },
    run: (command) => {
      writeFileSync(log, '');
      bash(command, work);
      const after = snapshot(work);
      const paths = [...new Set([...before.keys(), ...after.keys()])];
      const wrote = paths.filter((path) => before.get(path) !== after.get(path));
      const ran = [...new Set(readFileSync(log, 'utf8').split('\n').filter(Boolean))];
      if (wrote.length > 0) before = renew();
      return { ran, wrote };
    },
    close: () => rmSync(root, { recursive: true, force: true, maxRetries: 5 }),
  };
}

function makePrograms(bin: string, log: string): void {
  mkdirSync(bin);
  for (const name of FAKE_PROGRAMS) {
    const file = join(bin, name);
    writeFileSync(file, `#!/bin/sh\necho '${name}' >> ${log}\n${deedsOf(name)}`);
    chmodSync(file, 0o755);
  }
  for (const name of REAL_PROGRAMS) {
    const found = spawnSync('/bin/sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim();
    if (found.startsWith('/')) symlinkSync(found, join(bin, name));
  }
}

function deedsOf(name: string): string {
  const deed = FAKE_DEEDS[name];
  return deed === undefined ? '' : `last=\nfor w in "$@"; do ${deed}; last=$w; done 2> /dev/null\n`;
}

type Snapshot = ReadonlyMap<string, string>;

/** Each file with its content or the time of its change, without git's index, which reading commands refresh. */
function snapshot(folder: string, below = ''): Snapshot {
  const all = new Map<string, string>();
  for (const name of readdirSync(join(folder, below))) {
    const path = below === '' ? name : `${below}/${name}`;
    if (path === '.git/index' || path === '.git/index.lock') continue;
    const { mode, size, mtimeMs } = lstatSync(join(folder, path));
    const isFolder = (mode & 0o170_000) === 0o040_000;
    const isLink = (mode & 0o170_000) === 0o120_000;
    all.set(path, isFolder ? `${mode}` : isLink ? readlinkSync(join(folder, path)) : `${mode} ${size} ${mtimeMs}`);
    if (isFolder) for (const [inner, state] of snapshot(folder, path)) all.set(inner, state);
  }
  return all;
}

/** A signed commit: git starts the program that verifies it when a command shows the signature. */
const SIGNED = String.raw`tree=$(git write-tree)
printf 'tree %s\nauthor a <a@example.org> 1 +0000\ncommitter a <a@example.org> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\nm\n' "$tree" > .git/signed
git update-ref HEAD "$(git hash-object -t commit -w .git/signed)"`;

function makeFolder(folder: string, log: string, bash: (command: string, cwd: string) => void): void {
  mkdirSync(join(folder, 'src', 'deep'), { recursive: true });
  for (const file of ['a', 'b', 'src/a', 'src/b.ts', 'src/deep/c']) writeFileSync(join(folder, file), `${file}\nx\n`);
  for (const name of ['evil.sh', 'other.sh']) {
    writeFileSync(join(folder, name), `#!/bin/sh\necho ${name} >> ${log}\n`);
    chmodSync(join(folder, name), 0o755);
  }
  bash(`git init -q && git add a b src evil.sh && ${SIGNED}`, folder);
  // The folder that a `PATH` of one number, such as a count of letters, leads to.
  mkdirSync(join(folder, '5'));
  cpSync(join(folder, 'evil.sh'), join(folder, '5', 'ls'));
  mkdirSync(join(folder, '.git', 'hooks'), { recursive: true });
  bash('git clone -q --bare . bare && cp .git/index bare/index', folder);
  const config = `[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = ${join(folder, 'evil.sh')}\n`;
  writeFileSync(join(folder, 'bare', 'config'), config);
  for (const [name, target] of [
    ['@k', '.git/hooks'],
    ['kept', '.git/hooks'],
    ['src/out', '../.git/hooks'],
  ] as const) {
    symlinkSync(target, join(folder, name));
  }
}

function followed(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
