import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { connectsItself } from '../../src/config/config.ts';
import { loadConfig, loadConfigFrom } from '../../src/config/load.ts';
import { errorOf, load, world } from './world.ts';

const pm = { id: 'pm', backend: { kind: 'scripted', script: 'pm' } };

test('an agent whose id begins like a worker of a crew connects itself only if its own backend says so', () => {
  const config = load({
    agents: [pm, { ...pm, id: 'web-qa' }],
    channels: [{ id: 'console:a', agents: ['pm', 'web-qa'] }],
    crews: [{ id: 'web', repo: '.', channel: 'console:a', backend: { kind: 'remote' } }],
  });
  expect(['pm', 'web-qa', 'web-1'].map((id) => connectsItself(config, id))).toEqual([false, false, true]);
});

describe('a channel with settings of its own', () => {
  test('uses them, and the general settings for all other keys', () => {
    const config = load({
      turnConfig: { maxTurns: 5, rounds: 2, defaultAgent: 'pm' },
      channels: [
        { id: 'console:a', agents: ['pm'], maxTurns: 7, defaultAgent: null },
        { id: 'console:b', agents: ['pm'] },
      ],
    });
    expect(
      config.channels.map(({ turnConfig: { maxTurns, rounds, defaultAgent } }) => [maxTurns, rounds, defaultAgent]),
    ).toEqual([
      [7, 2, null],
      [5, 2, 'pm'],
    ]);
  });
  test('overrides the general budgets key by key', () => {
    const [channel] = load({
      budgets: { exchange: { tokens: 100, minutes: 5 }, day: { costUsd: 3 } },
      channels: [{ id: 'console:a', agents: [], budgets: { exchange: { tokens: 7, minutes: null } } }],
    }).channels;
    expect(channel?.budgets).toEqual({
      exchange: { tokens: 7, costUsd: null, minutes: null },
      day: { tokens: null, costUsd: 3, minutes: null },
    });
  });
  test('gives each agent a seat with its timeout, priority and rejoin setting', () => {
    const [channel] = load({
      agents: [
        { ...pm, timeoutSeconds: 5, priority: 1 },
        { ...pm, id: 'ops', rejoin: 'auto' },
        { ...pm, id: 'qa' },
      ],
      channels: [{ id: 'console:a', agents: ['qa', 'pm', 'ops'], defaultTimeoutSeconds: 30, rejoin: 'manual' }],
    }).channels;
    expect(channel?.seats).toEqual([
      { agent: 'qa', priority: 10, timeoutSeconds: 30, rejoin: 'manual' },
      { agent: 'pm', priority: 1, timeoutSeconds: 5, rejoin: 'manual' },
      { agent: 'ops', priority: 10, timeoutSeconds: 30, rejoin: 'auto' },
    ]);
  });
  test('keeps its topic for the prompts of its agents', () => {
    const channel = { id: 'console:shop', topic: 'the web shop', agents: [] };
    expect(load({ channels: [channel] }).channels[0]?.topic).toBe('the web shop');
  });
  test('is named after its id unless it has a name', () => {
    expect(load({ channels: [{ id: 'console:a', agents: [] }] }).channels[0]?.name).toBe('a');
  });
  test('lets scripted agents rejoin automatically by default', () => {
    expect(load({}).channels[0]?.seats.map((seat) => seat.rejoin)).toEqual(['auto', 'auto', 'auto']);
  });
});

describe('announcements', () => {
  test('can be switched off or reworded, and otherwise have the built-in texts', () => {
    const config = load({
      announcements: { timeout: false, nobody: 'Nobody!' },
    });
    expect(config.announcements).toEqual({ ...load({}).announcements, timeout: false, nobody: 'Nobody!' });
  });

  test('use the configured text of limits for every kind of budget', () => {
    const { limit } = load({ announcements: { limit: '{budget}!' } }).announcements;
    expect(limit === false ? [] : [...new Set(Object.values(limit))]).toEqual(['{budget}!']);
    expect(Object.values(load({}).announcements.limit).length).toBeGreaterThan(1);
    expect(load({ announcements: { limit: false } }).announcements.limit).toBe(false);
  });
});

describe('the environment', () => {
  test('sets the configuration file, the data folder, the port of the page and the log level', () => {
    const env = { CONCH_CONFIG: 'other.json', CONCH_DATA_DIR: '/data', CONCH_PORT: '0', CONCH_LOG_LEVEL: 'debug' };
    const config = loadConfig(world({ 'other.json': '{ "adapters": { "console": { "port": 9 } } }' }, env));
    expect([config.file, config.dataDir, config.adapters.console.port, config.log.level]).toEqual([
      '/work/other.json',
      '/data',
      0,
      'debug',
    ]);
  });
  test('is read from .env too', () => {
    expect(loadConfig(world({ '.env': 'CONCH_PORT=7001\n' })).adapters.console.port).toBe(7001);
  });
  test('overrides .env', () => {
    const config = loadConfig(world({ '.env': 'CONCH_PORT=7001\nCONCH_DATA_DIR=d\n' }, { CONCH_PORT: '7002' }));
    expect([config.adapters.console.port, config.dataDir]).toEqual([7002, '/work/d']);
  });
  test('treats an empty variable as not set', () => {
    expect(loadConfig(world({ '.env': 'CONCH_PORT=7001' }, { CONCH_PORT: '' })).adapters.console.port).toBe(7001);
  });
  test('with an invalid port or log level is refused together with the problems of the file', () => {
    const error = errorOf(
      world({ 'turnConfig.json': '{ "log": 1 }' }, { CONCH_PORT: '99999', CONCH_LOG_LEVEL: 'loud' }),
    );
    expect(error.problems.map((problem) => problem.path)).toEqual(['CONCH_PORT', 'CONCH_LOG_LEVEL', 'log']);
  });
  test('that names a missing file is refused, and the demo does not start', () => {
    expect(errorOf(world({}, { CONCH_CONFIG: 'gone.json' })).message).toBe(
      '/work/gone.json has 1 problem:\n  CONCH_CONFIG: There is no file /work/gone.json: correct CONCH_CONFIG, or unset it to use turnConfig.json or the demo',
    );
    expect(() => loadConfigFrom(world({}), '/work/turnConfig.json')).toThrow('There is no file');
  });
  test('replaces ${NAME} in texts, and turns $${NAME} into ${NAME}', () => {
    const config = load({ agents: [{ ...pm, persona: 'of ${TEAM}, $${TEAM}' }] }, { TEAM: 'Blue ${X}' });
    expect(config.agents[0]?.persona).toBe('of Blue ${X}, ${TEAM}');
  });
});

describe('the API key of a model', () => {
  const keyOf = (file: unknown, env: Readonly<Record<string, string>>, dotEnv = '') => {
    const files = { 'turnConfig.json': JSON.stringify(file), '.env': dotEnv };
    const { backend } = loadConfig(world(files, env)).agents[0] ?? {};
    return backend?.kind === 'llm' ? backend.apiKey : null;
  };
  const openai = { agents: [{ id: 'a', backend: { kind: 'llm', provider: 'openai', model: 'gpt-5' } }] };

  test('T39 is the key in the file, else the variable of its provider in the environment, else in .env', () => {
    const own = { agents: [{ id: 'a', backend: { ...openai.agents[0]?.backend, apiKey: 'own' } }] };
    expect(keyOf(openai, {}, 'OPENAI_API_KEY=sk-dot-env')).toBe('sk-dot-env');
    expect(keyOf(openai, { OPENAI_API_KEY: 'sk-env' }, 'OPENAI_API_KEY=sk-dot-env')).toBe('sk-env');
    expect(keyOf(own, { OPENAI_API_KEY: 'sk-env' })).toBe('own');
  });

  test('T39 goes from the environment to the endpoint of the demo, and to no endpoint of the file', () => {
    const env = { OPENAI_API_KEY: 'sk-env', OPENAI_BASE_URL: 'https://example.org/v1' };
    const backend = { kind: 'llm', provider: 'openai-compatible', model: 'm', baseUrl: 'https://example.net/v1' };
    expect(keyOf({}, env)).toBe('sk-env');
    expect(keyOf({ agents: [{ id: 'a', backend }] }, env)).toBeUndefined();
  });
});

describe('a file that cannot be read', () => {
  test('is a problem with its reason', () => {
    const locked = {
      ...world({}),
      readFile: () => {
        throw new Error('EACCES: permission denied');
      },
    };
    expect(errorOf(locked).message).toContain('This file cannot be read: EACCES: permission denied');
  });
});

describe('a loaded configuration', () => {
  test('is deeply frozen', () => {
    const config = load({ turnConfig: {}, operators: { users: ['u'] } }, { API_KEY: 'abcdefgh' });
    const thawed = (value: object): boolean =>
      !Object.isFrozen(value) ||
      Object.values(value).some((member: unknown) => typeof member === 'object' && member !== null && thawed(member));
    expect(thawed(config)).toBe(false);
    expect(Object.isFrozen(config.secrets)).toBe(true);
  });
  test('lists its secrets, and prints none of them', () => {
    const config = load(
      { agents: [{ ...pm, persona: '${PM_TOKEN} xoxb-1234567890-abc' }] },
      {
        PM_TOKEN: 'tok-123',
        HOME: '/h',
        MY_PASSWORD: 'hunter22',
        AWS_CREDENTIALS: 'aws-456',
        SSH_AUTH_SOCK: '/s',
        KEYSTORE_PASS: 'open-789',
      },
    );
    expect(new Set(config.secrets.map((secret) => secret.reveal()))).toEqual(
      new Set(['tok-123', 'hunter22', 'aws-456', 'open-789', 'xoxb-1234567890-abc']),
    );
    expect(Object.keys(config)).not.toContain('secrets');
    expect(JSON.stringify(config.secrets) + inspect(config.secrets) + String(config.secrets[0])).not.toMatch(
      /tok-|hunter/,
    );
  });
  test('T29 knows the password of a proxy as a secret', () => {
    const { secrets: odd } = load({}, { HTTPS_PROXY: 'http://ann:hunt@er22@proxy.example.org:3128' });
    expect(odd.map((secret) => secret.reveal())).toEqual(['hunt@er22']);
    for (const scheme of ['http', 'socks5+tls']) {
      const { secrets } = load({}, { HTTPS_PROXY: `${scheme}://ann:hunter22@proxy.example.org:3128` });
      expect(secrets.map((secret) => secret.reveal())).toEqual(['hunter22']);
    }
  });
  test('warns of secrets in files that everybody can read', () => {
    const files = {
      '.env': 'BOT_TOKEN=abcdef',
      'turnConfig.json': JSON.stringify({ agents: [{ ...pm, persona: 'sk-abcdefghijklmnop' }] }),
    };
    expect(loadConfig(world(files, {}, true)).warnings.map((warning) => warning.split(' ')[0])).toEqual([
      '/work/.env',
      '/work/turnConfig.json',
      'line',
    ]);
    expect(loadConfig(world(files, {}, false)).warnings).toEqual([expect.stringContaining('A secret is written here')]);
    expect(loadConfig(world({ '.env': 'CONCH_PORT=1', 'turnConfig.json': '{}' }, {}, true)).warnings).toEqual([]);
  });
  test('warns of a timeout that is longer than maxTurnSeconds', () => {
    expect(load({ turnConfig: { maxTurnSeconds: 60 } }).warnings).toEqual([]);
    expect(load({ turnConfig: { maxTurnSeconds: 59 } }).warnings).toHaveLength(3);
  });
});
