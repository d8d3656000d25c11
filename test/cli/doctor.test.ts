import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { examine, reportText } from '../../src/cli/doctor.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { World } from '../../src/config/world.ts';
import { systemTimers } from '../../src/lib/time.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { createLog } from '../../src/runtime/log.ts';
import { startAuth } from '../agents/mcp/auth-rig.ts';
import { CERTIFICATE, KEY } from '../config/pem.ts';

const CONCH = new URL('../../src/conch.js', import.meta.url).pathname;
const ROOM = mkdtempSync(`${tmpdir()}/conch-doctor-`);
const AT = Date.UTC(2026, 10, 23);

/** A server with OpenAI's API below /v1 and two models. */
const service = createServer((request, response) => void serve(request, response));

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = request.method === 'POST' ? await text(request) : '';
  const answer = (status: number, content: object) => {
    response
      .writeHead(status, { 'content-type': 'application/json', connection: 'close' })
      .end(JSON.stringify(content));
  };
  const refuse = (status: number, message: string) => answer(status, { error: { message, type: 'error' } });
  if (request.url === '/v1/models') return answer(200, { data: [{ id: 'llama3.2' }, { id: 'dumb' }] });
  if (request.url !== '/v1/chat/completions') return refuse(404, 'page not found');
  if (request.headers.authorization === 'Bearer wrong') return refuse(401, 'invalid key');
  if (request.headers.authorization === 'Bearer poor') return refuse(402, 'no credit');
  if (body.includes('"tools"') && body.includes('dumb')) return refuse(400, 'dumb does not support tools');
  if (!/"model":"(?:llama3\.2|dumb)"/.test(body)) return refuse(404, 'model not found');
  answer(200, {
    id: '1',
    object: 'chat.completion',
    created: 0,
    model: 'llama3.2',
    choices: [{ index: 0, message: { role: 'assistant', content: 'OK' }, finish_reason: 'stop' }],
  });
}

let base: string;
let taken: number;

beforeAll(async () => {
  service.listen(0, '127.0.0.1');
  await once(service, 'listening');
  taken = (service.address() as AddressInfo).port;
  base = `http://127.0.0.1:${taken}`;
});

afterAll(() => {
  service.close();
  rmSync(ROOM, { recursive: true });
});

type File = Readonly<Record<string, unknown>> | ((place: string) => Readonly<Record<string, unknown>>);

/** Returns the findings of `conch doctor` in a new folder with this configuration. */
async function examined(made: File, env: World['env'] = {}, at = AT) {
  const place = mkdtempSync(`${ROOM}/place-`);
  mkdirSync(`${place}/work`);
  writeFileSync(`${place}/cert.pem`, CERTIFICATE);
  writeFileSync(`${place}/key.pem`, KEY);
  const file = typeof made === 'function' ? made(place) : made;
  const files: Readonly<Record<string, string>> = {
    [`${place}/turnConfig.json`]: JSON.stringify(file),
    [`${place}/cert.pem`]: CERTIFICATE,
    [`${place}/key.pem`]: KEY,
  };
  const world: World = {
    env: { PATH: process.env['PATH'], ...env },
    cwd: place,
    readFile: (path) => (files[path] === undefined ? null : { text: files[path], public: false }),
  };
  const log = createLog({ level: 'fatal', pretty: false, secrets: [] });
  return await examine(() => loadConfig(world, 'look'), { clock: { now: () => at }, timers: systemTimers, log });
}

const OFF = { adapters: { console: { port: 0 } } };
const one = (backend: object) => ({ ...OFF, agents: [{ id: 'dev', backend }] });
const model = (more: object) => one({ kind: 'llm', provider: 'openai-compatible', model: 'llama3.2', ...more });

/** Mistakes that show only when doctor tries the configuration, and the expected finding: subject, text, advice. */
type Case = readonly [
  kind: string,
  file: () => Readonly<Record<string, unknown>>,
  env: () => World['env'],
  what: string,
  text: string,
  todo: string,
];

const CASES: readonly Case[] = [
  [
    'a service that is not there',
    () => model({ baseUrl: 'http://127.0.0.1:1/v1' }),
    () => ({}),
    'dev: start',
    'the model cannot be reached',
    'Start the service, or correct "baseUrl" of this agent.',
  ],
  [
    'a model that the service lacks',
    () => model({ baseUrl: `${base}/v1`, model: 'llama3' }),
    () => ({}),
    'dev: start',
    'no model "llama3" (404)',
    'Set "model" of this agent to one that is there: llama3.2, dumb. Did you mean "llama3.2"?',
  ],
  [
    'an address without its version',
    () => model({ baseUrl: base }),
    () => ({}),
    'dev: start',
    'no model "llama3.2" (404)',
    '/v1".',
  ],
  [
    'an address of something else',
    () => model({ baseUrl: `${base}/other` }),
    () => ({}),
    'dev: start',
    'no model "llama3.2" (404)',
    'Correct "baseUrl" of this agent: it ends with the version, as in',
  ],
  [
    'a key that is not taken',
    () => model({ baseUrl: `${base}/v1`, apiKey: 'wrong' }),
    () => ({}),
    'dev: start',
    'API key rejected (401)',
    'Copy the key again from the provider, and set "apiKey" of this agent.',
  ],
  [
    'an account without credit',
    () => model({ baseUrl: `${base}/v1`, apiKey: 'poor' }),
    () => ({}),
    'dev: start',
    'quota used up (402)',
    "Check the account's credit and limits at the provider, and try again.",
  ],
  [
    'a model that takes no tools',
    () => model({ baseUrl: `${base}/v1`, model: 'dumb' }),
    () => ({}),
    'dev: start',
    'does not support tools',
    'This model does not support tools: set `tools` to false.',
  ],
  [
    'no key of a provider',
    () => one({ kind: 'llm', provider: 'openai', model: 'gpt-5-mini' }),
    () => ({}),
    'dev: start',
    'the API key is missing',
    'Set OPENAI_API_KEY in the environment or in .env.',
  ],
  [
    "a model of the demo that the service lacks (T41 names the demo's variables)",
    () => OFF,
    () => ({ OPENAI_BASE_URL: `${base}/v1` }),
    'pm: start',
    'no model "gpt-5-mini" (404)',
    'Set CONCH_MODEL to one that is there: llama3.2, dumb.',
  ],
  [
    "an address of the demo without its version (T41 names the demo's variables)",
    () => OFF,
    () => ({ OPENAI_BASE_URL: base, CONCH_MODEL: 'llama3.2' }),
    'pm: start',
    'no model "llama3.2" (404)',
    'Set OPENAI_BASE_URL to',
  ],
  [
    "a profile's program that is not installed (T40 doctor says why an agent cannot start)",
    () => one({ kind: 'acp', profile: 'qwen', set: { PATH: '/nowhere' } }),
    () => ({}),
    'dev: start',
    'there is no program "qwen"; install it with: npm install -g @qwen-code/qwen-code',
    'Fix it, then run: conch doctor.',
  ],
  [
    'T73 a profile that acts unasked and is not trusted',
    () => one({ kind: 'acp', profile: 'kimi' }),
    () => ({}),
    'dev: start',
    'Kimi Code writes files of a Git repository without asking',
    'Fix it, then run: conch doctor.',
  ],
  [
    'a program that is no agent (T40 doctor says why an agent cannot start)',
    () => one({ kind: 'acp', command: process.execPath, args: ['-e', 'process.exit(3)'] }),
    () => ({}),
    'dev: start',
    'exited with code 3',
    'docs/agents.md',
  ],
  [
    'a command that is not there',
    () => one({ kind: 'command', command: 'no-such-program' }),
    () => ({}),
    'dev: start',
    'there is no program "no-such-program"',
    'Fix it, then run',
  ],
  [
    'a server of tools that ends at once',
    () => ({
      ...one({ kind: 'command', command: 'date' }),
      mcp: { notes: { command: process.execPath, args: ['-e', 'console.error("no such folder"); process.exit(3)'] } },
    }),
    () => ({}),
    'notes: tools',
    'exited with code 3: no such folder',
    'Fix "notes" under "mcp"',
  ],
  [
    'a server of tools that is no server',
    () => ({ ...one({ kind: 'command', command: 'date' }), mcp: { notes: { url: `${base}/nothing` } } }),
    () => ({}),
    'notes: tools',
    'it answered with 404',
    'Fix "notes" under "mcp"',
  ],
  [
    'an agent from elsewhere without a token',
    () => ({ ...one({ kind: 'remote' }), remote: { port: 0 } }),
    () => ({}),
    'dev: start',
    'it has no token, so it cannot connect',
    'Run: conch agent add dev',
  ],
  [
    'a mistake in the file',
    () => ({ turnConfg: {} }),
    () => ({}),
    'configuration',
    'line 1: turnConfg: Unknown key: did you mean "turnConfig"?',
    'Fix the problems listed and try again.',
  ],
];

describe('T39 conch doctor', () => {
  test.each(CASES)('finds %s, says what to do, and ends with 3', async (...row) => {
    const [, file, env, what, said, todo] = row;
    const { findings, code } = await examined(file(), env());
    const bad = findings.find(({ verdict }) => verdict === 'bad');
    expect(bad?.what).toBe(what);
    expect(bad?.text).toContain(said);
    expect(bad?.todo).toContain(todo);
    expect(code).toBe(EXIT_CODES.configuration);
  });

  test('names each model that answered and its address, and asks a model that several agents share once', async () => {
    let asked = 0;
    const count = () => void (asked += 1);
    service.on('request', count);
    const backend = { kind: 'llm', provider: 'openai-compatible', model: 'llama3.2', baseUrl: `${base}/v1` };
    const agents = [
      { id: 'dev', backend },
      { id: 'qa', backend },
      { id: 'unseated', backend: { ...backend, model: 'x' } },
    ];
    const { findings, code } = await examined({
      ...OFF,
      agents,
      channels: [{ id: 'console:a', agents: ['dev', 'qa'] }],
    });
    service.off('request', count);
    expect(asked).toBe(1);
    expect(findings.filter(({ what }) => what.endsWith(': start'))).toEqual(
      ['dev', 'qa'].map((id) => ({
        what: `${id}: start`,
        verdict: 'good',
        text: `llama3.2 answers (${base}/v1)`,
        todo: null,
      })),
    );
    expect([code, reportText(findings).split('\n').at(-1)]).toEqual([EXIT_CODES.ok, 'Conch can start.']);
  });

  test('names a server that needs a sign-in, and the command for it', async () => {
    const auth = await startAuth();
    const file = { ...one({ kind: 'command', command: 'date' }), mcp: { web: { url: auth.url } } };
    const { findings } = await examined(file);
    await auth.close();
    expect(findings.find(({ what }) => what === 'web: tools')).toEqual({
      what: 'web: tools',
      verdict: 'bad',
      text: 'nobody is signed in at it: run "conch mcp login web"',
      todo: 'Run: conch mcp login web',
    });
  });

  test('sends no tools to a model that is configured without tools', async () => {
    const { code } = await examined(model({ baseUrl: `${base}/v1`, model: 'dumb', tools: false }));
    expect(code).toBe(EXIT_CODES.ok);
  });

  test('finds a port that is in use, and does not exit with the code of a faulty configuration', async () => {
    const { findings, code } = await examined({ adapters: { console: { port: taken } } });
    expect(findings.filter(({ verdict }) => verdict === 'bad')).toEqual([
      {
        what: `port ${taken}`,
        verdict: 'bad',
        text: 'it cannot be opened on 127.0.0.1 (EADDRINUSE)',
        todo: 'Stop the program that uses it, or set CONCH_PORT to another port.',
      },
    ]);
    expect(code).toBe(EXIT_CODES.mustBeMended);
  });

  test.each([
    ['/dev/null/data', 'Conch cannot write to /dev/null'],
    ['/proc/data', 'Conch cannot write to /proc'],
  ])('reports a data folder that cannot be written: %s', async (dataDir, said) => {
    // Not the demo: its MCP server would create a folder in the data folder, which hangs below /proc.
    const file = one({ kind: 'scripted', script: 'dev' });
    const { findings } = await examined(file, { CONCH_DATA_DIR: dataDir });
    const found = findings.find(({ what }) => what === 'database');
    expect(found).toEqual({
      what: 'database',
      verdict: 'bad',
      text: said,
      todo: 'Change its owner, or set CONCH_DATA_DIR to a folder that you can write to.',
    });
  });

  test('reports tokens of remote agents that cannot be read, and checks on', async () => {
    const damaged = (place: string) => {
      mkdirSync(`${place}/.conch`);
      writeFileSync(`${place}/.conch/agent-tokens.json`, '{ "dev": ');
      return { ...one({ kind: 'remote' }), remote: { port: 0 } };
    };
    const { findings, code } = await examined(damaged);
    expect(findings.find(({ verdict }) => verdict === 'bad')).toMatchObject({
      what: 'dev: start',
      text: expect.stringMatching(/agent-tokens\.json is damaged: restore it, or delete it/),
    });
    expect([findings.some(({ what }) => what === 'database'), code]).toEqual([true, EXIT_CODES.configuration]);
  });

  test('reports a damaged database, also when an agent works in a folder with files that it obeys', async () => {
    const damaged = (place: string) => {
      mkdirSync(`${place}/.conch`);
      writeFileSync(`${place}/.conch/conch.db`, 'no database at all, but quite long. '.repeat(300));
      mkdirSync(`${place}/work/.claude`);
      writeFileSync(`${place}/work/.claude/settings.json`, '{}');
      return one({ kind: 'command', command: 'date', cwd: `${place}/work` });
    };
    const { findings } = await examined(damaged);
    expect(findings.find(({ what }) => what === 'database')?.text).toMatch(/conch\.db is damaged/);
    expect(findings.find(({ what }) => what === 'dev: start')?.text).toMatch(/conch\.db is damaged/);
  });

  test.each([
    ['a day before it begins', Date.UTC(2026, 10, 21, 4), 'bad', 'it is not valid before'],
    ['more than two weeks before it ends', Date.UTC(2126, 9, 15, 4), 'good', 'it is valid until'],
    ['less than two weeks before it ends', Date.UTC(2126, 9, 15, 5), 'warning', 'it expires at'],
    ['less than a day after its end', Date.UTC(2126, 9, 29, 5), 'bad', 'it expired at'],
  ])('checks the certificate for remote agents %s', async (_, at, verdict, said) => {
    const file = (place: string) => {
      const remote = { port: 0, tlsCert: `${place}/cert.pem`, tlsKey: `${place}/key.pem` };
      return { ...one({ kind: 'remote' }), remote };
    };
    const { findings } = await examined(file, {}, at);
    const found = findings.find(({ what }) => what === 'certificate');
    expect([found?.verdict, found?.text.startsWith(said)]).toEqual([verdict, true]);
  });
});

test('conch doctor checks the port and the sandbox that the workers of crews need', async () => {
  const crew = { repo: '.', backend: { kind: 'command', command: 'date', sandbox: true } };
  const { findings } = await examined({
    ...OFF,
    agents: [{ id: 'dev', backend: { kind: 'scripted', script: 'dev' } }],
    channels: ['a', 'b'].map((id) => ({ id: `console:${id}`, agents: ['dev'] })),
    crews: [
      { ...crew, id: 'web', channel: 'console:a', backend: { kind: 'remote' } },
      { ...crew, id: 'app', channel: 'console:b', repo: 'app' },
    ],
    remote: { port: taken },
  });
  expect(findings.find(({ what }) => what === `port ${taken}`)?.todo).toContain('set remote.port to another port');
  expect(findings.find(({ what }) => what === 'sandbox')?.text).toMatch(/^app: |^a sandbox can be started here/);
});

describe('the command line', () => {
  /** Runs the program on a file, and resolves with its code and what it printed. */
  async function run(file: string, argv: readonly string[], env: NodeJS.ProcessEnv = {}) {
    const cwd = mkdtempSync(`${ROOM}/place-`);
    writeFileSync(`${cwd}/turnConfig.json`, file);
    const child = spawn(process.execPath, [CONCH, ...argv], { cwd, env: { PATH: process.env['PATH'], ...env } });
    const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    return { code: Number(code), out, err };
  }
  const WRONG = JSON.stringify(one({ kind: 'command', command: 'no-such-program' }), null, 2);

  test.each([
    ['config check', '{ "turnConfg": {} }', 'err'],
    ['config check', WRONG, 'err'],
    ['doctor', '{ "turnConfg": {} }', 'out'],
    ['doctor', WRONG, 'out'],
    ['start', '{ "turnConfg": {} }', 'err'],
  ] as const)('T39 conch %s on %j ends with 3 and without a stack trace', async (line, file, where) => {
    const done = await run(file, line.split(' '));
    expect(done.code).toBe(EXIT_CODES.configuration);
    expect(done[where]).toMatch(/did you mean "turnConfig"|There is no program "no-such-program"/i);
    expect(done.out + done.err).not.toMatch(/^\s+at /m);
  });

  test('T41 conch backup into a missing folder says so', async () => {
    const { code, err } = await run('{}', ['backup', 'gone/conch.db']);
    expect(code).toBe(EXIT_CODES.usage);
    expect(err).toMatch(/^There is no folder \/.*\/gone: create it, or choose another file\.\n$/);
  });

  test('T41 a data folder that cannot be created ends with exit code diskFull and advice', async () => {
    const file = JSON.stringify(one({ kind: 'acp', command: process.execPath, args: ['-e', 'process.exit(3)'] }));
    const { code, err } = await run(file, ['agent', 'check', 'dev'], { CONCH_DATA_DIR: '/dev/null/data' });
    expect(code).toBe(EXIT_CODES.diskFull);
    expect(err).toMatch(/^ENOTDIR: .*: free disk space, or set CONCH_DATA_DIR to a folder that you can write to\.\n$/);
  });
});
