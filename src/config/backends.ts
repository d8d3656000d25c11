import { z } from 'zod';

const seconds = (text: string) => z.number().min(0.1).max(86_400).describe(text);
const words = (text: string) => z.array(z.string()).max(100).default([]).describe(text);
const price = (text: string) => z.number().min(0).max(10_000).nullable().default(null).describe(text);

const folder = z.string().min(1).exactOptional().describe("The folder it runs in. Without it, Conch's own.");
const passed = words('Names of environment variables that it is given besides PATH, HOME and the like.');
const given = z
  .record(z.string(), z.string())
  .default({})
  .describe('Environment variables that it is given, with their values; ${NAME} takes one of Conch.');

const HOST = /^(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?$/i;
const sandboxed = z.union(
  [
    z.boolean(),
    z.literal('offline'),
    z
      .array(z.string().regex(HOST, 'Expected a host like "api.example.org", "*.example.org" or "127.0.0.1:11434"'))
      .max(100),
  ],
  { error: 'Expected true, false, "offline" or a list of hosts' },
);
const sandbox = sandboxed
  .exactOptional()
  .describe(
    'Whether its program starts in a sandbox (bubblewrap, on Linux): it writes to its folder and to a home of its own only, and reaches other hosts through a proxy of Conch, this machine not at all. A list names the only hosts that it reaches; "offline": none. Where no sandbox can be started, it is not started.',
  );

const scripted = z.strictObject({
  kind: z.literal('scripted').describe('"scripted": a play-acted agent that needs no model, no key and no network.'),
  script: z.enum(['pm', 'dev', 'qa']).describe('Which of the built-in scripts it plays.'),
  wordMs: z
    .number()
    .min(0)
    .max(10_000)
    .exactOptional()
    .describe('How long it takes over a word, in milliseconds; all else it does goes in proportion. Without it, 75.'),
});

const llm = z.strictObject({
  kind: z.literal('llm').describe('"llm": a model behind an API, run in this process.'),
  provider: z
    .enum(['openai', 'anthropic', 'openai-compatible'])
    .describe('Whose API it speaks; "openai-compatible" is every server that speaks OpenAI\'s (Ollama, vLLM, …).'),
  model: z.string().min(1).describe("The model's name, as its provider calls it."),
  apiKey: z
    .string()
    .min(1)
    .exactOptional()
    .describe("The key, best as ${NAME}. Without it, the provider's own environment variable."),
  baseUrl: z
    .url({ protocol: /^https?$/, error: 'Expected an address that begins with "http://" or "https://"' })
    .exactOptional()
    .describe('Where the API is, if not at its provider.'),
  maxOutputTokens: z.int().min(1).max(1_000_000).default(4_096).describe('The longest answer of one step, in tokens.'),
  maxSteps: z
    .int()
    .min(1)
    .max(100)
    .exactOptional()
    .describe(
      'How many times it is asked in one turn: 8 unless told. A turn that uses tools of servers has as many steps, and asks people at the end of them; without this, as many as `runs.conversational` says.',
    ),
  images: z.boolean().default(false).describe('Whether it takes pictures that tools return.'),
  tools: z
    .boolean()
    .default(true)
    .describe("Whether it is given the floor's verbs as tools. Some small models take none: set it to false for them."),
  stepTimeoutSeconds: seconds('How long one step may take before it counts as failed, in seconds.').default(120),
  inputUsdPerMTok: price('What a million tokens of input cost, in US dollars, for the budgets.'),
  outputUsdPerMTok: price('What a million tokens of output cost, in US dollars, for the budgets.'),
  cachedInputUsdPerMTok: price(
    'What a million tokens of input cost that its provider had kept. Without it, as all input.',
  ),
  cacheWriteUsdPerMTok: price(
    'What a million tokens of input cost that its provider keeps anew. Without it, as all input.',
  ),
});

const profile = z
  .enum(['generic', 'opencode', 'claude-code', 'codex', 'gemini', 'qwen', 'copilot', 'kimi'])
  .describe('Which agent it is: how it is started, how it is made to ask, and what it takes in the middle of a turn.');
const injectFallback = z
  .enum(['queue', 'cancel'])
  .default('queue')
  .describe('A message that it cannot take mid-turn waits for its end ("queue") or cuts the turn short ("cancel").');

const acp = z.strictObject({
  kind: z.literal('acp').describe('"acp": a coding agent on this machine that speaks the Agent Client Protocol.'),
  profile: profile.default('generic'),
  command: z.string().min(1).exactOptional().describe("The program. Without it, the profile's own."),
  args: z
    .array(z.string())
    .max(100)
    .exactOptional()
    .describe("Its arguments. Without them, the profile's own, also with a `command` of your own."),
  cwd: folder,
  env: passed,
  set: given,
  sandbox,
  injectFallback,
});

const remote = z.strictObject({
  kind: z
    .literal('remote')
    .describe('"remote": an agent that connects to Conch by itself; `conch agent add <id>` makes its token.'),
  profile: profile.default('generic'),
  injectFallback,
});

const command = z.strictObject({
  kind: z.literal('command').describe('"command": any program, started anew for every turn.'),
  command: z.string().min(1).describe('The program; no shell is involved.'),
  args: words('Its arguments, one by one.'),
  cwd: folder,
  env: passed,
  set: given,
  sandbox,
  input: z
    .enum(['stdin', 'arg'])
    .default('stdin')
    .describe('Where it reads the prompt: standard input, or its last argument.'),
  output: z
    .enum(['text', 'json', 'jsonl'])
    .default('text')
    .describe('What it prints: plain text, one JSON object, or one such object a line.'),
  timeoutSeconds: seconds('How long it may take, in seconds; its turn is over then.').default(600),
  maxOutputBytes: z.int().min(1_024).max(100_000_000).default(1_048_576).describe('How much it may print, in bytes.'),
});

/** What runs an agent, told apart by `kind`. */
export const backendSchema = z.discriminatedUnion('kind', [scripted, llm, acp, remote, command]);

/** One server of tools: a program of this machine, or an address. */
export const serverSchema = z.strictObject({
  command: z.string().min(1).exactOptional().describe('The program of a server on this machine; no shell is involved.'),
  args: words('Its arguments, one by one.'),
  cwd: folder,
  env: z
    .record(z.string(), z.string())
    .default({})
    .describe(
      'Environment variables that it is given besides PATH, HOME and the like, with their values; ${NAME} takes one of Conch.',
    ),
  url: z
    .url({ protocol: /^https?$/, error: 'Expected an address that begins with "https://"' })
    .exactOptional()
    .describe('Where a server is that is reached by HTTP, in place of a program.'),
  headers: z
    .record(z.string(), z.string())
    .default({})
    .describe('Headers of every request to it, such as "Authorization"; ${NAME} takes a variable of Conch.'),
  oauth: z
    .strictObject({
      clientId: z
        .string()
        .min(1)
        .exactOptional()
        .describe('The id of an app of yours at its service; without it Conch registers itself at each login.'),
      clientSecret: z
        .string()
        .min(1)
        .exactOptional()
        .describe("That app's secret, as ${NAME}; it needs `issuer`, to whom alone it is sent."),
      issuer: z
        .url({ protocol: /^https?$/, error: 'Expected an address that begins with "https://"' })
        .exactOptional()
        .describe('Who signs people in for it; nobody else is taken for that then.'),
      scopes: z
        .array(z.string().regex(/^[\x21\x23-\x5B\x5D-\x7E]+$/, 'Expected the name of one scope, without spaces'))
        .max(100)
        .exactOptional()
        .describe('What is asked for; without it what the server wants.'),
      callbackPort: z
        .int()
        .min(1)
        .max(65_535)
        .exactOptional()
        .describe('The port of this machine to which the browser comes back, where your app names one.'),
    })
    .exactOptional()
    .describe('That somebody signs in at it for Conch, by `conch mcp login`; {} says no more than that.'),
  share: z
    .enum(['agent', 'seat'])
    .default('agent')
    .describe(
      'Who shares one running server: "agent" is every channel of an agent, "seat" gives each channel one of its own.',
    ),
  timeoutSeconds: z
    .number()
    .min(0.1)
    .max(600)
    .default(60)
    .describe('How long a call may take without a sign of progress, in seconds; ten minutes is the end in any case.'),
  trusted: z
    .boolean()
    .default(false)
    .describe('Whether what it says of its tools is believed, such as that one only reads.'),
  tools: z
    .array(z.string().min(1).max(200))
    .max(1_000)
    .default(['*'])
    .describe('Which of its tools there are, by name; "*" in a name is anything.'),
  instructions: z
    .boolean()
    .default(false)
    .describe('Whether agents read what it says about its use, as untrusted text.'),
  elicitation: z
    .boolean()
    .default(false)
    .describe('Whether it may ask people something in the middle of a call, in the channel; never for a secret.'),
  showAnswers: z
    .boolean()
    .default(false)
    .describe('Whether the channel is shown what people fill into its forms; without it only that they answered.'),
});

/** The door for agents that connect by themselves; open when an agent's backend is "remote". */
export const remoteSchema = z.strictObject({
  port: z.int().min(0).max(65_535).default(7421).describe('The port they connect to; 0 takes a free one.'),
  host: z
    .string()
    .min(1)
    .default('127.0.0.1')
    .describe('The address to listen on. Any but this machine alone needs `tlsCert` and `tlsKey`, or `behindProxy`.'),
  behindProxy: z.boolean().default(false).describe('A proxy in front speaks TLS with the agents.'),
  tlsCert: z.string().min(1).nullable().default(null).describe('The path of a certificate chain of its own, as PEM.'),
  tlsKey: z.string().min(1).nullable().default(null).describe("The path of that certificate's key, as PEM."),
  origins: words('Web origins whose pages may connect; no other browser may.'),
});
