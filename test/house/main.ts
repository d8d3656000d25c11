import { parseArgs } from 'node:util';
import { measure } from './measure.ts';

const { values } = parseArgs({ options: { json: { type: 'boolean', default: false } } });
const { rooms, mostFilesInAFolder, deepest, ...lists } = measure(new URL('../../src', import.meta.url).pathname);
const print = values.json ? console.error : console.log;

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
};
console.log(JSON.stringify(numbers));
