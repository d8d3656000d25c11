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

/** One act of the agent in a generation. */
export type Act =
  /** Posts answer text, streamed character by character if the protocol streams. */
  | { readonly do: 'write'; readonly text: string }
  /** Posts a separate message, sent before the next act. */
  | { readonly do: 'say'; readonly text: string }
  /** Waits until the rig releases it. Stops when interrupted. */
  | { readonly do: 'pause' }
  | { readonly do: 'pass' }
  | { readonly do: 'wait_for'; readonly question: string }
  | { readonly do: 'hand_to'; readonly agent: string }
  /** Requests permission, then writes "allowed" or "rejected". */
  | { readonly do: 'ask'; readonly title: string }
  /** Waits forever and ignores interrupts. */
  | { readonly do: 'hang' }
  | { readonly do: 'crash' };

/** A backend whose agent performs given acts. */
export type Rig = {
  readonly backend: AgentBackend;
  /** The outcome of a message injected into a turn. */
  readonly inject: InjectOutcome;
  /** The error message of a crash. */
  readonly crash: RegExp;
  /** Sets the acts of the next generation. Without acts it writes "Noted.". */
  play(...acts: Act[]): void;
  /** Resolves when the agent has reached its `pause` or `hang`. */
  paused(): Promise<void>;
  release(): void;
  /** Resolves when the agent has received a text. Only for rigs whose `release` could overtake an injected message. */
  received?(text: string): Promise<void>;
  /** Returns all texts that the model, or the fake in its place, has received. */
  seen(): Promise<readonly string[]>;
  /** Ends all that the rig started. Rejects when a process is left. */
  stop(): Promise<void>;
};

/** The contract of every backend. `asks`: agents of this kind request permission. */
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

/** Tests the contract between a session and the supervisor. */
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

  /** Prompts the session and records its reports. */
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

  /** Starts a generation that says "First." and pauses. */
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
    test('reaches the agent, and its plain answer is the turn', async () => {
      rig.play({ do: 'write', text: 'It is built.' });
      expect(await whole('Build a bridge')).toEqual({ said: ['It is built.'], ending: { how: 'completed' } });
      expect((await rig.seen()).join('\n')).toContain('Build a bridge');
    });

    test('is answered with several messages, each posted at once', async () => {
      const turn = await paused({ do: 'write', text: 'Second.' });
      expect(turn.said()).toEqual(['First.']);
      rig.release();
      expect(await turn.over).toEqual({ how: 'completed' });
      expect(turn.said()).toEqual(['First.', 'Second.']);
    });

    test('is passed without text', async () => {
      rig.play({ do: 'pass' });
      expect(await whole('Anything to add?')).toEqual({ said: [], ending: { how: 'passed' } });
    });

    test('is answered, and the floor is handed over', async () => {
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

    test('can be followed by another prompt', async () => {
      rig.play({ do: 'write', text: 'One.' });
      await whole('Count');
      rig.play({ do: 'write', text: 'Two.' });
      expect(await whole('Go on')).toEqual({ said: ['Two.'], ending: { how: 'completed' } });
    });
  });

  describe('a message injected into a turn', () => {
    test('has the outcome that matches what the model received', async () => {
      const turn = await paused({ do: 'write', text: 'Second.' });
      const outcome = session.inject(person(2, 'Make it violet'), false);
      await rig.received?.('Make it violet');
      rig.release();
      expect(await turn.over).toEqual({ how: 'completed' });
      const saw = (await rig.seen()).some((text) => text.includes('Make it violet'));
      expect({ outcome: await outcome, saw }).toEqual({ outcome: rig.inject, saw: rig.inject === 'injected' });
    });

    test('goes to the next prompt while no generation runs', async () => {
      expect(await session.inject(person(2, 'Make it violet'), false)).toBe('next-prompt');
    });
  });

  describe('a turn that is interrupted', () => {
    test('stops within the grace, and later output is dropped', async () => {
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

    test('by the close of its session ends', async () => {
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
    test('rejects its prompt with a backend error whose cause is one line', async () => {
      rig.play({ do: 'crash' });
      const error: unknown = await begin('Build it').over.catch((failure: unknown) => failure);
      expect(error).toBeInstanceOf(BackendError);
      const { message, terminal } = error as BackendError;
      expect(message).toMatch(rig.crash);
      expect(message).not.toContain('\n');
      expect(terminal).toBe(false);
    });

    test('T23 before its answer reports no sign of life, so that its failures in a row are counted', async () => {
      rig.play({ do: 'crash' });
      const heard = recorder();
      await expect(session.prompt(asking('Build it'), heard.report)).rejects.toBeInstanceOf(BackendError);
      expect(heard.events.filter((event) => event.startsWith('work'))).toEqual([]);
      expect(heard.text().replaceAll('---', '').trim()).toBe('');
    });

    test('T59 that hangs shows no sign of life, and ends when its session closes', async () => {
      rig.play({ do: 'hang' });
      const heard = recorder();
      const over = session.prompt(asking('Build it'), heard.report).catch(() => null);
      await rig.paused();
      expect(heard.events.filter((event) => event.startsWith('work'))).toEqual([]);
      expect(heard.text()).toBe('');
      await session.close();
      await over;
    });

    test('continues in a new session that is told its posted text', async () => {
      await session.close();
      session = await open();
      rig.play({ do: 'write', text: 'The rest.' });
      const said = ['The first half.'];
      const text = '[from Developer (dev), you, said so far]\nThe first half.';
      expect((await whole('Build it', { reason: 'resume', saidSoFar: said, text })).said).toEqual(['The rest.']);
      expect((await rig.seen()).join('\n')).toContain('The first half.');
    });
  });

  describe.runIf(asks)('an agent that needs approval', () => {
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
    test.each(ways)('%s leaves no timer behind', async (_, acts) => {
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
    test('answers a liveness check and can be closed twice', async () => {
      await session.ping();
      await session.close();
      await expect(session.close()).resolves.toBeUndefined();
    });
  });
}

/** Returns how many timers keep this process alive. */
export function armedTimers(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
}

/** Waits up to 1 s until a condition holds, without a timer. */
export async function soon(holds: () => boolean): Promise<void> {
  const end = performance.now() + 1_000;
  while (!holds() && performance.now() < end) await new Promise((resolve) => void setImmediate(resolve));
}

/** The acts of one generation, and the events around it. The test below draws from both at random. */
const PLAYS: readonly (readonly Act[])[] = [
  [{ do: 'pause' }, { do: 'write', text: 'After a pause.' }],
  [{ do: 'say', text: 'First half.' }, { do: 'pause' }, { do: 'write', text: 'Second half.' }],
  [{ do: 'write', text: 'At once.' }],
  [{ do: 'pause' }, { do: 'pass' }],
  [{ do: 'wait_for', question: 'Which one?' }],
];
const STEPS = ['write', 'write', 'write to dev', 'release'] as const;

/** I25: the floor records a message as answered only if a generation that ended normally had received it. */
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

  /** Releases each paused generation until the channel rests. */
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
    'T2 T3 in mode %s no message is recorded as answered unless a completed generation received it',
    async (humanInterruptMode) => {
      const steps = fc.array(fc.constantFrom(...STEPS), { minLength: 4, maxLength: 9 });
      const plays = fc.array(fc.constantFrom(...PLAYS), { minLength: 3, maxLength: 6 });
      let recorded = 0;
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
          const done = opened.channel.done();
          recorded += done.length;
          assert.deepEqual(
            done.filter((text) => !isAnswered(opened.generations, text)),
            [],
          );
          assert(opened.generations.some(({ completed }) => completed));
        } finally {
          await opened.stop();
        }
      });
      await expect(fc.assert(property, { numRuns: RUNS, seed: 25, endOnFailure: true })).resolves.toBeUndefined();
      expect(recorded).toBeGreaterThan(0);
    },
  );

  test('T3 60 held messages are in one prompt, all to be answered', async () => {
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

  test('T9 an agent with an interrupted answer is told exactly which part was posted', async () => {
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

  test('T2 an agent that is interrupted twice is prompted with every message and finally answers all', async () => {
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

/** How many random sequences are tried per mode and backend. */
const RUNS = 1;

/** Tests the posts and drafts in a channel, with the whole program running. */
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

  /** Lets dev answer a message with these acts, and the other agents have their turns. */
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

  test('T14 a signal at the end of an answer is removed, and never shown', async () => {
    const text = 'It is built. \n\nTURN_COMPLETE\n';
    const { posts, ends } = await answered({ do: 'write', text });
    expect({ posts, ends }).toEqual({ posts: ['Dev: It is built.', ...IN_TURN], ends: [COMPLETED] });
    expect(channel.drafts.at(-1)?.trim()).toBe('It is built.');
    expect(channel.drafts.filter((draft) => !'It is built.'.startsWith(draft.trim()))).toEqual([]);
  });

  test('T14 an answer without the signal completes the turn, without a warning', async () => {
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

  test('T14 an answer of only the signal is a pass', async () => {
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

  test('T16 a bare PASS is a verdict while a review is open, and a pass outside', async ({ skip }) => {
    skip(rig.backend.kind === 'scripted', 'a play-acted agent reviews by the words of the task: demo.test.ts');
    rig.play({ do: 'write', text: 'PASS' });
    expect(await channel.reviewed()).toBe('passed');
    await channel.rests();
    expect(channel.posts).toEqual(['PM: PM here.', 'Dev: PASS']);
    rig.play({ do: 'write', text: 'PASS' });
    await channel.write('@dev anything else?');
    await channel.rests();
    expect(channel.posts.filter((post) => post.startsWith('Dev'))).toEqual(['Dev: PASS']);
    expect(channel.ends()).toEqual([COMPLETED, PASSED]);
  });

  test.for(['Skip the tests for now.', 'No reply came from the server.', 'Passed.'])(
    'T16 an answer that only begins like a pass is posted: %j',
    async (text) => {
      const { posts, ends } = await answered({ do: 'write', text });
      expect({ posts, ends }).toEqual({ posts: [`Dev: ${text}`, ...IN_TURN], ends: [COMPLETED] });
    },
  );

  test('T16 an answer whose last message is a pass keeps its earlier messages', async () => {
    const { posts, ends } = await answered({ do: 'say', text: 'It is built.' }, { do: 'write', text: 'NO_REPLY' });
    expect({ posts, ends }).toEqual({ posts: ['Dev: It is built.', ...IN_TURN], ends: [COMPLETED] });
  });

  test.for([
    ['in a code fence', 'So:\n```\nTURN_COMPLETE\n```'],
    ['in a quote', 'He said:\n> TURN_COMPLETE'],
    ['in lower case', 'It is built.\nturn_complete'],
    ['before the end', 'TURN_COMPLETE is what I write at the end.'],
  ] as const)('T14 the signal %s is ordinary text', async ([, text]) => {
    const { posts, ends } = await answered({ do: 'write', text });
    expect({ posts, ends }).toEqual({ posts: [`Dev: ${text}`, ...IN_TURN], ends: [COMPLETED] });
  });

  test('T14 the signal is never posted at the end of a message, and counts only in the last one', async () => {
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

  test("T14 the signal in a person's text is ordinary text for agent and floor", async () => {
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
