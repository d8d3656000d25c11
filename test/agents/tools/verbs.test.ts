import { describe, expect, test } from 'vitest';
import { VERBS, Verbs, isVerb } from '../../../src/agents/tools/verbs.ts';
import { prompt, recorder } from '../backends/conversation.ts';

function begin() {
  const heard = recorder();
  const verbs = new Verbs(heard.report, 'dev', prompt({}).roster);
  return { verbs, said: () => heard.messages.filter((message) => message !== '') };
}

describe('a generation without a verb', () => {
  test('completes its turn with its plain answer', () => {
    const { verbs, said } = begin();
    verbs.text('Done');
    verbs.text('.');
    expect([said(), verbs.ending, verbs.over]).toEqual([['Done.'], { how: 'completed' }, false]);
  });

  test.each(['', ' \n'])('passes with %j', (text) => {
    const { verbs } = begin();
    verbs.text(text);
    expect(verbs.ending).toEqual({ how: 'passed' });
  });

  test('has messages of their own where it is told that they stand apart', () => {
    const { verbs, said } = begin();
    verbs.apart();
    verbs.text('One.');
    verbs.apart();
    verbs.apart();
    verbs.text('Two.');
    expect(said()).toEqual(['One.', 'Two.']);
  });
});

describe('a generation with a verb', () => {
  test('says a message at once and goes on', () => {
    const { verbs, said } = begin();
    expect(verbs.apply('say', { text: 'Working.' })).toBe('Said. You still have the floor.');
    verbs.text('Done.');
    expect([said(), verbs.ending]).toEqual([['Working.', 'Done.'], { how: 'completed' }]);
  });

  test('says what it has also written only once', () => {
    const { verbs, said } = begin();
    verbs.text('Let me ask. Which colour?');
    verbs.apply('wait_for', { question: 'Which colour?' });
    expect(said()).toEqual(['Let me ask. Which colour?']);
  });

  test('waits for an answer, and nothing after the question is said', () => {
    const { verbs, said } = begin();
    expect(verbs.apply('wait_for', { question: 'Which colour?' })).toContain('You are waiting');
    verbs.text('I am waiting.');
    expect([said(), verbs.ending]).toEqual([['Which colour?'], { how: 'waiting', reason: 'answer' }]);
  });

  test('passes, and nothing after that is said', () => {
    const { verbs, said } = begin();
    verbs.apply('pass', {});
    verbs.text('I pass.');
    expect([said(), verbs.ending, verbs.over]).toEqual([[], { how: 'passed' }, true]);
  });

  test('has not passed when it has said something before', () => {
    const { verbs } = begin();
    verbs.apply('say', { text: 'Hello.' });
    verbs.apply('pass', {});
    expect(verbs.ending).toEqual({ how: 'completed' });
  });

  test('keeps what is written after turn_complete', () => {
    const { verbs, said } = begin();
    verbs.apply('turn_complete', {});
    verbs.text('Done.');
    expect([said(), verbs.ending]).toEqual([['Done.'], { how: 'completed' }]);
  });

  test.each([
    ['hand_to', { agent: 'QA' }],
    ['hand_to', { agent: '@qa' }],
    ['turn_complete', { hand_to: 'qa' }],
  ] as const)('hands over by %s %j', (verb, input) => {
    const { verbs } = begin();
    verbs.apply(verb, input);
    expect(verbs.ending).toEqual({ how: 'completed', handTo: 'qa' });
  });

  test.each([['ops'], ['dev']])('does not hand over to %s, and hears to whom it can', (agent) => {
    const { verbs } = begin();
    expect(verbs.apply('hand_to', { agent })).toBe(`Not done: "${agent}" is not here. You can hand over to: pm, qa.`);
    expect(verbs.over).toBe(false);
  });

  test.each([[{}], [{ text: '' }], [{ text: 7 }], [null], ['text']])('is told that the input %j is wrong', (input) => {
    const { verbs, said } = begin();
    expect(verbs.apply('say', input)).toMatch(/^Not done: /);
    expect(said()).toEqual([]);
  });

  test('ends its turn once', () => {
    const { verbs, said } = begin();
    verbs.apply('pass', {});
    expect(verbs.apply('wait_for', { question: 'Well?' })).toBe('Your turn is over: end your reply now.');
    expect(verbs.apply('say', { text: 'More.' })).toBe('Your turn is over: end your reply now.');
    expect([said(), verbs.ending]).toEqual([[], { how: 'passed' }]);
  });
});

test('the verbs are five', () => {
  expect(Object.keys(VERBS)).toEqual(['say', 'turn_complete', 'pass', 'wait_for', 'hand_to']);
  expect([isVerb('say'), isVerb('toString'), isVerb('shout')]).toEqual([true, false, false]);
});
