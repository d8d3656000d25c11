import { describe, expect, test } from 'vitest';
import { load } from './world.ts';

const model = { kind: 'llm', provider: 'openai-compatible', model: 'm', baseUrl: 'http://127.0.0.1:1/v1' };
const bot = { id: 'bot', backend: model };
const files = { command: 'mcp-files', args: ['/data'] };

describe('an MCP server', () => {
  test('needs a program and nothing else', () => {
    expect(load({ agents: [bot], mcp: { files } }).mcp).toEqual({
      files: {
        ...files,
        env: {},
        headers: {},
        share: 'agent',
        timeoutSeconds: 60,
        trusted: false,
        tools: ['*'],
        instructions: false,
        elicitation: false,
        showAnswers: false,
      },
    });
  });

  test('gets variables of Conch in its headers, and their values count as secrets', () => {
    const url = 'https://tools.example.org/mcp';
    const headers = { Authorization: 'Bearer ${FILES_TOKEN}' };
    const config = load({ agents: [bot], mcp: { web: { url, headers } } }, { FILES_TOKEN: 'secret-enough' });
    expect(config.mcp['web']?.headers).toEqual({ Authorization: 'Bearer secret-enough' });
    expect(config.secrets.map((secret) => secret.reveal())).toContain('secret-enough');
  });

  test.each(['http://127.0.0.1:8080/mcp', 'http://localhost/mcp', 'http://[::1]:1/'])(
    'on this machine needs no encryption: %s',
    (url) => {
      expect(load({ agents: [bot], mcp: { web: { url } } }).warnings).toEqual([]);
    },
  );
});

describe('Conch warns', () => {
  const warnings = (file: object) => load(file).warnings;

  test('of a server whose tools no agent gets, and not if a coding or remote agent gets them', () => {
    const coder = { id: 'dev', backend: { kind: 'acp', profile: 'opencode' } };
    const scout = { id: 'dev', backend: { kind: 'remote' } };
    for (const given of [coder, scout])
      expect(warnings({ agents: [given], mcp: { files } }).filter((each) => each.includes('Nobody'))).toEqual([]);
    const agents = [{ id: 'pm', backend: { kind: 'scripted', script: 'pm' } }];
    expect(warnings({ agents, mcp: { files } })).toEqual([
      expect.stringContaining(
        'mcp: No agent uses these servers: only agents of kind "llm", "acp" or "remote" get their tools',
      ),
    ]);
  });

  test('of a server that may fetch another version at every start', () => {
    const fetched = { command: 'npx', args: ['-y', 'mcp-files'] };
    expect(warnings({ agents: [bot], mcp: { files: fetched } })).toEqual([
      expect.stringContaining('mcp.files.command: This program may fetch another version at every start'),
    ]);
  });

  test.each([
    ['an agent', (tools: object) => ({ agents: [{ ...bot, tools }] }), 'agents[0].tools.allow[1]'],
    ['all agents', (tools: object) => ({ agents: [bot], tools }), 'tools.allow[1]'],
    [
      'a channel',
      (tools: object) => ({ agents: [bot], channels: [{ id: 'console:a', agents: ['bot'], tools }] }),
      'channels[0].tools.allow[1]',
    ],
  ])('of an unknown server in the rules of %s', (_, file, path) => {
    const tools = { allow: ['mcp__fil*__read', 'mcp__filse__write', 'Read'] };
    expect(warnings({ ...file(tools), mcp: { files } })).toEqual([
      expect.stringContaining(
        `${path}: This rule never matches: there is no server "filse" under "mcp": did you mean "files"?`,
      ),
    ]);
  });

  test('not of an unknown server if coding agents bring servers of their own', () => {
    const coder = { id: 'coder', backend: { kind: 'acp', profile: 'opencode' } };
    expect(warnings({ agents: [bot, coder], mcp: { files }, tools: { allow: ['mcp__theirs__read'] } })).toEqual([]);
  });

  test.each([
    ['all agents', { tools: { deny: ['mcp__fiels__*'] } }, 'tools.deny[0]'],
    [
      'a coding agent',
      { agents: [{ id: 'c', backend: { kind: 'acp', profile: 'qwen' }, tools: { deny: ['mcp__fiels__*'] } }] },
      'agents[0].tools.deny[0]',
    ],
  ] as const)(
    'of a mistyped server even if coding agents bring servers of their own: in the rules of %s',
    (_, file, path) => {
      const coder = { id: 'coder', backend: { kind: 'acp', profile: 'opencode' } };
      expect(warnings({ agents: [bot, coder], ...file, mcp: { files } })).toEqual([
        expect.stringContaining(
          `${path}: This rule never matches: there is no server "fiels" under "mcp": did you mean "files"?`,
        ),
      ]);
    },
  );
});
