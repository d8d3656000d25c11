import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Makes a Git repository as agents find it at work: with a commit, a branch, a remote and a changed file. Some agents ask in
 * an empty folder alone. Throws when Git fails, or is not there.
 */
export function makeRepository(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const git = (...args: readonly string[]): void =>
    void execFileSync('git', [...SETTINGS, ...args], {
      cwd: folder,
      env: environment(),
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  git('init', '--quiet', '--template=', '--initial-branch', 'main');
  writeFileSync(join(folder, FILE), 'An ordinary repository.\n');
  git('add', FILE);
  git('commit', '--quiet', '--message', 'Begin');
  git('checkout', '--quiet', '-b', 'work');
  git('remote', 'add', 'origin', 'https://git.invalid/check.git');
  writeFileSync(join(folder, FILE), 'An ordinary repository, with a change.\n');
}

/** Without the settings of the user and the machine: no hooks, no signatures. */
function environment(): Record<string, string> {
  const { PATH = '', HOME = '' } = process.env;
  return { PATH, HOME, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' };
}

const FILE = 'README.txt';
const SETTINGS = ['-c', 'user.name=check', '-c', 'user.email=check@invalid'];
