import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import { nearest } from '../lib/nearest.ts';
import { demoModel } from './demo.ts';
import type { Problem } from './error.ts';
import { missingPackages, missingText } from './parts.ts';
import { fileSchema } from './schema.ts';
import { isSecretName, passwordIn } from '../lib/unsafe-variables.ts';
import { Secret } from './secret.ts';
import { readIn } from './world.ts';
import type { Env, World } from './world.ts';

type Variable = { readonly name: string; readonly byDefault: string; readonly meaning: string };

/** Environment variables that Conch reads, as the docs list them. */
export const VARIABLES = [
  {
    name: 'CONCH_CONFIG',
    byDefault: 'turnConfig.json',
    meaning: 'The configuration file. Without a file, the demo runs.',
  },
  { name: 'CONCH_DATA_DIR', byDefault: '.conch', meaning: "Where the database and the console's token are." },
  { name: 'CONCH_PORT', byDefault: '7420', meaning: 'The port of the page; overrides the configuration file.' },
  {
    name: 'CONCH_LOG_LEVEL',
    byDefault: 'info',
    meaning: 'fatal, error, warn, info, debug, trace; overrides turnConfig.json.',
  },
  { name: 'OPENAI_API_KEY', byDefault: '', meaning: "OpenAI's key; the demo's agents speak through its model." },
  { name: 'ANTHROPIC_API_KEY', byDefault: '', meaning: "Anthropic's key; the demo's agents speak through its model." },
  {
    name: 'OPENAI_BASE_URL',
    byDefault: '',
    meaning: "The address of a server with OpenAI's API, for the demo's model.",
  },
  {
    name: 'CONCH_MODEL',
    byDefault: 'gpt-5-mini or claude-sonnet-4-5',
    meaning: "Which model the demo's agents speak through.",
  },
  { name: 'DISCORD_TOKEN', byDefault: '', meaning: "The bot's token, for Discord (docs/discord.md)." },
  { name: 'SLACK_BOT_TOKEN', byDefault: '', meaning: "The app's bot token (xoxb-…), for Slack (docs/slack.md)." },
  { name: 'SLACK_APP_TOKEN', byDefault: '', meaning: 'The app-level token (xapp-…), for events over sockets.' },
  { name: 'SLACK_SIGNING_SECRET', byDefault: '', meaning: 'The signing secret, for events as signed requests.' },
  { name: 'DISCORD_API_URL', byDefault: '', meaning: 'Another server in place of Discord, for tests.' },
  { name: 'SLACK_API_URL', byDefault: '', meaning: 'Another server in place of Slack, for tests; ends in /api/.' },
] as const satisfies readonly Variable[];

/** The variables with the API keys of the providers. */
export const API_KEYS = { openai: 'OPENAI_API_KEY', anthropic: 'ANTHROPIC_API_KEY' } as const;

/** The result of reading the environment and `.env`. */
export type Environment = ReturnType<typeof readEnvironment>;

/**
 * Reads the environment, then `.env` for variables that the environment lacks. Throws a `ConfigError` for an unreadable
 * `.env`.
 */
export const readEnvironment = (world: World) => {
  const path = resolve(world.cwd, '.env');
  const reading = readIn(world, path);
  const written: Env = reading === null ? {} : parseEnv(reading.text);
  const env = withoutEmpty({ ...written, ...withoutEmpty(world.env) });
  const parsed = environmentSchema.safeParse(env);
  const model = demoModel(env);
  const missing = missingPackages('models', world.machine?.isInstalled ?? (() => true));
  const isOpen = reading?.public === true && Object.keys(withoutEmpty(written)).some(isSecretName);
  return {
    env,
    problems: [
      ...(parsed.success ? [] : parsed.error.issues.map((issue) => outOfRange(issue, env))),
      ...faultsIn(env, PLATFORM_VARIABLES),
    ],
    demoProblems: faultsIn(env, ['OPENAI_BASE_URL']),
    demoWarnings: model === null || missing.length === 0 ? [] : [withoutModel(missing)],
    secrets: Object.entries(env).flatMap(([name, value]) => secretsOf(name, value)),
    warnings: [...(isOpen ? [openToAll(path)] : []), ...mistyped(env)],
    settings: {
      dataDir: resolve(world.cwd, env['CONCH_DATA_DIR'] ?? '.conch'),
      port: parsed.data?.CONCH_PORT ?? null,
      logLevel: parsed.data?.CONCH_LOG_LEVEL ?? null,
      demoModel: missing.length === 0 ? model : null,
      credentials: credentialsIn(env),
      /** API keys from the providers' own variables. */
      keys: { openai: env[API_KEYS.openai] ?? null, anthropic: env[API_KEYS.anthropic] ?? null },
    },
  } as const;
};

/** The warning about a file with secrets that every user of the machine can read. */
export const openToAll = (path: string): string =>
  `${path} contains secrets and every user of this machine can read it. Run: chmod 600 ${path}`;

const withoutModel = (missing: readonly string[]): string =>
  `The environment names a model, but the agents of the demo play their scripts: ${missingText('models', missing)}`;

const LEVELS = fileSchema.shape.log.unwrap().shape.level.unwrap();

const environmentSchema = z.object({
  CONCH_PORT: z
    .string()
    .regex(/^\d{1,5}$/)
    .transform(Number)
    .pipe(z.int().max(65_535))
    .optional(),
  CONCH_LOG_LEVEL: LEVELS.optional(),
});

/** Credentials of the platforms; `null` where a variable is not set. */
export type Credentials = ReturnType<typeof credentialsIn>;

const credentialsIn = (env: Env) => {
  const secret = (name: string): Secret | null => (env[name] ? new Secret(env[name]) : null);
  return {
    discord: { token: secret('DISCORD_TOKEN'), apiUrl: env['DISCORD_API_URL'] ?? null },
    slack: {
      botToken: secret('SLACK_BOT_TOKEN'),
      appToken: secret('SLACK_APP_TOKEN'),
      signingSecret: secret('SLACK_SIGNING_SECRET'),
      apiUrl: env['SLACK_API_URL'] ?? null,
    },
  } as const;
};

/** An empty variable counts as not set. */
const withoutEmpty = (env: Env): Env => Object.fromEntries(Object.entries(env).filter(([, value]) => value));

const outOfRange = (issue: z.core.$ZodIssue, env: Env): Problem => {
  const path = issue.path.map(String).join('.');
  const expected = path === 'CONCH_PORT' ? 'a port from 0 to 65535' : `one of ${LEVELS.options.join(', ')}`;
  return { path, line: null, message: `Expected ${expected}, got "${env[path]}": change the environment or .env` };
};

const secretsOf = (name: string, value = ''): readonly Secret[] => {
  const secret = isSecretName(name) && value !== '' ? value : passwordIn(value);
  return secret === null ? [] : [new Secret(secret, name)];
};

/** Returns a problem for each variable whose value is a common mistake. Messages do not contain the value. */
const faultsIn = (env: Env, names: readonly string[]): readonly Problem[] =>
  names.flatMap((path) => {
    const value = env[path];
    const fault = value === undefined ? undefined : MIX_UPS[path]?.find(({ is }) => is.test(value));
    return fault === undefined ? [] : [{ path, line: null, message: fault.message }];
  });

const NOT_HTTP = {
  is: /^(?!https?:\/\/[^/])/,
  message: 'Expected an address that begins with "http://" or "https://"',
};

const NO_ADDRESS = {
  is: { test: (value: string): boolean => !URL.canParse(value) },
  message: 'This address has a wrong host or port: write it as in http://127.0.0.1:11434/v1',
};
const ON_SLACK = '"OAuth & Permissions" of your app on api.slack.com/apps';
const BASIC = '"Basic Information" of your app on api.slack.com/apps';

const MIX_UPS: Readonly<Record<string, readonly { readonly is: Pick<RegExp, 'test'>; readonly message: string }[]>> = {
  OPENAI_BASE_URL: [NOT_HTTP, NO_ADDRESS],
  DISCORD_TOKEN: [
    { is: /^Bot\s/i, message: 'The value begins with "Bot": remove that word, Conch adds it' },
    {
      is: /^\d{15,21}$/,
      message: 'This is an application id, not a token: docs/discord.md says where to find the token',
    },
    { is: /\s/, message: 'The value contains a space: copy it again, docs/discord.md says where to find it' },
  ],
  DISCORD_API_URL: [NOT_HTTP, NO_ADDRESS],
  SLACK_BOT_TOKEN: [
    {
      is: /^xapp-/,
      message: 'This is an app-level token: put it into SLACK_APP_TOKEN, and the bot token (xoxb-…) here',
    },
    {
      is: /^xox[a-z](?<!xoxb)[-.]/,
      message: `This is not a bot token: copy the one that begins with xoxb- from ${ON_SLACK}`,
    },
    { is: /\s/, message: `The value contains a space: copy it again from ${ON_SLACK}` },
  ],
  SLACK_APP_TOKEN: [
    { is: /^xox/, message: `This is a token of ${ON_SLACK}: make an app-level token (xapp-…) under ${BASIC}` },
    { is: /\s/, message: `The value contains a space: copy it again from ${BASIC}` },
  ],
  SLACK_SIGNING_SECRET: [
    { is: /^(?:xox|xapp-)/, message: `This is a token: copy the "Signing Secret" from ${BASIC}` },
    { is: /\s/, message: `The value contains a space: copy it again from ${BASIC}` },
  ],
  SLACK_API_URL: [NOT_HTTP, NO_ADDRESS, { is: /(?<!\/api\/)$/, message: 'Expected an address that ends in "/api/"' }],
};

const PLATFORM_VARIABLES = Object.keys(MIX_UPS).filter((name) => name !== 'OPENAI_BASE_URL');

const mistyped = (env: Env): readonly string[] => {
  const names: readonly string[] = VARIABLES.map(({ name }) => name);
  return Object.keys(env).flatMap((name) => {
    if (!/^(?:CONCH|DISCORD|SLACK)_/.test(name) || names.includes(name)) return [];
    const meant = nearest(name, names);
    return meant === null || env[meant] !== undefined
      ? []
      : [`${name} is not a variable of Conch; did you mean ${meant}?`];
  });
};
