import { z } from 'zod';
import type { ToolKind } from '../../../rules/rule.ts';
import { BackendError } from '../backend.ts';

/** What is known when an agent is made to ask. */
export type AskingContext = {
  /** The name of the floor's own tool server, whose tools need no yes; `null` when the agent has none. */
  readonly server: string | null;
  /** The private folder in which `files` will stand; nothing of it is in the agent's working folder. */
  readonly folder: string;
  /** The folder that the agent works in; `null` when it is not known, for it runs elsewhere. */
  readonly cwd: string | null;
  /** The variables that the agent would be given. */
  readonly env: Readonly<Record<string, string>>;
  /** Kinds of tools that it may not use at all: its own lists forbid them, too. */
  readonly denied: readonly ToolKind[];
  /** Kinds of which rules deny or ask about some: it has to ask for each, also where it would not by itself. */
  readonly asked: readonly ToolKind[];
};

/** What makes an agent ask, besides its mode. It goes before all that the configuration says. */
export type Asking = {
  /** Arguments behind all others. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Texts of files in the private folder, by their names. */
  readonly files?: Readonly<Record<string, string>>;
  /** `_meta` of the requests that open a session. */
  readonly meta?: object;
};

/** Claude Code: rules that only this session's managed settings may make, no hooks, and no servers of a repository. */
export function askingClaude({ server, cwd, denied, asked }: AskingContext): Asking {
  const disallowedTools = toolsOf(CLAUDE_TOOLS, denied);
  const permissions = {
    ask: [...new Set([...CLAUDE_ASKS, ...toolsOf(CLAUDE_TOOLS, asked)])],
    deny: disallowedTools,
    allow: server === null ? [] : [`mcp__${server}__*`],
    defaultMode: 'default',
    disableBypassPermissionsMode: 'disable',
    disableAutoMode: 'disable',
  };
  const options = {
    settings: { permissions },
    managedSettings: { permissions, allowManagedPermissionRulesOnly: true, disableAllHooks: true },
    allowDangerouslySkipPermissions: false,
    disallowedTools,
    strictMcpConfig: true,
    // The settings of a repository run programs and send the key elsewhere before anybody is asked.
    settingSources: ['user'],
    // Its CLAUDE.md belongs to the same source: it is read as that of a further folder.
    ...(cwd !== null && { additionalDirectories: [cwd] }),
  };
  return { env: { CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD: '1' }, meta: { claudeCode: { options } } };
}

/** Codex begins in the mode in which it asks. */
export function askingCodex(): Asking {
  return { env: { INITIAL_AGENT_MODE: 'read-only' } };
}

/**
 * Gemini CLI: a policy of the administrator's tier, above those of users, extensions and repositories; and no tool servers
 * but the floor's, for those of a repository are programs that it would start unasked.
 */
export function askingGemini({ server, folder, env, denied, asked }: AskingContext): Asking {
  const notFree = toolsOf(GEMINI_TOOLS, asked);
  const forbidden = toolsOf(GEMINI_TOOLS, denied);
  const rules = [
    ...(forbidden.length === 0 ? [] : [rule({ toolName: forbidden, decision: 'deny', priority: 500 })]),
    rule({ toolName: '*', decision: 'ask_user', priority: 100 }),
    rule({ toolName: GEMINI_READS.filter((tool) => !notFree.includes(tool)), decision: 'allow', priority: 200 }),
    // Without a pattern Gemini CLI runs commands unasked that it takes for harmless.
    rule({ toolName: 'run_shell_command', argsPattern: '.', decision: 'ask_user', priority: 400 }),
    ...(server === null ? [] : [rule({ mcpName: server, toolName: '*', decision: 'allow', priority: 300 })]),
  ];
  const servers = ['--allowed-mcp-server-names', server ?? 'none'];
  // A variable that is set, if to nothing, is not taken from a .env of the folder, and the key goes to no other host.
  const hosts = GEMINI_HOSTS.map((name) => [name, env[name] ?? '']);
  return {
    args: ['--admin-policy', `${folder}/policy.toml`, ...servers],
    env: Object.fromEntries(hosts),
    files: { 'policy.toml': rules.join('\n') },
  };
}

/** Qwen Code: settings of the system, above those of users and repositories. */
export function askingQwen({ server, folder, denied, asked }: AskingContext): Asking {
  const settings = {
    permissions: {
      ask: [...new Set([...CLAUDE_ASKS, ...toolsOf(QWEN_TOOLS, asked)])],
      deny: toolsOf(QWEN_TOOLS, denied),
      allow: server === null ? [] : [`mcp__${server}__*`],
    },
    tools: { approvalMode: 'default' },
    disableAllHooks: true,
  };
  return {
    env: { QWEN_CODE_SYSTEM_SETTINGS_PATH: `${folder}/settings.json` },
    files: { 'settings.json': JSON.stringify(settings) },
  };
}

/**
 * OpenCode: permissions in the last configuration that it reads, and none from the working folder. What the variable held
 * already stays, but for permissions. Throws a terminal `BackendError` when that is not JSON.
 */
export function askingOpenCode({ server, env, denied, asked }: AskingContext): Asking {
  const permission = {
    ...OPENCODE_PERMISSIONS,
    ...Object.fromEntries(toolsOf(OPENCODE_TOOLS, asked).map((tool) => [tool, 'ask'])),
    ...Object.fromEntries(toolsOf(OPENCODE_TOOLS, denied).map((tool) => [tool, 'deny'])),
    ...(server === null ? {} : { [`${server}_*`]: 'allow' }),
  };
  const { permission: _, tools: _tools, mode = {}, agent = {}, ...given } = openCodeConfig(env);
  const known = Object.entries({ ...OPENCODE_AGENTS, ...mode, ...agent });
  const asking = known.map(([name, { permission: _own, tools: _also, ...rest }]) => [name, { ...rest, permission }]);
  const content = { ...given, permission, agent: Object.fromEntries(asking) };
  return {
    env: {
      OPENCODE_CONFIG_CONTENT: JSON.stringify(content),
      OPENCODE_PERMISSION: JSON.stringify(permission),
      OPENCODE_DISABLE_PROJECT_CONFIG: 'true',
    },
  };
}

/** Copilot CLI asks by itself; only the floor's own tools need no yes. */
export function askingCopilot({ server, denied }: AskingContext): Asking {
  const hidden = toolsOf(COPILOT_HIDDEN, denied);
  const args = [
    ...(server === null ? [] : [`--allow-tool=${server}`]),
    ...toolsOf(COPILOT_DENIED, denied).map((tool) => `--deny-tool=${tool}`),
    ...(hidden.length === 0 ? [] : [`--excluded-tools=${hidden.join(',')}`]),
  ];
  return { args };
}

/** What agents call their tools, by kind; what they have no word for is refused when they ask. */
type ToolNames = Readonly<Partial<Record<ToolKind, readonly string[]>>>;

function toolsOf(names: ToolNames, denied: readonly ToolKind[]): readonly string[] {
  return [...new Set(denied.flatMap((kind) => names[kind] ?? []))];
}

const GEMINI_HOSTS = ['GOOGLE_GEMINI_BASE_URL', 'GOOGLE_VERTEX_BASE_URL'];
const CLAUDE_ASKS = ['Bash', 'Edit', 'Write', 'NotebookEdit', 'WebFetch'];
const CLAUDE_TOOLS: ToolNames = {
  read: ['Read'],
  search: ['Grep', 'Glob'],
  edit: ['Edit', 'Write', 'NotebookEdit'],
  execute: ['Bash'],
  fetch: ['WebFetch', 'WebSearch'],
};
/** As Claude Code's, and "Read" would forbid searching as well. */
const QWEN_TOOLS: ToolNames = {
  read: ['ReadFile'],
  search: ['Grep', 'Glob', 'ListFiles'],
  edit: ['Edit', 'Write', 'NotebookEdit'],
  execute: ['Bash'],
  fetch: ['WebFetch'],
};
const OPENCODE_TOOLS: ToolNames = {
  read: ['read'],
  search: ['grep', 'glob', 'list'],
  edit: ['edit'],
  execute: ['bash'],
  fetch: ['webfetch', 'websearch'],
};
const GEMINI_TOOLS: ToolNames = {
  read: ['read_file', 'read_many_files'],
  search: ['list_directory', 'glob', 'grep_search', 'search_file_content'],
  edit: ['replace', 'write_file'],
  execute: ['run_shell_command'],
  fetch: ['web_fetch', 'google_web_search'],
};
const COPILOT_DENIED: ToolNames = { edit: ['write'], execute: ['shell'], fetch: ['url'] };
/** It reads and searches without looking for a permission. */
const COPILOT_HIDDEN: ToolNames = { read: ['view'], search: ['grep', 'glob'] };

/** What Gemini CLI does unasked by its own defaults: reading, and its own plans and notes. */
const GEMINI_READS = [
  'read_file',
  'read_many_files',
  'list_directory',
  'glob',
  'grep_search',
  'search_file_content',
  'google_web_search',
  'list_background_processes',
  'read_background_output',
  'write_todos',
  'update_topic',
  'complete_task',
  'invoke_agent',
];

/** The last rule that matches counts; those that OpenCode knows by name are named, so that no older one stands behind "*". */
const OPENCODE_PERMISSIONS = {
  '*': 'ask',
  bash: 'ask',
  edit: 'ask',
  webfetch: 'ask',
  websearch: 'ask',
  external_directory: 'ask',
  doom_loop: 'ask',
  read: { '*': 'allow', '*.env': 'ask', '*.env.*': 'ask', '*.env.example': 'allow' },
  grep: 'allow',
  glob: 'allow',
  list: 'allow',
  todowrite: 'allow',
  todoread: 'allow',
};

const agents = z.record(
  z.string(),
  z.looseObject({ permission: z.unknown().optional(), tools: z.unknown().optional() }),
);
const OPENCODE_AGENTS: z.output<typeof agents> = { build: {}, plan: {}, general: {} };
const openCode = z.looseObject({ agent: agents.exactOptional(), mode: agents.exactOptional() });

function openCodeConfig({
  OPENCODE_CONFIG_CONTENT: text,
}: Readonly<Record<string, string>>): z.output<typeof openCode> {
  if (text === undefined || text.trim() === '') return {};
  try {
    return openCode.parse(JSON.parse(text));
  } catch (cause) {
    throw new BackendError('OPENCODE_CONFIG_CONTENT is not a configuration of OpenCode in plain JSON', {
      terminal: true,
      cause,
    });
  }
}

/** A rule as TOML: its strings and lists of strings are spelled as in JSON. */
function rule(parts: Readonly<Record<string, string | number | readonly string[]>>): string {
  const lines = Object.entries(parts).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  return ['[[rule]]', ...lines, ''].join('\n');
}
