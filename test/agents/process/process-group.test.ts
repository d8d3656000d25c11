import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, test, vi } from 'vitest';
import { childEnvironment, secretsOf, startProcessGroup } from '../../../src/agents/process/process-group.ts';
import { systemTimers } from '../../../src/lib/time.ts';
import { processes } from '../../lib/processes.ts';
import { livingIn } from '../backends/acp/acp-rig.ts';

const run = (code: string, env: Record<string, string> = {}) =>
  startProcessGroup({ command: process.execPath, args: ['-e', code], cwd: process.cwd(), env, timers: systemTimers });

const guardsOf = (program: number | undefined): readonly number[] =>
  processes().flatMap(({ pid, parent, command }) => (parent === program && command === 'sh' ? [pid] : []));

describe('a process group', () => {
  test.for(['SIGTERM', 'SIGKILL'] as const)('ends when the program that started it is ended by %s', async (signal) => {
    const program = spawn(process.execPath, [fileURLToPath(new URL('fixtures/start-group.ts', import.meta.url))]);
    const { promise, resolve } = Promise.withResolvers<number>();
    createInterface({ input: program.stdout }).once('line', (line) => resolve(Number(line)));
    const pid = await promise;
    expect(livingIn(pid)).toEqual([pid]);
    program.kill(signal);
    await vi.waitFor(() => expect(livingIn(pid)).toEqual([]), { timeout: 60_000 });
  });

  test('ends with the program that started it even if its guard was killed first', async () => {
    const program = spawn(process.execPath, [fileURLToPath(new URL('fixtures/start-group.ts', import.meta.url))]);
    const { promise, resolve } = Promise.withResolvers<number>();
    createInterface({ input: program.stdout }).once('line', (line) => resolve(Number(line)));
    const group = await promise;
    const [guard] = guardsOf(program.pid);
    if (guard === undefined) throw new Error('no guard was started');
    process.kill(guard, 'SIGKILL');
    await vi.waitFor(() => expect(guardsOf(program.pid)).toEqual([expect.not.toSatisfy((pid) => pid === guard)]), {
      timeout: 60_000,
    });
    program.kill('SIGKILL');
    await vi.waitFor(() => expect(livingIn(group)).toEqual([]), { timeout: 60_000 });
  });

  test('shares one guard process with all other groups; the guard ends a minute after the last of them', async () => {
    const timeouts = vi.spyOn(globalThis, 'setTimeout');
    const groups = await Promise.all([1, 2, 3].map(() => run('process.stdin.once("data", () => process.exit(0))')));
    expect(guardsOf(process.pid)).toHaveLength(1);
    for (const group of groups) group.stdin.write('end');
    await Promise.all(groups.map(({ exited }) => exited));
    expect(guardsOf(process.pid)).toHaveLength(1);
    const [endGuard] = timeouts.mock.calls.findLast(([, ms]) => ms === 60_000) ?? [];
    timeouts.mockRestore();
    endGuard?.();
    await vi.waitFor(() => expect(guardsOf(process.pid)).toEqual([]), { timeout: 60_000 });
    const next = await run('process.stdin.once("data", () => process.exit(0))');
    expect(guardsOf(process.pid)).toHaveLength(1);
    next.stdin.write('end');
    await next.exited;
  });

  test('that is stopped gets SIGTERM, and may end by itself', async () => {
    const group = await run(
      'process.on("SIGTERM", () => process.exit(0)); console.log("up"); setInterval(() => {}, 1000)',
    );
    await new Promise((resolve) => group.stdout.once('data', resolve));
    await group.stop(20_000);
    expect(await group.exited).toMatchObject({ code: 0, signal: null });
    await vi.waitFor(() => expect(livingIn(group.pid)).toEqual([]), { timeout: 60_000 });
  });

  test('sends SIGTERM to the processes that its first process left behind, and ends with them', async () => {
    const left =
      'process.on("SIGTERM", () => { console.log("asked"); process.exit() }); console.log("up"); setInterval(() => {}, 9)';
    const group = await run(
      `require("child_process").spawn(process.execPath, ["-e", ${JSON.stringify(left)}], { stdio: "inherit" }); process.stdin.once("data", () => process.exit(0))`,
    );
    let words = '';
    group.stdout.setEncoding('utf8').on('data', (text: string) => void (words += text));
    await vi.waitFor(() => expect(words).toBe('up\n'), { timeout: 60_000 });
    group.stdin.write('end');
    expect(await group.exited).toMatchObject({ code: 0 });
    expect(livingIn(group.pid)).toEqual([]);
    await vi.waitFor(() => expect(words).toBe('up\nasked\n'), { timeout: 60_000 });
  });

  test('T1 continues when one of its pipes breaks', async () => {
    const group = await run('require("fs").closeSync(0); setInterval(() => {}, 1000); console.log("up")');
    await new Promise((resolve) => group.stdout.once('data', resolve));
    const writing = new Promise((resolve) => group.stdin.write('x'.repeat(1_000_000), resolve));
    expect(await writing).toMatchObject({ code: 'EPIPE' });
    group.stdout.destroy(new Error('the pipe broke'));
    await new Promise(setImmediate);
    await group.stop(20_000);
    expect(await group.exited).toMatchObject({ signal: 'SIGTERM' });
  });

  test('reports the last line of its standard error, with the secrets of its environment redacted', async () => {
    const group = await run('console.error("first\\nbad key " + process.env.API_KEY); process.exitCode = 2', {
      API_KEY: 'sk-123456',
    });
    expect((await group.exited).words).toBe('exited with code 2: bad key [secret]');
    await group.stop(0);
  });

  test('keeps no part of a secret when its kept standard error begins inside the secret', async () => {
    const filler = '-'.repeat(4_086);
    const { exited } = await run(`console.error("key " + process.env.API_KEY + "${filler}")`, {
      API_KEY: 'sk-123456789abcdef',
    });
    const { stderr } = await exited;
    expect(stderr).toContain(filler);
    expect(stderr.replaceAll('-', '')).not.toMatch(/\w{8,}/);
    expect(stderr).not.toContain('def');
  });

  test.for([
    ['throw new TypeError("no such model\\nmore")', /^exited with code 1: TypeError: no such model$/],
    [
      'require("fs").readFileSync("/home/anna/secrets/key.pem")',
      /^exited with code 1: Error: ENOENT: .*open 'key.pem'$/,
    ],
    ['Promise.reject(new Error("quota in /srv/app/config.json"))', /^exited with code 1: Error: quota in config.json$/],
    [
      'console.error("cannot open /var/lib/agent/state.db: locked"); process.exitCode = 4',
      /^exited with code 4: cannot open state.db: locked$/,
    ],
    [
      'console.error("see https://example.org/docs/start"); process.exitCode = 4',
      /^exited with code 4: see https:\/\/example.org\/docs\/start$/,
    ],
    ['console.error("Error: " + "x".repeat(500)); process.exitCode = 1', /^exited with code 1: Error: x{153}…$/],
  ] as const)('T29 reports for %s the line with the reason, short and without paths', async ([code, words]) => {
    const { exited } = await run(code);
    expect((await exited).words).toMatch(words);
  });

  test('T29 keeps the end of its standard error for the log', async () => {
    const { exited } = await run('throw new Error("why")');
    const { words, stderr } = await exited;
    expect(words).toBe('exited with code 1: Error: why');
    expect(stderr).toMatch(/Error: why\nat .*\n[^]*Node\.js v\d/);
  });
});

describe('the environment of a child', () => {
  const from = { PATH: '/bin', LC_ALL: 'C', SLACK_TOKEN: 'x', MY_KEY: 'secret-key', NODE_OPTIONS: '--inspect' };

  test('has the default variables, the inherited variables and the configured variables', () => {
    expect(childEnvironment({ from, pass: ['MY_KEY', 'ABSENT'], set: { LC_ALL: 'de', OWN: '1' } })).toEqual({
      PATH: '/bin',
      LC_ALL: 'de',
      MY_KEY: 'secret-key',
      OWN: '1',
    });
  });

  test.for(['NODE_OPTIONS', 'GIT_DIR', 'LD_PRELOAD', 'DYLD_INSERT_LIBRARIES'])('never holds %s', (name) => {
    expect(() => childEnvironment({ from, pass: [name] })).toThrow(name);
    expect(() => childEnvironment({ from, set: { [name]: 'x' } })).toThrow(name);
  });

  test('T29 has as secrets the values with secret-sounding names and the passwords in URLs, if longer than 5 characters', () => {
    const proxies = { HTTPS_PROXY: 'http://anna:pass-word@proxy.test:8080', HTTP_PROXY: 'http://anna:a@proxy.test' };
    const databases = { MONGODB_URI: 'mongodb+srv://anna:word-pass@db.test' };
    const environment = { MY_KEY: 'secret-key', PATH: '/usr/bin', SHORT_KEY: 'k', ...proxies, ...databases };
    expect(secretsOf(environment)).toEqual(['secret-key', 'pass-word', 'word-pass']);
    expect(secretsOf({ A_KEY: 'abcdef', B_KEY: 'abcdef-and-more' })).toEqual(['abcdef-and-more', 'abcdef']);
  });
});
