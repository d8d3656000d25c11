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
    [
      'of another type',
      { turnConfig: { defaultTimeoutSeconds: '60' } },
      'turnConfig.defaultTimeoutSeconds: Expected a number, got "60"',
    ],
    [
      'below the range',
      { turnConfig: { defaultTimeoutSeconds: 0 } },
      'turnConfig.defaultTimeoutSeconds: Expected 0.1 at least, got 0',
    ],
    ['above the range', { turnConfig: { maxTurns: 10_001 } }, 'turnConfig.maxTurns: Expected 10000 at most, got 10001'],
    ['with a fraction', { turnConfig: { rounds: 1.5 } }, 'turnConfig.rounds: Expected a whole number, got 1.5'],
    [
      'that is no mode',
      { turnConfig: { humanInterruptMode: 'shout' } },
      'turnConfig.humanInterruptMode: Expected "inject", "queue", "interrupt", "parallel", "steer", "followup", "collect" or "concurrent", got "shout"',
    ],
    [
      'that is no order',
      seats([], { order: 'random' }),
      'channels[0].order: Expected "round-robin", "priority", "manual", "mention" or "facilitator", got "random"',
    ],
    ['that is no flag', { turnConfig: { receipts: 1 } }, 'turnConfig.receipts: Expected true or false, got 1'],
    ['null for a flag', seats([], { receipts: null }), 'channels[0].receipts: Expected true or false, got null'],
    [
      'a signal of two words',
      { turnConfig: { turnCompleteSignal: 'I AM DONE' } },
      'turnConfig.turnCompleteSignal: Expected one word of 3 to 64 characters, got "I AM DONE"',
    ],
    [
      'an unknown backend',
      { agents: [{ id: 'x', backend: { kind: 'magic' } }] },
      'agents[0].backend.kind: Expected "scripted", "llm", "acp", "remote" or "command"',
    ],
    [
      'an unknown script',
      { agents: [{ id: 'x', backend: { kind: 'scripted', script: 'ceo' } }] },
      'agents[0].backend.script: Expected "pm", "dev" or "qa", got "ceo"',
    ],
    ['a missing backend', { agents: [{ id: 'x' }] }, 'agents[0].backend: This key is missing: add it'],
    ['a missing id', { agents: [{ backend: scripted }] }, 'agents[0].id: This key is missing: add it'],
    [
      'an id with a space',
      { agents: [{ ...pm, id: 'p m' }] },
      'agents[0].id: Expected up to 64 letters, digits, "_" and "-", got "p m"',
    ],
    [
      'a channel id without its adapter',
      { channels: [{ id: 'demo', agents: [] }] },
      'channels[0].id: Expected "<adapter>:<id on the platform>", for example "console:demo", got "demo"',
    ],
    ['no channel at all', { channels: [] }, 'channels: Expected at least one channel, got []'],
    [
      'a port out of range',
      { adapters: { console: { port: 65_536 } } },
      'adapters.console.port: Expected 65535 at most, got 65536',
    ],
    ['a budget of nothing', { budgets: { day: { tokens: 0 } } }, 'budgets.day.tokens: Expected more than 0, got 0'],
    [
      'an announcement switched on',
      { announcements: { timeout: true } },
      'announcements.timeout: Expected the text in quotes, or false to switch it off, got true',
    ],
    [
      'an unknown level',
      { log: { level: 'loud' } },
      'log.level: Expected "fatal", "error", "warn", "info", "debug" or "trace", got "loud"',
    ],
    ['no object at all', [1], ': Expected keys and values in { }, got [1]'],
  ])('%s is told with its path', (_, file, said) => {
    expect(saidAbout(file)).toContain(said);
  });

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

describe('a key that does not exist', () => {
  test.each<[unknown, string]>([
    [{ turnConfg: {} }, 'turnConfg: There is no key of this name here: did you mean "turnConfig"?'],
    [
      { turnConfig: { humanInteruptMode: 'inject' } },
      'turnConfig.humanInteruptMode: There is no key of this name here: did you mean "humanInterruptMode"?',
    ],
    [
      { turnConfig: { maxturns: 1 } },
      'turnConfig.maxturns: There is no key of this name here: did you mean "maxTurns"?',
    ],
    [seats([], { maxTurn: 1 }), 'channels[0].maxTurn: There is no key of this name here: did you mean "maxTurns"?'],
    [
      { agents: [{ id: 'a', backend: { ...scripted, scrip: 1 } }] },
      'agents[0].backend.scrip: There is no key of this name here: did you mean "script"?',
    ],
    [{ log: { colour: true } }, 'log.colour: There is no key of this name here; known are level, pretty'],
  ])('%j is told with the nearest one', (file, said) => {
    expect(saidAbout(file)).toContain(said);
  });
  test('$schema is taken and ignored', () => {
    expect(() => loadConfig(world({ 'turnConfig.json': '{ "$schema": "x" }' }))).not.toThrow();
  });
});

describe('names that do not fit together', () => {
  test.each<[string, unknown, readonly string[]]>([
    [
      'two agents with one id',
      { agents: [pm, { ...pm, id: 'PM' }] },
      ['agents[1].id: "PM" is the id of agents[0] already: give it another'],
    ],
    [
      'two agents with one name',
      { agents: [pm, { ...pm, id: 'x', name: 'PM' }] },
      ['agents[1].name: agents[0] is called "PM" too: people could address neither, give it another'],
    ],
    [
      'two channels with one id',
      {
        channels: [
          { id: 'console:a', agents: [] },
          { id: 'console:a', agents: [] },
        ],
      },
      ['channels[1].id: "console:a" is the id of channels[0] already: give it another'],
    ],
    [
      'a seat for an unknown agent',
      seats(['pm', 'dev', 'ops']),
      ['channels[0].agents[2]: "ops" is not the id of an agent; known are pm, dev, qa'],
    ],
    [
      'two seats for one agent',
      seats(['pm', 'pm']),
      ['channels[0].agents[1]: "pm" has a seat in this channel already: take it away'],
    ],
    [
      'an unknown adapter',
      { channels: [{ id: 'irc:a', agents: [] }] },
      ['channels[0].id: There is no adapter "irc"; known are console, discord, slack'],
    ],
    [
      'a channel id that Discord does not give',
      { channels: [{ id: 'discord:general', agents: [] }] },
      [
        'channels[0].id: Expected "discord:" and the id of a channel, a long number: switch on Developer Mode in Discord, then "Copy Channel ID" in the channel\'s menu',
        'channels[0].id: It needs DISCORD_TOKEN in the environment or in .env: docs/discord.md says where to find it',
      ],
    ],
    [
      'a channel id that Slack does not give',
      { channels: [{ id: 'slack:#general', agents: [] }] },
      [
        'channels[0].id: Expected "slack:" and the id of a channel, such as "slack:C0123456789": it stands at the end of the channel\'s details in Slack',
        'channels[0].id: It needs SLACK_BOT_TOKEN in the environment or in .env: docs/slack.md says where to find it',
        'channels[0].id: It needs SLACK_APP_TOKEN in the environment or in .env: docs/slack.md says where to find it',
      ],
    ],
    [
      'a Discord channel without a token',
      { channels: [{ id: 'discord:123456789012345678', agents: [] }] },
      ['channels[0].id: It needs DISCORD_TOKEN in the environment or in .env: docs/discord.md says where to find it'],
    ],
    [
      'a Slack channel without its tokens',
      { channels: [{ id: 'slack:C0123456789', agents: [] }] },
      [
        'channels[0].id: It needs SLACK_BOT_TOKEN in the environment or in .env: docs/slack.md says where to find it',
        'channels[0].id: It needs SLACK_APP_TOKEN in the environment or in .env: docs/slack.md says where to find it',
      ],
    ],
    [
      'signed requests without their secret',
      { channels: [{ id: 'slack:C0123456789', agents: [] }], adapters: { slack: { mode: 'http' } } },
      [
        'channels[0].id: It needs SLACK_BOT_TOKEN in the environment or in .env: docs/slack.md says where to find it',
        'channels[0].id: It needs SLACK_SIGNING_SECRET in the environment or in .env: docs/slack.md says where to find it',
      ],
    ],
    [
      'an adapter that is off',
      { ...seats([]), adapters: { console: { enabled: false } } },
      ['channels[0].id: Its adapter is switched off: set adapters.console.enabled to true'],
    ],
    [
      'a facilitator from elsewhere',
      seats(['pm'], { facilitator: 'qa' }),
      ['channels[0].facilitator: "qa" is not an agent of this channel; known are pm'],
    ],
    [
      'a responder from elsewhere',
      seats(['pm'], { interruptResponder: 'qa' }),
      ['channels[0].interruptResponder: "qa" is not an agent of this channel; known are pm'],
    ],
    [
      'a default agent from elsewhere',
      seats([], { defaultAgent: 'qa' }),
      ['channels[0].defaultAgent: "qa" is not an agent of this channel; there are none'],
    ],
    [
      'a general default agent whom one channel lacks',
      { turnConfig: { defaultAgent: 'qa' }, ...seats(['pm']) },
      [
        'turnConfig.defaultAgent: "qa" is not an agent of console:a: give it a seat there, or set defaultAgent of that channel to null',
      ],
    ],
    [
      'a general role in the demo channel',
      { turnConfig: { facilitator: 'boss' } },
      [
        'turnConfig.facilitator: "boss" is not an agent of console:demo: give it a seat there, or set facilitator of that channel to null',
      ],
    ],
    [
      'the order facilitator without one',
      seats(['pm'], { order: 'facilitator' }),
      ['channels[0].order: "facilitator" needs a key facilitator that names an agent of console:a'],
    ],
    [
      'a beat slower than its limit',
      { turnConfig: { heartbeatSeconds: 45 } },
      ['turnConfig.heartbeatTimeoutSeconds: Expected more than heartbeatSeconds (45), got 45'],
    ],
    [
      'a channel whose beat is slower',
      seats([], { heartbeatTimeoutSeconds: 15 }),
      ['channels[0].heartbeatTimeoutSeconds: Expected more than heartbeatSeconds (15), got 15'],
    ],
  ])('%s is told with its path', (_, file, said) => {
    expect(saidAbout(file)).toEqual(said);
  });
  test('a beat just faster than its limit is taken', () => {
    const file = { turnConfig: { heartbeatSeconds: 44.9 } };
    expect(() => loadConfig(world({ 'turnConfig.json': JSON.stringify(file) }))).not.toThrow();
  });
});

describe('an agent that promises to ask', () => {
  const acp = (more: object) => ({ agents: [{ id: 'dev', backend: { kind: 'acp', ...more } }] });
  const INSTEAD = 'take it away, or use the profile "generic", which does not promise to ask';

  test('T52 is not told otherwise by its variables', () => {
    const file = acp({
      profile: 'opencode',
      set: { OPENCODE_PERMISSION: '"allow"' },
      env: ['A', 'OPENCODE_PERMISSION'],
    });
    const why = `Conch sets OPENCODE_PERMISSION itself, so that opencode asks: ${INSTEAD}`;
    expect(saidAbout(file)).toEqual([
      `agents[0].backend.set.OPENCODE_PERMISSION: ${why}`,
      `agents[0].backend.env[1]: ${why}`,
    ]);
  });

  test('T52 is not told otherwise by its arguments', () => {
    const args = ['-y', '@google/gemini-cli', '--acp', '--approval-mode=yolo'];
    expect(saidAbout(acp({ profile: 'gemini', command: 'npx', args }))).toEqual([
      `agents[0].backend.args[3]: With --approval-mode=yolo gemini would not ask: ${INSTEAD}`,
    ]);
  });

  test('is taken with all that leaves it asking, and "generic" with anything', () => {
    const set = { OPENCODE_CONFIG_CONTENT: '{}' };
    expect(() => load(acp({ profile: 'opencode', set, env: ['OPENCODE_CONFIG'], args: ['acp'] }))).not.toThrow();
    expect(() => load(acp({ command: 'x', args: ['--yolo'], set: { OPENCODE_PERMISSION: 'x' } }))).not.toThrow();
  });
});

describe('a file with several faults', () => {
  test('is told about all of them at once, in the order of its lines', () => {
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
      '  line 2: turnConfig.order: "facilitator" needs a key facilitator that names an agent of console:a',
      '  line 5: agents[1].persona: The environment variable NOWHERE is not set: set it, or write it to .env',
      '  line 5: agents[1].id: Write it in quotes: a long id loses its last digits as a number, got 5',
      '  line 12: channels[0].agents[1]: "ops" is not the id of an agent; known are pm',
      '  line 14: channels[0].maxTurn: There is no key of this name here: did you mean "maxTurns"?',
    ]);
  });
});

describe('a ${NAME} that stands for nothing', () => {
  test('is told with its path, once', () => {
    expect(saidAbout(seats(['${WHO}']))).toEqual([
      'channels[0].agents[0]: The environment variable WHO is not set: set it, or write it to .env',
    ]);
  });
  test('or cannot stand for anything asks for $${', () => {
    expect(saidAbout({ agents: [{ ...pm, persona: '${a-b}' }] })).toEqual([
      'agents[0].persona: "${a-b}" names no environment variable: write "$${a-b}" if it is only text',
    ]);
  });
});

describe('secrets in a faulty file', () => {
  test('are not shown by the problems, also not in part', () => {
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
    ['{ "a": [,] }', 1, 'Expected a value, found ",] }" (column 9)'],
    ['{ a: 1 }', 1, 'Expected a key in double quotes, found "a: 1 }" (column 3)'],
    ['[1, 2 x]', 1, 'Expected JSON, found "x]" (column 7)'],
    ['{ "a": "x\n" }', 1, 'Expected a text that ends on its line with a double quote, found "\\"x" (column 8)'],
    [
      '{ "a": "C:\\dir" }',
      1,
      'Expected a text in which a backslash is written as "\\\\", found "\\"C:\\\\dir\\" }" (column 8)',
    ],
    ['{ /* why }', 1, 'Expected a comment that ends with "*/", found "/* why }" (column 3)'],
    ['{ "a" 1 }', 1, 'Expected a colon after the key, found "1 }" (column 7)'],
    ['{ "a": 1 "b": 2 }', 1, 'Expected a comma or "}", found "\\"b\\": 2 }" (column 10)'],
    ['[1 2]', 1, 'Expected a comma or "]", found "2]" (column 4)'],
    ['{ "a": [1', 1, 'Expected a comma or "]", found the end of the file (column 10)'],
    ['', 1, 'Expected a value, found the end of the file (column 1)'],
    ['{} {}', 1, 'Expected the end of the file, found "{}" (column 4)'],
    ['{ "a": "x\ty" }', 1, 'A text holds a tab or another invisible character: write it as \\t or \\u001f'],
  ])('%j is told with its line', (text, line, message) => {
    expect(problemsOf(text)).toEqual([{ path: '', line, message }]);
  });
  test('nested without end is told so', () => {
    expect(problemsOf('['.repeat(100_000))).toEqual([
      { path: '', line: 1, message: 'Nothing in this file is nested more than 64 levels deep' },
    ]);
  });
  test('a key that appears twice is a problem', () => {
    expect(problemsOf('{\n"log": {},\n"log": {}\n}')).toEqual([
      { path: 'log', line: 3, message: 'This key appears twice: keep one' },
    ]);
  });
  test('a byte order mark is no fault', () => {
    expect(() => loadConfig(world({ 'turnConfig.json': '\u{FEFF}{}' }))).not.toThrow();
  });
});

describe('any file whatever', () => {
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
