import { ACP_PROFILES } from '../backends/acp/acp-profiles.ts';
import { ALL_FILES } from './repository-files.ts';
import type { RepositoryFile } from './repository-files.ts';
import type { AgentConfig } from '../../config/config.ts';
import type { AgentFolder } from './folder-trust.ts';

/** The files of a profile that are not switched off. */
export function obeyedFiles(profile: keyof typeof ACP_PROFILES): readonly RepositoryFile[] {
  return ACP_PROFILES[profile].repositoryFiles.files.filter(({ offBy }) => offBy === undefined);
}

/**
 * Where an agent of the configuration is started, and what it obeys there; `null`: on no folder of this machine. A program that
 * nobody knows, also one of kind `command`, may be any of the known agents.
 */
export function folderOf({ backend }: Pick<AgentConfig, 'backend'>): AgentFolder | null {
  if (backend.kind !== 'acp' && backend.kind !== 'command') return null;
  const files = backend.kind === 'acp' ? obeyedFiles(backend.profile) : ALL_FILES.files;
  return { cwd: backend.cwd ?? '.', files, home: backend.set['HOME'] };
}
