import { listedJson } from './events.ts';
import { emit } from './events-publish.ts';
import { replies, timeline } from './state.ts';
import type { Channel, Json, Message, World } from './state.ts';
import { Refusal, flag, joinedChannel, knownChannel, needScope, needed, page, text } from './web.ts';
import type { Call, Method, Slack } from './web.ts';

const HISTORY_SCOPES = { channel: 'channels:history', group: 'groups:history', im: 'im:history' } as const;
const READ_SCOPES = { channel: 'channels:read', group: 'groups:read', im: 'im:read' } as const;
const KINDS: Readonly<Record<string, Channel['kind']>> = {
  public_channel: 'channel',
  private_channel: 'group',
  im: 'im',
};

export const conversationMethods: Readonly<Record<string, Method>> = {
  'conversations.history': { scopes: [], run: history },
  'conversations.replies': { scopes: [], run: thread },
  'conversations.info': { scopes: [], run: (call) => ({ channel: channelJson(call.slack.world, readable(call)) }) },
  'conversations.list': { scopes: ['channels:read'], run: listed },
  'conversations.members': { scopes: [], run: members },
  'conversations.join': { scopes: ['channels:join'], run: join },
};

export function channelJson(world: World, channel: Channel): Json {
  return {
    id: channel.id,
    name: channel.name,
    name_normalized: channel.name,
    is_channel: channel.kind === 'channel',
    is_group: channel.kind === 'group',
    is_im: channel.kind === 'im',
    is_private: channel.kind !== 'channel',
    is_archived: channel.archived,
    is_member: channel.members.has(world.app.botUser),
    num_members: channel.members.size,
    created: 1,
  };
}

function history(call: Call): Json {
  const { slack, args } = call;
  limitHistory(slack);
  const channel = readableHistory(call);
  const wanted = stretch(timeline(channel), args).toReversed();
  const { items, next } = page(args, wanted, 100);
  const all = flag(args, 'include_all_metadata');
  const messages = items.map((message) => listedJson(slack.world, message, { channel, all }));
  return { messages, has_more: next !== '', pin_count: 0, ...metadata(next) };
}

function thread(call: Call): Json {
  const { slack, args } = call;
  limitHistory(slack);
  const channel = readableHistory(call);
  const ts = needed(args, 'ts');
  const root = channel.messages.get(ts);
  if (root === undefined) throw new Refusal('thread_not_found');
  const { items, next } = page(args, stretch(replies(channel, ts), args), 1_000);
  const all = flag(args, 'include_all_metadata');
  const messages = [root, ...items].map((message) => listedJson(slack.world, message, { channel, all }));
  return { messages, has_more: next !== '', ...metadata(next) };
}

function listed(call: Call): Json {
  const { slack, args } = call;
  const kinds = (text(args, 'types') ?? 'public_channel').split(',').map((type) => KINDS[type.trim()]);
  for (const kind of kinds) if (kind !== undefined) needScope(call, READ_SCOPES[kind]);
  const all = [...slack.world.channels.values()].filter(
    ({ kind, members: inIt, archived }) =>
      kinds.includes(kind) &&
      (kind === 'channel' || inIt.has(slack.world.app.botUser)) &&
      !(flag(args, 'exclude_archived') && archived),
  );
  const { items, next } = page(args, all, 100);
  return { channels: items.map((channel) => channelJson(slack.world, channel)), ...metadata(next) };
}

function members(call: Call): Json {
  const { items, next } = page(call.args, [...readable(call).members], 100);
  return { members: items, ...metadata(next) };
}

function join(call: Call): Json {
  const { world } = call.slack;
  const channel = knownChannel(call);
  if (channel.kind !== 'channel') throw new Refusal('method_not_supported_for_channel_type');
  if (channel.archived) throw new Refusal('is_archived');
  if (!channel.members.has(world.app.botUser)) {
    channel.members.add(world.app.botUser);
    emit(call.slack, {
      type: 'member_joined_channel',
      user: world.app.botUser,
      channel: channel.id,
      channel_type: 'C',
      team: world.team.id,
    });
  }
  return { channel: channelJson(world, channel) };
}

function readable(call: Call): Channel {
  const channel = knownChannel(call);
  needScope(call, READ_SCOPES[channel.kind]);
  return channel;
}

function readableHistory(call: Call): Channel {
  const channel = knownChannel(call);
  needScope(call, HISTORY_SCOPES[channel.kind]);
  return joinedChannel(call);
}

/** Returns the messages between `oldest` and `latest`, without these two unless `inclusive`. */
function stretch(all: readonly Message[], args: Json): Message[] {
  const oldest = text(args, 'oldest');
  const latest = text(args, 'latest');
  const inclusive = flag(args, 'inclusive');
  for (const bound of [oldest, latest])
    if (bound !== null && !/^\d+(\.\d+)?$/.test(bound)) throw new Refusal('invalid_ts_oldest');
  return all.filter(({ ts }) => {
    if (oldest !== null && (micros(ts) < micros(oldest) || (!inclusive && micros(ts) === micros(oldest)))) return false;
    return latest === null || micros(ts) < micros(latest) || (inclusive && micros(ts) === micros(latest));
  });
}

function micros(ts: string): bigint {
  const [seconds = '0', rest = ''] = ts.split('.');
  return BigInt(seconds) * 1_000_000n + BigInt(rest.padEnd(6, '0').slice(0, 6));
}

function limitHistory({ log, options, world }: Slack): void {
  const most = options.historyPerMinute;
  if (most === null) return;
  const since = world.now() - 60_000;
  const recent = log.filter(({ method, at, outcome }) => isHistory(method) && at > since && outcome === 'ok');
  const first = recent[0];
  if (recent.length < most || first === undefined) return;
  throw new Refusal('ratelimited', { retry_after: Math.max(1, Math.ceil((first.at - since) / 1_000)) });
}

function isHistory(method: string): boolean {
  return method === 'conversations.history' || method === 'conversations.replies';
}

function metadata(next: string): Json {
  return { response_metadata: { next_cursor: next } };
}
