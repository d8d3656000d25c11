import { afterEach, describe, expect, test } from 'vitest';
import { setTimeout as wait } from 'node:timers/promises';
import { pino } from 'pino';
import { buttonValue, escaped, inSlackWords, wordingOf } from '../../../src/adapters/slack/content.ts';
import { createClient } from '../../../src/adapters/slack/client.ts';
import { answer } from '../../../src/adapters/slack/commands.ts';
import type { Answer } from '../../../src/turns/commands/context.ts';
import { helpText } from '../../../src/turns/commands/read.ts';
import type { FormField } from '../../../src/turns/floor/settings.ts';
import { stand, until, viewOf } from './listener.ts';
import type { Run, Stand, StandOptions } from './listener.ts';

let here: Stand;
afterEach(async () => {
  await here.close();
});

async function begin(options: StandOptions = {}): Promise<Stand> {
  here = await stand(options);
  await until('two sockets', () => here.slack.connections.count() === 2);
  return here;
}

/** Builds an intake's `answer` that allows only people with the role, or the person `user`. */
function guard(role: string, user = ''): (run: Run) => Answer {
  return ({ by, line }) =>
    by.id === user || by.roles.includes(role)
      ? { ok: true, text: `Did ${line}.` }
      : { ok: false, text: 'You may only read.' };
}

/** Posts a message of the app with one button, as on a card. Returns the message's `ts`. */
function button(
  what: string | Parameters<typeof buttonValue>[0],
  drawnFor = 'tx.0',
  actionId = 'conch:0',
  thread?: string,
): string {
  const { slack } = here;
  const element = {
    type: 'button',
    action_id: actionId,
    text: { type: 'plain_text', text: 'Do' },
    value: buttonValue(typeof what === 'string' ? { line: what, drawnFor } : what),
  };
  return slack.bot(slack.ids.channel, 'card', {
    botId: slack.ids.bot,
    appId: slack.ids.app,
    blocks: [{ type: 'actions', elements: [element] }],
    ...(thread === undefined ? {} : { thread }),
  });
}

describe('a reaction', () => {
  test('of a person runs the command of its emoji, and only the person sees the answer', async () => {
    const { slack, ears, floor } = await begin();
    const { ann, channel } = slack.ids;
    const ts = slack.write(ann, channel, 'The list lacks a header');
    for (const name of ['tada', 'ticket', 'white_check_mark', '-1::skin-tone-3']) slack.react(ann, channel, ts, name);
    slack.react(slack.ids.botUser, channel, ts, 'ticket');
    await until('the commands', () => ears.runs.length === 3);
    const lines = ['no', 'ticket', 'yes'].map((kind) => `/${kind} ${channel}/${ts}`);
    expect(ears.runs.map(({ line }) => line).toSorted()).toEqual(lines);
    expect(ears.runs.every((run) => run.channel === floor && run.by.id === ann)).toBe(true);
    await until('the answers', () => slack.ephemerals(ann).length === 3);
  });

  test('is acknowledged when its command is stored, as is the Stop button', async () => {
    const { slack, ears } = await begin();
    const { ann, channel } = slack.ids;
    const stored = Promise.withResolvers<Answer>();
    ears.answer = () => stored.promise;
    const ts = slack.write(ann, channel, 'The list lacks a header');
    slack.react(ann, channel, ts, 'ticket');
    slack.sessionStopped(ann, slack.ids.other, ts);
    const taken = () => slack.attempts.filter(({ event }) => event !== 'message');
    await until('the repetitions', () => ears.runs.length === 2 && taken().length >= 4);
    expect(taken().some(({ acked }) => acked)).toBe(false);
    stored.resolve({ ok: true, text: 'Done.' });
    await slack.events.settled();
    expect(new Set(taken().flatMap(({ event, acked }) => (acked ? [event] : [])))).toEqual(
      new Set(['reaction_added', 'agent_session_stopped']),
    );
    expect(ears.runs).toHaveLength(2);
  });

  test('holds up no message of its channel when its command takes long', async () => {
    const { slack, ears } = await begin();
    const { ann, channel } = slack.ids;
    ears.answer = () => new Promise(() => undefined);
    const ts = slack.write(ann, channel, 'The list lacks a header');
    slack.react(ann, channel, ts, 'ticket');
    await until('the command', () => ears.runs.length === 1);
    slack.write(ann, channel, 'And a footer');
    await until('both messages', () => ears.messages.length === 2);
    expect(ears.messages).toMatchObject([{ text: 'The list lacks a header' }, { text: 'And a footer' }]);
  });

  test("of another app's bot runs nothing", async () => {
    const { slack, ears } = await begin();
    const { ann, channel } = slack.ids;
    const ts = slack.write(ann, channel, 'The list lacks a header');
    slack.react(slack.user('Deploy', true), channel, ts, 'white_check_mark');
    slack.react(ann, channel, ts, 'white_check_mark');
    await slack.events.settled();
    await until('the answer', () => slack.ephemerals(ann).length === 1);
    expect(ears.runs.map(({ by }) => by.id)).toEqual([ann]);
  });
});

test('a message has a link in the workspace', async () => {
  const { slack, adapter, floor } = await begin();
  const ts = slack.write(slack.ids.ann, slack.ids.channel, 'The list lacks a header');
  expect(adapter.link?.(floor, `${slack.ids.channel}/${ts}`)).toMatch(
    new RegExp(`^https://\\S+\\.slack\\.example/archives/${slack.ids.channel}/p${ts.replace('.', '')}$`),
  );
});

describe('/conch', () => {
  test('runs a command line for its author and shows them the answer', async () => {
    const { slack, ears, floor } = await begin();
    const shown = await slack.command(slack.ids.ann, slack.ids.channel, ' floor skip dev ');
    expect(ears.runs).toEqual([
      { channel: floor, line: '/floor skip dev', by: { id: slack.ids.ann, name: 'Ann', roles: [] } },
    ]);
    expect(shown).toMatchObject({
      acked: true,
      answers: [{ user: slack.ids.ann, text: 'Done.', via: 'response_url' }],
    });
  });

  test('shows the whole help in several messages', async () => {
    const { slack, ears } = await begin();
    const text = helpText(undefined) ?? '';
    ears.answer = () => ({ ok: true, text });
    await slack.command(slack.ids.ann, slack.ids.channel, 'help');
    const shown = () => slack.ephemerals(slack.ids.ann).map((each) => each.text);
    await until('the whole help', () => shown().length === 2);
    expect(shown().join('\n')).toBe(escaped(inSlackWords(text, false)));
  });

  test('cuts a very long answer after five messages, without splitting an emoji', async () => {
    const { slack, ears } = await begin();
    ears.answer = () => ({ ok: true, text: '😀'.repeat(10_000) });
    await slack.command(slack.ids.ann, slack.ids.channel, 'help');
    const shown = () => slack.ephemerals(slack.ids.ann).map((each) => each.text);
    await until('five messages', () => shown().length === 5);
    expect(shown().map((each) => each.replaceAll('😀', ''))).toEqual(['', '', '', '', ' … (cut off)']);
    expect(shown().every((each) => each.length <= 3_500)).toBe(true);
  });

  test.each([
    ['https://x.slack.com/archives/C0123/p1700000000000100', 'C0123/1700000000.000100'],
    [
      'https://x.slack.com/archives/C0123/p1700000000000100?thread_ts=1600000000.000100&cid=C0123',
      'C0123/1700000000.000100',
    ],
  ])('T34 why %s explains the linked message', async (link, id) => {
    const { slack, ears } = await begin();
    await slack.command(slack.ids.ann, slack.ids.channel, `why ${link}`);
    expect(ears.runs.map(({ line }) => line)).toEqual([`/why ${id}`]);
  });

  test('T34 explains a message by its time stamp in this channel, or by its id', async () => {
    const { slack, ears } = await begin();
    await slack.command(slack.ids.ann, slack.ids.channel, 'why 1700000000.000100');
    await slack.command(slack.ids.ann, slack.ids.channel, 'why C0123/1700000000.000100');
    expect(ears.runs.map(({ line }) => line)).toEqual([
      `/why ${slack.ids.channel}/1700000000.000100`,
      '/why C0123/1700000000.000100',
    ]);
  });

  test('T35 names commands in the form that Slack accepts', async () => {
    const { slack, ears } = await begin();
    const text =
      'Run /floor resume or /why C1/1.2; /floors, a/stop and src/agent/list are none.\n```\n/floor skip\n```';
    ears.answer = () => ({ ok: true, text });
    const { answers } = await slack.command(slack.ids.ann, slack.ids.channel, 'floor status');
    expect(answers.map((shown) => shown.text)).toEqual([
      text.replace('/floor resume', '/conch floor resume').replace('/why', '/conch why'),
    ]);
  });

  test('shows the help without a command, and accepts a slash before the command', async () => {
    const { slack, ears } = await begin();
    await slack.command(slack.ids.ann, slack.ids.channel, '');
    await slack.command(slack.ids.ann, slack.ids.channel, '/stop');
    expect(ears.runs.map(({ line }) => line)).toEqual(['/help', '/stop']);
  });

  test('says that a channel has no floor', async () => {
    const { slack, ears } = await begin();
    const shown = await slack.command(slack.ids.ann, slack.channel('random'), 'stop');
    expect(shown.answers[0]?.text).toContain('no floor in this channel');
    expect(ears.runs).toEqual([]);
  });

  test('row 47: is acknowledged at once, answered later, and runs once when it takes long', async () => {
    const { slack, ears } = await begin();
    ears.answer = async () => {
      await wait(900);
      return { ok: true, text: 'At last.' };
    };
    const shown = await slack.command(slack.ids.ann, slack.ids.channel, 'stop', { twice: true });
    expect(shown).toMatchObject({ acked: true, answers: [{ text: 'At last.' }] });
    expect(ears.runs).toHaveLength(1);
  });

  test('is answered in the channel when its response URL fails', async () => {
    const { slack } = await begin();
    const web = createClient({ token: slack.botToken, apiUrl: slack.apiUrl });
    const at = { channel: slack.ids.channel, thread: null };
    const asker = { user: slack.ids.ann, at, responseUrl: slack.apiUrl.replace('/api/', '/response/used-up') };
    await answer({ web, log: pino({ level: 'silent' }) }, asker, { ok: true, text: 'Seen all the same.' });
    expect(slack.ephemerals(slack.ids.ann)).toMatchObject([{ text: 'Seen all the same.', via: 'ephemeral' }]);
  });

  test('row 79: mentions nobody in its answer', async () => {
    const { slack, ears } = await begin();
    ears.answer = () => ({ ok: true, text: 'written by <!channel> & <@U1>' });
    const shown = await slack.command(slack.ids.ann, slack.ids.channel, 'why 1');
    expect(shown.answers[0]?.text).toBe('written by &lt;!channel&gt; &amp; &lt;@U1&gt;');
  });

  test('is answered when its execution throws an error', async () => {
    const { slack, ears } = await begin();
    ears.answer = () => {
      throw new Error('a bug');
    };
    const shown = await slack.command(slack.ids.ann, slack.ids.channel, 'stop');
    expect(shown.answers[0]?.text).toContain('This failed');
  });
});

describe('operators', () => {
  test("row 75: exclude people outside the operators' groups, by command, button and message", async () => {
    const { slack, ears } = await begin();
    ears.answer = guard('S-none', slack.ids.bob);
    const ts = button('/floor skip', 'tx.3');
    const { ann, bob, channel } = slack.ids;
    expect((await slack.command(ann, channel, 'floor skip')).answers).toMatchObject([{ text: 'You may only read.' }]);
    expect((await slack.press(ann, channel, ts, 'Do')).answers).toMatchObject([{ text: 'You may only read.' }]);
    slack.write(ann, channel, '!floor skip');
    await until('three', () => slack.ephemerals(ann).length === 3);
    expect((await slack.press(bob, channel, ts, 'Do')).answers).toMatchObject([{ text: 'Did /conch floor skip.' }]);
  });

  test('row 74: exclude programs, whatever their names are', async () => {
    const { slack, ears } = await begin({ place: { allowBots: 'all' } });
    slack.bot(slack.ids.channel, '!stop', { name: 'Ann' });
    slack.bot(slack.ids.channel, '!stop', { user: slack.ids.ann });
    await until('both', () => ears.messages.length === 2);
    expect(ears.messages).toMatchObject([{ bot: true }, { bot: true }]);
    expect(ears.runs).toEqual([]);
  });

  test('row 76: exclude a person at the first button press after they left the group', async () => {
    const { slack, ears } = await begin();
    const { ann, channel } = slack.ids;
    const group = slack.group('operators', [ann]);
    ears.answer = guard(group);
    const ts = button('/floor skip', 'tx.3');
    expect((await slack.press(ann, channel, ts, 'Do')).answers).toMatchObject([{ text: 'Did /conch floor skip.' }]);
    slack.setGroup(group, []);
    expect((await slack.press(ann, channel, ts, 'Do')).answers).toMatchObject([{ text: 'You may only read.' }]);
  });

  test('have their groups read at most once a minute by commands that only read', async () => {
    const { slack } = await begin();
    slack.group('operators', [slack.ids.ann]);
    for (let time = 0; time < 3; time += 1) await slack.command(slack.ids.ann, slack.ids.channel, 'floor status');
    expect(slack.requests.filter(({ method }) => method === 'usergroups.list')).toHaveLength(1);
  });

  test('have no roles when the groups cannot be read', async () => {
    const { slack, ears } = await begin();
    const group = slack.group('operators', [slack.ids.ann]);
    ears.answer = guard(group);
    slack.fail({ method: 'usergroups.list', times: null }, { kind: 'error', error: 'missing_scope' });
    const shown = await slack.command(slack.ids.ann, slack.ids.channel, 'stop');
    expect(shown.answers).toMatchObject([{ text: 'You may only read.' }]);
  });
});

describe('a mention of the app in a channel without a floor', () => {
  test('T37 is answered once, to its author only, with how to get a floor', async () => {
    const { slack, ears } = await begin();
    const { ann, bob, botUser } = slack.ids;
    const elsewhere = slack.channel('elsewhere');
    slack.write(ann, elsewhere, 'nothing for the app');
    for (let time = 0; time < 2; time += 1) slack.write(ann, elsewhere, `<@${botUser}> dev: build it`);
    slack.write(bob, elsewhere, `<@${botUser}> hello`);
    await until('two answers', () => slack.ephemerals(bob).length === 1 && slack.ephemerals(ann).length === 1);
    await slack.events.settled();
    expect(slack.ephemerals(ann).map(({ text }) => text)).toEqual([expect.stringContaining('turnConfig.json')]);
    expect(ears.messages).toEqual([]);
  });
});

describe('a command as a message', () => {
  test('is stored, hidden from agents, run once and answered to its author only', async () => {
    const { slack, ears, floor } = await begin();
    slack.events.duplicate('other');
    slack.write(slack.ids.ann, slack.ids.channel, '!floor skip');
    await until('the answer', () => slack.ephemerals(slack.ids.ann).length > 0);
    await slack.events.settled();
    expect(ears.messages).toMatchObject([{ text: '!floor skip', ignore: 'an operator command' }]);
    expect(ears.runs).toMatchObject([{ channel: floor, line: '!floor skip', by: { id: slack.ids.ann } }]);
    expect(slack.ephemerals(slack.ids.ann)).toMatchObject([{ text: 'Done.', via: 'ephemeral', threadTs: null }]);
  });

  test("works in a thread for the thread's floor, and is answered there", async () => {
    const { slack, ears, floor } = await begin();
    const root = slack.write(slack.ids.ann, slack.ids.channel, 'root');
    slack.write(slack.ids.ann, slack.ids.channel, '!stop', { thread: root });
    await until('the answer', () => slack.ephemerals(slack.ids.ann).length > 0);
    expect(ears.runs).toMatchObject([{ channel: `${floor}/${root}`, line: '!stop' }]);
    expect(slack.ephemerals(slack.ids.ann)).toMatchObject([{ threadTs: root }]);
  });

  test('T34 explains the first message of a thread with !why in it; T35 names commands with !', async () => {
    const { slack, ears } = await begin();
    ears.answer = () => ({ ok: true, text: 'Run /floor resume.' });
    const root = slack.write(slack.ids.bob, slack.ids.channel, 'root');
    slack.write(slack.ids.ann, slack.ids.channel, '!why', { thread: root });
    await until('the command', () => ears.runs.length === 1);
    expect(ears.runs[0]?.line).toBe(`!why ${slack.ids.channel}/${root}`);
    await until('the answer', () => slack.ephemerals(slack.ids.ann).length === 1);
    expect(slack.ephemerals(slack.ids.ann)[0]?.text).toBe('Run !floor resume.');
  });

  test('needs a known first word: "!nice" is a message', async () => {
    const { slack, ears } = await begin();
    slack.write(slack.ids.ann, slack.ids.channel, '!nice');
    await until('it comes', () => ears.messages.length === 1);
    expect(ears.messages[0]?.ignore).toBeUndefined();
    expect(ears.runs).toEqual([]);
  });

  test("includes Slack's own Stop button, as /stop by the person who pressed it", async () => {
    const { slack, ears, floor } = await begin();
    slack.sessionStopped(slack.ids.bob, slack.ids.channel);
    await until('it runs', () => ears.runs.length === 1);
    expect(ears.runs).toMatchObject([{ channel: floor, line: '/stop', by: { id: slack.ids.bob } }]);
  });

  test("includes Slack's own Stop button under a channel's message, for the channel's floor", async () => {
    const { slack, ears, floor } = await begin({ place: { threads: 'ignore' } });
    slack.sessionStopped(slack.ids.bob, slack.ids.channel, slack.write(slack.ids.ann, slack.ids.channel, 'go'));
    await until('it runs', () => ears.runs.length === 1);
    expect(ears.runs).toMatchObject([{ channel: floor, line: '/stop' }]);
  });

  test("does not include Slack's own Stop button where sessions are switched off", async () => {
    const settings = { streaming: false, cards: false, status: false, agentSessions: false };
    const { slack, ears } = await begin({ adapter: { settings } });
    slack.sessionStopped(slack.ids.bob, slack.ids.channel);
    await slack.events.settled();
    expect(ears.runs).toEqual([]);
  });
});

describe('a button', () => {
  test('runs its command line once, for the turn it was drawn for', async () => {
    const { slack, ears, floor } = await begin();
    const ts = button('/floor skip', 'tx.7');
    const shown = await slack.press(slack.ids.ann, slack.ids.channel, ts, { button: 'Do', twice: true });
    expect(shown).toMatchObject({ acked: true, answers: [{ text: 'Done.' }] });
    expect(ears.runs).toMatchObject([{ channel: floor, line: '/floor skip', drawnFor: 'tx.7' }]);
  });

  test('in a thread with a floor belongs to that floor', async () => {
    const { slack, ears, floor } = await begin();
    const root = slack.write(slack.ids.ann, slack.ids.channel, 'root');
    slack.write(slack.ids.ann, slack.ids.channel, 'reply', { thread: root });
    await until('the thread', () => ears.threads.length === 1);
    await slack.press(slack.ids.ann, slack.ids.channel, button('/stop', 'tx.3', 'conch:0', root), 'Do');
    expect(ears.runs).toMatchObject([{ channel: `${floor}/${root}`, line: '/stop', drawnFor: 'tx.3' }]);
  });

  test("is refused when its value is not Conch's", async () => {
    const { slack, ears } = await begin();
    const element = { type: 'button', action_id: 'conch:9', text: { type: 'plain_text', text: 'Old' }, value: 'skip' };
    const ts = slack.bot(slack.ids.channel, 'card', { blocks: [{ type: 'actions', elements: [element] }] });
    const shown = await slack.press(slack.ids.ann, slack.ids.channel, ts, 'Old');
    expect(shown.answers[0]?.text).toContain('out of date');
    expect(ears.runs).toEqual([]);
  });
});

describe('a question', () => {
  const approving = (always: readonly { rule: string; words: string }[]) => (channel: string) => {
    const approval = { question: 8, key: 'K8', title: 'edit', detail: '', shown: true, always };
    const times = { startedAt: 0, deadlineAt: 0, working: false };
    const holder = { agent: 'dev', epoch: 7, status: 'WAITING', waitingFor: 'approval', approval, ...times } as const;
    return { ...viewOf(channel), condition: 'open', holder } as const;
  };

  test('is denied with the reason from the form, and not before the form is sent', async () => {
    const { slack, ears, floor } = await begin();
    const ts = button({ line: '/reject 8', drawnFor: 'qK8', opens: { what: 'reason' } });
    const { view } = await slack.press(slack.ids.ann, slack.ids.channel, ts, 'conch:0');
    expect(ears.runs).toEqual([]);
    expect(JSON.stringify(view?.view)).toContain('Reason (the agent reads it)');
    expect(await slack.submit(view?.id ?? '', { why: 'use\nb.txt' })).toMatchObject({ acked: true, errors: null });
    await until('the command', () => ears.runs.length > 0);
    expect(ears.runs).toMatchObject([{ channel: floor, line: '/reject 8 use b.txt', drawnFor: 'qK8' }]);
  });

  test.each([
    ['reason', '/reject 8', 'Use `/conch reject 8` and your reason.'],
    ['rule', '/allow 8 always 1', 'Use `/conch allow 8 always 1`.'],
  ] as const)('says what to type when Slack does not show the form: %s', async (opens, line, todo) => {
    const { slack, ears } = await begin();
    ears.view = approving([{ rule: 'edit(a.ts)', words: 'edit a.ts' }]);
    const value = JSON.stringify({ line, drawnFor: 'qK8', opens });
    const element = { type: 'button', action_id: 'conch:0', text: { type: 'plain_text', text: 'Do' }, value };
    const own = { botId: slack.ids.bot, appId: slack.ids.app };
    const blocks = [{ type: 'actions', elements: [element] }];
    const ts = slack.bot(slack.ids.channel, 'card', { ...own, blocks });
    slack.fail('views.open', { kind: 'error', error: 'exchange_expired' });
    const { answers } = await slack.press(slack.ids.ann, slack.ids.channel, ts, 'conch:0');
    expect(answers[0]?.text).toBe(`Slack did not show the form. ${todo}`);
  });

  test.each(['reason', 'form'] as const)('T67 opens no %s for a person who may not answer', async (what) => {
    const { slack, ears } = await begin();
    ears.refused = 'Only operators may use /reject.';
    const opens = what === 'form' ? ({ what, of: [] } as const) : { what };
    const ts = button({ line: '/reject 8', drawnFor: 'qK8', opens });
    const { view, answers } = await slack.press(slack.ids.ann, slack.ids.channel, ts, 'conch:0');
    expect([view ?? null, answers[0]?.text, ears.runs]).toEqual([null, 'Only operators may use /conch reject.', []]);
  });

  test('T67 shows no settings to a person who may not change them', async () => {
    const { slack, ears } = await begin();
    ears.refused = 'Only operators may use /floor mode.';
    const { view, answers } = await slack.command(slack.ids.ann, slack.ids.channel, 'settings');
    expect([view ?? null, answers[0]?.text]).toEqual([null, 'Only operators may use /conch floor mode.']);
  });

  test('T65 lists its rules in a menu, and shows the chosen rule whole before it applies', async () => {
    const { slack, ears, floor } = await begin();
    const path = (name: string) => `packages/${'deep/'.repeat(20)}${name}`;
    const rules = ['a.ts', 'b.ts'].map((name) => ({
      rule: `edit(/${path(name)})`,
      words: `edit ${path(name)}, any content`,
    }));
    const of = rules.map(({ words }, index) => ({ words, line: `/allow 8 always ${index + 1}` }));
    ears.view = approving(rules);
    const always = { label: 'Always…', line: '/allow 8 always', drawnFor: 'qK8', style: 'plain' } as const;
    const content = { kind: 'card', speaker: null, text: 'dev asks', epoch: 7, outboxId: null } as const;
    const { blocks = [] } = wordingOf(
      { ...content, buttons: [{ ...always, opens: { what: 'rules', of } }] },
      { isCustomized: true, hasBlocks: true, isThread: false },
    );
    const labels = [...JSON.stringify(blocks).matchAll(/"text":"(\d: [^"]+)"/g)].map(([, label = '']) => label);
    expect(labels).toEqual([
      expect.stringMatching(/^1: edit .*a\.ts, any content$/),
      expect.stringMatching(/^2: .*b\.ts, any content$/),
    ]);
    expect(Math.max(...labels.map(({ length }) => length))).toBeLessThanOrEqual(75);
    const [, , value = ''] = /"value":("(.*?[^\\])")/.exec(JSON.stringify(blocks)) ?? [];
    const chosen = {
      type: 'static_select',
      action_id: 'conch:0',
      selected_option: { value: JSON.parse(`"${value}"`) },
    };
    const ts = slack.bot(slack.ids.channel, 'card', {
      botId: slack.ids.bot,
      appId: slack.ids.app,
      blocks: [{ type: 'actions', elements: [chosen] }],
    });
    const { view } = await slack.press(slack.ids.ann, slack.ids.channel, ts, 'conch:0');
    expect(ears.runs).toEqual([]);
    expect(JSON.stringify(view?.view)).toContain(`edit(/${path('a.ts')})`);
    expect(await slack.submit(view?.id ?? '')).toMatchObject({ acked: true, errors: null });
    await until('the command', () => ears.runs.length > 0);
    expect(ears.runs).toMatchObject([{ channel: floor, line: '/allow 8 always 1', drawnFor: 'qK8' }]);
  });
});

describe('a question with a form', () => {
  const about = { step: 1, steps: 9, tool: 'issue of hub', folder: null, why: 'hub asks', says: null };
  const plain = { hint: '', required: false, options: [] } as const;
  const kinds = ['bug', 'idea'].map((value) => ({ value, label: value.toUpperCase() }));
  const FORM: readonly FormField[] = [
    { ...plain, name: 'title', label: 'Title', hint: 'What is wrong?', kind: 'text', required: true, least: 3 },
    { ...plain, name: 'kind', label: 'Kind', kind: 'one', required: true, options: kinds, initial: 'idea' },
    { ...plain, name: 'labels', label: 'Labels', kind: 'some', options: kinds, most: 1 },
    { ...plain, name: 'urgent', label: 'Urgent?', kind: 'boolean' },
    { ...plain, name: 'votes', label: 'Votes', kind: 'integer', least: 1, initial: '2' },
  ];
  const askWith = (form: readonly FormField[], question = 8): void => {
    here.ears.view = (channel) => {
      const asked = {
        question,
        key: `K${question}`,
        title: 'hub asks: Which issue?',
        detail: 'Which issue?',
        shown: true,
      };
      const approval = { ...asked, about: { ...about, answer: 'title=…', form } };
      const times = { startedAt: 0, deadlineAt: 0, working: false };
      const holder = { agent: 'dev', epoch: 7, status: 'WAITING', waitingFor: 'approval', approval, ...times } as const;
      return { ...viewOf(channel), condition: 'open', holder };
    };
  };
  const opened = async (form = FORM, options: StandOptions = {}) => {
    await begin(options);
    askWith(form);
    return press();
  };
  const press = () => {
    const { ids } = here.slack;
    const opens = { what: 'form', of: [] } as const;
    return here.slack.press(ids.ann, ids.channel, button({ line: '/answer 8', drawnFor: 'qK8', opens }), 'conch:0');
  };

  test('opens the form with its defaults, and does nothing before it is sent', async () => {
    const { view } = await opened();
    const blocks = [
      { type: 'section', text: { text: 'hub asks: Which issue?' } },
      {
        block_id: 'title',
        label: { text: 'Title' },
        hint: { text: 'What is wrong? · at least 3 characters' },
        optional: false,
        element: { type: 'plain_text_input', multiline: true },
      },
      { block_id: 'kind', element: { type: 'static_select', initial_option: { value: 'idea' } } },
      { block_id: 'labels', optional: true, element: { type: 'multi_static_select', max_selected_items: 1 } },
      { block_id: 'urgent', element: { options: [{ value: 'yes' }, { value: 'no' }] } },
      { block_id: 'votes', element: { type: 'number_input', is_decimal_allowed: false, initial_value: '2' } },
      { type: 'context', elements: [{ text: 'The channel will not show your answer.' }] },
    ];
    expect(view?.view).toMatchObject({ title: { text: 'Answer' }, blocks });
    expect(here.ears.runs).toEqual([]);
  });

  test('is answered by one command with all values', async () => {
    const { view } = await opened();
    const filled = { title: 'a=b\nvotes=9', labels: 'bug', urgent: 'yes' };
    expect(await here.slack.submit(view?.id ?? '', filled)).toMatchObject({ acked: true, errors: null });
    const line = String.raw`/answer 8 title="a=b\nvotes=9" kind=idea labels=bug urgent=yes votes=2`;
    expect(here.ears.runs).toMatchObject([
      { channel: here.floor, line, drawnFor: 'qK8', by: { id: here.slack.ids.ann } },
    ]);
    await until('the answer', () => here.slack.ephemerals(here.slack.ids.ann).some(({ text }) => text === 'Done.'));
  });

  test("shows each field's error, and keeps the values", async () => {
    const { view } = await opened();
    const fields = { title: 'Too small', votes: 'Too big' };
    here.ears.answer = () => ({ ok: false, text: 'all of it', fields });
    const { slack, ears } = here;
    expect((await slack.submit(view?.id ?? '', { title: 'ab', votes: '99' })).errors).toEqual(fields);
    ears.answer = () => ({ ok: false, text: 'Bo answered 8: /floor status.' });
    const over = { title: 'Bo answered 8: /conch floor status.' };
    expect((await slack.submit(view?.id ?? '', { title: 'abc' })).errors).toEqual(over);
    ears.answer = () => ({ ok: false, text: `${'x'.repeat(299)}😀` });
    expect((await slack.submit(view?.id ?? '', { title: 'abc' })).errors).toEqual({ title: `${'x'.repeat(299)}…` });
    expect(slack.openViews(slack.ids.ann)).toHaveLength(1);
  });

  test('gives back the values when it is refused after the form closed', async () => {
    const { view } = await opened(FORM, { slack: { ackMs: 3_000 } });
    here.ears.answer = async () => {
      await wait(2_600);
      return { ok: false, text: 'title: Too small', fields: { title: 'Too small' } };
    };
    expect(await here.slack.submit(view?.id ?? '', { title: 'ab' })).toMatchObject({ acked: true, errors: null });
    const told = 'Too small\nYou wrote: /conch answer 8 title=ab kind=idea votes=2';
    await until('the answer', () => here.slack.ephemerals(here.slack.ids.ann).some(({ text }) => text === told));
  });

  test('runs the command without values when the question has ended, or its form is too long for Slack', async () => {
    const many = Array.from({ length: 101 }, (_, index) => ({ value: `v${index}`, label: `v${index}` }));
    const { view } = await opened([{ ...plain, name: 'of', label: 'of', kind: 'one', options: many }]);
    expect(view).toBeNull();
    askWith(FORM, 9);
    expect((await press()).view).toBeNull();
    expect(here.ears.runs.map(({ line }) => line)).toEqual(['/answer 8', '/answer 8']);
  });
});

describe('the settings', () => {
  test('open from the card and by command with the present values, and run the changes', async () => {
    const { slack, ears, floor } = await begin();
    const ts = button('/help', 'tx.0', 'conch:settings');
    const { view } = await slack.press(slack.ids.ann, slack.ids.channel, ts, 'conch:settings');
    expect(JSON.stringify(view?.view)).toContain('"initial_option":{"text":{"type":"plain_text","text":"round-robin');
    const done = await slack.submit(view?.id ?? '', { mode: 'queue' });
    expect(done).toMatchObject({ acked: true, errors: null });
    expect(ears.runs).toMatchObject([{ channel: floor, line: '/floor mode queue', by: { id: slack.ids.ann } }]);
    expect((await slack.command(slack.ids.ann, slack.ids.channel, 'settings')).view).not.toBeNull();
  });

  test('show a refusal beside its field, and stay open', async () => {
    const { slack, ears } = await begin();
    ears.answer = ({ line }) =>
      line.startsWith('/floor order') ? { ok: false, text: 'Not now.' } : { ok: true, text: 'Done.' };
    const { view } = await slack.command(slack.ids.ann, slack.ids.channel, 'settings');
    const done = await slack.submit(view?.id ?? '', { mode: 'queue', order: 'manual' });
    expect(done.errors).toEqual({ order: 'Not now.' });
    expect(slack.openViews(slack.ids.ann)).toHaveLength(1);
  });

  test('run nothing without a change', async () => {
    const { slack, ears } = await begin();
    const { view } = await slack.command(slack.ids.ann, slack.ids.channel, 'settings');
    expect(await slack.submit(view?.id ?? '')).toMatchObject({ acked: true, errors: null });
    expect(ears.runs).toEqual([]);
  });

  test('row 47: close in time when they take long, and report a refusal afterwards', async () => {
    const { slack, ears } = await begin({ slack: { ackMs: 3_000 } });
    ears.answer = async () => {
      await wait(2_600);
      return { ok: false, text: 'You may only read.' };
    };
    const { view } = await slack.command(slack.ids.ann, slack.ids.channel, 'settings');
    expect(await slack.submit(view?.id ?? '', { mode: 'queue' })).toMatchObject({ acked: true, errors: null });
    await until('the answer', () => slack.ephemerals(slack.ids.ann).some(({ text }) => text === 'You may only read.'));
  });

  test('report a second refusal that comes after the form showed the first', async () => {
    const { slack, ears } = await begin({ slack: { ackMs: 3_000 } });
    ears.answer = async ({ line }) => {
      if (line.startsWith('/floor order')) await wait(3_000);
      return { ok: false, text: `${line}: not now.` };
    };
    const { view } = await slack.command(slack.ids.ann, slack.ids.channel, 'settings');
    const done = await slack.submit(view?.id ?? '', { mode: 'queue', order: 'manual' });
    expect(done.errors).toEqual({ mode: '/conch floor mode queue: not now.' });
    const told = () => slack.ephemerals(slack.ids.ann).map(({ text }) => text);
    await until('the answer', () => told().length > 0, 5_000);
    expect(told()).toEqual(['/conch floor order manual: not now.']);
  });
});
