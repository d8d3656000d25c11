import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const needsSchema = z.object({
  dependencies: z.record(z.string(), z.string()).default({}),
  optionalDependencies: z.record(z.string(), z.string()).default({}),
  peerDependencies: z.record(z.string(), z.string()).default({}),
  peerDependenciesMeta: z.record(z.string(), z.object({ optional: z.boolean().default(false) })).default({}),
});
const packageSchema = needsSchema.extend({ bin: z.object({ conch: z.string() }) });
const lockSchema = z.object({ packages: z.record(z.string(), needsSchema) });
type Needs = z.output<typeof needsSchema>;
type Lock = z.output<typeof lockSchema>;

/**
 * Makes the folder from which the image is built without a network: the Dockerfile, and `conch.tgz` with the packed
 * file and all packages that it needs, in the versions of package-lock.json. Takes the packages from `node_modules` of
 * the repository. Throws an error that says what to do.
 */
export function bundle(packed: string, out: string): void {
  if (!existsSync(packed)) throw new Error(`There is no file ${packed}. Make it with: npm run pack`);
  mkdirSync(out, { recursive: true });
  const work = mkdtempSync(join(out, '.bundle-'));
  try {
    execFileSync('tar', ['-xzf', resolve(packed), '-C', work]);
    const folder = join(work, 'conch');
    renameSync(join(work, 'package'), folder);
    const needs = packageSchema.parse(JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')));
    const lock = lockSchema.parse(JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')));
    for (const path of neededPackages(needs, lock)) copyPackage(path, folder);
    linkProgram(folder, needs.bin.conch);
    execFileSync('tar', ['-czf', resolve(out, 'conch.tgz'), '--owner=0', '--group=0', '-C', work, 'conch']);
    copyFileSync(join(ROOT, 'ship/Dockerfile'), join(out, 'Dockerfile'));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Paths (`node_modules/…`) of the packages that a package needs, found as Node does. Skips missing optional ones. */
export function neededPackages(needs: Needs, lock: Lock): readonly string[] {
  const found = new Set<string>();
  const add = (from: string, { dependencies, optionalDependencies, peerDependencies, ...rest }: Needs): void => {
    for (const name of Object.keys({ ...peerDependencies, ...dependencies, ...optionalDependencies })) {
      const path = placeOf(name, from, lock);
      const isOptional = name in optionalDependencies || rest.peerDependenciesMeta[name]?.optional === true;
      if (path === null && isOptional) continue;
      if (path === null) throw new Error(`package-lock.json has no ${name} for ${from || 'Conch'}. Run: npm install`);
      if (found.has(path)) continue;
      found.add(path);
      const next = lock.packages[path];
      if (next !== undefined) add(path, next);
    }
  };
  add('', needs);
  return [...found].toSorted();
}

/** The path where a package finds another package: in its own `node_modules`, or in those of the folders above. */
function placeOf(name: string, from: string, lock: Lock): string | null {
  const path = from === '' ? `node_modules/${name}` : `${from}/node_modules/${name}`;
  if (lock.packages[path] !== undefined) return path;
  if (from === '') return null;
  const above = from.lastIndexOf('/node_modules/');
  return placeOf(name, above === -1 ? '' : from.slice(0, above), lock);
}

function copyPackage(path: string, folder: string): void {
  const from = join(ROOT, path);
  // The lock file also names optional packages of other operating systems.
  if (!existsSync(from)) return;
  const filter = (file: string): boolean => file === from || basename(file) !== 'node_modules';
  cpSync(from, join(folder, path), { recursive: true, filter });
}

/** Puts the command `conch` into `node_modules/.bin`, as an installation by npm does. */
function linkProgram(folder: string, launcher: string): void {
  const link = join(folder, 'node_modules/.bin/conch');
  mkdirSync(dirname(link), { recursive: true });
  chmodSync(join(folder, launcher), 0o755);
  symlinkSync(relative(dirname(link), join(folder, launcher)), link);
}

if (import.meta.main) {
  const [packed = '', out = join(ROOT, 'dist/image')] = process.argv.slice(2);
  try {
    bundle(packed, out);
    process.stdout.write(`Build the image with: docker build --network=none --tag conch ${relative('', out) || '.'}\n`);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
