import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';

/** An import between two of our files. `types`: it imports only types. */
export type Import = { readonly from: string; readonly to: string; readonly types: boolean };

/** The source's files, relative to `src`, and the imports between them. */
export type Source = { readonly files: readonly string[]; readonly imports: readonly Import[] };

/** Reads all code files below a folder. `folders`: only these folders in it. */
export function readSource(root: string, folders: readonly string[] = ['']): Source {
  const files = folders
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file)),
    )
    .filter((file) => /\.(?:tsx?|js)$/.test(file) && !file.endsWith('.d.ts'))
    .toSorted();
  const known = new Set(files);
  const imports = files.flatMap((file) => importsOf(root, file).filter(({ to }) => known.has(to)));
  return { files, imports };
}

/** These files and all files that they import at run time, directly or not. */
export function reachedFrom(start: readonly string[], { imports }: Source): readonly string[] {
  const reached = new Set(start);
  for (const file of reached) {
    for (const { from, to, types } of imports) if (from === file && !types) reached.add(to);
  }
  return [...reached];
}

/** The packages and Node modules that a file imports, including types. */
export function packagesOf(root: string, file: string): readonly string[] {
  return [...readFileSync(join(root, file), 'utf8').matchAll(PACKAGE)].map((match) => match[1] ?? match[2] ?? '');
}

/** The names that a file exports. */
export function exportsOf(root: string, file: string): readonly string[] {
  return [...readFileSync(join(root, file), 'utf8').matchAll(EXPORT)].map((match) => match[1] ?? '');
}

/** The room of a file: the folder right below `src`. Empty for a file in no folder. */
export function roomOf(file: string): string {
  return file.includes('/') ? (file.split('/', 1)[0] ?? '') : '';
}

/** Groups of files that import each other in a cycle, including types. */
export function cyclesIn({ files, imports }: Source): readonly (readonly string[])[] {
  const next = Map.groupBy(imports, ({ from }) => from);
  const reach = (start: string): ReadonlySet<string> => {
    const seen = new Set<string>();
    const open = [start];
    for (let file = open.pop(); file !== undefined; file = open.pop()) {
      for (const { to } of next.get(file) ?? []) {
        if (seen.has(to)) continue;
        seen.add(to);
        open.push(to);
      }
    }
    return seen;
  };
  const reached = new Map(files.map((file) => [file, reach(file)]));
  const placed = new Set<string>();
  return files.flatMap((file) => {
    if (placed.has(file) || reached.get(file)?.has(file) !== true) return [];
    const circle = files.filter(
      (other) => reached.get(file)?.has(other) === true && reached.get(other)?.has(file) === true,
    );
    for (const other of circle) placed.add(other);
    return [circle];
  });
}

const FROM = /(?:^|\n)(?<kind>import|export)(?<type> type)?\s[^;'"]*?from\s+'(?<path>\.[^']+)'/g;
const BARE = /(?:^|\n)import\s+'(?<path>\.[^']+)'|\bimport\('(?<path2>\.[^']+)'\)/g;
const PACKAGE = /^(?:import|export)\s[^;'"]*?from\s+'([^.'][^']*)'|^import '([^.'][^']*)'/gm;
const EXPORT = /^export (?:async )?(?:function|class|const|type)\*? ([\w$]+)/gm;

function importsOf(root: string, file: string): readonly Import[] {
  const text = readFileSync(join(root, file), 'utf8');
  const target = (path: string): string => normalize(join(dirname(file), path));
  const named = [...text.matchAll(FROM)].map(({ groups }) => ({
    from: file,
    to: target(groups?.['path'] ?? ''),
    types: groups?.['type'] !== undefined,
  }));
  const bare = [...text.matchAll(BARE)].map(({ groups }) => ({
    from: file,
    to: target(groups?.['path'] ?? groups?.['path2'] ?? ''),
    types: false,
  }));
  return [...named, ...bare].map((one) => ({ ...one, to: relative('.', one.to) }));
}
