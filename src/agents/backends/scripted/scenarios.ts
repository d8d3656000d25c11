import { PASS, answerWith } from './scene.ts';
import type { Scene, Step } from './scene.ts';

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
  {
    word: 'write a note',
    example: 'dev: write a note',
    shows: 'calls a tool that you are asked about: once, always, or no',
  },
  { word: 'read the note', example: 'dev: read the note', shows: 'calls a tool that a rule allows: nobody is asked' },
  { word: 'delete the note', example: 'dev: delete the note', shows: 'calls a tool that a rule refuses' },
  {
    word: 'break off',
    example: 'dev: break off',
    shows: 'calls a tool whose server ends meanwhile: nobody knows what came of it',
  },
  { word: 'hand to', example: 'pm: hand to qa', shows: 'hands the floor to the agent named' },
] as const;

/** What a message tells a demo agent to show. */
export type Scenario =
  | { readonly word: Exclude<(typeof DEMO_WORDS)[number]['word'], 'hand to'> }
  | { readonly word: 'hand to'; readonly to: string };

/** Finds the demo word that a message consists of, without the names of whom it addresses. */
export function scenarioIn(text: string): Scenario | null {
  // What the host adds to work beside the floor stands in brackets behind it.
  const [asked = ''] = text.split('\n\n(');
  if (asked.length > LONGEST_SCENARIO) return null;
  const words = asked
    .toLowerCase()
    .replace(/\bplease\b/g, '')
    .replace(/[.!\s]+/g, ' ')
    .trim();
  const to = /^hand (?:over )?to @?([\p{L}\p{N}_-]+)$/u.exec(words)?.[1];
  if (to !== undefined) return { word: 'hand to', to };
  const known = DEMO_WORDS.map(({ word }) => word).find((word) => word === words);
  return known === undefined || known === 'hand to' ? null : { word: known };
}

/** What a demo agent does when a message consists of a demo word. */
export function perform(scenario: Scenario, scene: Scene): readonly Step[] {
  switch (scenario.word) {
    case 'hang':
      return [{ do: 'hang' }];
    case 'forget':
      return [{ do: 'say', text: 'This is all I have to say, and I forget to say that I am done.' }, { do: 'hang' }];
    case 'crash':
      return [{ do: 'say', text: 'I start, and then' }, { do: 'crash' }];
    case 'slow':
      return [
        { do: 'say', text: LONG, wordMs: 220 },
        { do: 'end', ending: { how: 'completed' } },
      ];
    case 'ask':
      return [
        { do: 'say', text: 'A question before I go on: what should it be called?' },
        { do: 'end', ending: { how: 'waiting', reason: 'answer' } },
      ];
    case 'pass':
      return PASS;
    case 'refuse inject':
      return [
        { do: 'deafen' },
        { do: 'say', text: 'I work on this now and read nothing meanwhile.' },
        { do: 'work', ms: 15_000 },
        { do: 'say', text: ' Done.' },
        { do: 'end', ending: { how: 'completed' } },
      ];
    case 'write a note':
      return calls('I write that down.', 'write_file', { name: NOTE, text: 'One at a time has the floor.' });
    case 'read the note':
      return calls('I look it up.', 'read_file', { name: NOTE });
    case 'delete the note':
      return calls('I try to take it away.', 'delete_file', { name: NOTE });
    case 'break off':
      return calls('I try something that will not end well.', 'break_off', {});
    case 'hand to':
      return answerWith(`I have nothing to add; @${scenario.to}, please go on.`, scene, scenario.to);
  }
}

function calls(text: string, tool: string, input: Readonly<Record<string, string>>): readonly Step[] {
  return [
    { do: 'say', text },
    { do: 'flush' },
    { do: 'call', tool: `scratch__${tool}`, input },
    { do: 'end', ending: { how: 'completed' } },
  ];
}

const NOTE = 'note.txt';
const LONGEST_SCENARIO = 100;
const LONG = [
  'I take my time with this one, so that you can see what happens when somebody needs the floor for long.',
  'While I am speaking, nobody else is: the others wait in the queue and hear everything that is said.',
  'You can write to me now. In the mode "inject" I read your message at once, take it up and go on.',
  'In the mode "queue" it waits until I am done, and is then given to whoever speaks next.',
  'In the mode "interrupt" I stop in the middle of a sentence, answer you first, and then finish what was open.',
  'In the mode "parallel" everybody sees it, and I go on as if nothing had happened.',
  'You can also press Skip, which ends my turn and gives the floor to the next agent, or Stop, which silences all of us.',
  'The clock beside my name is the time that I have left; every word that I write winds it up again.',
  'When I am done, the floor goes on by itself, and the time line shows how long I held it.',
  'That was all of it.',
].join('\n\n');
