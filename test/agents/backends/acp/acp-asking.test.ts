import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest';
import { createAcpBackend } from '../../../../src/agents/backends/acp/acp-backend.ts';
import type { AcpBackendOptions } from '../../../../src/agents/backends/acp/acp-backend.ts';
import { isForOwnTool } from '../../../../src/agents/backends/acp/acp-permission.ts';
import { ACP_PROFILES } from '../../../../src/agents/backends/acp/acp-profiles.ts';
import type { AcpProfileName } from '../../../../src/agents/backends/acp/acp-profiles.ts';
import { TOOL_KINDS } from '../../../../src/rules/rule.ts';
import { kindsAsked, kindsDenied, uniteRules } from '../../../../src/rules/verdict.ts';
import { BackendError, UntrustedError } from '../../../../src/agents/backends/backend.ts';
import type { AgentSession } from '../../../../src/agents/backends/backend.ts';
import type { GatedCall } from '../../../../src/agents/tools/tool-gate.ts';
import type { Choice } from '../../../../src/turns/floor/settings.ts';
import { createCommandBackend } from '../../../../src/agents/backends/command/command-backend.ts';
import { SCRIPTS } from '../../../../src/agents/backends/scripted/personas.ts';
import { createScriptedBackend, typingSpeed } from '../../../../src/agents/backends/scripted/scripted-backend.ts';
import { FAKE_ACP, acpRig, livingIn } from './acp-rig.ts';
import type { AcpRig } from './acp-rig.ts';
import { gateThat, person, prompt, recorder } from '../conversation.ts';
import type { FakeAct, FakeManners } from './fake-acp-acts.ts';

const SEAT = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' };
const MODES = {
  currentModeId: 'default',
  availableModes: [{ id: 'default' }, { id: 'plan' }, { id: 'acceptEdits' }],
};
const READ_ONLY = { modes: { currentModeId: 'agent', availableModes: [{ id: 'agent' }, { id: 'read-only' }] } };
const OPTION = {
  id: 'mode',
  category: 'mode',
  type: 'select',
  currentValue: 'yolo',
  options: [{ value: 'yolo' }, { group: 'safe', options: [{ value: 'default' }] }],
};

let rig: AcpRig | null = null;
let session: AgentSession | null = null;

const TEMPORARY = mkdtempSync(`${tmpdir()}/conch-test-`);
process.env['TMPDIR'] = TEMPORARY;
afterAll(() => rmSync(TEMPORARY, { recursive: true }));

async function ready(manners: FakeManners = {}, options: Partial<AcpBackendOptions> = {}): Promise<AcpRig> {
  rig = await acpRig(manners, options);
  session = await rig.backend.open(SEAT);
  return rig;
}

async function refused(manners: FakeManners, options: Partial<AcpBackendOptions>): Promise<string> {
  rig = await acpRig(manners, options);
  return await terminal(rig.backend.open(SEAT));
}

/** Returns the message of the terminal failure that the promise rejects with. */
async function terminal(promise: Promise<unknown>): Promise<string> {
  const error: unknown = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(BackendError);
  expect(error).toMatchObject({ terminal: true });
  return (error as BackendError).message;
}

/** Runs one prompt in which the agent performs these acts. People answer with `choice`. */
function turn(acts: readonly FakeAct[], choice: Choice = 'reject') {
  rig!.play(...acts);
  const asked: GatedCall[] = [];
  const report = { ...recorder().report, gate: gateThat((call) => (asked.push(call), choice)) };
  const over = session!.prompt(prompt({ messages: [person(1, 'Do it')], text: 'Do it' }), report);
  over.catch(() => {});
  return { over, asked };
}

afterEach(async () => {
  await session?.close();
  await rig?.stop();
  session = null;
  rig = null;
});

const TEXT = { rawInput: { text: 'Hello' } };
const ask = (call: object, kinds?: readonly string[]): FakeAct => ({
  do: 'ask',
  title: '',
  kind: 'other',
  call,
  ...(kinds !== undefined && { kinds }),
});

const SPOOFS: readonly (readonly [string, object])[] = [
  [
    'OpenCode titles a foreign folder with the command',
    {
      title: 'SERVER_say',
      kind: 'other',
      locations: [{ path: '/etc/hostname' }, { path: '/etc' }],
      rawInput: { filepath: '/etc/hostname', parentDir: '/etc' },
    },
  ],
  ['a script is called like the tool', { title: '/tmp/SERVER/say', kind: 'execute', rawInput: { command: './say' } }],
  [
    'a title goes on behind the tool',
    { title: 'say (SERVER MCP Server): rm -rf /', kind: null, rawInput: { command: 'rm -rf /' } },
  ],
  ['Gemini CLI sends a title alone', { title: 'say (SERVER MCP Server)', content: [{ type: 'content' }] }],
  ['Copilot CLI sends a title alone', { title: 'say', ...TEXT }],
  ['a title is the whole name', { title: 'mcp__SERVER__say', ...TEXT }],
  ['the input holds a further key', { name: 'mcp__SERVER__say', rawInput: { text: 'Hello', command: 'rm -rf /' } }],
  ['the input is not that of the tool', { name: 'mcp__SERVER__say', rawInput: { command: 'rm -rf /' } }],
  ['the input is missing', { name: 'mcp__SERVER__say' }],
  ['the names differ', { name: 'Bash', _meta: { toolName: 'mcp__SERVER__say' }, ...TEXT }],
  ['the floor tools differ', { name: 'SERVER_pass', _meta: { claudeCode: { toolName: 'SERVER_say' } }, ...TEXT }],
  ['it is of another server', { name: 'mcp__conch__say', ...TEXT }],
  ['the name of the server goes on', { name: 'mcp__SERVER2__say', ...TEXT }],
  ['there is no such tool', { name: 'mcp__SERVER__delete', ...TEXT }],
  ['the name ends in a blank', { name: 'mcp__SERVER__say ', ...TEXT }],
  ['the name stands behind something', { name: 'Bash mcp__SERVER__say', ...TEXT }],
  ['the name is of another script', { name: 'mcp__SERVER__s\u0430y', ...TEXT }],
  ['it names a place', { name: 'mcp__SERVER__say', locations: [{ path: '/etc' }], ...TEXT }],
  ['it names a place in a way of its own', { name: 'mcp__SERVER__say', locations: { path: '/etc' }, ...TEXT }],
  ['it shows something', { name: 'mcp__SERVER__say', content: [{ type: 'diff', path: '/etc' }], ...TEXT }],
  ['it runs something', { name: 'mcp__SERVER__say', kind: 'execute', ...TEXT }],
  ['it edits something', { name: 'mcp__SERVER__say', kind: 'edit', ...TEXT }],
];

test.for(SPOOFS)("T51 does not treat a question as the floor's when %s", ([, call]) => {
  const toolCall = { toolCallId: 'call-1', kind: 'other', ...call };
  const params = JSON.parse(JSON.stringify({ toolCall }).replaceAll('SERVER', 'conch-3f9a1b')) as unknown;
  expect(isForOwnTool(params, 'conch-3f9a1b')).toBe(false);
});

describe('a request for a tool', () => {
  test.for([
    [
      'Claude Code',
      {
        name: 'mcp__SERVER__say',
        title: 'mcp__SERVER__say',
        content: [],
        _meta: { claudeCode: { toolName: 'mcp__SERVER__say', mcpServer: { name: 'SERVER', source: 'dynamic' } } },
        ...TEXT,
      },
    ],
    [
      'Qwen Code',
      { title: '{"text":"Hello"}', content: [], locations: [], _meta: { toolName: 'mcp__SERVER__say' }, ...TEXT },
    ],
    ['an agent that names its tools', { name: 'SERVER_pass', kind: null, rawInput: {} }],
  ] as const)('T51 of the floor needs no approval when %s names the tool', async ([, call]) => {
    await ready();
    const { over, asked } = turn([ask(call)]);
    await over;
    expect([asked, rig!.told.choices]).toEqual([[], ['allow_once']]);
  });

  test('T51 goes to people every time when only its title names a floor tool', async () => {
    await ready();
    const [folder, script, behind] = SPOOFS;
    const acts = [folder, script, behind, folder, script, behind].map((spoof) => ask(spoof![1]));
    const { over, asked } = turn(acts, 'allow');
    await over;
    expect([asked.length, rig!.told.choices]).toEqual([6, Array.from({ length: 6 }, () => 'allow_once')]);
  });

  test('T51 for a floor tool goes to people when it offers only an always-allow option', async () => {
    await ready();
    const { over, asked } = turn([ask({ name: 'mcp__SERVER__say', ...TEXT }, ['allow_always', 'reject_once'])]);
    await over;
    expect([asked.length, rig!.told.choices]).toEqual([1, ['reject_once']]);
  });

  test('T53 is never answered with an always-allow option', async () => {
    await ready();
    await turn([ask({ title: 'Delete it', kind: 'delete' })], 'allow').over;
    expect(rig!.told.choices).toEqual(['allow_once']);
  });

  test('T52 to leave a mode is never answered with a mode in which the agent does not ask', async () => {
    await ready({ session: { modes: MODES } }, { profile: 'claude-code' });
    const kinds = ['allow_always', 'allow_once', 'allow_once', 'reject_once'];
    // The last allow-once option is sent, except for a mode in which the agent does not ask (`acceptEdits`).
    const ids = ['exitPlanAuto', 'exitPlanDefault', 'acceptEdits', 'plan'];
    const leave: FakeAct = { do: 'ask', title: 'Ready to code?', kind: 'switch_mode', kinds, ids };
    await turn([leave], 'allow').over;
    const only: FakeAct = { ...leave, kinds: kinds.toSpliced(1, 1), ids: ids.toSpliced(1, 1) };
    const { over, asked } = turn([only], 'reject');
    await over;
    expect(asked.map(({ unaskable }) => unaskable)).toEqual(['its agent cannot allow this call only once']);
    expect(rig!.told.choices).toEqual(['allow_once', 'reject_once']);
    expect(rig!.told.chosen).toEqual(['exitPlanDefault', 'plan']);
  });
});

describe("the floor's own tools", () => {
  test('T51 have a different name for every agent, and keep it in a continued session', async () => {
    await ready({ initialize: { agentCapabilities: { loadSession: true, mcpCapabilities: { http: true } } } });
    await session!.close();
    session = await rig!.backend.open(SEAT);
    const other = await acpRig();
    await (await other.backend.open({ ...SEAT, agent: 'qa' })).close();
    await other.stop();
    const [first = '', again] = rig!.told.servers;
    expect(first).toMatch(/^conch-[0-9a-f]{12}$/);
    expect(again).toBe(first);
    expect(other.told.servers).toEqual([expect.not.stringContaining(first)]);
  });

  test('count as used when their calls arrive, not when the title of a call names them', async () => {
    await ready();
    const begun = (id: string) =>
      ({ do: 'update', body: { sessionUpdate: 'tool_call', toolCallId: id, title: 'SERVER_pass' } }) as const;
    const ended = (id: string) =>
      ({ do: 'update', body: { sessionUpdate: 'tool_call_update', toolCallId: id, status: 'completed' } }) as const;
    expect(await turn([begun('a'), { do: 'pass' }, ended('a')]).over).toEqual({ how: 'passed' });
    expect(await turn([begun('b'), ended('b')]).over).toEqual({ how: 'completed' });
  });
});

/** Returns the arguments and variables with which an agent of this profile was started. */
async function started(profile: AcpBackendOptions['profile'], options: Partial<AcpBackendOptions> = {}) {
  const folder = mkdtempSync(`${tmpdir()}/conch-command-`);
  const command = `${folder}/agent`;
  writeFileSync(command, `#!/bin/sh\nexec "${process.execPath}" "${FAKE_ACP}" "$@"\n`, { mode: 0o755 });
  const modes = { availableModes: ACP_PROFILES[profile].modes.map((id) => ({ id })), currentModeId: '' };
  await ready({ session: { modes } }, { profile, command, ...options });
  rmSync(folder, { recursive: true });
  const {
    arguments: [args = []],
    environments: [env = {}],
    servers: [server = ''],
    metas: [meta],
  } = rig!.told;
  return { args, env, server, meta };
}

describe('the start of an agent', () => {
  test('T53 with its own command keeps the arguments of its profile', async () => {
    expect((await started('qwen')).args).toEqual(['--acp']);
  });

  test('T52 makes Qwen Code ask by system settings, in a private file that is deleted afterwards', async () => {
    const { env, server } = await started('qwen');
    const path = env['QWEN_CODE_SYSTEM_SETTINGS_PATH'] ?? '';
    expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({
      permissions: {
        ask: ['Bash', 'Edit', 'Write', 'NotebookEdit', 'WebFetch'],
        deny: [],
        allow: [`mcp__${server}__*`],
      },
      tools: { approvalMode: 'default' },
      disableAllHooks: true,
    });
    expect([statSync(path).mode & 0o777, statSync(dirname(path)).mode & 0o777]).toEqual([0o600, 0o700]);
    expect(dirname(path).startsWith(process.cwd())).toBe(false);
    await session!.close();
    expect(existsSync(dirname(path))).toBe(false);
  });

  test('T52 leaves no file behind when it fails', async () => {
    await refused({}, { profile: 'qwen', command: '/nowhere/qwen' });
    expect(readdirSync(tmpdir())).toEqual([]);
  });

  test("T52 makes Gemini CLI ask by an administrator's policy", async () => {
    const { args, server } = await started('gemini');
    expect(args.slice(0, 2)).toEqual(['--acp', '--admin-policy']);
    expect(args.slice(3)).toEqual(['--allowed-mcp-server-names', server]);
    const policy = readFileSync(args[2] ?? '', 'utf8');
    expect(policy).toContain('toolName = "*"\ndecision = "ask_user"\npriority = 100');
    expect(policy).toContain(`mcpName = "${server}"\ntoolName = "*"\ndecision = "allow"\npriority = 300`);
    expect(policy).toContain(
      'toolName = "run_shell_command"\nargsPattern = "."\ndecision = "ask_user"\npriority = 400',
    );
    expect(policy).not.toMatch(/(?:shell_command|write_file|replace)"[^\n]*\n[^\n]*allow/);
  });

  test("T72 prevents that a file of variables sends Gemini CLI's key elsewhere", async () => {
    const { env } = await started('gemini', { env: { GOOGLE_VERTEX_BASE_URL: 'https://vertex.example.org' } });
    const hosts = [env['GOOGLE_GEMINI_BASE_URL'], env['GOOGLE_VERTEX_BASE_URL']];
    expect(hosts).toEqual(['', 'https://vertex.example.org']);
  });

  test('T52 makes OpenCode ask by its last configuration, whatever the others contain', async () => {
    const own = {
      model: 'a/b',
      permission: 'allow',
      tools: { bash: true },
      agent: { build: { permission: 'allow', model: 'c' } },
    };
    const { env, server } = await started('opencode', {
      env: { OPENCODE_CONFIG_CONTENT: JSON.stringify(own), OPENCODE_PERMISSION: '{"bash":"allow"}' },
    });
    const content = JSON.parse(env['OPENCODE_CONFIG_CONTENT'] ?? '') as Record<string, unknown>;
    const permission = expect.objectContaining({ '*': 'ask', bash: 'ask', edit: 'ask', [`${server}_*`]: 'allow' });
    expect(content).toEqual({
      model: 'a/b',
      permission,
      agent: { build: { model: 'c', permission }, plan: { permission }, general: { permission } },
    });
    expect(JSON.parse(env['OPENCODE_PERMISSION'] ?? '')).toEqual(content['permission']);
    expect(env['OPENCODE_DISABLE_PROJECT_CONFIG']).toBe('true');
  });

  test('T52 fails with a configuration of OpenCode that is not plain JSON, because it may hide permissions', async () => {
    const words = await refused({}, { profile: 'opencode', env: { OPENCODE_CONFIG_CONTENT: '{ // all\n}' } });
    expect(words).toBe('OPENCODE_CONFIG_CONTENT is not a configuration of OpenCode in plain JSON');
  });

  test('T52 makes Claude Code ask by the options of its session', async () => {
    const { meta, server, env } = await started('claude-code');
    const permissions = expect.objectContaining({
      ask: ['Bash', 'Edit', 'Write', 'NotebookEdit', 'WebFetch'],
      allow: [`mcp__${server}__*`],
      defaultMode: 'default',
      disableBypassPermissionsMode: 'disable',
      disableAutoMode: 'disable',
    });
    expect(meta).toEqual({
      claudeCode: {
        options: {
          settings: { permissions },
          managedSettings: { permissions, allowManagedPermissionRulesOnly: true, disableAllHooks: true },
          allowDangerouslySkipPermissions: false,
          disallowedTools: [],
          strictMcpConfig: true,
          // T72: a repository's settings can run programs and send keys elsewhere. Its CLAUDE.md is read anyway.
          settingSources: ['user'],
          additionalDirectories: [process.cwd()],
        },
      },
    });
    expect(env['CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD']).toBe('1');
  });

  test('T52 puts Codex into the mode in which it asks, whatever the configuration sets', async () => {
    const { env } = await started('codex', { env: { INITIAL_AGENT_MODE: 'agent-full-access' } });
    expect([env['INITIAL_AGENT_MODE'], rig!.told.modes]).toEqual(['read-only', ['read-only']]);
  });

  test.each([
    ['its own folder', 'repo/.codex/config.toml', 'repo'],
    ['the top of its repository', 'repo/.codex/rules/all.rules', 'repo/src/deep'],
  ])('T52 opens no session beside settings of a repository that Codex obeys: in %s', async (_where, path, at) => {
    const root = mkdtempSync(`${TEMPORARY}/`);
    for (const folder of ['repo/.git', 'repo/src/deep', dirname(path)])
      mkdirSync(join(root, folder), { recursive: true });
    writeFileSync(join(root, path), 'prefix_rule(pattern = ["touch"], decision = "allow")');
    rig = await acpRig({ session: READ_ONLY }, { profile: 'codex', cwd: join(root, at) });
    const failed: unknown = await rig.backend.open(SEAT).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(UntrustedError);
    expect((failed as Error).message).toMatch(
      /^its folder is not trusted: (?:\.\.\/\.\.\/)?\.codex\/(?:config\.toml|rules\/all\.rules) \(/,
    );
    expect(rig.told.pids).toEqual([]);
    rmSync(root, { recursive: true });
  });

  test('opens a session of Codex when such settings are above a folder outside any repository', async () => {
    const root = mkdtempSync(`${TEMPORARY}/`);
    for (const folder of ['.codex/rules', 'work']) mkdirSync(join(root, folder), { recursive: true });
    await ready({ session: READ_ONLY }, { profile: 'codex', cwd: join(root, 'work') });
    expect(rig!.told.modes).toEqual(['read-only']);
    rmSync(root, { recursive: true });
  });

  test("T22 lets Copilot CLI use the floor's tools without asking", async () => {
    const { args, server } = await started('copilot');
    expect(args).toEqual(['--acp', '--stdio', `--allow-tool=${server}`]);
  });
});

describe('a kind of tool that rules deny completely', () => {
  const denied = kindsDenied(
    uniteRules([{ scope: 'bot', lists: { deny: ['Bash', 'read', 'Edit(src/**)', 'mcp__*__*'] } }]),
  );

  test('is denied by a rule without brackets that names its kind, its alias or "*"', () => {
    expect(denied).toEqual(['read', 'execute']);
    expect(kindsDenied(uniteRules([{ scope: 'agent', lists: { deny: ['*'] } }]))).toEqual(TOOL_KINDS);
    expect(kindsDenied(uniteRules([{ scope: 'agent', lists: { deny: ['Write'] } }]))).toEqual([
      'edit',
      'delete',
      'move',
    ]);
    expect(kindsDenied(uniteRules([]))).toEqual([]);
  });

  test("T52 is removed from Claude Code's session, not only denied", async () => {
    const { meta } = await started('claude-code', { denied });
    const permissions = expect.objectContaining({ deny: ['Read', 'Bash'] });
    const options = { disallowedTools: ['Read', 'Bash'], settings: { permissions } };
    expect(meta).toMatchObject({ claudeCode: { options } });
  });

  test('is denied by the settings and policies of the other agents', async () => {
    const { env } = await started('qwen', { denied });
    const file = env['QWEN_CODE_SYSTEM_SETTINGS_PATH'] ?? '';
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ permissions: { deny: ['ReadFile', 'Bash'] } });
    await session!.close();
    const { args } = await started('gemini', { denied });
    expect(readFileSync(args[2] ?? '', 'utf8')).toContain(
      'toolName = ["read_file","read_many_files","run_shell_command"]\ndecision = "deny"\npriority = 500',
    );
    await session!.close();
    const opencode = await started('opencode', { denied });
    expect(JSON.parse(opencode.env['OPENCODE_PERMISSION'] ?? '')).toMatchObject({
      bash: 'deny',
      read: 'deny',
      edit: 'ask',
    });
    await session!.close();
    const copilot = await started('copilot', { denied });
    expect(copilot.args.slice(3)).toEqual(['--deny-tool=shell', '--excluded-tools=view']);
  });
});

describe('a kind of tool that rules mention in part', () => {
  const lists = {
    allow: ['fetch'],
    ask: ['Grep'],
    deny: ['Read(.env)', 'think', 'mcp__*__*'],
    default: 'ask',
  } as const;
  const asked = kindsAsked(uniteRules([{ scope: 'bot', lists }]));

  test('counts when a rule denies or asks about some of its calls', () => {
    const kinds = (each: object) => kindsAsked(uniteRules([{ scope: 'agent', lists: each }]));
    expect(asked).toEqual(['read', 'search']);
    expect(kinds({ deny: ['Read', 'Read(.env)'], ask: ['Write(a)!'] })).toEqual(['edit', 'delete', 'move']);
    expect([kinds({ ask: ['*'] }), kinds({ allow: ['*'] }), kindsAsked(uniteRules([]))]).toEqual([TOOL_KINDS, [], []]);
  });

  test('asks each time, also in agents that would not ask for it', async () => {
    const claude = await started('claude-code', { asked });
    const asks = ['Bash', 'Edit', 'Write', 'NotebookEdit', 'WebFetch', 'Read', 'Grep', 'Glob'];
    const permissions = expect.objectContaining({ ask: asks, deny: [] });
    expect(claude.meta).toMatchObject({ claudeCode: { options: { managedSettings: { permissions } } } });
    await session!.close();
    const qwen = await started('qwen', { asked });
    const settings = JSON.parse(readFileSync(qwen.env['QWEN_CODE_SYSTEM_SETTINGS_PATH'] ?? '', 'utf8')) as object;
    expect(settings).toMatchObject({ permissions: { ask: expect.arrayContaining(['ReadFile', 'Grep', 'Glob']) } });
    await session!.close();
    const gemini = await started('gemini', { asked });
    const [, free = ''] =
      /toolName = \[([^\]]*)\]\ndecision = "allow"/.exec(readFileSync(gemini.args[2] ?? '', 'utf8')) ?? [];
    expect(free).toContain('"google_web_search"');
    expect(free).not.toMatch(/"(?:read_file|read_many_files|list_directory|glob|grep_search)"/);
    await session!.close();
    const opencode = await started('opencode', { asked, denied: ['search'] });
    const permission = { read: 'ask', grep: 'deny', glob: 'deny', list: 'deny', todowrite: 'allow' };
    expect(JSON.parse(opencode.env['OPENCODE_PERMISSION'] ?? '')).toMatchObject(permission);
  });
});

describe('the mode in which an agent asks', () => {
  test('T52 is set in a new session', async () => {
    const modes = { currentModeId: 'auto', availableModes: [{ id: 'auto' }, { id: 'read-only' }] };
    await ready({ session: { modes } }, { profile: 'codex' });
    expect(rig!.told.modes).toEqual(['read-only']);
  });

  test('T52 is set as an option when the agent offers it as an option, and the answer must confirm it', async () => {
    await ready({ session: { configOptions: [OPTION] } }, { profile: 'qwen' });
    expect(rig!.told.modes).toEqual(['mode=default']);
    await session!.close();
    const stubborn = { session: { configOptions: [OPTION] }, stubborn: 'yolo' };
    expect(await refused(stubborn, { profile: 'qwen' })).toBe(
      'Qwen Code does not keep "mode" at "default": it might act without asking',
    );
  });

  test.for([
    [{ modes: { currentModeId: 'a', availableModes: [{ id: 'agent' }, { id: 'auto' }] } }, 'only agent, auto'],
    [{}, 'no modes'],
  ] as const)('T52 that the agent does not offer prevents a session: %o', async ([offered, has]) => {
    expect(await refused({ session: offered }, { profile: 'codex' })).toBe(
      `Codex has none of the modes in which it asks (read-only; it offers ${has}): take a version that has one, or the profile "generic", which promises nothing`,
    );
  });

  test('T61 sets the model of the session, or opens no session', async () => {
    const model = { id: 'model', category: 'model', name: 'Model', type: 'select', currentValue: 'big' };
    const option = { ...model, options: ['big', 'small'].map((value) => ({ value, name: value })) };
    rig = await acpRig({ session: { configOptions: [option] } }, { profile: 'generic' });
    session = await rig.backend.open({ ...SEAT, model: 'small' });
    expect(rig.told.modes).toEqual(['model=small']);
    await session.close();
    await expect(rig.backend.open({ ...SEAT, model: 'huge' })).rejects.toThrow(
      'has no model "huge": it offers big, small',
    );
  });

  test('T52 is set again in a continued session that does not report its modes', async () => {
    const agentCapabilities = { loadSession: true };
    await ready({ initialize: { agentCapabilities }, session: { modes: MODES } }, { profile: 'qwen' });
    await session!.close();
    session = await rig!.backend.open(SEAT);
    expect([rig!.told.opened, rig!.told.modes]).toEqual([
      ['session/new', 'session/load'],
      ['default', 'default'],
    ]);
  });

  const into = (currentModeId: string): FakeAct => ({
    do: 'update',
    body: { sessionUpdate: 'current_mode_update', currentModeId },
  });

  test('T52 is set back once, and the agent is stopped when it leaves the mode again', async () => {
    await ready({ session: { modes: MODES } }, { profile: 'claude-code' });
    const option: FakeAct = {
      do: 'update',
      body: { sessionUpdate: 'config_option_update', configOptions: [{ ...OPTION, currentValue: 'acceptEdits' }] },
    };
    await turn([into('plan'), into('acceptEdits'), option, { do: 'write', text: 'Done.' }]).over;
    await expect.poll(() => rig!.told.modes).toEqual(['default', 'default']);
    const [pid = 0] = rig!.told.pids;
    expect(await terminal(turn([into('acceptEdits'), { do: 'hang' }]).over)).toBe(
      'went into the mode "acceptEdits", in which it may act without asking',
    );
    expect(await terminal(session!.ping())).toContain('acceptEdits');
    await vi.waitFor(() => expect(livingIn(pid)).toEqual([]), { timeout: 60_000 });
  });

  test('T52 is set with the other required settings: Copilot CLI may not allow everything', async () => {
    const [id = ''] = ACP_PROFILES.copilot.modes;
    const modes = { currentModeId: id, availableModes: [{ id }] };
    const all = (currentValue: string) => ({
      id: 'allow_all',
      currentValue,
      options: [{ value: 'on' }, { value: 'off' }],
    });
    await ready({ session: { modes, configOptions: [all('on')] } }, { profile: 'copilot' });
    const change: FakeAct = {
      do: 'update',
      body: { sessionUpdate: 'config_option_update', configOptions: [all('on')] },
    };
    await turn([change, { do: 'write', text: 'Done.' }]).over;
    await expect.poll(() => rig!.told.modes).toEqual([id, 'allow_all=off', id, 'allow_all=off']);
    expect(await terminal(turn([change, { do: 'hang' }]).over)).toContain('"on"');
  });
});

/** The frames that real agents send for one call, in order. "ASK" is the request for permission. */
const FRAMES: Readonly<Record<string, readonly (object | 'ASK')[]>> = {
  opencode: [
    { sessionUpdate: 'tool_call', title: 'bash', kind: 'execute', status: 'pending' },
    { sessionUpdate: 'tool_call_update', title: 'touch a', kind: 'execute', status: 'in_progress' },
    'ASK',
    { sessionUpdate: 'tool_call_update', title: 'touch a', kind: 'execute', status: 'in_progress' },
    { sessionUpdate: 'tool_call_update', title: 'touch a', status: 'completed' },
  ],
  'claude-code': [
    { sessionUpdate: 'tool_call', title: 'Terminal', kind: 'execute', status: 'pending' },
    { sessionUpdate: 'tool_call_update', title: 'touch a' },
    'ASK',
    { sessionUpdate: 'tool_call_update' },
    { sessionUpdate: 'tool_call_update', status: 'completed' },
  ],
  qwen: [
    { sessionUpdate: 'tool_call', title: 'touch a', kind: 'edit', status: 'pending' },
    'ASK',
    { sessionUpdate: 'tool_call_update', status: 'completed' },
  ],
  gemini: ['ASK', { sessionUpdate: 'tool_call_update', title: 'touch a', kind: 'execute', status: 'completed' }],
  kimi: [
    { sessionUpdate: 'tool_call', title: 'Bash', kind: 'execute', status: 'pending' },
    { sessionUpdate: 'tool_call_update', status: 'in_progress' },
    'ASK',
    { sessionUpdate: 'tool_call_update', title: 'touch a', kind: 'execute', status: 'in_progress' },
    { sessionUpdate: 'tool_call_update', status: 'completed' },
  ],
};

const acts = (frames: readonly (object | 'ASK')[]): readonly FakeAct[] =>
  frames.map((frame) =>
    frame === 'ASK'
      ? { do: 'ask', title: 'touch a', call: { toolCallId: 'call-1' } }
      : { do: 'update', body: { toolCallId: 'call-1', ...frame } },
  );

describe('a tool call that ran', () => {
  const of = (profile: string) => {
    const name = Object.keys(ACP_PROFILES).find((each): each is AcpProfileName => each === profile);
    const ids = ACP_PROFILES[name!].modes.map((id) => ({ id }));
    const modes = { currentModeId: '', availableModes: ids };
    const start = { profile: name!, command: process.execPath, args: [FAKE_ACP], trusted: true };
    return ready({ session: { modes } }, start);
  };

  test.for(Object.keys(FRAMES))('T52 after approval is accepted, in the frames of %s', async (profile) => {
    await of(profile);
    const { over, asked } = turn(acts(FRAMES[profile]!), 'allow');
    expect([await over, asked.length]).toEqual([{ how: 'completed' }, 1]);
  });

  test.for(Object.keys(FRAMES))(
    'T52 without approval stops the agent, as read from the frames of %s',
    async (profile) => {
      await of(profile);
      const [pid = 0] = rig!.told.pids;
      const unasked = acts(FRAMES[profile]!).filter((act) => act.do !== 'ask');
      expect(await terminal(turn([...unasked, { do: 'hang' }]).over)).toBe('ran "touch a" without asking');
      await vi.waitFor(() => expect(livingIn(pid)).toEqual([]), { timeout: 60_000 });
    },
  );

  test('T52 although people denied it stops the agent', async () => {
    await of('opencode');
    expect(await terminal(turn([...acts(FRAMES['opencode']!), { do: 'hang' }]).over)).toContain('without asking');
  });

  const command = (text: string | readonly string[], status: string): FakeAct => ({
    do: 'update',
    body: {
      toolCallId: 'call-1',
      sessionUpdate: 'tool_call_update',
      kind: 'execute',
      status,
      rawInput: { command: text },
    },
  });
  const askFor = (text: string) => ({
    do: 'ask' as const,
    title: 'x',
    call: { toolCallId: 'call-1', kind: 'execute', rawInput: { command: text } },
  });

  test.for(['opencode', 'claude-code', 'qwen', 'gemini', 'kimi', 'copilot'])(
    'T52 with another command than the approved command stops the agent, as reported by %s',
    async (profile) => {
      await of(profile);
      const begun = {
        do: 'update',
        body: { toolCallId: 'call-1', sessionUpdate: 'tool_call', kind: 'execute', title: 'ls' },
      } as const;
      const told = [begun, askFor('ls'), command('rm -rf x', 'in_progress'), { do: 'hang' }] as const;
      expect(await terminal(turn(told, 'allow').over)).toBe('ran "rm -rf x" without asking');
    },
  );

  test('T52 with a command that changed while people decided stops the agent', async () => {
    await of('opencode');
    const told = [
      command('ls', 'pending'),
      { ...askFor('ls'), waits: false },
      command('rm -rf x', 'pending'),
      { do: 'answer' },
      { do: 'update', body: { toolCallId: 'call-1', sessionUpdate: 'tool_call_update', status: 'completed' } },
      { do: 'hang' },
    ] as const;
    expect(await terminal(turn(told, 'allow').over)).toBe('ran "rm -rf x" without asking');
  });

  test('T52 counts as approved when the agent reports the approved command in another form', async () => {
    await of('kimi');
    const told = [
      command('touch a && touch b', 'pending'),
      askFor('touch a && …'),
      command(['touch', 'a', '&&', 'touch', 'b'], 'in_progress'),
      command('touch a &&\n  touch b', 'completed'),
      { do: 'write', text: 'Done.' },
    ] as const;
    expect(await turn(told, 'allow').over).toEqual({ how: 'completed' });
  });

  test('T52 is not covered by the permission of an earlier call with the same id', async () => {
    await of('qwen');
    await turn(acts(FRAMES['qwen']!), 'allow').over;
    const unasked = acts(FRAMES['qwen']!).filter((act) => act.do !== 'ask');
    expect(await terminal(turn([...unasked, { do: 'hang' }]).over)).toBe('ran "touch a" without asking');
  });

  test('T52 counts as run as soon as it has begun, for an agent that asks before', async () => {
    await of('gemini');
    const begun = { sessionUpdate: 'tool_call', title: 'rm\u202E\n-rf', kind: 'delete', status: 'in_progress' };
    expect(await terminal(turn([...acts([begun]), { do: 'hang' }]).over)).toBe('ran "rm -rf" without asking');
  });

  test.for([
    ['codex', 'execute', 'runs in a sandbox'],
    ['opencode', 'read', 'only reads'],
    ['generic', 'execute', 'promised nothing'],
    ['copilot', 'execute', 'looks after a shell'],
  ] as const)('T52 without approval is accepted from %s: %s %s', async ([profile, kind]) => {
    await of(profile);
    const ran = { sessionUpdate: 'tool_call', title: 'ls', kind, status: 'completed', rawInput: {} };
    expect(await turn([...acts([ran]), { do: 'write', text: 'Done.' }]).over).toEqual({ how: 'completed' });
  });

  test('T52 stops the agent when Copilot CLI runs a command without asking', async () => {
    await of('copilot');
    const begun = { sessionUpdate: 'tool_call', title: 'x', kind: 'execute', rawInput: { command: 'rm -rf /' } };
    const ended = { sessionUpdate: 'tool_call_update', status: 'completed' };
    expect(await terminal(turn([...acts([begun, ended]), { do: 'hang' }]).over)).toBe('ran "x" without asking');
  });

  test('T52 stops the agent when Codex changes a file without asking', async () => {
    await of('codex');
    const ran = { sessionUpdate: 'tool_call', title: 'a.ts', kind: 'edit', status: 'completed' };
    expect(await terminal(turn([...acts([ran]), { do: 'hang' }]).over)).toBe('ran "a.ts" without asking');
  });
});

test('T52 every kind of backend declares whether its agents promise to ask', async () => {
  const promises = (profile: AcpProfileName) => createAcpBackend({ profile, command: 'x' }).promisesToAsk;
  const names = Object.keys(ACP_PROFILES) as AcpProfileName[];
  expect(names.filter((name) => !promises(name))).toEqual(['generic']);
  const command = createCommandBackend({
    command: 'x',
    args: [],
    input: 'stdin',
    output: 'text',
    timeoutMs: 1,
    maxOutputBytes: 1,
  });
  const scripted = createScriptedBackend({ script: SCRIPTS.pm, speed: typingSpeed() });
  expect([command.promisesToAsk, scripted.promisesToAsk]).toEqual([false, true]);
});
