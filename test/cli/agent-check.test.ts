import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { checkAgent, checkText, checkable } from '../../src/cli/agent-check.ts';
import type { CheckParts } from '../../src/cli/agent-check.ts';
import { parseCall } from '../../src/cli/arguments.ts';
import { readChecks, recordCheck } from '../../src/agents/backends/check-record.ts';
import type { AgentCheck } from '../../src/agents/backends/check-record.ts';
import { EXIT_CODES } from '../../src/runtime/exit-codes.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/config.ts';
import { examine } from '../../src/cli/doctor.ts';
import { createBackends, warnOfUnchecked } from '../../src/runtime/agent-factory.ts';
import { systemTimers } from '../../src/lib/time.ts';
import { createLog } from '../../src/runtime/log.ts';
import { FAKE_ACP, acpRig, livingIn } from '../agents/backends/acp/acp-rig.ts';
import type { AcpRig } from '../agents/backends/acp/acp-rig.ts';
import type { FakeAct, FakeManners } from '../agents/backends/acp/fake-acp-acts.ts';

const CONCH = new URL('../../src/conch.js', import.meta.url).pathname;
const ROOM = mkdtempSync(`${tmpdir()}/conch-test-`);
const SCRATCH = `${ROOM}/scratch`;
const WORK = `${ROOM}/work`;
mkdirSync(SCRATCH);
mkdirSync(WORK);
process.env['TMPDIR'] = SCRATCH;
afterAll(() => rmSync(ROOM, { recursive: true }));

/** The name and modes that Qwen Code reports. Its profile promises to ask. */
const PROMISES: FakeManners = {
  initialize: { agentInfo: { name: 'fake\u001B[2J', version: '1.2.3' } },
  session: { modes: { currentModeId: 'default', availableModes: [{ id: 'default' }] } },
};
const ASK: FakeAct = { do: 'ask', title: 'Write it', kind: 'edit' };

let rig: AcpRig;
let dataDir: string;

beforeEach(() => void (dataDir = mkdtempSync(`${ROOM}/data-`)));
afterEach(async () => {
  await rig.stop();
  assert.deepEqual(rig.told.pids.flatMap(livingIn), []);
  assert.deepEqual(readdirSync(SCRATCH), []);
  assert.deepEqual(readdirSync(WORK), []);
});

async function config(manners: FakeManners = {}, profile = 'qwen', command = process.execPath): Promise<Config> {
  rig = await acpRig(manners);
  const backend = { kind: 'acp', profile, command, args: [FAKE_ACP], set: rig.env, cwd: WORK };
  const kinds = [
    { id: 'scout', backend: { kind: 'remote' } },
    { id: 'clock', backend: { kind: 'command', command: 'date' } },
    { id: 'writer', backend: { kind: 'llm', provider: 'openai', model: 'm', apiKey: 'k' } },
    { id: 'pm', backend: { kind: 'scripted', script: 'pm' } },
  ];
  writeFileSync(
    `${dataDir}/turnConfig.json`,
    JSON.stringify({ agents: [{ id: 'dev', backend }, ...kinds], channels: [{ id: 'console:a', agents: ['dev'] }] }),
  );
  const env = { CONCH_CONFIG: `${dataDir}/turnConfig.json`, CONCH_DATA_DIR: dataDir };
  const readFile = (path: string) =>
    path.endsWith('.json') ? { text: readFileSync(path, 'utf8'), public: false } : null;
  return loadConfig({ env, cwd: ROOM, readFile }, 'look');
}

async function check(given: Config, more: Partial<CheckParts> = {}): Promise<AgentCheck | null> {
  const found = checkable('dev', given.agents);
  if (!('agent' in found)) throw new Error(found.message);
  const log = createLog({ level: 'fatal', pretty: false, secrets: [] });
  const clock = { now: () => Date.UTC(2026, 0, 2) };
  const { signal } = new AbortController();
  return await checkAgent(found.agent, { config: given, clock, timers: systemTimers, log, signal, ...more });
}

/** Runs `conch agent check`. `result`: its exit code and output. */
async function run(...argv: readonly string[]) {
  const env = { ...process.env, CONCH_CONFIG: `${dataDir}/turnConfig.json`, CONCH_DATA_DIR: dataDir };
  const child = spawn(process.execPath, [CONCH, 'agent', 'check', ...argv], { env, cwd: ROOM });
  const ended = new Promise<number | null>((resolve) => void child.once('exit', resolve));
  const all = Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return { child, result: all.then(([code, out, err]) => ({ code, out, err })) };
}

const SILENT = { level: 'fatal', pretty: false, secrets: [] } as const;

const doctorOn = async (given: Config) => {
  const parts = {
    clock: { now: () => 0 },
    timers: systemTimers,
    log: createLog(SILENT),
  };
  return (await examine(() => given, parts)).findings.filter(({ what }) => what === 'dev');
};

describe('T52 an agent that asks and obeys a denial', () => {
  test('passes, and conch doctor names its version and the time of the check', async () => {
    const given = await config(PROMISES);
    rig.play(ASK);
    rig.play(ASK, ASK);
    const done = await check(given);
    expect(done).toMatchObject({ program: 'fake [2J 1.2.3', profile: 'qwen', verdict: 'asks' });
    expect(done?.attempts.map(({ words }) => words)).toEqual([
      'asked for "Write it", and did nothing after the denial',
      'asked for "Write it", "Write it", and did nothing after the denial',
    ]);
    expect(rig.told.choices).toEqual(['reject_once', 'reject_once', 'reject_once']);
    expect(rig.told.seen.map((each) => /conch-[0-9a-f]{12}\.txt/.exec(each)?.[0])).toHaveLength(2);
    recordCheck(dataDir, done!);
    expect(statSync(`${dataDir}/agent-checks.json`).mode & 0o777).toBe(0o600);
    const words = 'asks before it acts (fake [2J 1.2.3, checked at 2026-01-02T00:00:00.000Z)';
    expect(await doctorOn(given)).toEqual([{ what: 'dev', verdict: 'good', text: words, todo: null }]);
  });

  test('is started with the setting to ask for every tool that a rule names, including rules of one channel', async () => {
    const given = await config(PROMISES, 'claude-code');
    const channels = given.channels.map((channel) => ({ ...channel, tools: { ask: ['Grep'] } }));
    await check({ ...given, tools: { deny: ['Read(.env)', 'WebFetch'] }, channels });
    const ask = ['Bash', 'Edit', 'Write', 'NotebookEdit', 'WebFetch', 'Read', 'Grep', 'Glob'];
    const permissions = expect.objectContaining({ ask, deny: ['WebFetch', 'WebSearch'] });
    expect(rig.told.metas[0]).toMatchObject({ claudeCode: { options: { settings: { permissions } } } });
  });

  test('passes on the command line, as JSON with --json, and the check is recorded', async () => {
    await config(PROMISES);
    for (let prompts = 0; prompts < 4; prompts += 1) rig.play(ASK);
    const plain = await (await run('dev')).result;
    expect(plain).toMatchObject({ code: EXIT_CODES.ok, err: '' });
    expect(plain.out).toContain('\ndev asks before it acts.\n');
    const json = await (await run('dev', '--json')).result;
    expect(JSON.parse(json.out)).toEqual(readChecks(dataDir)[0]);
    expect(readChecks(dataDir)).toHaveLength(1);
  });
});

describe('T52 an agent that acts without asking', () => {
  test.each([
    [
      'the file shows it, though the agent told nothing',
      'generic',
      [{ do: 'make' }],
      /^made "conch-\w+\.txt" without asking$/,
    ],
    ['the file shows it after a no', 'qwen', [ASK, { do: 'make' }], /^made "conch-\w+\.txt" after it was denied$/],
    [
      'T73 the file shows it, though the agent writes unasked in a Git repository alone',
      'qwen',
      [{ do: 'make', inRepository: true }],
      /^made "conch-\w+\.txt" without asking$/,
    ],
    ['the agent itself tells of a tool that ran', 'qwen', [EDITED()], /^ran "rm x" without asking$/],
  ] as const)('fails: %s', async (_what, profile, acts, words) => {
    const given = await config(PROMISES, profile);
    rig.play(...acts);
    const done = await check(given);
    expect(done?.verdict).toBe('unasked');
    expect(done?.attempts[0]).toMatchObject({ verdict: 'unasked', words: expect.stringMatching(words) });
    expect(checkText(done!)).toMatch(/\ndev acts without asking\.\n {4}→ Run this agent only in a sandbox/);
  });

  test('fails on the command line with exit code mustBeMended, and conch doctor warns of the agent', async () => {
    const given = await config(PROMISES);
    rig.play(ASK);
    rig.play({ do: 'make', tells: true });
    const { code, out } = await (await run('dev')).result;
    expect(code).toBe(EXIT_CODES.mustBeMended);
    expect(out).toMatch(/✗ a file by a command: made "conch-\w+\.txt" without asking\n/);
    expect(await doctorOn(given)).toEqual([
      expect.objectContaining({ verdict: 'warning', text: expect.stringMatching(/^acts without asking \(fake/) }),
    ]);
  });
});

describe('T52 an agent whose check proves nothing', () => {
  test('does not pass when it does nothing', async () => {
    const given = await config(PROMISES);
    rig.play(ASK);
    const done = await check(given);
    expect(done?.verdict).toBe('unclear');
    expect(done?.attempts[1]?.words).toBe('did nothing: no request, no file');
  });

  test('does not pass when it does not finish in time, and its process is ended', async () => {
    const given = await config({ ...PROMISES, deaf: true });
    rig.play(ASK, { do: 'hang' });
    const limits: number[] = [];
    const timers: CheckParts['timers'] = {
      after: (ms, due) => {
        limits.push(ms);
        return systemTimers.after(ms === 30_000 ? ms : Math.min(ms, 300), due);
      },
    };
    const done = await check(given, { timers });
    expect(limits).toContain(120_000);
    expect(done?.attempts).toEqual([
      { way: 'a file by its own tool', verdict: 'unclear', words: 'did not finish within 120 s' },
    ]);
  });

  test('does not pass when it cannot be started', async () => {
    const given = await config({}, 'qwen', 'no-such-program');
    const done = await check(given);
    expect(done).toMatchObject({ verdict: 'unclear', program: `no-such-program ${FAKE_ACP}` });
    expect(done?.attempts[0]?.words).toMatch(/^there is no program "no-such-program"/);
  });

  test('T73 does not pass when Git cannot create a repository', async () => {
    const given = await config(PROMISES);
    const { PATH = '' } = process.env;
    process.env['PATH'] = '/nowhere';
    const done = await check(given).finally(() => (process.env['PATH'] = PATH));
    expect(done?.verdict).toBe('unclear');
    expect(done?.attempts[0]).toMatchObject({
      way: 'a repository',
      words: expect.stringMatching(/^Git could not create a repository: /),
    });
  });

  test('fails on the command line with exit code mustBeMended', async () => {
    await config(PROMISES);
    expect((await (await run('dev')).result).code).toBe(EXIT_CODES.mustBeMended);
  });
});

test('T52 a signal ends the agent and the check, which leaves no file and no record', async () => {
  await config(PROMISES);
  rig.play({ do: 'hang' });
  const { child, result } = await run('dev');
  await rig.paused();
  child.kill('SIGINT');
  expect(await result).toMatchObject({ code: EXIT_CODES.mustBeMended, out: '' });
  expect(readChecks(dataDir)).toEqual([]);
});

test.each([
  ['scout', 'it connects from elsewhere, so Conch cannot set it up or see its files. It may act without asking.'],
  ['clock', 'it is a program that runs with your rights. It acts without asking.'],
  ['writer', 'it is a model, and Conch runs its tools by the rules under "tools".'],
  ['pm', 'it is scripted and runs nothing.'],
])('T52 the check of %s says why it is not a coding agent', async (id, words) => {
  const given = await config();
  expect(checkable(id, given.agents)).toEqual({
    message: `${id} is not a coding agent on this machine (kind "acp"): ${words}`,
  });
});

test('T52 the check of an unknown agent ends with a usage error', async () => {
  await config();
  expect(await (await run('nobody')).result).toEqual({
    code: EXIT_CODES.usage,
    out: '',
    err: 'There is no agent "nobody" in the configuration. Agents: dev, scout, clock, writer, pm.\n',
  });
});

test('T52 conch doctor advises to check an agent without a readable check', async () => {
  const given = await config();
  writeFileSync(`${dataDir}/agent-checks.json`, '[{"agent":');
  expect(await doctorOn(given)).toEqual([
    {
      what: 'dev',
      verdict: 'warning',
      text: 'never checked whether it asks before it acts',
      todo: 'Run: conch agent check dev',
    },
  ]);
});

describe('T52 a release whose own check did not pass', () => {
  const CHECKED: AgentCheck = {
    agent: 'dev',
    profile: 'qwen',
    program: 'fake 1.2.2',
    at: '2026-01-02T00:00:00.000Z',
    verdict: 'asks',
    attempts: [],
  };

  test('is a warning of conch doctor when only another release was checked', async () => {
    const given = await config({ ...PROMISES, initialize: { agentInfo: { name: 'fake', version: '1.2.3' } } });
    const start = async () => {
      const parts = { clock: { now: () => 0 }, timers: systemTimers, log: createLog(SILENT) };
      return (await examine(() => given, parts)).findings.find(({ what }) => what === 'dev: start');
    };
    expect(await start()).toMatchObject({ verdict: 'good', text: 'it starts: fake 1.2.3' });
    recordCheck(dataDir, CHECKED);
    expect(await start()).toEqual({
      what: 'dev: start',
      verdict: 'warning',
      text: 'it starts: fake 1.2.3, but only another release was checked',
      todo: 'Run: conch agent check dev',
    });
    recordCheck(dataDir, { ...CHECKED, program: 'fake 1.2.3' });
    expect(await start()).toMatchObject({ verdict: 'good' });
  });

  test('is logged once when its first session opens, with its last check or that there is none', async () => {
    const given = await config({ ...PROMISES, initialize: { agentInfo: { name: 'fake', version: '1.2.3' } } });
    const lines: string[] = [];
    const log = createLog({
      level: 'warn',
      pretty: false,
      secrets: [],
      destination: { write: (line) => lines.push(line) },
    });
    const opened = async (checked: AgentCheck | null) => {
      if (checked !== null) recordCheck(dataDir, checked);
      const parts = { config: given, clock: { now: () => 0 }, timers: systemTimers, log };
      const backends = await createBackends({ ...parts, opened: warnOfUnchecked(parts) });
      const [agent] = given.agents;
      for (const channel of ['console:a', 'console:b']) {
        const session = await backends.backendFor(agent!).open({ channel, agent: 'dev', name: 'dev', persona: '' });
        await session.close();
      }
      await backends.stop();
      return lines.splice(0).map((line) => (JSON.parse(line) as { message: string }).message);
    };
    expect(await opened(null)).toEqual([
      'dev runs as fake 1.2.3 and was never checked for asking before it acts. Run: conch agent check dev',
    ]);
    expect(await opened(CHECKED)).toHaveLength(1);
    expect(await opened({ ...CHECKED, program: 'fake 1.2.3', verdict: 'unasked' })).toEqual([
      'dev acts without asking, by its last check as fake 1.2.3. Run: conch agent check dev',
    ]);
    expect(await opened({ ...CHECKED, program: 'fake 1.2.3' })).toEqual([]);
  });
});

test.each([
  [['agent', 'check', 'dev'], { ok: true, call: { words: ['dev'], options: { json: false } } }],
  [['agent', 'check', 'dev', '--json'], { ok: true, call: { words: ['dev'], options: { json: true } } }],
  [
    ['agent', 'check'],
    { ok: false, message: "error: missing required argument 'id'\nUsage: conch agent check <id> [--json]" },
  ],
  [['agent', 'list', '--json'], { ok: false, message: "error: unknown option '--json'\nUsage: conch agent list" }],
])('T52 the command line %j is parsed', (argv, understood) => {
  expect(parseCall(argv)).toMatchObject(understood);
});

function EDITED(): FakeAct {
  const body = { sessionUpdate: 'tool_call', toolCallId: 'c1', title: 'rm x', kind: 'execute', status: 'completed' };
  return { do: 'update', body };
}
