import type { Addressee } from '../../../turns/text/addressing.ts';

/** Words that make a demo agent show one state of the floor. `{agent}: ` before them picks the agent. */
export const DEMO_WORDS = [
  { word: 'hang', example: 'dev: hang', shows: 'says nothing and never ends: the turn times out' },
  { word: 'forget', example: 'dev: forget', shows: 'says its text and forgets to end its turn: the turn times out' },
  {
    word: 'crash',
    example: 'dev: crash',
    shows: 'its session dies ("exited with code 137"), also in the middle of a turn',
  },
  {
    word: 'slow',
    example: 'dev: slow',
    shows: 'streams for about 40 seconds: time to inject, interrupt, skip or stop',
  },
  { word: 'ask', example: 'pm: ask', shows: 'asks a question and waits for the answer' },
  { word: 'pass', example: 'pm: pass', shows: 'passes: nothing is posted' },
  {
    word: 'refuse inject',
    example: 'dev: refuse inject',
    shows: 'works for 15 seconds and takes no message meanwhile: it is prompted with it afterwards',
  },
  { word: 'hand to', example: 'pm: hand to qa', shows: 'hands the floor to the agent named' },
] as const;

/** What a message tells a demo agent to show. */
export type Trick =
  | { readonly word: Exclude<(typeof DEMO_WORDS)[number]['word'], 'hand to'> }
  | { readonly word: 'hand to'; readonly to: string };

/** Finds the demo word that a message consists of, without the names of whom it addresses. */
export function trickIn(text: string): Trick | null {
  if (text.length > LONGEST_TRICK) return null;
  const words = text
    .toLowerCase()
    .replace(/\bplease\b/g, '')
    .replace(/[.!\s]+/g, ' ')
    .trim();
  const to = /^hand (?:over )?to @?([\p{L}\p{N}_-]+)$/u.exec(words)?.[1];
  if (to !== undefined) return { word: 'hand to', to };
  const known = DEMO_WORDS.map(({ word }) => word).find((word) => word === words);
  return known === undefined || known === 'hand to' ? null : { word: known };
}

/** The text without the names before it: "@dev, please" and "dev: please" are both "please". */
export function unaddressed(text: string, agents: readonly Addressee[]): string {
  const names = agents.flatMap(({ id, name }) => [id.toLowerCase(), name.toLowerCase()]);
  let rest = text.trim();
  for (let length = 0; (length = addressLength(rest, names)) > 0;) rest = rest.slice(length).replace(/^[\s,:]+/, '');
  return rest;
}

function addressLength(text: string, names: readonly string[]): number {
  const lower = text.toLowerCase();
  const lengths = names.map((name) => {
    if (lower.startsWith(`@${name}`) && /^[\s,:]/.test(lower.slice(name.length + 1))) return name.length + 1;
    return lower.startsWith(name) && /^[,:]/.test(lower.slice(name.length)) ? name.length : 0;
  });
  return Math.max(0, ...lengths);
}

const LONGEST_TRICK = 100;
