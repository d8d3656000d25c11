import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import {
  conchCommand,
  installCommand,
  installationOf,
  isInstalled,
  programBeside,
  watchVersion,
} from '../../src/lib/installation.ts';

/** Makes `node_modules/conch` in a new folder and returns its path. `project`: the folder's `package.json`, or null. */
function installed(place: string, project: string | null): string {
  const folder = join(mkdtempSync(join(tmpdir(), 'conch-installed-')), place);
  const own = join(folder, 'node_modules/conch');
  mkdirSync(join(own, 'src/lib'), { recursive: true });
  writeFileSync(join(own, 'package.json'), '{\n  "name": "conch",\n  "version": "3.2.1"\n}\n');
  if (project !== null) writeFileSync(join(folder, 'package.json'), project);
  return own;
}

const fileIn = (folder: string, name = 'src/lib/installation.js'): string => pathToFileURL(join(folder, name)).href;

describe('an installation', () => {
  test.each([
    ['project', 'work', '{}', 'npx conch open', 'npm install pg@8'],
    ['global', 'usr/lib', null, 'conch open', 'npm install --global pg@8'],
    [
      'npx',
      '.npm/_npx/8a4',
      '{ "dependencies": { "conch": "^3.2.1" } }',
      'npx conch open',
      'npm install conch@3.2.1 pg@8',
    ],
  ])('of the kind %s names the commands to type there', (kind, place, project, open, install) => {
    const folder = installed(place, project);
    const here = installationOf(fileIn(folder));
    expect(here).toEqual({ folder, kind });
    expect(conchCommand('open', here)).toBe(open);
    expect(installCommand(['pg@8'], here)).toBe(install);
  });

  test('that npx runs from a packed file installs the packed file', () => {
    const folder = installed('_npx/8a4', '{\n "dependencies": { "conch": "file:../../../conch-3.2.1.tgz" } }');
    const packed = join(dirname(dirname(folder)), '../../../conch-3.2.1.tgz');
    expect(installCommand(['pg@8'], installationOf(fileIn(folder)))).toBe(`npm install ${packed} pg@8`);
  });

  test('in the repository is run by its npm scripts', () => {
    const here = installationOf();
    expect(here.kind).toBe('repository');
    expect([conchCommand('start', here), conchCommand('open', here)]).toEqual(['npm start', 'npm run conch -- open']);
  });

  test('starts its programs with the extension of its own files (.ts or .js)', () => {
    expect(programBeside('../git-runner', 'file:///a/src/lib/git.ts')).toBe('/a/src/git-runner.ts');
    expect(programBeside('git-runner', 'file:///a/src/lib/git.js')).toBe('/a/src/lib/git-runner.js');
  });

  test('knows which packages it can load', () => {
    expect(['better-sqlite3', 'discord.js', 'no-such-package-here'].map(isInstalled)).toEqual([true, true, false]);
  });
});

describe('an update while Conch runs', () => {
  test('is reported once, and not while npm replaces the files', () => {
    const folder = installed('work', '{}');
    const write = (text: string) => writeFileSync(join(folder, 'package.json'), text);
    const told: string[] = [];
    const looks: (() => void)[] = [];
    const timers = { after: (_: number, look: () => void) => (looks.push(look), { cancel: () => undefined }) };
    const watched = { timers, told: (from: string, to: string) => void told.push(`${from} ${to}`) };
    watchVersion(watched, { folder, kind: 'project' });
    const look = () => looks.shift()?.();
    look();
    write('');
    look();
    expect(told).toEqual([]);
    write('{ "version": "4.0.0" }');
    look();
    look();
    expect(told).toEqual(['3.2.1 4.0.0']);
  });
});
