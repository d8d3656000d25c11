import { z } from 'zod';
import type { Env } from './references.ts';
import { Secret } from './secret.ts';

const flag = (byDefault: boolean, text: string) => z.boolean().default(byDefault).describe(text);
const port = z.int().min(0).max(65_535);

const consoleSchema = z.strictObject({
  enabled: z.boolean().default(true).describe('Whether the page is served; only ever on this machine.'),
  port: port
    .default(7420)
    .describe('The port of the page on 127.0.0.1; 0 takes a free one. CONCH_PORT goes before it.'),
});

const discordSchema = z.strictObject({
  webhooks: flag(
    true,
    'Agents speak under their own names and pictures, by webhook; else as the bot, with their name before the text.',
  ),
  roles: flag(false, 'Make an empty role for every agent, so that people can mention it with @.'),
  streaming: flag(true, 'Show what an agent says while it is still being said, by edits.'),
  cards: flag(true, 'Keep a message with the floor and its buttons near the end of the channel.'),
  typing: flag(true, 'Show that somebody types while an agent has the floor.'),
});

const slackSchema = z.strictObject({
  mode: z
    .enum(['socket', 'http'])
    .default('socket')
    .describe('How events come: over sockets that Conch opens, or as signed requests to an address of yours.'),
  connections: z.int().min(1).max(10).default(2).describe('Sockets side by side; with one, each renewal is a gap.'),
  host: z.string().min(1).default('127.0.0.1').describe('Where signed requests are taken, behind your proxy.'),
  port: port.default(7422).describe('The port for signed requests.'),
  path: z
    .string()
    .regex(/^\/\S*$/, 'Expected a path such as "/slack/events"')
    .default('/slack/events')
    .describe('The path for signed requests.'),
  streaming: flag(true, 'Show what an agent says while it is still being said.'),
  cards: flag(true, 'Keep a message with the floor and its buttons near the end of the channel.'),
  status: flag(true, 'Show a status line while an agent has the floor.'),
  agentSessions: flag(false, "Use Slack's agent sessions with their own Stop button; the app must be an agent."),
  userGroups: z
    .record(z.string(), z.string())
    .default({})
    .describe('Which agent a mention of a Slack user group means: the id of the group, then the id of the agent.'),
});

/** The chat platforms, as people configure them; their secrets are in the environment. */
export const adaptersSchema = z.strictObject({
  console: consoleSchema
    .prefault({})
    .describe('The page on this machine: a chat of its own and a window into every channel.'),
  discord: discordSchema.prefault({}).describe('Discord; needs DISCORD_TOKEN.'),
  slack: slackSchema
    .prefault({})
    .describe('Slack; needs SLACK_BOT_TOKEN, and SLACK_APP_TOKEN or SLACK_SIGNING_SECRET.'),
});

/** The platforms' settings after reading. */
export type AdapterSettings = Readonly<z.output<typeof adaptersSchema>>;

/** What the environment says about the platforms; `null` where it says nothing. */
export type Credentials = {
  readonly discord: { readonly token: Secret | null; readonly apiUrl: string | null };
  readonly slack: {
    readonly botToken: Secret | null;
    readonly appToken: Secret | null;
    readonly signingSecret: Secret | null;
    readonly apiUrl: string | null;
  };
};

/** Reads the platforms' variables. */
export const credentialsIn = (env: Env): Credentials => {
  const secret = (name: string): Secret | null => (env[name] ? new Secret(env[name]) : null);
  return {
    discord: { token: secret('DISCORD_TOKEN'), apiUrl: env['DISCORD_API_URL'] ?? null },
    slack: {
      botToken: secret('SLACK_BOT_TOKEN'),
      appToken: secret('SLACK_APP_TOKEN'),
      signingSecret: secret('SLACK_SIGNING_SECRET'),
      apiUrl: env['SLACK_API_URL'] ?? null,
    },
  };
};
