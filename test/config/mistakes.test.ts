import assert from 'node:assert/strict';
import { describe, expect, test } from 'vitest';
import { ConfigError, type Problem } from '../../src/config/error.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Purpose, World } from '../../src/config/world.ts';
import { MISTAKES, type Mistake } from './mistakes.ts';
import { world } from './world.ts';

const PATH = '/usr/bin';
const MACHINE: NonNullable<World['machine']> = {
  isProgram: (path) =>
    ['date', 'npx', 'sh', 'opencode'].includes(path.slice(`${PATH}/`.length)) && path.startsWith(PATH),
  isFolder: (path) => path === '/work',
};

const textOf = (file: unknown): string => (typeof file === 'string' ? file : JSON.stringify(file, null, 2));

/** Returns the problems and warnings of a configuration on a machine with a few programs. */
function found({ file, env = {}, files = {} }: Pick<Mistake, 'file' | 'env' | 'files'>, purpose: Purpose = 'check') {
  const place = world({ ...files, 'turnConfig.json': textOf(file) }, { PATH, ...env });
  try {
    const { warnings } = loadConfig({ ...place, machine: MACHINE }, purpose);
    return { problems: [], warnings };
  } catch (error) {
    assert(error instanceof ConfigError);
    return { problems: error.problems, warnings: [] };
  }
}

test('T39 the list has more than a hundred kinds of mistakes, each once', () => {
  expect(new Set(MISTAKES.map(({ kind }) => kind)).size).toBe(MISTAKES.length);
  expect(MISTAKES.length).toBeGreaterThan(100);
});

describe('T39 conch config check finds', () => {
  test.each(MISTAKES)('$kind, with its place and what to do', (mistake) => {
    const { problems } = found(mistake);
    expect(problems.map(({ path }) => path)).toEqual([mistake.path]);
    const [{ line, message }] = problems as [Problem];
    expect(message).toContain(mistake.next);
    const place = line === null ? null : textOf(mistake.file).split('\n')[line - 1];
    const isRight = mistake.at === null ? place === null : place?.includes(mistake.at);
    expect(isRight, `line ${line}: ${place}`).toBe(true);
  });
});

const llm = { kind: 'llm', provider: 'openai-compatible', model: 'm', baseUrl: 'http://127.0.0.1:11434/v1' };
const opencode = { kind: 'acp', profile: 'opencode', command: 'opencode', set: { OPENCODE_CONFIG_CONTENT: '{}' } };

/** Valid configurations that look like mistakes. */
const MEANT: readonly [string, unknown, World['env']?][] = [
  ['a server of models without a key', { agents: [{ id: 'a', backend: llm }] }],
  ['a server behind a path', { agents: [{ id: 'a', backend: { ...llm, baseUrl: 'https://example.org/api' } }] }],
  ['a model by the name of its maker', { agents: [{ id: 'a', backend: { ...llm, model: 'openai/gpt-5' } }] }],
  [
    'any model and key behind an address of its own',
    { agents: [{ id: 'a', backend: { ...llm, provider: 'openai', model: 'llama3.3', apiKey: 'sk-ant-0' } }] },
  ],
  ['a key in the environment', { agents: [{ id: 'a', backend: { kind: 'llm', provider: 'openai', model: 'gpt-5' } }] }],
  ['an agent with all that leaves it asking', { agents: [{ id: 'a', backend: { ...opencode, env: ['A'] } }] }],
  [
    'a profile that promises nothing with anything',
    {
      agents: [
        { id: 'a', backend: { kind: 'acp', command: 'npx', args: ['--yolo'], set: { OPENCODE_PERMISSION: 'x' } } },
      ],
    },
  ],
  [
    'a pipe for a shell',
    { agents: [{ id: 'a', backend: { kind: 'command', command: 'sh', args: ['-c', 'date | rev'] } }] },
  ],
  [
    'servers for the workers of a crew, who start a program of the worktree',
    {
      agents: [{ id: 'a', backend: llm }],
      channels: [
        { id: 'console:a', agents: ['a'] },
        { id: 'console:b', agents: ['a'] },
      ],
      mcp: { files: { command: 'date' } },
      crews: [
        { id: 'web', repo: '.', channel: 'console:a', backend: { kind: 'acp', command: './agent.sh', cwd: 'gone' } },
        { id: 'app', repo: 'app', channel: 'console:b', backend: { kind: 'llm', provider: 'openai', model: 'gpt-5' } },
      ],
    },
  ],
  ['a free port for every door', { agents: [{ id: 'a', backend: { kind: 'remote' } }], remote: { port: 0 } }],
  [
    'a door behind a proxy',
    { agents: [{ id: 'a', backend: { kind: 'remote' } }], remote: { host: '0.0.0.0', behindProxy: true } },
  ],
  ['a door that nobody opens', { remote: { host: '0.0.0.0' } }],
  ['an emoji by its name on Slack', { agents: [{ id: 'a', backend: llm, avatar: ':robot_face:' }] }],
  ['an emoji of several signs', { agents: [{ id: 'a', backend: llm, avatar: '👩🏽‍💻' }] }],
  ['a flag', { agents: [{ id: 'a', backend: llm, avatar: '🇩🇪' }] }],
  ['a limit that names its budget', { announcements: { limit: '{budget}: {used} of {max}' } }],
  ['a text without names', { announcements: { timeout: 'Time is up', disconnect: false } }],
  [
    'dollars for agents that cost none',
    { budgets: { day: { costUsd: 5 } }, channels: [{ id: 'console:a', agents: ['pm'] }] },
  ],
  [
    'rules for tools',
    {
      tools: {
        deny: ['Bash(curl *)'],
        ask: ['Bash(git push *)!'],
        allow: ['Read', 'mcp__files__read_*'],
        default: 'ask',
        members: 'deny',
      },
    },
  ],
  ['another operator', { agents: [{ id: 'a', backend: llm, approvers: 'other' }], operators: { users: ['ann'] } }],
  ["another program's address of a model", { agents: [{ id: 'a', backend: llm }] }, { OPENAI_BASE_URL: 'proxy' }],
];

test.each(MEANT)('T39 %s is no mistake', (_, file, env) => {
  expect(found({ file, env: { OPENAI_API_KEY: 'sk-0123456789', ...env } })).toEqual({ problems: [], warnings: [] });
});

describe('T39 Conch warns of a setting that works but is probably a mistake', () => {
  test.each<[string, unknown, World['env'], string]>([
    [
      'every command unasked',
      { tools: { allow: ['execute'] } },
      {},
      'line 4: tools.allow[0]: Every command runs without a request: name the commands, such as "Bash(npm test)"',
    ],
    [
      'a rule that another place forbids',
      { tools: { deny: ['Bash'] }, agents: [{ id: 'a', backend: llm, tools: { allow: ['Bash(npm test)'] } }] },
      {},
      'line 18: agents[0].tools.allow[0]: This rule has no effect: "Bash" of "deny" covers it and is at least as strict. Remove one.',
    ],
    [
      'a rule of a channel that asks everywhere',
      { tools: { ask: ['Edit'] }, channels: [{ id: 'console:a', agents: ['pm'], tools: { allow: ['Edit(src/**)'] } }] },
      {},
      'line 15: channels[0].tools.allow[0]: This rule has no effect: "Edit" of "ask" covers it and is at least as strict. Remove one.',
    ],
    [
      'rules for a program that asks nobody',
      { agents: [{ id: 'a', backend: { kind: 'command', command: 'date' }, tools: { deny: ['Bash'] } }] },
      {},
      'line 9: agents[0].tools: Conch cannot ask before an agent of the kind "command" acts, so these rules have no effect: remove them',
    ],
    [
      'rules for a crew whose program asks nobody',
      {
        agents: [{ id: 'a', backend: llm }],
        channels: [{ id: 'console:a', agents: ['a'] }],
        crews: [
          {
            id: 'web',
            repo: '.',
            channel: 'console:a',
            backend: { kind: 'command', command: 'date' },
            tools: { deny: ['Bash'] },
          },
        ],
      },
      {},
      'line 30: crews[0].tools: Conch cannot ask before an agent of the kind "command" acts, so these rules have no effect: remove them',
    ],
    [
      'whatever nobody names',
      { tools: { default: 'allow' } },
      {},
      'line 3: tools.default: Tools that no rule names run without a request. Set "default" to "ask".',
    ],
    [
      'another operator where there is none',
      { agents: [{ id: 'a', backend: llm, approvers: 'other' }] },
      {},
      'line 11: agents[0].approvers: "operators" is empty, so nobody else can approve a request made on the page of this machine: add operators',
    ],
    [
      'a secret in the file',
      { agents: [{ id: 'a', backend: { ...llm, apiKey: 'sk-0123456789abc' } }] },
      {},
      'line 10: agents[0].backend.apiKey: A secret is written here in clear text: move it to .env and write ${NAME} instead',
    ],
    [
      'a server without a path',
      { agents: [{ id: 'a', backend: { ...llm, baseUrl: 'http://127.0.0.1:11434' } }] },
      {},
      'line 9: agents[0].backend.baseUrl: Most servers have their API below /v1: write "http://127.0.0.1:11434/v1"',
    ],
    [
      'a pipe among arguments',
      { agents: [{ id: 'a', backend: { kind: 'command', command: 'date', args: ['|', 'rev'] } }] },
      {},
      'line 9: agents[0].backend.args[0]: Conch starts programs without a shell, so the program gets "|" as an argument: remove it, or start a shell',
    ],
    [
      'a channel without agents',
      { channels: [{ id: 'console:a', agents: [] }] },
      {},
      'line 5: channels[0].agents: No agent would answer here: add agents, or use /floor add',
    ],
    [
      'a mistyped variable',
      {},
      { CONCH_LOGLEVEL: 'debug' },
      'CONCH_LOGLEVEL is not a variable of Conch; did you mean CONCH_LOG_LEVEL?',
    ],
  ])('%s', (_, file, env, said) => {
    expect(found({ file, env })).toEqual({ problems: [], warnings: [said] });
  });
});

describe('T39 a program or folder that this machine lacks', () => {
  const backend = { kind: 'command', command: 'no-such-program', cwd: 'gone' };
  const file = { agents: [{ id: 'a', backend }] };
  const lacking = [
    'line 7: agents[0].backend.command: There is no program "no-such-program" on the PATH: install it, or correct the name',
    'line 8: agents[0].backend.cwd: There is no folder /work/gone: create it, or correct the path',
  ];

  test('is a warning at the start, and the other agents start', () => {
    expect(found({ file }, 'start')).toEqual({ problems: [], warnings: lacking });
  });

  test('is not reported for a command that starts no agent', () => {
    expect(found({ file }, 'look')).toEqual({ problems: [], warnings: [] });
  });
});

test('the workers of a crew get the API key of their provider from the environment, as agents do', () => {
  const channels = [{ id: 'console:a', agents: [] }];
  const backend = { kind: 'llm', provider: 'openai', model: 'gpt-5' };
  const file = { channels, crews: [{ id: 'web', repo: '.', channel: 'console:a', backend }] };
  const { crews } = loadConfig(world({ 'turnConfig.json': JSON.stringify(file), '.env': 'OPENAI_API_KEY=sk-0123' }));
  expect(crews[0]?.backend).toMatchObject({ apiKey: 'sk-0123' });
});

test('T39 a command that starts no agent and no platform needs no API key and no token', () => {
  const keyless = { id: 'a', backend: { kind: 'llm', provider: 'openai', model: 'gpt-5' } };
  const file = { agents: [keyless], channels: [{ id: 'discord:123456789012345678', agents: ['a'] }] };
  expect(found({ file }, 'start').problems).toHaveLength(2);
  expect(found({ file }, 'look')).toEqual({ problems: [], warnings: [] });
});
