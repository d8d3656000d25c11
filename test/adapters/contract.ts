import { copyFileSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { restore } from '../../src/engine/sqlite/backup.ts';
import { answer, seeEqual } from './program.ts';
import type { Program, ProgramOptions } from './program.ts';
import type { Rig, Seen, Stage, Ways } from './rig.ts';
import { play } from './scene.ts';
import type { Act, Start } from './scene.ts';

/** The contract suite of adapters, run with the whole program. `rig` states the differences between platforms. */
export function contract(rig: Rig): void {
  const suite: Suite = { rig, on: (start, act) => () => play(rig, start, act) };
  describe.concurrent(`on ${rig.name}`, () => {
    describe('a message', () => {
      taking(suite);
      opening(suite);
    });
    describe('a message of another program', () => {
      programs(suite);
    });
    describe('a message during a turn', () => {
      modes(suite);
    });
    describe("an agent's text", () => {
      speech(suite);
    });
    describe('an announcement', () => {
      announcements(suite);
    });
    describe('a command', () => {
      commands(suite);
    });
    describe('a card', () => {
      cards(suite);
      replacedStores(suite);
    });
    describe('a thread', () => {
      threads(suite);
    });
    describe('a lost connection', () => {
      outages(suite);
    });
    describe('a post', () => {
      posts(suite);
    });
    describe('a program that was stopped', () => {
      restarts(suite);
    });
  });
}

type Suite = { readonly rig: Rig; readonly on: (start: Start, act: Act) => () => Promise<void> };

const ALONE: ProgramOptions = { agents: ['pm'] };
const PAIR: ProgramOptions = { agents: ['pm', 'dev'] };
const SHARED: ProgramOptions = { turnConfig: { threads: 'parent' } };

function taking({ rig, on }: Suite): void {
  test(
    'opens an exchange in which each agent answers once, under its own name',
    on({}, async ({ stage, program, talk, says }) => {
      await says('Build a bridge');
      await program.rests();
      const ann = stage.nameOf('ann');
      await seeEqual(
        () => talk(),
        [`${ann}: Build a bridge`, ...['PM', 'Dev', 'QA'].map((name) => `${name}: ${answer(name, 'Build a bridge')}`)],
      );
      expect((await stage.read()).map(({ kind }) => kind)).toEqual(['person', 'agent', 'agent', 'agent']);
    }),
  );

  test(
    'that mentions an agent starts the turn of that agent first',
    on({}, async ({ stage, program, says }) => {
      await says('Is it sound, @QA?');
      await program.rests();
      expect(speakers(await stage.read())[0]).toBe('QA');
    }),
  );

  test.runIf(rig.ways.mentions)(
    "that mentions an agent with the platform's own mention starts the turn of that agent first",
    on({}, async ({ stage, program, says }) => {
      await says(`Is it sound, ${stage.mention?.('qa') ?? ''}?`);
      await program.rests();
      expect(speakers(await stage.read())[0]).toBe('QA');
    }),
  );

  test.runIf(rig.ways.replies)(
    'that replies to an agent starts the turn of that agent first',
    on({}, async ({ stage, program, says }) => {
      await says('Build a bridge');
      await program.rests();
      const before = await stage.read();
      const replyTo = before.find(({ author }) => author === 'Dev')?.id ?? '';
      await says('Really?', { replyTo });
      await seeEqual(async () => speakers(await stage.read())[before.length - 1], 'Dev');
    }),
  );

  test.runIf(rig.ways.files)(
    'carries its files',
    on(ALONE, async ({ program, says }) => {
      const id = await says('Look at this', { file: 'plan.txt' });
      expect(program.message(id)?.attachments.map(({ name }) => name)).toEqual(['plan.txt']);
      await program.rests();
    }),
  );

  test(
    'reaches the holder again when it is edited or deleted',
    on(ALONE, async ({ stage, program, pmPauses }) => {
      const id = await pmPauses('Build a bridge');
      await stage.edit('ann', id, 'Build a tunnel');
      await seeEqual(() => program.cast.heard('pm'), ['grant: Build a bridge', 'edited: Build a tunnel']);
      await stage.remove('ann', id);
      await seeEqual(() => program.cast.heard('pm').map(firstWord), ['grant', 'edited', 'deleted']);
    }),
  );

  test(
    'reaches the next agent in its last version when it is edited while held (row 45: edited while held)',
    on(
      { ...ALONE, turnConfig: { humanInterruptMode: 'queue' } },
      async ({ stage, program, pmPauses, release, says }) => {
        await pmPauses('Build a bridge');
        const id = await says('And violet');
        await seeEqual(() => program.message(id)?.fate?.state, 'held');
        await stage.edit('ann', id, 'And green');
        await seeEqual(() => program.message(id)?.text, 'And green');
        expect(program.message(id)?.edited).toBe(true);
        release('pm');
        await seeEqual(() => program.cast.heard('pm').at(-1), 'grant: And green');
        await program.rests();
      },
    ),
  );

  test(
    'with the text TURN_COMPLETE does not end the turn',
    on(PAIR, async ({ program, pmPauses, release, talk, says }) => {
      await pmPauses();
      const id = await says('TURN_COMPLETE');
      await seeEqual(() => program.cast.heard('pm').at(-1), 'injected: TURN_COMPLETE');
      expect(program.view().holder?.agent).toBe('pm');
      expect(program.message(id)?.fate).toMatchObject({ state: 'delivered', to: ['pm'] });
      release('pm');
      await program.rests();
      expect(await talk()).toContain('PM: PM is done');
    }),
  );

  test(
    'that is delivered twice reaches each agent once (row 33: a duplicate event)',
    on(PAIR, async ({ stage, program, says }) => {
      stage.duplicate();
      await says('Build a bridge');
      await says('And a tunnel');
      await program.rests();
      const heard = ['pm', 'dev'].flatMap((agent) => program.cast.heard(agent)).join('\n');
      expect(heard.match(/Build a bridge/g)).toHaveLength(1);
      expect(heard.match(/And a tunnel/g)).toHaveLength(1);
    }),
  );
}

function programs({ rig: { ways }, on }: Suite): void {
  test.runIf(ways.bots)(
    'reaches no agent where programs are ignored',
    on(ALONE, async ({ stage, program, says }) => {
      const id = (await stage.bot?.('Buy my coins')) ?? '';
      await says('Build a bridge');
      await seeEqual(() => program.message(id)?.fate?.state, 'ignored');
      await program.rests();
      expect(program.cast.heard('pm')).toEqual(['grant: Build a bridge']);
    }),
  );

  test.runIf(ways.bots)(
    'is answered where all programs are allowed',
    on({ ...ALONE, turnConfig: { allowBots: 'all' } }, async ({ stage, program }) => {
      await stage.bot?.('The build is red');
      await seeEqual(() => program.cast.heard('pm'), ['grant: The build is red']);
      await program.rests();
    }),
  );
}

function modes({ on }: Suite): void {
  const MODES = [
    ['inject', 'injected', 'injected: And violet'],
    ['queue', 'held', 'grant: Build a bridge'],
    ['interrupt', 'preempted', 'resume: Build a bridge | And violet'],
    ['parallel', 'observed', 'observed: And violet'],
  ] as const;

  for (const [mode, receipt, heard] of MODES) {
    test(
      `is marked "${receipt}" and delivered to the agents as required by the mode ${mode}`,
      on({ ...PAIR, turnConfig: { humanInterruptMode: mode } }, async ({ stage, program, pmPauses, release, says }) => {
        await pmPauses();
        if (mode === 'interrupt') program.cast.play('pm', 'pause');
        const id = await says('And violet');
        await seeEqual(() => markOf(stage, id), receipt);
        await seeEqual(() => program.cast.heard('pm').at(-1), heard);
        expect(program.view().holder?.agent).toBe('pm');
        await program.cast.paused('pm', stage.channel);
        release('pm');
        await program.rests();
        const next = program.cast.heard('dev').join('\n');
        expect(next.includes('And violet')).toBe(mode === 'queue' || mode === 'parallel');
      }),
    );
  }

  test(
    'is marked as answered at the end of the turn that received it',
    on(ALONE, async ({ stage, program, pmPauses, release, says }) => {
      await pmPauses();
      const id = await says('And violet');
      await seeEqual(() => markOf(stage, id), 'injected');
      release('pm');
      await program.rests();
      await seeEqual(() => markOf(stage, id), 'done');
    }),
  );

  test(
    'that is held is marked as answered after the turn that answers it',
    on(
      { ...ALONE, turnConfig: { humanInterruptMode: 'queue' } },
      async ({ stage, program, pmPauses, release, says }) => {
        await pmPauses();
        const id = await says('And violet');
        await seeEqual(() => markOf(stage, id), 'held');
        release('pm');
        await program.rests();
        await seeEqual(() => markOf(stage, id), 'done');
      },
    ),
  );
}

function speech({ rig: { capabilities, ways }, on }: Suite): void {
  const { textLimit, fileAbove } = capabilities;

  test(
    'is split into complete posts in order when it is too long',
    on({}, async ({ stage, program, says }) => {
      const long = words(Math.min(textLimit * 2.5, (fileAbove ?? Infinity) - 200));
      program.cast.play('pm', { say: long });
      await says('Tell me everything');
      await program.rests();
      const parts = (await stage.read()).filter(({ author }) => author === 'PM');
      expect(parts.length).toBeGreaterThan(1);
      expect(
        parts
          .map(({ text }) => text)
          .join(' ')
          .split(/\s+/),
      ).toEqual(long.split(' '));
    }),
  );

  test.runIf(fileAbove !== null)(
    'is posted as a complete file when it is very long',
    on(ALONE, async ({ stage, program, says }) => {
      const long = words((fileAbove ?? 0) + 2_000);
      program.cast.play('pm', { say: long });
      await says('Tell me everything');
      await program.rests();
      const said = (await stage.read()).filter(({ author }) => author === 'PM');
      expect(said).toHaveLength(1);
      expect(said[0]?.text).toContain(long);
    }),
  );

  test(
    'is shown while it is generated, and appears once when it is posted',
    on({ ...ALONE, haste: 1 }, async ({ stage, program, talk, says }) => {
      program.cast.play('pm', { write: 'First of all' }, 'pause', { write: ' we build it.' });
      await says('What is the plan?');
      const begun = () => stage.drafts().then((drafts) => drafts.map(({ text }) => text.includes('First of all')));
      await seeEqual(begun, [true]);
      program.cast.release('pm', stage.channel);
      await program.rests();
      await seeEqual(() => talk(), [`${stage.nameOf('ann')}: What is the plan?`, 'PM: First of all we build it.']);
      await seeEqual(() => stage.drafts(), []);
    }),
  );

  test(
    'T10 is posted with "(cut off)" when its turn is skipped while the text is generated',
    on({ ...ALONE, haste: 1 }, async ({ stage, program, talk, release, says }) => {
      program.cast.play('pm', { write: 'First of all we' }, 'pause', { write: ' build it.' });
      await says('What is the plan?');
      await program.cast.paused('pm', stage.channel);
      await seeEqual(async () => (await stage.drafts()).length, 1);
      await stage.command('ann', '/floor skip');
      release('pm');
      await program.rests();
      await seeEqual(
        async () => (await talk()).filter((line) => line.startsWith('PM')),
        ['PM: First of all we … (cut off)'],
      );
    }),
  );

  test(
    'T14 never shows the signal at its end in a draft or post, and the agent named in the signal speaks next',
    on({ haste: 1 }, async ({ stage, program, talk, release, says }) => {
      program.cast.play('pm', { write: 'It is built.\nTURN_COM' }, 'pause', { write: 'PLETE @qa' });
      await says('Build a bridge');
      await program.cast.paused('pm', stage.channel);
      await seeEqual(async () => (await stage.drafts()).length, 1);
      expect((await stage.drafts()).filter(({ text }) => text.includes('TURN'))).toEqual([]);
      release('pm');
      await program.rests();
      const order = ['QA', 'Dev'].map((name) => `${name}: ${answer(name, 'Build a bridge')}`);
      await seeEqual(async () => (await talk()).slice(1), ['PM: It is built.', ...order]);
    }),
  );

  test.runIf(ways.pings)(
    'notifies nobody, whatever it contains (row 79: mass mentions are inert)',
    on(ALONE, async ({ stage, program, release, says }) => {
      const id = stage.idOf('bob');
      const loud = `@everyone @here <!channel> <!here> <!everyone> <@${id}> <@&${stage.role ?? id}> <!subteam^${stage.role ?? id}> go!`;
      program.cast.play('pm', { say: loud }, { say: `\`\`\`\n${loud}\n\`\`\`` }, { write: loud }, 'pause', {
        write: ` ${loud}`,
      });
      await says('Shout');
      await program.cast.paused('pm', stage.channel);
      release('pm');
      await program.rests();
      expect((await stage.read()).filter(({ text }) => text.includes('go!')).length).toBeGreaterThan(1);
      expect(stage.pings?.()).toEqual([]);
    }),
  );
}

function announcements({ on }: Suite): void {
  const notices = async (stage: Stage) =>
    (await stage.read()).filter(({ kind }) => kind === 'conch').map(({ text }) => text);

  test(
    'of an expired turn appears once, and the next agent speaks',
    on({ ...PAIR, turnConfig: { defaultTimeoutSeconds: 20 } }, async ({ program, talk, says }) => {
      program.cast.play('pm', 'pause');
      await says('Build a bridge');
      await program.rests();
      expect((await talk()).slice(1)).toEqual([
        expect.stringMatching(/^Conch: .*PM turn timed out$/i),
        expect.stringMatching(/^Dev: /),
      ]);
    }),
  );

  test(
    'of a crashed agent appears once with the cause, and the next agent speaks',
    on(PAIR, async ({ stage, program, says }) => {
      program.cast.play('pm', 'crash');
      await says('Build a bridge');
      await program.rests();
      expect(await notices(stage)).toEqual([expect.stringMatching(/PM disconnected, skipping turn: fell over/)]);
      expect(speakers(await stage.read())).toContain('Dev');
    }),
  );

  test(
    'that no agent is online appears once for two messages, and both messages are marked as unrouted',
    on({ ...ALONE, cast: ({ absent }) => void absent.add('pm') }, async ({ stage, says }) => {
      const first = await says('Anybody here?');
      await seeEqual(() => markOf(stage, first), 'unrouted');
      const second = await says('Hello?');
      await seeEqual(() => markOf(stage, second), 'unrouted');
      expect(await notices(stage)).toEqual([expect.stringContaining('No agents available')]);
    }),
  );

  test(
    'is edited instead of repeated when it recurs',
    on({ ...ALONE, turnConfig: { defaultTimeoutSeconds: 20 } }, async ({ stage, program, says }) => {
      program.cast.play('pm', 'pause');
      program.cast.play('pm', 'pause');
      await says('Build a bridge');
      await program.rests();
      // PM restarts after its first timeout. The command is refused until PM is online.
      await seeEqual(async () => (await stage.command('ann', '/floor grant PM')).includes('offline'), false);
      await seeEqual(() => notices(stage), [expect.stringMatching(/PM turn timed out \(×2\)/)]);
    }),
  );
}

function commands({ rig: { ways }, on }: Suite): void {
  test(
    'that only reads is answered also without operator rights, and only its author sees the answer',
    on({ ...ALONE, operators: {} }, async ({ stage, talk }) => {
      expect(await stage.command('ann', '/floor status')).toContain('mode inject');
      expect(await talk()).toEqual([]);
    }),
  );

  test(
    'that changes the floor is refused when nobody is an operator',
    on({ ...ALONE, operators: {} }, async ({ stage, program, talk }) => {
      expect(await stage.command('ann', '/floor pause')).toMatch(/Only operators may use \S*\s?floor pause/);
      expect(program.view().condition).toBe('resting');
      expect(await talk()).toEqual([]);
    }),
  );

  test.runIf(ways.several)(
    'is refused for a person who is no operator and run for an operator',
    on(ALONE, async ({ stage, program }) => {
      expect(await stage.command('bob', '/floor pause')).toContain('Only operators');
      expect(program.view().condition).toBe('resting');
      await stage.command('ann', '/floor pause');
      expect(program.view().condition).toBe('paused');
    }),
  );

  test.runIf(ways.roles)(
    "is allowed with the operators' role and refused without it (row 76: role removed)",
    on(
      ({ role = '' }) => ({ ...ALONE, operators: { roles: [role] } }),
      async ({ stage, program }) => {
        expect(await stage.command('bob', '/floor pause')).toContain('Only operators');
        stage.makeOperator?.('bob', true);
        await seeEqual(
          () => stage.command('bob', '/floor pause').then((text) => text.includes('Only operators')),
          false,
        );
        expect(program.view().condition).toBe('paused');
        stage.makeOperator?.('bob', false);
        await seeEqual(
          () => stage.command('bob', '/floor resume').then((text) => text.includes('Only operators')),
          true,
        );
      },
    ),
  );

  test(
    'of an operator pauses and resumes the floor',
    on(ALONE, async ({ stage, program, talk, says }) => {
      await stage.command('ann', '/floor pause');
      expect(program.view().condition).toBe('paused');
      const id = await says('Build a bridge');
      await seeEqual(() => program.message(id)?.fate?.state, 'held');
      expect(program.cast.heard('pm')).toEqual([]);
      await stage.command('ann', '/floor resume');
      await program.rests();
      expect((await talk()).at(-1)).toBe(`PM: ${answer('PM', 'Build a bridge')}`);
    }),
  );

  test(
    'changes the mode to its argument, or grants the floor to the agent in its argument',
    on(PAIR, async ({ stage, program }) => {
      await stage.command('ann', '/floor mode queue');
      expect(program.view().mode).toBe('queue');
      await stage.command('ann', '/floor grant dev');
      await seeEqual(() => program.cast.heard('dev').length, 1);
      await program.rests();
    }),
  );

  test(
    '/stop ends the turn and is announced once',
    on(PAIR, async ({ stage, program, pmPauses }) => {
      await pmPauses();
      await stage.command('ann', '/stop');
      await program.rests();
      const told = await stage.read();
      expect(told.slice(1).map(({ text }) => text)).toEqual([expect.stringMatching(/Stopped PM/)]);
      expect(program.cast.heard('dev')).toEqual([]);
    }),
  );

  test.runIf(ways.typed)(
    'typed as a message runs, and reaches no agent',
    on(PAIR, async ({ stage, program, pmPauses }) => {
      await pmPauses();
      const id = await stage.typed?.('ann', '!stop');
      await program.rests();
      expect(id === undefined ? null : program.message(id)?.fate?.state).toBe('ignored');
      expect((await stage.read()).at(-1)?.text).toMatch(/Stopped PM/);
      expect(program.cast.heard('pm')).toHaveLength(1);
    }),
  );

  test(
    '/why shows the text and the outcome of the message that it explains',
    on(ALONE, async ({ stage, program, says }) => {
      const id = await says('Build a bridge');
      await program.rests();
      expect(await stage.command('ann', `/why ${id}`)).toMatch(/wrote: Build a bridge\n[^]*Now: answered by PM\./);
    }),
  );
}

function opening({ on }: Suite): void {
  test(
    'T37 is marked at once as received, and as answered once the answer is posted',
    on(ALONE, async ({ stage, program, pmPauses, release, talk }) => {
      const id = await pmPauses();
      await seeEqual(() => markOf(stage, id), 'held');
      const suffered = stage.refuse(2, 'PM is done');
      release('pm');
      await seeEqual(() => suffered() > 0, true);
      await seeEqual(() => program.view().holder, null);
      expect(await markOf(stage, id)).toBe('held');
      await seeEqual(() => markOf(stage, id), 'done');
      expect((await talk()).at(-1)).toBe('PM: PM is done');
    }),
  );
}

function cards({ on }: Suite): void {
  test(
    'shows the holder and the queue, and its buttons work',
    on(PAIR, async ({ stage, program, pmPauses }) => {
      await pmPauses();
      await seeEqual(async () => (await stage.card())?.text, expect.stringMatching(/PM.*next: Dev/s));
      program.cast.play('dev', 'pause');
      await (await stage.card())?.press('ann', 'Skip');
      await seeEqual(() => program.view().holder?.agent, 'dev');
      await seeEqual(async () => (await stage.card())?.text, expect.stringMatching(/Dev/));
    }),
  );

  test(
    'that was drawn for an ended turn changes nothing and says why',
    on(PAIR, async ({ stage, program, pmPauses, release }) => {
      await pmPauses();
      await seeEqual(async () => (await stage.card())?.buttons.includes('Skip'), true);
      const old = await stage.card();
      stage.freezeCard?.();
      program.cast.play('dev', 'pause');
      release('pm');
      await program.cast.paused('dev', stage.channel);
      expect(await old?.press('ann', 'Skip')).toMatch(/turn is over/);
      expect(program.view().holder?.agent).toBe('dev');
    }),
  );

  test(
    "has the buttons of an agent's request",
    on(ALONE, async ({ stage, program, talk, says }) => {
      program.cast.play('pm', { ask: 'Delete the folder' });
      await says('Clean up');
      await seeEqual(async () => (await stage.card())?.buttons.includes('Allow once'), true);
      expect((await talk()).at(-1)).toContain('rm -r Delete the folder');
      await (await stage.card())?.press('ann', 'Allow once');
      await program.rests();
      expect((await talk()).at(-1)).toBe('PM: I was told: allowed');
    }),
  );

  test(
    'T46 a denied request becomes its outcome, with the name of the person who denied it',
    on(ALONE, async ({ stage, program, talk, says }) => {
      program.cast.play('pm', { ask: 'Delete the folder' });
      await says('Clean up');
      await seeEqual(async () => (await stage.card())?.buttons.includes('Allow once'), true);
      await stage.command('ann', '/reject 1 not today');
      await program.rests();
      await seeEqual(
        async () => (await talk()).find((line) => line.includes('⛔')),
        expect.stringMatching(/⛔ (?:ann|you) denied PM: delete Delete the folder “not today” · \d\d:\d\d UTC$/i),
      );
      expect((await talk()).join()).not.toContain('rm -r');
    }),
  );

  test(
    'T53 offers "allow" only when the whole request was posted',
    on(ALONE, async ({ stage, program, talk, says }) => {
      const suffered = stage.refuse(3, 'rm -r Delete the folder');
      program.cast.play('pm', { ask: 'Delete the folder' });
      await says('Clean up');
      await seeEqual(() => suffered() > 0, true);
      expect(program.view().holder?.approval).toMatchObject({ question: 1, shown: false });
      expect((await stage.card())?.buttons ?? []).not.toContain('Allow once');
      expect(await stage.command('ann', '/allow 1')).toContain('Not yet');
      await seeEqual(async () => (await stage.card())?.buttons.includes('Allow once'), true);
      expect((await talk()).at(-1)).toContain('rm -r Delete the folder');
      expect(await stage.command('ann', '/allow')).toContain('allow 1');
      expect(await stage.command('ann', '/reject 1')).toContain('Denied.');
      await program.rests();
    }),
  );

  test(
    'T7 that was drawn for a closed request of the same turn changes nothing, nor does a second press',
    on(ALONE, async ({ stage, program, talk, says }) => {
      program.cast.play('pm', { ask: 'one' }, { ask: 'two' });
      await says('Clean up');
      await seeEqual(async () => (await stage.card())?.buttons.includes('Allow once'), true);
      const first = await stage.card();
      stage.freezeCard?.();
      const clicks = await Promise.all([first?.press('ann', 'Deny'), first?.press('ann', 'Deny')]);
      expect(clicks.join()).toContain('Denied.');
      expect(clicks.join()).toMatch(/request is closed/);
      await seeEqual(
        () => program.view().holder?.approval?.shown === true && program.view().holder?.approval?.title,
        'two',
      );
      expect(await first?.press('ann', 'Allow once')).toMatch(/request is closed/);
      expect(await first?.press('ann', 'Deny')).toMatch(/request is closed/);
      expect(program.view().holder?.approval).toMatchObject({ title: 'two', question: 2 });
      expect(await stage.command('ann', '/allow 2')).toContain('Allowed once.');
      await program.rests();
      expect((await talk()).at(-1)).toBe('PM: I was told: allowed');
      expect((await talk()).filter((line) => line.startsWith('PM: I was told'))).toHaveLength(2);
    }),
  );

  test(
    'refuses a button pressed by a person who is no operator (row 75: unauthorised button)',
    on({ ...PAIR, operators: {} }, async ({ stage, program, pmPauses }) => {
      await pmPauses();
      await seeEqual(async () => (await stage.card())?.buttons.includes('Skip'), true);
      expect(await (await stage.card())?.press('ann', 'Skip')).toContain('Only operators');
      expect(program.view().holder?.agent).toBe('pm');
    }),
  );
}

function threads({ rig: { ways }, on }: Suite): void {
  test.runIf(ways.threads)(
    'has a floor of its own',
    on(ALONE, async ({ stage, program, talk, release, pmPauses, says }) => {
      const root = await pmPauses();
      const thread = await stage.thread?.('ann', root);
      const { id = '', channel = '' } = thread ?? {};
      await says('Which colour?', { thread: id });
      await seeEqual(async () => (await talk(id)).at(-1), `PM: ${answer('PM', 'Which colour?')}`);
      await program.rests(channel);
      expect(program.view().holder?.agent).toBe('pm');
      release('pm');
      await program.rests();
      expect((await talk()).filter((line) => line.startsWith('PM'))).toEqual(['PM: PM is done']);
    }),
  );

  test.runIf(ways.threads)(
    'of a ticket is opened once, under a message of the program, also when an answer is lost or the program is killed',
    on(ALONE, async ({ stage, program, again, talk }) => {
      stage.loseAnswers(1, 't-1 Paint');
      const opened = async (life: Program): Promise<string> =>
        life.openThread('t-1 Paint the bridge', 'web/t-1').catch(() => '');
      await expect.poll(() => opened(program), { timeout: 10_000 }).not.toBe('');
      const thread = await opened(program);
      expect(await program.openThread('t-2 Light the bridge', 'web/t-2')).not.toBe(thread);
      await program.kill();
      const next = await again(ALONE);
      expect(await next.openThread('t-1 Paint the bridge', 'web/t-1')).toBe(thread);
      const roots = (await stage.read()).filter(({ text }) => text.includes('the bridge'));
      expect(roots.map(({ text }) => text)).toEqual(['t-1 Paint the bridge', 't-2 Light the bridge']);
      const place = thread.split(/[:/]/).at(-1) ?? '';
      await stage.write('ann', 'Which colour?', { thread: place });
      await seeEqual(async () => (await talk(place)).at(-1), `PM: ${answer('PM', 'Which colour?')}`);
    }),
  );

  test.runIf(ways.threads)(
    "T37 that shares its channel's floor gets the answers to its own messages only",
    on({ ...PAIR, ...SHARED }, async ({ stage, program, talk, says }) => {
      const root = await says('Build a bridge');
      await program.rests();
      const { id = '' } = (await stage.thread?.('ann', root)) ?? {};
      const asked = await says('Which colour?', { thread: id });
      await program.rests();
      await says('And a ferry');
      await program.rests();
      const answers = (question: string) => ['PM', 'Dev'].map((name) => `${name}: ${answer(name, question)}`);
      const byAgents = async (thread?: string) => (await talk(thread)).filter((line) => / on /.test(line));
      await seeEqual(() => byAgents(id), answers('Which colour?'));
      await seeEqual(() => byAgents(), [...answers('Build a bridge'), ...answers('And a ferry')]);
      await seeEqual(async () => (await stage.receipts(asked, id)).at(-1), 'done');
    }),
  );

  test.runIf(ways.threads)(
    "T37 that shares its channel's floor gets the answer to its message that arrived during a turn",
    on({ ...ALONE, ...SHARED }, async ({ stage, program, talk, says, pmPauses, release }) => {
      const root = await pmPauses();
      const { id = '' } = (await stage.thread?.('ann', root)) ?? {};
      await says('Which colour?', { thread: id });
      await seeEqual(() => program.cast.heard('pm'), ['grant: Build a bridge', 'injected: Which colour?']);
      release('pm');
      await program.rests();
      await seeEqual(async () => (await talk(id)).at(-1), 'PM: PM is done');
      expect((await talk()).filter((line) => line.startsWith('PM'))).toEqual([]);
    }),
  );

  test.runIf(ways.threads)(
    "T37 that shares a floor shows a post once when the platform's answer was lost",
    on({ ...ALONE, ...SHARED }, async ({ stage, program, talk, says }) => {
      const root = await says('Build a bridge');
      await program.rests();
      const { id = '' } = (await stage.thread?.('ann', root)) ?? {};
      program.cast.play('pm', { say: 'alpha' });
      const lost = stage.loseAnswers(1, 'alpha');
      await says('Count', { thread: id });
      await program.rests();
      expect((await talk(id)).filter((line) => line.startsWith('PM'))).toEqual(['PM: alpha']);
      expect(lost()).toBe(1);
    }),
  );

  test.runIf(ways.threads)(
    'T37 that shares a floor loses its draft after a kill, and gets the rest of the turn',
    on({ ...ALONE, ...SHARED }, async ({ stage, program, again, talk, says }) => {
      const root = await says('Build a bridge');
      await program.rests();
      const { id = '' } = (await stage.thread?.('ann', root)) ?? {};
      program.cast.play('pm', { write: 'First of all' }, 'pause');
      await says('What is the plan?', { thread: id });
      await seeEqual(async () => (await stage.drafts(id)).length, 1);
      expect(await stage.drafts()).toEqual([]);
      await program.kill();
      const next = await again({ ...ALONE, ...SHARED, cast: (cast) => cast.play('pm', { say: 'The whole plan' }) });
      await next.rests();
      await seeEqual(async () => (await talk(id)).at(-1), 'PM: The whole plan');
      await seeEqual(() => stage.drafts(id), []);
    }),
  );

  test.runIf(ways.threads)(
    'keeps its floor over a restart',
    on(ALONE, async ({ stage, program, talk, again, says }) => {
      const root = await says('Build a bridge');
      await program.rests();
      const thread = await stage.thread?.('ann', root);
      const { id = '', channel = '' } = thread ?? {};
      await says('Which colour?', { thread: id });
      await seeEqual(async () => (await talk(id)).at(-1), `PM: ${answer('PM', 'Which colour?')}`);
      await program.rests(channel);
      await program.stop();
      await stage.write('ann', 'And why?', { thread: id });
      const next = await again(ALONE);
      await seeEqual(async () => (await talk(id)).at(-1), `PM: ${answer('PM', 'And why?')}`);
      await next.rests(channel);
      expect(next.cast.heard('pm')).toEqual(['grant: And why?']);
    }),
  );
}

function outages({ rig: { ways }, on }: Suite): void {
  for (const missed of ['remembered', 'forgotten'] as const) {
    test.runIf(ways.remote)(
      `loses no message: each is stored once, before any turn is granted (missed events ${missed})`,
      on(ALONE, async ({ stage, program, talk, says }) => {
        await says('Build a bridge');
        await program.rests();
        stage.cutOff?.(missed);
        await seeEqual(() => program.isCatchingUp(), true);
        const ids = [await stage.write('ann', 'And a tunnel'), await stage.write('ann', 'And a ferry')];
        stage.comeBack?.();
        await seeEqual(() => ids.map((id) => program.message(id)?.fate?.state ?? null), ['delivered', 'delivered']);
        await program.rests();
        expect(program.cast.heard('pm')).toEqual(['grant: Build a bridge', 'grant: And a tunnel | And a ferry']);
        expect((await talk()).at(-1)).toBe(`PM: ${answer('PM', 'And a tunnel', 'And a ferry')}`);
      }),
    );
  }

  test.runIf(ways.remote)(
    'loses no edit',
    on(ALONE, async ({ stage, program, says }) => {
      const id = await says('Build a bridge');
      await program.rests();
      stage.cutOff?.('forgotten');
      await seeEqual(() => program.isCatchingUp(), true);
      await stage.edit('ann', id, 'Build a tunnel');
      stage.comeBack?.();
      await seeEqual(() => program.message(id)?.text, 'Build a tunnel');
    }),
  );

  test.runIf(ways.remote)(
    'delays the next turn until the connection is restored',
    on(PAIR, async ({ stage, program, pmPauses, release }) => {
      await pmPauses();
      stage.cutOff?.('remembered');
      await seeEqual(() => program.isCatchingUp(), true);
      release('pm');
      await seeEqual(() => program.view().holder, null);
      expect(program.cast.heard('dev')).toEqual([]);
      stage.comeBack?.();
      await program.rests();
      expect(program.cast.heard('dev')).toHaveLength(1);
    }),
  );
}

function posts({ on }: Suite): void {
  const FIVE = ['one', 'two', 'three', 'four', 'five'];
  const texts = (name: string) => FIVE.map((word) => ({ say: `${name} says ${word}` }));
  const said = (name: string) => FIVE.map((word) => `${name}: ${name} says ${word}`);

  test(
    "appears once when the platform's answer was lost (row 25: accepted, answer lost)",
    on(ALONE, async ({ stage, program, talk, says }) => {
      program.cast.play('pm', ...texts('PM'));
      const lost = stage.loseAnswers(3, 'PM says');
      await says('Count');
      await program.rests();
      expect((await talk()).slice(1)).toEqual(said('PM'));
      expect(lost()).toBe(3);
    }),
  );

  test(
    "of an announcement appears once when the platform's answer was lost (row 25: accepted, answer lost)",
    on(ALONE, async ({ stage, program, pmPauses }) => {
      await pmPauses();
      const lost = stage.loseAnswers(1, 'Stopped');
      await stage.command('ann', '/stop');
      await program.rests();
      expect((await stage.read()).filter(({ text }) => text.includes('Stopped'))).toHaveLength(1);
      expect(lost()).toBe(1);
    }),
  );

  test(
    'is sent again in its order after a refusal (row 27: a burst of 503)',
    on(ALONE, async ({ stage, program, talk, says }) => {
      program.cast.play('pm', ...texts('PM'));
      const refused = stage.refuse(3, 'PM says');
      await says('Count');
      await program.rests();
      expect((await talk()).slice(1)).toEqual(said('PM'));
      expect(refused()).toBe(3);
    }),
  );

  test(
    'of a later turn never appears before a post of an earlier turn',
    on(PAIR, async ({ stage, program, talk, says }) => {
      program.cast.play('pm', ...texts('PM'));
      program.cast.play('dev', ...texts('Dev'));
      stage.refuse(1, 'PM says four');
      stage.loseAnswers(1, 'PM says five');
      await says('Count');
      await program.rests();
      expect((await talk()).slice(1)).toEqual([...said('PM'), ...said('Dev')]);
    }),
  );
}

/** Ways to replace the database that drew the buttons in the channel: a name for the title, and a function. */
const REPLACED: readonly [string, (file: string, backup: string) => Promise<unknown>][] = [
  [
    'a new database',
    async (file) => {
      for (const end of ['', '-wal', '-shm', '.mark']) rmSync(`${file}${end}`, { force: true });
      for (const name of readdirSync(dirname(file))) if (/mark/.test(name)) rmSync(join(dirname(file), name));
    },
  ],
  ['a restored backup', (file, backup) => restore(backup, file)],
];

function replacedStores({ on }: Suite): void {
  test.each(REPLACED)('T81 that was drawn before %s changes nothing', (_, replace) =>
    on(ALONE, async ({ stage, program, again, file, says }) => {
      const backup = `${file}.kept`;
      await says('Hello');
      await program.rests();
      await program.stop();
      copyFileSync(file, backup);
      const asking = await again({ ...ALONE, cast: (cast) => cast.play('pm', { ask: 'old.txt' }) });
      await stage.write('ann', 'Clean up');
      await seeEqual(async () => (await stage.card())?.buttons.includes('Allow once'), true);
      const old = await stage.card();
      stage.freezeCard?.();
      await asking.stop();
      await replace(file, backup);
      const next = await again({ ...ALONE, cast: (cast) => cast.play('pm', { ask: 'new.txt' }) });
      await stage.write('ann', 'Clean up again');
      const asked = () => next.view().holder?.approval;
      await seeEqual(() => asked()?.shown === true && asked()?.title, 'new.txt');
      const { question } = asked() ?? {};
      for (const label of ['Allow once', 'Deny'])
        expect(await old?.press('ann', label)).toContain('That request is closed.');
      for (const label of ['Skip', 'Stop', 'Pause'])
        expect(await old?.press('ann', label)).toContain('That turn is over.');
      expect(asked()).toMatchObject({ title: 'new.txt', question });
      expect(next.view().condition).toBe('open');
      expect(await stage.command('ann', `/allow ${question}`)).toContain('Allowed once.');
      await next.rests();
    })(),
  );
}

function restarts({ rig: { ways }, on }: Suite): void {
  const TEXTS = ['alpha', 'beta', 'gamma', 'delta'];
  const acts = TEXTS.map((say) => ({ say }));
  const spoken = TEXTS.map((text) => `PM: ${text}`);
  const goingOn: ProgramOptions = { ...ALONE, cast: (cast) => cast.play('pm', ...acts) };
  const byPm = (lines: readonly string[]) => lines.filter((line) => line.startsWith('PM: '));

  for (const missed of ['remembered', 'forgotten'] as const) {
    test.runIf(ways.remote || missed === 'forgotten')(
      `stores each message once that people wrote meanwhile (missed events ${missed})`,
      on(ALONE, async ({ stage, program, again, talk, says }) => {
        await says('Build a bridge');
        await program.rests();
        await program.stop();
        stage.cutOff?.(missed);
        await stage.write('ann', 'And a tunnel');
        await stage.write('ann', 'And a ferry');
        stage.comeBack?.();
        const next = await again(ALONE);
        // On the console, each message starts a turn at once. Elsewhere the history is read before any turn.
        await seeEqual(() => next.cast.heard('pm').join(' | ').includes('And a ferry'), true);
        await next.rests();
        const heard = next.cast.heard('pm');
        expect(heard.length).toBe(ways.remote ? 1 : 2);
        for (const text of ['And a tunnel', 'And a ferry'])
          expect(heard.filter((one) => one.includes(text))).toHaveLength(1);
        if (!ways.remote) return;
        expect((await talk()).at(-1)).toBe(`PM: ${answer('PM', 'And a tunnel', 'And a ferry')}`);
        expect(await talk()).toHaveLength(5);
      }),
    );
  }

  for (const count of [0, 1, 2, 3]) {
    test(
      `by force in a turn after ${count} of 4 posts continues the turn, and each post appears once, in order (row 1: kill -9)`,
      on(ALONE, async ({ stage, program, again, talk, says }) => {
        program.cast.play('pm', ...acts.slice(0, count), 'pause');
        if (count > 0) stage.loseAnswers(1, TEXTS[count - 1] ?? '');
        await says('Count');
        await program.cast.paused('pm', stage.channel);
        await seeEqual(async () => byPm(await talk()), spoken.slice(0, count));
        await program.kill();
        const next = await again(goingOn);
        await next.rests();
        expect(byPm(await talk())).toEqual(spoken);
      }),
    );
  }

  for (const count of [1, 3]) {
    test(
      `by force after ${count} of 4 pending posts sends each remaining post once, in order (row 1: kill -9)`,
      on(ALONE, async ({ program, again, talk, says }) => {
        program.cast.play('pm', ...acts);
        await says('Count');
        await seeEqual(async () => byPm(await talk()).length >= count, true);
        await program.kill();
        const next = await again(goingOn);
        await next.rests();
        expect(byPm(await talk())).toEqual(spoken);
      }),
    );
  }

  test(
    'by force while it showed a draft removes the draft',
    on({ ...ALONE, haste: 1 }, async ({ stage, program, again, talk, says }) => {
      program.cast.play('pm', { write: 'First of all' }, 'pause');
      await says('What is the plan?');
      await seeEqual(async () => (await stage.drafts()).length, 1);
      await program.kill();
      const next = await again({ ...ALONE, cast: (cast) => cast.play('pm', { say: 'The whole plan' }) });
      await next.rests();
      expect(byPm(await talk())).toEqual(['PM: The whole plan']);
      await seeEqual(() => stage.drafts(), []);
    }),
  );
}

/** Returns the newest receipt of a message; `null`: none. Some platforms also show earlier receipts. */
async function markOf(stage: Stage, id: string): Promise<string | null> {
  return (await stage.receipts(id)).at(-1) ?? null;
}

function speakers(conversation: readonly Seen[]): readonly string[] {
  return conversation.filter(({ kind }) => kind === 'agent').map(({ author }) => author);
}

function firstWord(text: string): string {
  return text.split(':')[0] ?? '';
}

/** Returns numbered words, together about `length` characters long. */
function words(length: number): string {
  const count = Math.ceil(length / 10);
  return Array.from({ length: count }, (_, index) => `word-${String(index).padStart(5, '0')}`.slice(0, 10)).join(' ');
}

/** A platform on this machine with one person: without all abilities that only some platforms have. */
export const PLAIN_WAYS: Ways = {
  threads: false,
  replies: false,
  files: false,
  mentions: false,
  bots: false,
  several: false,
  roles: false,
  typed: false,
  pings: false,
  remote: false,
};
