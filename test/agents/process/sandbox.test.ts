import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { homedir, networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { checkSandbox, sandboxArgs, sandboxFault } from '../../../src/agents/process/sandbox.ts';
import type { Program, SandboxMachine, SandboxNetwork } from '../../../src/agents/process/sandbox.ts';
import { startProcessGroup } from '../../../src/agents/process/process-group.ts';
import { systemClock, systemTimers } from '../../../src/lib/time.ts';
import { createBackends } from '../../../src/runtime/agent-factory.ts';
import { createLog } from '../../../src/runtime/log.ts';
import { serverSchema } from '../../../src/config/schema.ts';
import type { McpPorts } from '../../../src/agents/mcp/mcp-connection.ts';
import { McpPool } from '../../../src/agents/mcp/mcp-pool.ts';
import { mcpPorts } from '../mcp/mcp-rig.ts';
import { load } from '../../config/world.ts';
import { createAcpBackend } from '../../../src/agents/backends/acp/acp-backend.ts';
import { createToolServer } from '../../../src/agents/tools/tool-server.ts';
import { FAKE_ACP, acpRig } from '../backends/acp/acp-rig.ts';
import { prompt, recorder } from '../backends/conversation.ts';

const fault = await sandboxFault();
if (fault !== null) process.stderr.write(`The tests in a sandbox are skipped: ${fault}.\n`);

const FOLDERS = new Set(['/home', '/root', '/run', '/tmp', '/home/ann', '/home/ann/work', '/home/ann/bin', '/data']);
const machine: SandboxMachine = {
  kindOf: (path) =>
    FOLDERS.has(path) ? 'folder' : path.endsWith('.file') || path === '/home/ann/bin/dev' ? 'file' : null,
  realPath: (path) => path,
  temporary: ['/tmp'],
  home: '/home/ann',
};
const program: Program = {
  command: 'dev',
  args: ['--fast'],
  cwd: '/home/ann/work',
  env: { HOME: '/home/ann', PATH: '/usr/bin:/home/ann/bin:/home/ann/none:relative' },
};
const plan = { home: '/data/homes/dev', hidden: ['/data', '/home/ann/work/.env.file'], readable: [] };

/** Returns the mounts of a bubblewrap command in order, as `kind path` or `kind source target`. */
const mounts = (args: readonly string[]): readonly string[] =>
  args.flatMap((arg, at) =>
    arg === '--tmpfs'
      ? [`tmpfs ${args[at + 1]}`]
      : /^--(?:ro-)?bind$/.test(arg)
        ? [`${arg.slice(2)} ${args[at + 1]} ${args[at + 2]}`]
        : [],
  );

describe('the arguments of a sandbox', () => {
  test("mount everything read-only, hide homes and data, and make only the program's folder and home writable", () => {
    const args = sandboxArgs(program, plan, machine);
    expect(mounts(args)).toEqual([
      'ro-bind / /',
      'tmpfs /root',
      'tmpfs /home',
      'tmpfs /run',
      'tmpfs /tmp',
      'tmpfs /data',
      'tmpfs /home/ann',
      'bind /data/homes/dev /home/ann',
      'ro-bind /home/ann/bin /home/ann/bin',
      'bind /home/ann/work /home/ann/work',
      'ro-bind /dev/null /home/ann/work/.env.file',
    ]);
    expect(args.slice(-5)).toEqual(['--chdir', '/home/ann/work', '--', 'dev', '--fast']);
    expect([args.includes('--unshare-net'), args.includes('--die-with-parent')]).toEqual([true, true]);
  });

  test('put the network relay before the program', () => {
    const args = sandboxArgs(program, { ...plan, prefix: ['node', 'relay', 'socket'] }, machine);
    expect(args.slice(-6)).toEqual(['--', 'node', 'relay', 'socket', 'dev', '--fast']);
  });

  test.each(['/home/ann', '/home', '/', '/tmp', '/data'])(
    'refuse the folder %s, which contains hidden folders',
    (cwd) => {
      expect(() => sandboxArgs({ ...program, cwd }, plan, machine)).toThrow('give it a folder of its own');
    },
  );

  test("hide this user's home even if the program has another one", () => {
    const args = mounts(sandboxArgs({ ...program, env: { HOME: '/home/ann/bin' } }, plan, machine));
    expect(args).toContain('tmpfs /home/ann');
    expect(args).toContain('bind /data/homes/dev /home/ann/bin');
  });

  test('open no hidden folder that the PATH names', () => {
    const env = { HOME: '/home/ann', PATH: '/home/ann:/home:/data:/tmp:/' };
    expect(
      mounts(sandboxArgs({ ...program, env }, plan, machine)).filter((each) => each.startsWith('ro-bind')),
    ).toEqual(['ro-bind / /', 'ro-bind /dev/null /home/ann/work/.env.file']);
  });
});

describe('a machine without bubblewrap', () => {
  const { PATH } = process.env;
  afterEach(() => void (process.env['PATH'] = PATH));

  test('starts nothing, and reports what to do', async () => {
    process.env['PATH'] = '/nowhere';
    await expect(checkSandbox()).rejects.toThrow('bubblewrap (bwrap) is not installed. Install bubblewrap');
    const options = { command: '/bin/true', args: [], cwd: '/', env: {}, timers: systemTimers };
    await expect(startProcessGroup({ ...options, sandbox: { ...plan, network: null } })).rejects.toMatchObject({
      terminal: true,
    });
  });
});

/** Returns a script's request through the proxy at port 3128, as from a program that always uses a proxy. */
const askProxy = (host: string): string =>
  `new Promise((done, fail) => require('http').get({ host: '127.0.0.1', port: 3128, path: 'http://${host}/', headers: { host: '${host}' } }, (r) => r.statusCode === 200 ? r.on('data', (data) => done(new Response(data))) : fail()).on('error', fail))`;

const SEAT = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' };

const planOf = (place: string) => ({
  home: join(place, 'data/homes/dev'),
  hidden: [join(place, 'data'), join(place, 'work/vars.txt')],
  readable: [],
  network: { hosts: null, ports: [] },
});

describe.skipIf(fault !== null)('a program in a sandbox', () => {
  let place = '';
  beforeEach(() => {
    place = realpathSync(mkdtempSync(join(process.cwd(), 'node_modules/.conch-sandbox-')));
    for (const each of ['work', 'data']) mkdirSync(join(place, each));
    writeFileSync(join(place, 'data/console-token'), 'secret');
    writeFileSync(join(place, 'work/vars.txt'), 'secret');
    writeFileSync(join(place, 'outside'), 'before');
  });
  afterEach(() => rmSync(place, { recursive: true, force: true }));

  const run = async (
    script: string,
    network: SandboxNetwork | null = { hosts: null, ports: [] },
    variables: Readonly<Record<string, string>> = {},
  ) => {
    const group = await startProcessGroup({
      command: 'sh',
      args: ['-c', script],
      cwd: join(place, 'work'),
      env: { PATH: process.env['PATH'] ?? '', HOME: homedir(), PLACE: place, ...variables },
      timers: systemTimers,
      sandbox: { ...planOf(place), network },
    });
    const [out, end] = await Promise.all([text(group.stdout), group.exited]);
    return { out: out.trim(), code: end.code };
  };

  test('can write only to its folder and its own home', async () => {
    await run(
      'echo a > file; echo b > ~/file; echo c > "$PLACE/outside"; echo d > /etc/conch-test; echo e > /tmp/conch-test-x',
    );
    expect(readFileSync(join(place, 'work/file'), 'utf8')).toBe('a\n');
    expect(readFileSync(join(place, 'data/homes/dev/file'), 'utf8')).toBe('b\n');
    expect(readFileSync(join(place, 'outside'), 'utf8')).toBe('before');
    expect([existsSync('/etc/conch-test'), existsSync('/tmp/conch-test-x')]).toEqual([false, false]);
  });

  test('finds no token of Conch, no .env file and no other process', async () => {
    const looks = 'cat "$PLACE/data/console-token" vars.txt; ls "$PLACE/data"; ls -d /proc/[0-9]* | wc -l';
    const { out } = await run(looks);
    expect(out).toMatch(/^[1-7]$/);
  });

  test('ends with its own exit code, with no process left', async () => {
    expect((await run('exit 7')).code).toBe(7);
    await run('(sleep 1; echo late > late) & exit 0');
    expect(existsSync(join(place, 'work/late'))).toBe(false);
  });

  test("T72 reaches only Conch's servers on this machine, and the configured hosts at their ports", async () => {
    const server = createServer((_, response) => response.end('here')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const at = `127.0.0.1:${port}`;
    const direct = `fetch('http://${at}')`;
    const [byProxy, byName] = [at, `localhost:${port}`].map(askProxy);
    const seen = async (network: SandboxNetwork | null) => {
      const asks = [direct, byProxy, byName].map(
        (ask) => `${ask}.then(async (r) => await r.text(), () => 'none').then((t) => all.push(t))`,
      );
      const script = `const all = []; (async () => { for (const ask of [${asks.map((ask) => `() => ${ask}`).join()}]) await ask(); console.log(all.join()); })()`;
      writeFileSync(join(place, 'work/ask.cjs'), script);
      return (await run(`${process.execPath} ask.cjs`, network)).out;
    };
    expect(await seen({ hosts: null, ports: [] })).toBe('none,none,none');
    expect(await seen(null)).toBe('none,none,none');
    expect(await seen({ hosts: [], ports: [port] })).toBe('here,here,none');
    expect(await seen({ hosts: [at], ports: [] })).toBe('here,here,none');
    expect(await seen({ hosts: ['example.org', `127.0.0.1:${port + 1}`], ports: [] })).toBe('none,none,none');
    server.close();
  });

  test('T72 does not reach this machine by an IPv6 address that maps an IPv4 address of it', async () => {
    const server = createServer((_, response) => response.end('here')).listen(0);
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const own = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
    for (const { address } of own.filter(({ family }) => family === 'IPv4')) {
      const ask = `${askProxy(`[::ffff:${address}]:${port}`)}.then(() => 'here', () => 'none').then(console.log)`;
      writeFileSync(join(place, 'work/ask.cjs'), ask);
      expect((await run(`${process.execPath} ask.cjs`)).out).toBe('none');
    }
  });

  test('T72 does not reach this machine by a name through a proxy that runs here', async () => {
    const upstream = createServer((_, response) => response.end('proxied')).listen(0, '127.0.0.1');
    await once(upstream, 'listening');
    onTestFinished(() => void upstream.close());
    const { port } = upstream.address() as AddressInfo;
    const asks = ['localhost:80', '127.1:80', 'elsewhere.invalid:80'].map(
      (host) => `await ${askProxy(host)}.then((r) => r.text(), () => 'none')`,
    );
    writeFileSync(join(place, 'work/ask.cjs'), `(async () => console.log([${asks.join()}].join()))()`);
    const network = { hosts: null, ports: [] };
    const { out } = await run(`${process.execPath} ask.cjs`, network, { HTTPS_PROXY: `http://127.0.0.1:${port}` });
    expect(out).toBe('none,none,proxied');
  });

  test("T72 that is a coding agent answers as usual, uses the floor's tools, and reaches nothing else on this machine", async () => {
    const rig = await acpRig();
    const toolServer = createToolServer();
    const network = { hosts: [`127.0.0.1:${rig.env['RIG_PORT']}`], ports: [] };
    const backend = createAcpBackend({
      profile: 'generic',
      command: process.execPath,
      args: [FAKE_ACP],
      env: rig.env,
      quietMs: 30,
      toolServer,
      cwd: join(place, 'work'),
      sandbox: { ...planOf(place), network },
    });
    const session = await backend.open(SEAT);
    const heard = recorder();
    rig.play({ do: 'say', text: 'by a tool' }, { do: 'write', text: 'Noted.' });
    await session.prompt(prompt({ text: 'Build it' }), heard.report);
    expect(heard.messages.join('')).toMatch(/by a tool[^]*Noted\./);
    expect(rig.told.environments[0]?.['HOME']).toBe(homedir());
    await session.close();
    await toolServer.close();
    await rig.stop();
  });

  test("that is an agent's command is contained only if the agent's configuration sets `sandbox`", async () => {
    const config = load({
      agents: [agentOf(true), { ...agentOf('offline'), id: 'off' }, { ...agentOf(false), id: 'free' }],
      channels: [{ id: 'console:a', agents: ['dev', 'off', 'free'] }],
    });
    const dataDir = join(place, 'data');
    const parts = {
      clock: systemClock(),
      timers: systemTimers,
      log: createLog({ level: 'fatal', pretty: false, secrets: [] }),
    };
    const backends = await createBackends({ ...parts, config: { ...config, dataDir } });
    const said = config.agents.map(async (agent) => {
      const session = await backends.backendFor(agent).open(SEAT);
      const heard = recorder();
      await session.prompt(prompt({ text: 'Build it' }), heard.report);
      return heard.messages.join('').trim();
    });
    expect(await Promise.all(said)).toEqual(['hidden', 'hidden', 'secret']);
    await backends.stop();
  });

  test("T72 that is an agent's MCP server is contained as the agent is", async () => {
    const server = `import { readFileSync, writeFileSync } from 'node:fs';
      const attempt = (act) => { try { act(); return 'yes'; } catch { return 'no'; } };
      const answer = [
        attempt(() => readFileSync('${join(place, 'data/console-token')}')),
        attempt(() => writeFileSync('${join(place, 'outside')}', 'after')),
        attempt(() => writeFileSync('by-server', 'mine')),
      ].join();
      for await (const line of (await import('node:readline')).createInterface({ input: process.stdin })) {
        const { id, method, params } = JSON.parse(line);
        const result = method === 'initialize'
          ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'x', version: '1' } }
          : method === 'tools/list'
            ? { tools: [{ name: 'look', description: answer, inputSchema: { type: 'object' } }] }
            : null;
        if (id === undefined) continue;
        const end = result === null ? { error: { code: -32601, message: 'no' } } : { result };
        console.log(JSON.stringify({ jsonrpc: '2.0', id, ...end }));
      }`;
    writeFileSync(join(place, 'server.mjs'), server);
    const config = serverSchema.parse({ command: process.execPath, args: [join(place, 'server.mjs')] });
    const sandbox = { plan: planOf(place), cwd: join(place, 'work') };
    const said = async (sandboxOf: McpPorts['sandboxOf']) => {
      const { ports } = mcpPorts();
      const real = { ...ports, clock: systemClock(), timers: systemTimers, ...(sandboxOf && { sandboxOf }) };
      const pool = new McpPool(() => ({ x: config }), real);
      const { tools, absent } = await pool.open({ channel: 'console:demo', agent: 'dev' }).offer(() => true);
      await pool.close();
      return [...absent.values(), ...tools.map(({ description }) => description)].join();
    };
    expect(await said(() => sandbox)).toContain('no,no,yes');
    expect(readFileSync(join(place, 'work/by-server'), 'utf8')).toBe('mine');
    expect(readFileSync(join(place, 'outside'), 'utf8')).toBe('before');
    expect(await said(undefined)).toContain('yes,yes,yes');
    rmSync(join(process.cwd(), 'by-server'));
  });

  const agentOf = (sandbox: boolean | 'offline') => ({
    id: 'dev',
    backend: {
      kind: 'command',
      command: 'sh',
      args: ['-c', `cat >/dev/null; cat ${join(place, 'data/console-token')} 2>/dev/null || echo hidden`],
      cwd: join(place, 'work'),
      sandbox,
    },
  });
});
