import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { AbsentError } from '../../../src/agents/backends/backend.ts';
import { idOf, scanFolder } from '../../../src/agents/trust/folder-scan.ts';
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

test.each([
  ['a folder that cannot be listed', 'plugins/**', 'plugins: cannot be listed'],
  ['a file that cannot be read', 'plugins', 'plugins: a link to plugins, cannot be read'],
])('an agent beside %s is not started, also where earlier trust covers it', async (_, path, incomplete) => {
  const cwd = mkdtempSync(join(tmpdir(), 'conch-trust-'));
  onTestFinished(() => rmSync(cwd, { recursive: true }));
  // A link to itself can be neither listed nor read, not even by root.
  symlinkSync('plugins', join(cwd, 'plugins'));
  const files = [{ path, searched: 'folder', can: ['run'], note: 'runs it' }] as const;
  const { digest } = await scanFolder(cwd, files);
  const decision = { digest, choice: 'trusted', by: 'ann', at: 0, folder: cwd, files: ['plugins'] };
  const kept = [JSON.stringify([decision])];
  const trust = new FolderTrust({
    store: { recall: () => kept.at(-1) ?? null, remember: async (_owner, _name, text) => void kept.push(text) },
    clock: { now: () => 0 },
    timers: { after: () => ({ cancel: () => undefined }) },
  });
  const gate = trust.gateFor('dev', { cwd, files });
  const why = `Conch could not see everything that the agent would obey (${incomplete}). Make it readable`;
  await expect(gate.admit({ agent: 'dev', channel: 'console:one' })).rejects.toThrow(`is not trusted: ${why}`);
  const asked = { channel: 'console:demo', person: { id: 'ann', name: 'Ann', roles: [] } };
  const answer = await trust.trust('dev', idOf(digest ?? ''), asked);
  expect(answer).toEqual({ ok: false, text: expect.stringContaining(`Not done: ${why}`) });
  expect(kept).toHaveLength(1);
  expect(await trust.status('dev')).toContain(`not trusted. dev is not started there. ${why}`);
  rmSync(join(cwd, 'plugins'));
  await gate.admit({ agent: 'dev', channel: 'console:one' });
});
