import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach } from 'vitest';
import { keptCopy } from './kept-copy.ts';
import { openRepository } from '../../../../src/work/crews/git/repository.ts';
import type { Repository, RepositoryOptions } from '../../../../src/work/crews/git/repository.ts';

/** A repository in a temporary folder, and functions that act as its user. */
export type Scene = {
  /** The folder of the test. The repository is in it. */
  readonly home: string;
  readonly root: string;
  readonly env: Record<string, string>;
  /** Runs git in the user's copy and returns trimmed output. */
  readonly git: (...args: readonly string[]) => string;
  readonly gitIn: (folder: string, ...args: readonly string[]) => string;
  readonly write: (path: string, text: string) => void;
  /** Writes a file, commits all, returns the commit. */
  readonly commit: (path: string, text: string, folder?: string) => string;
  readonly open: (options?: Partial<RepositoryOptions>, path?: string) => Promise<Repository>;
  /** Puts a program named git before the real one. `body`: lines of sh; `$GIT` is the real git. */
  readonly shim: (body: string) => Record<string, string>;
};

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

/** A copy of the first scene. Later scenes are copies of it: copying takes less time than six starts of git. */
let begun: string | null = null;

/** Makes a repository with one commit on main. It is removed after the test. */
export function scene(): Scene {
  const home = mkdtempSync(join(tmpdir(), 'conch-crew ü-'));
  cleanUps.push(() => rmSync(home, { recursive: true, force: true }));
  const root = join(home, 'repo');
  const env = { PATH: process.env['PATH'] ?? '', HOME: home };
  const gitIn = (folder: string, ...args: readonly string[]): string =>
    execFileSync('git', ['-C', folder, ...args], {
      encoding: 'utf8',
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    }).trimEnd();
  const git = (...args: readonly string[]): string => gitIn(root, ...args);
  const commit = (path: string, text: string, folder = root): string => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
    gitIn(folder, 'add', '--all');
    gitIn(folder, 'commit', '--quiet', '-m', `Change ${path}`);
    return gitIn(folder, 'rev-parse', 'HEAD');
  };
  if (begun === null) {
    mkdirSync(root);
    git('init', '--quiet', '--initial-branch', 'main');
    git('config', '--global', 'user.name', 'Ann');
    git('config', '--global', 'user.email', 'ann@localhost');
    commit('a.txt', '1\n2\n3\n4\n5\n6\n7\n8\n');
    begun = keptCopy(home);
  } else cpSync(begun, home, { recursive: true });
  return {
    home,
    root,
    env,
    git,
    gitIn,
    commit,
    write: (path, text) => {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    },
    open: async (options = {}, path = root) => {
      const repository = await openRepository(path, { main: 'main', env, ...options });
      cleanUps.unshift(() => repository.release());
      return repository;
    },
    shim: (body) => {
      const real = execFileSync('which', ['git'], { encoding: 'utf8' }).trim();
      mkdirSync(join(home, 'bin'), { recursive: true });
      writeFileSync(join(home, 'bin/git'), `#!/bin/sh\nGIT='${real}'\n${body}\n`);
      chmodSync(join(home, 'bin/git'), 0o755);
      return { ...env, PATH: `${join(home, 'bin')}:${env.PATH}` };
    },
  };
}
