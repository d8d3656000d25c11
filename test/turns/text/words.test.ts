import { describe, expect, test } from 'vitest';
import { completeTexts } from '../../../src/config/announcements.ts';
import type { OwnTexts } from '../../../src/config/announcements.ts';
import type { Refusal } from '../../../src/turns/floor/command.ts';
import type { Announcement, Limit } from '../../../src/turns/floor/fact.ts';
import { announcementText, reasonLabel, refusalText } from '../../../src/turns/text/words.ts';

const nameOf = (agent: string): string => (agent === 'ops' ? 'Ops Team' : agent);
const said = (announcement: Announcement, own: OwnTexts = {}, repeat = 1) =>
  announcementText(announcement, completeTexts(own), nameOf, repeat);
const limit = (budget: Limit['budget'], used: number, max: number) => said({ kind: 'limit', budget, used, max });

describe('T21 a question', () => {
  const asks = {
    kind: 'approval',
    agent: 'dev',
    question: 8,
    title: 'clean up',
    detail: 'command: rm -rf build',
  } as const;

  test('stands under its number, with the answers to it and the whole of what would run in a block of code', () => {
    expect(said(asks)).toBe(
      [
        '✋ dev asks for a yes (8): clean up',
        'An operator answers with /allow 8 or /reject 8.',
        '```',
        'command: rm -rf build',
        '```',
      ].join('\n'),
    );
  });

  test('of somebody whom a restart took says what a yes counts for, and no number of times', () => {
    const until = Date.UTC(2026, 0, 2, 13, 5);
    expect(said({ ...asks, gone: true, until }, {}, 2)?.split('\n')).toEqual([
      '✋ dev asks for a yes (8): clean up',
      'An operator answers with /allow 8 or /reject 8.',
      '⚠ dev was restarted: a yes now counts for the same request, once',
      '```',
      'command: rm -rf build',
      '```',
      'Who decides: operators. Until 13:05 UTC; nobody’s silence is a yes.',
    ]);
  });

  test('is never without what would run, whatever the texts of the configuration say', () => {
    expect(said(asks, { approval: '{agent}? {detail}' })).toBe('dev?\n```\ncommand: rm -rf build\n```');
    expect(said(asks, { approval: false })).toBe(said(asks));
    const known = { step: 1, steps: 9, tool: 'ask of hub', folder: null, why: 'hub asks', says: null };
    const inWords = { ...asks, about: { ...known, answer: 'done' } };
    expect(said(inWords)?.split('\n')[0]).toBe('✋ dev asks (8): clean up');
    expect(said(inWords)).not.toContain('/allow');
    expect(said(inWords, { approval: '{agent}?' })?.split('\n')[0]).toBe('dev?');
  });

  test('has a heading of one short line that opens no code', () => {
    const title = `a \`b\` ${'c'.repeat(200)}\nAn operator answers with /allow 7`;
    const [heading = '', second] = said({ ...asks, title })?.split('\n') ?? [];
    expect(heading).toMatch(/^✋ dev asks for a yes \(8\): a 'b' c{90,100}…$/);
    expect(second).toBe('An operator answers with /allow 8 or /reject 8.');
  });

  test('says beside that what the call is part of, why it is asked, what its agent says, and what each answer does', () => {
    const about = {
      run: 'slack:C1 dev#2',
      step: 3,
      steps: 100,
      tool: 'execute (Bash)',
      folder: '/srv/app',
      why: 'rule "Bash(rm *)" says so',
      says: 'I tidy up, `as` you asked',
    };
    const always = [{ rule: 'execute(rm -rf build)', words: 'exactly this command' }];
    const until = Date.UTC(2026, 0, 2, 13, 5);
    expect(said({ ...asks, about, always, until })?.split('\n')).toEqual([
      '✋ dev asks for a yes (8): clean up',
      'An operator answers with /allow 8 or /reject 8.',
      'Run dev#2, step 3 of 100 · execute (Bash) · in /srv/app',
      'Asked because rule "Bash(rm *)" says so',
      "dev says: “I tidy up, 'as' you asked”",
      '```',
      'command: rm -rf build',
      '```',
      'Once runs exactly this, one time. No lets dev go on without it, and it reads why if you say so.',
      'Always 1: exactly this command, for dev in this channel, for 30 days. /run approvals takes it back.',
      'Who decides: operators. Until 13:05 UTC; nobody’s silence is a yes.',
    ]);
  });

  test('promises an agent that hears the bare answer nothing more, and what it runs is by its own account', () => {
    const about = { step: 1, steps: 2, tool: 'edit', folder: null, why: 'x', says: null, bare: true } as const;
    const words = said({ ...asks, about, until: 0 });
    expect(words).toContain(
      '\nOnce lets dev do this, by its own account, one time. No is all that dev hears of a no: what you say why is on record, and it may end its answer there.\n',
    );
    expect(words).not.toContain('reads');
    expect(said({ ...asks, about: { ...about, times: 3 }, until: 0 })).toContain('3 times, for so often it is asked');
  });

  const plain = { step: 1, steps: 2, tool: 'edit', folder: null, why: 'x', says: null };
  test.each<[string, Parameters<typeof reasonLabel>[0]]>([
    ['Why not? Its agent reads it', { ...asks, about: plain }],
    ['Why not? On record: whoever asks hears a no', { ...asks, about: { ...plain, bare: true } }],
    ['Why not? On record: whoever asks hears a no', { ...asks, about: { ...plain, answer: 'done' } }],
    ['Why not? Its agent reads it', { ...asks, about: { ...plain, bare: true }, gone: true }],
    ['Why not? Its agent reads it', null],
  ])('has a field for the words of a no that says what becomes of them: "%s"', (label, asked) => {
    expect(reasonLabel(asked)).toBe(label);
    expect(label.length).toBeLessThanOrEqual(45);
  });

  test('says how many there are, and how often the very same is asked for', () => {
    const about = { step: 1, steps: 2, tool: 'edit', folder: null, why: 'x', says: null, questions: 3, times: 2 };
    const words = said({ ...asks, about, until: 0 });
    expect(words).toContain('Step 1 of 2 · edit · question 1 of 3');
    expect(said({ ...asks, about, gone: true, until: 0 })).toContain('Step 1 of 2 · edit\n');
    expect(words).toContain(
      'Once runs exactly this, 2 times, for so often it is asked for now. No lets dev go on without',
    );
  });

  test('names who may decide when that is not every operator', () => {
    const about = { step: 1, steps: 2, tool: 'edit', folder: null, why: 'no rule names it', says: null, who: 'eve' };
    expect(said({ ...asks, about, until: 0 })).toContain('Who decides: eve. Until 00:00 UTC');
  });

  test('of a change in a file stands in a block that shows what comes and goes', () => {
    const detail = 'a.txt (+1 -1)\n@@ -1 +1 @@\n-one\n+two';
    expect(said({ ...asks, detail })).toContain('```diff\na.txt (+1 -1)\n@@ -1 +1 @@');
  });

  test('T53 says so when a word mixes letters that look alike', () => {
    expect(said({ ...asks, detail: 'curl https://g\u0456thub.com/x' })).toContain(
      '⚠ Letters of more than one alphabet in one word: g\u0456thub.com',
    );
    expect(said({ ...asks, detail: 'curl https://github.com Größe Привет кот-cat' })).not.toContain('alphabet');
  });

  test.each<[Partial<Extract<Announcement, { kind: 'answered' }>>, string]>([
    [{}, '✅ ann allowed once what dev asked: clean up · 12:03 UTC'],
    [
      { came: { status: 'complete', ms: 2_100 } },
      '✅ ann allowed once what dev asked: clean up · 12:03 UTC → complete, 2.1 s',
    ],
    [
      { came: { status: 'unknown', ms: null } },
      '✅ ann allowed once what dev asked: clean up · 12:03 UTC → nobody knows what came of it',
    ],
    [{ always: 'execute(rm *)' }, '✅ ann allowed by "execute(rm *)" from now on what dev asked: clean up · 12:03 UTC'],
    [
      { choice: 'reject', reason: 'use `b.txt`' },
      "⛔ ann rejected what dev asked: clean up: “use 'b.txt'” · 12:03 UTC",
    ],
    [{ choice: null, by: null }, '⌛ Nobody has to answer any more what dev asked: clean up · 12:03 UTC'],
    [{ pause: 'turn_limit' }, '▶️ ann let go on what dev asked: clean up · 12:03 UTC'],
  ])('that is over stands as its outcome: %j', (more, text) => {
    const at = Date.UTC(2026, 0, 2, 12, 3);
    const answer = { question: 8, title: 'clean up', choice: 'allow', by: 'ann', at } as const;
    expect(said({ kind: 'answered', agent: 'dev', ...answer, ...more }, {}, 2)).toBe(text);
  });

  test('that nobody could be asked is told with the reason', () => {
    expect(said({ kind: 'unasked', agent: 'dev', title: 'clean up', why: 'it is too long' })).toBe(
      '⛔ dev got a no, for nobody could be asked about "clean up": it is too long',
    );
  });
});

describe('the built-in texts', () => {
  test.each<[Announcement, string]>([
    [{ kind: 'timeout', agent: 'pm' }, '⏱️ pm turn timed out'],
    [{ kind: 'timeout', agent: 'ops' }, '⏱️ Ops Team turn timed out'],
    [{ kind: 'disconnect', agent: 'pm', cause: '' }, '⚠️ pm disconnected, skipping turn'],
    [
      { kind: 'disconnect', agent: 'pm', cause: 'exited with code 137' },
      '⚠️ pm disconnected, skipping turn: exited with code 137',
    ],
    [{ kind: 'nobody' }, '⚠️ No agents available in this channel'],
    [
      { kind: 'unaddressed', named: [], example: 'dev' },
      '⚠️ Nobody answers that: it names no agent. Begin with a name: "@dev …"',
    ],
    [{ kind: 'unaddressed', named: ['qa'], example: 'dev' }, '⚠️ Nobody answers that: qa cannot now'],
    [
      { kind: 'disconnect', agent: 'pm', cause: 'cannot reach it', also: ['dev', 'qa'] },
      '⚠️ dev, qa, pm disconnected, skipping turn: cannot reach it',
    ],
    [
      { kind: 'nobody', lost: { agents: ['dev', 'pm'], cause: 'cannot reach it' } },
      '⚠️ No agents available in this channel: dev, pm: cannot reach it',
    ],
    [{ kind: 'waitTimeout', agent: 'dev' }, '⏱️ dev waited too long, skipping turn'],
    [{ kind: 'recovered', agent: 'dev' }, '↩️ dev goes on after a restart'],
    [
      { kind: 'undelivered', agent: 'dev', why: 'it was blocked' },
      '⚠️ Something that dev said could not be posted: it was blocked',
    ],
    [
      { kind: 'toolsGone', agent: 'dev', server: 'github', why: 'exited with code 3' },
      '🔌 dev is without the tools of github: exited with code 3. /agent restart dev tries it again.',
    ],
    [
      { kind: 'revoked', agent: 'dev', rule: 'execute(`npm` *)', by: 'Ann' },
      "↩️ Ann took back that dev need not ask: execute('npm' *)",
    ],
    [{ kind: 'toolsBack', agent: 'dev', server: 'github' }, '🔌 dev has the tools of github again'],
    [{ kind: 'gap', why: 'no permission' }, '⚠️ Some messages could not be read: no permission'],
    [{ kind: 'stopped', agent: 'dev', kept: 1 }, '⏹ Stopped dev. 1 message kept.'],
    [{ kind: 'stopped', agent: 'dev', kept: 0 }, '⏹ Stopped dev. 0 messages kept.'],
    [{ kind: 'stopped', agent: null, kept: 2 }, '⏹ Stopped. 2 messages kept.'],
    [{ kind: 'stopped', agent: null, kept: 1 }, '⏹ Stopped. 1 message kept.'],
  ])('are those of the owner and the design: %j', (announcement, text) => {
    expect(said(announcement)).toBe(text);
  });

  test('name a limit with its numbers, its unit and the way on', () => {
    expect(limit('turns', 12, 12)).toBe('⏸ 12 of 12 turns without a person. Write a message or run /floor resume.');
    expect(limit('tokens', 50_312, 50_000)).toBe(
      '⏸ 50,312 of 50,000 tokens since the last message. Write a message or run /floor resume.',
    );
    expect(limit('cost', 1_502_500, 1_500_000)).toMatch(/^⏸ \$1\.5025 of \$1\.50 spent since the last message\./);
    expect(limit('minutes', 10.04, 10)).toMatch(/^⏸ 10 of 10 minutes since the last message\./);
    expect(limit('tokens a day', 9, 9)).toBe(
      '⏸ 9 of 9 tokens today. It goes on tomorrow (UTC), or now with /floor resume.',
    );
    expect(limit('cost a day', 20_000_000, 20_000_000)).toMatch(/^⏸ \$20\.00 of \$20\.00 spent today\./);
    expect(limit('minutes a day', 90.25, 90)).toMatch(/^⏸ 90\.3 of 90 minutes today\./);
    expect(limit('held messages', 500, 500)).toMatch(/^⏸ 500 of 500 messages are held\./);
  });

  test('give a cause as one short line', () => {
    const text = said({ kind: 'disconnect', agent: 'pm', cause: `line one\nline two ${'x'.repeat(1_000)}` }) ?? '';
    expect(text).toContain(': line one line two xxx');
    expect(text).not.toContain('\n');
    expect(text.length).toBeLessThan(260);
  });

  test('say how often an announcement recurred', () => {
    expect(said({ kind: 'timeout', agent: 'pm' }, {}, 2)).toBe('⏱️ pm turn timed out (×2)');
    expect(said({ kind: 'timeout', agent: 'pm' }, {}, 13)).toBe('⏱️ pm turn timed out (×13)');
  });
});

describe('texts of the configuration', () => {
  test('take the place of the built-in ones', () => {
    expect(said({ kind: 'timeout', agent: 'pm' }, { timeout: 'Zeit um, {agent}! {agent}?' })).toBe('Zeit um, pm! pm?');
    expect(said({ kind: 'limit', budget: 'tokens', used: 7, max: 5 }, { limit: '{budget}: {used}/{max}' })).toBe(
      'tokens: 7/5',
    );
  });

  test('switch a kind off with false', () => {
    expect(said({ kind: 'nobody' }, { nobody: false })).toBeNull();
    expect(said({ kind: 'timeout', agent: 'pm' }, { nobody: false })).toBe('⏱️ pm turn timed out');
  });

  test('keep names in braces that there are not', () => {
    expect(said({ kind: 'timeout', agent: 'pm' }, { timeout: '{agent} {cause} {toString} {} {agent' })).toBe(
      'pm {cause} {toString} {} {agent',
    );
  });

  test('never fill in what a value says', () => {
    expect(said({ kind: 'disconnect', agent: 'pm', cause: '{agent} $& (s)' }, { disconnect: '{cause}' })).toBe(
      '{agent} $& (s)',
    );
  });

  test('keep "(s)" where no number stands before it', () => {
    expect(said({ kind: 'nobody' }, { nobody: 'No agent(s)' })).toBe('No agent(s)');
  });
});

describe('a refused command', () => {
  const all: Readonly<Record<Refusal, true>> = {
    duplicate: true,
    'not-holder': true,
    'stale-epoch': true,
    'not-waiting': true,
    'asks-back': true,
    'asks-too-deep': true,
    'not-seated': true,
    'not-queued': true,
    offline: true,
    disabled: true,
    already: true,
    'still-stopping': true,
    'nothing-to-stop': true,
    'nothing-to-resume': true,
    'nothing-due': true,
    paused: true,
    'catching-up': true,
    'nobody-available': true,
    'not-asked': true,
    'unknown-message': true,
    'needs-decision': true,
    'stale-question': true,
    'not-shown': true,
    'bad-queue': true,
    'day-limit': true,
  };

  test('is explained in one sentence of its own', () => {
    const texts = Object.keys(all).map((refusal) => refusalText(refusal as Refusal, { agent: 'dev' }));
    expect(new Set(texts).size).toBe(texts.length);
    expect(texts.filter((text) => !/^[A-Z][^.]{20,110}\.$/.test(text))).toEqual([]);
  });

  test('says whom it was about and which command helps', () => {
    expect(refusalText('offline', { agent: 'dev' })).toBe(
      'Not now: dev is offline; /agent restart dev starts it again.',
    );
    expect(refusalText('disabled', { agent: 'Dev Name' })).toContain('/agent enable "Dev Name" lets it');
    expect(refusalText('not-queued', {})).toBe('The queue does not have that agent: /floor add <agent> puts it there.');
  });
});
