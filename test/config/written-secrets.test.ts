import { describe, expect, test } from 'vitest';
import { load } from './world.ts';

const llm = { kind: 'llm', provider: 'openai-compatible', model: 'm', baseUrl: 'https://models.example.org/v1' };
const model = (backend: object) => ({
  agents: [{ id: 'dev', backend: 'kind' in backend ? backend : { ...llm, apiKey: '${MODEL_KEY}', ...backend } }],
  channels: [{ id: 'console:a', agents: ['dev'] }],
});
const server = (mcp: object) => ({ ...model({}), mcp: { web: mcp } });
const crew = (more: object) => ({
  ...model({}),
  crews: [{ id: 'web', repo: '.', channel: 'console:a', backend: { kind: 'acp', command: 'x' }, ...more }],
});
const pulls = (token: string) => crew({ pullRequests: { repository: 'ann/web', token } });
const tickets = (token: string) => crew({ tickets: { kind: 'github', repository: 'ann/web', token } });
const url = 'https://tools.example.org/mcp';
const issuer = 'https://login.example.org';
const env = { MODEL_KEY: 'm0del-key-of-the-environment', OTHER: 'abc' };

const warned = (file: object) =>
  load(file, env).warnings.filter((warning) => warning.includes('secret') && warning.includes('${NAME}'));

describe('a secret written into the file', () => {
  test.each([
    ['agents[0].backend.apiKey', model({ apiKey: 'sk-abcdefghijklm' })],
    ['agents[0].backend.apiKey', model({ apiKey: 'f00dcafe99887766' })],
    ['agents[0].backend.apiKey', model({ apiKey: 'correct horse battery' })],
    ['mcp.web.headers.Authorization', server({ url, headers: { Authorization: 'Bearer openSesameOpen' } })],
    ['crews[0].pullRequests.token', pulls('ghp_f00dcafe99')],
    ['crews[0].tickets.token', tickets('ghp_abcdefghij')],
    ['agents[0].backend.apiKey', model({ apiKey: 'v2-${OTHER}-f00dcafe99' })],
    ['agents[0].backend.baseUrl', model({ baseUrl: 'https://ann:pa55word@models.example.org/v1' })],
    ['mcp.web.headers.Authorization', server({ url, headers: { Authorization: 'Bearer f00dcafe99' } })],
    ['mcp.web.headers.X-Api-Key', server({ url, headers: { 'X-Api-Key': 'f00dcafe99' } })],
    ['mcp.web.headers.Cookie', server({ url, headers: { Cookie: 'session=f00dcafe99' } })],
    ['mcp.web.url', server({ url: `${url}?token=f00dcafe99` })],
    ['mcp.web.oauth.clientSecret', server({ url, oauth: { clientId: 'a', clientSecret: 'hush', issuer } })],
    ['mcp.web.env.GITHUB_TOKEN', server({ command: 'node', env: { GITHUB_TOKEN: 'ghp0f00dcafe99' } })],
    ['agents[0].backend.set.MY_API_KEY', model({ kind: 'acp', command: 'x', set: { MY_API_KEY: 'f00dcafe99' } })],
    ['agents[0].backend.set.MY_TOKEN', model({ kind: 'command', command: 'x', set: { MY_TOKEN: 'f00dcafe99' } })],
    ['mcp.web.args[1]', server({ command: 'node', args: ['--token', 'f00dcafe99'] })],
    ['mcp.web.args[0]', server({ command: 'node', args: ['--api-key=f00dcafe99'] })],
    ['agents[0].persona', { ...model({}), agents: [{ ...model({}).agents[0], persona: 'Say xoxb-0123456789-abc.' }] }],
  ])('T70 causes a warning at %s', (path, file) => {
    expect(warned(file)).toEqual([expect.stringContaining(`${path}: A secret is written here in clear text`)]);
  });

  test('T70 counts among the secrets to redact', () => {
    const { secrets } = load(server({ url, headers: { Authorization: 'Bearer f00dcafe99' } }), env);
    expect(secrets.map((secret) => secret.reveal())).toContain('f00dcafe99');
  });

  test.each([
    ['the token of pull requests', pulls('${GH_PAT}')],
    ['the token of tickets', tickets('${GH_PAT}')],
    ['the key of a model', model({ apiKey: '${GH_PAT}' })],
    ['a login header', server({ url, headers: { Authorization: 'Bearer ${GH_PAT}' } })],
    ['a variable with a secret name', server({ command: 'node', env: { GITHUB_TOKEN: '${GH_PAT}' } })],
    ['an option with a secret name', server({ command: 'node', args: ['--token', '${GH_PAT}'] })],
  ])('is a secret to redact, whatever its name is, when it is a variable for %s', (_, file) => {
    const { secrets } = load(file, { ...env, GH_PAT: 'correct horse' });
    expect(secrets.map((secret) => secret.reveal())).toContain('correct horse');
  });

  test.each([
    ['a part of a path', server({ command: 'node', env: { KEY_FILE: '${HOME}/key.pem' } }), '/home/ann'],
    ['what a local server takes for a key', model({ apiKey: '${HOME}' }), 'ollama'],
    ['a whole path', server({ command: 'node', env: { SSH_KEY_DIR: '${HOME}' } }), '/home/ann'],
    ['a number', server({ command: 'node', args: ['--max-tokens', '${HOME}'] }), '128000'],
  ])('is not a secret to redact when it is a variable for %s', (_, file, value) => {
    const { secrets } = load(file, { ...env, HOME: value });
    expect(secrets.map((secret) => secret.reveal())).not.toContain(value);
  });

  test.each([
    ['a reference', model({})],
    ['a reference in a header', server({ url, headers: { Authorization: 'Bearer ${MODEL_KEY}' } })],
    ['what a local server takes for a key', model({ apiKey: 'ollama' })],
    ['words for no key', model({ apiKey: 'not-needed' })],
    ['a header that is no secret', server({ url, headers: { 'X-Trace': 'f00dcafe99' } })],
    ['a variable that is no secret', server({ command: 'node', env: { PORT: '12345678' } })],
    ['an address with a user and no password', model({ baseUrl: 'https://ann@models.example.org/v1' })],
    ['options that are no secret', server({ command: 'node', args: ['--port', '12345678', '--tokenless'] })],
  ])('T70 is not found in %s', (_, file) => {
    expect(warned(file)).toEqual([]);
  });
});
