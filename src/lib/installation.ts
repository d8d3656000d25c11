import { existsSync, readFileSync } from 'node:fs';
import { findPackageJSON } from 'node:module';
import { basename, dirname, extname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Timer, Timers } from './time.ts';

/**
 * How this Conch is installed. `repository`: its source, run by Node as it is. `project`: a package in the folder of a
 * project. `npx`: a package in the cache from which `npx` runs programs. `global`: a package in any other folder, such
 * as npm's folder for the whole machine.
 */
type InstallationKind = 'repository' | 'project' | 'npx' | 'global';

type Installation = { readonly folder: string; readonly kind: InstallationKind };

/** Returns the installation that a file of Conch, given by its URL, belongs to. */
export function installationOf(file: string = import.meta.url): Installation {
  const folder = fileURLToPath(new URL('../..', file)).replace(/[\\/]$/, '');
  if (extname(file) === '.ts') return { folder, kind: 'repository' };
  const packages = dirname(folder);
  if (basename(packages) !== 'node_modules') return { folder, kind: 'global' };
  const project = dirname(packages);
  if (basename(dirname(project)) === '_npx') return { folder, kind: 'npx' };
  return { folder, kind: existsSync(join(project, 'package.json')) ? 'project' : 'global' };
}

const HERE = installationOf();

/**
 * Returns the command line that runs a command of Conch in this installation, such as `npx conch open`. Default: the
 * command `start`.
 */
export function conchCommand(words = 'start', { kind }: Pick<Installation, 'kind'> = HERE): string {
  if (kind === 'global') return `conch ${words}`;
  if (kind !== 'repository') return `npx conch ${words}`;
  return words === 'start' ? 'npm start' : `npm run conch -- ${words}`;
}

/**
 * The command line that adds packages to this installation. In the repository, it installs all packages. For npx, it
 * installs Conch with the packages in the current folder.
 */
export function installCommand(packages: readonly string[], here: Installation = HERE): string {
  const names = packages.join(' ');
  switch (here.kind) {
    case 'repository':
      return 'npm install';
    case 'project':
      return `npm install ${names}`;
    case 'global':
      return `npm install --global ${names}`;
    case 'npx':
      return `npm install ${sourceOf(here)} ${names}`;
  }
}

/** Returns what npx installed Conch from: the path of a packed file, or `conch@` with the version. */
function sourceOf(here: Installation): string {
  const project = dirname(dirname(here.folder));
  const [, file] = /"conch": "file:([^"]+)"/.exec(readFileSync(join(project, 'package.json'), 'utf8')) ?? [];
  return file === undefined ? `conch@${versionIn(readManifest(here))}` : resolve(project, file);
}

/**
 * The path of a program of Conch in the folder of a file that is given by its URL. The program has the same ending as
 * that file: `.ts` in the repository, `.js` in the package.
 */
export function programBeside(name: string, file: string): string {
  return fileURLToPath(new URL(`${name}${extname(file)}`, file));
}

/** Whether Conch can find a package. */
export function isInstalled(name: string): boolean {
  try {
    return findPackageJSON(name, import.meta.url) !== undefined;
  } catch {
    return false;
  }
}

/** The text of an installation's `package.json` as it is now. Throws when it cannot be read. */
export function readManifest({ folder }: Pick<Installation, 'folder'> = HERE): string {
  return readFileSync(join(folder, 'package.json'), 'utf8');
}

const UNKNOWN = 'unknown';

/** The version in a `package.json`; `unknown` when there is none. */
export function versionIn(manifest: string): string {
  return /"version": "([^"]+)"/.exec(manifest)?.[1] ?? UNKNOWN;
}

/**
 * Checks once a minute whether another version was installed in the place of the running one. Calls `told` once, with
 * both versions. Cancel the timer to stop.
 */
export function watchVersion(
  { timers, told }: { readonly timers: Timers; readonly told: (from: string, to: string) => void },
  here: Installation = HERE,
): Timer {
  const first = versionIn(readManifest(here));
  const look = (): void => {
    const now = installedVersion(here);
    if (now === null || now === first) timer = timers.after(LOOK_MS, look);
    else told(first, now);
  };
  let timer = timers.after(LOOK_MS, look);
  return { cancel: () => timer.cancel() };
}

const LOOK_MS = 60_000;

/** The version on disk; `null` when it cannot be read, as while npm replaces the files. */
function installedVersion(here: Installation): string | null {
  try {
    const version = versionIn(readManifest(here));
    return version === UNKNOWN ? null : version;
  } catch {
    return null;
  }
}
