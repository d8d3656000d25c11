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
  /** Modes in which it asks before it changes things, the preferred one first; the first that it has is set. */
  readonly modes: readonly string[];
  /** How to sign in when it asks for it: the method, if one of these variables is set. */
  readonly signIn?: { readonly method: string; readonly when: readonly string[] };
};

/** The agents known by name. `generic` is any other; its command comes from the configuration. */
export const ACP_PROFILES = {
  generic: {
    name: 'the agent',
    command: null,
    args: [],
    pass: [],
    takesSecondPrompt: false,
    modes: [],
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
    modes: ['default'],
  },
  codex: {
    name: 'Codex',
    command: 'codex-acp',
    args: [],
    install: 'install it with: npm install -g @agentclientprotocol/codex-acp',
    pass: ['OPENAI_API_KEY', 'CODEX_API_KEY', 'OPENAI_BASE_URL', 'CODEX_HOME'],
    takesSecondPrompt: false,
    modes: ['read-only', 'auto'],
    signIn: { method: 'openai-api-key', when: ['OPENAI_API_KEY'] },
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
    modes: ['default'],
    signIn: { method: 'gemini-api-key', when: ['GEMINI_API_KEY'] },
  },
  qwen: {
    name: 'Qwen Code',
    command: 'qwen',
    args: ['--acp'],
    install: 'install it with: npm install -g @qwen-code/qwen-code',
    pass: ['OPENAI_API_KEY', 'OPENAI_BASE_URL', 'OPENAI_MODEL', 'DASHSCOPE_API_KEY'],
    takesSecondPrompt: false,
    modes: ['default'],
    signIn: { method: 'openai', when: ['OPENAI_API_KEY'] },
  },
} as const satisfies Record<string, AcpProfile>;

export type AcpProfileName = keyof typeof ACP_PROFILES;
