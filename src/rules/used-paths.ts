import { isThere, namedPath, ownAt } from './paths.ts';
import type { NamedPath, WorkPlace } from './paths.ts';
import { wildcard } from './rule.ts';
import type { Argv } from './shell-programs.ts';

/** A path that a call names: whether it is one for certain, and whether what is there may be another afterwards. */
export type UsedPath = NamedPath & {
  readonly known: boolean;
  readonly changed: boolean;
  readonly own: ReturnType<typeof ownAt>;
};

/** Names of files and folders that grant or run something when an agent, git or Conch's own agents find them. */
export const GRANTING_NAMES =
  '.git .claude .mcp.json .opencode opencode.json opencode.jsonc .qwen .gemini .codex .copilot .kimi .husky .envrc'.split(
    ' ',
  );

/** Names of files and folders that hold keys. */
export const PRIVATE_NAMES = (
  '.env .envrc .ssh .aws .azure .gnupg .kube .netrc .npmrc .pypirc .pgpass .git-credentials mcp-logins .secrets secrets ' +
  'id_rsa id_ed25519 id_ecdsa credentials.json'
).split(' ');

/**
 * What texts of a call name when they are paths. One that no disk takes is none. Those beyond the first 512, or 4,096 names of
 * folders, are not followed: any of them may be a file that grants something.
 */
export function usedPaths(texts: readonly string[], changed: boolean, place: WorkPlace | null): readonly UsedPath[] {
  const paths = new Set(texts.flatMap(pathsMeant).map(shortened).filter(isPath));
  const looked = within([...paths]);
  const followed = looked.flatMap((path) => [path, ...filledIn(path, place)]);
  if (looked.length < paths.size && changed) followed.push(GRANTING_NAMES[0] ?? '');
  return followed.map((path) => {
    const known = place !== null && isThere(path.replace(/[*?[{].*$/s, ''), place);
    return usedPath(namedPath(path, place ?? ELSEWHERE), place, { known, changed });
  });
}

/** A path as a call uses it. */
export function usedPath(path: NamedPath, place: WorkPlace | null, how: Pick<UsedPath, 'known' | 'changed'>): UsedPath {
  return { ...path, ...how, own: place === null ? null : ownAt(path, place) };
}

/** The first paths, as many as are followed. */
export function within(paths: readonly string[]): readonly string[] {
  let names = 0;
  const last = paths.findIndex((path, at) => at === MOST_PATHS || (names += path.split('/').length) > MOST_NAMES);
  return last === -1 ? paths : paths.slice(0, last);
}

/** A path as it is written and, of the address of a file, as a program that takes addresses reads it. */
export function pathsMeant(text: string): readonly string[] {
  const [path = ''] = text.replace(/^@/, '').split('\0', 1);
  const address = /^file:(?:\/\/[^/]*)?(?=\/)/i.exec(path)?.[0];
  return [...new Set(address === undefined ? [path] : [path, decoded(path.slice(address.length))])];
}

/** What a command's words may name: also what stands behind "=" or is joined to an option of one letter. */
export function pathWords(words: Argv): readonly string[] {
  return words.slice(1).flatMap((word) => {
    if (!word.startsWith('-')) return [word, ...(word.includes('=') ? [word.slice(word.indexOf('=') + 1)] : [])];
    return word.includes('=') ? [word.slice(word.indexOf('=') + 1)] : word.length > 2 ? [word.slice(2)] : [];
  });
}

/** The files that a patch is for, in the form of Codex and of `diff`. */
export function patchedPaths(patch: string): readonly string[] {
  const [ours, theirs] = [/^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$/gm, /^--- (.+)\n\+\+\+ (.+)$/gm];
  const named = [...patch.matchAll(ours)].map(([, path = '']) => path);
  const compared = [...patch.matchAll(theirs)].flatMap(([, from = '', to = '']) => [from, to]);
  const moved = [...patch.matchAll(/^(?:rename|copy) (?:from|to) (.+)$/gm)].map(([, path = '']) => path);
  const plain = compared.map((path) => path.replace(/\t.*$/, '').replace(/^[ab]\//, ''));
  return [...new Set([...named, ...plain, ...moved].map((path) => path.trim()))].filter((path) => path !== '/dev/null');
}

/** So many paths of one call are followed, and so many names in them. */
const MOST_PATHS = 512;
const MOST_NAMES = 4_096;
/** Longer names and paths are none on any disk, in UTF-16 units. */
const LONGEST_NAME = 255;
const LONGEST_PATH = 4_096;

/** Of an agent on another machine paths are taken as they are written. */
const ELSEWHERE: WorkPlace = { folder: '/', home: '/', realpath: (path) => path };

function isPath(path: string): boolean {
  return path !== '' && path.length <= LONGEST_PATH && path.split('/').every((name) => name.length <= LONGEST_NAME);
}

/** Without `.` and doubled slashes. */
function shortened(path: string): string {
  return path
    .split('/')
    .filter((name, at) => (name !== '' && name !== '.') || at === 0)
    .join('/');
}

/** The path with each name of note that the first pattern in it may be filled in by, if that is there. */
function filledIn(path: string, place: WorkPlace | null): readonly string[] {
  const names = path.split('/');
  const at = names.findIndex((name) => /[*?[{]/.test(name));
  const pattern = names[at];
  if (pattern === undefined) return [];
  const fits = wildcard(pattern.replaceAll(/\[[^\]]*\]?|\{[^}]*\}?|[*?]+/g, '*').toLowerCase());
  const before = names.slice(0, at);
  const isFilled = (name: string): boolean => {
    if (!fits(name) || (name.startsWith('.') && !/^[.{]/.test(pattern))) return false;
    return place === null ? pattern.startsWith('.') : isThere([...before, name].join('/'), place);
  };
  return NOTED_NAMES.filter(isFilled).map((name) => [...before, name, ...names.slice(at + 1)].join('/'));
}

const NOTED_NAMES = [...new Set([...GRANTING_NAMES, ...PRIVATE_NAMES])];

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
