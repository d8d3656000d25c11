/**
 * What a file can do to whoever opens its folder with an agent, before anybody is asked. `run`: starts a program. `load`:
 * loads code or a tool server into the agent. `redirect`: sends requests, and the keys with them, to another host. `allow`:
 * frees the agent from asking.
 */
export type FilePower = 'run' | 'load' | 'redirect' | 'allow';

/** A file in the agent's folder that its program obeys. */
export type RepositoryFile = {
  /**
   * Its path from a folder that is searched, with `/`: `*` stands for any letters of a name, `**` as a whole name for any
   * folders, and at the end for all that lies below. Letter case does not matter. A folder is named by `…/**`.
   */
  readonly path: string;
  /**
   * `folder`: the agent's folder alone. `up-to-repository-root`: it and those above it, up to the one that holds `.git`; the
   * agent's folder alone where none does. `up-to-disk-root`: it and all above it. `any-depth`: it and all below it.
   */
  readonly searched: 'folder' | 'up-to-repository-root' | 'up-to-disk-root' | 'any-depth';
  readonly can: readonly FilePower[];
  /** What the file does, in words for the operator who decides: "runs apiKeyHelper when the session opens". */
  readonly note: string;
  /** The file counts only if its text holds one of these, in any letter case. Absent: it always counts. */
  readonly holding?: readonly string[];
  /** How Conch switches the file off, shown by a real run. Nobody is asked about a file that is off. Absent: it is on. */
  readonly offBy?: string;
};

/** The files of a folder that an agent obeys. */
export type RepositoryFiles = {
  /** The package and the release that the list was read from. */
  readonly release: string;
  readonly files: readonly RepositoryFile[];
};

const EVERYTHING: readonly FilePower[] = ['run', 'load', 'redirect', 'allow'];
const ENVIRONMENT_NOTE = 'sets variables of the agent, also the host of the model';

/** Where an agent looks from its folder upwards. */
const UP = { searched: 'up-to-repository-root' } as const;
const UP_TO_DISK = { searched: 'up-to-disk-root' } as const;

/** What Conch sets so that Claude Code reads settings of its user and of an administrator alone. */
const USER_ALONE = "the setting source 'user' alone";
const ONE_SERVER = 'strictMcpConfig: no tool servers but those of Conch';

/** Read from its documentation of settings, hooks, MCP, subagents and skills, from the SDK's `Settings`, and from its program. */
export const CLAUDE_FILES: RepositoryFiles = {
  release: '@agentclientprotocol/claude-agent-acp 0.101.0',
  files: [
    ...['.claude/settings.json', '.claude/settings.local.json'].map((path): RepositoryFile => ({
      path,
      ...UP,
      can: ['run', 'load', 'redirect', 'allow'],
      note: 'runs apiKeyHelper and hooks; its env can send the key to another host; loads plugins; allows tools',
      offBy: USER_ALONE,
    })),
    { path: '.mcp.json', ...UP, can: ['load', 'run'], note: 'starts tool servers', offBy: ONE_SERVER },
    {
      path: '.claude/agents/**',
      ...UP,
      can: ['load', 'allow'],
      note: 'agents with tool servers, hooks and a mode of their own',
      offBy: USER_ALONE,
    },
    {
      path: '.claude/commands/**',
      ...UP,
      can: ['run', 'allow'],
      note: 'commands whose text runs programs',
      offBy: USER_ALONE,
    },
    {
      path: '.claude/skills/**',
      ...UP,
      can: ['run', 'allow'],
      note: 'skills whose text runs programs, and hooks',
      offBy: USER_ALONE,
    },
  ],
};

/** Read from the documentation of its configuration, hooks and rules, and from the adapter, which trusts every folder. */
export const CODEX_FILES: RepositoryFiles = {
  release: '@agentclientprotocol/codex-acp 2.6.0',
  files: [
    {
      path: '.codex/config.toml',
      ...UP,
      can: ['run', 'load', 'redirect', 'allow'],
      note: 'sets tool servers, a program for notices, the host of the model, the sandbox and what is asked',
    },
    { path: '.codex/rules/**', ...UP, can: ['allow'], note: 'lets commands run unasked' },
    { path: '.codex/hooks.json', ...UP, can: ['run'], note: 'runs its commands around turns and tools' },
    {
      path: '.codex/agents/**',
      ...UP,
      can: ['load', 'allow'],
      note: 'agents with tool servers and a sandbox of their own',
    },
  ],
};

const OPENCODE_PARTS = [
  [
    'opencode.json',
    'loads plugins, starts tool servers and language servers, sets the host of the model, allows tools',
  ],
  [
    'opencode.jsonc',
    'loads plugins, starts tool servers and language servers, sets the host of the model, allows tools',
  ],
  ['plugin/**', 'loaded as code when the session opens'],
  ['plugins/**', 'loaded as code when the session opens'],
  ['tool/**', 'loaded as code when the session opens'],
  ['tools/**', 'loaded as code when the session opens'],
  ['command/**', 'commands whose text runs programs'],
  ['commands/**', 'commands whose text runs programs'],
  ['agent/**', 'agents with permissions of their own'],
  ['agents/**', 'agents with permissions of their own'],
  ['mode/**', 'modes with permissions of their own'],
  ['modes/**', 'modes with permissions of their own'],
  ['package.json', 'packages that are installed for plugins'],
] as const;

/** Read from its documentation of configuration, plugins, tools, commands and agents, and from its program. */
export const OPENCODE_FILES: RepositoryFiles = {
  release: 'opencode-ai 1.18.33',
  files: [
    ...['opencode.json', 'opencode.jsonc'].map((path): RepositoryFile => ({
      path,
      ...UP_TO_DISK,
      can: EVERYTHING,
      note: OPENCODE_PARTS[0][1],
    })),
    ...OPENCODE_PARTS.map(([path, note]): RepositoryFile => ({
      path: `.opencode/${path}`,
      ...UP_TO_DISK,
      can: EVERYTHING,
      note,
    })),
  ],
};

/** Read from the documentation that it brings (settings, hooks, policies, extensions, agents, commands) and from its bundle. */
export const GEMINI_FILES: RepositoryFiles = {
  release: '@google/gemini-cli 0.61.0',
  files: [
    {
      path: '.gemini/settings.json',
      ...UP,
      can: EVERYTHING,
      note: 'runs tools.discoveryCommand, hooks and tool servers; writes telemetry.outfile; allows tools',
    },
    { path: '.gemini/.env', ...UP_TO_DISK, can: ['redirect', 'run'], note: ENVIRONMENT_NOTE },
    { path: '.env', ...UP_TO_DISK, can: ['redirect', 'run'], note: ENVIRONMENT_NOTE },
    { path: '.gemini/policies/**', ...UP, can: ['allow'], note: 'lets tools run unasked' },
    { path: '.gemini/extensions/**', ...UP, can: ['load', 'run'], note: 'extensions with tool servers and hooks' },
    { path: '.gemini/agents/**', ...UP, can: ['load'], note: 'agents with tool servers of their own' },
    { path: '.gemini/commands/**', ...UP, can: ['run'], note: 'commands whose text runs programs' },
    { path: '.gemini/sandbox*', ...UP, can: ['run'], note: 'how its sandbox is built and entered' },
  ],
};

/** Read from its documentation of settings, hooks, extensions, agents, commands and trusted folders, and from its bundle. */
export const QWEN_FILES: RepositoryFiles = {
  release: '@qwen-code/qwen-code 0.24.4',
  files: [
    {
      path: '.qwen/settings.json',
      ...UP,
      can: EVERYTHING,
      note: 'runs hooks and tool servers; its env can send the key to another host; writes telemetry.outfile; allows tools',
    },
    { path: '.qwen/.env', ...UP_TO_DISK, can: ['redirect', 'run'], note: ENVIRONMENT_NOTE },
    { path: '.env', ...UP_TO_DISK, can: ['redirect', 'run'], note: ENVIRONMENT_NOTE },
    { path: '.mcp.json', ...UP, can: ['load', 'run'], note: 'starts tool servers' },
    { path: '.qwen/extensions/**', ...UP, can: ['load', 'run'], note: 'extensions with tool servers and hooks' },
    {
      path: '.qwen/agents/**',
      ...UP,
      can: ['load', 'allow'],
      note: 'agents with tool servers and a mode of their own',
    },
    { path: '.qwen/commands/**', ...UP, can: ['run'], note: 'commands whose text runs programs' },
    { path: '.qwen/skills/**', ...UP, can: ['run', 'allow'], note: 'skills with hooks and tools of their own' },
    { path: '.qwen/sandbox*', ...UP, can: ['run'], note: 'how its sandbox is built and entered' },
    { path: '.lsp.json', ...UP, can: ['run'], note: 'starts language servers' },
  ],
};

/** Read from `copilot help config` and `help environment`, and from its program. */
export const COPILOT_FILES: RepositoryFiles = {
  release: '@github/copilot 1.0.102',
  files: [
    {
      path: '.github/hooks/**',
      ...UP,
      can: ['run'],
      note: 'runs its commands when the session opens and around each tool',
    },
    ...['.github/copilot/settings.json', '.github/copilot/settings.local.json'].map((path): RepositoryFile => ({
      path,
      ...UP,
      can: EVERYTHING,
      note: 'runs hooks, loads plugins, names a proxy',
    })),
    ...['.claude/settings.json', '.claude/settings.local.json'].map((path): RepositoryFile => ({
      path,
      ...UP,
      can: ['run'],
      note: 'runs hooks',
    })),
    ...['.mcp.json', '.github/mcp.json', '.vscode/mcp.json'].map((path): RepositoryFile => ({
      path,
      ...UP,
      can: ['load', 'run'],
      note: 'starts tool servers',
    })),
    { path: '.github/extensions/**', ...UP, can: ['load'], note: 'loaded as code' },
    { path: '.github/agents/**', ...UP, can: ['load', 'allow'], note: 'agents with tool servers of their own' },
    ...['.github/lsp.json'].map((path): RepositoryFile => ({
      path,
      ...UP,
      can: ['run'],
      note: 'starts language servers',
    })),
  ],
};

/** Read from its bundle: the first three count only in a folder that Kimi Code was told to trust. */
export const KIMI_FILES: RepositoryFiles = {
  release: '@moonshot-ai/kimi-code 2.1.0',
  files: [
    { path: '.mcp.json', ...UP, can: ['load', 'run'], note: 'starts tool servers' },
    { path: '.kimi-code/mcp.json', ...UP, can: ['load', 'run'], note: 'starts tool servers' },
    { path: '.kimi-code/local.toml', ...UP, can: ['allow'], note: 'adds folders in which it writes' },
  ],
};

/** The files that any known agent obeys: for a program that nobody knows, at which Conch switches nothing off. */
export const ALL_FILES: RepositoryFiles = {
  release: 'all profiles',
  files: [CLAUDE_FILES, CODEX_FILES, OPENCODE_FILES, GEMINI_FILES, QWEN_FILES, COPILOT_FILES, KIMI_FILES]
    .flatMap(({ files }) => files)
    .map(switchedOn),
};

function switchedOn(file: RepositoryFile): RepositoryFile {
  const { offBy: _, ...rest } = file;
  return rest;
}
