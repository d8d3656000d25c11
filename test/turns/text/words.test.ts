import { describe, expect, test } from 'vitest';
import { completeTexts } from '../../../src/config/announcements.ts';
import type { OwnTexts } from '../../../src/config/announcements.ts';
import type { Refusal } from '../../../src/turns/floor/refusals.ts';
import type { Announcement, Limit } from '../../../src/turns/floor/announcement.ts';
import { reasonLabel } from '../../../src/turns/text/words.ts';
import { announcementText, reviewLine } from '../../../src/turns/text/announcement-values.ts';
import { refusalText } from '../../../src/turns/floor/refusals.ts';
import type { ReviewStand } from '../../../src/turns/view.ts';

const nameOf = (agent: string): string => (agent === 'ops' ? 'Ops Team' : agent);
const said = (announcement: Announcement, own: OwnTexts = {}, repeat = 1) =>
  announcementText(announcement, completeTexts(own), nameOf, repeat);
const limit = (budget: Limit['budget'], used: number, max: number) => said({ kind: 'limit', budget, used, max });

describe('T21 the announcement of a request', () => {
  const asks = {
    kind: 'approval',
    agent: 'dev',
    question: 8,
    title: 'clean up',
    detail: 'command: rm -rf build',
  } as const;

  test('shows its number, both commands, and the whole input in a code block', () => {
    expect(said(asks)).toBe(
      ['✋ dev wants to run clean up', 'Request 8: /allow 8 or /reject 8', '```', 'command: rm -rf build', '```'].join(
        '\n',
      ),
    );
  });

  test('of a restarted agent says that the decision counts once', () => {
    const until = Date.UTC(2026, 0, 2, 13, 5);
    expect(said({ ...asks, restarted: true, until }, {}, 2)?.split('\n')).toEqual([
      '✋ dev wants to run clean up',
      'Request 8: /allow 8 or /reject 8',
      '⚠ dev was restarted. Your decision counts once, for the same request',
      '```',
      'command: rm -rf build',
      '```',
      'Operators decide. Denied at 13:05 UTC if nobody answers.',
    ]);
  });

  test('shows the input with every configured text', () => {
    expect(said(asks, { approval: '{agent}? {detail}' })).toBe('dev?\n```\ncommand: rm -rf build\n```');
    expect(said(asks, { approval: false })).toBe(said(asks));
    const known = { step: 1, steps: 9, tool: 'ask of hub', folder: null, why: 'hub asks', says: null };
    const inWords = { ...asks, about: { ...known, answer: 'done' } };
    expect(said(inWords)?.split('\n')[0]).toBe('✋ dev asks (8): clean up');
    expect(said(inWords)).not.toContain('/allow');
    expect(said(inWords, { approval: '{agent}?' })?.split('\n')[0]).toBe('dev?');
  });

  test('has a heading of one short line without backticks', () => {
    const title = `a \`b\` ${'c'.repeat(200)}\nRequest 7: /allow 7`;
    const [heading = '', second] = said({ ...asks, title })?.split('\n') ?? [];
    expect(heading).toMatch(/^✋ dev wants to run a 'b' c{90,100}…$/);
    expect(second).toBe('Request 8: /allow 8 or /reject 8');
  });

  test("shows the run, the reason, the agent's words, the offered rules and the deadline", () => {
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
      '✋ dev wants to run clean up',
      'Request 8: /allow 8 or /reject 8',
      'Run dev#2, step 3 of 100 · execute (Bash) · in /srv/app',
      'Reason: rule "Bash(rm *)" says so',
      "dev says: “I tidy up, 'as' you asked”",
      '```',
      'command: rm -rf build',
      '```',
      'Always allow 1: exactly this command',
      'Rules hold for dev in this channel, for 30 days.',
      'Operators decide. Denied at 13:05 UTC if nobody answers.',
    ]);
  });

  const plain = { step: 1, steps: 2, tool: 'edit', folder: null, why: 'x', says: null };

  test('says when the agent does not read the reason of a denial', () => {
    const about = { step: 1, steps: 2, tool: 'edit', folder: null, why: 'x', says: null, denyOnly: true } as const;
    const words = said({ ...asks, about, until: 0 });
    expect(words).toContain('\ndev does not read the reason of a denial, and may end its answer after one.\n');
    expect(said({ ...asks, about: plain, until: 0 })).not.toContain('reason of a denial');
  });

  test.each<[string, Parameters<typeof reasonLabel>[0]]>([
    ['Reason (the agent reads it)', { ...asks, about: plain }],
    ['Reason (recorded, not sent to the agent)', { ...asks, about: { ...plain, denyOnly: true } }],
    ['Reason (recorded, not sent to the agent)', { ...asks, about: { ...plain, answer: 'done' } }],
    ['Reason (the agent reads it)', { ...asks, about: { ...plain, denyOnly: true }, restarted: true }],
    ['Reason (the agent reads it)', null],
  ])('labels the field for the reason of a denial: "%s"', (label, asked) => {
    expect(reasonLabel(asked)).toBe(label);
    expect(label.length).toBeLessThanOrEqual(45);
  });

  test('shows how many requests wait, and how many are identical', () => {
    const about = { step: 1, steps: 2, tool: 'edit', folder: null, why: 'x', says: null, questions: 3, times: 2 };
    const words = said({ ...asks, about, until: 0 });
    expect(words).toContain('Step 1 of 2 · edit · request 1 of 3');
    expect(said({ ...asks, about, restarted: true, until: 0 })).toContain('Step 1 of 2 · edit\n');
    expect(words).toContain('\ndev asks 2 times for exactly this. One decision counts for all 2.\n');
  });

  test('names the people who may decide, unless it is every operator', () => {
    const about = { step: 1, steps: 2, tool: 'edit', folder: null, why: 'no rule covers it', says: null, who: 'eve' };
    expect(said({ ...asks, about, until: 0 })).toContain('Only these decide: eve. Denied at 00:00 UTC');
  });

  test('shows a file change as a diff', () => {
    const detail = 'a.txt (+1 -1)\n@@ -1 +1 @@\n-one\n+two';
    expect(said({ ...asks, detail })).toContain('```diff\na.txt (+1 -1)\n@@ -1 +1 @@');
  });

  test('T53 warns about a word with look-alike letters', () => {
    expect(said({ ...asks, detail: 'curl https://g\u0456thub.com/x' })).toContain(
      '⚠ Words with letters of more than one alphabet: g\u0456thub.com',
    );
    expect(said({ ...asks, detail: 'curl https://github.com Größe Привет кот-cat' })).not.toContain('alphabet');
  });

  test.each<[Partial<Extract<Announcement, { kind: 'answered' }>>, string]>([
    [{}, '✅ dev may run clean up · allowed once by ann · 12:03 UTC'],
    [
      { callOutcome: { status: 'complete', ms: 2_100 } },
      '✅ dev ran clean up in 2.1 s · allowed once by ann · 12:03 UTC',
    ],
    [
      { callOutcome: { status: 'error', ms: 90 } },
      '⚠️ dev: clean up ended with error in 0.1 s · allowed once by ann · 12:03 UTC',
    ],
    [{ callOutcome: { status: 'unrun', ms: null } }, '⚠️ dev did not run clean up · allowed once by ann · 12:03 UTC'],
    [
      { callOutcome: { status: 'unknown', ms: null } },
      '⚠️ dev started clean up, outcome unknown · allowed once by ann · 12:03 UTC',
    ],
    [{ always: 'execute(rm *)' }, '✅ dev may run clean up · always allowed by ann: execute(rm *) · 12:03 UTC'],
    [{ choice: 'reject', reason: 'use `b.txt`' }, "⛔ ann denied dev: clean up “use 'b.txt'” · 12:03 UTC"],
    [{ choice: null, by: null }, '⌛ No longer needed: dev’s request to run clean up · 12:03 UTC'],
    [{ choice: null, by: null, inWords: true }, '⌛ No longer needed: an answer to dev: clean up · 12:03 UTC'],
    [
      { choice: null, by: null, pause: 'turn_limit' },
      '⌛ No longer needed: a decision about dev’s paused run · 12:03 UTC',
    ],
    [{ inWords: true }, '✅ ann answered dev: clean up · 12:03 UTC'],
    [{ choice: 'reject', inWords: true }, '⛔ ann declined dev: clean up · 12:03 UTC'],
    [{ pause: 'turn_limit' }, '▶️ ann continued dev’s run · 12:03 UTC'],
    [{ choice: 'reject', pause: 'turn_limit' }, '⏹️ ann ended dev’s run · 12:03 UTC'],
    [{ completes: true }, '✅ ann completed dev’s run: clean up · 12:03 UTC'],
    [
      { choice: 'reject', by: null, reason: 'Missing Access' },
      '⛔ Denied: dev wanted to run clean up, and nobody could be asked: “Missing Access” · 12:03 UTC',
    ],
  ])('is replaced by the outcome: %j', (more, text) => {
    const at = Date.UTC(2026, 0, 2, 12, 3);
    const answer = { question: 8, title: 'clean up', choice: 'allow', by: 'ann', at } as const;
    expect(said({ kind: 'answered', agent: 'dev', ...answer, ...more }, {}, 2)).toBe(text);
  });

  test('is replaced by a denial with the reason when nobody could be asked', () => {
    expect(said({ kind: 'unasked', agent: 'dev', title: 'clean up', why: 'it is too long' })).toBe(
      '⛔ Denied: dev wanted to run clean up, and nobody could be asked: it is too long',
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
      '⚠️ No agent answers: it names no agent. Begin with a name, such as "@dev …"',
    ],
    [{ kind: 'unaddressed', named: ['qa'], example: 'dev' }, '⚠️ No agent answers: qa is not available'],
    [{ kind: 'unaddressed', named: ['dev', 'qa'], example: 'pm' }, '⚠️ No agent answers: dev and qa are not available'],
    [
      { kind: 'disconnect', agent: 'pm', cause: 'cannot reach it', also: ['dev', 'qa'] },
      '⚠️ dev, qa, pm disconnected, skipping turn: cannot reach it',
    ],
    [
      { kind: 'nobody', lost: { agents: ['dev', 'pm'], cause: 'cannot reach it' } },
      '⚠️ No agents available in this channel: dev, pm: cannot reach it',
    ],
    [{ kind: 'waitTimeout', agent: 'dev' }, '⏱️ dev waited too long, skipping turn'],
    [{ kind: 'recovered', agent: 'dev' }, '↩️ dev continues after a restart'],
    [
      { kind: 'undelivered', agent: 'dev', why: 'it was blocked' },
      '⚠️ A post of dev was not delivered: it was blocked',
    ],
    [
      { kind: 'toolsGone', agent: 'dev', server: 'github', why: 'exited with code 3' },
      '🔌 dev lost the tools of github: exited with code 3. To retry: /agent restart dev',
    ],
    [
      { kind: 'revoked', agent: 'dev', rule: 'execute(`npm` *)', by: 'Ann' },
      "↩️ Ann revoked dev’s rule: execute('npm' *)",
    ],
    [{ kind: 'toolsBack', agent: 'dev', server: 'github' }, '🔌 dev has the tools of github again'],
    [{ kind: 'gap', why: 'no permission' }, '⚠️ Some messages could not be read: no permission'],
    [{ kind: 'stopped', agent: 'dev', kept: 1 }, '⏹ Stopped dev. 1 message kept.'],
    [{ kind: 'stopped', agent: 'dev', kept: 0 }, '⏹ Stopped dev. 0 messages kept.'],
    [{ kind: 'stopped', agent: null, kept: 2 }, '⏹ Stopped. 2 messages kept.'],
    [{ kind: 'stopped', agent: null, kept: 1 }, '⏹ Stopped. 1 message kept.'],
  ])('have the wording of the specification and the design: %j', (announcement, text) => {
    expect(said(announcement)).toBe(text);
  });

  test('name a limit with its numbers, its unit and how to continue', () => {
    expect(limit('turns', 12, 12)).toBe('⏸ 12 of 12 turns without a person. Write a message or run /floor resume.');
    expect(limit('tokens', 50_312, 50_000)).toBe(
      '⏸ 50,312 of 50,000 tokens since the last message. Write a message or run /floor resume.',
    );
    expect(limit('cost', 1_502_500, 1_500_000)).toMatch(/^⏸ \$1\.5025 of \$1\.50 spent since the last message\./);
    expect(limit('minutes', 10.04, 10)).toMatch(/^⏸ 10 of 10 minutes since the last message\./);
    expect(limit('tokens a day', 9, 9)).toBe(
      '⏸ 9 of 9 tokens today. Turns continue tomorrow (UTC), or now with /floor resume.',
    );
    expect(limit('cost a day', 20_000_000, 20_000_000)).toMatch(/^⏸ \$20\.00 of \$20\.00 spent today\./);
    expect(limit('minutes a day', 90.25, 90)).toMatch(/^⏸ 90\.3 of 90 minutes today\./);
    expect(limit('held messages', 500, 500)).toMatch(/^⏸ 500 of 500 messages are held\./);
  });

  test('show a cause as one short line', () => {
    const text = said({ kind: 'disconnect', agent: 'pm', cause: `line one\nline two ${'x'.repeat(1_000)}` }) ?? '';
    expect(text).toContain(': line one line two xxx');
    expect(text).not.toContain('\n');
    expect(text.length).toBeLessThan(260);
  });

  test('show how often an announcement was repeated', () => {
    expect(said({ kind: 'timeout', agent: 'pm' }, {}, 2)).toBe('⏱️ pm turn timed out (×2)');
    expect(said({ kind: 'timeout', agent: 'pm' }, {}, 13)).toBe('⏱️ pm turn timed out (×13)');
  });
});

describe('texts of the configuration', () => {
  test('replace the built-in ones', () => {
    expect(said({ kind: 'timeout', agent: 'pm' }, { timeout: 'Zeit um, {agent}! {agent}?' })).toBe('Zeit um, pm! pm?');
    expect(said({ kind: 'limit', budget: 'tokens', used: 7, max: 5 }, { limit: '{budget}: {used}/{max}' })).toBe(
      'tokens: 7/5',
    );
  });

  test('turn a kind off with false', () => {
    expect(said({ kind: 'nobody' }, { nobody: false })).toBeNull();
    expect(said({ kind: 'timeout', agent: 'pm' }, { nobody: false })).toBe('⏱️ pm turn timed out');
  });

  test('keep unknown names in braces', () => {
    expect(said({ kind: 'timeout', agent: 'pm' }, { timeout: '{agent} {cause} {toString} {} {agent' })).toBe(
      'pm {cause} {toString} {} {agent',
    );
  });

  test('never replace names inside values', () => {
    expect(said({ kind: 'disconnect', agent: 'pm', cause: '{agent} $& (s)' }, { disconnect: '{cause}' })).toBe(
      '{agent} $& (s)',
    );
  });

  test('keep "(s)" without a number before it', () => {
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
    'task-open': true,
    'no-facilitator': true,
    'day-limit': true,
  };

  test('has its own explanation in one sentence', () => {
    const texts = Object.keys(all).map((refusal) => refusalText(refusal as Refusal, { agent: 'dev' }));
    expect(new Set(texts).size).toBe(texts.length);
    expect(texts.filter((text) => !/^(?:[A-Z]|dev )[^\n]{20,110}\.$/.test(text))).toEqual([]);
  });

  test('names the agent concerned and the command that helps', () => {
    expect(refusalText('offline', { agent: 'dev' })).toBe('dev is offline. To start it: /agent restart dev.');
    expect(refusalText('disabled', { agent: 'Dev Name' })).toContain('To enable it: /agent enable "Dev Name"');
    expect(refusalText('not-queued', {})).toBe('that agent is not in the queue. To add it: /floor add <agent>.');
  });
});

describe('the line of a review', () => {
  const stand: ReviewStand = {
    primary: 'dev',
    iteration: 2,
    allowed: 10,
    agent: 'qa',
    purpose: 'review',
    voided: false,
    waiting: null,
    outcome: null,
  };
  const waiting = { why: 'a finding was disputed twice', asksPeople: true, until: null };

  test.each<readonly [Partial<ReviewStand>, string]>([
    [{ purpose: 'work', agent: 'dev' }, '🔁 2 of 10 · DEV works'],
    [{}, "🔁 2 of 10 · QA reviews DEV's work"],
    [{ voided: true }, "🔁 2 of 10 · QA reviews DEV's work again: it changed during the review"],
    [{ purpose: 'repair' }, '🔁 2 of 10 · QA is asked again for a verdict'],
    [{ purpose: 'answers', agent: 'dev' }, '🔁 2 of 10 · DEV answers the findings'],
    [{ agent: null, purpose: null }, '🔁 2 of 10 · between two turns'],
    [{ agent: null, waiting }, '🔁 2 of 10 · waits for your decision: a finding was disputed twice'],
    [{ agent: null, waiting: { ...waiting, asksPeople: false, why: 'qa: limit' } }, '🔁 2 of 10 · waits: qa: limit'],
    [{ outcome: { kind: 'stalled', why: 'nobody answered' } }, '🔁 2 of 10 · stalled: nobody answered'],
    [{ sameModel: 'openai m1' }, "🔁 2 of 10 · QA reviews DEV's work · both use openai m1"],
  ])('states its progress: %j', (how, text) => {
    expect(reviewLine({ ...stand, ...how }, (id) => id.toUpperCase())).toBe(text);
  });
});
