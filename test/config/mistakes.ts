import type { Env } from '../../src/config/world.ts';
import { CERTIFICATE, KEY, OTHER_KEY } from './pem.ts';

/** A kind of mistake: a configuration with one fault, and the problem that Conch must report. */
export type Mistake = {
  readonly kind: string;
  /** The text of `turnConfig.json`, or the value that is written there as JSON. */
  readonly file: unknown;
  readonly env?: Env;
  /** Other files, by their names in /work. */
  readonly files?: Readonly<Record<string, string>>;
  /** Where the mistake is: the path of a key, or the name of a variable. */
  readonly path: string;
  /** A part of the line that the problem names; `null` when the mistake is not in the file. */
  readonly at: string | null;
  /** A part of the message: what was expected, or what to do. */
  readonly next: string;
};

const PM = { id: 'pm', backend: { kind: 'scripted', script: 'pm' } };
const BOT = { id: 'bot' };
const MODEL = {
  ...BOT,
  backend: { kind: 'llm', provider: 'openai-compatible', model: 'm', baseUrl: 'http://127.0.0.1:1/v1' },
};
const KEYS = { OPENAI_API_KEY: 'sk-0123456789', ANTHROPIC_API_KEY: 'sk-ant-0123456789' };
const TOKENS = { DISCORD_TOKEN: 'a.b.c', SLACK_BOT_TOKEN: 'xoxb-1', SLACK_APP_TOKEN: 'xapp-1' };
const ON_SLACK = { channels: [{ id: 'slack:C0123456789', agents: ['pm'] }] };
const FOR_DISCORD = 'docs/discord.md says where to find it';
const FOR_SLACK = 'docs/slack.md says where to find it';

const turn = (turnConfig: object) => ({ turnConfig });
const agent = (more: object) => ({ agents: [{ ...PM, ...more }] });
const backend = (more: object) => ({ agents: [{ ...BOT, backend: more }] });
const llm = (more: object) => backend({ kind: 'llm', provider: 'openai', model: 'gpt-5-mini', ...more });
const compatible = (more: object) => llm({ provider: 'openai-compatible', model: 'm', ...more });
const acp = (more: object) => backend({ kind: 'acp', profile: 'opencode', ...more });
const command = (more: object) => backend({ kind: 'command', command: 'date', ...more });
const remote = (more: object) => ({ agents: [{ ...BOT, backend: { kind: 'remote' } }], remote: more });
const crew = (runs: object, more: object = {}) => ({
  ...seats(['pm']),
  agents: [PM],
  crews: [{ id: 'web', repo: '.', channel: 'console:a', backend: runs, ...more }],
});
const seats = (agents: unknown, more: object = {}) => ({ channels: [{ id: 'console:a', agents, ...more }] });

const asks = (variable: string) =>
  `Conch sets ${variable} itself, so that opencode asks: remove it, or use the profile "generic", which does not promise to ask`;

/** Values that the schema rejects. */
const VALUES: readonly Mistake[] = [
  ...['/', '?', '#'].map((character) => ({
    kind: `a database password of digits with an unescaped "${character}"`,
    file: { store: { postgres: `postgres://ann:12${character}x@db/conch` } },
    path: 'store.postgres',
    at: 'postgres:',
    next: 'in which the password has %2F for /',
  })),
  {
    kind: 'a number in quotes',
    file: turn({ defaultTimeoutSeconds: '60' }),
    path: 'turnConfig.defaultTimeoutSeconds',
    at: '"60"',
    next: 'Expected a number, got "60"',
  },
  {
    kind: 'a time of nothing',
    file: turn({ defaultTimeoutSeconds: 0 }),
    path: 'turnConfig.defaultTimeoutSeconds',
    at: 'defaultTimeoutSeconds',
    next: 'Expected 0.1 at least, got 0',
  },
  {
    kind: 'a number above its range',
    file: turn({ maxTurns: 10_001 }),
    path: 'turnConfig.maxTurns',
    at: 'maxTurns',
    next: 'Expected 10000 at most, got 10001',
  },
  {
    kind: 'a number with a fraction',
    file: turn({ rounds: 1.5 }),
    path: 'turnConfig.rounds',
    at: 'rounds',
    next: 'Expected a whole number, got 1.5',
  },
  {
    kind: 'a number for a flag',
    file: turn({ receipts: 1 }),
    path: 'turnConfig.receipts',
    at: 'receipts',
    next: 'Expected true or false, got 1',
  },
  {
    kind: 'null for a flag of a channel',
    file: seats(['pm'], { receipts: null }),
    path: 'channels[0].receipts',
    at: 'receipts',
    next: 'Expected true or false, got null',
  },
  {
    kind: 'a mode that is none',
    file: turn({ humanInterruptMode: 'shout' }),
    path: 'turnConfig.humanInterruptMode',
    at: 'shout',
    next: 'Expected "inject", "queue", "interrupt", "parallel", "steer", "followup", "collect" or "concurrent", got "shout"',
  },
  {
    kind: 'a mistyped mode',
    file: turn({ humanInterruptMode: 'injct' }),
    path: 'turnConfig.humanInterruptMode',
    at: 'injct',
    next: 'got "injct": did you mean "inject"?',
  },
  {
    kind: 'an order that is none',
    file: seats(['pm'], { order: 'random' }),
    path: 'channels[0].order',
    at: 'random',
    next: 'Expected "round-robin", "priority", "manual", "mention", "facilitator" or "review", got "random"',
  },
  {
    kind: 'a mistyped order',
    file: turn({ order: 'roundrobin' }),
    path: 'turnConfig.order',
    at: 'roundrobin',
    next: 'got "roundrobin": did you mean "round-robin"?',
  },
  {
    kind: 'a signal of two words',
    file: turn({ turnCompleteSignal: 'I AM DONE' }),
    path: 'turnConfig.turnCompleteSignal',
    at: 'I AM DONE',
    next: 'Expected one word of 3 to 64 characters, got "I AM DONE"',
  },
  {
    kind: 'a backend that is none',
    file: backend({ kind: 'magic' }),
    path: 'agents[0].backend.kind',
    at: 'magic',
    next: 'Expected "scripted", "llm", "acp", "remote" or "command"',
  },
  {
    kind: 'a mistyped backend',
    file: backend({ kind: 'comand', command: 'date' }),
    path: 'agents[0].backend.kind',
    at: 'comand',
    next: 'did you mean "command"?',
  },
  {
    kind: 'a mistyped provider',
    file: llm({ provider: 'antropic' }),
    path: 'agents[0].backend.provider',
    at: 'antropic',
    next: 'did you mean "anthropic"?',
  },
  {
    kind: 'a mistyped profile',
    file: acp({ profile: 'claudecode' }),
    path: 'agents[0].backend.profile',
    at: 'claudecode',
    next: 'did you mean "claude-code"?',
  },
  {
    kind: 'a script that is none',
    file: backend({ kind: 'scripted', script: 'ceo' }),
    path: 'agents[0].backend.script',
    at: 'ceo',
    next: 'Expected "pm", "dev" or "qa", got "ceo"',
  },
  { kind: 'an agent without a backend', file: { agents: [BOT] }, path: 'agents[0].backend', at: '{', next: 'add it' },
  {
    kind: 'an agent without an id',
    file: { agents: [{ backend: PM.backend }] },
    path: 'agents[0].id',
    at: '{',
    next: 'This key is missing: add it',
  },
  {
    kind: 'a model without its name',
    file: backend({ kind: 'llm', provider: 'openai' }),
    path: 'agents[0].backend.model',
    at: '"backend"',
    next: 'This key is missing: add it',
  },
  {
    kind: 'a command without a program',
    file: backend({ kind: 'command' }),
    path: 'agents[0].backend.command',
    at: '"backend"',
    next: 'This key is missing: add it',
  },
  {
    kind: 'an id with a space',
    file: agent({ id: 'p m' }),
    path: 'agents[0].id',
    at: 'p m',
    next: 'Expected up to 64 letters, digits, "_" and "-", got "p m"',
  },
  {
    kind: 'the id of an operator as a number',
    file: { operators: { users: [123_456_789_012_345_680] } },
    path: 'operators.users[0]',
    at: '12345678901234',
    next: 'Write it in quotes: a long id loses its last digits as a number',
  },
  {
    kind: 'a channel without its adapter',
    file: { channels: [{ id: 'demo', agents: ['pm'] }] },
    path: 'channels[0].id',
    at: 'demo',
    next: 'Expected "<adapter>:<id on the platform>", for example "console:demo", got "demo"',
  },
  {
    kind: 'no channel',
    file: { channels: [] },
    path: 'channels',
    at: 'channels',
    next: 'Expected at least one channel',
  },
  { kind: 'no agent', file: { agents: [] }, path: 'agents', at: 'agents', next: 'Expected at least one agent' },
  {
    kind: 'a port out of range',
    file: { adapters: { console: { port: 65_536 } } },
    path: 'adapters.console.port',
    at: '65536',
    next: 'Expected 65535 at most, got 65536',
  },
  {
    kind: 'a budget of nothing',
    file: { budgets: { day: { tokens: 0 } } },
    path: 'budgets.day.tokens',
    at: 'tokens',
    next: 'Expected more than 0, got 0',
  },
  {
    kind: 'an announcement switched on',
    file: { announcements: { timeout: true } },
    path: 'announcements.timeout',
    at: 'timeout',
    next: 'Expected the text in quotes, or false to switch it off, got true',
  },
  {
    kind: 'a level that is none',
    file: { log: { level: 'loud' } },
    path: 'log.level',
    at: 'loud',
    next: 'Expected "fatal", "error", "warn", "info", "debug" or "trace", got "loud"',
  },
  { kind: 'a list in place of keys', file: [1], path: '', at: '[', next: 'Expected keys and values in { }, got [1]' },
  {
    kind: 'a picture by http',
    file: agent({ avatar: 'http://example.org/pm.png' }),
    path: 'agents[0].avatar',
    at: 'pm.png',
    next: 'Expected an emoji, or an address that begins with "https://"',
  },
  {
    kind: 'a picture on this machine',
    file: agent({ avatar: './pm.png' }),
    path: 'agents[0].avatar',
    at: 'pm.png',
    next: 'Expected an emoji, or an address that begins with "https://"',
  },
];

/** Unknown keys, and keys in the wrong place. */
const UNKNOWN_KEYS: readonly Mistake[] = [
  {
    kind: 'a mistyped key',
    file: { turnConfg: {} },
    path: 'turnConfg',
    at: 'turnConfg',
    next: 'Unknown key: did you mean "turnConfig"?',
  },
  {
    kind: 'a mistyped key further in',
    file: turn({ humanInteruptMode: 'inject' }),
    path: 'turnConfig.humanInteruptMode',
    at: 'humanInteruptMode',
    next: 'did you mean "humanInterruptMode"?',
  },
  {
    kind: 'a key in small letters',
    file: turn({ maxturns: 1 }),
    path: 'turnConfig.maxturns',
    at: 'maxturns',
    next: 'did you mean "maxTurns"?',
  },
  {
    kind: 'a mistyped key of a channel',
    file: seats(['pm'], { maxTurn: 1 }),
    path: 'channels[0].maxTurn',
    at: 'maxTurn',
    next: 'did you mean "maxTurns"?',
  },
  {
    kind: 'a mistyped announcement',
    file: { announcements: { disconect: false } },
    path: 'announcements.disconect',
    at: 'disconect',
    next: 'did you mean "disconnect"?',
  },
  {
    kind: 'a key of another backend',
    file: llm({ command: 'date' }),
    env: KEYS,
    path: 'agents[0].backend.command',
    at: '"command"',
    next: 'Unknown key; known are kind, provider, model, apiKey',
  },
  {
    kind: 'a key of turnConfig at the top',
    file: { maxTurns: 3 },
    path: 'maxTurns',
    at: 'maxTurns',
    next: 'it belongs in "turnConfig"',
  },
  {
    kind: 'a key of the backend beside it',
    file: agent({ script: 'pm' }),
    path: 'agents[0].script',
    at: '"script"',
    next: 'it belongs in "backend"',
  },
  {
    kind: 'a key of the top inside of turnConfig',
    file: turn({ operators: {} }),
    path: 'turnConfig.operators',
    at: 'operators',
    next: 'it belongs at the top level of the file',
  },
  {
    kind: 'a key that is nothing like any',
    file: { log: { colour: true } },
    path: 'log.colour',
    at: 'colour',
    next: 'Unknown key; known are level, pretty',
  },
  {
    kind: "Discord's token in the file",
    file: { adapters: { discord: { token: 'x' } } },
    path: 'adapters.discord.token',
    at: 'token',
    next: 'put DISCORD_TOKEN into the environment or .env',
  },
  {
    kind: "Slack's app token in the file",
    file: { adapters: { slack: { appToken: 'x' } } },
    path: 'adapters.slack.appToken',
    at: 'appToken',
    next: 'put SLACK_APP_TOKEN into the environment or .env',
  },
  {
    kind: "Slack's signing secret in the file",
    file: { adapters: { slack: { signingSecret: 'x' } } },
    path: 'adapters.slack.signingSecret',
    at: 'signingSecret',
    next: 'put SLACK_SIGNING_SECRET into the environment or .env',
  },
];

/** Duplicate names, and references to names that do not exist. */
const NAMES: readonly Mistake[] = [
  {
    kind: 'two agents with one id',
    file: { agents: [PM, { ...PM, id: 'PM' }] },
    path: 'agents[1].id',
    at: '"PM"',
    next: '"PM" is the id of agents[0] already: choose another id',
  },
  {
    kind: 'two agents with one name',
    file: { agents: [PM, { ...PM, id: 'x', name: 'PM' }] },
    path: 'agents[1].name',
    at: '"PM"',
    next: 'agents[0] is called "PM" too: people could address neither, give it another',
  },
  {
    kind: 'two channels with one id',
    file: { channels: [...seats(['pm']).channels, ...seats(['dev']).channels] },
    path: 'channels[1].id',
    at: 'console:a',
    next: '"console:a" is the id of channels[0] already: choose another id',
  },
  {
    kind: 'a seat for nobody',
    file: seats(['pm', 'ops']),
    path: 'channels[0].agents[1]',
    at: 'ops',
    next: '"ops" is not the id of an agent; known are pm, dev, qa',
  },
  {
    kind: 'a seat for a mistyped agent',
    file: seats(['pm', 'dve']),
    path: 'channels[0].agents[1]',
    at: 'dve',
    next: '"dve" is not the id of an agent: did you mean "dev"?',
  },
  {
    kind: 'two seats for one agent',
    file: seats(['pm', 'pm']),
    path: 'channels[0].agents[1]',
    at: 'pm',
    next: '"pm" already has a seat in this channel: remove this entry',
  },
  {
    kind: 'a platform that there is none of',
    file: { channels: [{ id: 'irc:a', agents: ['pm'] }] },
    path: 'channels[0].id',
    at: 'irc:a',
    next: 'There is no adapter "irc"; known are console, discord, slack',
  },
  {
    kind: 'a mistyped platform',
    file: { channels: [{ id: 'disocrd:123456789012345678', agents: ['pm'] }] },
    path: 'channels[0].id',
    at: 'disocrd',
    next: 'There is no adapter "disocrd": did you mean "discord"?',
  },
  {
    kind: 'a platform that is switched off',
    file: { ...seats(['pm']), adapters: { console: { enabled: false } } },
    path: 'channels[0].id',
    at: 'console:a',
    next: 'The adapter of this channel is off: set adapters.console.enabled to true',
  },
  {
    kind: 'the order "review" without its agents',
    file: seats(['dev'], { order: 'review' }),
    path: 'channels[0].review',
    at: '{',
    next: 'The order "review" needs review.primary and review.reviewer',
  },
  {
    kind: 'a reviewer that is also the one who works',
    file: seats(['dev', 'qa'], { review: { primary: 'dev', reviewer: 'dev' } }),
    path: 'channels[0].review.reviewer',
    at: 'reviewer',
    next: 'One agent cannot review its own work',
  },
  {
    kind: 'a reviewer from elsewhere',
    file: seats(['dev'], { review: { primary: 'dev', reviewer: 'qa' } }),
    path: 'channels[0].review.reviewer',
    at: 'reviewer',
    next: '"qa" is not an agent of this channel',
  },
  {
    kind: 'a facilitator from elsewhere',
    file: seats(['pm'], { facilitator: 'qa' }),
    path: 'channels[0].facilitator',
    at: 'facilitator',
    next: '"qa" is not an agent of this channel; known are pm',
  },
  {
    kind: 'a responder from elsewhere',
    file: seats(['pm'], { interruptResponder: 'qa' }),
    path: 'channels[0].interruptResponder',
    at: 'interruptResponder',
    next: '"qa" is not an agent of this channel; known are pm',
  },
  {
    kind: 'a mistyped default agent',
    file: seats(['dev'], { defaultAgent: 'dve' }),
    path: 'channels[0].defaultAgent',
    at: 'defaultAgent',
    next: '"dve" is not an agent of this channel: did you mean "dev"?',
  },
  {
    kind: 'a general default agent whom one channel lacks',
    file: { ...turn({ defaultAgent: 'qa' }), ...seats(['pm']) },
    path: 'turnConfig.defaultAgent',
    at: 'defaultAgent',
    next: '"qa" is not an agent of console:a: give it a seat there, or set defaultAgent of that channel to null',
  },
  {
    kind: 'a general role that nobody has in the demo channel',
    file: turn({ facilitator: 'boss' }),
    path: 'turnConfig.facilitator',
    at: 'facilitator',
    next: '"boss" is not an agent of console:demo: give it a seat there',
  },
  {
    kind: 'the order "facilitator" without one',
    file: seats(['pm'], { order: 'facilitator' }),
    path: 'channels[0].order',
    at: 'order',
    next: '"facilitator" needs the key facilitator, with the id of an agent of console:a',
  },
  {
    kind: 'a name that no text is filled with',
    file: { announcements: { timeout: '{agnt} is late' } },
    path: 'announcements.timeout',
    at: 'agnt',
    next: '{agnt} is not a value of this announcement: did you mean {agent}?',
  },
  {
    kind: 'a name that another text is filled with',
    file: { announcements: { gap: '{agent}: {why}' } },
    path: 'announcements.gap',
    at: 'agent',
    next: '{agent} is not a value of this announcement; known are {why}',
  },
  {
    kind: 'a name in a text that is filled with nothing',
    file: { announcements: { nobody: 'Where is {agent}?' } },
    path: 'announcements.nobody',
    at: 'agent',
    next: '{agent} is not a value of this announcement; this announcement has no values',
  },
];

/** Times that contradict one another. */
const TIMES: readonly Mistake[] = [
  {
    kind: 'a beat slower than its limit',
    file: turn({ heartbeatSeconds: 45 }),
    path: 'turnConfig.heartbeatTimeoutSeconds',
    at: 'turnConfig',
    next: 'Expected more than heartbeatSeconds (45), got 45',
  },
  {
    kind: 'a beat of a channel slower than its limit',
    file: seats(['pm'], { heartbeatTimeoutSeconds: 15 }),
    path: 'channels[0].heartbeatTimeoutSeconds',
    at: 'heartbeatTimeoutSeconds',
    next: 'Expected more than heartbeatSeconds (15), got 15',
  },
  {
    kind: 'a silence longer than a turn',
    file: turn({ autoDetectTurnEnd: true, autoDetectSilenceSeconds: 60 }),
    path: 'turnConfig.autoDetectSilenceSeconds',
    at: 'autoDetectSilenceSeconds',
    next: 'Expected less than defaultTimeoutSeconds (60), got 60: a turn would time out before such a silence',
  },
  {
    kind: 'a silence longer than a turn, where only the channel ends silent turns',
    file: { ...turn({ autoDetectSilenceSeconds: 60 }), ...seats(['pm'], { autoDetectTurnEnd: true }) },
    path: 'channels[0].autoDetectSilenceSeconds',
    at: '{',
    next: 'Expected less than defaultTimeoutSeconds (60), got 60: a turn would time out before such a silence',
  },
  {
    kind: 'messages gathered for longer than a turn',
    file: { ...turn({ coalesceMs: 5_000 }), ...seats(['pm'], { defaultTimeoutSeconds: 5 }) },
    path: 'channels[0].coalesceMs',
    at: '{',
    next: 'Expected less than defaultTimeoutSeconds (5 s), got 5000 ms',
  },
];

/** Mistakes in the addresses, keys, names and prices of models. */
const MODELS: readonly Mistake[] = [
  {
    kind: 'a server without an address',
    file: compatible({}),
    path: 'agents[0].backend.baseUrl',
    at: '"backend"',
    next: 'add baseUrl, such as "http://127.0.0.1:11434/v1" for Ollama',
  },
  {
    kind: 'an address without a scheme',
    file: compatible({ baseUrl: 'localhost:11434/v1' }),
    path: 'agents[0].backend.baseUrl',
    at: 'localhost',
    next: 'Expected an address that begins with "http://" or "https://", got "localhost:11434/v1"',
  },
  {
    kind: 'an address with the call in it',
    file: compatible({ baseUrl: 'http://127.0.0.1:11434/v1/chat/completions' }),
    path: 'agents[0].backend.baseUrl',
    at: '11434',
    next: 'Conch adds "/chat/completions" itself: remove it',
  },
  {
    kind: 'an address with a query',
    file: compatible({ baseUrl: 'https://example.org/v1?api-version=1' }),
    path: 'agents[0].backend.baseUrl',
    at: 'example.org',
    next: 'remove "?api-version=1"',
  },
  {
    kind: 'the address of another provider',
    file: llm({ baseUrl: 'https://api.anthropic.com/v1' }),
    env: KEYS,
    path: 'agents[0].backend.baseUrl',
    at: 'api.anthropic.com',
    next: 'This is the address of anthropic: set provider to "anthropic"',
  },
  {
    kind: 'no key anywhere',
    file: llm({}),
    path: 'agents[0].backend.apiKey',
    at: '"backend"',
    next: 'There is no API key: set OPENAI_API_KEY in the environment or in .env, or add apiKey',
  },
  {
    kind: 'no key of the other provider',
    file: llm({ provider: 'anthropic', model: 'claude-sonnet-4-5' }),
    env: { OPENAI_API_KEY: 'sk-0123456789' },
    path: 'agents[0].backend.apiKey',
    at: '"backend"',
    next: 'There is no API key: set ANTHROPIC_API_KEY in the environment or in .env, or add apiKey',
  },
  {
    kind: 'the name of a variable for a key',
    file: llm({ apiKey: 'OPENAI_API_KEY' }),
    path: 'agents[0].backend.apiKey',
    at: 'OPENAI_API_KEY',
    next: 'This is the name of a variable: write "${OPENAI_API_KEY}" for its value',
  },
  {
    kind: 'a variable as a shell writes it',
    file: llm({ apiKey: '$MY_KEY' }),
    path: 'agents[0].backend.apiKey',
    at: 'MY_KEY',
    next: 'write "${MY_KEY}" for its value',
  },
  {
    kind: 'a variable that is not set',
    file: llm({ apiKey: '${MY_KEY}' }),
    path: 'agents[0].backend.apiKey',
    at: 'MY_KEY',
    next: 'The environment variable MY_KEY is not set: set it, or add it to .env',
  },
  {
    kind: 'a name that is no variable',
    file: agent({ persona: '${a-b}' }),
    path: 'agents[0].persona',
    at: 'a-b',
    next: '"${a-b}" names no environment variable: write "$${a-b}" if it is only text',
  },
  {
    kind: 'the key of another provider',
    file: llm({ apiKey: '${ANTHROPIC_API_KEY}' }),
    env: KEYS,
    path: 'agents[0].backend.apiKey',
    at: 'apiKey',
    next: 'It is a key of anthropic: set provider to "anthropic", or use a key of openai',
  },
  {
    kind: 'a model of Anthropic at OpenAI',
    file: llm({ model: 'claude-sonnet-4-5' }),
    env: KEYS,
    path: 'agents[0].backend.model',
    at: 'claude-sonnet-4-5',
    next: '"claude-sonnet-4-5" is not a model of openai: set provider to "anthropic", or choose another model',
  },
  {
    kind: 'a model of OpenAI at Anthropic',
    file: llm({ provider: 'anthropic', model: 'gpt-5-mini' }),
    env: KEYS,
    path: 'agents[0].backend.model',
    at: 'gpt-5-mini',
    next: '"gpt-5-mini" is not a model of anthropic: set provider to "openai"',
  },
  {
    kind: 'a model of neither',
    file: llm({ model: 'llama3.3' }),
    env: KEYS,
    path: 'agents[0].backend.model',
    at: 'llama3.3',
    next: 'set provider to "openai-compatible" with the baseUrl of its server',
  },
  {
    kind: 'a budget of dollars without prices',
    file: { ...llm({}), ...seats(['bot']), budgets: { day: { costUsd: 5 } } },
    env: KEYS,
    path: 'agents[0].backend',
    at: '"backend"',
    next: 'The cost of this model counts towards budgets.day.costUsd of console:a: add inputUsdPerMTok and outputUsdPerMTok (0 if the model is free)',
  },
  {
    kind: "a channel's own budget of dollars with half a price",
    file: { ...llm({ inputUsdPerMTok: 1 }), ...seats(['bot'], { budgets: { exchange: { costUsd: 1 } } }) },
    env: KEYS,
    path: 'agents[0].backend',
    at: '"backend"',
    next: 'budgets.exchange.costUsd of console:a: add outputUsdPerMTok (0 if the model is free)',
  },
];

/** Mistakes in the settings of a crew and its workers. */
const CREWS: readonly Mistake[] = [
  {
    kind: 'a rule of a crew that cannot be read',
    file: crew({ kind: 'acp', command: 'date' }, { tools: { allow: ['Bsh(npm'] } }),
    path: 'crews[0].tools.allow[0]',
    at: 'Bsh(npm',
    next: 'Expected',
  },
  {
    kind: 'no key for the workers of a crew',
    file: crew({ kind: 'llm', provider: 'openai', model: 'gpt-5-mini' }),
    path: 'crews[0].backend.apiKey',
    at: '"backend"',
    next: 'There is no API key: set OPENAI_API_KEY',
  },
  {
    kind: 'workers of a crew without a program',
    file: crew({ kind: 'acp', profile: 'generic' }),
    path: 'crews[0].backend.command',
    at: '"backend"',
    next: 'The profile "generic" has no default program',
  },
  {
    kind: 'an argument by which workers of a crew would not ask',
    file: crew({ kind: 'acp', profile: 'gemini', command: 'date', args: ['--yolo'] }),
    path: 'crews[0].backend.args[0]',
    at: '--yolo',
    next: 'With --yolo gemini would not ask',
  },
  {
    kind: 'a budget of dollars for a crew without prices',
    file: { ...crew({ kind: 'llm', provider: 'openai', model: 'gpt-5-mini' }), budgets: { day: { costUsd: 5 } } },
    env: KEYS,
    path: 'crews[0].backend',
    at: '"backend"',
    next: 'counts towards budgets.day.costUsd of console:a: add inputUsdPerMTok and outputUsdPerMTok',
  },
  {
    kind: "a crew's own limit of dollars without prices",
    file: crew({ kind: 'llm', provider: 'openai', model: 'gpt-5-mini' }, { ticketCostUsd: 1 }),
    env: KEYS,
    path: 'crews[0].backend',
    at: '"backend"',
    next: 'counts towards ticketCostUsd of web: add inputUsdPerMTok and outputUsdPerMTok',
  },
  {
    kind: 'a door for the workers of a crew that anybody can read',
    file: { ...crew({ kind: 'remote' }), remote: { host: '0.0.0.0' } },
    path: 'remote.host',
    at: '0.0.0.0',
    next: 'Agents would reach 0.0.0.0 without encryption',
  },
  {
    kind: 'one port for the page and the workers of a crew',
    file: { ...crew({ kind: 'remote' }), remote: { port: 7420 } },
    path: 'remote.port',
    at: '7420',
    next: '7420 is the port of adapters.console.port too',
  },
];

/** Mistakes in the programs, folders, arguments and variables of agents. */
const PROGRAMS: readonly Mistake[] = [
  {
    kind: 'a coding agent without a program',
    file: acp({ profile: 'generic' }),
    path: 'agents[0].backend.command',
    at: '"backend"',
    next: 'The profile "generic" has no default program: add `command`, or choose another profile',
  },
  {
    kind: 'a pipe in a command',
    file: command({ command: 'date | rev' }),
    path: 'agents[0].backend.command',
    at: 'date | rev',
    next: 'Conch starts programs without a shell: put this into a script, or write "sh" here and ["-c", …] into args',
  },
  {
    kind: 'two commands in one',
    file: command({ command: 'cd /tmp && date' }),
    path: 'agents[0].backend.command',
    at: '&&',
    next: 'without a shell',
  },
  {
    kind: 'arguments in a command',
    file: acp({ profile: 'generic', command: 'npx -y some-agent' }),
    path: 'agents[0].backend.command',
    at: 'npx -y',
    next: 'Expected only the program: write "npx", and ["-y","some-agent"] into args',
  },
  {
    kind: 'a home folder as a shell writes it',
    file: command({ command: '~/bin/agent' }),
    path: 'agents[0].backend.command',
    at: '~/bin',
    next: '"~" is not expanded: write the full path, or "${HOME}/…"',
  },
  {
    kind: 'a program that is not installed',
    file: command({ command: 'no-such-program' }),
    path: 'agents[0].backend.command',
    at: 'no-such-program',
    next: 'There is no program "no-such-program" on the PATH: install it, or correct the name',
  },
  {
    kind: 'a program that is not in its folder',
    file: command({ command: './agent.sh' }),
    path: 'agents[0].backend.command',
    at: 'agent.sh',
    next: 'There is no program "./agent.sh" in /work: install it, or correct the name',
  },
  {
    kind: 'a folder that is not there',
    file: command({ cwd: 'gone' }),
    path: 'agents[0].backend.cwd',
    at: 'gone',
    next: 'There is no folder /work/gone: create it, or correct the path',
  },
  {
    kind: 'a folder as a shell writes it',
    file: command({ cwd: '$HOME/project' }),
    path: 'agents[0].backend.cwd',
    at: '$HOME',
    next: '"$HOME" is not expanded',
  },
  {
    kind: 'a value among the names of variables',
    file: command({ env: ['TZ=UTC'] }),
    path: 'agents[0].backend.env[0]',
    at: 'TZ=UTC',
    next: 'Expected only the name of a variable: write {"TZ":"UTC"} into `set`',
  },
  {
    kind: 'a variable that no agent is given',
    file: command({ set: { NODE_OPTIONS: '--inspect' } }),
    path: 'agents[0].backend.set.NODE_OPTIONS',
    at: 'NODE_OPTIONS',
    next: 'Conch does not pass the variable NODE_OPTIONS to programs, because it changes how they run: remove it',
  },
  {
    kind: 'a variable by which an agent would not ask (T52)',
    file: acp({ command: 'date', set: { OPENCODE_PERMISSION: '"allow"' } }),
    path: 'agents[0].backend.set.OPENCODE_PERMISSION',
    at: 'OPENCODE_PERMISSION',
    next: asks('OPENCODE_PERMISSION'),
  },
  {
    kind: 'a variable of the environment by which an agent would not ask (T52)',
    file: acp({ command: 'date', env: ['A', 'OPENCODE_PERMISSION'] }),
    path: 'agents[0].backend.env[1]',
    at: 'OPENCODE_PERMISSION',
    next: asks('OPENCODE_PERMISSION'),
  },
  {
    kind: 'an argument by which an agent would not ask (T52)',
    file: acp({ profile: 'gemini', command: 'npx', args: ['@google/gemini-cli', '--acp', '--approval-mode=yolo'] }),
    path: 'agents[0].backend.args[2]',
    at: 'yolo',
    next: 'With --approval-mode=yolo gemini would not ask: remove it',
  },
];

/** Mistakes in the ports, certificates and origins for remote agents. */
const DOORS: readonly Mistake[] = [
  {
    kind: 'agents from elsewhere without encryption',
    file: remote({ host: '0.0.0.0' }),
    path: 'remote.host',
    at: '0.0.0.0',
    next: 'add tlsCert and tlsKey, or set behindProxy to true if a proxy ends TLS, or listen on 127.0.0.1',
  },
  {
    kind: 'an address of a door with its port',
    file: remote({ host: 'localhost:7421' }),
    path: 'remote.host',
    at: 'localhost:7421',
    next: 'Expected a name or an address without port',
  },
  {
    kind: 'a certificate without its key',
    file: remote({ tlsCert: 'cert.pem' }),
    path: 'remote.tlsKey',
    at: '"remote"',
    next: 'tlsCert needs a private key: set tlsKey to its path',
  },
  {
    kind: 'a key without its certificate',
    file: remote({ tlsKey: 'key.pem' }),
    path: 'remote.tlsCert',
    at: '"remote"',
    next: 'tlsKey needs a certificate: set tlsCert to its path',
  },
  {
    kind: 'a certificate that is not there',
    file: remote({ tlsCert: 'gone.pem', tlsKey: 'key.pem' }),
    files: { 'key.pem': KEY },
    path: 'remote.tlsCert',
    at: 'gone.pem',
    next: 'There is no file /work/gone.pem that can be read: give the path of a certificate chain in PEM format',
  },
  {
    kind: 'a certificate in place of its key',
    file: remote({ tlsCert: 'cert.pem', tlsKey: 'cert.pem' }),
    files: { 'cert.pem': CERTIFICATE },
    path: 'remote.tlsKey',
    at: 'tlsKey',
    next: '/work/cert.pem is not in the expected format: give the path of a private key in PEM format, without a password',
  },
  {
    kind: 'the key of another certificate',
    file: remote({ tlsCert: 'cert.pem', tlsKey: 'key.pem' }),
    files: { 'cert.pem': CERTIFICATE, 'key.pem': OTHER_KEY },
    path: 'remote.tlsKey',
    at: 'tlsKey',
    next: 'This key does not belong to the certificate in tlsCert',
  },
  {
    kind: 'the address of a page for an origin',
    file: remote({ origins: ['https://example.org/chat'] }),
    path: 'remote.origins[0]',
    at: 'example.org',
    next: 'Expected an origin, "https://example.org", got "https://example.org/chat"',
  },
  {
    kind: 'one port for two doors',
    file: remote({ port: 7420 }),
    path: 'remote.port',
    at: '7420',
    next: '7420 is the port of adapters.console.port too: choose another port, or 0 for any free one',
  },
];

/** Mistakes in the ids of people and channels, and missing tokens of platforms. */
const PLATFORMS: readonly Mistake[] = [
  {
    kind: 'an operator by a mention',
    file: { operators: { users: ['@anna'] } },
    path: 'operators.users[0]',
    at: '@anna',
    next: 'Expected an id such as "123456789012345678" (Discord) or "U0123456789" (Slack), not a name, got "@anna": /whoami shows people theirs',
  },
  {
    kind: 'an operator by name on a platform',
    file: { ...ON_SLACK, operators: { users: ['anna'] } },
    env: TOKENS,
    path: 'operators.users[0]',
    at: 'anna',
    next: '/whoami shows people theirs',
  },
  {
    kind: 'a role by its name',
    file: { operators: { roles: ['@admins'] } },
    path: 'operators.roles[0]',
    at: '@admins',
    next: 'Expected an id such as "123456789012345678" (a role on Discord) or "S0123456789" (a user group on Slack)',
  },
  {
    kind: 'a group among people',
    file: { operators: { users: ['S0123456789'] } },
    path: 'operators.users[0]',
    at: 'S0123456789',
    next: '"S0123456789" belongs in operators.roles: move it there',
  },
  {
    kind: 'a user group for nobody',
    file: { adapters: { slack: { userGroups: { S0123456789: 'ops' } } } },
    path: 'adapters.slack.userGroups.S0123456789',
    at: 'S0123456789',
    next: '"ops" is not the id of an agent; known are pm, dev, qa',
  },
  {
    kind: 'a user group by its name',
    file: { adapters: { slack: { userGroups: { '@devs': 'dev' } } } },
    path: 'adapters.slack.userGroups.@devs',
    at: '@devs',
    next: 'Expected the id of a user group, such as "S0123456789", got "@devs"',
  },
  {
    kind: 'a channel of Discord by its name',
    file: { channels: [{ id: 'discord:general', agents: ['pm'] }] },
    env: TOKENS,
    path: 'channels[0].id',
    at: 'general',
    next: 'switch on Developer Mode in Discord, then "Copy Channel ID" in the channel\'s menu',
  },
  {
    kind: 'a channel of Slack by its name',
    file: { channels: [{ id: 'slack:#general', agents: ['pm'] }] },
    env: TOKENS,
    path: 'channels[0].id',
    at: 'general',
    next: 'Expected "slack:" and the id of a channel, such as "slack:C0123456789"',
  },
  {
    kind: 'Discord without its token',
    file: { channels: [{ id: 'discord:123456789012345678', agents: ['pm'] }] },
    path: 'channels[0].id',
    at: 'discord:',
    next: `This channel needs DISCORD_TOKEN in the environment or in .env: ${FOR_DISCORD}`,
  },
  {
    kind: 'Slack without its bot token',
    file: ON_SLACK,
    env: { ...TOKENS, SLACK_BOT_TOKEN: '' },
    path: 'channels[0].id',
    at: 'slack:',
    next: `This channel needs SLACK_BOT_TOKEN in the environment or in .env: ${FOR_SLACK}`,
  },
  {
    kind: 'Slack over sockets without its app token',
    file: ON_SLACK,
    env: { ...TOKENS, SLACK_APP_TOKEN: '' },
    path: 'channels[0].id',
    at: 'slack:',
    next: `This channel needs SLACK_APP_TOKEN in the environment or in .env: ${FOR_SLACK}`,
  },
  {
    kind: 'signed requests without their secret',
    file: { ...ON_SLACK, adapters: { slack: { mode: 'http' } } },
    env: TOKENS,
    path: 'channels[0].id',
    at: 'slack:',
    next: `This channel needs SLACK_SIGNING_SECRET in the environment or in .env: ${FOR_SLACK}`,
  },
];

/** Environment variables with a wrong value. */
const VARIABLES: readonly Mistake[] = [
  {
    kind: 'a port that is none',
    file: {},
    env: { CONCH_PORT: 'seven' },
    path: 'CONCH_PORT',
    at: null,
    next: 'Expected a port from 0 to 65535, got "seven": change the environment or .env',
  },
  {
    kind: 'a level that is none in the environment',
    file: {},
    env: { CONCH_LOG_LEVEL: 'loud' },
    path: 'CONCH_LOG_LEVEL',
    at: null,
    next: 'Expected one of fatal, error, warn, info, debug, trace, got "loud"',
  },
  {
    kind: 'a file that is not there',
    file: {},
    env: { CONCH_CONFIG: 'gone.json' },
    path: 'CONCH_CONFIG',
    at: null,
    next: 'There is no file /work/gone.json: correct CONCH_CONFIG, or unset it',
  },
  {
    kind: 'an address of the demo without a scheme',
    file: {},
    env: { OPENAI_BASE_URL: 'localhost:11434/v1' },
    path: 'OPENAI_BASE_URL',
    at: null,
    next: 'Expected an address that begins with "http://" or "https://"',
  },
  {
    kind: "an application's id for Discord's token",
    file: {},
    env: { DISCORD_TOKEN: '123456789012345678' },
    path: 'DISCORD_TOKEN',
    at: null,
    next: 'This is an application id, not a token: docs/discord.md says where to find the token',
  },
  {
    kind: 'a word before the token of Discord',
    file: {},
    env: { DISCORD_TOKEN: 'Bot a.b.c' },
    path: 'DISCORD_TOKEN',
    at: null,
    next: 'The value begins with "Bot": remove that word, Conch adds it',
  },
  {
    kind: 'the app token of Slack for its bot token',
    file: {},
    env: { SLACK_BOT_TOKEN: 'xapp-1-A' },
    path: 'SLACK_BOT_TOKEN',
    at: null,
    next: 'This is an app-level token: put it into SLACK_APP_TOKEN, and the bot token (xoxb-…) here',
  },
  {
    kind: 'the token of a person for the bot token of Slack',
    file: {},
    env: { SLACK_BOT_TOKEN: 'xoxp-1' },
    path: 'SLACK_BOT_TOKEN',
    at: null,
    next: 'This is not a bot token: copy the one that begins with xoxb-',
  },
  {
    kind: 'the bot token of Slack for its app token',
    file: {},
    env: { SLACK_APP_TOKEN: 'xoxb-1' },
    path: 'SLACK_APP_TOKEN',
    at: null,
    next: 'make an app-level token (xapp-…) under "Basic Information"',
  },
  {
    kind: 'a token of Slack for its signing secret',
    file: {},
    env: { SLACK_SIGNING_SECRET: 'xoxb-1' },
    path: 'SLACK_SIGNING_SECRET',
    at: null,
    next: 'This is a token: copy the "Signing Secret" from "Basic Information"',
  },
  {
    kind: 'an address of Slack without its end',
    file: {},
    env: { SLACK_API_URL: 'http://127.0.0.1:9/' },
    path: 'SLACK_API_URL',
    at: null,
    next: 'Expected an address that ends in "/api/"',
  },
  {
    kind: 'an address of Discord without a scheme',
    file: {},
    env: { DISCORD_API_URL: '127.0.0.1:9/api' },
    path: 'DISCORD_API_URL',
    at: null,
    next: 'Expected an address that begins with "http://" or "https://"',
  },
];

/** Files that are not JSON, or that contain a key twice. */
const TEXTS: readonly Mistake[] = [
  { kind: 'a value without quotes', file: '{\n "log": { "level": loud }\n}', path: '', at: 'loud', next: '' },
  { kind: 'a comma too few', file: '{\n "agents": []\n "log": {}\n}', path: '', at: '"log"', next: 'comma' },
  { kind: 'an end too few', file: '{\n "log": {', path: '', at: '"log"', next: '' },
  {
    kind: 'a key twice',
    file: '{\n "log": {},\n "log": { }\n}',
    path: 'log',
    at: '{ }',
    next: 'This key appears twice: remove one',
  },
];

/** Mistakes in the rules for tools, their approvers and the limits of steps. */
const TOOLS: readonly Mistake[] = [
  {
    kind: 'a rule for no tool',
    file: { tools: { allow: ['Bsh(npm test)'] } },
    path: 'tools.allow[0]',
    at: 'Bsh',
    next: 'There is no tool "Bsh": known are read,',
  },
  {
    kind: 'a rule for two commands',
    file: agent({ tools: { deny: ['Bash(rm x && rm y)'] } }),
    path: 'agents[0].tools.deny[0]',
    at: 'rm x',
    next: 'Expected the words of one command',
  },
  {
    kind: 'a server with an underscore',
    file: seats(['pm'], { tools: { ask: ['mcp__my_server__*'] } }),
    path: 'channels[0].tools.ask[0]',
    at: 'my_server',
    next: 'a server\'s name has no "_"',
  },
  {
    kind: 'a question where none can be',
    file: { tools: { allow: ['Read!'] } },
    path: 'tools.allow[0]',
    at: 'Read!',
    next: 'Only rules of "ask" may end in "!"',
  },
  {
    kind: 'a default that is none',
    file: { tools: { default: 'aks' } },
    path: 'tools.default',
    at: 'aks',
    next: 'Expected "allow", "ask" or "deny", got "aks"',
  },
  {
    kind: 'an agent that is to decide about another',
    file: { agents: [MODEL, { ...MODEL, id: 'judge', approvers: ['ann', MODEL.id] }] },
    path: 'agents[1].approvers[1]',
    at: MODEL.id,
    next: `"${MODEL.id}" is an agent, and agents cannot approve: remove it`,
  },
  {
    kind: 'one person in place of a list of them',
    file: agent({ approvers: 'ann' }),
    path: 'agents[0].approvers',
    at: 'ann',
    next: 'Expected "other" or a list of ids of people or roles',
  },
  {
    kind: 'more steps than anybody can overlook',
    file: { runs: { background: 201 } },
    path: 'runs.background',
    at: '201',
    next: 'Expected 200 at most',
  },
  {
    kind: 'a list of tools by another name',
    file: { tools: { allowed: ['Read'] } },
    path: 'tools.allowed',
    at: 'allowed',
    next: 'Unknown key: did you mean "allow"?',
  },
];

const server = (more: object, id = 'files') => ({ agents: [MODEL], mcp: { [id]: more } });

const SERVERS: readonly Mistake[] = [
  {
    kind: 'an id of a server that rules could not name',
    file: server({ command: 'date' }, 'my_files'),
    path: 'mcp.my_files',
    at: 'my_files',
    next: 'Expected an id of up to 31 small letters, digits and "-" that begins with a letter, got "my_files"',
  },
  {
    kind: 'a server that is nothing',
    file: server({}),
    path: 'mcp.files',
    at: 'files',
    next: 'The server has no program and no address: add `command` or `url`',
  },
  {
    kind: 'a server that is both a program and an address',
    file: server({ command: 'date', url: 'https://tools.example.org/mcp' }),
    path: 'mcp.files.url',
    at: 'url',
    next: 'A server is either a program or an address',
  },
  {
    kind: 'a program of a server that is not there',
    file: server({ command: 'mcp-files' }),
    path: 'mcp.files.command',
    at: 'mcp-files',
    next: 'There is no program "mcp-files" on the PATH: install it, or correct the name',
  },
  {
    kind: 'a command line of a server in one text',
    file: server({ command: 'date -u' }),
    path: 'mcp.files.command',
    at: 'date -u',
    next: 'Expected only the program: write "date", and ["-u"] into args',
  },
  {
    kind: 'a folder of a server that is not there',
    file: server({ command: 'date', cwd: 'gone' }),
    path: 'mcp.files.cwd',
    at: 'gone',
    next: 'There is no folder /work/gone',
  },
  {
    kind: 'a variable that no server is given',
    file: server({ command: 'date', env: { LD_PRELOAD: 'x.so' } }),
    path: 'mcp.files.env.LD_PRELOAD',
    at: 'LD_PRELOAD',
    next: 'Conch does not pass the variable LD_PRELOAD to programs, because it changes how they run: remove it',
  },
  {
    kind: 'variables of a server as a list',
    file: server({ command: 'date', env: ['TZ'] }),
    path: 'mcp.files.env',
    at: 'env',
    next: 'Expected keys and values in { }, got ["TZ"]',
  },
  {
    kind: 'a server in clear on another machine',
    file: server({ url: 'http://tools.example.org/mcp' }),
    path: 'mcp.files.url',
    at: 'http:',
    next: 'Data would be sent unencrypted: use "https://" or a tunnel',
  },
  {
    kind: 'an address of a server of another protocol',
    file: server({ url: 'ws://tools.example.org' }),
    path: 'mcp.files.url',
    at: 'ws:',
    next: 'Expected an address that begins with "https://"',
  },
  {
    kind: 'a password in the address of a server',
    file: server({ url: 'https://anna:hidden@tools.example.org/mcp' }),
    path: 'mcp.files.url',
    at: 'anna',
    next: 'The address must not contain a user name or password: use a header "Authorization"',
  },
  {
    kind: 'a header that is none',
    file: server({ url: 'https://tools.example.org/mcp', headers: { 'X Key:': 'a' } }),
    path: 'mcp.files.headers.X Key:',
    at: 'X Key',
    next: 'Expected the name of a header',
  },
  {
    kind: 'a header of two lines',
    file: server({ url: 'https://tools.example.org/mcp', headers: { 'X-Key': 'a\nHost: b' } }),
    path: 'mcp.files.headers.X-Key',
    at: 'X-Key',
    next: 'The value contains a line feed or another character that is not allowed in a header: remove it',
  },
  {
    kind: 'headers of a program',
    file: server({ command: 'date', headers: { 'X-Key': 'a' } }),
    path: 'mcp.files.headers',
    at: 'headers',
    next: 'This key requires `url`, which this server does not have: remove it',
  },
  {
    kind: 'a login at a program',
    file: server({ command: 'date', oauth: {} }),
    path: 'mcp.files.oauth',
    at: 'oauth',
    next: 'This key requires `url`, which this server does not have: remove it',
  },
  {
    kind: 'a header in place of a login, and a login',
    file: server({ url: 'https://tools.example.org/mcp', oauth: {}, headers: { authorization: 'Bearer t0k3n' } }),
    path: 'mcp.files.headers.authorization',
    at: 'authorization',
    next: 'An Authorization header replaces the login: remove it or `oauth`',
  },
  {
    kind: 'the secret of no app',
    file: server({
      url: 'https://tools.example.org/mcp',
      oauth: { clientSecret: 'hidden', issuer: 'https://login.example.org' },
    }),
    path: 'mcp.files.oauth.clientSecret',
    at: 'clientSecret',
    next: "It is an app's secret: write the app's `clientId` beside it",
  },
  {
    kind: 'a secret for whoever asks',
    file: server({ url: 'https://tools.example.org/mcp', oauth: { clientId: 'conch', clientSecret: 'hidden' } }),
    path: 'mcp.files.oauth.clientSecret',
    at: 'clientSecret',
    next: 'Conch does not know where to send this secret: add the `issuer` of the app',
  },
  {
    kind: 'a service in clear on another machine',
    file: server({ url: 'https://tools.example.org/mcp', oauth: { issuer: 'http://login.example.org' } }),
    path: 'mcp.files.oauth.issuer',
    at: 'http:',
    next: 'Data would be sent unencrypted: use "https://"',
  },
  {
    kind: 'a scope of two words',
    file: server({ url: 'https://tools.example.org/mcp', oauth: { scopes: ['read write'] } }),
    path: 'mcp.files.oauth.scopes[0]',
    at: 'read write',
    next: 'Expected the name of one scope, without spaces, got "read write"',
  },
  {
    kind: 'arguments of an address',
    file: server({ url: 'http://127.0.0.1:8080/mcp', args: ['-v'] }),
    path: 'mcp.files.args',
    at: 'args',
    next: 'This key requires `command`, which this server does not have: remove it',
  },
  {
    kind: 'a key of a server that other programs know',
    file: server({ type: 'stdio', command: 'date' }),
    path: 'mcp.files.type',
    at: 'stdio',
    next: 'Unknown key; known are command, args, cwd, env, url',
  },
  {
    kind: 'a time for calls that is too long',
    file: server({ command: 'date', timeoutSeconds: 601 }),
    path: 'mcp.files.timeoutSeconds',
    at: '601',
    next: 'Expected 600 at most, got 601',
  },
];

/** All kinds of mistakes. Add a new kind as a row to one of these lists. */
export const MISTAKES: readonly Mistake[] = [
  ...VALUES,
  ...UNKNOWN_KEYS,
  ...NAMES,
  ...TIMES,
  ...MODELS,
  ...CREWS,
  ...PROGRAMS,
  ...DOORS,
  ...PLATFORMS,
  ...VARIABLES,
  ...TOOLS,
  ...SERVERS,
  ...TEXTS,
];
