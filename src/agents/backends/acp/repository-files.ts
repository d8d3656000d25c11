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

export const CLAUDE_FILES: RepositoryFiles = {
  release: '@agentclientprotocol/claude-agent-acp 0.101.0',
  files: [
    {
      path: '.claude/settings.json',
      searched: 'up-to-repository-root',
      can: ['run', 'redirect', 'allow'],
      note: 'runs apiKeyHelper when the session opens; its env can send the key to another host',
    },
    {
      path: '.claude/settings.local.json',
      searched: 'up-to-repository-root',
      can: ['run', 'redirect', 'allow'],
      note: 'runs apiKeyHelper when the session opens; its env can send the key to another host',
    },
  ],
};

export const CODEX_FILES: RepositoryFiles = {
  release: '@agentclientprotocol/codex-acp 2.6.0',
  files: [
    {
      path: '.codex/config.toml',
      searched: 'up-to-repository-root',
      can: ['run', 'redirect', 'allow'],
      note: 'sets tool servers, the host of the model, the sandbox and what is asked',
    },
    { path: '.codex/rules/**', searched: 'up-to-repository-root', can: ['allow'], note: 'lets commands run unasked' },
  ],
};

export const OPENCODE_FILES: RepositoryFiles = {
  release: 'opencode-ai 1.18.33',
  files: [
    {
      path: '.opencode/**',
      searched: 'up-to-disk-root',
      can: ['run', 'load', 'redirect', 'allow'],
      note: 'loads plugins and tools as code, in spite of OPENCODE_DISABLE_PROJECT_CONFIG',
    },
    {
      path: 'opencode.json',
      searched: 'up-to-disk-root',
      can: ['run', 'load', 'redirect', 'allow'],
      note: 'loads plugins, starts tool servers, sets the host of the model',
    },
    {
      path: 'opencode.jsonc',
      searched: 'up-to-disk-root',
      can: ['run', 'load', 'redirect', 'allow'],
      note: 'loads plugins, starts tool servers, sets the host of the model',
    },
  ],
};

export const GEMINI_FILES: RepositoryFiles = {
  release: '@google/gemini-cli 0.61.0',
  files: [
    {
      path: '.gemini/settings.json',
      searched: 'up-to-repository-root',
      can: ['run', 'redirect', 'allow'],
      note: 'runs tools.discoveryCommand, writes telemetry.outfile',
    },
    {
      path: '.gemini/.env',
      searched: 'up-to-disk-root',
      can: ['redirect'],
      note: 'sets variables of the agent, also the host of the model',
    },
  ],
};

export const QWEN_FILES: RepositoryFiles = {
  release: '@qwen-code/qwen-code 0.24.4',
  files: [
    {
      path: '.qwen/settings.json',
      searched: 'up-to-repository-root',
      can: ['run', 'redirect', 'allow'],
      note: 'sets tool servers, commands that it runs and the host of the model',
    },
    {
      path: '.qwen/.env',
      searched: 'up-to-disk-root',
      can: ['redirect'],
      note: 'sets variables of the agent, also the host of the model',
    },
  ],
};

export const COPILOT_FILES: RepositoryFiles = {
  release: '@github/copilot 1.0.102',
  files: [
    {
      path: '.github/hooks/*.json',
      searched: 'up-to-repository-root',
      can: ['run'],
      note: 'runs its commands when the session opens and around each tool',
    },
  ],
};

export const KIMI_FILES: RepositoryFiles = { release: '@moonshot-ai/kimi-code 2.1.0', files: [] };

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
