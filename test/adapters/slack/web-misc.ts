import { messageJson, reactionsJson } from './events.ts';
import { nextId, placeKey } from './state.ts';
import type { Json, Message, User, View, World } from './state.ts';
import { blocksProblem, isObject } from './state-text.ts';
import { Refusal, joinedChannel, list, needed, page, text } from './web.ts';
import type { Call, Method } from './web.ts';

/** How long a trigger can open a view, in milliseconds. */
const TRIGGER_MS = 3_000;
const TITLE_LENGTH = 24;
const SESSION_STATUSES = new Set(['active', 'processing', 'suspended', 'closed']);
/** The reactions of this workspace. Slack refuses other names. */
const EMOJI = new Set([
  ...'+1 -1 thumbsup eyes eye zap white_check_mark heavy_check_mark x warning no_entry_sign'.split(' '),
  ...'arrow_right_hook leftwards_arrow_with_hook hourglass hourglass_flowing_sand stopwatch black_square_for_stop speech_balloon'.split(
    ' ',
  ),
  ...'mailbox_with_mail robot_face tada question double_vertical_bar octagonal_sign shell zipper_mouth_face'.split(' '),
  ...'left_right_arrow arrows_counterclockwise no_entry clock1 ok_hand pause_button no_bell mute ear'.split(' '),
]);

export const miscMethods: Readonly<Record<string, Method>> = {
  'auth.test': { scopes: [], run: authTest },
  'apps.connections.open': { scopes: ['connections:write'], token: 'app', run: openConnection },
  'reactions.add': { scopes: ['reactions:write'], run: (call) => react(call, true) },
  'reactions.remove': { scopes: ['reactions:write'], run: (call) => react(call, false) },
  'reactions.get': { scopes: ['reactions:read'], run: reactions },
  'users.info': { scopes: ['users:read'], run: (call) => ({ user: userJson(call.slack.world, userOf(call)) }) },
  'users.list': { scopes: ['users:read'], run: users },
  'usergroups.list': { scopes: ['usergroups:read'], run: groups },
  'usergroups.users.list': { scopes: ['usergroups:read'], run: groupUsers },
  'bots.info': { scopes: ['users:read'], run: botInfo },
  'views.open': { scopes: [], run: openView },
  'views.update': { scopes: [], run: updateView },
  'assistant.threads.setStatus': { scopes: ['chat:write'], run: setStatus },
  'agents.sessions.setStatus': { scopes: ['chat:write'], run: setSession },
};

function authTest({ slack: { world } }: Call): Json {
  const { team, app } = world;
  const who = { user: app.name.toLowerCase(), user_id: app.botUser, bot_id: app.botId, is_enterprise_install: false };
  return { url: `https://${team.domain}.slack.example/`, team: team.name, team_id: team.id, ...who };
}

function openConnection({ slack: { world, delivery } }: Call): Json {
  if (!world.app.socketMode) throw new Refusal('forbidden_team');
  return { url: delivery.sockets.ticketUrl() };
}

function react(call: Call, add: boolean): Json {
  const { message } = reacted(call);
  const { botUser } = call.slack.world.app;
  const name = needed(call.args, 'name');
  if (!EMOJI.has(name)) throw new Refusal('invalid_name');
  const by = message.reactions.get(name) ?? [];
  if (by.includes(botUser) === add) throw new Refusal(add ? 'already_reacted' : 'no_reaction');
  const left = add ? [...by, botUser] : by.filter((user) => user !== botUser);
  if (left.length > 0) message.reactions.set(name, left);
  else message.reactions.delete(name);
  return {};
}

function reactions(call: Call): Json {
  const { message } = reacted(call);
  const shown = messageJson(call.slack.world, message);
  return { type: 'message', channel: message.channel, message: { ...shown, reactions: reactionsJson(message) } };
}

function reacted(call: Call): { readonly message: Message } {
  const channel = joinedChannel(call);
  if (channel.archived) throw new Refusal('is_archived');
  const message = channel.messages.get(needed(call.args, 'timestamp'));
  if (message === undefined) throw new Refusal('message_not_found');
  return { message };
}

function userOf({ slack: { world }, args }: Call): User {
  const user = world.users.get(needed(args, 'user'));
  if (user === undefined) throw new Refusal('user_not_found');
  return user;
}

function users({ slack: { world }, args }: Call): Json {
  const { items, next } = page(args, [...world.users.values()], 1_000);
  return { members: items.map((user) => userJson(world, user)), response_metadata: { next_cursor: next } };
}

function userJson(world: World, { id, name, bot, deleted }: User): Json {
  const profile = { real_name: name, display_name: name, display_name_normalized: name };
  const part = bot ? { api_app_id: world.app.id, bot_id: world.app.botId } : {};
  const common = {
    id,
    team_id: world.team.id,
    name: name.toLowerCase().replaceAll(' ', '.'),
    real_name: name,
    deleted,
  };
  return { ...common, is_bot: bot, is_app_user: false, profile: { ...profile, ...part } };
}

function groups({ slack: { world }, args }: Call): Json {
  const withUsers = args['include_users'] === true || args['include_users'] === 'true';
  const all = [...world.groups.values()].map(({ id, handle, users: inIt }) => {
    const group: Json = { id, team_id: world.team.id, is_usergroup: true, name: handle, handle, date_delete: 0 };
    group['user_count'] = inIt.length;
    if (withUsers) group['users'] = inIt;
    return group;
  });
  return { usergroups: all };
}

function groupUsers({ slack: { world }, args }: Call): Json {
  const group = world.groups.get(needed(args, 'usergroup'));
  if (group === undefined) throw new Refusal('no_such_subteam');
  return { users: [...group.users] };
}

function botInfo({ slack: { world }, args }: Call): Json {
  const id = needed(args, 'bot');
  if (id === world.app.botId)
    return { bot: { id, deleted: false, name: world.app.name, app_id: world.app.id, user_id: world.app.botUser } };
  const foreign = [...world.channels.values()]
    .flatMap(({ messages }) => [...messages.values()])
    .find(({ botId }) => botId === id);
  if (foreign === undefined) throw new Refusal('bot_not_found');
  return { bot: { id, deleted: false, name: foreign.username, app_id: foreign.appId } };
}

function openView({ slack, args }: Call): Json {
  const trigger = slack.triggers.get(needed(args, 'trigger_id'));
  if (trigger === undefined) throw new Refusal('invalid_trigger_id');
  if (trigger.used) throw new Refusal('exchanged_trigger_id');
  if (slack.world.now() - trigger.at > TRIGGER_MS) throw new Refusal('expired_trigger_id');
  trigger.used = true;
  const opened: View = {
    id: nextId(slack.world, 'V'),
    hash: hash(slack.world),
    user: trigger.user,
    view: viewOf(args),
    open: true,
  };
  slack.world.views.set(opened.id, opened);
  return { view: viewJson(slack.world, opened) };
}

function updateView({ slack: { world }, args }: Call): Json {
  const id = text(args, 'view_id');
  const external = text(args, 'external_id');
  const opened = [...world.views.values()].find(
    (one) => one.id === id || (external !== null && one.view['external_id'] === external),
  );
  if (opened === undefined || !opened.open) throw new Refusal('not_found');
  const given = text(args, 'hash');
  if (given !== null && given !== opened.hash) throw new Refusal('hash_conflict');
  opened.view = viewOf(args);
  opened.hash = hash(world);
  return { view: viewJson(world, opened) };
}

/** Returns a view as the app sees it. */
export function viewJson(world: World, { id, hash: now, view }: View): Json {
  const common = {
    callback_id: '',
    private_metadata: '',
    clear_on_close: false,
    notify_on_close: false,
    external_id: '',
  };
  const ids = {
    id,
    team_id: world.team.id,
    hash: now,
    root_view_id: id,
    previous_view_id: null,
    bot_id: world.app.botId,
  };
  return { ...common, ...view, ...ids, app_id: world.app.id, state: { values: {} } };
}

function viewOf(args: Json): Json {
  const { view } = args;
  if (!isObject(view) || (view['type'] !== 'modal' && view['type'] !== 'home')) throw new Refusal('invalid_arguments');
  const title = isObject(view['title']) ? String(view['title']['text']) : '';
  const buttons = ['submit', 'close'].map((key) => (isObject(view[key]) ? String(view[key]['text']) : ''));
  if (title === '' || [title, ...buttons].some((words) => words.length > TITLE_LENGTH))
    throw new Refusal('invalid_arguments');
  const blocks = list(view, 'blocks');
  const problem = blocksProblem(blocks);
  if (problem !== null)
    throw new Refusal('invalid_arguments', { response_metadata: { messages: [`[ERROR] ${problem}`] } });
  if (blocks.some(({ type }) => type === 'input') && !isObject(view['submit'])) throw new Refusal('invalid_arguments');
  const blocksWithIds = blocks.map((block, index) => Object.assign({ block_id: `b${index}` }, block));
  return { ...view, blocks: blocksWithIds };
}

function setStatus(call: Call): Json {
  const channel = joinedChannel(call, 'channel_id');
  const key = placeKey(channel.id, text(call.args, 'thread_ts'));
  const status = call.args['status'];
  if (typeof status !== 'string') throw new Refusal('invalid_arguments');
  if (status === '') call.slack.world.statuses.delete(key);
  else call.slack.world.statuses.set(key, { ...call.args });
  return {};
}

function setSession(call: Call): Json {
  const channel = joinedChannel(call, 'channel_id');
  const thread = text(call.args, 'thread_ts');
  if (thread === null) throw new Refusal('invalid_arguments');
  if (!SESSION_STATUSES.has(needed(call.args, 'status'))) throw new Refusal('invalid_arguments');
  call.slack.world.sessions.set(placeKey(channel.id, thread), { ...call.args });
  return { agent_status: call.args['status'] };
}

function hash(world: World): string {
  return `${world.now()}.${nextId(world, 'H')}`;
}
