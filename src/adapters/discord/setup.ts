import { Routes } from 'discord.js';
import type { REST } from 'discord.js';
import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { Clock } from '../../lib/time.ts';
import { bad, good, warning } from '../port.ts';
import type { CheckResult, ChatError } from '../port.ts';
import type { AdapterOptions } from './adapter.ts';
import { createCalls, createClient, channelId, platformChannel, chatError, rejectionOf, whoAmI } from './client.ts';
import type { Calls, DiscordSettings, Self } from './client.ts';
import { OPTIONAL_PERMISSIONS, PERMISSIONS, channelPermissions, neededPermissions } from './channel-membership.ts';
import type { ChannelPermissions, PermissionNeeds } from './channel-membership.ts';

type Channel = { readonly id: ChannelId; readonly name: string; readonly hasCrew: boolean };

/** The token, and the configuration's Discord channels, to check. */
export type SetupOptions = Pick<AdapterOptions, 'token' | 'apiUrl' | 'clock' | 'settings'> & {
  readonly channels: readonly Channel[];
};

/**
 * Checks token, intent, clock and channels against the settings; changes nothing. Discord's refusals become results,
 * not rejections.
 */
export async function checkSetup(options: SetupOptions): Promise<readonly CheckResult[]> {
  const rest = createClient(options);
  const findings: CheckResult[] = [];
  const clock = watchClock(rest, options.clock);
  const self = await checkToken(rest, findings);
  findings.push(...clock());
  if (self === null) return findings;
  const calls = createCalls({ rest, clock: options.clock });
  const crews = options.channels.some(({ hasCrew }) => hasCrew);
  const invite = inviteUrl(self.applicationId, { ...options.settings, crews });
  for (const channel of options.channels) {
    findings.push(...(await checkChannel({ rest, calls, self, invite, settings: options.settings }, channel)));
  }
  return findings;
}

/** Returns the URL that invites the bot with the least permissions that the settings need. */
export function inviteUrl(applicationId: string, settings: PermissionNeeds): string {
  const bits = neededPermissions(settings).reduce((sum, name) => sum | PERMISSIONS[name], 0n);
  const query = new URLSearchParams({
    client_id: applicationId,
    scope: 'bot applications.commands',
    permissions: bits.toString(),
  });
  return `https://discord.com/oauth2/authorize?${query.toString()}`;
}

/** Returns the application id inside a bot token; `null` when the token holds none. */
export function applicationIdOf(token: string): string | null {
  const [first = '', ...rest] = token.split('.');
  const id = Buffer.from(first, 'base64').toString('latin1');
  return rest.length === 2 && /^\d{17,20}$/.test(id) ? id : null;
}

const PORTAL = 'https://discord.com/developers/applications';
/** Flags of the Message Content intent: verified bots have the first, small bots the second. */
const MESSAGE_CONTENT = (1 << 18) | (1 << 19);
const SKEW_MS = 5_000;
const WEBHOOKS_A_CHANNEL = 15;
/** Channel types that the check accepts: text, announcements, and the three kinds of threads. */
const TEXT_CHANNELS: ReadonlySet<number> = new Set([0, 5, 10, 11, 12]);

const webhooksSchema = z.array(z.object({ application_id: z.string().nullish() }));

async function checkToken(rest: REST, findings: CheckResult[]): Promise<Self | null> {
  const what = 'Discord token';
  try {
    const { self, name, flags } = await whoAmI(rest);
    findings.push(good(what, `Discord knows the bot as ${name}`), intent(flags));
    return self;
  } catch (error) {
    const failed = setupError(error);
    if (rejectionOf(failed)?.status === 401) {
      const todo = `Open ${PORTAL}, your application, "Bot", "Reset Token", and put the new one into DISCORD_TOKEN.`;
      findings.push(bad(what, 'Discord rejects the bot token', todo));
    } else findings.push(bad('Discord', failed.message, 'Check the network, and https://discordstatus.com.'));
    return null;
  }
}

function intent(flags: number): CheckResult {
  const what = 'Message Content intent';
  if ((flags & MESSAGE_CONTENT) !== 0) return good(what, 'it is on');
  const todo = `Open ${PORTAL}, your application, "Bot", and switch on "Message Content Intent".`;
  return bad(what, 'it is off: the bot would receive messages without text', todo);
}

function watchClock(rest: REST, clock: Clock): () => readonly CheckResult[] {
  let skewMs: number | null = null;
  rest.on('response', (_request, { headers }) => {
    const at = Date.parse(headers.get('date') ?? '');
    if (!Number.isNaN(at)) skewMs = clock.now() - at;
  });
  return () => {
    if (skewMs === null) return [];
    const seconds = Math.round(Math.abs(skewMs) / 1_000);
    const what = 'Clock';
    if (Math.abs(skewMs) <= SKEW_MS) return [good(what, "it matches Discord's clock")];
    const text = `it is ${seconds} seconds ${skewMs > 0 ? 'ahead of' : 'behind'} Discord's`;
    const todo = 'Synchronize the clock of this machine (NTP): a wrong clock makes the remaining times on cards wrong.';
    return [warning(what, text, todo)];
  };
}

type At = {
  readonly rest: REST;
  readonly calls: Calls;
  readonly self: Self;
  readonly invite: string;
  readonly settings: DiscordSettings;
};

async function checkChannel(
  at: At,
  { id, name: channelName, hasCrew: crews }: Channel,
): Promise<readonly CheckResult[]> {
  const snowflake = platformChannel(id);
  const label = `#${channelName}`;
  try {
    const channel = await channelPermissions(at, snowflake, { ...at.settings, crews });
    const what = `#${channel.name ?? channelName}`;
    if (!TEXT_CHANNELS.has(channel.type)) {
      return [bad(what, 'it is not a text channel', 'Use the id of a text channel or a thread.')];
    }
    const hasWebhooks = at.settings.webhooks && !channel.missing.includes('Manage Webhooks');
    return [permissions(at, what, channel), ...(hasWebhooks ? await webhooks(at, what, snowflake) : [])];
  } catch (error) {
    return [unreadableChannel(at, label, setupError(error))];
  }
}

function unreadableChannel({ invite }: At, what: string, error: ChatError): CheckResult {
  const status = rejectionOf(error)?.status;
  if (status === 403) {
    const todo = `Give the bot "View Channels" in the channel's settings, or invite it to the server: ${invite}`;
    return bad(what, 'the bot cannot see the channel', todo);
  }
  if (status === 404 || status === 400) {
    const todo = 'Copy the id again: right-click the channel, "Copy Channel ID" (with Developer Mode on).';
    return bad(what, 'Discord has no channel with this id', todo);
  }
  return bad(what, error.message, 'Try again later.');
}

function permissions({ invite }: At, what: string, { missing }: ChannelPermissions): CheckResult {
  const title = `${what}: permissions`;
  if (missing.length === 0) return good(title, 'the bot has all permissions it needs');
  const names = missing.map((name) => `"${name}"`).join(', ');
  const text = `the bot lacks ${names}`;
  const todo = `Open the channel's settings, "Permissions", the bot's role, and allow ${names}; or invite the bot again: ${invite}`;
  const verdict = missing.every((name) => OPTIONAL_PERMISSIONS.has(name)) ? 'warning' : 'bad';
  return { what: title, verdict, text, todo };
}

async function webhooks({ rest, self }: At, what: string, snowflake: string): Promise<readonly CheckResult[]> {
  const title = `${what}: webhooks`;
  try {
    const listed = webhooksSchema.parse(await rest.get(Routes.channelWebhooks(snowflake)));
    const hasOwn = listed.some((each) => each.application_id === self.applicationId);
    const count = `${listed.length} of ${WEBHOOKS_A_CHANNEL} are used`;
    if (hasOwn || listed.length < WEBHOOKS_A_CHANNEL) return [good(title, count)];
    const todo =
      'Delete one under the channel\'s settings, "Integrations"; until then agents post as the bot, with their names in front.';
    return [warning(title, count, todo)];
  } catch (error) {
    // Discord answers 404 for a thread: webhooks belong to its channel.
    return rejectionOf(setupError(error))?.status === 404
      ? []
      : [bad(title, setupError(error).message, 'Try again later.')];
  }
}

function setupError(error: unknown): ChatError {
  return chatError(error, { method: 'check the setup', channel: channelId('0') });
}
