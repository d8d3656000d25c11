import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { LoginStore } from '../../src/agents/mcp/login-store.ts';
import { serverSchema } from '../../src/config/schema.ts';
import { runLoginCall } from '../../src/cli/mcp-login.ts';
import type { LoginCall } from '../../src/cli/mcp-login.ts';
import { browse, startAuth } from '../agents/mcp/auth-rig.ts';
import { createTime } from '../agents/time.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

/** A terminal that runs `conch mcp`, with an MCP server ("web") and its authorization server. */
async function terminal(more: object = {}) {
  const rig = await startAuth();
  const dataDir = mkdtempSync(join(tmpdir(), 'conch-logins-'));
  closing.push(
    () => rm(dataDir),
    () => rig.close(),
  );
  const store = new LoginStore(dataDir);
  const time = createTime();
  const shown: string[] = [];
  const addresses: string[] = [];
  const waiting: ((address: string) => void)[] = [];
  const out = (text: string) => {
    shown.push(text);
    const address = /^ {2}(http\S+)$/m.exec(text)?.[1];
    if (address === undefined) return;
    addresses.push(address);
    waiting.shift()?.(address);
  };
  const typed = new TransformStream<string, string>();
  const writer = typed.writable.getWriter();
  const lines = typed.readable;
  const ending = new AbortController();
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const mcp = {
    web: serverSchema.parse({ url: rig.url, ...more }),
    files: serverSchema.parse({ command: 'mcp-files' }),
  };
  const ports = { config: { mcp }, store, out, err: out, lines, ...time, log };
  const run = (call: LoginCall) => runLoginCall(call, { ...ports, signal: ending.signal });
  const login = () => {
    const opened = new Promise<string>((resolve) => waiting.push(resolve));
    const code = run({ verb: 'mcp login', server: 'web' });
    return { code, address: Promise.race([opened, code.then(() => '')]) };
  };
  const paste = (text: string) => void writer.write(text);
  const text = () => shown.join('');
  const read = () => store.read(rig.url);
  return { rig, dataDir, run, login, paste, text, read, time, end: () => ending.abort(), asked: () => rig.asked };
}

function rm(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}

/** Signs in with a browser on this machine. Returns the exit code. */
async function signIn({ login }: Awaited<ReturnType<typeof terminal>>): Promise<number> {
  const { code, address } = login();
  const back = await browse(await address);
  expect(await fetch(back).then((response) => response.text())).toContain('Conch is signed in');
  return await code;
}

describe('conch mcp login', () => {
  test('signs in with a browser on this machine, with PKCE, and gets a token for that server only', async () => {
    const here = await terminal();
    expect(await signIn(here)).toBe(0);
    const address = new URL(/^ {2}(http\S+)$/m.exec(here.text())?.[1] ?? '');
    expect(Object.fromEntries(address.searchParams)).toMatchObject({
      code_challenge_method: 'S256',
      resource: here.rig.url,
      scope: 'read',
      redirect_uri: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/callback$/),
    });
    expect(
      here
        .asked()
        .find(({ path }) => path === '/token')
        ?.form.get('resource'),
    ).toBe(here.rig.url);
    expect(here.read()).toMatchObject({ issuer: here.rig.issuer, tokens: { access: here.rig.good()?.access } });
  });

  test('names the server of the account, and prints no token', async () => {
    const here = await terminal();
    await signIn(here);
    expect(here.text()).toContain(`lends Conch an account at ${new URL(here.rig.issuer).host}`);
    expect(here.text()).toContain('for everybody who asks them');
    expect(here.text()).toMatch(/web: signed in by http:\S+ since \S+ \(read\), renewed automatically/);
    const { access = '', refresh = '' } = here.rig.good() ?? {};
    expect(here.text()).not.toContain(access);
    expect(here.text()).not.toContain(refresh);
  });

  test('keeps its tokens in files that only this user can read', async () => {
    const here = await terminal();
    await signIn(here);
    const folder = join(here.dataDir, 'mcp-logins');
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    const modes = readdirSync(folder).map((file) => statSync(join(folder, file)).mode & 0o777);
    expect(modes).toEqual(modes.map(() => 0o600));
    expect(modes.length).toBeGreaterThan(0);
  });

  test('accepts a pasted callback address, and says what is wrong with any other line', async () => {
    const here = await terminal();
    const { code, address } = here.login();
    const back = await browse(await address);
    here.paste('hello');
    here.paste(back.replace(/state=[^&]+/, 'state=another'));
    here.paste(`  ${back}  `);
    expect(await code).toBe(0);
    expect(here.text()).toContain('Wrong address: it begins with "http://127.0.0.1"');
    expect(here.text()).toContain('That address belongs to another sign-in');
  });

  test('refuses a callback with another state, and keeps waiting for its own', async () => {
    const here = await terminal();
    const { code, address } = here.login();
    const back = await browse(await address);
    const forged = await fetch(back.replace(/state=[^&]+/, 'state=forged'));
    expect([forged.status, await forged.text()]).toEqual([400, expect.stringContaining('not the end of the login')]);
    expect(here.asked().some(({ path }) => path === '/token')).toBe(false);
    await fetch(back);
    expect(await code).toBe(0);
  });

  test.each([['another issuer', 'https://evil.example.org']])(
    'requests no token when the callback names %s',
    async (_, iss) => {
      const here = await terminal();
      here.rig.faults.iss = iss;
      const { code, address } = here.login();
      const page = await fetch(await browse(await address)).then((response) => response.text());
      expect(page).toContain('The terminal says why');
      expect(await code).toBe(10);
      expect(here.text()).toContain('the answer comes from another service than the one that was asked');
      expect(here.asked().some(({ path }) => path === '/token')).toBe(false);
      expect(here.read()).toBeNull();
    },
  );

  test('fails when the callback repeats a code that was used before', async () => {
    const here = await terminal();
    const first = here.login();
    const back = new URL(await browse(await first.address));
    await fetch(back);
    expect(await first.code).toBe(0);
    const second = here.login();
    const replayed = new URL(await browse(await second.address));
    replayed.searchParams.set('code', back.searchParams.get('code') ?? '');
    await fetch(replayed);
    expect(await second.code).toBe(10);
    expect(here.text()).toContain('its service refused (invalid_grant)');
  });

  test.each([
    ['the person says no', { error: 'access_denied' }, 'it was refused there (access_denied)'],
    ['its tokens are of another kind', { tokenType: 'DPoP' }, 'its tokens are of a kind that Conch cannot use (DPoP)'],
    ['the service answers a page', { tokenStatus: 500 }, 'its service answered something that cannot be understood'],
    ['the service sends elsewhere', { movedTo: 'https://evil.example.org/token' }, 'cannot be understood'],
  ])('says the reason when %s', async (_, faults, words) => {
    const here = await terminal();
    Object.assign(here.rig.faults, faults);
    const { code, address } = here.login();
    await fetch(await browse(await address));
    expect(await code).toBe(10);
    expect(here.text()).toContain(words);
    expect(here.read()).toBeNull();
  });

  test.each([
    [
      'says that it is another one',
      { describedAs: 'https://evil.example.org' },
      'says of itself that it is another one',
    ],
    ['can be read on the way', { signedInBy: 'http://login.example.org' }, 'where others could read along'],
    ['registers no programs', { registers: false }, 'write its id as oauth.clientId'],
    ['is not there', { signedInBy: 'http://127.0.0.1:1' }, 'it cannot be reached'],
  ])('fails before the browser opens when the service %s', async (_, faults, words) => {
    const here = await terminal();
    Object.assign(here.rig.faults, faults);
    expect(await here.run({ verb: 'mcp login', server: 'web' })).toBe(10);
    expect(here.text()).toContain(words);
  });

  test('uses the configured client id and scopes, and sends them to no issuer but the configured one', async () => {
    const here = await terminal({ oauth: { clientId: 'configured', scopes: ['read', 'write'] } });
    here.rig.faults.registers = false;
    expect(await signIn(here)).toBe(0);
    expect(here.read()).toMatchObject({ client: { client_id: 'configured' }, tokens: { scope: 'read write' } });
    const oauth = { clientId: 'configured', clientSecret: 'very-secret', issuer: 'https://login.example.org' };
    const other = await terminal({ oauth });
    expect(await other.run({ verb: 'mcp login', server: 'web' })).toBe(10);
    expect(other.text()).toContain('and the configuration that https://login.example.org does');
    expect(JSON.stringify(other.asked().map(({ form }) => String(form)))).not.toContain('very-secret');
  });

  test('ends after ten minutes without an answer, and when it is aborted', async () => {
    const late = await terminal();
    const waited = late.login();
    await waited.address;
    await late.time.advance(600_000);
    expect(await waited.code).toBe(10);
    expect(late.text()).toContain('the browser did not return within 10 minutes');
    const ended = await terminal();
    const { code, address } = ended.login();
    await address;
    ended.end();
    expect(await code).toBe(10);
  });

  test('ends at once, and stores nothing, when it is aborted while a service does not answer', async () => {
    const early = await terminal();
    const silent = createServer();
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    closing.push(() => silent.close().closeAllConnections());
    const silentAt = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const requested = () => new Promise((resolve) => silent.once('request', resolve));
    early.rig.faults.signedInBy = silentAt;
    const first = requested();
    const code = early.run({ verb: 'mcp login', server: 'web' });
    await first;
    early.end();
    expect(await code).toBe(10);
    expect(early.text()).toContain('the login was stopped');
    expect(early.read()).toBeNull();
  });

  test.each([
    ['wep', 'Did you mean "web"?'],
    ['files', 'files is a program on this machine and needs no login.'],
  ])('refuses the server %s, and says why', async (server, words) => {
    const here = await terminal();
    expect(await here.run({ verb: 'mcp login', server })).toBe(2);
    expect(here.text()).toContain(words);
  });

  test('refuses a server that has an Authorization header', async () => {
    const here = await terminal({ headers: { authorization: 'Bearer t0k3n' } });
    expect(await here.run({ verb: 'mcp login', server: 'web' })).toBe(2);
    expect(here.text()).toContain('remove one of them');
  });

  test('replaces a damaged file', async () => {
    const here = await terminal();
    await signIn(here);
    const folder = join(here.dataDir, 'mcp-logins');
    const file = readdirSync(folder).find((name) => name.endsWith('.json')) ?? '';
    writeFileSync(join(folder, file), '{ "half": ');
    expect(await here.run({ verb: 'mcp list', json: false })).toBe(0);
    expect(here.text()).toMatch(/is damaged: delete it, and sign in again/);
    expect(await signIn(here)).toBe(0);
    expect(JSON.parse(readFileSync(join(folder, file), 'utf8'))).toMatchObject({ url: here.rig.url });
  });
});

describe('conch mcp list and logout', () => {
  test('show the servers where Conch is signed in, and the command for the others', async () => {
    const here = await terminal({ oauth: {} });
    await here.run({ verb: 'mcp list', json: false });
    expect(here.text()).toContain('nobody is signed in at it: run "conch mcp login web"');
    expect(here.text()).toContain('files: a program on this machine, without a login');
    await signIn(here);
    await here.run({ verb: 'mcp list', json: true });
    const [web, files] = JSON.parse(here.text().trim().split('\n').at(-1) ?? '');
    expect(web).toMatchObject({ server: 'web', state: 'signed in', issuer: here.rig.issuer, scope: 'read', why: null });
    expect(files).toMatchObject({ server: 'files', state: 'none', url: null });
  });

  test('delete the tokens, and say so when there are none', async () => {
    const here = await terminal();
    await signIn(here);
    expect(await here.run({ verb: 'mcp logout', server: 'web' })).toBe(0);
    expect(here.read()).toBeNull();
    expect(await here.run({ verb: 'mcp logout', server: 'web' })).toBe(0);
    expect(here.text()).toContain('Conch was not signed in at web.');
  });
});
