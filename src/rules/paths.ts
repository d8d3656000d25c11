import { basename, dirname, isAbsolute, join, parse, relative, resolve, sep } from 'node:path';

/** Where an agent works; all paths are absolute. */
export type WorkPlace = {
  readonly folder: string;
  readonly home: string;
  /** Where a path leads when its links are followed, also to what is not there yet; `null` for what is not there itself. */
  readonly realpath: (path: string) => string | null;
  /** Names of what is in a folder; none unless given. */
  readonly namesIn?: (folder: string) => readonly string[];
  /** What decides what agents may do, and what lets in whoever answers for people: absolute paths, links followed or not. */
  readonly own?: { readonly config: readonly string[]; readonly data: readonly string[] };
};

/** A path as seen from the agent's folder, from its home and from the root; `null` where it does not lie. */
export type PathFrom = { readonly folder: string | null; readonly home: string | null; readonly disk: string };

/** A path that a call names: as it is written, and where it leads; two places when links make it mean different things to the system and to a program. */
export type NamedPath = { readonly written: PathFrom; readonly real: readonly PathFrom[] };

/** A path, as seen from everywhere. */
export function namedPath(path: string, place: WorkPlace): NamedPath {
  return {
    written: pathFrom(absolute(path, place), place.folder, place.home),
    real: realPathsOf(path, place).map((real) =>
      pathFrom(real, followed(place.folder, place), followed(place.home, place)),
    ),
  };
}

/**
 * Where a path leads when its links are followed: those of the nearest parent that is there, when it is not there itself. After
 * a link, `..` leads elsewhere for the system than for a program that shortens paths itself: both places are given then.
 */
function realPathsOf(path: string, place: WorkPlace): readonly string[] {
  const direct = followed(absolute(path, place), place);
  return path.split(/[\\/]/).includes('..') ? [...new Set([direct, walked(path, place)])] : [direct];
}

/** Which of a place's own files a path is, or lies in. */
export function ownAt({ written, real }: NamedPath, { own }: WorkPlace): 'config' | 'data' | null {
  const isAt = (files: readonly string[] = []): boolean =>
    [written, ...real].some(({ disk }) =>
      files.some((file) => below(file.toLowerCase(), `/${disk}`.toLowerCase()) !== null),
    );
  return isAt(own?.data) ? 'data' : isAt(own?.config) ? 'config' : null;
}

/** Names of what is in a folder, which may be named by a relative path. */
export function namesIn(folder: string, place: WorkPlace): readonly string[] {
  return place.namesIn?.(absolute(folder === '' ? '.' : folder, place)) ?? [];
}

/** Whether something is at a path, links followed. */
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
  // From the root down: long paths of which little is there cost little.
  const { root } = parse(path);
  const names = relative(root, path).split(sep);
  const missing = names.findIndex((_, at) => realpath(join(root, ...names.slice(0, at + 1))) === null);
  const there = realpath(join(root, ...names.slice(0, missing)));
  return there === null ? path : join(there, ...names.slice(missing));
}

/** Step by step, as the system goes. */
function walked(path: string, place: WorkPlace): string {
  const from = path.startsWith('~/') ? place.home : isAbsolute(path) ? '/' : place.folder;
  const steps = path.replace(/^~\//, '').split(/[\\/]/);
  return steps.reduce((at, step) => followed(join(at, step), place), followed(from, place));
}

function pathFrom(path: string, folder: string, home: string): PathFrom {
  return { folder: below(folder, path), home: below(home, path), disk: below('/', path) ?? '' };
}

/** A path below another, with slashes; empty for that one itself. */
function below(root: string, path: string): string | null {
  const from = relative(root, path);
  if (from === '..' || from.startsWith(`..${sep}`) || isAbsolute(from)) return null;
  return from.split(sep).join('/');
}
