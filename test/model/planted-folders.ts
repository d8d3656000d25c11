import { searchFolders } from './folders.ts';
import type { FoundInFolder, Trusting } from './folders.ts';
import { loadPlanted } from './planted-source.ts';
import type { Planted } from './planted.ts';
import type { Way, Ways } from './ways.ts';

const TRUST = 'agents/trust/folder-trust.ts';
const EXECUTE = 'turns/commands/execute.ts';
/** Events after which most bugs show soon, and the number of further events. */
const OPENING = ['the folder holds one', 'a turn of dev begins in console:a'];
const DEPTH = 4;

/** Bugs in the trust in folders. */
export const PLANTED_FOLDERS: readonly Planted[] = [
  {
    name: 'an old button trusts the files that are there now',
    file: TRUST,
    find: '    if (id !== current) return this.#refusal({ agent, channel: request.channel }, { id, state });\n',
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

/** Plants each bug in its own copy of the code, and searches the copy. */
export async function catchInFolders(
  ways?: Ways,
): Promise<readonly { readonly bug: Planted; readonly found: FoundInFolder | null }[]> {
  const caught: { readonly bug: Planted; readonly found: FoundInFolder | null }[] = [];
  for (const bug of PLANTED_FOLDERS) {
    const copy = await loadPlanted<Trusting>([bug], TRUST, EXECUTE);
    caught.push({ bug, found: (await firstAlong(copy, ways?.get(bug.name))) ?? (await firstFound(copy)) });
  }
  return caught;
}

/** Follows a known way. `null` when it leads to no broken invariant. */
async function firstAlong(copy: Trusting, along: Way | undefined): Promise<FoundInFolder | null> {
  if (along === undefined) return null;
  const opening = along.moves.map(String);
  return (await searchFolders(copy, { depth: 0, first: true, opening })).found[0] ?? null;
}

async function firstFound(copy: Trusting): Promise<FoundInFolder | null> {
  return (await searchFolders(copy, { depth: DEPTH, first: true, opening: OPENING })).found[0] ?? null;
}
