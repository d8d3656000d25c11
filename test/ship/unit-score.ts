import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { unitText } from '../../src/cli/service-unit.ts';
import type { UnitPlan } from '../../src/cli/service-unit.ts';

/** The unit that `conch service install --system` writes without other options. */
export const SYSTEM_PLAN: UnitPlan = {
  scope: 'system',
  command: [process.execPath, new URL('../../src/conch.js', import.meta.url).pathname, 'start'],
  folder: '/etc',
  dataDir: '/var/lib/conch',
  runAs: null,
  writable: [],
  allowsSandbox: false,
};

/** The result of `systemd-analyze` for a unit; `null` where the program is missing. */
export function analyzed(plan: UnitPlan, ...args: readonly string[]): { code: number | null; text: string } | null {
  const folder = mkdtempSync(join(tmpdir(), 'conch-unit-'));
  try {
    const file = join(folder, 'conch.service');
    writeFileSync(file, unitText(plan));
    const { error, status, stdout, stderr } = spawnSync('systemd-analyze', [...args, file], { encoding: 'utf8' });
    return error === undefined ? { code: status, text: `${stdout}${stderr}` } : null;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * The exposure of a unit by `systemd-analyze security`, from 0 (safest) to 10. `null` where the program is missing.
 * Default: the system unit as it is installed without other options.
 */
export function unitScore(plan: UnitPlan = SYSTEM_PLAN): number | null {
  const said = analyzed(plan, 'security', '--offline=true', '--no-pager');
  if (said === null) return null;
  const score = /exposure level for .*: ([\d.]+)/.exec(said.text)?.[1];
  if (score === undefined) throw new Error(`systemd-analyze security gave no score: ${said.text}`);
  return Number(score);
}
