import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, rmdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { LoginStore } from '../../../src/agents/mcp/login-store.ts';
import type { Login } from '../../../src/agents/mcp/login-store.ts';
import { McpServer } from '../../../src/agents/mcp/mcp-server.ts';
import { ServerLogins } from '../../../src/agents/mcp/server-logins.ts';
import { beginSignIn, renewed } from '../../../src/agents/mcp/sign-in.ts';
import { serverSchema } from '../../../src/config/schema.ts';
import { KnownSecrets } from '../../../src/agents/tools/known-secrets.ts';
import { browse, startAuth } from './auth-rig.ts';
import { mcpPorts, toolNamed } from './mcp-rig.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

const REDIRECT = 'http://127.0.0.1:9/callback';

/** Starts a server with its authorization service, and a program whose agents use it, signed in or not. */
async function program({ more = {}, isSignedIn = true }: { more?: object; isSignedIn?: boolean } = {}) {
  const auth = await startAuth();
  const dataDir = mkdtempSync(join(tmpdir(), 'conch-logins-'));
  closing.push(
    () => rmSync(dataDir, { recursive: true, force: true }),
    () => auth.close(),
  );
  const rig = mcpPorts();
  const store = new LoginStore(dataDir);
  const config = serverSchema.parse({ url: auth.url, ...more });
  const signIn = async () => {
    const { clock } = rig.time;
    const begun = await beginSignIn({ ...config, url: auth.url, redirectUrl: REDIRECT, earlier: store.read(auth.url) });
    const login = await begun.finish(new URL(await browse(begun.address)).searchParams, clock.now());
    // The command `conch mcp login` is another program: it saves the login in its own store, at another time.
    new LoginStore(dataDir).save({ ...login, signedInAt: clock.now() + 1 });
  };
  if (isSignedIn) await signIn();
  const logins = new ServerLogins(store, rig.ports);
  const agent = () => {
    const turned: (string | null)[] = [];
    const ports = { ...rig.ports, logins, turned: (why: string | null) => void turned.push(why) };
    const server = new McpServer('web', config, ports);
    closing.push(() => server.close());
    return { server, turned };
  };
  const renewals = () => auth.asked.filter(({ form }) => form.get('grant_type') === 'refresh_token').length;
  return { auth, dataDir, store, logins, config, agent, signIn, renewals, ...rig };
}

const call = (server: McpServer, name = 'echo') =>
  server.call(toolNamed(name), { id: '1', input: {}, stopped: new AbortController().signal, progressed() {} });

const NEEDED = 'run "conch mcp login web"';

describe('a server with a login', () => {
  test("gets the login's access token with every request, and nothing else", async () => {
    const { auth, agent } = await program();
    const { server } = agent();
    // The sign-in began with a request without a token.
    auth.presented.clear();
    expect(await server.tools()).toHaveLength(2);
    expect(await call(server)).toMatchObject({ text: 'done', code: null });
    expect([...auth.presented]).toEqual([`Bearer ${auth.good()?.access}`]);
  });

  test('runs a call once, with the next token, when the token expires during it', async () => {
    const { auth, agent, store, renewals } = await program();
    const { server } = agent();
    await server.tools();
    auth.expire();
    expect(await call(server)).toMatchObject({ text: 'done', code: null });
    expect([renewals(), auth.runs()]).toEqual([1, 1]);
    expect(store.read(auth.url)?.tokens?.refresh).toBe(auth.good()?.refresh);
  });

  test('gets a new token 30 s before its token expires', async () => {
    const { auth, agent, time, renewals } = await program();
    const { server } = agent();
    await server.tools();
    time.pass(3_600_000 - 30_001);
    await call(server);
    expect(renewals()).toBe(0);
    time.pass(1);
    expect(await call(server)).toMatchObject({ code: null });
    expect(renewals()).toBe(1);
    expect(auth.presented.has(`Bearer ${auth.good()?.access}`)).toBe(true);
  });

  test('renews the token once for all agents that need one at the same time', async () => {
    const { auth, agent, renewals } = await program();
    const agents = [agent(), agent(), agent(), agent()];
    for (const { server } of agents) await server.tools();
    auth.expire();
    const outcomes = await Promise.all(agents.map(({ server }) => call(server)));
    expect(outcomes.map(({ code }) => code)).toEqual([null, null, null, null]);
    expect(renewals()).toBe(1);
  });

  test('renews the token once for two programs that need one at the same time', async () => {
    const { auth, config, dataDir, agent, renewals, ports } = await program();
    const other = new ServerLogins(new LoginStore(dataDir), { ...ports, timers: realTimers });
    const elsewhere = new McpServer('web', config, { ...ports, logins: other });
    closing.push(() => elsewhere.close());
    const { server } = agent();
    await server.tools();
    await elsewhere.tools();
    auth.expire();
    const waiting: ReturnType<typeof call>[] = [];
    auth.faults.renewing = async () => {
      auth.faults.renewing = null;
      waiting.push(call(elsewhere));
      // The server has refused both programs. The other program waits until this one has renewed the token.
      await vi.waitFor(() => expect(auth.refused()).toBe(2), { timeout: 60_000 });
    };
    expect(await call(server)).toMatchObject({ code: null });
    expect(await Promise.all(waiting)).toMatchObject([{ code: null }]);
    expect(renewals()).toBe(1);
  });

  test('gets its token while the service cannot renew it, and fails with a clear error once the token has expired', async () => {
    const { auth, agent, time, dataDir } = await program();
    const { server, turned } = agent();
    await server.tools();
    auth.faults.tokenStatus = 503;
    auth.faults.tokenBody = `<html>${auth.good()?.refresh}</html>`;
    time.pass(3_600_000 - 1_000);
    expect(await call(server)).toMatchObject({ code: null });
    time.pass(1_000);
    const failed = await call(server);
    expect(failed).toMatchObject({ isError: true, code: 'TOOL_FAILED' });
    expect(failed.text).toMatch(/^The call was not run: 127\.0\.0\.1:\d+, where somebody is signed in, does not renew/);
    auth.faults.tokenStatus = null;
    expect(await call(server)).toMatchObject({ code: null });
    expect(turned).toEqual([null]);
    const files = readdirSync(join(dataDir, 'mcp-logins')).toSorted();
    expect(files).toEqual([/\.json$/, /\.lock$/].map((end) => expect.stringMatching(end)));
  });
});

describe('a login that is refused', () => {
  test('is an error of the call, is reported once with the command to run, and is not retried', async () => {
    const { auth, agent, logged, renewals } = await program();
    const { server, turned } = agent();
    await server.tools();
    auth.revoke();
    const first = await call(server);
    expect(first).toMatchObject({ isError: true, code: 'TOOL_FAILED' });
    expect(first.text).toBe(`The call was not run: its login has ended (invalid_grant): ${NEEDED}.`);
    expect((await call(server)).text).toContain(NEEDED);
    await expect(server.tools()).rejects.toThrow(NEEDED);
    expect(turned).toEqual([null, `its login has ended (invalid_grant): ${NEEDED}`]);
    expect(renewals()).toBe(1);
    expect(logged.filter((line) => line.startsWith('a login'))).toEqual([expect.stringContaining('invalid_grant')]);
  });

  test('ends for all agents, which are told once, and stays ended after a restart', async () => {
    const { auth, agent, renewals, dataDir, config, ports } = await program();
    const agents = [agent(), agent()];
    for (const { server } of agents) await server.tools();
    auth.revoke();
    await Promise.all(agents.map(({ server }) => call(server)));
    for (const { turned } of agents) expect(turned).toEqual([null, expect.stringContaining(NEEDED)]);
    const later = new ServerLogins(new LoginStore(dataDir), ports);
    expect(later.waiting({ web: config })).toEqual([{ server: 'web', why: expect.stringContaining(NEEDED) }]);
    expect(renewals()).toBe(1);
  });

  test('is used again as soon as somebody signs in, without a restart', async () => {
    const { auth, agent, signIn, logins, config } = await program();
    const { server, turned } = agent();
    await server.tools();
    auth.revoke();
    await call(server);
    await signIn();
    expect(logins.waiting({ web: config })).toEqual([]);
    expect(await server.tools()).toHaveLength(2);
    expect(await call(server)).toMatchObject({ code: null });
    expect(turned.at(-1)).toBeNull();
  });

  test('leaves no token behind', async () => {
    const { auth, agent, store } = await program();
    const { server } = agent();
    await server.tools();
    auth.revoke();
    await call(server);
    expect(store.read(auth.url)).toMatchObject({ tokens: null, refused: 'invalid_grant' });
  });

  test("leaves nothing behind when it is deleted, not even a killed program's temporary file", async () => {
    const { auth, store, dataDir } = await program();
    const folder = join(dataDir, 'mcp-logins');
    const name = readdirSync(folder).find((file) => file.endsWith('.json')) ?? fail();
    writeFileSync(join(folder, `${name}.1.new`), '{}');
    expect([store.remove(auth.url), store.remove(auth.url)]).toEqual([true, false]);
    expect(readdirSync(folder).filter((file) => file.includes('json'))).toEqual([]);
  });
});

describe('a server without a login', () => {
  test('reports the command to run once, and is usable after the sign-in', async () => {
    const { agent, signIn, logins, config } = await program({ isSignedIn: false });
    const { server, turned } = agent();
    await expect(server.tools()).rejects.toThrow(`nobody is signed in at it: ${NEEDED}`);
    await expect(server.tools()).rejects.toThrow(NEEDED);
    expect(turned).toEqual([expect.stringContaining(NEEDED)]);
    expect(logins.waiting({ web: config })).toHaveLength(1);
    await signIn();
    expect(await server.tools()).toHaveLength(2);
    expect(turned).toEqual([expect.stringContaining(NEEDED), null]);
  });

  test('is known to need a login before the first call, if the configuration says so', async () => {
    const { logins, config } = await program({ isSignedIn: false, more: { oauth: {} } });
    expect(logins.waiting({ web: config })).toHaveLength(1);
    expect(logins.waiting({ web: serverSchema.parse({ url: 'http://127.0.0.1:1/mcp' }) })).toEqual([]);
  });

  test('gets the configured header instead of a login', async () => {
    const { auth, agent } = await program({ more: { headers: { Authorization: 'Bearer t0k3n' } } });
    auth.presented.clear();
    await expect(agent().server.tools()).rejects.toThrow('it answered with 401');
    expect([...auth.presented]).toEqual(['Bearer t0k3n']);
  });

  test('with a configured key is not reported as needing a login, and uses a login once somebody signs in', async () => {
    const keyed = await program({ isSignedIn: false, more: { headers: { 'X-Api-Key': 'wrong' } } });
    await expect(keyed.agent().server.tools()).rejects.toThrow(/^it answered with 401$/);
    expect(keyed.logins.waiting({ web: keyed.config })).toEqual([]);
    await keyed.signIn();
    expect(await keyed.agent().server.tools()).toHaveLength(2);
  });

  test('gets no token that was made for another URL', async () => {
    const { auth, ports, logins } = await program();
    auth.presented.clear();
    const config = serverSchema.parse({ url: `${auth.url}?other` });
    const server = new McpServer('web', config, { ...ports, logins });
    closing.push(() => server.close());
    await expect(server.tools()).rejects.toThrow('it answered with 404');
    expect([...auth.presented]).toEqual([undefined]);
  });
});

describe('a server with a tool that needs more scope', () => {
  test('tells the model the missing scope, keeps its other tools, and gets both scopes with the next login', async () => {
    const { auth, agent, logins, config, signIn } = await program();
    const { server, turned } = agent();
    await server.tools();
    auth.faults.adminScope = 'admin:write';
    const refused = await call(server, 'admin');
    expect(refused).toMatchObject({ isError: true, code: 'TOOL_FAILED' });
    expect(refused.text).toBe(`The call was not run: it wants more than was granted (admin:write): ${NEEDED}.`);
    expect(await call(server)).toMatchObject({ code: null });
    expect(turned).toEqual([null]);
    expect(logins.waiting({ web: config })).toEqual([{ server: 'web', why: expect.stringContaining('admin:write') }]);
    await signIn();
    expect(auth.good()?.scope).toBe('read admin:write');
    expect(await call(server, 'admin')).toMatchObject({ code: null });
    expect(logins.waiting({ web: config })).toEqual([]);
  });
});

describe("a service's refusal", () => {
  test('is shown only if it is an error code', async () => {
    const { auth, agent, logged } = await program();
    const { server, turned } = agent();
    await server.tools();
    auth.expire();
    auth.faults.tokenStatus = 400;
    auth.faults.tokenBody = JSON.stringify({ error: '@everyone look at https://evil.example.org' });
    const { text } = await call(server);
    expect(text).toBe(`The call was not run: its login has ended (for a reason of its own): ${NEEDED}.`);
    expect([...turned, ...logged].join(' ')).not.toContain('evil');
  });
});

describe('a token', () => {
  test('is redacted as soon as it is issued, as plain text and in Base64', async () => {
    const { auth, agent, logins } = await program();
    const { server } = agent();
    await server.tools();
    auth.expire();
    await call(server);
    const { access = '', refresh = '' } = auth.good() ?? {};
    const known = new KnownSecrets(logins.secrets.map((value) => ({ name: 'a login', value })));
    expect(known.redact(`${access} ${Buffer.from(refresh).toString('base64')}`)).not.toMatch(/access-|cmVmcmVzaC/);
    expect(known.namesIn(refresh)).toEqual(['a login']);
  });

  test('is in no log line and no error, even when its service sends it back', async () => {
    const { auth, agent, logged } = await program();
    const { server } = agent();
    await server.tools();
    auth.expire();
    const { access = '', refresh = '' } = auth.good() ?? {};
    auth.faults.tokenStatus = 400;
    auth.faults.tokenBody = JSON.stringify({ error: 'invalid_grant', error_description: `${access} ${refresh}` });
    const { text } = await call(server);
    expect(logged.join()).toContain('invalid_grant');
    expect([text, ...logged].join()).not.toMatch(new RegExp(`${access}|${refresh}`));
  });

  test('is sent only to the service that issued it, whatever the server names later', async () => {
    const { auth, agent } = await program();
    const other = await startAuth();
    closing.push(() => other.close());
    const { server } = agent();
    await server.tools();
    auth.faults.signedInBy = other.issuer;
    const before = auth.asked.length;
    auth.expire();
    expect(await call(server)).toMatchObject({ code: null });
    expect(auth.asked.slice(before).map(({ path }) => path)).toEqual(['/token']);
    expect(other.asked).toEqual([]);
  });

  test('is not sent to this machine for a server on another machine', async () => {
    const { auth, store } = await program();
    const login: Login = { ...(store.read(auth.url) ?? fail()), url: 'https://tools.example.org/mcp' };
    const before = auth.asked.length;
    await expect(renewed(login, 0)).rejects.toThrow('it sends Conch to this machine');
    expect(auth.asked).toHaveLength(before);
  });

  test('that cannot be stored is used by its program, and stored as soon as possible', async () => {
    const { auth, agent, dataDir, logged } = await program();
    const { server } = agent();
    await server.tools();
    const folder = join(dataDir, 'mcp-logins');
    const name = readdirSync(folder).find((file) => file.endsWith('.json')) ?? fail();
    const inTheWay = join(folder, `${name}.${process.pid}.new`);
    mkdirSync(inTheWay);
    const kept = () => new LoginStore(dataDir).read(auth.url)?.tokens?.refresh;
    auth.expire();
    expect(await call(server)).toMatchObject({ code: null });
    expect(logged.filter((line) => line.startsWith('a login is not kept over a restart'))).toHaveLength(1);
    expect(kept()).not.toBe(auth.good()?.refresh);
    rmdirSync(inTheWay);
    expect(await call(server)).toMatchObject({ code: null });
    expect(kept()).toBe(auth.good()?.refresh);
  });

  test('for a program that is killed before receiving it leaves a complete login, which says what to run', async () => {
    const { auth, agent, dataDir, renewals } = await program();
    const child = spawn(process.execPath, [RENEW, dataDir, auth.url], { stdio: 'inherit' });
    const ended = new Promise<string | null>((resolve) => child.once('exit', (_, signal) => resolve(signal)));
    auth.faults.renewing = async () => {
      child.kill('SIGKILL');
      await ended;
    };
    expect(await ended).toBe('SIGKILL');
    auth.faults.renewing = null;
    const { server, turned } = agent();
    auth.expire();
    await expect(server.tools()).rejects.toThrow(`its login has ended (invalid_grant): ${NEEDED}`);
    expect([renewals(), turned]).toEqual([2, [expect.stringContaining(NEEDED)]]);
  });
});

const RENEW = fileURLToPath(new URL('fixtures/renew.ts', import.meta.url));

function fail(): never {
  throw new Error('nobody is signed in');
}

const realTimers = {
  after(ms: number, run: () => void) {
    const timer = setTimeout(run, ms);
    return { cancel: () => clearTimeout(timer) };
  },
};
