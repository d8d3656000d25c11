import { lstat, readFile, readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { shortDigest } from '../../../lib/digest.ts';
import { zeroSeparated } from '../../../lib/git.ts';
import { unless } from './repository.ts';
import type { Repository } from './repository.ts';

/** What belongs to the user in a repository: for each part, a value or digest by name. */
export type CopyPicture = Readonly<Record<CopyPart, ReadonlyMap<string, string>>>;
type CopyPart = 'head' | 'refs' | 'index' | 'files' | 'stash' | 'config' | 'hooks';

/**
 * Takes a picture of the user's copy: HEAD, refs but those of Conch and of workers, index, changed files, stash, settings
 * and hooks. Only digests of contents and settings are kept. When Conch itself advances main, take a new picture: that
 * change is no worker's. Throws `GitError`.
 */
export async function pictureOf({ git, root, commonDir }: Repository): Promise<CopyPicture> {
  const lines = async (...args: readonly string[]): Promise<readonly string[]> =>
    ((await unless(1, git(args))) ?? '').split('\n').filter((line) => line !== '');
  const pairs = (entries: readonly string[], separator: string): Map<string, string> =>
    new Map(entries.map((entry) => [entry.split(separator)[0] ?? '', entry.slice(entry.indexOf(separator) + 1)]));
  const refs = pairs(await lines('for-each-ref', '--format=%(refname) %(objectname)'), ' ');
  const hasStash = refs.has('refs/stash');
  for (const ref of refs.keys()) if (/^refs\/(?:conch|heads\/agent|stash)(?:\/|$)/.test(ref)) refs.delete(ref);
  const hooksPath = await unless(1, git(['config', '--type=path', 'core.hooksPath'], { hooks: true }));
  const [branch = 'no branch'] = await lines('symbolic-ref', '--quiet', '--short', 'HEAD');
  const stashes = hasStash ? await lines('log', '--walk-reflogs', '--format=%H', 'refs/stash') : [];
  return {
    head: new Map([['branch', branch], ...(await lines('rev-parse', 'HEAD')).map((id) => ['commit', id] as const)]),
    refs,
    index: new Map([
      ['index', shortDigest(await git(['ls-files', '--stage', '-z']), await git(['ls-files', '-v', '-z']))],
    ]),
    files: await changedFiles(
      root,
      await git(['status', '--porcelain', '-z', '--no-renames', '--untracked-files=all']),
    ),
    stash: new Map([['stash', stashes.join(' ')]]),
    config: settingsOf(await git(['config', '--list', '--show-scope', '-z'])),
    hooks: await hooksIn([join(commonDir, 'hooks'), ...(hooksPath === null ? [] : [resolve(root, hooksPath)])]),
  };
}

/** Returns what differs between two pictures, one sentence each. */
export function differences(before: CopyPicture, after: CopyPicture): readonly string[] {
  return (Object.keys(before) as CopyPart[]).flatMap((part) => {
    const names = [...new Set([...before[part].keys(), ...after[part].keys()])].toSorted();
    return names.flatMap((name) => {
      const [old, now] = [before[part].get(name), after[part].get(name)];
      if (old === now) return [];
      const verb = old === undefined ? 'was added' : now === undefined ? 'was removed' : 'changed';
      return [SENTENCES[part]({ name, verb, old: short(old), now: short(now) })];
    });
  });
}

type Change = { readonly name: string; readonly old: string; readonly now: string; readonly verb: string };

const SENTENCES: Readonly<Record<CopyPart, (change: Change) => string>> = {
  head: ({ name, old, now }) => `${name === 'branch' ? 'The branch changed' : 'HEAD moved'} from ${old} to ${now}.`,
  refs: ({ name, old, now, verb }) => `${name} ${verb === 'changed' ? `moved from ${old} to ${now}` : verb}.`,
  index: () => 'The index changed.',
  files: ({ name }) => `The file ${name} changed.`,
  stash: () => 'The stash changed.',
  config: ({ name, verb }) => `The setting ${name} ${verb}.`,
  hooks: ({ name, verb }) => `The hook ${name} ${verb}.`,
};

/** The files that differ from HEAD, with their state, size and time of change. */
async function changedFiles(root: string, status: string): Promise<ReadonlyMap<string, string>> {
  const files = new Map<string, string>();
  for (const entry of zeroSeparated(status)) {
    const found = await lstat(join(root, entry.slice(3)), { bigint: true }).catch(() => null);
    files.set(entry.slice(3), `${entry.slice(0, 2)} ${found?.size} ${found?.mtimeNs} ${found?.mode}`);
  }
  return files;
}

/** Shortens commit ids. */
function short(value = ''): string {
  return /^[0-9a-f]{40,}$/.test(value) ? value.slice(0, 10) : value;
}

function settingsOf(listing: string): ReadonlyMap<string, string> {
  const settings = new Map<string, string>();
  const fields = listing.split('\0');
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const [name = '', ...value] = (fields[at + 1] ?? '').split('\n');
    // git writes there when a worker pushes its own branch.
    if (name.startsWith('branch.agent/')) continue;
    if (fields[at] === 'local' || fields[at] === 'worktree')
      settings.set(name, shortDigest(settings.get(name) ?? '', ...value));
  }
  return settings;
}

async function hooksIn(folders: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const hooks = new Map<string, string>();
  for (const folder of folders) {
    for (const name of await readdir(folder).catch(() => [])) {
      const text = await readFile(join(folder, name), 'latin1').catch(() => '');
      hooks.set(name, shortDigest(hooks.get(name) ?? '', text, `${(await lstat(join(folder, name))).mode}`));
    }
  }
  return hooks;
}
