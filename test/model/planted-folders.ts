import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { searchFolders } from './folders.ts';
import type { FoundInFolder, Trusting } from './folders.ts';
import { change, inScratch } from './plant.ts';
import type { Planted } from './planted.ts';

const SRC_DIR = join(import.meta.dirname, '../../src');
const TRUST = 'agents/trust/folder-trust.ts';
const EXECUTE = 'turns/commands/execute.ts';
/** What the trust and the commands are made of. */
const ROOMS = ['agents/trust', 'agents/backends/backend.ts', 'turns', 'work', 'engine', 'lib', 'rules', 'config'];
/** Happenings after which most bugs show soon, and how many more are played. */
const OPENING = ['the folder holds one', 'a turn of dev begins in console:a'];
const DEPTH = 4;

/** Bugs in the trust in folders. */
export const PLANTED_FOLDERS: readonly Planted[] = [
  {
    name: 'an old button trusts the files that are there now',
    file: TRUST,
    find: '    if (id !== current) return this.#refusal({ agent, channel: request.channel }, { id, known });\n',
    replace: '',
  },
  {
    name: 'an old button leaves the files that are there now',
    file: TRUST,
    find: 'if (id !== null && id !== idOf(digest))',
    replace: 'if (id !== null && id === id.toUpperCase())',
  },
  {
    name: 'a turn begins in a folder that was left untrusted',
    file: TRUST,
    find: "if (digest === null || decision?.choice === 'trusted') {",
    replace: 'if (digest === null || decision !== null) {',
  },
  {
    name: 'a decision holds for whatever the folder holds later',
    file: 'agents/trust/trust-book.ts',
    find: 'find((decision) => decision.digest === digest) ?? null',
    replace: 'at(-1) ?? null',
  },
  {
    name: 'files are told apart by their names alone',
    file: 'agents/trust/folder-scan.ts',
    find: 'found.map(({ at, print }) => [at, print.mark])',
    replace: 'found.map(({ at }) => [at])',
  },
  {
    name: 'a session goes on in a folder that is left untrusted',
    file: EXECUTE,
    find: "    if (verb === 'distrust' && answer.ok) await roster.restart(agent);\n",
    replace: '',
  },
  {
    name: 'an agent whose folder is trusted is not started',
    file: TRUST,
    find: '    for (const [other, folder] of this.#folders) if (this.#ownerOf(other) === owner) folder.wake();\n',
    replace: '',
  },
  {
    name: 'the seat in another channel waits for good',
    file: TRUST,
    find: '      folder.wake();\n',
    replace: '',
  },
  {
    name: 'a question about older files stands beside the answer about newer ones',
    file: TRUST,
    find: "    this.#tellAll(agent, { type: 'dropTrust', agent, keeps: idOf(digest) });\n",
    replace: '',
  },
  {
    name: 'people of a second channel are not asked',
    file: TRUST,
    find: '    folder.refused = digest;\n    if (decision === null) this.#ask(seat, scan);\n',
    replace:
      '    if (decision === null && folder.refused !== digest) this.#ask(seat, scan);\n    folder.refused = digest;\n',
  },
];

/** Plants each in a copy of its own and searches it. */
export async function catchInFolders(): Promise<
  readonly { readonly bug: Planted; readonly found: FoundInFolder | null }[]
> {
  return inScratch(async (folder) => {
    const caught: { readonly bug: Planted; readonly found: FoundInFolder | null }[] = [];
    for (const [index, bug] of PLANTED_FOLDERS.entries()) {
      const dir = join(folder, `folders-${index}`);
      for (const room of ROOMS) await cp(join(SRC_DIR, room), join(dir, room), { recursive: true });
      await change(dir, bug);
      const load = (file: string): Promise<Trusting> => import(pathToFileURL(join(dir, file)).href);
      const [{ FolderTrust }, { createOperators }] = [await load(TRUST), await load(EXECUTE)];
      const { found } = await searchFolders(
        { FolderTrust, createOperators },
        { depth: DEPTH, first: true, opening: OPENING },
      );
      caught.push({ bug, found: found[0] ?? null });
    }
    return caught;
  });
}
