import { describe, expect, test } from 'vitest';
import { COMMANDS } from '../../../src/turns/commands/command-table.ts';
import { ANN, OLA, room, seats, T0, view } from './room.ts';

const TURN_ENDED = {
  type: 'turnEnded',
  agent: 'dev',
  epoch: 2,
  outcome: 'completed',
  signalled: true,
  said: true,
  answered: [],
  returned: [],
} as const;

describe('a person who is not an operator', () => {
  const changing = COMMANDS.filter((row) => row.needs === 'operate').map((row) => row.example);
  const reading = COMMANDS.filter((row) => row.needs === 'read').map((row) => row.example);

  test.each(changing)('may not run %s, and nothing changes', async (line) => {
    const { run, refusal, commands, restarted, audit } = room();
    // T67: `refusal` is called before a form opens.
    expect([refusal(line, ANN), refusal(line, OLA)]).toEqual([expect.stringContaining('Only operators may use'), null]);
    const answer = await run(line, ANN);
    expect(answer.ok).toBe(false);
    expect(answer.text).toContain('Only operators may use');
    expect([...commands, ...restarted]).toEqual([]);
    const told = line.replace(' name=Ann', '');
    expect(audit).toMatchObject([{ by: 'ann', line: told, ok: false, channel: 'console:demo' }]);
  });

  test.each([...reading, '/floor mode', '/floor order'])('may read %s', async (line) => {
    const { run, commands, audit } = room();
    expect((await run(line, ANN)).ok).toBe(true);
    expect(commands).toEqual([]);
    expect(audit).toEqual([]);
  });

  test('is refused when a bot uses an operator’s id', async () => {
    const { run, commands } = room();
    expect((await run('/stop', { ...OLA, bot: true })).ok).toBe(false);
    expect(commands).toEqual([]);
  });

  test('is refused when an agent is listed as an operator', async () => {
    const { run, commands } = room({ operators: { users: ['dev'], roles: [] } });
    expect((await run('/stop', { id: 'dev', name: 'dev', roles: [] })).ok).toBe(false);
    expect(commands).toEqual([]);
  });

  test('is refused as soon as the role is removed', async () => {
    const operators = { users: ['ola'], roles: [] as string[] };
    const { run, commands } = room({ operators });
    expect((await run('/floor pause', OLA)).ok).toBe(true);
    operators.users = [];
    expect((await run('/floor resume', OLA)).ok).toBe(false);
    expect(commands.map((each) => each.command.type)).toEqual(['pause']);
  });
});

describe('an operator', () => {
  test.each([
    ['/stop', { type: 'stop' }],
    ['/floor start', { type: 'start' }],
    ['/floor grant Developer', { type: 'grant', agent: 'dev' }],
    ['/floor skip', { type: 'skip' }],
    ['/floor skip dev', { type: 'skip', agent: 'dev' }],
    ['/floor extend', { type: 'extend', ms: 60_000 }],
    ['/floor extend 2m', { type: 'extend', ms: 120_000 }],
    ['/floor pause', { type: 'pause' }],
    ['/floor resume', { type: 'resume' }],
    ['/floor order manual', { type: 'order', order: 'manual' }],
    ['/floor order priority qa PM', { type: 'order', order: 'priority', queue: ['qa', 'pm'] }],
    ['/floor mode collect', { type: 'mode', mode: 'queue' }],
    ['/floor add qa', { type: 'add', agent: 'qa' }],
    ['/floor remove qa', { type: 'remove', agent: 'qa' }],
  ])('sends the command of %s', async (line, command) => {
    const { run, commands, audit } = room();
    const answer = await run(line, OLA);
    expect(answer.ok).toBe(true);
    expect(commands).toEqual([{ channel: 'console:demo', command: { by: 'ola', ...command } }]);
    expect(audit).toMatchObject([{ by: 'ola', line, ok: true }]);
  });

  test('reads who was skipped and who is next', async () => {
    const { run } = room({
      facts: [
        {
          type: 'turnEnded',
          agent: 'dev',
          epoch: 2,
          outcome: 'revoked',
          signalled: false,
          said: false,
          answered: [],
          returned: [],
        },
      ],
    });
    expect(await run('/floor skip', OLA)).toEqual({
      ok: true,
      text: 'Skipped Developer.\n🎤 Developer · 1:12 left · next: qa, pm',
    });
  });

  test('reads what stop did', async () => {
    const { run } = room({
      facts: [
        {
          type: 'announced',
          announcement: { kind: 'stopped', agent: 'dev', kept: 1 },
          key: 'stopped',
          repeat: 1,
          shown: true,
        },
      ],
    });
    expect((await run('/stop', OLA)).text.split('\n')[0]).toBe('⏹ Stopped Developer. 1 message kept.');
  });

  test('reads whether the agent got the floor at once', async () => {
    const granted = {
      type: 'turnGranted',
      agent: 'qa',
      epoch: 3,
      afterLine: 0,
      uptoLine: 1,
      messages: [],
      keepsPlace: false,
    } as const;
    expect((await room({ facts: [granted] }).run('/floor grant qa', OLA)).text).toMatch(/^qa holds the floor\./);
    expect((await room().run('/floor grant qa', OLA)).text).toMatch(/^qa is next\./);
  });

  test('enables and disables an agent in all its channels', async () => {
    const { run, commands } = room();
    expect(await run('/agent disable dev', OLA)).toEqual({ ok: true, text: 'Disabled Developer in 2 channels.' });
    expect(commands).toEqual([
      { channel: 'console:demo', command: { type: 'disable', agent: 'dev', by: 'ola' } },
      { channel: 'console:other', command: { type: 'disable', agent: 'dev', by: 'ola' } },
    ]);
  });

  test('restarts an agent', async () => {
    const { run, restarted } = room();
    expect(await run('/agent restart qa', OLA)).toEqual({ ok: true, text: 'qa restarted.' });
    expect(restarted).toEqual(['qa']);
  });

  test('adds an agent that the channel does not list, with its default seat', async () => {
    const seat = { agent: 'qa', priority: 5, timeoutMs: 60_000, rejoin: 'auto' } as const;
    const { run, commands } = room({ seat: () => seat });
    await run('/floor add qa', OLA);
    expect(commands[0]?.command).toEqual({ type: 'add', agent: 'qa', by: 'ola', seat });
  });
});

describe('a refusal', () => {
  test('is answered with its explanation', async () => {
    const { run } = room({ refusal: 'nothing-to-stop' });
    expect(await run('/stop', OLA)).toEqual({ ok: false, text: 'refused: nothing-to-stop (Developer)' });
  });

  test('names the agent that the command was about', async () => {
    const { run } = room({ refusal: 'offline' });
    expect((await run('/floor grant qa', OLA)).text).toBe('refused: offline (qa)');
  });

  test('in every channel of an agent makes the whole command fail', async () => {
    const { run } = room({ refusal: 'already' });
    expect(await run('/agent enable dev', OLA)).toEqual({ ok: false, text: 'refused: already (Developer)' });
  });

  test('of an unknown agent lists the known ones', async () => {
    const { run, commands } = room();
    expect(await run('/floor grant dve', OLA)).toEqual({
      ok: false,
      text: 'There is no agent "dve". Did you mean "dev"? Agents: pm, dev, qa.',
    });
    expect((await run('/floor order manual dev nobody', OLA)).ok).toBe(false);
    expect(commands).toEqual([]);
  });

  test('of a channel without a floor says where to add one', async () => {
    const { run, commands } = room({ view: null });
    expect((await run('/floor skip', OLA)).text).toBe(
      'This channel has no floor: add it to "channels" in turnConfig.json.',
    );
    expect(commands).toEqual([]);
  });
});

describe('a button', () => {
  test('applies only to the turn that it was drawn for', async () => {
    const { run, commands } = room();
    await run('/floor skip', OLA, 'tx.2');
    expect(commands[0]?.command).toEqual({ type: 'skip', by: 'ola', epoch: 2 });
  });

  test('of an ended turn is answered that the turn is over', async () => {
    const { run } = room({ refusal: 'stale-epoch' });
    expect(await run('/floor skip', OLA, 'tx.1')).toEqual({ ok: false, text: 'That turn is over.' });
  });

  test('of an ended turn does not extend another turn', async () => {
    const { run, commands } = room({ facts: [{ type: 'turnExtended', agent: 'dev', ms: 60_000, by: 'ola' }] });
    expect((await run('/floor extend', OLA, 'tx.2')).text.split('\n')[0]).toBe('Developer has 1:00 more.');
    expect(commands[0]?.command).toEqual({ type: 'extend', by: 'ola', ms: 60_000, epoch: 2 });
  });
});

test('more time for a waiting agent names that agent', async () => {
  const facts = [{ type: 'turnExtended', agent: 'dev', ms: 60_000, by: 'ola' }] as const;
  const { run } = room({ facts, view: view({ holder: null }) });
  expect((await run('/floor extend', OLA)).text.split('\n')[0]).toBe('Developer has 1:00 more.');
});

describe('T7 a request', () => {
  const approval = { question: 8, key: 'K8', title: 'rm -rf build', detail: 'rm -rf build', shown: true };
  const asking = view({ holder: { ...view().holder!, status: 'WAITING', waitingFor: 'approval', approval } });

  test('is decided by its number, with a button or a command', async () => {
    const { run, commands } = room({ view: asking });
    expect((await run('/allow 8', OLA, 'qK8')).text).toContain('Allowed once.');
    expect((await run('!reject #7', OLA)).text).toContain('Denied.');
    expect(commands.map(({ command }) => command)).toEqual([
      { type: 'decide', by: 'ola', name: 'Ola', choice: 'allow', question: 8, key: 'K8' },
      { type: 'decide', by: 'ola', name: 'Ola', choice: 'reject', question: 7 },
    ]);
  });

  test('is not decided without its number, and the answer lists the open requests', async () => {
    const { run, commands } = room({ view: asking });
    const text = 'Developer waits for approval: rm -rf build. To decide: /allow 8 or /reject 8';
    for (const line of ['/allow', '/reject']) expect(await run(line, OLA)).toEqual({ ok: false, text });
    expect((await run('/allow once', OLA)).text).toMatch(/^Expected the number shown with the request/);
    expect((await run('/floor status', ANN)).text).toContain(text);
    expect(commands).toEqual([]);
  });

  describe('that needs an answer in words', () => {
    const field = { label: 'Colour', hint: '', kind: 'one', required: true } as const;
    const options = ['red', 'blue'].map((value) => ({ value, label: value }));
    const about = { step: 1, steps: 9, tool: 'ask of files', folder: null, why: 'it asks', says: null };
    const withAbout = (more: object) =>
      view({ holder: { ...asking.holder!, approval: { ...approval, about: { ...about, ...more } } } });
    const form = [{ name: 'colour', ...field, options }];
    const colour = withAbout({ answer: '<colour>', form });

    test('accepts words that fill in its form, with any command word, and keeps them out of the log', async () => {
      const { run, commands, audit } = room({ view: colour });
      expect((await run('/answer 8 Blue', OLA, 'qK8')).text).toContain('Answered.');
      expect(audit).toMatchObject([{ line: '/answer 8' }]);
      expect((await run('/reject 8', OLA)).text).toContain('Declined.');
      expect(commands.map(({ command }) => command)).toMatchObject([
        { choice: 'allow', question: 8, reason: 'Blue' },
        { choice: 'reject', question: 8 },
      ]);
    });

    test('refuses other words, reports each wrong field, and stays open', async () => {
      const { run, commands } = room({ view: colour });
      const wrong = expect.stringContaining('Invalid option');
      expect(await run('/answer 8 green', OLA)).toEqual({ ok: false, text: wrong, fields: { colour: wrong } });
      for (const line of ['/answer 8', '/allow 8', '/allow 8 always'])
        expect(await run(line, OLA)).toEqual({ ok: false, text: 'Use /answer 8 <colour>, or /reject 8' });
      const [told] = (await run('/allow', OLA)).text.split('\n');
      expect(told).toBe('Developer asks: rm -rf build. To answer: /answer 8 <colour>. To decline: /reject 8');
      expect(commands).toEqual([]);
    });

    test('without a form accepts any words, and a plain approval', async () => {
      const { run, commands } = room({ view: withAbout({ answer: 'done' }) });
      for (const line of ['/answer 8 done', '/allow 8']) expect((await run(line, OLA)).ok).toBe(true);
      expect(commands).toHaveLength(2);
    });

    test('about a call accepts no words', async () => {
      const { run, commands } = room({ view: asking });
      expect((await run('/answer 8 yes', OLA)).text).toBe(
        'Request 8 takes no answer in words. Use /allow 8 or /reject 8',
      );
      expect(commands).toEqual([]);
    });

    test('that is already decided names the person', async () => {
      const { run } = room({ view: asking, refusal: 'stale-question' });
      expect((await run('/answer 1', OLA)).text).toContain('bob');
    });
  });

  test('that does not exist cannot be decided', async () => {
    expect((await room().run('/allow', OLA)).text).toMatch(/^No request is open here/);
  });
});

describe('status', () => {
  test('shows the holder, the time left, the next agents, the settings and every seat', async () => {
    expect((await room().run('/floor status', ANN)).text).toBe(
      [
        '🎤 Developer · 1:12 left · next: qa, pm',
        'open · mode inject · order round-robin · 3 of 12 turns used',
        '1 held message (/queue shows them)',
        'Seats: pm QUEUED · Developer ACTIVE · qa OFFLINE (disabled)',
      ].join('\n'),
    );
  });

  test('shows a waiting holder, and what it waits for', async () => {
    const holder = { ...view().holder!, status: 'WAITING', waitingFor: 'answer', deadlineAt: T0 + 598_001 } as const;
    const { run } = room({ view: view({ holder }) });
    expect((await run('/floor status', ANN)).text).toMatch(
      /^✋ Developer waits for an answer · 9:59 left · next: qa, pm\n/,
    );
  });

  test('shows a holder that a tool call keeps at work', async () => {
    const holder = { ...view().holder!, deadlineAt: T0 + 600_000, working: true };
    expect((await room({ view: view({ holder }) }).run('/floor status', ANN)).text).toMatch(
      /^🎤 Developer · working · 10:00 left · next/,
    );
  });

  test('names a daily limit', async () => {
    const obstacles = [{ why: 'day-limit', budget: 'cost a day', until: T0 }] as const;
    const { run } = room({ view: view({ holder: null, condition: 'resting', obstacles }) });
    expect((await run('/floor status', ANN)).text).toContain(
      '⏸ The daily limit of cost is reached. To continue: /floor resume.',
    );
  });

  test('shows a limit, and how to continue', async () => {
    const { run } = room({
      view: view({
        holder: null,
        condition: 'resting',
        obstacles: [{ why: 'limit', budget: 'turns' }, { why: 'catching-up' }, { why: 'resting', after: 'rounds' }],
      }),
    });
    expect((await run('/floor status', ANN)).text.split('\n').slice(0, 3)).toEqual([
      'The floor rests · next: qa, pm',
      '⏸ The limit of turns is reached. To continue: write a message, or /floor resume.',
      'Conch reads the channel’s history; turns start after that.',
    ]);
  });

  test.each(['tokens', 'cost', 'minutes'] as const)(
    'says that a message continues after the limit of %s of an exchange',
    async (budget) => {
      const { run } = room({
        view: view({ holder: null, condition: 'resting', obstacles: [{ why: 'limit', budget }] }),
      });
      expect((await run('/floor status', ANN)).text).toContain('To continue: write a message, or /floor resume.');
    },
  );

  test('says that the facilitator chooses the next agent', async () => {
    const obstacles = [{ why: 'facilitation', agent: 'pm' }] as const;
    const { run } = room({ view: view({ holder: null, condition: 'open', obstacles }) });
    expect((await run('/floor status', ANN)).text).toContain('pm chooses the next agent.');
  });

  test('shows a floor without agents', async () => {
    const { run } = room({
      view: view({ holder: null, condition: 'resting', next: [], seats: [], held: [], turns: null }),
    });
    expect((await run('/floor status', ANN)).text).toBe(
      'The floor rests · next: nobody\nresting · mode inject · order round-robin\nSeats: none (/floor add <agent>)',
    );
  });
});

describe('reading', () => {
  test('the queue shows positions and held messages', async () => {
    expect((await room().run('/queue', ANN)).text).toBe(
      [
        '🎤 Developer · 1:12 left · next: qa',
        '1. qa',
        '2. pm',
        '1 held message:',
        '- Ann: please wait for me (1234567890)',
      ].join('\n'),
    );
  });

  test('the log shows the turns and how they ended', async () => {
    expect((await room().run('/floor log', ANN)).text).toBe(
      [
        '21:00:00 UTC  #1 pm · 0:12 · completed · 2 messages said',
        '21:00:12 UTC  #2 Developer · 0:18 · in progress · nothing said · waited for answer',
      ].join('\n'),
    );
  });

  test('why shows the fate of a message step by step', async () => {
    expect((await room().run('/why 1234567890', ANN)).text).toBe(
      [
        '20:59:50 UTC  Ann wrote (edited): please wait for me',
        '20:59:51 UTC  message 1234567890 held until the turn ends (pm #1 had the floor)',
        '21:00:12 UTC  turn granted to Developer #2, with message 1234567890',
        'Now: delivered to Developer with its prompt.',
      ].join('\n'),
    );
  });

  test('why shows the obstacle that holds a message', async () => {
    const { run } = room({
      view: view({ holder: null, obstacles: [{ why: 'paused' }, { why: 'resting', after: 'rounds' }] }),
    });
    expect((await run('/why waiting', ANN)).text.split('\n').slice(-2)).toEqual([
      'Now: held until an agent is prompted.',
      '⏸ The floor is paused. To continue: /floor resume.',
    ]);
  });

  test.each([
    ['injected', 'mid-turn'],
    ['next-prompt', 'with its prompt'],
    ['refused', 'with its prompt'],
  ] as const)('T10 why reports a message whose injection ended with "%s" as delivered %s', async (outcome, how) => {
    const fact = { type: 'injectReported', agent: 'dev', epoch: 2, id: 'injected', outcome } as const;
    const { run } = room({ why: [{ key: 'console:demo', seq: 3, at: T0, hash: '', fact }] });
    expect((await run('/why injected', ANN)).text.split('\n').at(-1)).toBe(`Now: delivered to Developer ${how}.`);
  });

  test.each([
    [{ answered: ['injected'] }, 'answered by Developer'],
    [{ answered: [], cut: ['injected'] }, 'the answer of Developer was cut short'],
    [{ answered: ['another'] }, 'delivered to Developer mid-turn'],
  ])('why ends with the words of the receipt: %j', async (ended, words) => {
    const fact = { ...TURN_ENDED, ...ended };
    const { run } = room({ why: [{ key: 'console:demo', seq: 4, at: T0, hash: '', fact }] });
    expect((await run('/why injected', ANN)).text.split('\n').at(-1)).toBe(`Now: ${words}.`);
  });

  test('why does not show messages of another channel', async () => {
    const { run } = room();
    const other = await run('/why secret', ANN);
    expect(other).toEqual({ ok: false, text: 'This channel received no message "secret".' });
    expect((await run('/why nothing', ANN)).text).toBe('This channel received no message "nothing".');
  });

  test('whoami shows the id and the role', async () => {
    const { run } = room();
    expect((await run('/whoami', ANN)).text).toContain('You are Ann, id ann.\nYou may look, not change.');
    expect((await run('/whoami', OLA)).text).toBe(
      'You are Ola, id ola.\nYour roles: crew.\nYou are an operator: you may use all commands.',
    );
  });

  test('the agents are listed with state and channels', async () => {
    expect((await room().run('/agent list', ANN)).text.split('\n')).toEqual([
      'pm · scripted · Running · demo',
      'dev (Developer) · scripted · Running · demo, other',
      'qa · scripted · Stopped · demo',
    ]);
  });

  test('one agent is shown in detail', async () => {
    expect((await room().run('/agent status developer', ANN)).text).toBe('dev\nRunning\n3 runs');
    expect((await room().run('/agent status qa', ANN)).text).toBe('qa\nRunning');
  });

  test('help shows every command, a group, or one in detail', async () => {
    const { run } = room();
    const all = (await run('/help', ANN)).text;
    for (const row of COMMANDS) expect(all).toContain(`/${row.path}`);
    expect((await run('/help agent', ANN)).text.split('\n')).toHaveLength(7);
    expect((await run('/help floor mode', ANN)).text).toBe(
      [
        '/floor mode [mode]: Show or change what a message does to the current turn',
        '  mode: what happens to a message mid-turn',
        'Example: /floor mode queue',
        'For operators. Without arguments it only shows, for everybody.',
      ].join('\n'),
    );
    expect((await run('/help crew d', ANN)).text).toContain('/crew dashboard: Show workers');
    expect((await run('/help floor skp', ANN)).text).toContain('Did you mean "floor skip"?');
  });

  test('the modes and orders are explained', async () => {
    const { run } = room();
    expect((await run('/floor mode', ANN)).text).toContain('Mode: inject. Modes:\ninject: the agent receives');
    expect((await run('/floor order', ANN)).text).toContain('Order: round-robin, next: qa, pm. Orders:');
  });

  test('whoami, help and the agents need no floor', async () => {
    const { run } = room({ view: null, seats: seats() });
    for (const line of ['/whoami', '/help', '/agent list']) expect((await run(line, ANN)).ok).toBe(true);
  });
});

describe('a command about reviews', () => {
  test.each([
    ['/review start dev qa write it', 'dev qa undefined write it'],
    ['/review start @Developer QA 5 write 3 tests', 'dev qa 5 write 3 tests'],
    ['/review more 3', 'more 3'],
    ['/review cancel no longer needed', 'cancel no longer needed'],
    ['/review uphold', 'uphold'],
    ['/review status', 'status undefined'],
    ['/review status --json', 'status true'],
  ])('%s reaches the reviews', async (line, text) => {
    expect(await room().run(line, OLA)).toEqual({ ok: true, text });
  });

  test.each([
    ['/review start dev', 'Expected a reviewer'],
    ['/review start dev qa', 'Expected a task'],
    ['/review status --yaml', 'There is no option "--yaml". Options: --json'],
    ['/review status --json=1', 'Expected nothing after --json'],
    ['/review status --json now', 'Expected nothing after "now": /review status [--json]'],
    ['/review start dev nobody write it', 'There is no agent "nobody"'],
    ['/review start dev qa 0 write it', 'Expected a number from 1 to 100, got "0"'],
    ['/review start dev qa 1000 write it', 'Expected a number from 1 to 100, got "1000"'],
    [`/review start dev qa ${'x'.repeat(1_000_000)}`, 'too long'],
  ])('%.40s is refused with advice', async (line, text) => {
    const answer = await room().run(line, OLA);
    expect([answer.ok, answer.text]).toEqual([false, expect.stringContaining(text)]);
  });
});
