import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { reconnectMs, runBridge } from '../../../src/agents/bridge/bridge.ts';
import { revokeAgentToken } from '../../../src/agents/backends/remote/tokens.ts';
import { livingIn } from '../backends/acp/acp-rig.ts';
import { person, prompt, recorder } from '../backends/conversation.ts';
import { SEAT, remoteRig, until } from '../backends/remote/remote-rig.ts';
import type { RemoteRig } from '../backends/remote/remote-rig.ts';

const AGENT = new URL('fixtures/stdio-agent.ts', import.meta.url).pathname;
const BIN = new URL('../../../src/conch-agent.js', import.meta.url).pathname;
const BUILT = new URL('../../../dist/agent/conch-agent.mjs', import.meta.url).pathname;

let rig: RemoteRig;
let stop: AbortController;
let running: Promise<number>[];
let said: string[];
beforeEach(async () => {
  rig = await remoteRig();
  stop = new AbortController();
  running = [];
  said = [];
});
afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  await rig.stop();
});

/** Runs a bridge in this process. It reconnects after 20 ms. Resolves with its exit code. */
const bridge = (token = rig.token, command = process.execPath) => {
  const over = runBridge({
    url: rig.url,
    token,
    command,
    args: [AGENT],
    env: { PATH: process.env['PATH'] ?? '' },
    cwd: import.meta.dirname,
    signal: stop.signal,
    say: (line) => void said.push(line),
    waitMs: () => 20,
  });
  running.push(over);
  return over;
};
const link = () => rig.host.slot('dev').link;
const connected = () => until(() => link() !== null, 'the connection');
const begin = (session: Awaited<ReturnType<typeof rig.backend.open>>, text: string) => {
  const heard = recorder();
  const over = session.prompt(prompt({ messages: [person(1, text)], text }), heard.report);
  over.catch(() => undefined);
  return { over, said: () => heard.messages.map((each) => each.trim()).filter((each) => each !== '') };
};

describe('a host that is unreachable', () => {
  test('T28 is retried after 1 and 2 s, every 3 s for 5 minutes, then every 30 s', () => {
    const waits = Array.from({ length: 101 }, (_, index) => reconnectMs(index + 1));
    expect(waits.slice(0, 4)).toEqual([1_000, 2_000, 3_000, 3_000]);
    expect(new Set(waits.slice(3, 100))).toEqual(new Set([3_000]));
    expect(waits.slice(0, 100).reduce((sum, each) => sum + each, 0)).toBeGreaterThan(4.9 * 60_000);
    expect(waits[100]).toBe(30_000);
  });
});

describe('a bridge', () => {
  test('connects an agent that speaks ACP over standard input and output, in its own folder', async () => {
    void bridge();
    await connected();
    const session = await rig.backend.open(SEAT);
    const turn = begin(session, 'hello');
    expect(await turn.over).toEqual({ how: 'completed' });
    expect(turn.said()).toEqual(['Prompt 1.']);
    expect(session).toHaveProperty('memory');
  });

  test('keeps the agent and its sessions when the connection is lost, and cancels running prompts', async () => {
    void bridge();
    await connected();
    const session = await rig.backend.open(SEAT);
    const { memory } = session;
    const turn = begin(session, 'slow');
    await until(() => turn.said().length > 0, 'the first half');
    link()?.drop('as if the network failed', { final: false });
    expect(await turn.over).toEqual({ how: 'completed' });
    expect(turn.said()).toEqual(['First half.', 'Prompt 2.']);
    expect(session.memory).toBe(memory);
    expect(said.filter((line) => line.startsWith('Connected'))).toHaveLength(2);
  });

  test('restarts an agent that ended, and prints how it ended', async () => {
    void bridge();
    await connected();
    const turn = begin(await rig.backend.open(SEAT), 'crash once');
    await until(() => said.some((line) => line.startsWith('The agent exited with code 3')), 'the end of the agent');
    await until(() => said.filter((line) => line.startsWith('Connected')).length > 1, 'another connection');
    expect(await turn.over).toEqual({ how: 'completed' });
  });

  test.each([
    ['a token that is not known', () => bridge('x'.repeat(43)), '401 the token is unknown there'],
    ['a program that does not exist', () => bridge(rig.token, 'no-such-agent'), 'there is no program "no-such-agent"'],
  ])('ends with exit code 1 for %s, and prints why', async (_what, run, words) => {
    expect(await run()).toBe(1);
    expect(said.at(-1)).toContain(words);
  });

  test('ends when another connection of the agent replaces it, and when its token was revoked', async () => {
    const over = bridge();
    await connected();
    await rig.connected();
    expect(await over).toBe(1);
    expect(said.at(-1)).toBe('Disconnected: another connection of the same agent took its place');
    revokeAgentToken(rig.dataDir, 'dev');
    expect(await bridge()).toBe(1);
  });
});

describe('the command conch-agent', () => {
  const start = (args: readonly string[], env: Record<string, string> = {}, file = BIN) => {
    const child = spawn(process.execPath, [file, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [out, err] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => void (out += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => void (err += text));
    return { child, out: () => out, err: () => err, ended: codeOf(child) };
  };

  test.each([
    ['nothing', [], 'Expected --url, --token-env and a command'],
    ['an unknown option', ['--token', 'secret'], "Unknown option '--token'"],
    [
      'an address without encryption',
      ['--url', 'ws://chat.example.org/agent', '--token-env', 'T', 'x'],
      'is not encrypted',
    ],
    [
      'a name that only begins like this machine',
      ['--url', 'ws://127.0.0.1.example.org/agent', '--token-env', 'T', 'x'],
      'is not encrypted',
    ],
    ['an address with "#"', ['--url', 'ws://127.0.0.1:1/agent#x', '--token-env', 'T', 'x'], 'must end before "#"'],
    ['a token of two lines', ['--url', 'ws://127.0.0.1:1/agent', '--token-env', 'LINES', 'x'], 'has a space, a line'],
    ['an empty variable', ['--url', 'ws://127.0.0.1:1/agent', '--token-env', 'NO_SUCH', 'x'], 'NO_SUCH is empty'],
  ])('given %s prints the error and ends with exit code 2', async (_what, args, words) => {
    const { err, ended } = start(args, { T: 'secret', LINES: 'secret\n' });
    expect(await ended).toBe(2);
    expect(err()).toContain(words);
    expect(err()).not.toMatch(/^\s+at /m);
  });

  test('ends with all processes of its agent when it gets SIGTERM', async () => {
    const command = ['--url', rig.url, '--token-env', 'T', '--', process.execPath, AGENT];
    const { child, ended, err } = start(command, { T: rig.token });
    await connected();
    await rig.backend.open(SEAT);
    const groups = groupsOf(child.pid!);
    expect(groups.flatMap(livingIn).length).toBeGreaterThanOrEqual(2);
    child.kill('SIGTERM');
    expect([await ended, err()]).toEqual([0, `Connected to ${rig.url}\n`]);
    await until(() => groups.flatMap(livingIn).length === 0, 'the end of all that it started');
  });

  test('T1 keeps running when nobody reads its standard error', async () => {
    const command = ['--url', rig.url, '--token-env', 'T', '--', process.execPath, AGENT];
    const { child, ended } = start(command, { T: rig.token });
    await connected();
    const before = link();
    child.stderr.destroy();
    before?.drop('as if the network failed', { final: false });
    await until(() => link() !== null && link() !== before, 'another connection');
    child.kill('SIGTERM');
    expect(await ended).toBe(0);
  });

  test('T41 works as one built file that is alone in its folder', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'conch-agent-'));
    try {
      const file = join(folder, 'conch-agent.mjs');
      copyFileSync(BUILT, file);
      const command = ['--url', rig.url, '--token-env', 'T', '--', process.execPath, AGENT];
      const { child, ended, err } = start(command, { T: rig.token }, file);
      await connected();
      const turn = begin(await rig.backend.open(SEAT), 'hello');
      expect(await turn.over).toEqual({ how: 'completed' });
      expect(turn.said()).toEqual(['Prompt 1.']);
      child.kill('SIGTERM');
      expect([await ended, err()]).toEqual([0, `Connected to ${rig.url}\n`]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('given --help prints its usage on standard output, no error, and ends with exit code 0', async () => {
    const { ended, out, err } = start(['--help']);
    expect([await ended, out(), err()]).toEqual([0, expect.stringMatching(/^Usage: conch-agent --url/), '']);
  });
});

async function codeOf(child: ChildProcess): Promise<number | null> {
  return await new Promise((resolve) => child.once('close', resolve));
}

/** Returns the ids of the child processes of a process. Each child leads its own process group. */
function groupsOf(parent: number): readonly number[] {
  const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim();
  return children === '' ? [] : children.split(' ').map(Number);
}
