import {
  ALL_FILES,
  CLAUDE_FILES,
  CODEX_FILES,
  COPILOT_FILES,
  GEMINI_FILES,
  KIMI_FILES,
  OPENCODE_FILES,
  QWEN_FILES,
} from '../../trust/repository-files.ts';
import type { RepositoryFiles } from '../../trust/repository-files.ts';
import { z } from 'zod';
import type { ToolKind } from '../../../rules/rule.ts';
import { BackendError } from '../backend.ts';

/** What is particular about one agent that speaks the Agent Client Protocol. */
export type AcpProfile = {
  /** What it is called in messages to people. */
  readonly name: string;
  /** The program and its arguments; `null` when the configuration must name one. */
  readonly command: string | null;
  readonly args: readonly string[];
  /** How people get the program. */
  readonly install?: string;
  /** Variables of this program that it needs: keys, endpoints and where it keeps its own settings. */
  readonly pass: readonly string[];
  /** Takes a second prompt in the middle of a turn into that turn. */
  readonly takesSecondPrompt: boolean;
  /**
   * Modes in which it asks before it changes things, the preferred one first. The first that it has is set; one that has
   * none of them gets no session.
   */
  readonly modes: readonly string[];
  /** Settings besides the mode that have to stay as they are here, by their ids. */
  readonly holds?: Readonly<Record<string, string>>;
  /** What makes it ask, besides its mode. */
  readonly asking?: (context: AskingContext) => Asking;
  /** The files of a folder that it obeys: beside one that is not switched off it gets no session unless the folder is trusted. */
  readonly repositoryFiles: RepositoryFiles;
  /** What it promises to ask for once it is so set; `null`: nothing. */
  readonly asks: AcpPromise | null;
  /** Where it changes things without asking, whatever Conch sets: it gets no session unless its agent is `trusted`. */
  readonly actsUnasked?: ActsUnasked;
  /** How to sign in when it asks for it: the method, if one of these variables is set. */
  readonly signIn?: { readonly method: string; readonly when: readonly string[] };
};

/** What an agent is known to do without asking. */
export type ActsUnasked = {
  /** In words that follow its name: "writes files …". */
  readonly words: string;
  /** The kinds of tools. */
  readonly kinds: readonly string[];
};

/** What an agent promises to ask for, and how to see that it did not. */
export type AcpPromise = {
  /** The kinds of tools. */
  readonly kinds: readonly string[];
  /** The status by which a call has truly run: some say `in_progress` before they ask. */
  readonly ranWhen: 'in_progress' | 'completed';
  /** A call of the kind `execute` whose input lacks this key only looks after a command that was asked for. */
  readonly commandKey?: string;
};

const CHANGES = ['edit', 'delete', 'move'];
const COPILOT_MODES = ['agent', 'plan'].map((mode) => `https://agentclientprotocol.com/protocol/session-modes#${mode}`);
const CHANGES_AND_COMMANDS = [...CHANGES, 'execute'];

/** The agents known by name. `generic` is any other; its command comes from the configuration. */
export const ACP_PROFILES = {
  generic: {
    name: 'the agent',
    command: null,
    args: [],
    pass: [],
    takesSecondPrompt: false,
    modes: [],
    repositoryFiles: ALL_FILES,
    asks: null,
  },
  opencode: {
    name: 'OpenCode',
    command: 'opencode',
    args: ['acp'],
    install: 'install it with: npm install -g opencode-ai',
    pass: [
      'OPENCODE_CONFIG',
      'OPENCODE_CONFIG_CONTENT',
      'ANTHROPIC_API_KEY',
      'OPENAI_API_KEY',
      'OPENROUTER_API_KEY',
      'GEMINI_API_KEY',
    ],
    takesSecondPrompt: true,
    modes: [],
    asking: askingOpenCode,
    repositoryFiles: OPENCODE_FILES,
    asks: { kinds: CHANGES_AND_COMMANDS, ranWhen: 'completed' },
  },
  'claude-code': {
    name: 'Claude Code',
    command: 'claude-agent-acp',
    args: [],
    install: 'install it with: npm install -g @agentclientprotocol/claude-agent-acp',
    pass: [
      'ANTHROPIC_API_KEY',
      'ANTHROPIC_AUTH_TOKEN',
      'ANTHROPIC_BASE_URL',
      'ANTHROPIC_MODEL',
      'CLAUDE_CONFIG_DIR',
      'CLAUDE_CODE_OAUTH_TOKEN',
      'CLAUDE_CODE_USE_BEDROCK',
      'CLAUDE_CODE_USE_VERTEX',
    ],
    takesSecondPrompt: false,
    modes: ['default', 'plan'],
    asking: askingClaude,
    repositoryFiles: CLAUDE_FILES,
    asks: { kinds: CHANGES_AND_COMMANDS, ranWhen: 'in_progress' },
  },
  codex: {
    name: 'Codex',
    command: 'codex-acp',
    args: [],
    install: 'install it with: npm install -g @agentclientprotocol/codex-acp',
    pass: ['OPENAI_API_KEY', 'CODEX_API_KEY', 'OPENAI_BASE_URL', 'CODEX_HOME'],
    takesSecondPrompt: false,
    modes: ['read-only'],
    asking: askingCodex,
    repositoryFiles: CODEX_FILES,
    // What it runs without asking runs in its sandbox, which lets it change nothing.
    asks: { kinds: CHANGES, ranWhen: 'completed' },
    signIn: { method: 'api-key', when: ['OPENAI_API_KEY', 'CODEX_API_KEY'] },
  },
  gemini: {
    name: 'Gemini CLI',
    command: 'gemini',
    args: ['--acp'],
    install: 'install it with: npm install -g @google/gemini-cli',
    pass: [
      'GEMINI_API_KEY',
      'GOOGLE_API_KEY',
      'GOOGLE_GEMINI_BASE_URL',
      'GEMINI_MODEL',
      'GOOGLE_CLOUD_PROJECT',
      'GOOGLE_CLOUD_LOCATION',
      'GOOGLE_GENAI_USE_VERTEXAI',
      'GOOGLE_APPLICATION_CREDENTIALS',
    ],
    takesSecondPrompt: false,
    modes: ['default', 'plan'],
    asking: askingGemini,
    repositoryFiles: GEMINI_FILES,
    asks: { kinds: CHANGES_AND_COMMANDS, ranWhen: 'in_progress' },
    signIn: { method: 'gemini-api-key', when: ['GEMINI_API_KEY'] },
  },
  qwen: {
    name: 'Qwen Code',
    command: 'qwen',
    args: ['--acp'],
    install: 'install it with: npm install -g @qwen-code/qwen-code',
    pass: ['OPENAI_API_KEY', 'OPENAI_BASE_URL', 'OPENAI_MODEL', 'DASHSCOPE_API_KEY'],
    takesSecondPrompt: false,
    modes: ['default', 'plan'],
    asking: askingQwen,
    repositoryFiles: QWEN_FILES,
    asks: { kinds: CHANGES_AND_COMMANDS, ranWhen: 'in_progress' },
    signIn: { method: 'openai', when: ['OPENAI_API_KEY'] },
  },
  copilot: {
    name: 'Copilot CLI',
    command: 'copilot',
    args: ['--acp', '--stdio'],
    install: 'install it with: npm install -g @github/copilot',
    pass: [
      'COPILOT_GITHUB_TOKEN',
      'GH_TOKEN',
      'GITHUB_TOKEN',
      'COPILOT_HOME',
      'COPILOT_MODEL',
      'COPILOT_OFFLINE',
      'COPILOT_PROVIDER_TYPE',
      'COPILOT_PROVIDER_BASE_URL',
      'COPILOT_PROVIDER_API_KEY',
    ],
    takesSecondPrompt: false,
    modes: COPILOT_MODES,
    holds: { allow_all: 'off' },
    asking: askingCopilot,
    repositoryFiles: COPILOT_FILES,
    asks: { kinds: CHANGES_AND_COMMANDS, ranWhen: 'in_progress', commandKey: 'command' },
  },
  kimi: {
    name: 'Kimi Code',
    command: 'kimi',
    args: ['acp'],
    install: 'install it with: npm install -g @moonshot-ai/kimi-code',
    pass: ['KIMI_CODE_HOME'],
    takesSecondPrompt: false,
    modes: ['default', 'plan'],
    repositoryFiles: KIMI_FILES,
    asks: { kinds: CHANGES_AND_COMMANDS, ranWhen: 'completed' },
    // Its rule "git-cwd-write-approve" has no switch, and it never applies the rules of its own configuration.
    actsUnasked: { words: 'writes files of a Git repository without asking', kinds: ['edit'] },
  },
} as const satisfies Record<string, AcpProfile>;

export type AcpProfileName = keyof typeof ACP_PROFILES;

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
