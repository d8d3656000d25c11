import { defined } from '../../lib/defined.ts';

/**
 * What a file can do when an agent opens the file's folder, before anybody is asked. `run`: starts a program. `load`:
 * loads code or a tool server into the agent. `redirect`: sends requests, and the keys with them, to another host.
 * `allow`: frees the agent from asking.
 */
export type FilePower = 'run' | 'load' | 'redirect' | 'allow';

/** Files that an agent's program obeys, by a path pattern. */
export type RepositoryFile = {
  /**
   * The path from a searched folder, with `/`. `*` stands for any characters of a name. `**` as a whole name stands for
   * any folders, and at the end for everything below. Letter case does not matter. A path of a folder ends with `/**`.
   */
  readonly path: string;
  /**
   * `folder`: the agent's folder alone. `up-to-repository-root`: also its parents, up to the outermost with `.git`, and
   * the main tree of a linked working tree; without `.git`, the agent's folder alone. `up-to-disk-root`: also all its
   * parents. The home folder is never searched as a parent.
   */
  readonly searched: 'folder' | 'up-to-repository-root' | 'up-to-disk-root';
  readonly can: readonly FilePower[];
  /** What the file does, in words for the operator who decides: "runs apiKeyHelper when the session opens". */
  readonly note: string;
  /**
   * How Conch makes the agent ignore the file. Then nobody is asked about the file. Absent: the agent obeys the file.
   */
  readonly offBy?: string;
};

/** The files of a folder that an agent obeys. */
export type RepositoryFiles = {
  /** The package and the release that the list was read from; `all profiles` for the list of all agents. */
  readonly release: string;
  readonly files: readonly RepositoryFile[];
};

type Row = readonly [
  path: string,
  searched: RepositoryFile['searched'],
  can: readonly FilePower[],
  note: string,
  offBy?: string,
];

function rows(table: readonly Row[]): readonly RepositoryFile[] {
  return table.map(([path, searched, can, note, offBy]) => ({ path, searched, can, note, ...defined({ offBy }) }));
}

const UP = 'up-to-repository-root';
const UP_TO_DISK = 'up-to-disk-root';

const EVERYTHING: readonly FilePower[] = ['run', 'load', 'redirect', 'allow'];
const RUN: readonly FilePower[] = ['run'];
const RUN_ALLOW: readonly FilePower[] = ['run', 'allow'];
const LOAD_RUN: readonly FilePower[] = ['load', 'run'];
const LOAD_ALLOW: readonly FilePower[] = ['load', 'allow'];
const REDIRECT_RUN: readonly FilePower[] = ['redirect', 'run'];

const TOOL_SERVERS = 'starts tool servers';
const LANGUAGE_SERVERS = 'starts language servers';
const ENVIRONMENT = 'sets variables of the agent, also the host of the model';
const EXTENSIONS = 'extensions with tool servers and hooks';
const COMMANDS = 'commands whose text runs programs';
const SANDBOX = 'how its sandbox is built and entered';

/** Conch's setting: Claude Code reads the settings of its user and of an administrator only. */
const USER_ALONE = "the setting source 'user' alone";
const ONE_SERVER = 'strictMcpConfig: no tool servers but those of Conch';
const CLAUDE_SETTINGS =
  'runs apiKeyHelper and hooks; its env can send the key to another host; loads plugins; allows tools';
const CLAUDE_AGENTS = 'agents with tool servers, hooks and a mode of their own';

/** From Claude Code's documentation (settings, hooks, MCP, subagents, skills), its SDK's `Settings` and the program. */
export const CLAUDE_FILES: RepositoryFiles = {
  release: '@agentclientprotocol/claude-agent-acp 0.101.0',
  files: rows([
    ['.claude/settings.json', UP, EVERYTHING, CLAUDE_SETTINGS, USER_ALONE],
    ['.claude/settings.local.json', UP, EVERYTHING, CLAUDE_SETTINGS, USER_ALONE],
    ['.mcp.json', UP, LOAD_RUN, TOOL_SERVERS, ONE_SERVER],
    ['.claude/agents/**', UP, LOAD_ALLOW, CLAUDE_AGENTS, USER_ALONE],
    ['.claude/commands/**', UP, RUN_ALLOW, COMMANDS, USER_ALONE],
    ['.claude/skills/**', UP, RUN_ALLOW, 'skills whose text runs programs, and hooks', USER_ALONE],
  ]),
};

const CODEX_CONFIG = 'sets tool servers, a program for notices, the host of the model, the sandbox and what is asked';

/** From Codex's documentation of configuration, hooks and rules, and the ACP adapter. */
export const CODEX_FILES: RepositoryFiles = {
  release: '@agentclientprotocol/codex-acp 2.6.0',
  files: rows([
    ['.codex/config.toml', UP, EVERYTHING, CODEX_CONFIG],
    ['.codex/rules/**', UP, ['allow'], 'lets commands run without asking'],
    ['.codex/hooks.json', UP, RUN, 'runs its commands around turns and tools'],
    ['.codex/agents/**', UP, LOAD_ALLOW, 'agents with tool servers and a sandbox of their own'],
  ]),
};

const OPENCODE_CONFIG =
  'loads plugins, starts tool servers and language servers, sets the host of the model, allows tools';
const OPENCODE_CODE = 'loaded as code when the session opens';
const OPENCODE_AGENTS = 'agents with permissions of their own';
const OPENCODE_MODES = 'modes with permissions of their own';

/** From OpenCode's documentation of configuration, plugins, tools, commands and agents, and from the program. */
export const OPENCODE_FILES: RepositoryFiles = {
  release: 'opencode-ai 1.18.33',
  files: rows([
    ['opencode.json', UP_TO_DISK, EVERYTHING, OPENCODE_CONFIG],
    ['opencode.jsonc', UP_TO_DISK, EVERYTHING, OPENCODE_CONFIG],
    ['.opencode/opencode.json', UP_TO_DISK, EVERYTHING, OPENCODE_CONFIG],
    ['.opencode/opencode.jsonc', UP_TO_DISK, EVERYTHING, OPENCODE_CONFIG],
    ['.opencode/plugin/**', UP_TO_DISK, EVERYTHING, OPENCODE_CODE],
    ['.opencode/plugins/**', UP_TO_DISK, EVERYTHING, OPENCODE_CODE],
    ['.opencode/tool/**', UP_TO_DISK, EVERYTHING, OPENCODE_CODE],
    ['.opencode/tools/**', UP_TO_DISK, EVERYTHING, OPENCODE_CODE],
    ['.opencode/command/**', UP_TO_DISK, EVERYTHING, COMMANDS],
    ['.opencode/commands/**', UP_TO_DISK, EVERYTHING, COMMANDS],
    ['.opencode/agent/**', UP_TO_DISK, EVERYTHING, OPENCODE_AGENTS],
    ['.opencode/agents/**', UP_TO_DISK, EVERYTHING, OPENCODE_AGENTS],
    ['.opencode/mode/**', UP_TO_DISK, EVERYTHING, OPENCODE_MODES],
    ['.opencode/modes/**', UP_TO_DISK, EVERYTHING, OPENCODE_MODES],
    ['.opencode/package.json', UP_TO_DISK, EVERYTHING, 'packages that are installed for plugins'],
  ]),
};

const GEMINI_SETTINGS = 'runs tools.discoveryCommand, hooks and tool servers; writes telemetry.outfile; allows tools';

/** From Gemini CLI's documentation (settings, hooks, policies, extensions, agents, commands) and its bundle. */
export const GEMINI_FILES: RepositoryFiles = {
  release: '@google/gemini-cli 0.61.0',
  files: rows([
    ['.gemini/settings.json', UP, EVERYTHING, GEMINI_SETTINGS],
    ['.gemini/.env', UP_TO_DISK, REDIRECT_RUN, ENVIRONMENT],
    ['.env', UP_TO_DISK, REDIRECT_RUN, ENVIRONMENT],
    ['.gemini/policies/**', UP, ['allow'], 'lets tools run without asking'],
    ['.gemini/extensions/**', UP, LOAD_RUN, EXTENSIONS],
    ['.gemini/agents/**', UP, ['load'], 'agents with tool servers of their own'],
    ['.gemini/commands/**', UP, RUN, COMMANDS],
    ['.gemini/sandbox*', UP, RUN, SANDBOX],
  ]),
};

const QWEN_SETTINGS =
  'runs hooks and tool servers; its env can send the key to another host; writes telemetry.outfile; allows tools';

/** From Qwen Code's documentation (settings, hooks, extensions, agents, commands, trusted folders) and its bundle. */
export const QWEN_FILES: RepositoryFiles = {
  release: '@qwen-code/qwen-code 0.24.4',
  files: rows([
    ['.qwen/settings.json', UP, EVERYTHING, QWEN_SETTINGS],
    ['.qwen/.env', UP_TO_DISK, REDIRECT_RUN, ENVIRONMENT],
    ['.env', UP_TO_DISK, REDIRECT_RUN, ENVIRONMENT],
    ['.mcp.json', UP, LOAD_RUN, TOOL_SERVERS],
    ['.qwen/extensions/**', UP, LOAD_RUN, EXTENSIONS],
    ['.qwen/agents/**', UP, LOAD_ALLOW, 'agents with tool servers and a mode of their own'],
    ['.qwen/commands/**', UP, RUN, COMMANDS],
    ['.qwen/skills/**', UP, RUN_ALLOW, 'skills with hooks and tools of their own'],
    ['.qwen/sandbox*', UP, RUN, SANDBOX],
    ['.lsp.json', UP, RUN, LANGUAGE_SERVERS],
  ]),
};

const COPILOT_SETTINGS = 'runs hooks, loads plugins, names a proxy';

/** From `copilot help config`, `copilot help environment`, and the program. */
export const COPILOT_FILES: RepositoryFiles = {
  release: '@github/copilot 1.0.102',
  files: rows([
    ['.github/hooks/**', UP, RUN, 'runs its commands when the session opens and around each tool'],
    ['.github/copilot/settings.json', UP, EVERYTHING, COPILOT_SETTINGS],
    ['.github/copilot/settings.local.json', UP, EVERYTHING, COPILOT_SETTINGS],
    ['.claude/settings.json', UP, RUN, 'runs hooks'],
    ['.claude/settings.local.json', UP, RUN, 'runs hooks'],
    ['.mcp.json', UP, LOAD_RUN, TOOL_SERVERS],
    ['.github/mcp.json', UP, LOAD_RUN, TOOL_SERVERS],
    ['.vscode/mcp.json', UP, LOAD_RUN, TOOL_SERVERS],
    ['.github/extensions/**', UP, ['load'], 'loaded as code'],
    ['.github/agents/**', UP, LOAD_ALLOW, 'agents with tool servers of their own'],
    ['.github/lsp.json', UP, RUN, LANGUAGE_SERVERS],
  ]),
};

/** From Kimi Code's bundle. The files count only in a folder that Kimi Code was told to trust. */
export const KIMI_FILES: RepositoryFiles = {
  release: '@moonshot-ai/kimi-code 2.1.0',
  files: rows([
    ['.mcp.json', UP, LOAD_RUN, TOOL_SERVERS],
    ['.kimi-code/mcp.json', UP, LOAD_RUN, TOOL_SERVERS],
    ['.kimi-code/local.toml', UP, ['allow'], 'adds folders in which it writes'],
  ]),
};

/** The files that any known agent obeys. Used for unknown programs, for which Conch switches no file off. */
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
