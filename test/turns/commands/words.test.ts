import { describe, expect, test } from 'vitest';
import { clockWords, counted, excerpt, timeWords } from '../../../src/turns/commands/clock-words.ts';
import { factWords, fateWords } from '../../../src/turns/commands/fact-words.ts';
import { findAgent } from '../../../src/turns/commands/execute.ts';
import { nearest } from '../../../src/lib/nearest.ts';

const USE = {
  backend: 'llm/openai',
  model: 'm-1',
  input: 8,
  output: 0,
  cached: null,
  source: 'computed',
  outcome: 'retried',
  ms: 9,
} as const;

describe('a duration', () => {
  test.each([
    [72_000, '1:12'],
    [71_001, '1:12'],
    [1, '0:01'],
    [0, '0:00'],
    [-5_000, '0:00'],
    [3_599_000, '59:59'],
    [3_723_000, '1:02:03'],
  ])('of %d ms is %s', (ms, words) => {
    expect(clockWords(ms)).toBe(words);
  });
});

describe('a time', () => {
  const now = Date.parse('2026-02-04T21:00:00Z');

  test('of the last 12 hours is the time of day, with its zone', () => {
    expect(timeWords(now - 55_000, now)).toBe('20:59:05 UTC');
    expect(timeWords(now - 43_199_000, now)).toBe('09:00:01 UTC');
  });

  test('that is older has its date', () => {
    expect(timeWords(now - 43_200_000, now)).toBe('2026-02-04 09:00:00 UTC');
  });
});

describe('a number', () => {
  test('has a noun in the right form', () => {
    expect([counted(0, 'turn'), counted(1, 'turn'), counted(2, 'turn')]).toEqual(['0 turns', '1 turn', '2 turns']);
  });
});

describe('an excerpt', () => {
  test('is one line with a limit, and never cuts an emoji', () => {
    expect(excerpt('a\n\n b\tc')).toBe('a b c');
    expect(excerpt('a\u001b[2Jb\u202ec')).toBe('a [2Jb c');
    expect(excerpt('👩‍👩‍👧'.repeat(20), 5)).toBe(`${'👩‍👩‍👧'.repeat(4)}…`);
    expect(excerpt('x'.repeat(60))).toBe('x'.repeat(60));
    expect(excerpt('x'.repeat(1_000_000))).toBe(`${'x'.repeat(59)}…`);
  });
});

describe('a mistyped word', () => {
  const known = ['status', 'start', 'skip', 'resume', 'remove'];

  test.each([
    ['skpi', 'skip'],
    ['resum', 'resume'],
    ['STRAT', 'start'],
    ['sta', 'start'],
    ['xyzzy', null],
    ['', null],
    ['x'.repeat(100_000), null],
  ])('%.20s probably meant %j', (word, meant) => {
    expect(nearest(word, known)).toBe(meant);
  });
});

describe('an agent', () => {
  const agents = [
    { id: 'dev', name: 'Ada', backend: 'scripted', state: '', channels: [] },
    { id: 'Dev', name: 'Bob', backend: 'scripted', state: '', channels: [] },
    { id: 'qa', name: 'ada', backend: 'scripted', state: '', channels: [] },
    { id: 'ops', name: 'Cy', backend: 'scripted', state: '', channels: [] },
  ];

  test.each([
    ['Dev', 'Dev'],
    ['DEV', 'dev'],
    ['cy', 'ops'],
  ])('found by "%s" is %s', (word, agent) => {
    expect(findAgent(word, agents)).toEqual({ ok: true, agent });
  });

  test('with a name that two agents have must be named by id', () => {
    expect(findAgent('Ada', agents)).toEqual({
      ok: false,
      message: 'Several agents are named "Ada". Use an id: dev, qa.',
    });
  });

  test('that is unknown is not found', () => {
    expect(findAgent('zzz', [])).toEqual({ ok: false, message: 'There is no agent "zzz". Agents: nobody.' });
  });
});

describe('a fact in words', () => {
  test.each([
    [
      {
        type: 'seatMoved',
        agent: 'pm',
        from: 'ACTIVE',
        to: 'OFFLINE',
        trigger: 'CRASHED',
        cause: 'exited with code 137',
      },
      'PM ACTIVE → OFFLINE (CRASHED): exited with code 137',
    ],
    [{ type: 'turnExtended', agent: 'pm', ms: 60_000, by: 'ola' }, 'ola gave PM 1:00 more'],
    [
      { type: 'turnWaited', agent: 'pm', epoch: 2, wait: { reason: 'human', deadlineAt: 0, graceEndAt: 0 } },
      'PM #2 waits for the answer to a message that interrupted it',
    ],
    [{ type: 'questionClosed', agent: 'pm', epoch: 2, question: 3, choice: null, by: 'pm' }, 'PM withdrew request 3'],
    [
      { type: 'questionClosed', agent: 'pm', epoch: 2, question: 3, choice: null, by: 'ann' },
      'request 3 of PM was closed: ann decided about the run',
    ],
    [{ type: 'exchangeClosed', reason: 'done' }, 'exchange closed: no agent is next'],
    [{ type: 'exchangeClosed', reason: 'limit', budget: 'tokens' }, 'exchange closed: a limit was reached (tokens)'],
    [
      {
        type: 'turnEnded',
        agent: 'pm',
        epoch: 2,
        outcome: 'completed',
        signalled: false,
        said: true,
        answered: [],
        returned: [],
      },
      'turn of PM #2 completed, without its signal',
    ],
    [
      {
        type: 'turnEnded',
        agent: 'pm',
        epoch: 2,
        outcome: 'passed',
        signalled: true,
        said: false,
        answered: [],
        returned: [],
      },
      'turn of PM #2 passed, nothing said',
    ],
    [
      { type: 'announced', announcement: { kind: 'timeout', agent: 'pm' }, key: 'k', repeat: 3, shown: true },
      'announced: PM timed out (×3)',
    ],
    [
      {
        type: 'announced',
        announcement: { kind: 'limit', budget: 'turns', used: 12, max: 12 },
        key: 'k',
        repeat: 1,
        shown: false,
      },
      'noted: limit of turns reached, 12 of 12',
    ],
    [
      { type: 'actRefused', act: 'say', agent: 'qa', epoch: 1, refusal: 'not-holder' },
      "refused qa's say (#1): not-holder",
    ],
    [{ type: 'spent', agent: 'pm', epoch: 1, tokens: 1_200, costMicros: 12_345 }, 'PM spent 1200 tokens, $0.0123'],
    [{ type: 'spent', agent: 'pm', epoch: 1, tokens: 1_200, costMicros: 0 }, 'PM spent 1200 tokens, unpriced'],
    [
      { type: 'spent', agent: 'pm', epoch: 1, tokens: 8, costMicros: 0, use: { ...USE, source: 'unpriced' } },
      'PM spent 8 tokens, unpriced (retried)',
    ],
    [
      { type: 'spent', agent: 'pm', epoch: 1, tokens: 8, costMicros: 0, use: { ...USE, outcome: 'answered' } },
      'PM spent 8 tokens, $0.0000',
    ],
  ] as const)('%j is %j', (fact, words) => {
    expect(factWords(fact, (agent) => (agent === 'pm' ? 'PM' : agent))).toBe(words);
  });

  test.each([
    [{ state: 'delivered', to: ['pm', 'dev'], via: 'observe' }, 'delivered to pm, dev to observe'],
    [{ state: 'delivered', to: ['dev'], via: 'inject' }, 'delivered to dev mid-turn'],
    [{ state: 'held', until: 'prompt' }, 'held until an agent is prompted'],
    [{ state: 'unrouted', why: 'no agent is available' }, 'reached no agent: no agent is available'],
    [{ state: 'ignored', rule: 'written by a bot' }, 'not for agents: written by a bot'],
  ] as const)('the fate %j is %j', (fate, words) => {
    expect(fateWords(fate)).toBe(words);
  });
});
