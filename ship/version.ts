import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

/** Output of `git describe --tags --long --dirty` for a tag that is a version: `v1.2.3-4-gabc1234-dirty`. */
const DESCRIBED =
  /^v(?<major>\d+)\.(?<minor>\d+)\.(?<patch>\d+)(?:-(?<pre>[0-9A-Za-z.-]+?))?-(?<commits>\d+)-(?<commit>g[0-9a-f]+)(?<dirty>-dirty)?$/;

/**
 * The version of a packed file. On a tag, the tag without its `v`. After a tag, a development version of the next
 * release: `1.2.4-dev.5.gabc1234` five commits after `v1.2.3`, with `.dirty` when files were changed. It sorts between
 * the tag and the next release. Throws when the tag is no version.
 */
export function versionOf(described: string): string {
  const found = DESCRIBED.exec(described)?.groups;
  if (found === undefined)
    throw new Error(`The tag of "${described}" is no version. Tag releases as v1.2.3 or v1.2.3-rc.1.`);
  const { major, minor, patch, pre, commits, commit, dirty } = found;
  const after = `dev.${commits}.${commit}${dirty === undefined ? '' : '.dirty'}`;
  const isRelease = commits === '0' && dirty === undefined;
  if (pre !== undefined) return `${major}.${minor}.${patch}-${pre}${isRelease ? '' : `.${after}`}`;
  return isRelease ? `${major}.${minor}.${patch}` : `${major}.${minor}.${Number(patch) + 1}-${after}`;
}

/** The version of a repository: by its nearest tag `v…`, or from package.json when there is no tag or no git. */
export function versionIn(folder: string): string {
  const described = describe(folder);
  if (described !== null) return versionOf(described);
  const text = readFileSync(join(folder, 'package.json'), 'utf8');
  return z.object({ version: z.string() }).parse(JSON.parse(text)).version;
}

/** The output of `git describe`; `null` when no tag is reachable, and outside of a repository. */
function describe(folder: string): string | null {
  const args = ['describe', '--tags', '--long', '--dirty', '--match', 'v[0-9]*'];
  try {
    return execFileSync('git', args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return null;
  }
}

if (import.meta.main) process.stdout.write(`${versionIn(fileURLToPath(new URL('..', import.meta.url)))}\n`);
