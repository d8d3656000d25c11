import { parseArgs } from 'node:util';
import { roomOf } from './imports.ts';
import { measure } from './measure.ts';
import { trace } from './trace.ts';
import type { Crossed } from './trace.ts';

/**
 * `main.ts`: how the source lies, each number with what it counts; the last line is JSON. `--json` keeps standard output to
 * that line. `--trace`: the files and functions that one message crosses, room by room.
 */
const { values } = parseArgs({ options: { json: { type: 'boolean' }, trace: { type: 'boolean' } } });
const print = values.json === true ? console.error : console.log;
const crossed = await trace();
const perMessage = {
  filesPerMessage: crossed.length,
  functionsPerMessage: crossed.flatMap((one) => one.functions).length,
};
if (values.trace === true) printTrace(crossed);
else printHouse();

function printTrace(files: readonly Crossed[]): void {
  for (const [room, inside] of Map.groupBy(files, ({ file }) => roomOf(file))) {
    print(`${room}: ${inside.length} files`);
    for (const { file, functions } of inside) print(`  ${file} (${functions.length}): ${functions.join(', ')}`);
  }
  console.log(JSON.stringify(perMessage));
}

function printHouse(): void {
  const { rooms, mostFilesInAFolder, deepest, ...lists } = measure(new URL('../../src', import.meta.url).pathname);
  for (const [name, all] of Object.entries(lists)) {
    print(`${name}: ${all.length}`);
    for (const one of all) print(`  ${typeof one === 'string' ? one : JSON.stringify(one)}`);
  }
  print(`most files in a folder: ${mostFilesInAFolder.files} in ${mostFilesInAFolder.folder}`);
  const { looseFiles, cycles, sharedFileNames, sharedExports, bordersBroken } = lists;
  const numbers = {
    rooms: rooms.length,
    looseFiles: looseFiles.length,
    mostFilesInAFolder: mostFilesInAFolder.files,
    deepest,
    cycles: cycles.length,
    sharedFileNames: sharedFileNames.length,
    sharedExports: sharedExports.length,
    bordersBroken: bordersBroken.length,
    ...perMessage,
  };
  console.log(JSON.stringify(numbers));
}
