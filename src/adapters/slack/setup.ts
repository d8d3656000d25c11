import type { WebClient, WebClientOptions } from '@slack/web-api';
import { z } from 'zod';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Clock } from '../../lib/time.ts';
import type { CheckResult } from '../delivery/check-result.ts';
import type { ChatError } from '../port.ts';
import { ANY_ANSWER, call, createClient } from './client.ts';
import { chatError, slackCode } from './errors.ts';
import { platformChannel } from './ids.ts';
import { BOT_SCOPES } from './manifest.ts';
import type { SlackSettings } from './client.ts';

/** What is to be checked: the tokens, and the channels of the configuration that are on Slack. */
export type SetupOptions = {
  readonly botToken: string;
  readonly appToken: string | null;
  readonly signingSecret: string | null;
  /** Ends in `/api/`; `null` is Slack itself. */
  readonly apiUrl: string | null;
  readonly mode: 'socket' | 'http';
  readonly clock: Clock;
  readonly channels: readonly { readonly id: ChannelId; readonly name: string }[];
  readonly settings: SlackSettings;
  readonly userGroups: Readonly<Record<string, AgentId>>;
};

/** Looks at everything on Slack that a start needs, and changes nothing there. Never rejects. */
export async function checkSetup(options: SetupOptions): Promise<readonly CheckResult[]> {
  const { botToken, apiUrl, clock, channels } = options;
  const dates: string[] = [];
  const web = createClient({ token: botToken, apiUrl, fetch: noting(dates) });
  const bot = await botOf(web);
  if ('verdict' in bot) return [bot];
  const findings = [
    good('Slack bot token', `it belongs to @${bot.name} in the workspace ${bot.team}`),
    ...scopes(bot.scopes, options),
    ...clockFindings(dates.at(-1), clock),
    await delivery(options),
  ];
  for (const channel of channels) findings.push(await channelFinding(web, channel, bot.name));
  findings.push(...(await groups(web, options)));
  return findings;
}

type Bot = { readonly name: string; readonly team: string; readonly scopes: readonly string[] | null };

const SKEW_MS = 60_000;
const NOWHERE = 'slack:*';
const TOKENS = '"OAuth & Permissions" of your app on api.slack.com/apps';

const botSchema = z.looseObject({
  user: z.string(),
  team: z.string().default('that it is installed in'),
  bot_id: z.string().nullish(),
  response_metadata: z.looseObject({ scopes: z.array(z.string()).optional() }).optional(),
});
const channelSchema = z.looseObject({
  channel: z.looseObject({
    is_member: z.boolean().optional(),
    is_im: z.boolean().optional(),
    is_archived: z.boolean().optional(),
  }),
});
const groupsSchema = z.looseObject({
  usergroups: z.array(z.looseObject({ id: z.string(), date_delete: z.number().optional() })).default([]),
});

async function botOf(web: WebClient): Promise<Bot | CheckResult> {
  try {
    const about = await call(web, { method: 'auth.test', channel: NOWHERE, args: {}, answer: botSchema });
    const { user: name, team, bot_id: bot, response_metadata: more } = about;
    if (!bot)
      return bad('Slack bot token', 'it is the token of a person', `Copy the bot token (xoxb-…) from ${TOKENS}.`);
    return { name, team, scopes: more?.scopes ?? null };
  } catch (error) {
    const trouble = chatError(error, { method: 'auth.test', channel: NOWHERE });
    return bad('Slack bot token', ...wordsFor(trouble, `Copy the bot token (xoxb-…) anew from ${TOKENS}.`));
  }
}

function scopes(granted: Bot['scopes'], { settings }: SetupOptions): readonly CheckResult[] {
  if (granted === null) return [warning('Slack scopes', 'Slack did not say which the app has', null)];
  const wanted = settings.agentSessions
    ? [...BOT_SCOPES, { scope: 'assistant:write', what: "use Slack's agent sessions", isVital: false }]
    : BOT_SCOPES;
  const missing = wanted.filter(({ scope }) => !granted.includes(scope));
  if (missing.length === 0) return [good('Slack scopes', 'the app has all that it needs')];
  return missing.map(({ scope, what, isVital }) =>
    (isVital ? bad : warning)(
      `Slack scope ${scope}`,
      `it is missing: Conch cannot ${what}`,
      `Add it on the page ${TOKENS} and install the app again.`,
    ),
  );
}

/** Signed requests and times of messages need a clock that goes with Slack's. */
function clockFindings(date: string | undefined, clock: Clock): readonly CheckResult[] {
  const at = date === undefined ? Number.NaN : Date.parse(date);
  if (Number.isNaN(at)) return [];
  const skewMs = Math.abs(clock.now() - at);
  if (skewMs <= SKEW_MS) return [good('clock', 'it goes with that of Slack')];
  const text = `it is ${Math.round(skewMs / 1_000)} s away from that of Slack`;
  return [warning('clock', text, 'Let this machine set its clock by the network (NTP).')];
}

async function delivery({ mode, appToken, signingSecret, apiUrl }: SetupOptions): Promise<CheckResult> {
  if (mode === 'http') {
    const todo = 'Copy it from "Basic Information" of your app into SLACK_SIGNING_SECRET.';
    return signingSecret === null
      ? bad('Slack signing secret', 'it is not set, so no request can be trusted', todo)
      : good('Slack signing secret', 'it is set; that it is the right one shows with the first request');
  }
  const todo = 'Make one with the scope connections:write under "Basic Information" of your app: SLACK_APP_TOKEN.';
  if (appToken === null) return bad('Slack app token', 'it is not set', todo);
  try {
    const app = createClient({ token: appToken, apiUrl });
    await call(app, { method: 'apps.connections.open', channel: NOWHERE, args: {}, answer: ANY_ANSWER });
    return good('Slack app token', 'sockets can be opened with it');
  } catch (error) {
    const trouble = chatError(error, { method: 'apps.connections.open', channel: NOWHERE });
    const isOff = slackCode(trouble) === 'forbidden_team' || slackCode(trouble) === 'socket_mode_not_enabled';
    return bad('Slack app token', ...wordsFor(trouble, isOff ? 'Switch Socket Mode on for your app.' : todo));
  }
}

async function channelFinding(
  web: WebClient,
  { id, name }: { readonly id: ChannelId; readonly name: string },
  bot: string,
): Promise<CheckResult> {
  const own = platformChannel(id).channel;
  const what = name.startsWith('#') ? name : `#${name}`;
  const invite = `Invite the app: write "/invite @${bot}" in ${what}.`;
  try {
    const request = { method: 'conversations.info', channel: id, args: { channel: own }, answer: channelSchema };
    const { channel } = await call(web, request);
    if (channel.is_archived === true)
      return bad(what, 'it is archived', 'Unarchive it, or take it out of the configuration.');
    if (channel.is_member !== true && channel.is_im !== true) return bad(what, `@${bot} is not in it`, invite);
    return good(what, `@${bot} is in it`);
  } catch (error) {
    const trouble = chatError(error, { method: 'conversations.info', channel: id });
    const isUnknown = slackCode(trouble) === 'channel_not_found';
    const hidden = `Slack knows no channel ${own} that the app may see`;
    const todo = `${invite} If it was never there, copy the id anew: it stands at the end of "View channel details".`;
    return isUnknown ? bad(what, hidden, todo) : bad(what, ...wordsFor(trouble, null));
  }
}

async function groups(web: WebClient, { userGroups }: SetupOptions): Promise<readonly CheckResult[]> {
  const wanted = Object.keys(userGroups);
  if (wanted.length === 0) return [];
  try {
    const request = { method: 'usergroups.list', channel: NOWHERE, args: {}, answer: groupsSchema };
    const { usergroups } = await call(web, request);
    const known = new Set(usergroups.filter((one) => !one.date_delete).map(({ id }) => id));
    const missing = wanted.filter((id) => !known.has(id));
    if (missing.length === 0) return [good('Slack user groups', 'all that the configuration names are there')];
    const todo = 'Copy the ids anew, or take them out of adapters.slack.userGroups.';
    return [warning('Slack user groups', `Slack does not know ${missing.join(', ')}`, todo)];
  } catch (error) {
    const trouble = chatError(error, { method: 'usergroups.list', channel: NOWHERE });
    return [
      warning('Slack user groups', ...wordsFor(trouble, 'Add the scope usergroups:read and install the app again.')),
    ];
  }
}

/** Notes what Slack's clock says in every answer. */
function noting(dates: string[]): NonNullable<WebClientOptions['fetch']> {
  return async (url, init) => {
    const response = await globalThis.fetch(url, init);
    const date = response.headers.get('date');
    if (date !== null) dates.push(date);
    return response;
  };
}

/** What went wrong and what to do: a network is not mended by a new token. */
function wordsFor(trouble: ChatError, todo: string | null): [string, string | null] {
  if (trouble.fault === 'refused') return [`Slack refused (${slackCode(trouble) ?? 'without a reason'})`, todo];
  if (trouble.fault === 'limited') return ['Slack takes no more questions for now', 'Try again in a minute.'];
  return [trouble.message, 'Look at the network of this machine, then try again.'];
}

function good(what: string, text: string): CheckResult {
  return { what, verdict: 'good', text, todo: null };
}

function warning(what: string, text: string, todo: string | null): CheckResult {
  return { what, verdict: 'warning', text, todo };
}

function bad(what: string, text: string, todo: string | null): CheckResult {
  return { what, verdict: 'bad', text, todo };
}
