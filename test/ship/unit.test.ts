import { describe, expect, test } from 'vitest';
import { RESTART_CANNOT_HELP } from '../../src/runtime/exit-codes.ts';
import { commandLine, dataDirIn, unitText } from '../../src/cli/service-unit.ts';
import type { UnitPlan } from '../../src/cli/service-unit.ts';
import { SYSTEM_PLAN, analyzed, unitScore } from './unit-score.ts';

const USER_PLAN: UnitPlan = { ...SYSTEM_PLAN, scope: 'user', dataDir: '/srv/my data', writable: ['/srv/100% "a"'] };
const PLANS: readonly (readonly [string, UnitPlan])[] = [
  ['of the machine', SYSTEM_PLAN],
  ['of the machine for an existing user', { ...SYSTEM_PLAN, runAs: 'daemon', writable: ['/srv'] }],
  ['of the machine with the sandbox', { ...SYSTEM_PLAN, allowsSandbox: true }],
  ['of a user', USER_PLAN],
  ['of a user with the sandbox', { ...USER_PLAN, allowsSandbox: true }],
];
const isAnalyzed = analyzed(SYSTEM_PLAN, 'verify') !== null;

describe.runIf(isAnalyzed)('systemd-analyze', () => {
  test.each(PLANS)('finds no fault in the unit %s', (_whose, plan) => {
    expect(analyzed(plan, 'verify', '--man=no')).toEqual({ code: 0, text: '' });
  });

  test('finds the fault in a unit whose program does not exist', () => {
    expect(analyzed({ ...SYSTEM_PLAN, command: ['/nowhere/node'] }, 'verify', '--man=no')?.code).not.toBe(0);
  });

  test('gives the system unit at most 3.0 points of exposure, with the sandbox at most 4.0', () => {
    expect(unitScore()).toBeLessThanOrEqual(3);
    expect(unitScore({ ...SYSTEM_PLAN, allowsSandbox: true })).toBeLessThanOrEqual(4);
  });
});

describe('a unit', () => {
  test("has the program's exit codes after which no restart helps", () => {
    expect(unitText(SYSTEM_PLAN)).toContain(`RestartPreventExitStatus=${RESTART_CANNOT_HELP.join(' ')}\n`);
    expect(RESTART_CANNOT_HELP).toEqual([2, 3, 5, 7, 11]);
  });

  test.each(PLANS)('%s has a watchdog, protections, and more time to stop than Conch takes', (_whose, plan) => {
    const lines = unitText(plan).split('\n');
    const wanted = ['Type=notify', 'ProtectSystem=strict', 'NoNewPrivileges=yes', 'PrivateTmp=yes', 'KillMode=mixed'];
    expect(lines).toEqual(expect.arrayContaining([...wanted, 'WatchdogSec=30', 'TimeoutStopSec=30']));
  });

  test('allows bubblewrap namespaces and mounts only when an option asks for it', () => {
    const [strict, open] = [unitText(SYSTEM_PLAN), unitText({ ...SYSTEM_PLAN, allowsSandbox: true })];
    for (const line of [
      'RestrictNamespaces=yes',
      'ProtectKernelTunables=yes',
      'ProtectKernelLogs=yes',
      'ProtectProc=invisible',
    ]) {
      expect([strict.includes(line), open.includes(line)]).toEqual([true, false]);
    }
    expect(open).toContain('SystemCallFilter=@system-service @mount\n');
  });

  test('quotes characters that systemd would split or replace', () => {
    expect(commandLine({ command: ['/a b/node', '/100%/$x/conch.js', 'start'] })).toBe(
      'ExecStart="/a b/node" "/100%%/$$x/conch.js" start',
    );
    expect(unitText(USER_PLAN)).toContain('Environment="CONCH_DATA_DIR=/srv/my data"\n');
    expect(unitText(USER_PLAN)).toContain('ReadWritePaths="/srv/my data" "/srv/100%% \\"a\\""\n');
  });

  test.each([['/var/lib/conch'], ['/srv/my data'], ['/100%/"a"\\b']])('gives the data folder as %s', (dataDir) => {
    expect(dataDirIn(unitText({ ...SYSTEM_PLAN, dataDir }))).toBe(dataDir);
    expect(dataDirIn('[Service]\n')).toBe(null);
  });
});
