import { randomUUID } from 'node:crypto';
import type { Random } from '../kill/random.ts';
import { oddText } from './bytes.ts';
import type { Json } from './json.ts';
import type { Stage } from './stage.ts';

/** Command lines that remove no agent from its seat. */
export const COMMANDS: readonly string[] = [
  ['/queue', '/floor status', '/why', '/agents', '/stop', '/floor pause', '/floor resume', '/floor skip', '/help'],
  ['!stop', '/history 5', '/history 99999999999', '/floor mode inject', '/floor mode queue', '/why 1', '/floor order'],
  ['/allow once', '/reject', '/floor give pm', '/floor reorder pm dev', '/sessions', '/budget', '/floor extend 1e9'],
].flat();

/** Returns a command line, sometimes with an odd text at its end. */
export function commandIn(random: Random): string {
  const line = random.pick(COMMANDS);
  return random.chance(0.3) ? `${line} ${oddText(random)}` : line;
}

/** Samples of the page's frames. */
export const PAGE_FRAMES: readonly Json[] = [
  { type: 'open', channel: '$channel' },
  { type: 'open', channel: null },
  { type: 'say', channel: '$channel', key: '$key', text: 'pm, dev: hello' },
  { type: 'say', channel: '$channel', key: '$key', text: 'lines: hello', replyTo: '1' },
  { type: 'edit', channel: '$channel', key: '$key', id: '1', text: 'hello again' },
  { type: 'delete', channel: '$channel', key: '$key', id: '2' },
  { type: 'command', channel: '$channel', key: '$key', line: '/queue', epoch: 1 },
  { type: 'history', channel: '$channel', before: 5 },
  { type: 'history', channel: '$slack', after: 5 },
  { type: 'watch', channel: '$channel', on: true },
  { type: 'journal', channel: '$channel', before: 10 },
];

const call = (name: string, input: Json): Json => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name, arguments: input },
});

/** Samples of tool callers' messages. */
export const TOOL_CALLS: readonly Json[] = [
  {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'a', version: '1' } },
  },
  { jsonrpc: '2.0', method: 'notifications/initialized' },
  { jsonrpc: '2.0', id: 'a', method: 'tools/list', params: { cursor: 'x' } },
  { jsonrpc: '2.0', id: 2, method: 'ping' },
  { jsonrpc: '2.0', id: 3, method: 'resources/read', params: { uri: 'file:///etc/passwd' } },
  { jsonrpc: '2.0', id: 1, result: {} },
  call('say', { text: 'Hello' }),
  call('turn_complete', { hand_to: 'pm' }),
  call('pass', {}),
  call('wait_for', { question: 'Which?' }),
  call('hand_to', { agent: 'pm' }),
];

const inner = (event: { readonly [key: string]: Json }): Json => ({
  form: 'json',
  value: {
    type: 'event_callback',
    event_id: '$key',
    api_app_id: '$app',
    team_id: '$team',
    event: { channel: '$room', channel_type: 'channel', event_ts: '$ts', ...event },
  },
});
const person = { type: 'message', user: '$ann', ts: '$ts', text: 'pm: hello <@$bot> <#C1|x> <!here>' };

/** Samples of Slack's requests: as JSON, as a form with one field "payload", or as a form of several fields. */
export const SLACK_BODIES: readonly Json[] = [
  { form: 'json', value: { type: 'url_verification', challenge: 'x' } },
  { form: 'json', value: { type: 'app_rate_limited', minute_rate_limited: 1 } },
  inner(person),
  inner({ ...person, thread_ts: '1.000001', blocks: [{ type: 'rich_text', elements: [] }], files: [{ id: 'F1' }] }),
  inner({ ...person, type: 'app_mention' }),
  inner({ type: 'message', subtype: 'message_changed', message: person, previous_message: person, ts: '$ts' }),
  inner({ type: 'message', subtype: 'message_deleted', previous_message: person, deleted_ts: '$ts', ts: '$ts' }),
  inner({ type: 'message', subtype: 'bot_message', bot_id: 'B1', ts: '$ts', text: 'beep' }),
  inner({ type: 'member_joined_channel', user: '$bot' }),
  inner({ type: 'channel_left' }),
  {
    form: 'payload',
    value: {
      type: 'block_actions',
      user: { id: '$ann' },
      trigger_id: '$key',
      response_url: 'http://127.0.0.1:1/response',
      container: { channel_id: '$room', message_ts: '$ts' },
      actions: [{ action_id: 'conch:1', value: '{"line":"/queue","epoch":1}' }],
    },
  },
  {
    form: 'payload',
    value: {
      type: 'view_submission',
      user: { id: '$ann' },
      view: { callback_id: 'conch:settings', private_metadata: '{}', state: { values: { a: { b: { value: '1' } } } } },
    },
  },
  {
    form: 'fields',
    value: {
      command: '/conch',
      text: 'floor status',
      user_id: '$ann',
      channel_id: '$room',
      trigger_id: '$key',
      response_url: 'http://127.0.0.1:1/response',
    },
  },
];

const dispatch = (t: string, d: Json): Json => ({ op: 0, t, s: 5, d });
const author = { id: '1', username: 'ann', discriminator: '0', avatar: null, bot: false };
const posted = {
  id: '$snowflake',
  channel_id: '$hall',
  guild_id: '$guild',
  author,
  member: { roles: [], nick: null },
  content: 'pm: hello <@1> <@&2> <#3>',
  timestamp: '2026-01-01T00:00:00.000Z',
  edited_timestamp: null,
  type: 0,
  mentions: [author],
  mention_roles: [],
  attachments: [{ id: '9', filename: 'a.txt', size: 1, url: 'http://127.0.0.1:1/a' }],
  message_reference: { message_id: '1', channel_id: '$hall' },
};

/** Samples of events that Discord's gateway sends about a server. */
export const DISPATCHES: readonly Json[] = [
  dispatch('MESSAGE_CREATE', posted),
  dispatch('MESSAGE_UPDATE', { ...posted, edited_timestamp: '2026-01-01T00:00:01.000Z' }),
  dispatch('MESSAGE_DELETE', { id: '1', channel_id: '$hall', guild_id: '$guild' }),
  dispatch('MESSAGE_DELETE_BULK', { ids: ['1', '2'], channel_id: '$hall', guild_id: '$guild' }),
  dispatch('CHANNEL_UPDATE', { id: '$hall', type: 0, name: 'general', permission_overwrites: [] }),
  dispatch('THREAD_CREATE', { id: '77', parent_id: '$hall', guild_id: '$guild', type: 11, name: 'a' }),
  dispatch('GUILD_ROLE_CREATE', { guild_id: '$guild', role: { id: '5', name: 'pm', permissions: '0' } }),
  dispatch('GUILD_MEMBER_UPDATE', { guild_id: '$guild', user: author, roles: ['5'] }),
  dispatch('INTERACTION_CREATE', {
    id: '$snowflake',
    application_id: '1',
    token: 'token',
    type: 2,
    channel_id: '$hall',
    guild_id: '$guild',
    member: { user: author, roles: [], permissions: '0' },
    data: { id: '1', name: 'floor', type: 1, options: [{ name: 'status', type: 1, options: [] }] },
  }),
  dispatch('INTERACTION_CREATE', {
    id: '$snowflake',
    token: 'token',
    type: 3,
    channel_id: '$hall',
    member: { user: author, roles: [] },
    data: { custom_id: 'conch:/queue', component_type: 2 },
  }),
  dispatch('GUILD_CREATE', { id: '$guild', unavailable: false, channels: [], threads: [], roles: [], members: [] }),
];

/** Samples about the gateway's connection, without those that end it: a disconnected client hears nothing else. */
export const GATEWAY_FRAMES: readonly Json[] = [
  { op: 1, d: null },
  { op: 10, d: { heartbeat_interval: 41_250 } },
  { op: 11, d: null },
  dispatch('READY', { session_id: 'a', resume_gateway_url: 'ws://127.0.0.1:1', user: author, guilds: [] }),
  dispatch('RESUMED', {}),
];

/** Samples with the names of this stage. Keys and times are new each time. */
export function filled(samples: readonly Json[], { channel, slack, discord }: Stage): readonly Json[] {
  const { ids } = slack;
  const names: Readonly<Record<string, string>> = {
    $channel: channel,
    $slack: `slack:${ids.channel}`,
    $key: randomUUID(),
    $app: ids.app,
    $team: ids.team,
    $room: ids.channel,
    $ann: ids.ann,
    $bot: ids.botUser,
    $hall: discord.channel,
    $guild: discord.guild,
    $snowflake: String(BigInt(Date.now()) << 22n),
    $ts: `${(Date.now() / 1_000).toFixed(3)}${String(performance.now()).slice(-3).replace('.', '0')}`,
  };
  const text = JSON.stringify(samples).replaceAll(/\$[a-z]+/g, (name) => names[name] ?? name);
  return JSON.parse(text) as readonly Json[];
}
