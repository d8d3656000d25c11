import { createHash, hash } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, open, readFile, readdir, readlink, realpath, stat } from 'node:fs/promises';
import type { BigIntStats, Dirent } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { BoundedMap } from '../../lib/keyed.ts';
import type { FilePower, RepositoryFile } from './repository-files.ts';

/** One file that an agent would obey, or a folder that may hold such files and could not be searched whole. */
export type FoundFile = {
  /** The file's path relative to the agent's folder, as on the disk. */
  readonly path: string;
  readonly can: readonly FilePower[];
  readonly note: string;
  /** In bytes; `null` when unknown. */
  readonly size: number | null;
  /** The first `MOST_TEXT` characters; `null` when the content is unknown. */
  readonly text: string | null;
  /** The target of a link, and why the content is unknown, in words; `null` for an ordinary file. */
  readonly remark: string | null;
};

/** The files that an agent would obey when it starts in its folder. Some lie in parent folders or the main worktree. */
export type FolderScan = {
  /** The folder with its links resolved. */
  readonly folder: string;
  readonly files: readonly FoundFile[];
  /**
   * Digest of the folder's path, and of the path, link target and content of each file. `null` without files. Of a file
   * over 16 MiB, its beginning, size, inode and times count. Of an unreadable file, its `remark` counts.
   */
  readonly digest: string | null;
  /** The first folder or file whose contents could not be scanned, and why. Absent: the scan is complete. */
  readonly incomplete?: string;
};

/** How much of a file is kept to be shown, in characters. */
const MOST_TEXT = 4_096;

/** Length of the part of a digest that people and buttons name. */
export const ID_LENGTH = 16;

/** Returns the part of a digest by which people and buttons name the digest. */
export function idOf(digest: string): string {
  return digest.slice(0, ID_LENGTH);
}

/**
 * Searches for these files in the folders where an agent looks for them. `home`: the folder of the agent's own
 * settings. As a parent, `home` is not searched, because the repository does not control it. Names match in any letter
 * case and Unicode form, links are followed, and an unreadable file counts as present.
 */
export async function scanFolder(
  cwd: string,
  files: readonly RepositoryFile[],
  { home = homedir(), hashes = new FileHashes() }: { readonly home?: string; readonly hashes?: FileHashes } = {},
): Promise<FolderScan> {
  const namedFolder = resolve(cwd);
  const folder = await real(namedFolder);
  const places = await placesOf([...new Set([folder, namedFolder])], home);
  const found = new Map<string, ScannedFile>();
  const listings: Listings = new Map();
  for (const file of files) {
    const pattern = patternOf(file);
    for (const place of places[file.searched]) {
      const hits = await new Walk(place, listings).find(place, pattern);
      for (const hit of hits) await keep(found, { file, hit, hashes });
    }
  }
  const foundFiles = [...found.values()].toSorted((one, other) => (one.at < other.at ? -1 : 1));
  const unseen = foundFiles.find(({ print }) => print.isUnseen === true);
  return {
    folder,
    files: foundFiles.map(({ at, print: { size, text, remark }, files: by }) => ({
      path: relative(folder, at) || '.',
      can: [...new Set(by.flatMap(({ can }) => can))],
      note: [...new Set(by.map(({ note }) => note))].join('; '),
      size,
      text,
      remark,
    })),
    digest: foundFiles.length === 0 ? null : digestOf(folder, foundFiles),
    ...(unseen !== undefined && { incomplete: `${relative(folder, unseen.at) || '.'}: ${unseen.print.remark}` }),
  };
}

type ScannedFile = { readonly at: string; readonly print: FilePrint; readonly files: readonly RepositoryFile[] };

async function keep(
  found: Map<string, ScannedFile>,
  { file, hit, hashes }: { readonly file: RepositoryFile; readonly hit: Hit; readonly hashes: FileHashes },
): Promise<void> {
  const known = found.get(hit.at);
  const print = (hit.remark === null ? known?.print : null) ?? (await hashes.print(hit));
  if (print === null) return;
  const files = known?.files.includes(file) === true ? known.files : [...(known?.files ?? []), file];
  found.set(hit.at, { at: hit.at, print, files });
}

function digestOf(folder: string, found: readonly ScannedFile[]): string {
  const facts = found.map(({ at, print }) => [at, print.mark]);
  return hash('sha256', JSON.stringify([folder, facts]));
}

type Places = Readonly<Record<RepositoryFile['searched'], readonly string[]>>;

async function placesOf(starts: readonly string[], home: string): Promise<Places> {
  const own = await real(home);
  const isForeign = (folder: string): boolean => folder !== own && folder !== resolve(home);
  const chains = starts.map((start) => [start, ...above(start).filter(isForeign)]);
  const upward = (await Promise.all(chains.map(upToRoot))).flat();
  const roots = (await Promise.all(upward.map(mainTree))).filter((root) => root !== null);
  return {
    folder: await distinct(starts),
    'up-to-disk-root': await distinct(chains.flat()),
    'up-to-repository-root': await distinct([...upward, ...roots]),
  };
}

async function distinct(folders: readonly string[]): Promise<readonly string[]> {
  return [...new Set(await Promise.all(folders.map(real)))];
}

async function real(path: string): Promise<string> {
  return await realpath(path).catch(() => resolve(path));
}

function above(folder: string): readonly string[] {
  const parent = dirname(folder);
  return parent === folder ? [] : [parent, ...above(parent)];
}

/**
 * Returns the folders up to the outermost that holds `.git`; without any, the first folder. A nearer `.git` does not
 * end the search, because git skips a `.git` that is no repository.
 */
async function upToRoot(chain: readonly string[]): Promise<readonly string[]> {
  const holds = await Promise.all(chain.map(async (folder) => (await gitEntries(folder)).length > 0));
  return chain.slice(0, Math.max(1, holds.lastIndexOf(true) + 1));
}

async function gitEntries(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch(() => []);
  // A cheap first test: a name that begins with a letter, a digit or "_" is never a form of ".git".
  const found = names.filter((name) => !/^\w/.test(name) && folded(name) === '.git');
  return found.length > 0 || !(await isThere(join(folder, '.git'))) ? found : ['.git'];
}

/** The main working tree of a linked working tree, whose `.git` is a file; `null` for any other folder. */
async function mainTree(folder: string): Promise<string | null> {
  for (const name of await gitEntries(folder)) {
    const text = await readFile(join(folder, name), 'utf8').catch(() => '');
    const [, to] = /^gitdir:\s*(.+?)\s*$/m.exec(text) ?? [];
    if (to === undefined) continue;
    const tree = resolve(folder, to);
    const common = await readFile(join(tree, 'commondir'), 'utf8').catch(() => null);
    if (common !== null) return dirname(resolve(tree, common.trim()));
  }
  return null;
}

/**
 * Returns a name in lower case and one Unicode form, without invisible characters, and without dots and spaces at its
 * end: some file systems take such names for the same.
 */
function folded(name: string): string {
  return name
    .normalize('NFKD')
    .replaceAll(/\p{Default_Ignorable_Code_Point}|\p{Cc}/gu, '')
    .toLowerCase()
    .replace(/[. ]+$/, '');
}

/** A test for each name of a path, applied to folded names; `null` is `**`. */
type Pattern = readonly ((((plain: string) => boolean) & { readonly literal?: string | undefined }) | null)[];

function patternOf({ path }: RepositoryFile): Pattern {
  return path.split('/').map((name) => {
    if (name === '**') return null;
    const letters = name.split('*').map((part) => escaped(folded(`${part}_`).slice(0, -1)));
    const fits = new RegExp(`^${letters.join('.*')}$`, 'su');
    const matches = (plain: string): boolean => fits.test(plain);
    return Object.assign(matches, { literal: name.includes('*') ? undefined : name });
  });
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}

/**
 * A file that was found, or a folder that could not be searched. `remark`: why the folder could not be searched; `null`
 * for a file.
 */
type Hit = { readonly at: string; readonly remark: string | null };

/** The entries of a folder with their folded names; `null` when the folder cannot be listed. */
type Listing = readonly { readonly entry: Dirent; readonly plain: string }[] | null;

type Listings = Map<string, Promise<Listing>>;

/** One search for one pattern. Below a `**`, each folder is visited once, also when several links lead to it. */
class Walk {
  readonly #place: string;
  readonly #seen = new Set<string>();
  readonly #listings: Listings;
  #entriesLeft = MOST_ENTRIES;

  constructor(place: string, listings: Listings) {
    this.#place = place;
    this.#listings = listings;
  }

  async find(folder: string, pattern: Pattern): Promise<readonly Hit[]> {
    const [first, ...rest] = pattern;
    if (first === undefined) return [];
    if (first === null) return await this.#below(folder, rest);
    const entries = await this.#listed(folder);
    if (entries === null) return await this.#unlisted(folder, first.literal, rest);
    const hits: Hit[] = [];
    for (const { entry, plain } of entries)
      if (first(plain)) hits.push(...(await this.#at(join(folder, entry.name), rest)));
    return hits;
  }

  async #at(path: string, rest: Pattern): Promise<readonly Hit[]> {
    return rest.length === 0 ? [{ at: path, remark: null }] : await this.find(path, rest);
  }

  async #below(folder: string, rest: Pattern): Promise<readonly Hit[]> {
    const at = await real(folder);
    if (this.#seen.has(at)) return [];
    this.#seen.add(at);
    const hits = rest.length === 0 ? [] : [...(await this.find(folder, rest))];
    const entries = await this.#listed(folder);
    if (entries === null) return [...hits, { at: folder, remark: 'cannot be listed' }];
    this.#entriesLeft -= entries.length;
    if (this.#entriesLeft < 0)
      return [...hits, { at: this.#place, remark: `holds more than ${MOST_ENTRIES.toLocaleString('en-US')} entries` }];
    for (const { entry } of entries) {
      const path = join(folder, entry.name);
      if (await isFolder(path, entry)) hits.push(...(await this.#below(path, rest)));
      else if (rest.length === 0) hits.push({ at: path, remark: null });
    }
    return hits;
  }

  #listed(folder: string): Promise<Listing> {
    const known = this.#listings.get(folder);
    if (known !== undefined) return known;
    const listing = listed(folder);
    this.#listings.set(folder, listing);
    return listing;
  }

  async #unlisted(folder: string, literal: string | undefined, rest: Pattern): Promise<readonly Hit[]> {
    if (literal === undefined) return [{ at: folder, remark: 'cannot be listed' }];
    const path = join(folder, literal);
    return (await isThere(path)) ? await this.#at(path, rest) : [];
  }
}

/** The entries of a folder; empty when the folder does not exist, `null` when it cannot be listed. */
async function listed(folder: string): Promise<Listing> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries.map((entry) => ({ entry, plain: folded(entry.name) }));
  } catch (error) {
    return isAbsence(error) ? [] : null;
  }
}

async function isFolder(path: string, entry: Dirent): Promise<boolean> {
  if (!entry.isSymbolicLink()) return entry.isDirectory();
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

async function isThere(path: string): Promise<boolean> {
  return await lstat(path).then(
    () => true,
    (error: unknown) => !isAbsence(error),
  );
}

function isAbsence(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ABSENT.has(String(error.code));
}

const ABSENT: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR']);

/**
 * The content of a file, or why the content is unknown. `mark` changes with the content, if that is known. `isUnseen`:
 * the content may change while `mark` stays.
 */
type FilePrint = Pick<FoundFile, 'size' | 'text' | 'remark'> & { readonly mark: string; readonly isUnseen?: boolean };

/** A cache of file hashes. A file is hashed again when its size, times, device, inode or link change. */
export class FileHashes {
  readonly #prints = new BoundedMap<string, { readonly by: string; readonly print: FilePrint }>(MOST_KEPT);

  /**
   * Returns the content of a found file, from the cache if the file is unchanged. Resolves with `null` when the file is
   * gone.
   */
  async print({ at, remark }: Hit): Promise<FilePrint | null> {
    if (remark !== null) return { ...unknown(remark), isUnseen: true };
    const leads = await readlink(at).catch(() => null);
    const link = leads === null ? null : `a link to ${leads}`;
    try {
      const found = await stat(at, { bigint: true });
      if (!found.isFile()) return unknown(found.isDirectory() ? 'a folder' : 'no ordinary file', link);
      const by = signatureOf(found);
      const known = this.#prints.get(at);
      if (known?.by === by && known.print.remark === link) return known.print;
      const print = await read(at, { by, link });
      this.#prints.set(at, { by, print });
      return print;
    } catch (error) {
      if (isAbsence(error)) return link === null ? null : unknown('leads nowhere', link);
      return { ...unknown('cannot be read', link), isUnseen: true };
    }
  }
}

function unknown(why: string, link: string | null = null): FilePrint {
  const remark = link === null ? why : `${link}, ${why}`;
  return { size: null, text: null, remark, mark: remark };
}

function signatureOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
}

async function read(
  path: string,
  { by, link }: { readonly by: string; readonly link: string | null },
): Promise<FilePrint> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const digest = createHash('sha256');
    const piece = Buffer.alloc(PIECE_BYTES);
    let size = 0;
    let head = Buffer.alloc(0);
    for (let bytes = -1; bytes !== 0 && size <= MOST_BYTES; size += bytes) {
      bytes = (await file.read(piece, 0, PIECE_BYTES, null)).bytesRead;
      const part = piece.subarray(0, bytes);
      digest.update(part);
      if (head.length < MOST_TEXT * 4) head = Buffer.concat([head, part]);
    }
    const whole = size > MOST_BYTES ? (await file.stat()).size : size;
    const mark = `${link ?? ''} ${digest.digest('hex')}${size > MOST_BYTES ? ` ${by}` : ''}`;
    return { size: whole, text: head.toString('utf8').slice(0, MOST_TEXT), remark: link, mark };
  } finally {
    await file.close();
  }
}

/** Most folder entries that one search visits below a `**`. */
const MOST_ENTRIES = 200_000;
const MOST_KEPT = 10_000;
const PIECE_BYTES = 65_536;
/** Hashing of a file stops after the first piece that ends beyond this many bytes. */
const MOST_BYTES = 16_777_216;
