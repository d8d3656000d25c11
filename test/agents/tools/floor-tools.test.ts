import { describe, expect, test } from 'vitest';
import { FLOOR_TOOLS, FloorTools, isFloorTool, offeredFloorTools } from '../../../src/agents/tools/floor-tools.ts';
import { prompt, recorder } from '../backends/conversation.ts';

function begin() {
  const heard = recorder();
  const floorTools = new FloorTools(heard.report, 'dev', prompt({}));
  return { floorTools, said: () => heard.messages.filter((message) => message !== '') };
}

describe('a generation without a floor tool', () => {
  test('completes its turn with its plain answer', () => {
    const { floorTools, said } = begin();
    floorTools.text('Done');
    floorTools.text('.');
    expect([said(), floorTools.ending, floorTools.over]).toEqual([['Done.'], { how: 'completed' }, false]);
  });

  test.each(['', ' \n'])('passes with %j', (text) => {
    const { floorTools } = begin();
    floorTools.text(text);
    expect(floorTools.ending).toEqual({ how: 'passed' });
  });

  test('starts a new message where its backend marks a break', () => {
    const { floorTools, said } = begin();
    floorTools.apart();
    floorTools.text('One.');
    floorTools.apart();
    floorTools.apart();
    floorTools.text('Two.');
    expect(said()).toEqual(['One.', 'Two.']);
  });
});

describe('a generation with a floor tool', () => {
  test('posts a message at once and continues', () => {
    const { floorTools, said } = begin();
    expect(floorTools.apply('say', { text: 'Working.' })).toBe('Said. You still have the floor.');
    floorTools.text('Done.');
    expect([said(), floorTools.ending]).toEqual([['Working.', 'Done.'], { how: 'completed' }]);
  });

  test('posts text once that it says by tool and in its answer', () => {
    const { floorTools, said } = begin();
    floorTools.text('Let me ask.\n\n Which colour?\n');
    floorTools.apply('wait_for', { question: 'Which colour?' });
    expect(said()).toEqual(['Let me ask.\n\n Which colour?\n']);
  });

  test('posts a message that its answer contains only as a part of a line', () => {
    const { floorTools, said } = begin();
    floorTools.text('All 142 tests are green.');
    floorTools.apply('say', { text: '42' });
    expect(said()).toEqual(['All 142 tests are green.', '42']);
  });

  test.each([
    ['All 42 tests PASS and the code is short.', ['PASS']],
    ['Good.\nPASS', []],
  ])('posts its verdict after the text %j, unless the text ends with it', (text, more) => {
    const heard = recorder();
    const task = { role: 'reviewer', signals: { done: 'DONE', pass: 'PASS', fail: 'FAIL' } } as const;
    const floorTools = new FloorTools(heard.report, 'dev', prompt({ task }));
    floorTools.text(text);
    floorTools.apply('review', { verdict: 'pass' });
    expect(heard.messages.filter((message) => message !== '')).toEqual([text, ...more]);
  });

  test('waits for an answer, and drops text after the question', () => {
    const { floorTools, said } = begin();
    expect(floorTools.apply('wait_for', { question: 'Which colour?' })).toContain('You are waiting');
    floorTools.text('I am waiting.');
    expect([said(), floorTools.ending]).toEqual([['Which colour?'], { how: 'waiting', reason: 'answer' }]);
  });

  test('passes, and drops text after the pass', () => {
    const { floorTools, said } = begin();
    floorTools.apply('pass', {});
    floorTools.text('I pass.');
    expect([said(), floorTools.ending, floorTools.over]).toEqual([[], { how: 'passed' }, true]);
  });

  test('does not pass when it has posted something before', () => {
    const { floorTools } = begin();
    floorTools.apply('say', { text: 'Hello.' });
    floorTools.apply('pass', {});
    expect(floorTools.ending).toEqual({ how: 'completed' });
  });

  test('keeps text after turn_complete', () => {
    const { floorTools, said } = begin();
    floorTools.apply('turn_complete', {});
    floorTools.text('Done.');
    expect([said(), floorTools.ending]).toEqual([['Done.'], { how: 'completed' }]);
  });

  test.each([
    ['hand_to', { agent: 'QA' }],
    ['hand_to', { agent: '@qa' }],
    ['turn_complete', { hand_to: 'qa' }],
  ] as const)('hands over by %s %j', (tool, input) => {
    const { floorTools } = begin();
    floorTools.apply(tool, input);
    expect(floorTools.ending).toEqual({ how: 'completed', handTo: 'qa' });
  });

  test.each([['ops'], ['dev']])('does not hand over to %s, and is told the possible agents', (agent) => {
    const { floorTools } = begin();
    expect(floorTools.apply('hand_to', { agent })).toBe(`Not done: "${agent}" is not here. Agents: pm, qa.`);
    expect(floorTools.over).toBe(false);
  });

  test('T15 asks another agent and waits for it', () => {
    const { floorTools, said } = begin();
    expect(floorTools.apply('ask', { agent: 'qa', question: 'Does it pass?' })).toContain('waiting for qa');
    expect([said(), floorTools.ending]).toEqual([
      ['@qa Does it pass?'],
      { how: 'waiting', reason: 'answer', of: 'qa' },
    ]);
  });

  test.each([
    ['WAITING', 'waits for you or for others'],
    ['OFFLINE', 'is away'],
    ['IDLE', 'is away'],
  ])('T15 asks no agent that is %s, and is told why', (status, why) => {
    const heard = recorder();
    const roster = prompt({}).roster.map((seat) => (seat.id === 'qa' ? { ...seat, status } : seat));
    const floorTools = new FloorTools(heard.report, 'dev', { roster });
    expect(floorTools.apply('ask', { agent: '@QA', question: 'Does it pass?' })).toContain(why);
    expect([floorTools.over, heard.messages.filter((message) => message !== '')]).toEqual([false, []]);
  });

  test.each([[{}], [{ text: '' }], [{ text: 7 }], [null], ['text']])('gets an error for the input %j', (input) => {
    const { floorTools, said } = begin();
    expect(floorTools.apply('say', input)).toMatch(/^Not done: /);
    expect(said()).toEqual([]);
  });

  test('can use no floor tool after its turn has ended', () => {
    const { floorTools, said } = begin();
    floorTools.apply('pass', {});
    expect(floorTools.apply('wait_for', { question: 'Well?' })).toBe('Your turn is over: end your reply now.');
    expect(floorTools.apply('say', { text: 'More.' })).toBe('Your turn is over: end your reply now.');
    expect([said(), floorTools.ending]).toEqual([[], { how: 'passed' }]);
  });
});

describe('ticket_new', () => {
  const turn = prompt({
    task: { role: 'primary', signals: { done: 'DONE', pass: 'PASS', fail: 'FAIL' }, isTicket: true },
  });

  test('proposes a ticket and answers when it is stored; the turn goes on', async () => {
    const proposed: unknown[] = [];
    const propose = async (ticket: unknown) => `Stored ${proposed.push(ticket)}.`;
    const floorTools = new FloorTools({ ...recorder().report, propose }, 'dev', turn);
    expect(await floorTools.apply('ticket_new', { title: ' Mend it ', deps: ['c-1'] })).toBe('Stored 1.');
    expect(proposed).toEqual([{ title: 'Mend it', deps: ['c-1'] }]);
    expect(floorTools.over).toBe(false);
  });

  test.each([
    ['outside a ticket', {}, { title: 'x' }, 'this turn is no turn of work on a ticket'],
    ['without a title', turn, { title: ' ' }, 'title'],
    ['after no id', turn, { title: 'x', deps: ['../x'] }, 'deps'],
    ['where no crew is', turn, { title: 'x' }, 'no crew takes tickets here'],
  ])('%s proposes nothing', async (_name, at, input, words) => {
    const floorTools = new FloorTools(recorder().report, 'dev', prompt(at));
    const answer = await floorTools.apply('ticket_new', input);
    expect(answer).toMatch(/^Not done: /);
    expect(answer).toContain(words);
  });
});

test('the floor tools are six for every turn, and three more for turns of a task', () => {
  const six = ['say', 'turn_complete', 'pass', 'wait_for', 'ask', 'hand_to'];
  expect(Object.keys(FLOOR_TOOLS)).toEqual([...six, 'done', 'ticket_new', 'review']);
  const without = six.filter((name) => name !== 'pass');
  expect(offeredFloorTools(undefined)).toEqual(six);
  expect(offeredFloorTools({ role: 'other' })).toEqual(six);
  expect(offeredFloorTools({ role: 'primary' })).toEqual([...without, 'done']);
  expect(offeredFloorTools({ role: 'primary', isTicket: true })).toEqual([...without, 'done', 'ticket_new']);
  expect(offeredFloorTools({ role: 'reviewer' })).toEqual([...without, 'review']);
  expect(offeredFloorTools({ role: 'member' })).toEqual(without);
  expect([isFloorTool('say'), isFloorTool('toString'), isFloorTool('shout')]).toEqual([true, false, false]);
});
