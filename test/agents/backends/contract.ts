import { INTERRUPT_MODES } from '../../../src/turns/floor/policies.ts';
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BackendError } from '../../../src/agents/backends/backend.ts';
import type { AgentBackend, AgentSession, Ending, InjectOutcome } from '../../../src/agents/backends/backend.ts';
import type { Choice } from '../../../src/turns/floor/settings.ts';
import { openChannel } from '../channel.ts';
import { gateThat, person, prompt, recorder } from './conversation.ts';
import { isAnswered, isAsked, witnessed } from '../witness.ts';

/** What the agent behind a backend does in one generation. */
export type Act =
  /** Plain answer text, streamed character by character where the protocol streams. */
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

/** What every backend promises. `asks`: agents of this kind ask people for permission. */
export function contract(name: string, build: () => Promise<Rig>, { asks = false } = {}): void {
  describe(`${name}, by itself`, () => {
    promises(build, asks);
  });
  describe(`${name}, in a channel`, () => {
    inChannel(build);
  });
  describe(`${name}, under many messages`, () => {
    answers(build);
  });
}

/** What it promises to the supervisor. */
function promises(build: () => Promise<Rig>, asks: boolean): void {
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
  const begin = (text: string, more: Parameters<typeof prompt>[0] = {}, choice: Choice | 'cancelled' = 'cancelled') => {
    const heard = recorder();
    const asked: string[] = [];
    const report: typeof heard.report = {
      ...heard.report,
      gate: gateThat(({ title = '' }) => (asked.push(title), choice)),
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
    await expect.poll(turn.said).toEqual(['First.']);
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

  describe('a prompt', () => {
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

  describe('a message in the middle of a turn', () => {
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

  describe('a turn that is interrupted', () => {
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

  describe('an agent that fails', () => {
    test('is a backend error with its cause in one line', async () => {
      rig.play({ do: 'crash' });
      const error: unknown = await begin('Build it').over.catch((failure: unknown) => failure);
      expect(error).toBeInstanceOf(BackendError);
      const { message, terminal } = error as BackendError;
      expect(message).toMatch(rig.crash);
      expect(message).not.toContain('\n');
      expect(terminal).toBe(false);
    });

    test('T23 has given no sign of life by then: it counts as one more failure in a row', async () => {
      rig.play({ do: 'crash' });
      const heard = recorder();
      await expect(session.prompt(asking('Build it'), heard.report)).rejects.toBeInstanceOf(BackendError);
      expect(heard.events.filter((event) => event.startsWith('work'))).toEqual([]);
      expect(heard.text().replaceAll('---', '').trim()).toBe('');
    });

    test('T59 that hangs gives no sign of life, and is over when its session closes', async () => {
      rig.play({ do: 'hang' });
      const heard = recorder();
      const over = session.prompt(asking('Build it'), heard.report).catch(() => null);
      await rig.paused();
      expect(heard.events.filter((event) => event.startsWith('work'))).toEqual([]);
      expect(heard.text()).toBe('');
      await session.close();
      await over;
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

  describe.runIf(asks)('an agent that needs a yes', () => {
    test.for([
      ['allow', 'allowed'],
      ['reject', 'rejected'],
    ] as const)('is told %s', async ([choice, written]) => {
      rig.play({ do: 'ask', title: 'Delete the build folder' });
      const turn = begin('Clean up', {}, choice);
      expect(await turn.over).toEqual({ how: 'completed' });
      expect(turn.asked).toHaveLength(1);
      expect(turn.asked[0]).toContain('Delete the build folder');
      expect(turn.said()).toEqual([written]);
    });
  });

  describe('T86 a session that is closed', () => {
    const ways: readonly (readonly [string, readonly Act[]])[] = [
      ['while it is idle', []],
      ['after an answer', [{ do: 'write', text: 'Done.' }]],
      ['in the middle of an answer', [{ do: 'say', text: 'First.' }, { do: 'pause' }]],
      ['while its agent hangs', [{ do: 'hang' }]],
      ['after its agent crashed', [{ do: 'crash' }]],
    ];
    test.each(ways)('%s leaves no timer armed', async (_, acts) => {
      await session.close();
      const before = armedTimers();
      session = await open();
      if (acts.length > 0) {
        rig.play(...acts);
        const { over } = begin('Build it');
        const isPausing = acts.some((act) => act.do === 'pause' || act.do === 'hang');
        await (isPausing ? rig.paused() : over.catch(() => null));
        await session.close();
        await over.catch(() => null);
      } else await session.close();
      await soon(() => armedTimers() <= before);
      expect(armedTimers()).toBeLessThanOrEqual(before);
    });
  });

  describe('an idle session', () => {
    test('answers a ping and closes twice', async () => {
      await session.ping();
      await session.close();
      await expect(session.close()).resolves.toBeUndefined();
    });
  });
}

/** How many timers keep this process from ending. */
export function armedTimers(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
}

/** Waits without a timer until something holds, for a second at most. */
export async function soon(holds: () => boolean): Promise<void> {
  const end = performance.now() + 1_000;
  while (!holds() && performance.now() < end) await new Promise((resolve) => void setImmediate(resolve));
}

/** What an agent does in one generation, and what happens around it, as drawn by chance. */
const PLAYS: readonly (readonly Act[])[] = [
  [{ do: 'pause' }, { do: 'write', text: 'After a pause.' }],
  [{ do: 'say', text: 'First half.' }, { do: 'pause' }, { do: 'write', text: 'Second half.' }],
  [{ do: 'write', text: 'At once.' }],
  [{ do: 'pause' }, { do: 'pass' }],
  [{ do: 'wait_for', question: 'Which one?' }],
];
const STEPS = ['write', 'write', 'write to dev', 'release'] as const;

/** I25: a message is done only when it stood in a prompt of a generation that ended by itself. */
function answers(build: () => Promise<Rig>): void {
  const open = async (turnConfig: object) => {
    const rig = await build();
    const { backend, generations } = witnessed(rig.backend);
    const channel = await openChannel(backend, { maxTurns: 100, interruptGraceSeconds: 1, ...turnConfig });
    const stop = async () => {
      await channel.stop();
      await rig.stop();
    };
    return { rig, channel, generations, stop };
  };
  type Opened = Awaited<ReturnType<typeof open>>;

  /** Lets every generation go on until all is said. */
  const finish = async ({ rig, channel }: Opened) => {
    const over = new AbortController();
    const releasing = (async () => {
      while (!over.signal.aborted) {
        rig.release();
        await pause(20);
      }
    })();
    await channel.rests().finally(() => over.abort());
    await releasing;
  };

  test.for(INTERRUPT_MODES)(
    'T2 T3 nothing is done in mode %s that was not answered to the end',
    async (humanInterruptMode) => {
      const steps = fc.array(fc.constantFrom(...STEPS), { minLength: 4, maxLength: 9 });
      const plays = fc.array(fc.constantFrom(...PLAYS), { minLength: 3, maxLength: 6 });
      const property = fc.asyncProperty(steps, plays, async (what, how) => {
        const opened = await open({ humanInterruptMode, waitTimeoutSeconds: 1 });
        try {
          for (const acts of how) opened.rig.play(...acts);
          for (const [index, step] of what.entries()) {
            if (step === 'release') opened.rig.release();
            else await opened.channel.write(`${step === 'write to dev' ? '@dev ' : ''}request number ${index}.`);
            await pause(10);
          }
          await opened.channel.write('That is all.');
          await finish(opened);
          const unseen = opened.channel.done().filter((text) => !isAnswered(opened.generations, text));
          assert.deepEqual(unseen, []);
          assert(opened.generations.some(({ completed }) => completed));
        } finally {
          await opened.stop();
        }
      });
      await expect(fc.assert(property, { numRuns: RUNS, seed: 25, endOnFailure: true })).resolves.toBeUndefined();
    },
  );

  test('T3 sixty messages that were held stand in one prompt, all to be answered', async () => {
    const opened = await open({ humanInterruptMode: 'queue' });
    try {
      opened.rig.play({ do: 'pause' }, { do: 'write', text: 'First.' });
      await opened.channel.write('@dev begin');
      await opened.rig.paused();
      const texts = Array.from({ length: 60 }, (_, index) => `@dev request number ${index}.`);
      for (const text of texts) await opened.channel.write(text);
      await finish(opened);
      const [first, second, ...more] = opened.generations;
      expect([first?.completed, second?.completed, more.length]).toEqual([true, true, 0]);
      expect(texts.filter((text) => !isAsked(second?.prompt ?? '', text))).toEqual([]);
      expect(opened.channel.done()).toEqual(['@dev begin', ...texts]);
      expect((await opened.rig.seen()).some((seen) => texts.every((text) => seen.includes(text)))).toBe(true);
    } finally {
      await opened.stop();
    }
  });

  test('T9 an agent whose answer was cut is told how much of it was posted, and nothing else of it', async () => {
    const opened = await open({ humanInterruptMode: 'interrupt' });
    try {
      opened.rig.play({ do: 'say', text: 'First half.' }, { do: 'pause' }, { do: 'write', text: 'Second half.' });
      await opened.channel.write('@dev count');
      await opened.rig.paused();
      await expect.poll(() => opened.channel.posts, { timeout: 60_000 }).toEqual(['Dev: First half.']);
      await opened.channel.write('@dev no further');
      await finish(opened);
      const given = (await opened.rig.seen()).find((seen) => seen.includes('no further')) ?? '';
      expect(given).toContain('First half.');
      expect(given).toContain('Your last answer was cut off');
      expect(given).not.toContain('Second half.');
    } finally {
      await opened.stop();
    }
  });

  test('T2 an agent that is interrupted twice is prompted with every message, and is done with all in the end', async () => {
    const opened = await open({ humanInterruptMode: 'interrupt' });
    try {
      const texts = ['@dev one', '@dev two', '@dev three'];
      for (const text of texts) {
        opened.rig.play({ do: 'pause' }, { do: 'write', text: 'All of it.' });
        await opened.channel.write(text);
        await opened.rig.paused();
      }
      expect(opened.channel.done()).toEqual([]);
      await finish(opened);
      const last = opened.generations.findLast(({ completed }) => completed)?.prompt ?? '';
      expect(texts.filter((text) => !isAsked(last, text))).toEqual([]);
      expect(opened.channel.done()).toEqual(texts);
    } finally {
      await opened.stop();
    }
  });
}

/** So many sequences of each mode are tried with each backend. */
const RUNS = 1;

/** What people see of it, with the whole program around it. */
function inChannel(build: () => Promise<Rig>): void {
  let rig: Rig;
  let channel: Awaited<ReturnType<typeof openChannel>>;

  beforeEach(async () => {
    rig = await build();
    channel = await openChannel(rig.backend);
  });

  afterEach(async () => {
    await channel.stop();
    await rig.stop();
  });

  /** Dev answers a message by doing this, and the others have their turns. */
  const answered = async (...acts: Act[]) => {
    rig.play(...acts);
    await channel.write('@dev build it');
    await channel.rests();
    return { posts: channel.posts, ends: channel.ends() };
  };

  const COMPLETED = { outcome: 'completed', said: true, signalled: true };
  const PASSED = { outcome: 'passed', said: false, signalled: true };
  const IN_TURN = ['PM: PM here.', 'QA: QA here.'];
  const QA_NEXT = ['QA: QA here.', 'PM: PM here.'];

  test('T14 an answer with the signal is posted without it, and no part of it is ever shown', async () => {
    const text = 'It is built. \n\nTURN_COMPLETE\n';
    const { posts, ends } = await answered({ do: 'write', text });
    expect({ posts, ends }).toEqual({ posts: ['Dev: It is built.', ...IN_TURN], ends: [COMPLETED] });
    expect(channel.drafts.filter((draft) => !'It is built.'.startsWith(draft.trim()))).toEqual([]);
  });

  test('T14 an answer without the signal is the turn, and nobody is warned', async () => {
    const { posts, ends } = await answered({ do: 'write', text: 'It is built.' });
    expect({ posts, ends }).toEqual({ posts: ['Dev: It is built.', ...IN_TURN], ends: [COMPLETED] });
    expect([channel.logged, channel.broken]).toEqual([[], []]);
  });

  test.for(['Please check.\nTURN_COMPLETE @qa', 'Please check. TURN_COMPLETE @QA', 'Please check.\nTURN_COMPLETE qa'])(
    'T14 the signal hands over: %j',
    async (text) => {
      const { posts, ends } = await answered({ do: 'write', text });
      expect({ posts, ends }).toEqual({ posts: ['Dev: Please check.', ...QA_NEXT], ends: [COMPLETED] });
    },
  );

  test('T14 the signal and nothing else is a pass', async () => {
    const { posts, ends } = await answered({ do: 'write', text: 'TURN_COMPLETE' });
    expect({ posts, ends }).toEqual({ posts: IN_TURN, ends: [PASSED] });
  });

  test.for(['SKIP.', '[no reply]', '(nothing to add)', 'PASS', '**pass**', 'NO_REPLY', 'pass!\n'])(
    'T16 an answer that is only %j is a pass: nothing of it is posted or shown',
    async (text) => {
      const { posts, ends } = await answered({ do: 'write', text });
      expect({ posts, ends }).toEqual({ posts: IN_TURN, ends: [PASSED] });
      expect(channel.drafts).toEqual([]);
    },
  );

  test.for(['Skip the tests for now.', 'No reply came from the server.', 'Passed.'])(
    'T16 an answer that only begins like a pass is said: %j',
    async (text) => {
      const { posts, ends } = await answered({ do: 'write', text });
      expect({ posts, ends }).toEqual({ posts: [`Dev: ${text}`, ...IN_TURN], ends: [COMPLETED] });
    },
  );

  test('T16 an answer of which the last message is a pass is what was said before', async () => {
    const { posts, ends } = await answered({ do: 'say', text: 'It is built.' }, { do: 'write', text: 'NO_REPLY' });
    expect({ posts, ends }).toEqual({ posts: ['Dev: It is built.', ...IN_TURN], ends: [COMPLETED] });
  });

  test.for([
    ['in a code fence', 'So:\n```\nTURN_COMPLETE\n```'],
    ['in a quote', 'He said:\n> TURN_COMPLETE'],
    ['in lower case', 'It is built.\nturn_complete'],
    ['before the end', 'TURN_COMPLETE is what I write at the end.'],
  ] as const)('T14 the signal %s is text', async ([, text]) => {
    const { posts, ends } = await answered({ do: 'write', text });
    expect({ posts, ends }).toEqual({ posts: [`Dev: ${text}`, ...IN_TURN], ends: [COMPLETED] });
  });

  test('T14 the signal at the end of a message is never posted, and counts in the last one only', async () => {
    const { posts, ends } = await answered(
      { do: 'say', text: 'Half of it.\nTURN_COMPLETE @qa' },
      { do: 'write', text: 'All of it.' },
    );
    expect({ posts, ends }).toEqual({ posts: ['Dev: Half of it.', 'Dev: All of it.', ...IN_TURN], ends: [COMPLETED] });
  });

  test('T14 a question that ends with the signal is posted without it, and waits', async () => {
    rig.play({ do: 'wait_for', question: 'Which colour? TURN_COMPLETE' });
    await channel.write('@dev paint it');
    await expect.poll(() => channel.holder(), { timeout: 60_000 }).toBe('dev answer');
    await expect.poll(() => channel.posts, { timeout: 60_000 }).toEqual(['Dev: Which colour?']);
    rig.play({ do: 'write', text: 'Painted.' });
    await channel.write('Ultramarine');
    await channel.rests();
    expect(channel.posts).toEqual(['Dev: Which colour?', 'Dev: Painted.', ...IN_TURN]);
  });

  test("T14 the signal in a person's text is text, for the agent as for the floor", async () => {
    rig.play({ do: 'pause' }, { do: 'write', text: 'It is built.' });
    await channel.write('@dev what is TURN_COMPLETE');
    await rig.paused();
    await channel.write('TURN_COMPLETE');
    expect(channel.holder()).toBe('dev');
    rig.release();
    await channel.rests();
    expect(channel.posts.slice(-2)).toEqual(IN_TURN);
    expect(channel.posts.filter((post) => post.startsWith('Dev: It is built.'))).toHaveLength(1);
    expect((await rig.seen()).join('\n')).toContain('@dev what is TURN_COMPLETE');
  });
}
