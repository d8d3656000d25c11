import { askingClaude, askingCodex, askingCopilot, askingGemini, askingOpenCode, askingQwen } from './acp-asking.ts';
import type { Asking, AskingContext } from './acp-asking.ts';
import { ALL_FILES, CLAUDE_FILES, CODEX_FILES, COPILOT_FILES, GEMINI_FILES } from '../../trust/repository-files.ts';
import { KIMI_FILES, OPENCODE_FILES, QWEN_FILES } from '../../trust/repository-files.ts';
import type { RepositoryFiles } from '../../trust/repository-files.ts';

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
