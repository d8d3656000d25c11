import { isThere, namedPath, namesIn, ownAt } from './paths.ts';
import type { NamedPath, WorkPlace } from './paths.ts';
import { wildcard } from './rule.ts';
import type { Argv } from './safe-commands.ts';

/**
 * A path in a tool call. `known`: the text is certainly a path. `changed`: the call may change the file. `own`: which
 * of Conch's own files the path is. `isRest`: the path stands for paths beyond a limit, so each rule on paths that
 * denies, asks or labels covers it.
 */
export type UsedPath = NamedPath & {
  readonly isRest?: true;
  readonly known: boolean;
  readonly changed: boolean;
  readonly own: ReturnType<typeof ownAt>;
};

/** Names of files and folders that grant permissions or run programs when agents, git or a shell find them. */
export const GRANTING_NAMES =
  '.git .claude .mcp.json .opencode opencode.json opencode.jsonc .qwen .gemini .codex .copilot .kimi .husky .envrc'.split(
    ' ',
  );

/** Names of files and folders with passwords, tokens or private keys. */
export const PRIVATE_NAMES = (
  '.env .envrc .ssh .aws .azure .gnupg .kube .netrc .npmrc .pypirc .pgpass .git-credentials mcp-logins .secrets secrets ' +
  'id_rsa id_ed25519 id_ecdsa credentials.json'
).split(' ');

/**
 * Returns the paths that texts of a call may name. Empty texts and texts too long for a path are dropped. At most 512
 * paths with 4,096 file and folder names in all are taken, then patterns are expanded. One path stands for those beyond
 * a limit.
 */
export function usedPaths(texts: readonly string[], changed: boolean, place: WorkPlace | null): readonly UsedPath[] {
  const paths = new Set(texts.flatMap(pathsMeant).map(shortened).filter(isPath));
  const looked = within([...paths]);
  const filled = looked.map((path) => filledIn(path, place));
  const isWhole = looked.length === paths.size && !filled.includes(null);
  const followed = looked.flatMap((path, at) => [path, ...(filled[at] ?? [])]);
  const used = followed.map((path) => {
    const known = place !== null && isThere(path.replace(/[*?[{].*$/s, ''), place);
    return usedPath(namedPath(path, place ?? ELSEWHERE), place, { known, changed });
  });
  return isWhole ? used : [...used, restOfPaths(changed)];
}

/** Returns the path that stands for paths beyond a limit. It counts as outside, and as Conch's data. */
export function restOfPaths(changed: boolean): UsedPath {
  const anywhere = { folder: null, home: null, disk: '' };
  return { written: anywhere, real: [anywhere], known: true, changed, own: 'data', isRest: true };
}

/**
 * Adds to a path how the call uses it, and which of Conch's own files it is. `own` is `null` for other files, and
 * without a place.
 */
export function usedPath(path: NamedPath, place: WorkPlace | null, how: Pick<UsedPath, 'known' | 'changed'>): UsedPath {
  return { ...path, ...how, own: place === null ? null : ownAt(path, place) };
}

/** Returns the first paths: at most 512, with at most 4,096 file and folder names in all of them together. */
export function within(paths: readonly string[]): readonly string[] {
  let names = 0;
  const last = paths.findIndex((path, at) => at === MOST_PATHS || (names += path.split('/').length) > MOST_NAMES);
  return last === -1 ? paths : paths.slice(0, last);
}

/** Returns the paths that a text may mean: as written, without a leading `@`, and as a file address. */
export function pathsMeant(text: string): readonly string[] {
  const [written = ''] = text.split('\0', 1);
  const readings = [...new Set([written, written.replace(/^@/, '')])];
  const addressed = readings.flatMap((path) => {
    const address = /^file:(?:\/\/[^/]*)?(?=\/)/i.exec(path)?.[0];
    return address === undefined ? [] : [decoded(path.slice(address.length))];
  });
  return [...new Set([...readings, ...addressed])];
}

/** Returns the folder in which each path pattern is expanded; none for a text without a pattern behind a slash. */
export function foldersOfPatterns(texts: readonly string[]): readonly string[] {
  return texts.flatMap((text) => {
    const at = text.search(/[*?[{]/);
    const end = at === -1 ? -1 : text.lastIndexOf('/', at);
    return end === -1 ? [] : [text.slice(0, end + 1)];
  });
}

/** True when a path certainly lies outside the agent's folder, and not among the system's programs and devices. */
export function isOutside({ known, real }: UsedPath): boolean {
  return known && real.some(({ folder, disk }) => folder === null && !OF_PROGRAMS.test(disk));
}

const OF_PROGRAMS = /^(?:dev|usr|bin|sbin|lib|lib64|nix\/store)(?:\/|$)/;

/**
 * Returns the paths that the words after the program may name: each word that is no option, the text between and after
 * separators (`--opt=path`, `user@host:path`, `src=a,dst=b`), and text joined to option letters (`-vtpath`).
 */
export function pathWords(words: Argv): readonly string[] {
  return words.slice(1).flatMap((word) => {
    const behind = [...word.matchAll(SEPARATORS)].map(({ index }) => word.slice(index + 1));
    const letters = /^-\w+/.exec(word)?.[0].length ?? 0;
    const joined = Array.from({ length: Math.max(0, letters - 1) }, (_, at) => word.slice(at + 2));
    const pieces = behind.length > 1 ? word.split(SEPARATORS) : [];
    return [...(word.startsWith('-') ? [] : [word]), ...behind, ...pieces, ...joined];
  });
}

const SEPARATORS = /[=:,;@]/g;

/** Returns the files of a patch, in the formats of Codex and `diff`. */
export function patchedPaths(patch: string): readonly string[] {
  const [ours, theirs] = [/^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$/gm, /^--- (.+)\n\+\+\+ (.+)$/gm];
  const named = [...patch.matchAll(ours)].map(([, path = '']) => path);
  const compared = [...patch.matchAll(theirs)].flatMap(([, from = '', to = '']) => [from, to]);
  const moved = [...patch.matchAll(/^(?:rename|copy) (?:from|to) (.+)$/gm)].map(([, path = '']) => path);
  const plain = compared.map((path) => path.replace(/\t.*$/, '').replace(/^[ab]\//, ''));
  return [...new Set([...named, ...plain, ...moved].map((path) => path.trim()))].filter((path) => path !== '/dev/null');
}

/** The most paths taken from one list before patterns are expanded, and the most paths that one of them expands to. */
const MOST_PATHS = 512;
const MOST_NAMES = 4_096;
/** The longest name that most file systems accept, in UTF-16 units. */
const LONGEST_NAME = 255;
const LONGEST_PATH = 4_096;

/** Stands in for the place of an agent on another machine: paths are taken as written. */
const ELSEWHERE: WorkPlace = { folder: '/', home: '/', realpath: (path) => path };

function isPath(path: string): boolean {
  return path !== '' && path.length <= LONGEST_PATH && path.split('/').every((name) => name.length <= LONGEST_NAME);
}

/** Removes each `.` after the first name, doubled slashes and a trailing slash. */
function shortened(path: string): string {
  const names = path.split('/').filter((name, at) => (name !== '' && name !== '.') || at === 0);
  return names.length === 1 && names[0] === '' && path !== '' ? '/' : names.join('/');
}

/**
 * Expands the patterns of a path to existing names; `null` when there are more than 512. Without a place, expands only
 * patterns that begin with `.`, to known names of files that grant permissions or hold secrets.
 */
function filledIn(path: string, place: WorkPlace | null): readonly string[] | null {
  const filled: string[] = [];
  const open = [path];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const more = firstFilledIn(next, place);
    filled.push(...more);
    open.push(...more);
    if (filled.length > MOST_PATHS) return null;
  }
  return filled;
}

function firstFilledIn(path: string, place: WorkPlace | null): readonly string[] {
  const names = path.split('/');
  const at = names.findIndex((name) => /[*?[{]/.test(name));
  const pattern = names[at];
  if (pattern === undefined) return [];
  const fits = wildcard(pattern.replaceAll(/\[[^\]]*\]?|\{[^}]*\}?|[*?]+/g, '*').toLowerCase());
  const before = names.slice(0, at);
  const folder = at === 1 && names[0] === '' ? '/' : before.join('/');
  const there = new Set(place === null ? [] : namesIn(folder, place));
  const isFilled = (name: string): boolean => {
    if (!fits(name.toLowerCase()) || (name.startsWith('.') && !/^[.{]/.test(pattern))) return false;
    if (place === null) return pattern.startsWith('.');
    return there.has(name) || isThere([...before, name].join('/'), place);
  };
  const known = place === null ? NOTED_NAMES : [...new Set([...NOTED_NAMES, ...there])];
  const fitting = known.filter(isFilled).map((name) => [...before, name, ...names.slice(at + 1)].join('/'));
  // A program reads an expanded name that begins with "-" as an option, which may name another file.
  return fitting
    .filter((each) => each !== path)
    .flatMap((each) => (each.startsWith('-') ? pathWords(['', each]) : [each]));
}

const NOTED_NAMES = [...new Set([...GRANTING_NAMES, ...PRIVATE_NAMES])];

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
