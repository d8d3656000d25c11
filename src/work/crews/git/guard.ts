import { lstat, readFile, readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { shortDigest } from '../../../lib/digest.ts';
import { gitSettings, isLocalSetting, zeroSeparated } from '../../../lib/git.ts';
import type { GitSetting } from '../../../lib/git.ts';
import { indexEntries } from './kept.ts';
import { STATUS, unless } from './repository.ts';
import type { Repository } from './repository.ts';

/** The recorded state of the user's copy (own checkout) of a repository: for each part, values or digests by name. */
export type CopyPicture = Readonly<Record<CopyPart, ReadonlyMap<string, string>>>;
type CopyPart = 'head' | 'refs' | 'index' | 'files' | 'stash' | 'config' | 'hooks';

/**
 * Records the state of the user's copy: HEAD, refs, index, changed files, stash, local settings and hooks. Leaves out
 * refs of Conch, and refs and settings of workers' branches. Has digests of settings, hooks, stash and index. Of
 * changed files, has state, size, time and mode, not the content. Throws `GitError` or `Error`.
 */
export async function pictureOf(repository: Repository): Promise<CopyPicture> {
  const { git, root, commonDir } = repository;
  const [listedRefs, index, status, settings] = await Promise.all([
    git(['for-each-ref', '--format=%(refname) %(objectname)']),
    indexEntries(root, git),
    git(STATUS),
    gitSettings(root, repository.env),
  ]);
  const refs = new Map<string, string>();
  for (const [ref = '', id = ''] of listedRefs.split('\n').map((line) => line.split(' ')))
    if (!/^(?:$|refs\/(?:conch|heads\/agent|stash)(?:\/|$))/.test(ref)) refs.set(ref, id);
  const { head, files } = await statusIn(root, status);
  const hooksPath = await hooksPathIn(repository, settings);
  return {
    head,
    refs,
    index: new Map([['index', shortDigest(index.join('\0'))]]),
    files,
    stash: new Map([['stash', /^refs\/stash /m.test(listedRefs) ? await stashesIn(repository) : '']]),
    config: settingsIn(settings),
    hooks: await hooksIn([join(commonDir, 'hooks'), ...(hooksPath === null ? [] : [resolve(root, hooksPath)])]),
  };
}

/** Returns what differs between two recorded states of the user's copy, one sentence each. */
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

/** Number of fields before the path in an entry of `git status`: `1` a changed file, `u` a conflict, `?` a new file. */
const FIELDS: Readonly<Record<string, number>> = { 1: 8, u: 10, '?': 1 };

async function statusIn(root: string, status: string): Promise<Pick<CopyPicture, 'head' | 'files'>> {
  const head = new Map([['branch', 'no branch']]);
  const files = new Map<string, string>();
  for (const entry of zeroSeparated(status)) {
    const [, name, value = ''] = /^# branch\.(oid|head) (.*)$/s.exec(entry) ?? [];
    if (name === 'head' && value !== '(detached)') head.set('branch', value);
    if (name === 'oid' && value !== '(initial)') head.set('commit', value);
    const count = FIELDS[entry[0] ?? ''];
    if (count === undefined) continue;
    const fields = entry.split(' ');
    const [state, path] = [fields.slice(0, Math.min(count, 3)).join(' '), fields.slice(count).join(' ')];
    const found = await lstat(join(root, path), { bigint: true }).catch(() => null);
    files.set(path, `${state} ${found?.size} ${found?.mtimeNs} ${found?.mode}`);
  }
  return { head, files };
}

async function stashesIn({ git, commonDir }: Repository): Promise<string> {
  const log = await readFile(join(commonDir, 'logs/refs/stash'), 'latin1').catch(() => null);
  return shortDigest(log ?? (await git(['log', '--walk-reflogs', '--format=%H', 'refs/stash'])));
}

async function hooksPathIn({ git }: Repository, settings: readonly GitSetting[]): Promise<string | null> {
  const set = settings.findLast(({ name }) => name === 'core.hookspath');
  if (set === undefined) return null;
  const path = set.value ?? '~';
  // git expands paths that begin with these characters.
  return /^[~%:]/.test(path)
    ? await unless(1, git(['config', '--type=path', 'core.hooksPath'], { hooks: true }))
    : path;
}

function short(value = ''): string {
  return /^[0-9a-f]{40,}$/.test(value) ? value.slice(0, 10) : value;
}

function settingsIn(all: readonly GitSetting[]): ReadonlyMap<string, string> {
  const settings = new Map<string, string>();
  // git itself writes settings of a worker's branch, for example when the worker pushes it.
  for (const { name, value } of all.filter((each) => isLocalSetting(each) && !each.name.startsWith('branch.agent/')))
    settings.set(name, shortDigest(settings.get(name) ?? '', ...(value?.split('\n') ?? [])));
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
