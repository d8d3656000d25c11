import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { McpServer } from '../../../src/agents/mcp/mcp-server.ts';
import type { McpPorts } from '../../../src/agents/mcp/mcp-connection.ts';
import type { McpServerConfig } from '../../../src/config/config.ts';
import { systemTimers } from '../../../src/lib/time.ts';
import { livingIn } from '../backends/acp/acp-rig.ts';
import { mcpPorts, numberIn, toolNamed, toolsServer } from './mcp-rig.ts';

const open: McpServer[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
});

function started(flags: readonly string[] = [], more: Partial<McpServerConfig> = {}, given: Partial<McpPorts> = {}) {
  const rig = mcpPorts();
  const server = new McpServer('raw', toolsServer(flags, more), { ...rig.ports, ...given });
  open.push(server);
  return { server, ...rig };
}

const call = (server: McpServer, name: string, input: Record<string, unknown> = {}, stopped = new AbortController()) =>
  server.call(toolNamed(name), { id: `call-${name}`, input, stopped: stopped.signal, progressed() {} });

const pidOf = async (server: McpServer): Promise<number> => numberIn((await call(server, 'pid')).text);

const names = async (server: McpServer): Promise<readonly string[]> => (await server.tools()).map(({ name }) => name);

/** Resolves when no process of the group is left. */
const gone = (pid: number) => vi.waitFor(() => expect(livingIn(pid)).toEqual([]), { timeout: 60_000 });

describe('an MCP server', () => {
  test('is started at its first use, and stays one process after two uses', async () => {
    const { server } = started();
    expect(await names(server)).toEqual(['echo', 'write', 'grow', 'rug']);
    const pid = await pidOf(server);
    expect(await pidOf(server)).toBe(pid);
    expect(livingIn(pid)).toEqual([pid]);
  });

  test('lists its tools as rules and models name them', async () => {
    const [echo] = await started().server.tools();
    expect(echo).toMatchObject({
      rule: 'mcp__raw__echo',
      alias: 'raw__echo',
      description: 'Says it again',
      claims: { readOnly: true, closedWorld: true, destructive: true },
    });
  });

  test('is usable even if it ends when asked for its protocol version', async () => {
    expect(await names(started(['ends-when-asked']).server)).toContain('echo');
  });

  test('may write lines that are no messages', async () => {
    expect((await call(started(['noise']).server, 'echo', { text: 'hello' })).text).toBe('hello');
  });

  test('gets the default variables and its configured variables, and no other variable of Conch', async () => {
    vi.stubEnv('GITHUB_TOKEN', 'secret');
    const { server } = started([], { env: { FILES: '/data' } });
    const env = Object.keys(JSON.parse((await call(server, 'env')).text) as object);
    vi.unstubAllEnvs();
    expect(env).toContain('FILES');
    expect(env).not.toContain('GITHUB_TOKEN');
  });

  test('has only the configured tools', async () => {
    expect(await names(started([], { tools: ['e*', 'grow'] }).server)).toEqual(['echo', 'grow']);
  });
});

describe('an idle server', () => {
  test('ends after ten minutes, and restarts when it is used', async () => {
    const { server, time } = started();
    const pid = await pidOf(server);
    await time.advance(599_999);
    expect(livingIn(pid)).toEqual([pid]);
    await time.advance(1);
    await gone(pid);
    expect(await pidOf(server)).not.toBe(pid);
  });

  test('that is stopped ends with its child processes', async () => {
    const { server } = started();
    const pid = await pidOf(server);
    const child = Number((await call(server, 'child')).text);
    expect(new Set(livingIn(pid))).toEqual(new Set([pid, child]));
    await server.stop();
    await gone(pid);
  });

  test('is killed when it ignores the end of its input and SIGTERM', async () => {
    const rig = mcpPorts();
    const ports = { ...rig.ports, timers: systemTimers, stopGraceMs: 20 };
    const server = new McpServer('raw', toolsServer(['ignores-term', 'ignores-end']), ports);
    const pid = await pidOf(server);
    const child = Number((await call(server, 'child')).text);
    expect(livingIn(pid)).toContain(child);
    await server.close();
    await gone(pid);
  });
});

describe('a server that cannot be started', () => {
  test('reports why', async () => {
    await expect(started(['fails']).server.tools()).rejects.toThrow(/^exited with code 3: no such folder$/);
    await expect(started([], { command: 'no-such-program' }).server.tools()).rejects.toThrow(
      'there is no program "no-such-program"',
    );
  });

  test('is retried after 1, 2, 4, 8 s, and given up after five failures', async () => {
    const { server, time, logged } = started(['fails']);
    const waits: unknown[] = [];
    for (const waitMs of [1_000, 2_000, 4_000, 8_000]) {
      await server.tools().catch(() => undefined);
      await time.advance(waitMs - 1);
      waits.push(await server.tools().catch((error: Error) => error.message));
      await time.advance(1);
    }
    expect(waits).toEqual(Array(4).fill('it is tried again in 1 s: exited with code 3: no such folder'));
    expect(server.down).toBeNull();
    await server.tools().catch(() => undefined);
    expect(server.down).toBe('exited with code 3: no such folder');
    await time.advance(3_600_000);
    await expect(server.tools()).rejects.toThrow('it is not tried again after 5 failures');
    expect(logged.filter((line) => line.startsWith('a server of tools failed'))).toHaveLength(4);
    expect(logged.at(-1)).toContain('a server of tools is given up');
  });

  test('is not given up for failures with successful calls between them', async () => {
    const { server, time } = started();
    for (let n = 0; n < 6; n += 1) {
      expect((await call(server, 'echo', { text: 'here' })).text).toBe('here');
      await call(server, 'crash');
      await vi.waitFor(() => expect(server.trouble).not.toBeNull(), { timeout: 60_000 });
      await time.advance(1_000);
    }
    expect(server.down).toBeNull();
  });

  test.each(['hangs', 'hangs-at-list'])('and %s is ended after its timeout', async (flag) => {
    const { server, time } = started([flag]);
    let why = '';
    void server.tools().catch((error: Error) => void (why = error.message));
    await vi.waitFor(
      async () => {
        await time.advance(1_000);
        expect(why).toMatch(/within (?:20|10) s$/);
      },
      { timeout: 60_000 },
    );
  });
});

describe('a call', () => {
  test('that the tool reports as failed has the outcome TOOL_FAILED and its text', async () => {
    const { server } = started();
    expect(await call(server, 'fail')).toMatchObject({ text: 'the disk is full', isError: true, code: 'TOOL_FAILED' });
  });

  test('whose server ends during it has the outcome UNKNOWN; a call after the backoff starts another process', async () => {
    const { server, time } = started();
    expect(await call(server, 'crash')).toMatchObject({ isError: true, code: 'UNKNOWN' });
    const refused = await call(server, 'echo');
    expect(refused.text).toMatch(/^The call was not run: it is tried again in 1 s: exited with code 7/);
    await time.advance(1_000);
    expect((await call(server, 'echo', { text: 'again' })).text).toBe('again');
  });

  test('that hangs ends after its timeout, and the server is told', async () => {
    const { server, time } = started();
    const hung = call(server, 'hang');
    // The server answers in order: it has read the call that hangs.
    await call(server, 'echo');
    await time.advance(59_999);
    expect(await Promise.race([hung, time.settle()])).toBeUndefined();
    await time.advance(1);
    expect(await hung).toMatchObject({ code: 'TIMEOUT', isError: true });
    expect(JSON.parse((await call(server, 'cancelled')).text)).toHaveLength(1);
  });

  test('that is stopped ends at once, and the server is told', async () => {
    const { server } = started();
    const stop = new AbortController();
    const hung = call(server, 'hang', {}, stop);
    await call(server, 'echo');
    stop.abort();
    expect(await hung).toMatchObject({ code: 'UNKNOWN' });
    expect(JSON.parse((await call(server, 'cancelled')).text)).toHaveLength(1);
  });

  test('with progress gets its whole timeout again', async () => {
    const { server, time } = started();
    await server.tools();
    const seen = Promise.withResolvers<void>();
    const stopped = new AbortController().signal;
    const late = server.call(toolNamed('progress'), { id: '1', input: {}, stopped, progressed: seen.resolve });
    await time.advance(0);
    time.pass(59_000);
    await seen.promise;
    await time.advance(59_999);
    let isOver = false;
    void late.then(() => void (isOver = true));
    await time.settle();
    expect(isOver).toBe(false);
    await time.advance(1);
    expect(await late).toMatchObject({ code: 'TIMEOUT' });
  });

  test.each(['flood', 'chatter'])('that the server answers with a %s ends the server', async (name) => {
    const { server, logged } = started();
    const pid = await pidOf(server);
    const outcome = await call(server, name);
    expect(outcome).toMatchObject({ code: 'UNKNOWN', isError: true });
    await gone(pid);
    expect(logged.join()).toContain('it sent more than 8 MiB without an answer');
  });

  test('that the server answers with a part of a line ends the server when the line grows over 8 MiB', async () => {
    const { server, logged } = started();
    const folder = mkdtempSync(join(tmpdir(), 'conch-line-'));
    const file = join(folder, 'read');
    const pid = await pidOf(server);
    const first = call(server, 'part', { file });
    await vi.waitFor(() => expect(existsSync(file)).toBe(true), { timeout: 60_000 });
    expect(await call(server, 'part', { file })).toMatchObject({ code: 'UNKNOWN' });
    expect(await first).toMatchObject({ code: 'UNKNOWN' });
    await gone(pid);
    expect(logged.join()).toContain('it sent more than 8 MiB without an answer');
    rmSync(folder, { recursive: true });
  });

  test('whose result does not match its output schema is complete, and its text is kept', async () => {
    const { server } = started(['promises']);
    await server.tools();
    expect(await call(server, 'promised')).toMatchObject({ text: 'done', isError: false, code: null });
  });

  test.each([1, 2, 3])('is read correctly wherever a character is split, %i', async (shift) => {
    const text = `${'.'.repeat(shift)}${'Hällo 🐚 '.repeat(100_000)}`;
    expect((await call(started().server, 'echo', { text })).text).toBe(text);
  });

  test('T79 gets its answer after 20,000 log messages of the server', async () => {
    expect(await call(started().server, 'notes', { count: 20_000 })).toMatchObject({ text: 'noted', isError: false });
  });

  test('with 5 MB of output is read completely', async () => {
    expect((await call(started().server, 'big', { bytes: 5_000_000 })).text).toHaveLength(5_000_000);
  });
});

describe('the list of tools', () => {
  test('is read again when the server reports a change', async () => {
    const { server } = started();
    expect(await names(server)).not.toContain('grown');
    await call(server, 'grow');
    await vi.waitFor(async () => expect(await names(server)).toContain('grown'), { timeout: 60_000 });
  });

  test('reports a tool whose definition differs from the first one shown', async () => {
    const { server, logged } = started();
    const [before] = await server.tools();
    expect(before && server.changeOf(before)).toBeNull();
    await call(server, 'rug');
    const changed = await vi.waitFor(
      async () => {
        const [echo] = await server.tools();
        if (echo === undefined || echo.digest === before?.digest) throw new Error('not yet');
        return echo;
      },
      { timeout: 60_000 },
    );
    expect(server.changeOf(changed)).toBe(
      'description was: Says it again\ndescription is: Says it again, and sends it to somebody else',
    );
    expect(logged.join()).toContain('a tool was changed');
    server.accept(changed);
    expect(server.changeOf(changed)).toBeNull();
  });

  test('reports a tool that changed since the last run, until somebody has seen the change', async () => {
    const kept = new Map<string, string>();
    const memory = {
      recall: (name: string) => kept.get(name) ?? null,
      remember: (name: string, text: string) => void kept.set(name, text),
    };
    const begin = (flags: readonly string[]) => started(flags, {}, { memory }).server;
    const echoOf = async (server: McpServer) => {
      const [echo] = await server.tools();
      if (echo === undefined) throw new Error('it has no tool');
      return echo;
    };
    await begin([]).tools();
    const changed = begin(['another']);
    const echo = await echoOf(changed);
    expect(changed.changeOf(echo)).toBe('description was: Says it again\ndescription is: Says it again, and keeps it');
    const later = begin(['another']);
    expect(later.changeOf(await echoOf(later))).not.toBeNull();
    later.accept(echo);
    const last = begin(['another']);
    expect(last.changeOf(await echoOf(last))).toBeNull();
  });

  test('reports a changed tool also after it had a thousand other tools, and each tool that came later', () => {
    const { server } = started();
    const others = Array.from({ length: 1_000 }, (_, at) => toolNamed(`other${at}`));
    for (const tool of [toolNamed('echo'), ...others]) server.accept(tool);
    const changed = { ...toolNamed('echo'), description: 'Sends it to somebody else', digest: 'other' };
    expect(server.changeOf(changed)).toContain('description is: Sends it to somebody else');
    expect(server.changeOf(toolNamed('echo'))).toBeNull();
    expect(server.changeOf(toolNamed('other999'))).toContain('more than 1000 tools');
  });

  test('has its changed description indented, so that no line looks like an input in the request', () => {
    const { server } = started();
    server.accept(toolNamed('echo'));
    const changed = { ...toolNamed('echo'), description: 'Says it\npath: /tmp/harmless', digest: 'other' };
    expect(server.changeOf(changed)).toBe('description was: \ndescription is: Says it\n  path: /tmp/harmless');
  });

  test('leaves out a tool whose description has invisible characters', async () => {
    const { server, logged } = started(['hidden', 'emoji']);
    expect(await names(server)).toEqual(['echo', 'write', 'grow', 'rug', 'nice']);
    expect(logged.join()).toContain('its definition has invisible characters');
  });

  test('T79 leaves out an entry that is no tool, with a warning', async () => {
    const { server, logged } = started(['bad']);
    expect(await names(server)).toEqual(['echo', 'write', 'grow', 'rug']);
    expect(logged.join()).toContain('"odd\\": its definition is not that of a tool');
    expect(logged.join()).toContain('a tool without a name: its definition is not that of a tool');
  });

  test('has names that every provider accepts, each once', async () => {
    const aliases = (await started(['long']).server.tools()).map(({ alias }) => alias);
    expect(aliases.filter((alias) => !/^[A-Za-z0-9_-]{1,64}$/.test(alias))).toEqual([]);
    expect(new Set(aliases).size).toBe(6);
    await expect(started(['clash']).server.tools()).rejects.toThrow(
      'its tools "a.b" and "a b" would have one name, raw__a-b',
    );
  });
});
