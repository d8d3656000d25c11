import type { WebClient, WebClientOptions } from '@slack/web-api';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Clock } from '../../lib/time.ts';
import { bad, good, warning } from '../port.ts';
import type { CheckResult } from '../port.ts';
import { NEW_SECRET, ANY_ANSWER, call, createClient, platformChannel, chatError, slackCode } from './client.ts';
import type { SlackSettings } from './client.ts';
import type { ConnectionMode } from './connection.ts';
import type { AdapterOptions } from './adapter.ts';
import { lookUp } from './channel-membership.ts';

/** Input for the check of the Slack setup. `channels`: the configured channels that are on Slack. */
export type SetupOptions = Omit<AdapterOptions, 'connection' | 'timers' | 'log' | 'memory'> & {
  readonly mode: ConnectionMode['mode'];
  readonly channels: readonly { readonly id: ChannelId; readonly name: string }[];
};

/**
 * Checks tokens, scopes, clock, channels and user groups. Changes nothing at Slack. Slack's refusals become results,
 * not rejections.
 */
export async function checkSetup(options: SetupOptions): Promise<readonly CheckResult[]> {
  const { botToken, apiUrl, clock, channels } = options;
  const dates: string[] = [];
  const web = createClient({ token: botToken, apiUrl, fetch: recordDates(dates) });
  const bot = await botOf(web);
  if ('verdict' in bot) return [bot];
  const findings = [
    good('Slack bot token', `it is the token of @${bot.name} in the workspace ${bot.team}`),
    ...checkScopes(bot.scopes, options),
    ...clockFindings(dates.at(-1), clock),
    await checkDelivery(options),
  ];
  for (const channel of channels) findings.push(await channelFinding(web, channel, bot.name));
  findings.push(...(await checkGroups(web, options)));
  return findings;
}

type Bot = { readonly name: string; readonly team: string; readonly scopes: readonly string[] | null };

const SKEW_MS = 60_000;
const ANY_CHANNEL = 'slack:*';

const botSchema = z.looseObject({
  user: z.string(),
  team: z.string().default('that it is installed in'),
  bot_id: z.string().nullish(),
  response_metadata: z.looseObject({ scopes: z.array(z.string()).optional() }).optional(),
});
const groupsSchema = z.looseObject({
  usergroups: z.array(z.looseObject({ id: z.string(), date_delete: z.number().optional() })).default([]),
});

async function botOf(web: WebClient): Promise<Bot | CheckResult> {
  try {
    const about = await call(web, { method: 'auth.test', channel: ANY_CHANNEL, args: {}, answer: botSchema });
    const { user: name, team, bot_id: bot, response_metadata: more } = about;
    if (!bot) return bad('Slack bot token', 'it is the token of a person', NEW_SECRET.SLACK_BOT_TOKEN);
    return { name, team, scopes: more?.scopes ?? null };
  } catch (error) {
    return bad('Slack bot token', ...wordsFor(error, NEW_SECRET.SLACK_BOT_TOKEN));
  }
}

function checkScopes(grantedScopes: Bot['scopes'], { settings }: SetupOptions): readonly CheckResult[] {
  if (grantedScopes === null) return [warning('Slack scopes', 'Slack did not list the scopes of the app', null)];
  const neededScopes = settings.agentSessions
    ? [...BOT_SCOPES, { scope: 'assistant:write', what: "use Slack's agent sessions", isVital: false }]
    : BOT_SCOPES;
  const missing = neededScopes.filter(({ scope }) => !grantedScopes.includes(scope));
  if (missing.length === 0) return [good('Slack scopes', 'the app has all scopes it needs')];
  return missing.map(({ scope, what, isVital }) =>
    (isVital ? bad : warning)(
      `Slack scope ${scope}`,
      `it is missing: Conch cannot ${what}`,
      'Add it on the page "OAuth & Permissions" of your app on api.slack.com/apps and install the app again.',
    ),
  );
}

/** Compares this machine's clock with Slack's. Slack signs requests and orders messages by its own clock. */
function clockFindings(date: string | undefined, clock: Clock): readonly CheckResult[] {
  const at = date === undefined ? Number.NaN : Date.parse(date);
  if (Number.isNaN(at)) return [];
  const skewMs = Math.abs(clock.now() - at);
  if (skewMs <= SKEW_MS) return [good('clock', "it matches Slack's clock")];
  const text = `it is ${Math.round(skewMs / 1_000)} s away from that of Slack`;
  return [warning('clock', text, 'Synchronize the clock of this machine (NTP).')];
}

async function checkDelivery({ mode, appToken, signingSecret, apiUrl }: SetupOptions): Promise<CheckResult> {
  if (mode === 'http') {
    return signingSecret === null
      ? bad(
          'Slack signing secret',
          'it is not set, so requests from Slack cannot be verified',
          NEW_SECRET.SLACK_SIGNING_SECRET,
        )
      : good('Slack signing secret', 'it is set; the first request shows whether it is the right one');
  }
  if (appToken === null) return bad('Slack app token', 'it is not set', NEW_SECRET.SLACK_APP_TOKEN);
  try {
    const app = createClient({ token: appToken, apiUrl });
    await call(app, { method: 'apps.connections.open', channel: ANY_CHANNEL, args: {}, answer: ANY_ANSWER });
    return good('Slack app token', 'it can open sockets');
  } catch (error) {
    const isOff = slackCode(error) === 'forbidden_team' || slackCode(error) === 'socket_mode_not_enabled';
    return bad(
      'Slack app token',
      ...wordsFor(error, isOff ? 'Switch Socket Mode on for your app.' : NEW_SECRET.SLACK_APP_TOKEN),
    );
  }
}

type Channel = SetupOptions['channels'][number];

async function channelFinding(web: WebClient, { id, name }: Channel, bot: string): Promise<CheckResult> {
  const slackChannel = platformChannel(id).channel;
  const label = name.startsWith('#') ? name : `#${name}`;
  const invite = `Invite the app: write "/invite @${bot}" in ${label}.`;
  try {
    const channel = await lookUp(web, id);
    if (channel.is_archived === true)
      return bad(label, 'it is archived', 'Unarchive it, or remove it from the configuration.');
    if (channel.is_member !== true && channel.is_im !== true) return bad(label, `@${bot} is not in it`, invite);
    return good(label, `@${bot} is in it`);
  } catch (error) {
    const isUnknown = slackCode(error) === 'channel_not_found';
    const notVisible = `Slack knows no channel ${slackChannel} that the app can see`;
    const todo = `${invite} If that does not help, copy the channel id again from the end of "View channel details".`;
    return isUnknown ? bad(label, notVisible, todo) : bad(label, ...wordsFor(error, null));
  }
}

async function checkGroups(web: WebClient, { userGroups }: SetupOptions): Promise<readonly CheckResult[]> {
  const configuredGroups = Object.keys(userGroups);
  if (configuredGroups.length === 0) return [];
  try {
    const request = { method: 'usergroups.list', channel: ANY_CHANNEL, args: {}, answer: groupsSchema };
    const { usergroups } = await call(web, request);
    const existingGroups = new Set(usergroups.filter((group) => !group.date_delete).map(({ id }) => id));
    const missing = configuredGroups.filter((id) => !existingGroups.has(id));
    if (missing.length === 0) return [good('Slack user groups', 'all user groups of the configuration exist')];
    const todo = 'Copy the ids again, or remove them from adapters.slack.userGroups.';
    return [warning('Slack user groups', `Slack does not know ${missing.join(', ')}`, todo)];
  } catch (error) {
    const todo = 'Add the scope usergroups:read and install the app again.';
    return [warning('Slack user groups', ...wordsFor(error, todo))];
  }
}

function recordDates(dates: string[]): NonNullable<WebClientOptions['fetch']> {
  return async (url, init) => {
    const response = await globalThis.fetch(url, init);
    const date = response.headers.get('date');
    if (date !== null) dates.push(date);
    return response;
  };
}

function wordsFor(error: unknown, todo: string | null): [string, string | null] {
  const trouble = chatError(error, { method: 'doctor', channel: ANY_CHANNEL });
  if (trouble.fault === 'refused') return [`Slack refused (${slackCode(trouble) ?? 'without a reason'})`, todo];
  if (trouble.fault === 'limited') return ['Slack limits requests for now', 'Try again in a minute.'];
  return [trouble.message, 'Check the network of this machine, then try again.'];
}

/**
 * Scopes of the bot token. Agent sessions also need `assistant:write`. `isVital`: Conch cannot work in public channels
 * without this scope.
 */
export const BOT_SCOPES: readonly { readonly scope: string; readonly what: string; readonly isVital: boolean }[] = [
  { scope: 'app_mentions:read', what: 'read mentions of the app', isVital: false },
  { scope: 'channels:history', what: 'read what people write in public channels', isVital: true },
  { scope: 'channels:read', what: 'look channels up', isVital: true },
  { scope: 'chat:write', what: 'write messages', isVital: true },
  { scope: 'chat:write.customize', what: 'let agents speak under their own names', isVital: false },
  { scope: 'commands', what: 'offer the command /conch', isVital: false },
  { scope: 'files:read', what: 'read attachments', isVital: false },
  { scope: 'groups:history', what: 'read what people write in private channels', isVital: false },
  { scope: 'groups:read', what: 'look private channels up', isVital: false },
  { scope: 'im:history', what: 'read direct messages', isVital: false },
  { scope: 'im:read', what: 'look direct messages up', isVital: false },
  { scope: 'reactions:read', what: 'see reactions', isVital: false },
  { scope: 'reactions:write', what: 'show receipts under messages', isVital: false },
  {
    scope: 'usergroups:read',
    what: 'recognize mentioned user groups, or operators by their user group',
    isVital: false,
  },
  { scope: 'users:read', what: 'show the names of people', isVital: false },
];

/** The events to which the app subscribes. With agent sessions also `agent_session_stopped`. */
export const BOT_EVENTS: readonly string[] = [
  'app_mention',
  'app_uninstalled',
  'channel_archive',
  'channel_deleted',
  'channel_left',
  'channel_unarchive',
  'group_archive',
  'group_deleted',
  'group_left',
  'group_unarchive',
  'member_joined_channel',
  'member_left_channel',
  'message.channels',
  'message.groups',
  'message.im',
  'reaction_added',
  'tokens_revoked',
];

const YOUR_ADDRESS = 'https://YOUR-ADDRESS.example';

/** Returns the JSON for Slack's "Create an app from a manifest". In `http` mode, its addresses hold a placeholder. */
export function manifestText(
  settings: Pick<SlackSettings, 'agentSessions'> & { readonly path?: string },
  mode: 'socket' | 'http',
): string {
  const isAgent = settings.agentSessions;
  const url = `${YOUR_ADDRESS}${settings.path ?? '/slack/events'}`;
  const addressField = (key: 'url' | 'request_url'): object => (mode === 'http' ? { [key]: url } : {});
  const manifest = {
    display_information: {
      name: 'Conch',
      description: 'Turn-taking for AI agents and people: one agent at a time holds the floor.',
      background_color: '#1f3a4d',
    },
    features: {
      ...(isAgent ? { agent_view: { agent_description: 'Several agents in one channel, one at a time.' } } : {}),
      app_home: { home_tab_enabled: false, messages_tab_enabled: true, messages_tab_read_only_enabled: false },
      bot_user: { display_name: 'Conch', always_online: true },
      slash_commands: [
        {
          command: '/conch',
          ...addressField('url'),
          description: 'See who has the floor, and operate it',
          usage_hint: 'help | floor status | floor skip | stop',
          should_escape: false,
        },
      ],
    },
    oauth_config: {
      scopes: { bot: [...BOT_SCOPES.map(({ scope }) => scope), ...(isAgent ? ['assistant:write'] : [])].toSorted() },
    },
    settings: {
      event_subscriptions: {
        ...addressField('request_url'),
        bot_events: [...BOT_EVENTS, ...(isAgent ? ['agent_session_stopped'] : [])].toSorted(),
      },
      interactivity: { is_enabled: true, ...addressField('request_url') },
      org_deploy_enabled: false,
      socket_mode_enabled: mode === 'socket',
      token_rotation_enabled: false,
    },
  };
  return JSON.stringify(manifest, null, 2);
}
