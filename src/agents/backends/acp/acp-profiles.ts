import type { AgentConfig } from '../../../config/config.ts';
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
import { parsedJson } from '../../../lib/defined.ts';

/** The properties of one kind of agent that speaks the Agent Client Protocol. */
export type AcpProfile = {
  /** The agent's name in messages to people. */
  readonly name: string;
  /** The program; `null` when the configuration must name one. */
  readonly command: string | null;
  readonly args: readonly string[];
  /** How to install the program, in words for the error message when it is missing. */
  readonly install?: string;
  /** Names of Conch's environment variables to pass on to the agent, such as API keys. */
  readonly pass: readonly string[];
  /** True when the agent accepts a second prompt while the first one runs. */
  readonly takesSecondPrompt?: true;
  /**
   * Modes in which the agent asks before it changes things, best first. The first available mode is set. No session is
   * opened when none is available. An empty list sets no mode.
   */
  readonly modes: readonly string[];
  /** Options besides the mode that must keep these values, by id. Options that a session lacks are skipped. */
  readonly holds?: Readonly<Record<string, string>>;
  /** Returns settings that make the agent ask for approval, for its start and its sessions. */
  readonly asking?: (context: AskingContext) => Asking;
  /** Files in and above a working folder that configure the agent. */
  readonly repositoryFiles: RepositoryFiles;
  /** The calls for which the agent promises to ask; `null` for none. */
  readonly asks: AcpPromise | null;
  /**
   * Changes that a local agent makes without asking in any mode. No session is opened unless the configuration sets
   * `trusted`.
   */
  readonly actsUnasked?: ActsUnasked;
  /**
   * The login method to use when the agent requires a login. `when`: variables that hold its key, named in the error
   * message.
   */
  readonly signIn?: { readonly method: string; readonly when: readonly string[] };
};

/** Known changes that an agent makes without asking. */
export type ActsUnasked = {
  /** Words that follow the agent's name: "writes files …". */
  readonly words: string;
  /** The ACP kinds of the tools that make these changes, such as `edit`. */
  readonly kinds: readonly string[];
};

/** The calls for which an agent promises to ask, and how to detect a broken promise. */
export type AcpPromise = {
  /** The ACP kinds of the tools for which the agent asks, such as `edit`. */
  readonly kinds: readonly string[];
  /** The first status that proves that a call ran. Some agents report `in_progress` before they ask. */
  readonly ranWhen: 'in_progress' | 'completed';
  /**
   * The input key that holds the command. An `execute` call without this key only reads the output of an allowed
   * command.
   */
  readonly commandKey?: string;
};

const CHANGES = ['edit', 'delete', 'move'];
const COPILOT_MODES = ['agent', 'plan'].map((mode) => `https://agentclientprotocol.com/protocol/session-modes#${mode}`);
const CHANGES_AND_COMMANDS = [...CHANGES, 'execute'];

/** The known agents. `generic` is any other agent; the configuration names its command. */
export const ACP_PROFILES = {
  generic: { name: 'the agent', command: null, args: [], pass: [], modes: [], repositoryFiles: ALL_FILES, asks: null },
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
    modes: ['read-only'],
    asking: () => ({ env: { INITIAL_AGENT_MODE: 'read-only' } }),
    repositoryFiles: CODEX_FILES,
    // `execute` is left out: commands that Codex runs without asking run in its own sandbox, which is read-only.
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
    modes: ['default', 'plan'],
    repositoryFiles: KIMI_FILES,
    asks: { kinds: CHANGES_AND_COMMANDS, ranWhen: 'completed' },
    // The rule "git-cwd-write-approve" cannot be switched off, and Kimi ignores the rules of its own configuration.
    actsUnasked: { words: 'writes files of a Git repository without asking', kinds: ['edit'] },
  },
} as const satisfies Record<Extract<AgentConfig['backend'], { kind: 'acp' }>['profile'], AcpProfile>;

export type AcpProfileName = keyof typeof ACP_PROFILES;

type AskingContext = {
  /** Name of Conch's tool server, whose tools the agent may call without asking; `null` when the agent has none. */
  readonly server: string | null;
  /** The path of the private folder that holds `files`. Empty when the agent runs elsewhere. */
  readonly folder: string;
  /** The agent's working folder; `null` when it runs elsewhere. */
  readonly cwd: string | null;
  /** The agent's environment variables before the profile's settings are added. Empty when the agent runs elsewhere. */
  readonly env: Readonly<Record<string, string>>;
  /** Kinds of tools that the agent's settings must deny. */
  readonly denied: readonly ToolKind[];
  /** Kinds of tools, besides `denied`, that some rule denies or asks about. The agent must ask for each such call. */
  readonly asked: readonly ToolKind[];
};

/** Settings that make an agent ask for approval, for its start and its sessions. */
export type Asking = {
  /** Arguments, added after all other arguments. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Contents of files in the private folder, by file name. */
  readonly files?: Readonly<Record<string, string>>;
  /** `_meta` of the requests that open a session. */
  readonly meta?: object;
};

/**
 * Returns the settings of Claude Code: permission rules by managed settings only, no hooks, no MCP servers of the
 * repository.
 */
function askingClaude({ server, cwd, denied, asked }: AskingContext): Asking {
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
    // Settings of a repository could run programs and redirect the API key before anybody is asked.
    settingSources: ['user'],
    // `settingSources` excludes the folder's CLAUDE.md, so the folder is named as an additional directory.
    ...(cwd !== null && { additionalDirectories: [cwd] }),
  };
  return { env: { CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD: '1' }, meta: { claudeCode: { options } } };
}

/**
 * Returns the settings of Gemini CLI: a policy of the admin tier, above users, extensions and repositories. Only the
 * floor's tool server is allowed, because a repository's servers would start without asking.
 */
function askingGemini({ server, folder, env, denied, asked }: AskingContext): Asking {
  const notFree = toolsOf(GEMINI_TOOLS, asked);
  const forbidden = toolsOf(GEMINI_TOOLS, denied);
  const rules = [
    ...(forbidden.length === 0 ? [] : [rule({ toolName: forbidden, decision: 'deny', priority: 500 })]),
    rule({ toolName: '*', decision: 'ask_user', priority: 100 }),
    rule({ toolName: GEMINI_READS.filter((tool) => !notFree.includes(tool)), decision: 'allow', priority: 200 }),
    // Without a pattern Gemini CLI runs commands that it considers safe without asking.
    rule({ toolName: 'run_shell_command', argsPattern: '.', decision: 'ask_user', priority: 400 }),
    ...(server === null ? [] : [rule({ mcpName: server, toolName: '*', decision: 'allow', priority: 300 })]),
  ];
  const servers = ['--allowed-mcp-server-names', server ?? 'none'];
  // An empty variable is not overridden by a .env file in the folder, so the API key is not sent to another host.
  const hosts = GEMINI_HOSTS.map((name) => [name, env[name] ?? '']);
  return {
    args: ['--admin-policy', `${folder}/policy.toml`, ...servers],
    env: Object.fromEntries(hosts),
    files: { 'policy.toml': rules.join('\n') },
  };
}

/** Returns the settings of Qwen Code, as system settings: they override settings of users and repositories. */
function askingQwen({ server, folder, denied, asked }: AskingContext): Asking {
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
 * Returns the settings of OpenCode: permissions in the configuration that OpenCode reads last. Keeps other settings in
 * `OPENCODE_CONFIG_CONTENT`. Throws a terminal `BackendError` when that variable is not a configuration in JSON.
 */
function askingOpenCode({ server, env, denied, asked }: AskingContext): Asking {
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

/**
 * Returns the arguments of Copilot CLI, which asks by itself. They allow the floor's tools, and deny or hide the tools
 * of denied kinds.
 */
function askingCopilot({ server, denied }: AskingContext): Asking {
  const hidden = toolsOf(COPILOT_HIDDEN, denied);
  const args = [
    ...(server === null ? [] : [`--allow-tool=${server}`]),
    ...toolsOf(COPILOT_DENIED, denied).map((tool) => `--deny-tool=${tool}`),
    ...(hidden.length === 0 ? [] : [`--excluded-tools=${hidden.join(',')}`]),
  ];
  return { args };
}

/** An agent's names for its tools, by kind. A kind without a name is denied when the agent asks. */
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
/** Qwen Code's tool names. "ReadFile" in place of "Read", because a rule for "Read" would deny searches too. */
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
/** Copilot reads and searches without checking permissions, so tools of denied kinds are hidden. */
const COPILOT_HIDDEN: ToolNames = { read: ['view'], search: ['grep', 'glob'] };

/** Tools that Conch's policy lets Gemini CLI run without asking, unless a rule denies or asks about their kind. */
const GEMINI_READS = [
  ...toolsOf(GEMINI_TOOLS, ['read', 'search']),
  'google_web_search',
  'list_background_processes',
  'read_background_output',
  'write_todos',
  'update_topic',
  'complete_task',
  'invoke_agent',
];

/** OpenCode's permissions by tool. The last matching entry decides. */
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

function openCodeConfig({ OPENCODE_CONFIG_CONTENT: text = '' }: AskingContext['env']): z.output<typeof openCode> {
  const config = text.trim() === '' ? {} : parsedJson(text, openCode);
  if (config !== null) return config;
  throw new BackendError('OPENCODE_CONFIG_CONTENT is not a configuration of OpenCode in plain JSON', {
    terminal: true,
  });
}

/** Returns a rule of Gemini CLI's policy as TOML. TOML writes strings and lists of strings as JSON does. */
function rule(parts: Readonly<Record<string, string | number | readonly string[]>>): string {
  const lines = Object.entries(parts).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  return ['[[rule]]', ...lines, ''].join('\n');
}
