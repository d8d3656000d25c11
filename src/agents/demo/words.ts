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

/** Finds the demo word that a message consists of, whether or not an agent is addressed before it. */
export function trickIn(text: string): Trick | null {
  const words = unaddressed(text)
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
export function unaddressed(text: string): string {
  return text.trim().replace(/^(?:@[\p{L}\p{N}_-]+[,:]?\s+|[\p{L}\p{N}_-]+:\s+)+/u, '');
}

/** Agents that a person's text names, by `@id` anywhere or by "id:" or "id," at its start. */
export function namedIn(text: string, ids: readonly string[]): readonly string[] {
  const lower = text.toLowerCase();
  const first = /^\s*([\p{L}\p{N}_-]+)[:,]/u.exec(lower)?.[1];
  const mentioned = new Set(Array.from(lower.matchAll(/(?<![\p{L}\p{N}])@([\p{L}\p{N}_-]+)/gu), ([, id]) => id));
  return ids.filter((id) => first === id.toLowerCase() || mentioned.has(id.toLowerCase()));
}
