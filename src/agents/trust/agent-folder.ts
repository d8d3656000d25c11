import { ACP_PROFILES } from '../backends/acp/acp-profiles.ts';
import { ALL_FILES } from './repository-files.ts';
import type { RepositoryFile } from './repository-files.ts';
import type { AgentConfig } from '../../config/config.ts';
import type { AgentFolder } from './folder-trust.ts';

/** The files of a profile that the agent obeys: those that Conch does not switch off. */
export function obeyedFiles(profile: keyof typeof ACP_PROFILES): readonly RepositoryFile[] {
  return ACP_PROFILES[profile].repositoryFiles.files.filter(({ offBy }) => offBy === undefined);
}

/**
 * The folder of a configured agent, and the files that it obeys there; `null` for an agent that runs in no folder of
 * this machine. An unknown program, and one of kind `command`, counts as obeying the files of every known agent.
 */
export function folderOf({ backend }: Pick<AgentConfig, 'backend'>): AgentFolder | null {
  if (backend.kind !== 'acp' && backend.kind !== 'command') return null;
  const files = backend.kind === 'acp' ? obeyedFiles(backend.profile) : ALL_FILES.files;
  return { cwd: backend.cwd ?? '.', files, home: backend.set['HOME'] };
}
