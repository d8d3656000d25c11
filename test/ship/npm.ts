import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Options of an installation. */
export type InstallOptions = {
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
};

/** Installs packed files in a folder, preferably from npm's cache. Throws when npm warns about an engine. */
export function install(folder: string, files: readonly string[], { flags = [], env = {} }: InstallOptions = {}): void {
  mkdirSync(folder, { recursive: true });
  const args = ['install', '--prefer-offline', '--no-audit', '--no-fund', ...flags, ...files];
  const { status, stderr } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8', env: { ...process.env, ...env } });
  if (status !== 0 || /EBADENGINE/.test(stderr)) throw new Error(`npm ${args.join(' ')} failed:\n${stderr}`);
}

/** Makes an empty project folder. */
export function emptyProject(folder: string): string {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{}\n');
  return realpathSync(folder);
}

/** The packages in a folder: their size on disk in MB (1,000,000 bytes), and their number. */
export function installedSize(folder: string): { readonly installedMB: number; readonly packages: number } {
  const [kib = '0'] = execFileSync('du', ['-sk', join(folder, 'node_modules')], { encoding: 'utf8' }).split('\t');
  const args = ['ls', '--all', '--parseable'];
  const lines = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' }).stdout.trim().split('\n');
  return { installedMB: Math.round((Number(kib) * 1_024) / 1_000_000), packages: lines.length - 1 };
}

/** Deletes the installations that `npx` keeps for packed files of a folder. */
export function forgetRuns(folder: string): void {
  const cache = execFileSync('npm', ['config', 'get', 'cache'], { encoding: 'utf8' }).trim();
  for (const run of runsIn(join(cache, '_npx'))) {
    const { stdout } = spawnSync('npm', ['pkg', 'get', '_npx.packages'], { cwd: run, encoding: 'utf8' });
    if (stdout.includes(folder)) rmSync(run, { recursive: true, force: true });
  }
}

function runsIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).map((name) => join(folder, name));
  } catch {
    return [];
  }
}

/** The path of a program that npm linked in a folder. */
export function binOf(folder: string, name = 'conch'): string {
  return join(folder, 'node_modules/.bin', name);
}
