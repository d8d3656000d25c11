import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { runService, thisMachine } from '../../src/cli/service.ts';
import type { ServiceCall, ServiceWorld } from '../../src/cli/service.ts';
import { SYSTEMCTL_LIMIT_MS } from '../../src/cli/service-unit.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';

const CALL: ServiceCall = {
  verb: 'install',
  scope: 'user',
  runAs: null,
  writable: [],
  allowsSandbox: false,
  printsOnly: false,
};

/** A machine whose units and data are in a temporary folder. `calls`: the arguments of each call of systemctl. */
function machine(special: Partial<ServiceWorld> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'conch-service-'));
  chmodSync(folder, 0o755);
  const calls: string[] = [];
  const world: ServiceWorld = {
    uid: 1_000,
    command: ['/usr/bin/node', '/usr/lib/conch/conch.js', 'start'],
    cwd: folder,
    dataDir: join(folder, '.conch'),
    unitFolders: { system: join(folder, 'system'), user: join(folder, 'config/systemd/user') },
    isSystemd: true,
    systemctl: async (args) => {
      calls.push(args.join(' '));
      return { code: 0, text: '' };
    },
    ...special,
  };
  const unit = join(world.unitFolders.user, 'conch.service');
  return { folder, world, calls, unit, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
}

const refusal = (text: RegExp) => ({ ok: false, code: EXIT_CODES.refused, text: expect.stringMatching(text) });

test('the time limit of systemctl is longer than the time that the unit may take to stop and start', async () => {
  using place = machine();
  const { text } = await runService({ ...CALL, printsOnly: true }, place.world);
  const limitOf = (step: string) => Number(new RegExp(`^Timeout${step}Sec=(\\d+)$`, 'm').exec(text)?.[1]);
  expect(SYSTEMCTL_LIMIT_MS).toBeGreaterThan((limitOf('Stop') + limitOf('Start')) * 1_000);
});

describe('conch service install', () => {
  test('writes the unit, makes the data folder and starts the service', async () => {
    using place = machine();
    const { ok, text } = await runService(CALL, place.world);
    expect([ok, place.calls]).toEqual([
      true,
      ['--user daemon-reload', '--user enable conch.service', '--user restart conch.service'],
    ]);
    expect(text).toContain(`Unit: ${place.unit}. Data: ${place.world.dataDir}.`);
    expect(readFileSync(place.unit, 'utf8')).toContain('ExecStart=/usr/bin/node /usr/lib/conch/conch.js start\n');
    expect(existsSync(place.world.dataDir)).toBe(true);
  });

  test('replaces its own unit when it runs again with other options', async () => {
    using place = machine();
    await runService(CALL, place.world);
    const again = await runService({ ...CALL, writable: [place.folder] }, place.world);
    expect([again.ok, readFileSync(place.unit, 'utf8').includes(` ${place.folder}\n`)]).toEqual([true, true]);
  });

  test('prints the unit and changes nothing, also without systemd', async () => {
    using place = machine({ isSystemd: false });
    const { ok, text } = await runService({ ...CALL, scope: 'system', printsOnly: true }, place.world);
    expect([ok, text.includes('DynamicUser=yes'), place.calls]).toEqual([true, true, []]);
    expect(readdirSync(place.folder)).toEqual([]);
  });

  test('names the call of systemctl that failed, and the command for the log', async () => {
    using place = machine({
      systemctl: async (args) => ({ code: args.includes('restart') ? 1 : 0, text: 'timeout\n' }),
    });
    expect(await runService(CALL, place.world)).toMatchObject(
      refusal(/^systemctl restart conch\.service failed: timeout\. See: journalctl --user -u conch$/),
    );
  });

  const refused: readonly (readonly [string, Partial<ServiceCall>, Partial<ServiceWorld>, RegExp])[] = [
    ['there is no systemd', {}, { isSystemd: false }, /^systemd does not manage this machine/],
    [
      'a user asks for a service of the machine',
      { scope: 'system' },
      {},
      /^Only root may install or remove a service of the machine\. .*sudo/,
    ],
    ['npx runs it', {}, { command: ['/n', '/h/.npm/_npx/1/conch.js', 'start'] }, /^npx runs .*Install the packed file/],
    ['a folder is missing', { writable: ['/nowhere/x'] }, {}, /^There is no folder \/nowhere\/x\. Create it/],
    ['a path has a line break', {}, { cwd: '/a\nUser=root' }, /line break/],
    ['a user is named for a service of this user', { runAs: 'ann' }, {}, /^--run-as needs --system/],
    ['the user has no name', { scope: 'system', runAs: 'a b' }, { uid: 0 }, /"a b" is not a valid user name/],
  ];
  test.each(refused)('refuses in one line when %s', async (_when, call, world, says) => {
    using place = machine(world);
    const answer = await runService({ ...CALL, ...call }, place.world);
    expect(answer).toMatchObject(refusal(says));
    expect([answer.text.split('\n').length, place.calls, readdirSync(place.folder)]).toEqual([1, [], []]);
  });

  test('refuses a folder that the user of the service cannot enter', async () => {
    using place = machine({ uid: 0 });
    chmodSync(place.folder, 0o700);
    expect(await runService({ ...CALL, scope: 'system' }, place.world)).toMatchObject(
      refusal(new RegExp(`cannot enter ${place.folder}.*--run-as ann`)),
    );
  });

  test('refuses to replace or remove the unit of another installation, and names the installation', async () => {
    using place = machine();
    mkdirSync(place.world.unitFolders.user, { recursive: true });
    writeFileSync(place.unit, '[Service]\nExecStart=/old/node /old/conch.js start\n');
    for (const verb of ['install', 'uninstall'] as const) {
      const answer = await runService({ ...CALL, verb }, place.world);
      expect(answer).toMatchObject(refusal(/starts another Conch \(\/old\/node \/old\/conch\.js start\)/));
    }
    expect([readFileSync(place.unit, 'utf8').includes('/old/node'), place.calls]).toEqual([true, []]);
  });

  test.runIf(process.getuid?.() === 0)('refuses in one line when the user may not write the unit', () => {
    using place = machine();
    const program = `import { runService, thisMachine } from '${new URL('../../src/cli/service.ts', import.meta.url).pathname}';
      const systemctl = async () => ({ code: 0, text: '' });
      const world = { ...${JSON.stringify(place.world)}, systemctl };
      console.log((await runService(${JSON.stringify(CALL)}, world)).text);`;
    const args = ['--input-type=module-typescript', '--eval', program];
    const { stdout } = spawnSync(process.execPath, args, { uid: 10_001, gid: 10_001, encoding: 'utf8' });
    expect(stdout).toBe(`${place.folder} cannot be written by user 1000. Give this user write access.\n`);
  });
});

describe('conch service status', () => {
  const shown = (text: string) => machine({ systemctl: async () => ({ code: 0, text }) });
  const asked: ServiceCall = { ...CALL, verb: 'status' };

  test('says that there is no unit, and names the command that installs one', async () => {
    using place = machine();
    expect(await runService(asked, place.world)).toMatchObject(refusal(/^There is no unit .*conch service install$/));
    expect(await runService({ ...asked, scope: 'system' }, place.world)).toMatchObject(
      refusal(/^There is no unit .*conch service install --system$/),
    );
  });

  test('shows the last status that a running Conch reported', async () => {
    using place = shown('ActiveState=active\nSubState=running\nStatusText=serving\nMainPID=7\nNRestarts=2\n');
    await runService(CALL, place.world);
    const { ok, text } = await runService(asked, place.world);
    expect([ok, text.split('\n').slice(0, 2)]).toEqual([
      true,
      ['Conch is active (running, serving).', 'Process 7, restarted 2 times.'],
    ]);
  });

  test('explains the exit code of a Conch that ended', async () => {
    using place = shown('ActiveState=failed\nSubState=failed\nExecMainStatus=3\n');
    await runService(CALL, place.world);
    const { code, text } = await runService(asked, place.world);
    expect(code).toBe(EXIT_CODES.notRunning);
    expect(text).toContain('ended with code 3 (the configuration has problems; all are listed).');
  });
});

describe('conch service uninstall', () => {
  test('stops the service, deletes the unit and keeps the data', async () => {
    using place = machine();
    await runService(CALL, place.world);
    writeFileSync(join(place.world.dataDir, 'conch.db'), 'kept');
    place.calls.length = 0;
    const { ok, text } = await runService({ ...CALL, verb: 'uninstall' }, place.world);
    expect([ok, place.calls]).toEqual([true, ['--user disable --now conch.service', '--user daemon-reload']]);
    expect(text).toBe(`The service is removed. The data stays in ${place.world.dataDir}.`);
    expect([existsSync(place.unit), readFileSync(join(place.world.dataDir, 'conch.db'), 'utf8')]).toEqual([
      false,
      'kept',
    ]);
  });

  test('deletes nothing when systemd cannot stop the service', async () => {
    using place = machine();
    await runService(CALL, place.world);
    const world = { ...place.world, systemctl: async () => ({ code: 1, text: 'no bus' }) };
    expect(await runService({ ...CALL, verb: 'uninstall' }, world)).toMatchObject(
      refusal(/no bus\. Nothing was removed/),
    );
    expect(existsSync(place.unit)).toBe(true);
  });
});

test('conch service status works with a broken configuration', () => {
  using place = machine();
  writeFileSync(join(place.folder, 'turnConfig.json'), '{ broken');
  const launcher = new URL('../../src/conch.js', import.meta.url).pathname;
  const env = { ...process.env, XDG_CONFIG_HOME: join(place.folder, 'none') };
  const args = [launcher, 'service', 'status'];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: place.folder, env, encoding: 'utf8' });
  expect([status, stderr]).toEqual([EXIT_CODES.refused, expect.not.stringContaining('turnConfig.json')]);
});

test.each(['', 'relative'])('the units of a user are in the home folder when XDG_CONFIG_HOME is "%s"', (named) => {
  vi.stubEnv('XDG_CONFIG_HOME', named);
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(thisMachine('/data').unitFolders.user).toBe(join(homedir(), '.config/systemd/user'));
});
