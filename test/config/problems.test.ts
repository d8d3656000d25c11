import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ConfigError } from '../../src/config/error.ts';
import { loadConfig } from '../../src/config/load.ts';
import { errorOf, load, problemsOf, saidAbout, world } from './world.ts';

const scripted = { kind: 'scripted', script: 'pm' };
const pm = { id: 'pm', backend: scripted };
const seats = (agents: unknown, more: object = {}) => ({ channels: [{ id: 'console:a', agents, ...more }] });

describe('a wrong value', () => {
  test.each<[string, unknown, string]>([
    ['an operator', { operators: { users: [123456789012345680] } }, 'operators.users[0]'],
    ['a role', { operators: { roles: [1] } }, 'operators.roles[0]'],
    ['an agent', { agents: [{ ...pm, id: 7 }] }, 'agents[0].id'],
    ['a channel', { channels: [{ id: 99, agents: [] }] }, 'channels[0].id'],
  ])('an id of %s as a number asks for quotes', (_, file, path) => {
    const found = problemsOf(file).find((problem) => problem.path === path);
    expect(found?.message).toMatch(/^Write it in quotes: a long id loses its last digits as a number/);
  });
});

describe('a key', () => {
  test('$schema is taken and ignored', () => {
    expect(() => loadConfig(world({ 'turnConfig.json': '{ "$schema": "x" }' }))).not.toThrow();
  });
});

const ID = '123456789012345678';

/** The message that `problemsOf` throws for a valid file. */
const ACCEPTED = 'the configuration was accepted';

describe('the merges of a crew', () => {
  const crew = (more: object) => ({
    agents: [pm],
    ...seats([]),
    crews: [{ id: 'web', repo: '.', channel: 'console:a', backend: { kind: 'acp', command: 'x' }, ...more }],
  });
  const paths = (more: object) => problemsOf(crew(more)).map(({ path }) => path);

  test('with several votes need the setting merge: "ask"', () => {
    expect(paths({ votes: 2 })).toEqual(['crews[0].votes']);
    expect(paths({ votes: 2, merge: 'pr' })).toEqual(['crews[0].votes']);
    expect(() => paths({ votes: 2, merge: 'ask' })).toThrow(ACCEPTED);
    expect(() => paths({ votes: 1 })).toThrow(ACCEPTED);
  });

  test('with more votes than people who can vote cause a warning', () => {
    const advice = (channel: string, votes: number, operators: object = {}) => {
      const env = { DISCORD_TOKEN: 'a.token' };
      const channels = [{ id: channel, agents: ['pm'] }];
      const { warnings } = load({ ...crew({ votes, merge: 'ask', channel }), channels, operators }, env);
      return warnings.filter((line) => line.includes('votes'));
    };
    expect(advice('console:a', 2, { users: [ID, ID.replace('1', '2')], roles: [ID] })).toEqual([
      expect.stringContaining('crews[0].votes: No merge gets 2 votes: only the person at the console can vote here.'),
    ]);
    expect(advice(`discord:${ID}`, 3, { users: [ID] })).toEqual([
      expect.stringContaining('crews[0].votes: No merge gets 3 votes: only 2 people can vote'),
    ]);
    expect(advice(`discord:${ID}`, 2)).toHaveLength(1);
    for (const operators of [{ users: [ID, ID.replace('1', '2')] }, { roles: [ID] }])
      expect(advice(`discord:${ID}`, 3, operators)).toEqual([]);
    expect(advice('console:a', 1)).toEqual([]);
  });

  test('need quiet hours with valid times of day and a known time zone', () => {
    const quiet = (quietHours: object) => paths({ mergeWindow: { quietHours } });
    expect(quiet({ from: '22:00', to: '7:00' })).toEqual(['crews[0].mergeWindow.quietHours.to']);
    expect(quiet({ from: '24:00', to: '07:00' })).toEqual(['crews[0].mergeWindow.quietHours.from']);
    expect(quiet({ from: '22:00', to: '22:00' })).toEqual(['crews[0].mergeWindow.quietHours.to']);
    expect(quiet({ from: '22:00', to: '07:00', timeZone: 'Mars/Olympus' })).toEqual([
      'crews[0].mergeWindow.quietHours.timeZone',
    ]);
    expect(() => quiet({ from: '22:00', to: '07:00', timeZone: 'Europe/Berlin' })).toThrow(ACCEPTED);
  });
});

describe('a time', () => {
  test('that is just within its limit is taken', () => {
    const file = {
      turnConfig: {
        heartbeatSeconds: 44.9,
        autoDetectTurnEnd: true,
        autoDetectSilenceSeconds: 59.9,
        coalesceMs: 59_999,
      },
    };
    expect(() => loadConfig(world({ 'turnConfig.json': JSON.stringify(file) }))).not.toThrow();
  });
});

describe('a file with several faults', () => {
  test('is refused with all of them at once, in the order of its lines', () => {
    const text = `{
  "turnConfig": { "rounds": -1, "order": "facilitator" },
  "agents": [
    { "id": "pm", "backend": { "kind": "scripted", "script": "pm" } },
    { "id": 5, "backend": { "kind": "scripted", "script": "pm" }, "persona": "\${NOWHERE}" }
  ],
  "channels": [
    {
      "id": "console:a",
      "agents": [
        "pm",
        "ops"
      ],
      "maxTurn": 3
    }
  ]
}`;
    expect(errorOf(world({ 'turnConfig.json': text })).message.split('\n')).toEqual([
      '/work/turnConfig.json has 6 problems:',
      '  line 2: turnConfig.rounds: Expected 0 at least, got -1',
      '  line 2: turnConfig.order: "facilitator" needs the key facilitator, with the id of an agent of console:a',
      '  line 5: agents[1].persona: The environment variable NOWHERE is not set: set it, or add it to .env',
      '  line 5: agents[1].id: Write it in quotes: a long id loses its last digits as a number, got 5',
      '  line 12: channels[0].agents[1]: "ops" is not the id of an agent; known are pm',
      '  line 14: channels[0].maxTurn: Unknown key: did you mean "maxTurns"?',
    ]);
  });
});

describe('a ${NAME} without a value', () => {
  test('is reported once, with its path', () => {
    expect(saidAbout(seats(['${WHO}']))).toEqual([
      'channels[0].agents[0]: The environment variable WHO is not set: set it, or add it to .env',
    ]);
  });
  test('that is no name of a variable is reported with the advice to write $${', () => {
    expect(saidAbout({ agents: [{ ...pm, persona: '${a-b}' }] })).toEqual([
      'agents[0].persona: "${a-b}" names no environment variable: write "$${a-b}" if it is only text',
    ]);
  });
});

describe('secrets in a faulty file', () => {
  test('do not appear in the problems, not even in part', () => {
    const secret = `"${'s'.repeat(55)}-very-secret`;
    const said = saidAbout({ agents: [{ ...pm, id: '${A_TOKEN}' }], ...seats(['${A_TOKEN}x']) }, { A_TOKEN: secret });
    expect(said).toHaveLength(3);
    expect(said.join('\n')).not.toContain('sss');
  });
});

describe('broken JSON', () => {
  test.each<[string, number, string]>([
    ['{\n "a": 1,\n "b": x\n}', 3, 'Expected a value, found "x" (column 7)'],
    ['{\n "a": 1,,\n}', 2, 'Expected a key in double quotes, found "," (column 9)'],
    ['{ "a": [,] }', 1, 'Expected a value, found "," (column 9)'],
    ['{ a: 1 }', 1, 'Expected a key in double quotes, found "a" (column 3)'],
    ['[1, 2 x]', 1, 'Expected JSON, found "x" (column 7)'],
    ['{ "a": "x\n" }', 1, 'Expected a text that ends on its line with a double quote, found "\\"" (column 8)'],
    ['{ "a": "C:\\dir" }', 1, 'Expected a text in which a backslash is written as "\\\\", found "\\"" (column 8)'],
    ['{ /* why }', 1, 'Expected a comment that ends with "*/", found "/" (column 3)'],
    ['{ "a" 1 }', 1, 'Expected a colon after the key, found "1" (column 7)'],
    ['{ "a": 1 "b": 2 }', 1, 'Expected a comma or "}", found "\\"" (column 10)'],
    ['[1 2]', 1, 'Expected a comma or "]", found "2" (column 4)'],
    ['{ "a": [1', 1, 'Expected a comma or "]", found the end of the file (column 10)'],
    ['', 1, 'Expected a value, found the end of the file (column 1)'],
    ['{} {}', 1, 'Expected the end of the file, found "{" (column 4)'],
    ['{ "a": "x\ty" }', 1, 'A text contains a tab or a control character: write it as \\t or \\u001f'],
  ])('%j is reported with its line', (text, line, message) => {
    expect(problemsOf(text)).toEqual([{ path: '', line, message }]);
  });
  test('nested too deeply is reported', () => {
    expect(problemsOf('['.repeat(100_000))).toEqual([
      { path: '', line: 1, message: 'Values in this file cannot be nested more than 64 levels deep' },
    ]);
  });
  test('a key that appears twice is a problem', () => {
    expect(problemsOf('{\n"log": {},\n"log": {}\n}')).toEqual([
      { path: 'log', line: 3, message: 'This key appears twice: remove one' },
    ]);
  });
  test('a byte order mark is no fault', () => {
    expect(() => loadConfig(world({ 'turnConfig.json': '\u{FEFF}{}' }))).not.toThrow();
  });
});

describe('any file', () => {
  const KEYS = [
    'turnConfig',
    'agents',
    'channels',
    'id',
    'backend',
    'kind',
    'order',
    'name',
    'budgets',
    'day',
    'log',
    '__proto__',
    'constructor',
  ];
  const word = fc.oneof(fc.constantFrom(...KEYS, 'pm', 'console:a', 'scripted', '${X}', '${constructor}'), fc.string());
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof({ maxDepth: 5 }, fc.constant(null), fc.boolean(), fc.double(), word, tie('list'), tie('members')),
    list: fc.array(tie('value')),
    members: fc.array(fc.tuple(word, tie('value'))).map((pairs) => Object.fromEntries(pairs)),
  }));
  const isDecided = (text: string): boolean => {
    try {
      return Object.isFrozen(loadConfig(world({ 'turnConfig.json': text })));
    } catch (error) {
      return error instanceof ConfigError && error.problems.length > 0;
    }
  };

  test('of JSON is loaded or refused with a ConfigError, never anything else', () => {
    fc.assert(
      fc.property(value, (json) => assert.ok(isDecided(JSON.stringify(json) ?? 'null'))),
      { numRuns: 1_000 },
    );
  });
  test('of text is loaded or refused with a ConfigError, never anything else', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => assert.ok(isDecided(text))),
      { numRuns: 1_000 },
    );
  });
});
