import { parseArgs } from 'node:util';
import { measure } from './measure.ts';
import { sizeOf, trace } from './trace.ts';
import type { Crossed } from './trace.ts';

/**
 * `main.ts`: prints measures of the source; the last line is JSON. `--json` prints only that line. `--trace` prints the
 * path of one message, in the order of the calls.
 */
const { values } = parseArgs({ options: { json: { type: 'boolean' }, trace: { type: 'boolean' } } });
const print = values.json === true ? console.error : console.log;
const way = await trace();
if (values.trace === true) printTrace(way.inOrder);
else printHouse();

function printTrace(steps: readonly Crossed[]): void {
  for (const [index, { file, functions }] of steps.entries()) {
    print(`${String(index + 1).padStart(3)} ${file.padEnd(38)} ${functions.join(', ')}`);
  }
  console.log(JSON.stringify(sizeOf(way)));
}

function printHouse(): void {
  const house = measure(new URL('../../src', import.meta.url).pathname);
  const { rooms, files, linesOfCode, mostFilesInAFolder, deepest, ...lists } = house;
  for (const [name, all] of Object.entries(lists)) {
    print(`${name}: ${all.length}`);
    for (const one of all) print(`  ${typeof one === 'string' ? one : JSON.stringify(one)}`);
  }
  print(`most files in a folder: ${mostFilesInAFolder.files} in ${mostFilesInAFolder.folder}`);
  const { looseFiles, cycles, sharedFileNames, sharedExports, bordersBroken } = lists;
  const numbers = {
    rooms: rooms.length,
    files,
    linesOfCode,
    looseFiles: looseFiles.length,
    mostFilesInAFolder: mostFilesInAFolder.files,
    deepest,
    cycles: cycles.length,
    sharedFileNames: sharedFileNames.length,
    sharedExports: sharedExports.length,
    bordersBroken: bordersBroken.length,
    ...sizeOf(way),
  };
  console.log(JSON.stringify(numbers));
}
