import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ROOT } from '../../ship/stage.ts';

/**
 * Unpacks a packed `conch` into the `node_modules` of a folder, with links to its named dependencies and to no other
 * package. Returns the folder of the package. Needs no registry.
 */
export function unpack(file: string, folder: string): string {
  const packages = join(folder, 'node_modules');
  const own = join(packages, 'conch');
  mkdirSync(own, { recursive: true });
  execFileSync('tar', ['-xzf', file, '-C', own, '--strip-components', '1']);
  for (const name of Object.keys(manifestOf(own).dependencies)) {
    mkdirSync(dirname(join(packages, name)), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', name), join(packages, name));
  }
  return own;
}

/** The generated `package.json` of an unpacked package. */
export type PackedManifest = {
  readonly name: string;
  readonly version: string;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
};

/** Reads the generated `package.json` of an unpacked package. */
export function manifestOf(folder: string): PackedManifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as PackedManifest;
}
