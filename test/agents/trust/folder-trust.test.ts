import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { AbsentError } from '../../../src/agents/backends/backend.ts';
import { FolderTrust } from '../../../src/agents/trust/folder-trust.ts';

test('T72 starts an agent again in every channel once one channel found the file deleted', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'conch-trust-'));
  onTestFinished(() => rmSync(cwd, { recursive: true }));
  mkdirSync(join(cwd, '.claude'));
  writeFileSync(join(cwd, '.claude/settings.json'), '{}');
  const trust = new FolderTrust({
    store: { recall: () => null, remember: async () => {} },
    clock: { now: () => 0 },
    // The regular scans never run.
    timers: { after: () => ({ cancel: () => undefined }) },
  });
  const gate = trust.gateFor('dev', {
    cwd,
    files: [{ path: '.claude/settings.json', searched: 'folder', can: ['run'], note: 'runs it' }],
  });
  const refusal: unknown = await gate.admit({ agent: 'dev', channel: 'console:one' }).catch((error: unknown) => error);
  if (!(refusal instanceof AbsentError)) throw new Error('The agent was let in beside an untrusted file.');
  let isWoken = false;
  void refusal.returns.then(() => (isWoken = true));
  rmSync(join(cwd, '.claude/settings.json'));
  await gate.admit({ agent: 'dev', channel: 'console:two' });
  expect(isWoken).toBe(true);
});
