import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { markedProcesses } from '../../../lib/marked-processes.ts';
import type { MarkedProcess } from '../../../lib/marked-processes.ts';
import { BASE_RUN } from '../checks/slots.ts';
import type { Crew } from '../crew.ts';
import { listStoredWork } from './kept.ts';
import { mainState } from './merge.ts';
import { unless } from './repository.ts';
import type { Repository } from './repository.ts';
import { listWorktrees } from './worktrees.ts';

/**
 * Compares git and the machine with the state of the crew: worktrees, branches of workers, folders, processes, stored
 * and waiting work. Returns one text for each difference. Repairs nothing. Finds processes on Linux only. `folder`: the
 * folder of the worktrees. `integration`: the worktree that no worker has. `marks`: the prefix of `CONCH_RUN` in the
 * crew's processes.
 */
export async function checkRepository(
  repository: Repository,
  { workers, kept: storedWork, branches: toGoOn = [] }: Pick<Crew, 'workers' | 'kept' | 'branches'>,
  { folder, integration, marks }: { readonly folder: string; readonly integration: string; readonly marks: string },
): Promise<readonly string[]> {
  const { git } = repository;
  const held = workers.flatMap(({ name, ticket, prepared }) => (ticket === null ? [] : [{ name, ticket, prepared }]));
  const registered = (await listWorktrees(repository)).filter((one) => dirname(one.folder) === folder);
  const places = workers.flatMap(({ ticket, left }) => [ticket, left].flatMap((each) => each ?? []));
  const knownFolders = new Set([integration, ...places.map(({ worktree }) => worktree)]);
  const branches = (await git(['for-each-ref', '--format=%(refname:short)', 'refs/heads/agent/'])).split('\n');
  const problems = [
    ...held
      .filter(({ prepared, ticket }) => prepared && !existsSync(join(ticket.worktree, '.git')))
      .map(({ name, ticket }) => `The worktree of ${name} is missing: ${ticket.worktree}.`),
    ...registered
      .filter((one) => !knownFolders.has(one.folder))
      .map((one) => `A worktree belongs to no worker: ${one.folder}. To remove it: git worktree remove ${one.folder}`),
    ...(await strangersIn(folder, new Set([...knownFolders, ...registered.map((one) => one.folder)]))).map(
      (path) => `A folder is no worktree: ${path}. Conch leaves it alone.`,
    ),
  ];
  const used = new Set(['', ...[...places, ...toGoOn].map(({ branch }) => branch)]);
  for (const branch of branches.filter((name) => !used.has(name))) {
    const count = (await unless(128, git(['rev-list', '--count', branch, `^${repository.main}`])))?.trim() ?? '?';
    problems.push(`A branch belongs to no worker: ${branch}, with ${count} commits that ${repository.main} lacks.`);
  }
  const runs = new Set([BASE_RUN, ...held.map(({ ticket }) => ticket.session)].map((run) => `${marks}${run}`));
  for (const found of markedProcesses()) {
    const isOurs = found.mark.startsWith(marks) || `${found.folder}/`.startsWith(`${folder}/`);
    if (isOurs && !runs.has(found.mark)) problems.push(strayWords(found));
  }
  const stored = new Set((await listStoredWork(repository)).map(({ ref }) => ref));
  const recordedRefs = new Set(storedWork.map(({ ref }) => ref));
  for (const ref of recordedRefs)
    if (!stored.has(ref)) problems.push(`Stored work is gone, and nobody dropped it: ${ref}.`);
  for (const ref of stored)
    if (!recordedRefs.has(ref))
      problems.push(`Stored work belongs to no ticket of the crew: ${ref}. /crew kept shows it.`);
  const { main, tip, hasDiverged } = await mainState(repository);
  if (hasDiverged)
    problems.push(
      `${repository.main} and the merged work each have commits that the other lacks. Run: git merge refs/conch/main`,
    );
  else if (main !== tip)
    problems.push(`Merged work waits for your copy. To take it: git merge --ff-only refs/conch/main`);
  return problems;
}

function strayWords({ pid, command, folder }: MarkedProcess): string {
  return `A process belongs to no ticket: ${pid} (${command.slice(0, 80)}) in ${folder}. To end it: kill ${pid}`;
}

async function strangersIn(folder: string, knownFolders: ReadonlySet<string>): Promise<readonly string[]> {
  const names = await readdir(folder).catch(() => [] as string[]);
  return names.map((name) => join(folder, name)).filter((path) => !knownFolders.has(path));
}
