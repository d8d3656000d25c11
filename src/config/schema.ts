import { z } from 'zod';
import { ANNOUNCEMENTS } from './announcements.ts';
import { MEMBERS, VERDICTS } from '../rules/verdict.ts';

/** The names of the adapters. A channel's id begins with one of them. */
export const ADAPTERS = ['console', 'discord', 'slack'] as const;

// `describe` is called before `default`, because a channel takes the keys of `turnConfig` without their defaults.

const flag = (byDefault: boolean, meaning: string) => z.boolean().describe(meaning).default(byDefault);
const integer = (min: number, max: number, meaning: string) => z.int().min(min).max(max).describe(meaning);
const number = (min: number, max: number, meaning: string) => z.number().min(min).max(max).describe(meaning);
const choice = <const Names extends readonly string[]>(names: Names, meaning: string) =>
  z.enum(names).describe(meaning);
const text = (meaning: string) => z.string().min(1).describe(meaning);
const texts = (meaning: string) => z.array(z.string()).max(100).describe(meaning);
const textMap = (meaning: string) => z.record(z.string(), z.string()).describe(meaning).default({});
const textOrNull = (meaning: string) => z.string().min(1).nullable().describe(meaning).default(null);
const port = (meaning: string) => integer(0, 65_535, meaning);
const webAddress = (begin: string, meaning: string) =>
  z.url({ protocol: /^https?$/, error: `Expected an address that begins with ${begin}` }).describe(meaning);

const SNOWFLAKE = 'Write it in quotes: a long id loses its last digits as a number';
const idText = z.string({ error: (issue) => (typeof issue.input === 'number' ? SNOWFLAKE : undefined) }).min(1);
const agentId = idText.regex(/^[\w-]{1,64}$/, 'Expected up to 64 letters, digits, "_" and "-"');

const WEEK_SECONDS = 604_800;
const duration = (meaning: string) => number(0.1, WEEK_SECONDS, meaning);
const durationOrZero = (meaning: string) => number(0, WEEK_SECONDS, meaning);

/** The specification's four modes: what a human message does to a turn that is under way. */
export const MODE_NAMES = ['inject', 'queue', 'interrupt', 'parallel'] as const;
const MODE_ALIASES = { steer: 'inject', followup: 'queue', collect: 'queue', concurrent: 'parallel' } as const;
const MODES =
  'What a human message does while an agent is ACTIVE: "inject" delivers it mid-turn, "queue" holds it until the turn ends, "interrupt" pauses the turn to answer it, "parallel" shows it to every agent and changes no turn. Aliases: "steer" is inject, "followup" and "collect" are queue, "concurrent" is parallel.';
const ORDER_NAMES = ['round-robin', 'priority', 'manual', 'mention', 'facilitator', 'review'] as const;
const ORDERS =
  'Who is next: "round-robin" in the order of the channel\'s agents, "priority" by the agents\' numbers, "manual" when an operator grants, "mention" only addressed agents, "facilitator" the agent that the facilitator names, "review" every message of a person opens a review by the agents of the key review.';
const PASS_WORDS =
  'An answer that is only one of these, whatever its case and punctuation, is a pass and is not posted. Agents are told the first one.';

const mode = z
  .enum([...MODE_NAMES, 'steer', 'followup', 'collect', 'concurrent'])
  .transform((name) => (name in MODE_ALIASES ? MODE_ALIASES[name as keyof typeof MODE_ALIASES] : name))
  .pipe(z.enum(MODE_NAMES))
  .describe(MODES);
const passWord = z.string().regex(/[\p{L}\p{N}]/u, 'Expected a word');
const signal = z.string().regex(/^\S{3,64}$/, 'Expected one word of 3 to 64 characters');

/** Every key of `turnConfig`, with its default. A channel accepts these keys, too, except `OF_CONNECTIONS`. */
export const turnKeys = {
  defaultTimeoutSeconds: duration(
    'Seconds without a sign of work after which a turn times out; an agent can have its own timeoutSeconds.',
  ).default(60),
  humanInterruptMode: mode.prefault('inject'),
  announceTimeouts: flag(true, 'Tell the channel when a turn times out.'),
  announceDisconnects: flag(true, 'Tell the channel when an agent disconnects and its turn is skipped.'),
  autoDetectTurnEnd: flag(false, 'End a turn after a silence once the agent has spoken, even without its signal.'),
  autoDetectSilenceSeconds: duration('Seconds of silence after which autoDetectTurnEnd ends a turn.').default(10),
  maxTurnSeconds: duration('The longest turn in seconds. A turn ends then, even if the agent works.').default(900),
  waitTimeoutSeconds: duration('Seconds that an agent may be WAITING before it loses its turn.').default(600),
  waitPolicy: choice(
    ['hold', 'release'],
    'The floor while its holder is WAITING: "hold" keeps it, "release" lends it to the other agents.',
  ).default('hold'),
  heartbeatSeconds: duration('Seconds between two pings of a connected agent.').default(15),
  heartbeatTimeoutSeconds: duration(
    'Seconds without an answer to a ping, after which an agent is OFFLINE; more than heartbeatSeconds.',
  ).default(45),
  reconnectGraceSeconds: durationOrZero('Seconds in which a disconnected agent can return to its turn.').default(10),
  coalesceMs: integer(
    0,
    60_000,
    'Human messages that arrive within this time (milliseconds) are delivered together.',
  ).default(500),
  order: z.enum(ORDER_NAMES).describe(ORDERS).default('round-robin'),
  rounds: integer(0, 1_000, 'Turns for every agent after a human message; 0: only maxTurns limits them.').default(1),
  maxTurns: integer(1, 10_000, 'The most agent turns after a human message.').default(12),
  turnCompleteSignal: signal
    .describe(
      'The word with which an agent ends its turn, at the end of its text. Conch does not post the word. Agents whose protocol marks the end of a turn need not write it.',
    )
    .default('TURN_COMPLETE'),
  passWords: z
    .array(passWord.max(60))
    .max(50)
    .describe(PASS_WORDS)
    .default(['PASS', 'SKIP', 'NO_REPLY', 'NO_ANSWER', 'nothing to add', 'no comment', 'no response']),
  onRestart: choice(
    ['resume', 'forfeit'],
    'A turn that a restart of Conch interrupted: "resume" continues it, "forfeit" ends it.',
  ).default('resume'),
  rejoin: z
    .enum(['manual', 'auto'])
    .nullable()
    .describe(
      'Who queues a reconnected agent again: "auto" Conch at once, "manual" an operator, null depends on the kind of its backend.',
    )
    .default(null),
  interruptGraceSeconds: durationOrZero(
    'Seconds in which an interrupted agent must stop; then Conch ends its session by force.',
  ).default(5),
  maxConsecutiveErrors: integer(
    1,
    1_000,
    'Failures in a row of an agent\'s sessions, after which the agent is stopped until "/agent restart".',
  ).default(5),
  maxTotalErrors: integer(
    1,
    100_000,
    'Failures in all of an agent\'s sessions, after which the agent is stopped until "/agent restart".',
  ).default(20),
  interruptResponder: textOrNull('The agent that answers a human in interrupt mode; null is the interrupted agent.'),
  facilitator: textOrNull('The agent that names the next speaker under the order "facilitator".'),
  defaultAgent: textOrNull('The agent that answers unaddressed messages under the order "mention".'),
  threads: choice(
    ['own', 'parent', 'ignore'],
    'A thread has its own floor ("own"), shares the floor of its channel ("parent") or is ignored ("ignore").',
  ).default('own'),
  allowBots: choice(
    ['off', 'mentions', 'all'],
    'Other bots that are heard: none ("off"), those that mention an agent ("mentions") or "all". Their messages do not reset the budget of an exchange.',
  ).default('off'),
  receipts: flag(true, 'Mark every human message with its state.'),
  announceLimits: flag(true, 'Tell the channel when a budget is used up.'),
  announceNobody: flag(true, 'Tell the channel when no agent is available.'),
  announceRecovery: flag(true, 'Tell the channel about a resumed turn or missing history after a restart.'),
  contextTokens: integer(
    500,
    2_000_000,
    'The longest prompt: rules, conversation and news, in tokens of four characters. The oldest lines are dropped first. Set it below the context window of a small model.',
  ).default(48_000),
  maxHeld: integer(1, 100_000, 'The most human messages that a channel holds for later.').default(500),
};

/** The keys of `turnConfig` that a channel cannot have: an agent's connection serves all its channels. */
const OF_CONNECTIONS = { heartbeatSeconds: true, heartbeatTimeoutSeconds: true, reconnectGraceSeconds: true } as const;

/** The schema of `turnConfig`: the specification's keys and others. */
export const turnConfigSchema = z.strictObject(turnKeys);

/** A type whose fields cannot be changed, at any depth. */
export type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

/** The settings of a channel's floor, complete. */
export type TurnConfig = DeepReadonly<z.output<typeof turnConfigSchema>>;

type Overrides<Keys extends Record<string, z.ZodDefault | z.ZodPrefault>> = {
  [Key in keyof Keys]: z.ZodExactOptional<Keys[Key]['def']['innerType']>;
};

const withoutDefaults = <Keys extends Record<string, z.ZodDefault | z.ZodPrefault>>(keys: Keys): Overrides<Keys> =>
  Object.fromEntries(
    Object.entries(keys).map(([key, schema]) => [key, z.exactOptional(schema.def.innerType)]),
  ) as Overrides<Keys>;

const program = {
  args: texts('The arguments of the program, one by one.').default([]),
  cwd: text('The working folder of the program. Default: the folder in which Conch was started.').exactOptional(),
};
const HOST = /^(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?$/i;
const host = z.string().regex(HOST, 'Expected a host like "api.example.org", "*.example.org" or "127.0.0.1:11434"');
const SANDBOX =
  'Start the agent\'s program in a sandbox (bubblewrap, on Linux). The program writes only to its folder and a home of its own. It reaches other hosts through a proxy of Conch, and this machine not at all. A list allows only these hosts; "offline" allows none. Where no sandbox can be started, the program is not started.';
const confined = {
  env: texts('Names of environment variables that the program gets besides PATH, HOME and the like.').default([]),
  set: textMap('Environment variables that the program gets, with their values; ${NAME} takes a variable of Conch.'),
  sandbox: z
    .union([z.boolean(), z.literal('offline'), z.array(host).max(100)], {
      error: 'Expected true, false, "offline" or a list of hosts',
    })
    .exactOptional()
    .describe(SANDBOX),
};
const price = (meaning: string) => z.number().min(0).max(10_000).nullable().describe(meaning).default(null);
const profile = choice(
  ['generic', 'opencode', 'claude-code', 'codex', 'gemini', 'qwen', 'copilot', 'kimi'],
  'The kind of coding agent. It decides the default start command, how Conch makes the agent ask, and whether the agent takes messages mid-turn.',
).default('generic');
const injectFallback = choice(
  ['queue', 'cancel'],
  'A message that the agent cannot take mid-turn waits for the end of the turn ("queue") or ends the turn ("cancel").',
).default('queue');

const scripted = z.strictObject({
  kind: z.literal('scripted').describe('"scripted": a play-acted agent; it needs no model, no key and no network.'),
  script: z.enum(['pm', 'dev', 'qa']).describe('Which built-in script the agent plays.'),
  wordMs: number(
    0,
    10_000,
    'Milliseconds for each word that the agent writes; its other delays are in proportion. Default: 75.',
  ).exactOptional(),
});

const llm = z.strictObject({
  kind: z.literal('llm').describe('"llm": a model behind an API, run in this process.'),
  provider: choice(
    ['openai', 'anthropic', 'openai-compatible'],
    'The API of the model; "openai-compatible" is every server that speaks OpenAI\'s (Ollama, vLLM, …).',
  ),
  model: text("The model's name at its provider."),
  apiKey: text("The key, best as ${NAME}. Default: the provider's own environment variable.").exactOptional(),
  baseUrl: webAddress(
    '"http://" or "https://"',
    "The address of the API. Default: the provider's, or OPENAI_BASE_URL or ANTHROPIC_BASE_URL of the environment.",
  ).exactOptional(),
  maxOutputTokens: integer(1, 1_000_000, 'The longest answer of one step, in tokens.').default(4_096),
  maxSteps: integer(
    1,
    100,
    'The most steps in a turn. Default: 8. In turns with tools of servers, the default is `runs.conversational`, and people are asked at the limit.',
  ).exactOptional(),
  images: flag(false, 'The model takes pictures that tools return.'),
  tools: flag(
    true,
    'The model gets the acts on the floor as tools, such as passing. Set false for small models that take no tools.',
  ),
  stepTimeoutSeconds: number(0.1, 86_400, 'Seconds after which a step counts as failed.').default(120),
  inputUsdPerMTok: price('US dollars for a million input tokens, for the budgets.'),
  outputUsdPerMTok: price('US dollars for a million output tokens, for the budgets.'),
  cachedInputUsdPerMTok: price('US dollars for a million input tokens read from the cache. Default: as all input.'),
  cacheWriteUsdPerMTok: price('US dollars for a million input tokens written to the cache. Default: as all input.'),
});

const acp = z.strictObject({
  kind: z.literal('acp').describe('"acp": a coding agent on this machine that speaks the Agent Client Protocol.'),
  profile,
  command: text("The program. Default: the profile's.").exactOptional(),
  args: texts("The arguments of the program. Default: the profile's, also with your own `command`.").exactOptional(),
  cwd: program.cwd,
  ...confined,
  injectFallback,
});

const remote = z.strictObject({
  kind: z
    .literal('remote')
    .describe('"remote": an agent that connects to Conch; `conch agent add <id>` makes its token.'),
  profile,
  injectFallback,
});

const command = z.strictObject({
  kind: z.literal('command').describe('"command": any program, started anew for every turn.'),
  command: text('The program. Conch starts it without a shell.'),
  ...program,
  ...confined,
  input: choice(['stdin', 'arg'], 'Where the program reads the prompt: standard input, or its last argument.').default(
    'stdin',
  ),
  output: choice(
    ['text', 'json', 'jsonl'],
    'What the program prints: plain text, one JSON object, or one JSON object a line.',
  ).default('text'),
  timeoutSeconds: number(0.1, 86_400, 'Seconds after which the program is stopped and the turn ends.').default(600),
  maxOutputBytes: integer(1_024, 100_000_000, 'The most bytes that the program may print.').default(1_048_576),
});

/** The backend that runs an agent; its keys depend on `kind`. */
export const backendSchema = z.discriminatedUnion('kind', [scripted, llm, acp, remote, command]);

const scope = z.string().regex(/^[\x21\x23-\x5B\x5D-\x7E]+$/, 'Expected the name of one scope, without spaces');
const oauth = z.strictObject({
  clientId: text('The id of your app at its service. Default: Conch registers itself at each login.').exactOptional(),
  clientSecret: text("The app's secret, as ${NAME}. Sent only to `issuer`, which is required with it.").exactOptional(),
  issuer: webAddress('"https://"', 'The authorization server. No other one is accepted.').exactOptional(),
  scopes: z
    .array(scope)
    .max(100)
    .exactOptional()
    .describe('The scopes to request. Default: the scopes that the server wants.'),
  callbackPort: integer(1, 65_535, 'The port of the redirect address of your app.').exactOptional(),
});

/** One server of tools: a program of this machine, or an address. */
export const serverSchema = z.strictObject({
  command: text('The program of a server on this machine. Conch starts it without a shell.').exactOptional(),
  ...program,
  env: textMap(
    'Environment variables that the server gets besides PATH, HOME and the like; ${NAME} takes a variable of Conch.',
  ),
  url: webAddress(
    '"https://"',
    'The address of a server that is reached by HTTP, in place of a program.',
  ).exactOptional(),
  headers: textMap(
    'Headers of every request to the server, such as "Authorization"; ${NAME} takes a variable of Conch.',
  ),
  oauth: oauth.exactOptional().describe('Conch signs in at the server by `conch mcp login`; {} is enough.'),
  share: choice(
    ['agent', 'seat'],
    'Who shares one running server: all channels of an agent ("agent"), or one channel ("seat").',
  ).default('agent'),
  timeoutSeconds: number(
    0.1,
    600,
    'Seconds without progress after which a call fails; 10 minutes is the most.',
  ).default(60),
  trusted: flag(false, 'Conch believes what the server says about its tools, such as that a tool only reads.'),
  tools: z
    .array(z.string().min(1).max(200))
    .max(1_000)
    .describe('Which tools of the server agents get, by name; "*" in a name is anything.')
    .default(['*']),
  instructions: flag(false, 'Agents read the instructions of the server, as untrusted text.'),
  elicitation: flag(false, 'The server may ask people in the channel during a call; never for a secret.'),
  showAnswers: flag(false, "The channel sees what people fill into the server's forms, not only that they answered."),
});

const remoteSchema = z.strictObject({
  port: port('The port that remote agents connect to; 0 takes a free one.').default(7421),
  host: text(
    'The address to listen on. Addresses that other machines reach need `tlsCert` and `tlsKey`, or `behindProxy`.',
  ).default('127.0.0.1'),
  behindProxy: flag(false, 'A proxy in front of Conch speaks TLS with the agents.'),
  tlsCert: textOrNull('The path of the certificate chain for remote agents, as PEM.'),
  tlsKey: textOrNull('The path of the key of `tlsCert`, as PEM.'),
  origins: texts('Web origins whose pages may connect. Pages of other origins are refused.').default([]),
});

const consoleSchema = z.strictObject({
  enabled: flag(
    true,
    'Serve the page. Only this machine can reach it. Commands in a terminal reach a running Conch through it.',
  ),
  port: port('The port of the page on 127.0.0.1; 0 takes a free one. CONCH_PORT overrides it.').default(7420),
});

const discordSchema = z.strictObject({
  webhooks: flag(
    true,
    'Agents speak by webhook, with their own names and pictures. Without it the bot speaks, and its text begins with their name.',
  ),
  roles: flag(false, 'Create an empty role for every agent, so that people can mention it with @.'),
  streaming: flag(true, 'Show what an agent says while it speaks, by edits.'),
  cards: flag(true, 'Keep a message with the floor and its buttons near the end of the channel.'),
  typing: flag(true, 'Show the typing indicator while an agent has the floor.'),
});

const slackSchema = z.strictObject({
  mode: choice(
    ['socket', 'http'],
    'How events come: over sockets that Conch opens, or as signed requests to your address.',
  ).default('socket'),
  connections: integer(
    1,
    10,
    'Number of parallel sockets. With only one, no events arrive while Slack renews it.',
  ).default(2),
  host: text('The address for signed requests, behind your proxy.').default('127.0.0.1'),
  port: port('The port for signed requests.').default(7422),
  path: z
    .string()
    .regex(/^\/\S*$/, 'Expected a path such as "/slack/events"')
    .describe('The path for signed requests.')
    .default('/slack/events'),
  streaming: flag(true, 'Show what an agent says while it speaks.'),
  cards: flag(true, 'Keep a message with the floor and its buttons near the end of the channel.'),
  status: flag(true, 'Show a status line while an agent has the floor.'),
  agentSessions: flag(false, "Use Slack's agent sessions with their own Stop button; the app must be an agent."),
  userGroups: textMap('Slack user groups whose mention means an agent: the id of the group, then the id of the agent.'),
});

/**
 * A picture of an agent: an https address, Slack's name of an emoji (`:tada:`), or 1 to 16 non-ASCII characters with an
 * emoji or a symbol among them.
 */
const PICTURE = /^https:\/\/\S+$|^:[\w+-]{1,100}:$|^(?=.*(?:\p{Extended_Pictographic}|\p{RI}|\p{So}))\P{ASCII}{1,16}$/u;

const rules = (meaning: string) => z.array(z.string().max(1_000)).max(10_000).exactOptional().describe(meaning);

const tools = z.strictObject({
  allow: rules('Rules of tools that run without a request, such as "Read", "Bash(npm test)" or "mcp__files__read_*".'),
  ask: rules('Rules of tools that need an approval; with "!" at the end also where an always-allow rule exists.'),
  deny: rules('Rules of tools that are denied; they override all others.'),
  untrusted: rules(
    'Rules of tools that return untrusted text, besides the known ones. An agent that read such text needs an approval before it changes or sends anything.',
  ),
  private: rules('Rules of tools that return private data, besides files that are known to hold keys.'),
  outward: rules('Rules of tools that can send data out, besides the known ones.'),
  trusted: rules(
    'Rules of tools that are trusted: their output is not untrusted text, and they need no approval because of untrusted text that the agent read before.',
  ),
  default: z
    .enum(VERDICTS)
    .exactOptional()
    .describe(
      'The verdict for a tool that no rule names. Default: "deny"; without any rules "ask", and reading in the agent\'s folder is allowed.',
    ),
  members: z
    .enum(MEMBERS)
    .exactOptional()
    .describe(
      'Tools beyond reading when the requester is no operator: "ask" requires an approval even for allowed tools, "deny" denies them, "same" changes nothing. Default: "ask".',
    ),
});

const steps = (work: string, usual: number) =>
  integer(1, 200, `Steps of ${work} before people are asked. Default: ${usual}.`).exactOptional();

const runs = z.strictObject({
  task: steps('work on a ticket', 50),
  conversational: steps('a turn', 100),
  background: steps('a background run', 200),
});

const agent = z.strictObject({
  id: agentId.describe('The id of the agent in channels, commands and logs; people address it as @id.'),
  name: z.string().min(1).max(80).exactOptional().describe('The name under which the agent speaks. Default: its id.'),
  backend: backendSchema.describe('What runs the agent.'),
  persona: z.string().max(20_000).describe('Who the agent is, in words for itself.').default(''),
  description: z.string().max(500).describe('What the agent is good at, in words for the others.').default(''),
  avatar: z
    .string()
    .max(500)
    .regex(PICTURE, 'Expected an emoji, or an address that begins with "https://"')
    .nullable()
    .describe('An emoji or the https address of a picture; null for none.')
    .default(null),
  priority: integer(1, 1_000, 'Under the order "priority", an agent with 1 speaks before an agent with 10.').default(
    10,
  ),
  timeoutSeconds: z
    .number()
    .min(0.1)
    .max(WEEK_SECONDS)
    .nullable()
    .describe(
      'Seconds without a sign of work after which a turn of the agent times out; null is defaultTimeoutSeconds.',
    )
    .default(null),
  rejoin: z
    .enum(['manual', 'auto'])
    .nullable()
    .describe('Whether the agent is queued again by itself when it reconnects; null is turnConfig.rejoin.')
    .default(null),
  trusted: z
    .boolean()
    .exactOptional()
    .describe(
      'Start the agent although it is known to change files without asking. Without this key Conch does not start such an agent.',
    ),
  tools: tools.exactOptional().describe('What the agent may do with tools, besides the general rules.'),
  approvers: z
    .union([z.literal('other'), z.array(idText).min(1).max(1_000)], {
      error: 'Expected "other" or a list of ids of people or roles',
    })
    .exactOptional()
    .describe(
      'Who may allow or deny the requests of the agent: only these ids of people or roles, or any operator but the one who asked for the work ("other"). Default: every operator.',
    ),
  runs: runs
    .exactOptional()
    .describe('How many steps the work of the agent may take; each key overrides the general one.'),
});

const limit = z.number().positive().nullable();
const limits = {
  tokens: limit
    .describe('The most tokens of all agents together, for the exchange or the day; null is no limit.')
    .default(null),
  costUsd: limit
    .describe('The most US dollars of all agents together, for the exchange or the day; null is no limit.')
    .default(null),
  minutes: limit
    .describe('Minutes with waits; null is no limit. A day counts its turns, an exchange all its time.')
    .default(null),
};
const spending = z.strictObject(limits).prefault({});
const ownSpending = z.strictObject(withoutDefaults(limits)).exactOptional();
const EXCHANGE = 'What the agents may spend after one human message.';
const DAY = 'What the agents may spend in a day.';
const budgets = z.strictObject({ exchange: spending.describe(EXCHANGE), day: spending.describe(DAY) });
const ownBudgets = z.strictObject({ exchange: ownSpending.describe(EXCHANGE), day: ownSpending.describe(DAY) });

const days = z
  .int()
  .min(1)
  .max(36_500)
  .nullable()
  .describe('Days after which messages, posts and journal entries are deleted; null keeps them.');

const signalWord = z.string().regex(/^\S{1,40}$/, 'Expected one word');

/** The settings of reviews in a channel, as people write them. */
export const reviewConfigSchema = z.strictObject({
  primary: agentId.exactOptional().describe('The agent that works, under the order "review".'),
  reviewer: agentId.exactOptional().describe('The agent that reviews, under the order "review".'),
  maxIterations: integer(
    1,
    100,
    'The most iterations of a review. Each begins with a turn of the agent that works.',
  ).default(10),
  until: choice(
    ['signal', 'review', 'consensus'],
    'What completes a review: "signal": DONE of the agent that works or PASS of the reviewer; "review": only PASS; "consensus": both for the same work.',
  ).default('signal'),
  onFail: choice(
    ['stop', 'revise'],
    'FAIL of the reviewer: "stop" ends the review, "revise" asks for another iteration.',
  ).default('stop'),
  session: choice(
    ['fresh', 'resume'],
    'The session of the reviewer: a new one for each iteration ("fresh"), or the same ("resume").',
  ).default('fresh'),
  fallback: agentId
    .exactOptional()
    .describe("The agent that reviews when the reviewer's provider is at its limit or wants a login."),
  doneSignal: signalWord.describe('The word by which the agent that works says that it is finished.').default('DONE'),
  passSignal: signalWord.describe('The word by which the reviewer passes the work.').default('PASS'),
  failSignal: signalWord.describe('The word by which either says that the task has failed.').default('FAIL'),
  patience: integer(1, 100, 'Iterations without a change and without a pass, after which people are asked.').default(2),
});

const channel = z.strictObject({
  id: idText
    .regex(/^[a-z]+:\S+$/, 'Expected "<adapter>:<id on the platform>", for example "console:demo"')
    .describe('The adapter, a colon, and the id of the channel on that platform.'),
  name: z
    .string()
    .min(1)
    .max(100)
    .exactOptional()
    .describe('The name in logs and lists. Default: the id after the colon.'),
  topic: z.string().max(500).exactOptional().describe('What the channel is about, in words for its agents.'),
  agents: z.array(agentId).max(100).describe('The ids of the agents at this floor, in the order of their turns.'),
  tools: tools
    .exactOptional()
    .describe('What agents may do with tools in this channel, besides the general and their own rules.'),
  runs: runs.exactOptional().describe("How many steps work in this channel may take; each key overrides the agent's."),
  review: reviewConfigSchema.exactOptional().describe('Reviews in this channel.'),
  budgets: ownBudgets.exactOptional().describe('Budgets of this channel; each key overrides the general one.'),
  retention: z.strictObject({ days }).exactOptional().describe('How long the messages of this channel are kept.'),
  ...withoutDefaults(turnKeys),
});

const gitHub = {
  repository: z
    .string()
    .regex(/^[\w.-]+\/[\w.-]+$/, 'Expected "owner/name"')
    .describe('The repository, as "owner/name".'),
  token: text('A token that may write issues and pull requests, best as ${NAME}.'),
  baseUrl: webAddress('"http://" or "https://"', "The address of the API. Default: GitHub's.").exactOptional(),
};

const ticketSource = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('files').describe('"files": one Markdown file a ticket, in the format of the tk tool.'),
    dir: text('The folder of the tickets in the repository.').default('.tickets'),
  }),
  z.strictObject({
    kind: z.literal('tk').describe('"tk": Conch asks the program tk for the tickets.'),
    command: text('The program.').default('tk'),
    dir: text('The folder of the tickets in the repository.').default('.tickets'),
  }),
  z.strictObject({
    kind: z.literal('github').describe('"github": issues of a repository on GitHub.'),
    ...gitHub,
    label: text('Only issues with this label are taken, and only if somebody who may write set it.').default('conch'),
  }),
  z.strictObject({
    kind: z.literal('beads').describe('"beads": a file of issues of the tool beads. Conch only reads it.'),
    file: text('The path of the issues file in the repository.').default('.beads/issues.jsonl'),
  }),
]);

const PROMPT_WORDS =
  'name crew main branch worktree ticket title quote step most state budget about earlier notes other by side hunks turn turns'.split(
    ' ',
  );
const prompt = z
  .string()
  .min(1)
  .max(20_000)
  .refine((words) => [...words.matchAll(/\{(\w+)\}/g)].every(([, name = '']) => PROMPT_WORDS.includes(name)), {
    error: `Expected only these words in braces: ${PROMPT_WORDS.join(', ')}`,
  });

const clockTime = (description: string) =>
  z
    .string()
    .regex(/^(?:[01]\d|2[0-3]):[0-5]\d$/, 'Expected a time such as "22:00"')
    .describe(description);

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).format(0) !== '';
  } catch {
    return false;
  }
}

const mergeWindow = z.strictObject({
  seconds: integer(1, 86_400, 'Seconds between the announcement of a merge and the merge.').default(60),
  quietHours: z
    .strictObject({
      from: clockTime('When the quiet hours begin.'),
      to: clockTime('When the quiet hours end.'),
      timeZone: z
        .string()
        .refine(isTimeZone, 'Expected the name of a time zone such as "Europe/Berlin"')
        .describe('The time zone of `from` and `to`.')
        .default('UTC'),
    })
    .refine(({ from, to }) => from !== to, { path: ['to'], message: 'Expected another time than that of "from"' })
    .exactOptional()
    .describe('Hours of the day in which nothing is merged unless a person asks for it.'),
});

const crew = z.strictObject({
  id: agentId.describe('The name of the crew, in commands and in the ids of its agents.'),
  repo: text('The folder of the git repository, as a path from the folder in which Conch was started.'),
  channel: idText.describe('The channel that shows the work of the crew. Every ticket gets a thread of this channel.'),
  backend: backendSchema.describe('What runs each worker, as for agents. Its `cwd` is the worktree of the ticket.'),
  workers: integer(1, 100, 'How many workers the crew has at its first start.').default(3),
  maxWorkers: integer(1, 100, 'How many workers work at once.').default(10),
  tickets: ticketSource.prefault({ kind: 'files' }).describe('Where the tickets are.'),
  test: text('The command of the tests, "auto" to find it, or "none" for no tests.').default('auto'),
  testTimeoutSeconds: number(1, 86_400, 'Seconds after which running tests are stopped and count as red.').default(900),
  prepare: texts('Commands that prepare a new worktree, before the first step.').default([]),
  prepareTimeoutSeconds: number(1, 86_400, 'Seconds after which a command of `prepare` fails.').default(900),
  main: text('The branch that work is merged into.').default('main'),
  fetch: flag(true, 'Fetch the branch `main` before a ticket is assigned, if it has a remote.'),
  merge: choice(
    ['auto', 'ask', 'pr'],
    'Merge when the tests are green ("auto"), when an operator says so ("ask"), or by a pull request ("pr").',
  ).default('auto'),
  votes: integer(1, 20, 'How many operators must choose the merge of a commit; more than 1 with merge "ask".').default(
    1,
  ),
  mergeWindow: mergeWindow
    .exactOptional()
    .describe(
      'Announce each merge that no person chose some time before the merge, so that people can hold it. Default: merge at once.',
    ),
  pullRequests: z
    .strictObject(gitHub)
    .exactOptional()
    .describe('Where pull requests are opened. Default: the repository of the GitHub tickets.'),
  push: flag(false, 'Push the branch `main` to its remote after every merge, never by force.'),
  folder: text('The folder of the worktrees, as a path from the repository.').default('agents'),
  maxSteps: integer(1, 1_000, 'The most steps of a ticket.').default(20),
  stepTimeoutSeconds: number(1, 86_400, 'Seconds after which a step ends.').default(3_600),
  quietSeconds: number(1, 86_400, 'Seconds without a sign of work after which a step ends.').default(900),
  patience: integer(1, 100, 'Steps in a row without a changed file, after which people are asked.').default(3),
  meetingTurns: integer(
    0,
    20,
    'The most turns of a meeting with the other side before a worker resolves a conflict; 0 for no meetings.',
  ).default(4),
  review: z
    .strictObject({
      by: agentId.describe('The agent that reviews. It needs no seat in the channel.'),
      maxIterations: integer(1, 100, 'The most turns of the reviewer for one review.').default(10),
    })
    .exactOptional()
    .describe('Reviews of the work of a ticket, after its tests and before its merge.'),
  costUsd: price(
    'US dollars that the crew may cost before it stops; null is no limit. `/crew run` allows as much again.',
  ),
  dayCostUsd: price(
    'US dollars that the crew may cost on one day (UTC) before it pauses until the next day; null is no limit.',
  ),
  ticketCostUsd: price('US dollars that a ticket may cost before people are asked; null is no limit.'),
  tools: tools.exactOptional().describe('What the workers of the crew may do with tools, besides the general rules.'),
  prompts: z
    .partialRecord(z.enum(['init', 'step', 'test', 'conflict', 'commit', 'nothing', 'side', 'meet']), prompt)
    .exactOptional()
    .describe(
      'Prompts in place of the built-in ones. Words in braces are replaced: {ticket} (its id), {title}, {quote} (the text of the ticket as data), {branch}, {worktree}, {main}, {step} of {most} (this step and the limit of steps), {state} (of the worktree), {budget} (what is left), {about} (why this step), {earlier} (earlier attempts), {notes}, {name} (the worker), {crew}; in a meeting also {other} (the merged ticket), {by} (its worker), {side} (its text and changes), {hunks} (the lines in conflict), {turn} of {turns}.',
    ),
  trusted: flag(
    false,
    'Start workers although files in the repository take effect before anybody is asked, or the program of the workers changes files without asking.',
  ),
});

const operators = z.strictObject({
  users: z
    .array(idText)
    .describe("Ids of the people who may change the floor. Whoever has the console's page open always may.")
    .default([]),
  roles: z.array(idText).describe('Ids of the roles or groups whose members may change the floor.').default([]),
});

const announcement = ({ text: builtIn, when }: { readonly text: string; readonly when: string }) =>
  z
    .union([z.string().min(1).max(500), z.literal(false)], {
      error: 'Expected the text in quotes, or false to switch it off',
    })
    .meta({ default: builtIn, description: `The text when ${when}. false switches it off.` })
    .exactOptional();

const announcements = z.strictObject({
  ...(Object.fromEntries(Object.entries(ANNOUNCEMENTS).map(([kind, row]) => [kind, announcement(row)])) as Readonly<
    Record<keyof typeof ANNOUNCEMENTS, ReturnType<typeof announcement>>
  >),
  approval: z
    .string({ error: 'Expected the text in quotes; requests cannot be switched off' })
    .min(1)
    .max(500)
    .meta({
      default: ANNOUNCEMENTS.approval.text,
      description: `The text when ${ANNOUNCEMENTS.approval.when}. The whole call always follows it.`,
    })
    .exactOptional(),
});

const POSTGRES_ADDRESS =
  'Expected an address such as postgres://user:password@host/database, in which the password has %2F for /, %40 for @, %23 for # and %3F for ?';

const isWhole = ({ pathname, search, hash }: URL): boolean => !`${pathname}${search}`.includes('@') && hash === '';

const store = z.strictObject({
  postgres: z
    .url({ protocol: /^postgres(?:ql)?$/, error: POSTGRES_ADDRESS })
    // An unescaped `/`, `?` or `#` would end the password, and the rest would be read as another part of the address.
    .refine((url) => !URL.canParse(url) || isWhole(new URL(url)), { error: POSTGRES_ADDRESS })
    .describe('The address of the database, with user and password, as `${NAME}`. PostgreSQL 15 or newer.'),
  schema: z
    .string()
    .regex(/^[a-z_][a-z0-9_]{0,40}$/, 'Expected lower-case letters, digits and underscores')
    .describe('The schema of the tables. Conch creates it.')
    .default('conch'),
});

const log = z.strictObject({
  level: choice(
    ['fatal', 'error', 'warn', 'info', 'debug', 'trace'],
    'The lowest level that is logged. CONCH_LOG_LEVEL overrides it.',
  ).default('info'),
  pretty: z
    .union([z.boolean(), z.literal('auto')], { error: 'Expected true, false or "auto"' })
    .describe('Write the log as lines for people, not as JSON; "auto" does so on a terminal.')
    .default('auto'),
});

/** The whole of `turnConfig.json`, as people write it. */
export const fileSchema = z.strictObject({
  $schema: z.string().exactOptional().describe('Where editors find the description of this file; Conch ignores it.'),
  turnConfig: turnConfigSchema.prefault({}).describe('The turns of every channel without a setting of its own.'),
  agents: z
    .array(agent)
    .min(1, 'Expected at least one agent; without this key Conch runs the three agents of the demo')
    .max(1_000)
    .exactOptional()
    .describe('Who can be given a seat. Default: the three agents of the demo.'),
  channels: z
    .array(channel.omit(OF_CONNECTIONS))
    .min(1, 'Expected at least one channel')
    .exactOptional()
    .describe('The channels with a floor. Default: one channel "console:demo" with every agent.'),
  crews: z
    .array(crew)
    .max(100)
    .describe('Crews: workers that turn the tickets of a git repository into merged commits.')
    .default([]),
  remote: remoteSchema.prefault({}).describe('The server for agents that connect to Conch.'),
  adapters: z
    .strictObject({
      console: consoleSchema
        .prefault({})
        .describe('The page on this machine: a chat of its own and a window into every channel.'),
      discord: discordSchema.prefault({}).describe('Discord; needs DISCORD_TOKEN.'),
      slack: slackSchema
        .prefault({})
        .describe('Slack; needs SLACK_BOT_TOKEN, and SLACK_APP_TOKEN or SLACK_SIGNING_SECRET.'),
    })
    .prefault({})
    .describe('The chat platforms.'),
  operators: operators.prefault({}).describe('Who may change the floor; everybody may read.'),
  budgets: budgets.prefault({}).describe('What one channel may spend.'),
  tools: tools.exactOptional().describe('What every agent may do with tools.'),
  runs: runs.exactOptional().describe('How many steps work may take.'),
  mcp: z
    .record(z.string(), serverSchema)
    .describe(
      'Servers of tools (the Model Context Protocol) for agents of the kinds "llm", "acp" and "remote", by their ids.',
    )
    .default({}),
  retention: z
    .strictObject({ days: days.default(null) })
    .prefault({})
    .describe('How long messages are kept.'),
  store: store
    .exactOptional()
    .describe(
      'A store in PostgreSQL, which other processes of Conch that stand by share. Default: a file in the data folder.',
    ),
  announcements: announcements
    .prefault({})
    .describe('The texts of announcements. Names in braces are replaced by values.'),
  log: log.prefault({}).describe('What is logged.'),
});

/** `turnConfig.json` after reading, with the defaults filled in. */
export type ConfigFile = z.output<typeof fileSchema>;

/** The parts of a JSON Schema that the code reads. */
export type JsonNode = {
  readonly description?: string;
  readonly default?: unknown;
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, JsonNode>>;
  /** The schema of the values of a record. */
  readonly additionalProperties?: JsonNode | boolean;
  readonly required?: readonly string[];
  readonly items?: JsonNode;
  readonly anyOf?: readonly JsonNode[];
  readonly oneOf?: readonly JsonNode[];
};

/** The JSON Schema of `turnConfig.json`, as people write that file. */
export const configJsonSchema = (): JsonNode => (cachedSchema ??= makeSchema());

/** The content of `turnConfig.schema.json`, before formatting. */
export const jsonSchemaText = (): string =>
  `${JSON.stringify({ title: 'turnConfig.json', ...configJsonSchema() }, null, 2)}\n`;

let cachedSchema: JsonNode | null = null;
const makeSchema = () => z.toJSONSchema(fileSchema, { io: 'input', target: 'draft-07' }) as JsonNode;
