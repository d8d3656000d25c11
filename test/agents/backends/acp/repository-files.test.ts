import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { scanFolder } from '../../../../src/agents/trust/folder-scan.ts';
import { ACP_PROFILES } from '../../../../src/agents/backends/acp/acp-profiles.ts';
import type { AcpProfile } from '../../../../src/agents/backends/acp/acp-profiles.ts';
import { REAL_AGENTS } from '../../real/agents.ts';
import { HOSTILE_FILES, matchesOf, writeHostile } from '../../real/hostile-files.ts';

const { generic, ...named } = ACP_PROFILES;
const lists = Object.entries<AcpProfile>(named).map(([name, { repositoryFiles }]) => [name, repositoryFiles] as const);

describe('T72 the list of files that an agent obeys', () => {
  test.each(REAL_AGENTS)('of $profile was read from the release under test', (agent) => {
    expect(ACP_PROFILES[agent.profile].repositoryFiles.release).toBe(`${agent.package} ${agent.version}`);
  });

  test.each(lists)('of %s is not empty, and names relative paths, each once', (_name, { files }) => {
    const paths = files.map(({ path }) => path);
    expect(paths.length).toBeGreaterThan(0);
    expect(new Set(paths).size).toBe(paths.length);
    expect(paths.filter((path) => path.startsWith('/') || path.split('/').includes('..'))).toEqual([]);
    expect(files.filter(({ can, note }) => can.length === 0 || note === '')).toEqual([]);
  });

  test.each(REAL_AGENTS)('of $profile has a hostile file in the tests for each entry', ({ profile }) => {
    const tried = new Set(HOSTILE_FILES[profile].flatMap(({ path }) => matchesOf(profile, path)));
    const untried = ACP_PROFILES[profile].repositoryFiles.files.filter((file) => !tried.has(file));
    expect(untried.map(({ path }) => path)).toEqual([]);
  });

  test.each(REAL_AGENTS)('of $profile has all its files found in a folder', async ({ profile }) => {
    const folder = mkdtempSync(`${tmpdir()}/conch-test-`);
    const said = (name: string) => name;
    const listed = HOSTILE_FILES[profile].filter(({ path }) => matchesOf(profile, path).length > 0);
    try {
      writeHostile(folder, listed, { folder, shell: said, file: said, url: said });
      const { files } = await scanFolder(folder, ACP_PROFILES[profile].repositoryFiles.files);
      const missing = listed.filter(({ path }) => !files.some((file) => file.path === path));
      expect(missing.map(({ path }) => path)).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('of an unknown program is the union of all lists, and turns nothing off', () => {
    const paths = new Set(generic.repositoryFiles.files.map(({ path }) => path));
    expect(paths).toEqual(new Set(lists.flatMap(([, { files }]) => files.map(({ path }) => path))));
    expect(generic.repositoryFiles.files.filter(({ offBy }) => offBy !== undefined)).toEqual([]);
  });
});
