import { basename, dirname, isAbsolute, join, parse, relative, resolve, sep } from 'node:path';

/** The place where an agent works. All paths are absolute. */
export type WorkPlace = {
  readonly folder: string;
  readonly home: string;
  /** Resolves the links of a path, also of a link whose target is missing; `null` for other missing paths. */
  readonly realpath: (path: string) => string | null;
  /** A folder with the work that the agent reviews. A path in it counts as the same path in the agent's folder. */
  readonly shown?: string;
  /** The names in a folder; none by default. */
  readonly namesIn?: (folder: string) => readonly string[];
  /**
   * Conch's own configuration files, and its data folder or entries of it: absolute paths, with and without resolved
   * links.
   */
  readonly own?: { readonly config: readonly string[]; readonly data: readonly string[] };
};

/** A path relative to the agent's folder, its home and the root; `null` where the path lies outside. */
export type PathFrom = { readonly folder: string | null; readonly home: string | null; readonly disk: string };

/**
 * A path in a tool call: as written, and with links resolved. `real` has two forms when the system and programs resolve
 * its `..` differently.
 */
export type NamedPath = { readonly written: PathFrom; readonly real: readonly PathFrom[] };

/** Returns a path as written and with its links resolved, each relative to the folder, the home and the root. */
export function namedPath(path: string, place: WorkPlace): NamedPath {
  return {
    written: pathFrom(absolute(path, place), place),
    real: realPathsOf(path, place).map((real) => pathFrom(real, resolved(place))),
  };
}

/**
 * Returns a path with its links resolved. Behind a link, `..` differs for the system and for programs that shorten
 * paths themselves; then returns both results.
 */
function realPathsOf(path: string, place: WorkPlace): readonly string[] {
  const direct = followed(absolute(path, place), place);
  return path.split(/[\\/]/).includes('..') ? [...new Set([direct, walked(path, place)])] : [direct];
}

/**
 * Returns whether a path is or lies in Conch's configuration or data, in any letter case. `null`: neither, or work that
 * the agent reviews.
 */
export function ownAt({ written, real }: NamedPath, { own, ...place }: WorkPlace): 'config' | 'data' | null {
  const shown = [place, resolved(place)].flatMap((each) => each.shown ?? []);
  const isAt = (files: readonly string[] = []): boolean =>
    [written, ...real]
      .filter(({ disk }) => shown.every((folder) => below(folder, `/${disk}`) === null))
      .some(({ disk }) => files.some((file) => below(file.toLowerCase(), `/${disk}`.toLowerCase()) !== null));
  return isAt(own?.data) ? 'data' : isAt(own?.config) ? 'config' : null;
}

/** Returns the names in a folder. A relative path starts at the agent's folder. */
export function namesIn(folder: string, place: WorkPlace): readonly string[] {
  return place.namesIn?.(absolute(folder === '' ? '.' : folder, place)) ?? [];
}

/** True when the path exists, also as a link whose target is missing. */
export function isThere(path: string, place: WorkPlace): boolean {
  return place.realpath(absolute(path, place)) !== null;
}

function absolute(path: string, { folder, home }: WorkPlace): string {
  return path === '~' || path.startsWith('~/') ? resolve(home, path.slice(2)) : resolve(folder, path);
}

function followed(path: string, { realpath }: WorkPlace): string {
  const whole = realpath(path);
  if (whole !== null) return whole;
  const parent = realpath(dirname(path));
  if (parent !== null) return join(parent, basename(path));
  // Searches from the root down, so that a long path of missing folders takes few look-ups.
  const { root } = parse(path);
  const names = relative(root, path).split(sep);
  const missing = names.findIndex((_, at) => realpath(join(root, ...names.slice(0, at + 1))) === null);
  const there = realpath(join(root, ...names.slice(0, missing)));
  return there === null ? path : join(there, ...names.slice(missing));
}

function walked(path: string, place: WorkPlace): string {
  const from = path.startsWith('~/') ? place.home : isAbsolute(path) ? '/' : place.folder;
  const steps = path.replace(/^~\//, '').split(/[\\/]/);
  return steps.reduce((at, step) => followed(join(at, step), place), followed(from, place));
}

type Roots = Pick<WorkPlace, 'folder' | 'home' | 'shown'>;

function resolved({ folder, home, shown, realpath }: Roots & Pick<WorkPlace, 'realpath'>): Roots {
  const at = { folder, home, realpath };
  const real = { folder: followed(folder, at), home: followed(home, at) };
  return shown === undefined ? real : { ...real, shown: followed(shown, at) };
}

function pathFrom(path: string, { folder, home, shown }: Roots): PathFrom {
  const inShown = shown === undefined ? null : below(shown, path);
  return { folder: inShown ?? below(folder, path), home: below(home, path), disk: below('/', path) ?? '' };
}

/** Returns the path relative to a root, with slashes; empty for the root itself; `null` outside of the root. */
function below(root: string, path: string): string | null {
  const from = relative(root, path);
  if (from === '..' || from.startsWith(`..${sep}`) || isAbsolute(from)) return null;
  return from.split(sep).join('/');
}
