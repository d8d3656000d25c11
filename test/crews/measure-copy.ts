import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { portsInUse, slotEnvironment } from '../../src/work/crews/checks/slots.ts';
import { CANARY, CREW, git } from '../../examples/crew/repository.ts';

/** The parts of the user's copy that a crew never changes. */
export function copyOf(repo: string): Readonly<Record<string, string>> {
  return {
    branch: git(repo, 'symbolic-ref', 'HEAD'),
    dirtyFile: readFileSync(join(repo, 'notes.txt'), 'utf8'),
    status: git(repo, 'status', '--porcelain', '--untracked-files=all'),
    index: git(repo, 'diff', '--cached', '--raw'),
    stash: git(repo, 'stash', 'list', '--format=%H'),
    config: readFileSync(join(repo, '.git/config'), 'utf8'),
    hooks: filesIn(join(repo, '.git/hooks')) + filesIn(join(repo, '.hooks')),
    env: readFileSync(join(repo, '.env'), 'utf8'),
  };
}

function filesIn(folder: string): string {
  return JSON.stringify(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
}

/** The number of data files with the canary, plus 1 if an object of git has it. */
export function canariesIn(repo: string, dataDir: string): number {
  const objects = execFileSync('git', ['-C', repo, 'cat-file', '--batch-all-objects', '--batch'], { maxBuffer: 1e9 });
  const files = readdirSync(dataDir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const found = files.filter(({ parentPath, name }) => readFileSync(join(parentPath, name)).includes(CANARY));
  return found.length + Number(objects.includes(CANARY));
}

/** What a crew left behind: worktrees, branches and folders of workers, processes in them, and used ports. */
export async function leftOf(repo: string, slots: number): Promise<readonly string[]> {
  const worktrees = git(repo, 'worktree', 'list', '--porcelain').match(/^worktree .*$/gm) ?? [];
  const branches = git(repo, 'branch', '--list', 'agent/*', '--format=%(refname:short)').split('\n');
  const folders = readdirSync(repo).includes('agents') ? readdirSync(join(repo, 'agents')) : [];
  // A killed process needs a moment to end, and another program may test whether a port is free.
  for (let times = 0; times < 20 && [...processesIn(repo), ...(await portsOf(slots))].length > 0; times += 1)
    await pause(100);
  const used = await portsOf(slots);
  return [...worktrees.slice(1), ...branches, ...folders, ...processesIn(repo), ...used].filter((each) => each !== '');
}

/** Used first ports of the slots. Only those count, because any program may get another port by chance. */
async function portsOf(slots: number): Promise<readonly string[]> {
  const used = await Promise.all(Array.from({ length: slots }, (_, slot) => portsInUse(CREW, slot)));
  const isFirst = (port: number, slot: number) => String(port) === slotEnvironment(CREW, slot)['CONCH_PORT_BASE'];
  return used.flatMap((ports, slot) => ports.filter((port) => isFirst(port, slot)).map((port) => `port ${port}`));
}

/** Processes whose working folder is or was in the repository. */
function processesIn(repo: string): readonly string[] {
  return readdirSync('/proc').flatMap((id) => {
    try {
      const folder = readlinkSync(`/proc/${id}/cwd`);
      if (!folder.startsWith(`${repo}/`) && folder !== repo) return [];
      return [`process ${id} ${readFileSync(`/proc/${id}/cmdline`, 'utf8').replaceAll('\0', ' ')}`];
    } catch {
      return [];
    }
  });
}
