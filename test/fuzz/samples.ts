import { randomUUID } from 'node:crypto';
import type { Random } from '../kill/random.ts';
import { oddText } from './bytes.ts';
import type { Json } from './json.ts';
import type { Stage } from './stage.ts';

/** Command lines that leave the agents their seats. */
export const COMMANDS: readonly string[] = [
  ['/queue', '/floor status', '/why', '/agents', '/stop', '/floor pause', '/floor resume', '/floor skip', '/help'],
  ['!stop', '/history 5', '/history 99999999999', '/floor mode inject', '/floor mode queue', '/why 1', '/floor order'],
  ['/allow once', '/reject', '/floor give pm', '/floor reorder pm dev', '/sessions', '/budget', '/floor extend 1e9'],
].flat();

/** A command line, now and then one with something odd in it. */
export function commandIn(random: Random): string {
  const line = random.pick(COMMANDS);
  return random.chance(0.3) ? `${line} ${oddText(random)}` : line;
}

/** What pages send. */
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

/** What callers of tools send. */
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

/** What Slack posts: as JSON, as a form with one field "payload", or as a form of several fields. */
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

/** Samples with the names of this stage in them; keys and times are new each time. */
export function filled(samples: readonly Json[], { channel, slack }: Stage): readonly Json[] {
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
    $ts: `${(Date.now() / 1_000).toFixed(3)}${String(performance.now()).slice(-3).replace('.', '0')}`,
  };
  const text = JSON.stringify(samples).replaceAll(/\$[a-z]+/g, (name) => names[name] ?? name);
  return JSON.parse(text) as readonly Json[];
}
