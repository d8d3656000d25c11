import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { readSource } from '../house/imports.ts';
import type { Source } from '../house/imports.ts';

/** An edit of a source file. `find`: a text that the file has exactly once. `file`: its path below `src`. */
export type Edit = { readonly file: string; readonly find: string; readonly replace: string };

/** One loaded copy of the source: the text of each edited file, and the files that import an edited file. */
type Copy = { readonly texts: ReadonlyMap<string, string>; readonly files: ReadonlySet<string> };

const SRC_DIR = join(import.meta.dirname, '../../src');
const SRC_HREF = `${pathToFileURL(SRC_DIR).href}/`;
const MARK = '?planted=';

const copies: Copy[] = [];
let source: Source | null = null;

/**
 * Loads modules of the source with edits. Loads again only edited files and files that import them, directly or not.
 * All other modules are shared with the program and all copies. Rejects when a file does not have its `find` exactly
 * once.
 */
export async function loadPlanted<Loaded>(edits: readonly Edit[], ...modules: readonly string[]): Promise<Loaded> {
  source ??= beginHooks();
  const texts = new Map<string, string>();
  for (const edit of edits) {
    const { file } = edit;
    texts.set(file, changed(texts.get(file) ?? readFileSync(join(SRC_DIR, file), 'utf8'), edit));
  }
  const mark = `${MARK}${copies.push({ texts, files: importersOf([...texts.keys()], source) }) - 1}`;
  const all: Record<string, unknown> = {};
  for (const file of modules) Object.assign(all, await import(`${SRC_HREF}${file}${mark}`));
  return all as Loaded;
}

function beginHooks(): Source {
  registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const [, copy = ''] = context.parentURL?.split(MARK) ?? [];
      if (copy === '' || !found.url.startsWith(SRC_HREF) || found.url.includes('?')) return found;
      const isImporter = copies[Number(copy)]?.files.has(found.url.slice(SRC_HREF.length)) === true;
      return isImporter ? { ...found, url: `${found.url}${MARK}${copy}` } : found;
    },
    load(url, context, next) {
      const [plain = url, copy] = url.split(MARK);
      if (copy === undefined) return next(url, context);
      const file = plain.slice(SRC_HREF.length);
      const text = copies[Number(copy)]?.texts.get(file) ?? readFileSync(join(SRC_DIR, file), 'utf8');
      return { format: 'module-typescript', source: text, shortCircuit: true };
    },
  });
  return readSource(SRC_DIR);
}

function changed(text: string, { file, find, replace }: Edit): string {
  const times = text.split(find).length - 1;
  if (times !== 1) throw new Error(`"${find.trim()}" cannot be planted: it stands ${times} times in ${file}`);
  return text.replace(find, () => replace);
}

/** These files and all files that import them at run time. */
function importersOf(files: readonly string[], { imports }: Source): ReadonlySet<string> {
  const importers = new Set(files);
  for (const file of importers) {
    for (const { from, to, types } of imports) if (to === file && !types) importers.add(from);
  }
  return importers;
}
