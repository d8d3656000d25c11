import type { Ending } from '../backend.ts';

/** One action of a scripted agent. */
export type Step =
  /** Writes a text word by word. `wordMs`: the pause before each word, which the typing speed scales. */
  | { readonly do: 'say'; readonly text: string; readonly wordMs?: number }
  /** Ends the message: the next text starts a new one. */
  | { readonly do: 'flush' }
  /** Waits silently for `ms` milliseconds, which the typing speed scales. */
  | { readonly do: 'work'; readonly ms: number }
  /** Calls a tool of an MCP server and writes its result or its refusal. */
  | { readonly do: 'call'; readonly tool: string; readonly input: Readonly<Record<string, string>> }
  /** From this step on, injected messages wait for the next prompt. */
  | { readonly do: 'deafen' }
  | { readonly do: 'crash' }
  | { readonly do: 'hang' }
  | { readonly do: 'end'; readonly ending: Ending };

/** Returns the steps that post a text and end the turn, by default as completed. */
export const sayAndEnd = (text: string, ending: Ending = { how: 'completed' }): readonly Step[] => [
  { do: 'say', text },
  { do: 'end', ending },
];

/** Ends the turn as completed. */
export const DONE: Step = { do: 'end', ending: { how: 'completed' } };
/** Ends the turn without a message. */
export const PASS: readonly Step[] = [{ do: 'end', ending: { how: 'passed' } }];
/** The ending of an agent that has asked people a question. */
export const WAITING: Ending = { how: 'waiting', reason: 'answer' };

function call(text: string, tool: string, input: Readonly<Record<string, string>> = {}): readonly Step[] {
  return [{ do: 'say', text }, { do: 'flush' }, { do: 'call', tool: `scratch__${tool}`, input }, DONE];
}

const NOTE = 'note.txt';
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

/**
 * Messages that make a demo agent show one state of the floor or of a tool call. `example`: the message with the name
 * of an agent in front. `shows`: what happens, in words.
 */
export const DEMO_WORDS = [
  {
    word: 'hang',
    example: 'dev: hang',
    shows: 'says nothing and never ends: the turn times out',
    steps: [{ do: 'hang' }],
  },
  {
    word: 'forget',
    example: 'dev: forget',
    shows: 'says its text and forgets to end its turn: the turn times out',
    steps: [{ do: 'say', text: 'This is all I have to say, and I forget to say that I am done.' }, { do: 'hang' }],
  },
  {
    word: 'crash',
    example: 'dev: crash',
    shows: 'its session dies ("exited with code 137"), also in the middle of a turn',
    steps: [{ do: 'say', text: 'I start, and then' }, { do: 'crash' }],
  },
  {
    word: 'slow',
    example: 'dev: slow',
    shows: 'streams for about 40 seconds: time to inject, interrupt, skip or stop',
    steps: [{ do: 'say', text: LONG, wordMs: 220 }, DONE],
  },
  {
    word: 'ask',
    example: 'pm: ask',
    shows: 'asks a question and waits for the answer',
    steps: sayAndEnd('A question before I go on: what should it be called?', WAITING),
  },
  { word: 'pass', example: 'pm: pass', shows: 'passes: nothing is posted', steps: PASS },
  {
    word: 'refuse inject',
    example: 'dev: refuse inject',
    shows: 'works for 15 seconds and takes no message meanwhile: its next prompt has the message',
    steps: [
      { do: 'deafen' },
      { do: 'say', text: 'I work on this now and read nothing meanwhile.' },
      { do: 'work', ms: 15_000 },
      ...sayAndEnd(' Done.'),
    ],
  },
  {
    word: 'write a note',
    example: 'dev: write a note',
    shows: 'calls a tool that you are asked about: allow once, allow always, or deny',
    steps: call('I write that down.', 'write_file', { name: NOTE, text: 'One at a time has the floor.' }),
  },
  {
    word: 'read the note',
    example: 'dev: read the note',
    shows: 'calls a tool that a rule allows: nobody is asked',
    steps: call('I look it up.', 'read_file', { name: NOTE }),
  },
  {
    word: 'delete the note',
    example: 'dev: delete the note',
    shows: 'calls a tool that a rule denies',
    steps: call('I try to take it away.', 'delete_file', { name: NOTE }),
  },
  {
    word: 'break off',
    example: 'dev: break off',
    shows: 'calls a tool whose server ends meanwhile: the outcome of the call is unknown',
    steps: call('I try something that will not end well.', 'break_off'),
  },
  { word: 'hand to', example: 'pm: hand to qa', shows: 'hands the floor to the agent named', steps: PASS },
] as const satisfies readonly { word: string; example: string; shows: string; steps: readonly Step[] }[];

/**
 * Returns the steps of the demo word that is the whole message; `null` for any other message. Ignores upper case,
 * "please", periods and exclamation marks.
 */
export function demoSteps(text: string): readonly Step[] | null {
  // Cuts off the note in parentheses that background runs append to the message.
  const [asked = ''] = text.split('\n\n(');
  if (asked.length > LONGEST_WORD) return null;
  const words = asked
    .toLowerCase()
    .replace(/\bplease\b/g, '')
    .replace(/[.!\s]+/g, ' ')
    .trim();
  const to = /^hand (?:over )?to @?([\p{L}\p{N}_-]+)$/u.exec(words)?.[1];
  if (to !== undefined)
    return sayAndEnd(`I have nothing to add; @${to}, please go on.`, { how: 'completed', handTo: to });
  return DEMO_WORDS.find(({ word }) => word === words && word !== 'hand to')?.steps ?? null;
}

const LONGEST_WORD = 100;
