import { describe, expect, test } from 'vitest';
import { AcpGeneration } from '../../../../src/agents/backends/acp/acp-generation.ts';
import { permissionRequest, sessionUpdate } from '../../../../src/agents/backends/acp/acp-wire.ts';
import type { GatedCall } from '../../../../src/agents/tools/tool-gate.ts';
import type { Choice } from '../../../../src/turns/floor/settings.ts';
import { systemTimers } from '../../../../src/lib/time.ts';
import { gateThat, prompt, recorder } from '../conversation.ts';

/** Frames recorded from an agent. `shows`: texts that people must see. `allow`, `reject`: the options to send. */
type Frames = {
  /** `session/update`s about the call before the request. */
  readonly updates?: readonly object[];
  readonly toolCall: object;
  readonly options: readonly { readonly optionId: string; readonly name: string; readonly kind: string }[];
  readonly shows: readonly string[];
  readonly allow: string;
  readonly reject: string;
};

const SEAT = { channel: 'console:demo', agent: 'dev', name: 'Developer', persona: '' };

/** Returns the request as people see it, and the answer to the agent. */
async function asked({ updates = [], toolCall, options }: Omit<Frames, 'shows' | 'allow' | 'reject'>, choice: Choice) {
  const requests: GatedCall[] = [];
  const report = { ...recorder().report, gate: gateThat((call) => (requests.push(call), choice)) };
  const run = new AcpGeneration(SEAT, prompt({ text: 'Clean up' }), report, {
    timers: systemTimers,
    cancel: () => undefined,
  });
  for (const update of updates) run.update(sessionUpdate.parse({ sessionId: 's1', update }).update);
  const request = permissionRequest.parse({ sessionId: 's1', toolCall, options });
  const outcome = await run.permission({ ...request, isOwn: false }, new AbortController().signal);
  return { request: requests[0], outcome };
}

const COMMAND = `find . -name '*.log' -mtime +30 -print0 | xargs -0 rm -f && echo "cleaned up the old logs"`;
const CLAUDE = [
  { optionId: 'allow_always', name: 'Always Allow all Bash', kind: 'allow_always' },
  { optionId: 'allow', name: 'Allow', kind: 'allow_once' },
  { optionId: 'reject', name: 'Reject', kind: 'reject_once' },
] as const;
const GEMINI = [
  { optionId: 'proceed_always', name: 'Allow All Edits', kind: 'allow_always' },
  { optionId: 'proceed_once', name: 'Allow', kind: 'allow_once' },
  { optionId: 'cancel', name: 'Reject', kind: 'reject_once' },
] as const;
const OPENCODE = [
  { optionId: 'once', kind: 'allow_once', name: 'Allow once' },
  { optionId: 'always', kind: 'allow_always', name: 'Always allow' },
  { optionId: 'reject', kind: 'reject_once', name: 'Reject' },
] as const;
const KIMI = [
  { optionId: 'approve', name: 'Approve once', kind: 'allow_once' },
  { optionId: 'approve_for_session', name: 'Approve for this session', kind: 'allow_always' },
  { optionId: 'reject', name: 'Reject', kind: 'reject_once' },
] as const;

const FRAMES: Readonly<Record<string, Frames>> = {
  'OpenCode, a command': {
    updates: [
      {
        sessionUpdate: 'tool_call',
        toolCallId: 'toolu_1',
        title: 'bash',
        kind: 'execute',
        status: 'pending',
        locations: [],
        rawInput: {},
      },
      {
        sessionUpdate: 'tool_call_update',
        toolCallId: 'toolu_1',
        status: 'in_progress',
        kind: 'execute',
        title: 'bash',
        rawInput: { command: COMMAND, description: 'Removes old logs' },
      },
    ],
    toolCall: {
      toolCallId: 'toolu_1',
      status: 'pending',
      title: 'bash',
      rawInput: {},
      kind: 'execute',
      locations: [],
    },
    options: OPENCODE,
    shows: [`command: ${COMMAND}`, 'description: Removes old logs', 'Allow is sent as "Allow once"'],
    allow: 'once',
    reject: 'reject',
  },
  'OpenCode, a foreign folder': {
    updates: [
      {
        sessionUpdate: 'tool_call_update',
        toolCallId: 'toolu_2',
        kind: 'execute',
        title: 'bash',
        rawInput: { command: 'mkdir -p /srv/other && cp -r . /srv/other' },
      },
    ],
    toolCall: {
      toolCallId: 'toolu_2',
      status: 'pending',
      title: 'external_directory',
      rawInput: { filepath: '/srv/other', parentDir: '/srv' },
      kind: 'other',
      locations: [{ path: '/srv/other' }],
    },
    options: OPENCODE,
    shows: ['command: mkdir -p /srv/other && cp -r . /srv/other', 'parentDir: /srv', 'external_directory'],
    allow: 'once',
    reject: 'reject',
  },
  'Claude Code, a command': {
    updates: [
      {
        sessionUpdate: 'tool_call',
        toolCallId: 'toolu_3',
        _meta: { claudeCode: { toolName: 'Bash' } },
        title: 'Terminal',
        kind: 'execute',
        status: 'pending',
        rawInput: {},
        content: [],
      },
    ],
    toolCall: {
      toolCallId: 'toolu_3',
      rawInput: { command: COMMAND, description: 'Removes old logs' },
      title: `\`${COMMAND}\``,
      kind: 'execute',
      content: [{ type: 'content', content: { type: 'text', text: 'Removes old logs' } }],
    },
    options: CLAUDE,
    shows: ['tool: Bash', `command: ${COMMAND}`, 'Allow is sent as "Allow", deny is sent as "Reject"'],
    allow: 'allow',
    reject: 'reject',
  },
  'Claude Code, an edit': {
    toolCall: {
      toolCallId: 'toolu_4',
      title: 'Edit `/work/app.ts`',
      kind: 'edit',
      rawInput: { file_path: '/work/app.ts', old_string: 'const port = 1;', new_string: 'const port = 2;' },
      content: [{ type: 'diff', path: '/work/app.ts', oldText: 'const port = 1;', newText: 'const port = 2;' }],
      locations: [{ path: '/work/app.ts', line: 12 }],
    },
    options: CLAUDE,
    shows: ['/work/app.ts (+1 -1)', '-const port = 1;', '+const port = 2;', 'at /work/app.ts:12'],
    allow: 'allow',
    reject: 'reject',
  },
  'Codex, a command': {
    toolCall: {
      toolCallId: 'call_5',
      kind: 'execute',
      status: 'pending',
      title: 'Run rm -f old.log',
      rawInput: { call_id: 'call_5', command: ['/bin/bash', '-lc', COMMAND], cwd: '/work', reason: 'writes outside' },
      content: [{ type: 'content', content: { type: 'text', text: 'writes outside\n\nProposed Amendment: rm' } }],
      locations: [{ path: '/work' }],
    },
    options: [
      { optionId: 'approved-for-session', name: 'Always', kind: 'allow_always' },
      { optionId: 'approved', name: 'Yes', kind: 'allow_once' },
      { optionId: 'abort', name: 'No, provide feedback', kind: 'reject_once' },
    ],
    shows: [JSON.stringify(COMMAND), 'cwd: /work', 'deny is sent as "No, provide feedback"'],
    allow: 'approved',
    reject: 'abort',
  },
  'Gemini CLI, a command': {
    toolCall: {
      toolCallId: 'run_shell_command-6',
      status: 'pending',
      title: `${COMMAND} [in /work] (Removes old logs)`,
      content: [],
      locations: [],
      kind: 'execute',
    },
    options: [
      { optionId: 'proceed_always', name: 'Always Allow find', kind: 'allow_always' },
      { optionId: 'proceed_once', name: 'Allow', kind: 'allow_once' },
      { optionId: 'cancel', name: 'Reject', kind: 'reject_once' },
    ],
    shows: [COMMAND, '[in /work]'],
    allow: 'proceed_once',
    reject: 'cancel',
  },
  'Gemini CLI, an edit': {
    toolCall: {
      toolCallId: 'replace-7',
      status: 'pending',
      title: 'app.ts: const port = 1; => const port = 2;',
      content: [
        { type: 'diff', path: 'app.ts', oldText: 'a\nconst port = 1;\nz\n', newText: 'a\nconst port = 2;\nz\n' },
      ],
      locations: [{ path: '/work/app.ts' }],
      kind: 'edit',
    },
    options: GEMINI,
    shows: ['app.ts (+1 -1)\n@@ -1,3 +1,3 @@\n a\n-const port = 1;\n+const port = 2;\n z', 'at /work/app.ts'],
    allow: 'proceed_once',
    reject: 'cancel',
  },
  'Qwen Code, a command': {
    toolCall: {
      toolCallId: 'call_8',
      status: 'pending',
      title: 'Shell',
      content: [{ type: 'content', content: { type: 'text', text: 'It deletes files.' } }],
      locations: [],
      kind: 'execute',
      rawInput: { command: COMMAND, is_background: false },
      _meta: { toolName: 'run_shell_command' },
    },
    options: [
      { optionId: 'proceed_always_project', name: 'Always Allow in project: find', kind: 'allow_always' },
      { optionId: 'proceed_always_user', name: 'Always Allow for user: find', kind: 'allow_always' },
      { optionId: 'proceed_once', name: 'Allow', kind: 'allow_once' },
      { optionId: 'cancel', name: 'Reject', kind: 'reject_once' },
    ],
    shows: ['tool: run_shell_command', `command: ${COMMAND}`, 'is_background: false', 'It deletes files.'],
    allow: 'proceed_once',
    reject: 'cancel',
  },
  'Qwen Code, the end of its plan, where the first yes would end all asking': {
    toolCall: {
      toolCallId: 'call_9',
      title: 'Plan',
      kind: 'switch_mode',
      content: [{ type: 'content', content: { type: 'text', text: '1. Delete the logs\n2. Push' } }],
    },
    options: [
      { optionId: 'restore_previous', name: 'Yes, restore previous mode (yolo)', kind: 'allow_once' },
      { optionId: 'proceed_once', name: 'Yes, and manually approve edits', kind: 'allow_once' },
      { optionId: 'cancel', name: 'No, keep planning (esc)', kind: 'reject_once' },
    ],
    shows: ['1. Delete the logs\n2. Push', 'Allow is sent as "Yes, and manually approve edits"'],
    allow: 'proceed_once',
    reject: 'cancel',
  },
  'Kimi CLI, a command that the request cuts': {
    updates: [
      {
        sessionUpdate: 'tool_call',
        toolCallId: '1a/call_10',
        title: 'Bash',
        status: 'in_progress',
        content: [{ type: 'content', content: { type: 'text', text: '{"comm' } }],
      },
      {
        sessionUpdate: 'tool_call_update',
        toolCallId: '1a/call_10',
        title: `Bash: ${COMMAND.slice(0, 20)}…`,
        content: [{ type: 'content', content: { type: 'text', text: JSON.stringify({ command: COMMAND }) } }],
      },
    ],
    toolCall: {
      toolCallId: '1a/call_10',
      title: 'Bash',
      content: [
        {
          type: 'content',
          content: {
            type: 'text',
            text: `Requesting approval to perform: Run command \`${COMMAND.slice(0, 50)}…\``,
          },
        },
      ],
    },
    options: KIMI,
    shows: [JSON.stringify({ command: COMMAND }), 'Requesting approval to perform', '"Approve once"'],
    allow: 'approve',
    reject: 'reject',
  },
  'Kimi CLI, a command in the content alone': {
    toolCall: {
      toolCallId: '1a/call_11',
      title: 'Bash',
      content: [
        {
          type: 'content',
          content: { type: 'text', text: 'Requesting approval to perform: Run command `rm -rf build`' },
        },
      ],
    },
    options: KIMI,
    shows: ['Run command `rm -rf build`'],
    allow: 'approve',
    reject: 'reject',
  },
  'Kimi CLI, a new file': {
    toolCall: {
      toolCallId: '1a/call_12',
      title: 'WriteFile: run.sh',
      content: [{ type: 'diff', path: 'run.sh', oldText: null, newText: '#!/bin/sh\nrm -rf build\n' }],
    },
    options: KIMI,
    shows: ['run.sh (a new file, +2 -0)', '+#!/bin/sh\n+rm -rf build'],
    allow: 'approve',
    reject: 'reject',
  },
  'Copilot CLI, a command': {
    toolCall: {
      toolCallId: 'call_13',
      title: 'Remove old logs',
      kind: 'execute',
      status: 'pending',
      rawInput: { command: COMMAND, commands: ['find', 'xargs'] },
    },
    options: [
      { optionId: 'allow_once', name: 'Allow once', kind: 'allow_once' },
      { optionId: 'allow_always', name: 'Always allow', kind: 'allow_always' },
      { optionId: 'reject_once', name: 'Deny', kind: 'reject_once' },
    ],
    shows: [`command: ${COMMAND}`, 'Remove old logs', 'deny is sent as "Deny"'],
    allow: 'allow_once',
    reject: 'reject_once',
  },
  'Copilot CLI, an edit': {
    toolCall: {
      toolCallId: 'call_14',
      title: 'Edit /work/app.ts',
      kind: 'edit',
      status: 'pending',
      rawInput: { fileName: '/work/app.ts', diff: '--- a/app.ts\n+++ b/app.ts\n-const port = 1;\n+const port = 2;' },
      locations: [{ path: '/work/app.ts' }],
    },
    options: [
      { optionId: 'allow_once', name: 'Allow once', kind: 'allow_once' },
      { optionId: 'reject_once', name: 'Deny', kind: 'reject_once' },
    ],
    shows: ['diff: \n  --- a/app.ts', '\n  -const port = 1;\n  +const port = 2;'],
    allow: 'allow_once',
    reject: 'reject_once',
  },
};

describe('T21 people see everything that would run', () => {
  test.for(Object.entries(FRAMES))('%s', async ([, frames]) => {
    const { request, outcome } = await asked(frames, 'allow');
    expect(request?.unaskable).toBeUndefined();
    for (const text of frames.shows) expect(request?.detail).toContain(text);
    expect(outcome).toEqual({ outcome: 'selected', optionId: frames.allow });
    expect((await asked(frames, 'reject')).outcome).toEqual({ outcome: 'selected', optionId: frames.reject });
  });

  test('unknown parts are shown unchanged; none is left out', async () => {
    const toolCall = {
      toolCallId: 't1',
      title: 'Do it',
      rawInput: ['rm', '-rf', 'build'],
      content: [{ type: 'terminal', terminalId: 'term_1' }, { type: 'surprise', run: 'rm -rf src' }, 'a bare word'],
    };
    const { request } = await asked({ toolCall, options: OPENCODE }, 'allow');
    for (const text of ['"-rf"', 'in the terminal term_1', '"run": "rm -rf src"', 'a bare word', 'Do it']) {
      expect(request?.detail).toContain(text);
    }
  });

  test('file changes come first, and an input that repeats them refers to them', async () => {
    const before = 'const port = 1;\nlisten(port);\n';
    const after = 'const port = 2;\nlisten(port);\n';
    const toolCall = {
      toolCallId: 't1',
      title: 'Edit app.ts',
      kind: 'edit',
      rawInput: { file_path: '/work/app.ts', old_string: before, new_string: after, note: 'const port = 2;' },
      content: [
        { type: 'content', content: { type: 'text', text: 'The port is taken.' } },
        { type: 'diff', path: '/work/app.ts', oldText: before, newText: after },
      ],
      locations: [{ path: '/work/app.ts', line: 1 }],
    };
    const { request } = await asked({ toolCall, options: CLAUDE }, 'allow');
    expect(request?.detail.split('\n')).toEqual([
      'Edit app.ts',
      '',
      '/work/app.ts (+1 -1)',
      '@@ -1,2 +1,2 @@',
      '-const port = 1;',
      '+const port = 2;',
      ' listen(port);',
      '',
      'kind: edit',
      '',
      'file_path: /work/app.ts',
      'old_string: (shown in the file changes)',
      'new_string: (shown in the file changes)',
      'note: const port = 2;',
      '',
      'The port is taken.',
      '',
      'at /work/app.ts:1',
      '',
      'Allow is sent as "Allow", deny is sent as "Reject".',
    ]);
  });

  test('a text of several lines cannot imitate another part of the input', async () => {
    const rawInput = { note: 'harmless\ncommand: ls', command: 'rm -rf build' };
    const { request } = await asked({ toolCall: { toolCallId: 't1', rawInput }, options: OPENCODE }, 'allow');
    const lines = request?.detail.split('\n') ?? [];
    expect(lines.filter((line) => line.startsWith('command: '))).toEqual(['command: rm -rf build']);
    expect(lines).toContain('  command: ls');
  });

  test.for([
    ['nothing but its title', { title: 'ls' }, true],
    ['an empty input', { title: 'ls', kind: 'execute', rawInput: {}, content: [], locations: [] }, true],
    ['no input', { title: 'ls', kind: 'execute', rawInput: null }, true],
    ['a command', { title: 'ls', rawInput: { command: 'ls' } }, false],
    ['a place', { title: 'edit', kind: 'edit', locations: [{ path: '/a' }] }, false],
    ['a text', { title: 'ls', content: [{ type: 'content', content: { type: 'text', text: 'ls -l' } }] }, false],
  ] as const)('a request that holds %s warns only if it shows nothing of the call', async ([, call, isEmpty]) => {
    const { request } = await asked({ toolCall: { toolCallId: 'c', ...call }, options: CLAUDE }, 'reject');
    expect(request?.detail.includes('Its agent shows nothing of what it would do.')).toBe(isEmpty);
  });

  test('a title that is too long for a heading is shown completely in the text', async () => {
    const title = `${'ls && '.repeat(100)}rm -rf build`;
    const { request } = await asked({ toolCall: { toolCallId: 't1', title }, options: OPENCODE }, 'allow');
    expect(request?.title).toHaveLength(301);
    expect(request?.detail).toContain(title);
  });

  test('misleading names of options are quoted, and answered by their kind', async () => {
    const options = [
      { optionId: 'x', name: 'Reject', kind: 'allow_once' },
      { optionId: 'y', name: 'Allow"\nEverything', kind: 'reject_once' },
    ];
    const { request, outcome } = await asked({ toolCall: { toolCallId: 't1' }, options }, 'allow');
    expect(request?.detail).toContain('Allow is sent as "Reject", deny is sent as "Allow\\"\\nEverything".');
    expect(outcome).toEqual({ outcome: 'selected', optionId: 'x' });
  });
});
