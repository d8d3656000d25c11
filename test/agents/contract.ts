import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BackendError } from '../../src/agents/backend.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome, PermissionChoice } from '../../src/agents/backend.ts';
import { person, prompt, recorder } from './conversation.ts';

/** What the agent behind a backend does in one generation. */
export type Act =
  /** Plain answer text. */
  | { readonly do: 'write'; readonly text: string }
  /** A message of its own, out before what follows. */
  | { readonly do: 'say'; readonly text: string }
  /** Does nothing until the rig releases it; stops when asked to. */
  | { readonly do: 'pause' }
  | { readonly do: 'pass' }
  | { readonly do: 'wait_for'; readonly question: string }
  | { readonly do: 'hand_to'; readonly agent: string }
  /** Asks people for a yes, then writes "allowed" or "rejected". */
  | { readonly do: 'ask'; readonly title: string }
  /** Does nothing for ever and does not stop when asked to. */
  | { readonly do: 'hang' }
  | { readonly do: 'crash' };

/** A backend with an agent behind it that does as it is told. */
export type Rig = {
  readonly backend: AgentBackend;
  /** What a message in the middle of a turn comes to. */
  readonly inject: InjectOutcome;
  /** What is said of a crash. */
  readonly crash: RegExp;
  /** What the next generation does; one without a play writes "Noted.". */
  play(...acts: Act[]): void;
  /** Resolves when the agent has come to its `pause` or `hang`. */
  paused(): Promise<void>;
  release(): void;
  /** All texts that the model, or what stands for it, was given so far. */
  seen(): Promise<readonly string[]>;
  /** Ends what the rig started; rejects when a process is left behind. */
  stop(): Promise<void>;
};

/** What every backend promises to the supervisor. `asks`: agents of this kind ask people for permission. */
export function contract(name: string, build: () => Promise<Rig>, { asks = false } = {}): void {
  let rig: Rig;
  let session: AgentSession;

  beforeEach(async () => {
    rig = await build();
    session = await open();
  });

  afterEach(async () => {
    await session.close();
    await rig.stop();
  });

  const open = () => rig.backend.open({ channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' });

  const asking = (text: string, more: Parameters<typeof prompt>[0] = {}) =>
    prompt({ messages: [person(1, text)], text: `[from Anna (u1), to answer now]\n${text}`, ...more });

  /** Prompts the session and keeps what it tells. */
  const begin = (
    text: string,
    more: Parameters<typeof prompt>[0] = {},
    choice: PermissionChoice | 'cancelled' = 'cancelled',
  ) => {
    const heard = recorder();
    const asked: string[] = [];
    const report: typeof heard.report = {
      ...heard.report,
      permission: async (request) => {
        asked.push(request.title);
        return request.kinds.includes(choice as PermissionChoice) ? choice : 'cancelled';
      },
    };
    const over = session.prompt(asking(text, more), report);
    over.catch(() => {});
    const said = () => heard.messages.map((message) => message.trim()).filter((message) => message !== '');
    return { over, said, asked };
  };

  /** A generation that has said "First." and pauses. */
  const paused = async (...rest: Act[]) => {
    rig.play({ do: 'say', text: 'First.' }, { do: 'pause' }, ...rest);
    const turn = begin('Build it');
    await rig.paused();
    return turn;
  };

  const whole = async (
    text: string,
    more: Parameters<typeof prompt>[0] = {},
  ): Promise<{ said: string[]; ending: Ending }> => {
    const { over, said } = begin(text, more);
    const ending = await over;
    return { said: said(), ending };
  };

  describe(`${name}: a prompt`, () => {
    test('is given to the agent, and its plain answer is the turn', async () => {
      rig.play({ do: 'write', text: 'It is built.' });
      expect(await whole('Build a bridge')).toEqual({ said: ['It is built.'], ending: { how: 'completed' } });
      expect((await rig.seen()).join('\n')).toContain('Build a bridge');
    });

    test('is answered in several messages, each out as soon as it is said', async () => {
      const turn = await paused({ do: 'write', text: 'Second.' });
      expect(turn.said()).toEqual(['First.']);
      rig.release();
      expect(await turn.over).toEqual({ how: 'completed' });
      expect(turn.said()).toEqual(['First.', 'Second.']);
    });

    test('is passed without a word', async () => {
      rig.play({ do: 'pass' });
      expect(await whole('Anything to add?')).toEqual({ said: [], ending: { how: 'passed' } });
    });

    test('is answered and the floor handed over', async () => {
      rig.play({ do: 'say', text: 'Please check.' }, { do: 'hand_to', agent: 'qa' });
      expect(await whole('Build it')).toEqual({ said: ['Please check.'], ending: { how: 'completed', handTo: 'qa' } });
    });

    test('is answered with a question, and the answer is the next prompt', async () => {
      rig.play({ do: 'wait_for', question: 'Which colour?' });
      const ending = { how: 'waiting', reason: 'answer' };
      expect(await whole('Paint it')).toEqual({ said: ['Which colour?'], ending });
      rig.play({ do: 'write', text: 'Painted.' });
      expect(await whole('Ultramarine, please', { reason: 'resume' })).toEqual({
        said: ['Painted.'],
        ending: { how: 'completed' },
      });
      expect((await rig.seen()).join('\n')).toContain('Ultramarine, please');
    });

    test('is followed by another', async () => {
      rig.play({ do: 'write', text: 'One.' });
      await whole('Count');
      rig.play({ do: 'write', text: 'Two.' });
      expect(await whole('Go on')).toEqual({ said: ['Two.'], ending: { how: 'completed' } });
    });
  });

  describe(`${name}: a message in the middle of a turn`, () => {
    test('has an outcome that equals what the model saw', async () => {
      const turn = await paused({ do: 'write', text: 'Second.' });
      const outcome = session.inject(person(2, 'Make it violet'), false);
      rig.release();
      expect(await turn.over).toEqual({ how: 'completed' });
      const saw = (await rig.seen()).some((text) => text.includes('Make it violet'));
      expect({ outcome: await outcome, saw }).toEqual({ outcome: rig.inject, saw: rig.inject === 'injected' });
    });

    test('goes to the next prompt while nothing is generated', async () => {
      expect(await session.inject(person(2, 'Make it violet'), false)).toBe('next-prompt');
    });
  });

  describe(`${name}: a turn that is interrupted`, () => {
    test('stops within the grace, and nothing more is heard of it', async () => {
      const turn = await paused({ do: 'write', text: 'Second.' });
      await session.interrupt(5_000);
      expect(await turn.over).toEqual({ how: 'interrupted' });
      rig.release();
      rig.play({ do: 'write', text: 'Answered.' });
      expect(await whole('Wait', { reason: 'resume', saidSoFar: ['First.'] })).toEqual({
        said: ['Answered.'],
        ending: { how: 'completed' },
      });
      expect(turn.said()).toEqual(['First.']);
    });

    test('is stopped by force when it does not stop by itself', async () => {
      rig.play({ do: 'hang' });
      const turn = begin('Build it');
      await rig.paused();
      await session.interrupt(100);
      expect(await turn.over).toEqual({ how: 'interrupted' });
      rig.play({ do: 'write', text: 'Back.' });
      expect((await whole('Are you there?', { reason: 'resume' })).said).toEqual(['Back.']);
    });

    test('is over when the session closes', async () => {
      const turn = await paused();
      await session.close();
      const ending = await turn.over.then(
        ({ how }) => how,
        (error: unknown) => error,
      );
      expect(ending === 'interrupted' || ending instanceof BackendError).toBe(true);
    });
  });

  describe(`${name}: an agent that fails`, () => {
    test('is a backend error with its cause in one line', async () => {
      rig.play({ do: 'crash' });
      const error: unknown = await begin('Build it').over.catch((failure: unknown) => failure);
      expect(error).toBeInstanceOf(BackendError);
      const { message, terminal } = error as BackendError;
      expect(message).toMatch(rig.crash);
      expect(message).not.toContain('\n');
      expect(terminal).toBe(false);
    });

    test('goes on in a new session that is told what was said so far', async () => {
      await session.close();
      session = await open();
      rig.play({ do: 'write', text: 'The rest.' });
      const said = ['The first half.'];
      const text = '[from Developer (dev), you, said so far]\nThe first half.';
      expect((await whole('Build it', { reason: 'resume', saidSoFar: said, text })).said).toEqual(['The rest.']);
      expect((await rig.seen()).join('\n')).toContain('The first half.');
    });
  });

  describe.each(asks ? [name] : [])('%s: an agent that needs a yes', () => {
    test.for([
      ['allow_once', 'allowed'],
      ['reject_once', 'rejected'],
    ] as const)('is told %s', async ([choice, written]) => {
      rig.play({ do: 'ask', title: 'Delete the build folder' });
      const turn = begin('Clean up', {}, choice);
      expect(await turn.over).toEqual({ how: 'completed' });
      expect(turn.asked).toHaveLength(1);
      expect(turn.asked[0]).toContain('Delete the build folder');
      expect(turn.said()).toEqual([written]);
    });
  });

  describe(`${name}: an idle session`, () => {
    test('answers a ping and closes twice', async () => {
      await session.ping();
      await session.close();
      await expect(session.close()).resolves.toBeUndefined();
    });
  });
}
