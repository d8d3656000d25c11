import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { AbsentError } from '../../../src/agents/backends/backend.ts';
import { FolderTrust } from '../../../src/agents/trust/folder-trust.ts';

test('T72 starts an agent again in every channel once one channel finds the untrusted file deleted', async () => {
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

test('T72 a status of the folder does not delay the regular check', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'conch-trust-'));
  onTestFinished(() => rmSync(cwd, { recursive: true }));
  let at = 0;
  const trust = new FolderTrust({
    store: { recall: () => null, remember: async () => {} },
    // Each scan takes 10 ms, so that the next regular scan is due after 500 ms.
    clock: { now: () => (at += 10) },
    timers: { after: () => ({ cancel: () => undefined }) },
  });
  const gate = trust.gateFor('dev', {
    cwd,
    files: [{ path: 'x.json', searched: 'folder', can: ['run'], note: 'runs it' }],
  });
  const seat = { agent: 'dev', channel: 'console:one' };
  await gate.admit(seat);
  writeFileSync(join(cwd, 'x.json'), '{}');
  await gate.glance(seat);
  at += 500;
  await trust.status('dev');
  await expect(gate.glance(seat)).rejects.toThrow('its folder is not trusted');
});

test('a revocation without an id covers every version of the files; an answer with an id covers one version', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'conch-trust-'));
  onTestFinished(() => rmSync(cwd, { recursive: true }));
  const kept = new Map<string, string>();
  const trust = new FolderTrust({
    store: {
      recall: (_, name) => kept.get(name) ?? null,
      remember: async (_, name, text) => void kept.set(name, text),
    },
    clock: { now: () => 0 },
    timers: { after: () => ({ cancel: () => undefined }) },
  });
  trust.gateFor('dev', { cwd, files: [{ path: 'x.json', searched: 'folder', can: ['run'], note: 'runs it' }] });
  const asked = { channel: 'console:demo', person: { id: 'ann', name: 'Ann', roles: [] } };
  const choices = () => trust.book.of('dev').map(({ choice }) => choice);
  const version = async (text: string, answer: 'trust' | 'distrust') => {
    writeFileSync(join(cwd, 'x.json'), text);
    const [, id = ''] = /\((\w{16})\)/.exec((await trust.status('dev')) ?? '') ?? [];
    expect((await trust[answer]('dev', id, asked)).ok).toBe(true);
  };
  await version('one', 'trust');
  await version('other', 'distrust');
  expect(choices()).toEqual(['trusted', 'left']);
  await version('third', 'trust');
  expect((await trust.distrust('dev', null, asked)).ok).toBe(true);
  expect(choices()).toEqual(['left']);
  rmSync(join(cwd, 'x.json'));
  expect((await trust.distrust('dev', null, asked)).text).toContain('Revoked 1 decision(s) for dev');
  expect(choices()).toEqual([]);
});
