import assert from 'node:assert/strict';
import { expect, test } from 'vitest';
import { FolderTrust } from '../../src/agents/trust/folder-trust.ts';
import { createOperators } from '../../src/turns/commands/execute.ts';
import { searchFolders } from './folders.ts';

test('T72 starts no turn in a folder that is not trusted, in any order of changed files, answers, heartbeats and restarts', async () => {
  const { found, transitions } = await searchFolders({ FolderTrust, createOperators }, { depth: 4, first: false });
  expect(found).toEqual([]);
  assert(transitions > 1_000, `only ${transitions} transitions were searched`);
});
