import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, expect, test } from 'vitest';
import { parseCall } from '../../src/cli/arguments.ts';
import { callOf } from './call.ts';
import { folderLines, listTrust, recordedTrust, revokeTrust, folderStanding } from '../../src/cli/agent-trust.ts';
import { examine } from '../../src/cli/doctor.ts';
import { FolderTrust } from '../../src/agents/trust/folder-trust.ts';
import { folderOf } from '../../src/agents/trust/agent-folder.ts';
import { systemClock, systemTimers } from '../../src/lib/time.ts';
import { databaseIn, openDataFolder } from '../../src/runtime/data-folder.ts';
import { createLog } from '../../src/runtime/log.ts';
import { databaseProblems } from '../../src/engine/sqlite/check.ts';
import { load } from '../config/world.ts';

const ROOM = mkdtempSync(`${tmpdir()}/conch-trust-cli-`);
afterAll(() => rmSync(ROOM, { recursive: true }));

const clock = systemClock();
const open = (dataDir: string) =>
  openDataFolder({ dataDir, clock, say: () => {}, textLimit: () => 1_000, words: () => null });

test('T72 conch agent trust lists decisions, also beside a running Conch, and revokes them', async () => {
  const site = `${ROOM}/site`;
  mkdirSync(`${site}/.codex`, { recursive: true });
  writeFileSync(`${site}/.codex/config.toml`, 'notify = ["./x"]');
  const config = {
    ...load({
      agents: [{ id: 'dev', backend: { kind: 'acp', profile: 'codex', command: '/no/such/program', cwd: site } }],
      channels: [{ id: 'console:demo', agents: ['dev'] }],
    }),
    dataDir: `${ROOM}/data`,
  };
  const [dev] = config.agents;
  const folder = dev === undefined ? null : folderOf(dev);
  if (dev === undefined || folder === null) throw new Error('dev runs in no folder');
  const log = createLog({ level: 'fatal', pretty: false, secrets: [], destination: { write() {} } });
  const started = async () => {
    const { findings } = await examine(() => config, { clock, timers: systemTimers, log });
    return findings
      .filter(({ what }) => what.startsWith('dev: '))
      .map(({ text }) => text)
      .join('\n');
  };
  expect(await folderLines(config)).toEqual([
    expect.stringMatching(/^dev: ⚠ Folder .*\.codex\/config\.toml \(\w{16}\): not trusted/),
  ]);
  expect(await started()).toContain('its folder is not trusted: .codex/config.toml');

  mkdirSync(config.dataDir);
  const store = open(config.dataDir);
  const trust = new FolderTrust({ store: store.keyValues, clock, timers: systemTimers });
  trust.gateFor('dev', folder);
  const asked = { channel: 'console:demo', person: { id: 'ann', name: 'Ann', roles: [] } };
  const shown = await trust.trust('dev', null, asked);
  expect([shown.ok, shown.text]).toEqual([false, expect.stringContaining('notify = ["./x"]')]);
  const [, id = ''] = /\/agent trust dev (\w{16})/.exec(shown.text) ?? [];
  expect((await trust.trust('dev', '0'.repeat(16), asked)).text).toContain('Not done');
  expect((await trust.trust('dev', id, asked)).ok).toBe(true);
  expect((await folderStanding(dev, recordedTrust(config)))?.decision?.by).toBe('ann');
  expect(await listTrust(config, false)).toMatch(/: trusted by ann, [^]*Decided:\ndev: trusted \w{16} by ann, /);
  expect(JSON.parse(await listTrust(config, true))).toMatchObject([{ agent: 'dev', choice: 'trusted' }]);
  expect(await started()).toContain('there is no program');

  await store.backupTo(`${ROOM}/copy.db`);
  expect(databaseProblems(`${ROOM}/copy.db`, [])).toEqual([]);
  expect((await revokeTrust(dev, store.keyValues)).text).toContain('Not trusted: Conch does not start dev there');
  await store.close();
  expect(databaseProblems(databaseIn(config), [])).toEqual([]);
  expect(await listTrust(config, false)).toMatch(/: refused by console:you, [^]*Decided:\ndev: left \w{16} by/);
});

test.each([
  ['agent trust list --json', 'agent trust list', [], true],
  ['agent trust revoke dev', 'agent trust revoke <id>', ['dev'], false],
])('T72 understands conch %s', (line, command, words, json) => {
  expect(callOf(line.split(' '))).toMatchObject({ row: { command }, words, options: { json } });
});

test('T72 agent trust without a verb lists its subcommands', () => {
  expect(parseCall(['agent', 'trust'])).toMatchObject({
    ok: false,
    message: expect.stringMatching(/^ +list .*^ +revoke <id> /ms),
  });
});
