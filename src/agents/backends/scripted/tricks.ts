import { PASS, answerWith } from './scene.ts';
import type { Scene, Step } from './scene.ts';
import type { Trick } from './words.ts';

/** What a demo agent does when a message consists of a demo word. */
export function perform(trick: Trick, scene: Scene): readonly Step[] {
  switch (trick.word) {
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
    case 'hand to':
      return answerWith(`I have nothing to add; @${trick.to}, please go on.`, scene, trick.to);
  }
}

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
