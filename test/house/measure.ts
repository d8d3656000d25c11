import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cyclesIn, exportsOf, readSource, roomOf } from './imports.ts';
import type { Import } from './imports.ts';
import { ROOMS, broken } from './rooms.ts';
import { SAME_MEANING, isOnePart } from './same-meaning.ts';

/** Measures of the source, with the items that each number counts. */
export type House = {
  readonly rooms: readonly string[];
  readonly looseFiles: readonly string[];
  readonly files: number;
  readonly linesOfCode: number;
  readonly mostFilesInAFolder: { readonly folder: string; readonly files: number };
  /** The deepest nesting of folders below `src`. */
  readonly deepest: number;
  readonly cycles: readonly (readonly string[])[];
  /**
   * File names and exported names that several files share, without parts that all platforms have and without names
   * whose equal meaning is stated (`sharedByMeaning`).
   */
  readonly sharedFileNames: readonly SharedName[];
  readonly sharedExports: readonly SharedName[];
  readonly sharedByMeaning: readonly SharedName[];
  readonly bordersBroken: readonly Import[];
};

/** A name, and the files that have it. */
export type SharedName = { readonly name: string; readonly files: readonly string[] };

/** Measures the source below a folder. */
export function measure(root: string): House {
  const source = readSource(root);
  const { files, imports } = source;
  const folders = [...Map.groupBy(files, dirname)].map(([folder, inside]) => ({ folder, files: inside.length }));
  const fileNames = sharedBy(files, (file) => [file.split('/').at(-1) ?? file]);
  const exported = sharedBy(files, (file) => exportsOf(root, file));
  const hasReason = ({ name }: SharedName): boolean => name in SAME_MEANING;
  const [most = { folder: '', files: 0 }] = folders.toSorted((one, other) => other.files - one.files);
  return {
    rooms: [...new Set(files.map(roomOf).filter((room) => room !== ''))],
    looseFiles: files.filter((file) => roomOf(file) === ''),
    files: files.length,
    linesOfCode: files.reduce((sum, file) => sum + linesOfCode(root, file), 0),
    mostFilesInAFolder: most,
    deepest: Math.max(...files.map((file) => file.split('/').length - 1)),
    cycles: cyclesIn(source),
    sharedFileNames: fileNames.filter((one) => !hasReason(one)),
    sharedExports: exported.filter((one) => !hasReason(one)),
    sharedByMeaning: [...fileNames, ...exported].filter(hasReason),
    bordersBroken: broken(imports),
  };
}

/** The table of rooms for CONTRIBUTING.md. */
export function roomsTable(): string {
  const rows = ROOMS.map(({ name, what, may, mayTypes }) => {
    const allowed = [...may, ...mayTypes.map((other) => `types of ${other}`)];
    return `| [src/${name}](src/${name}) | ${what} | ${allowed.join(', ') || 'nothing of ours'} |`;
  });
  return ['| Room | What is in it | May import |', '| --- | --- | --- |', ...rows].join('\n');
}

/** The diagram of imports between rooms, as GitHub shows it (Mermaid). */
export function roomsPicture(root: string): string {
  const { imports } = readSource(root);
  const edges = imports
    .map(({ from, to }) => [roomOf(from), roomOf(to)] as const)
    .filter(([from, to]) => from !== '' && to !== '' && from !== to)
    .map(([from, to]) => `  ${from} --> ${to}`);
  return ['```mermaid', 'graph TD', ...[...new Set(edges)].toSorted(), '```'].join('\n');
}

/** Counts the lines of a TypeScript file without blank lines and comments; 0 for other files. */
function linesOfCode(root: string, file: string): number {
  if (!/\.tsx?$/.test(file)) return 0;
  const text = readFileSync(join(root, file), 'utf8').replaceAll(/^\s*\/\*[\s\S]*?\*\/\s*$/gm, '');
  return text.split('\n').filter((line) => !/^\s*(?:\/\/|$)/.test(line)).length;
}

function sharedBy(files: readonly string[], namesOf: (file: string) => readonly string[]): readonly SharedName[] {
  const uses = files.flatMap((file) => [...new Set(namesOf(file))].map((name) => ({ name, file })));
  return [...Map.groupBy(uses, ({ name }) => name)]
    .map(([name, all]) => ({ name, files: all.map(({ file }) => file) }))
    .filter(({ files: all }) => all.length > 1 && !isOnePart(all));
}
