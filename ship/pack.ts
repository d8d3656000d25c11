import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { packAll } from './packed.ts';
import { ROOT } from './stage.ts';
import { versionIn } from './version.ts';

/**
 * `npm run pack`: packs `conch` and `conch-agent` into `dist/packages`. `--out` names another folder, `--version` another
 * version than that of the last tag.
 */
const { values } = parseArgs({
  options: { out: { type: 'string', default: 'dist/packages' }, version: { type: 'string', default: versionIn(ROOT) } },
});
const out = resolve(values.out);
mkdirSync(out, { recursive: true });
for (const { file, packedKB, unpackedKB, files } of await packAll({ out, version: values.version }))
  process.stdout.write(`${file}: ${packedKB} kB, ${files.length} files of ${unpackedKB} kB\n`);
