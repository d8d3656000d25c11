import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { Outcome } from './events-delivery.ts';
import { publish, takeAway, change } from './events-publish.ts';
import { messageJson, origin } from './events.ts';
import { actionsIn, blocksProblem, isObject, objects, words } from './state-text.ts';
import { blankMessage, channelOf, must, nextId, nextTs } from './state.ts';
import type { Ephemeral, Json, Message, View } from './state.ts';
import { viewJson } from './web-misc.ts';
import type { Slack } from './web.ts';

const RESPONSE_USES = 5;
const RESPONSE_MS = 30 * 60_000;
const LOOK_MS = 10;

/** The result of a command or a button press. */
export type Shown = {
  /** Whether the app acknowledged in time (`ackMs`). If not, Slack shows an error. */
  readonly acked: boolean;
  readonly error: 'dispatch_failed' | 'operation_timeout' | null;
  /** Ephemeral messages to the person. */
  readonly answers: readonly Ephemeral[];
  /** The opened view; `null`: none. */
  readonly view: View | null;
};

/** The result of submitting a view; `errors` by block id when it stays open. */
export type Submitted = {
  readonly acked: boolean;
  readonly errors: Readonly<Record<string, string>> | null;
  readonly payload: Json;
};

/** `waitMs`: how long to wait for the first answer after the acknowledgement. Default: 2,000. */
export type Patience = { readonly waitMs?: number; /** Delivers it twice. */ readonly twice?: boolean };

/** `on`: an earlier version of the message, which the person still sees. */
export type Pressing = Patience & { readonly button: string; readonly on?: Message };

export type Interactions = {
  /** Runs the command "/conch <text>" as a person. */
  command(user: string, channel: string, text: string, patience?: Patience): Promise<Shown>;
  /** Presses a button of a message, by its action id, value or label. */
  press(user: string, channel: string, ts: string, button: string | Pressing): Promise<Shown>;
  /** Returns a copy of a message as it is now. */
  copy(channel: string, ts: string): Message;
  /** Submits an open view, with values by action id. */
  submit(viewId: string, values?: Readonly<Record<string, string>>): Promise<Submitted>;
  openViews(user: string): readonly View[];
  /** Answers one POST to a response_url. */
  respond(id: string, body: Json): { readonly status: number; readonly body: Json };
};

type ResponseUrl = {
  readonly user: string;
  readonly channel: string;
  readonly at: number;
  readonly original: string | null;
  /** Ephemeral answers to the person. */
  readonly said: Ephemeral[];
  uses: number;
};

export function createInteractions(slack: Slack): Interactions {
  const { world, delivery } = slack;
  const urls = new Map<string, ResponseUrl>();

  function begin(user: string, channel: string, original: string | null): Json {
    const id = randomUUID();
    const trigger = `${nextId(world, '')}.${Math.floor(world.now())}`;
    urls.set(id, { user, channel, at: world.now(), original, said: [], uses: 0 });
    slack.triggers.set(trigger, { user, at: world.now(), used: false });
    return { response_url: `${origin.get(world)}/response/${id}`, trigger_id: trigger };
  }

  async function outcome(
    user: string,
    since: { answers: number; views: number; begun: Json },
    sent: Promise<Outcome>,
    patience: Patience,
  ): Promise<Shown> {
    const open = delivery.sockets.open().length > 0;
    const { acked, payload } = await sent;
    const toThis = urls.get(words(since.begun['response_url']).split('/').at(-1) ?? '')?.said ?? [];
    // When a test presses twice at once, each press counts only the answers to its own response_url.
    const answers = () =>
      world.ephemerals
        .slice(since.answers)
        .filter((one) => one.user === user && (one.via !== 'response_url' || toThis.includes(one)));
    const view = () => [...world.views.values()].slice(since.views).find((one) => one.user === user) ?? null;
    if (!acked)
      return { acked, error: open ? 'operation_timeout' : 'dispatch_failed', answers: answers(), view: view() };
    const end = Date.now() + (patience.waitMs ?? 2_000);
    if (isObject(payload) && (typeof payload['text'] === 'string' || Array.isArray(payload['blocks'])))
      return shown(payload);
    while (answers().length === 0 && view() === null && Date.now() < end) await wait(LOOK_MS);
    return { acked, error: null, answers: answers(), view: view() };

    function shown(said: Json): Shown {
      world.ephemerals.push(ephemeral(slack, { user, channel: '', answer: said, via: 'ack' }));
      return { acked, error: null, answers: answers(), view: view() };
    }
  }

  const counts = () => ({ answers: world.ephemerals.length, views: world.views.size });
  const person = (id: string) => {
    const name = must(world.users.get(id), `user ${id}`).name;
    return { id, username: name.toLowerCase(), name, team_id: world.team.id };
  };
  const team = { id: world.team.id, domain: world.team.domain };

  return {
    command(user, id, text, patience = {}) {
      const channel = channelOf(world, id);
      const who = { user_id: user, user_name: person(user).username, channel_id: id, channel_name: channel.name };
      const common = { token: 'verification', team_id: team.id, team_domain: team.domain, api_app_id: world.app.id };
      const begun = begin(user, id, null);
      const payload = { ...common, ...who, command: '/conch', text, is_enterprise_install: 'false', ...begun };
      const since = { ...counts(), begun };
      if (patience.twice === true) void delivery.raw('slash_commands', payload);
      return outcome(user, since, delivery.raw('slash_commands', payload), patience);
    },
    press(user, id, ts, how) {
      const patience: Pressing = typeof how === 'string' ? { button: how } : how;
      const { button } = patience;
      const channel = channelOf(world, id);
      const message = patience.on ?? channel.messages.get(ts);
      const only = world.ephemerals.find((one) => one.user === user && one.ts === ts);
      const blocks = message?.blocks ?? must(only, `message ${ts} in ${id}`).blocks;
      const found = must(
        actionsIn(blocks).find(({ element }) => isNamed(element, button)),
        `button ${button} in ${ts}`,
      );
      const action = { ...found.element, block_id: words(found.block['block_id']) || 'b0', action_ts: nextTs(world) };
      const container = { type: 'message', message_ts: ts, channel_id: id, is_ephemeral: message === undefined };
      const shownMessage = message === undefined ? {} : { message: messageJson(world, message, 'all') };
      const common = {
        type: 'block_actions',
        user: person(user),
        api_app_id: world.app.id,
        token: 'verification',
        team,
        container,
      };
      const where = { channel: { id, name: channel.name }, state: { values: {} }, actions: [action], enterprise: null };
      const begun = begin(user, id, ts);
      const payload = { ...common, ...where, ...shownMessage, ...begun, is_enterprise_install: false };
      const since = { ...counts(), begun };
      if (patience.twice === true) void delivery.raw('interactive', payload);
      return outcome(user, since, delivery.raw('interactive', payload), patience);
    },
    copy: (id, ts) => structuredClone(must(channelOf(world, id).messages.get(ts), `message ${ts} in ${id}`)),
    async submit(viewId, values = {}) {
      const opened = must(world.views.get(viewId), `view ${viewId}`);
      if (!opened.open) throw new Error(`view ${viewId} is closed`);
      const { trigger_id: trigger } = begin(opened.user, '', null);
      const view = { ...viewJson(world, opened), state: { values: valuesOf(opened, values) } };
      const common = {
        type: 'view_submission',
        team,
        user: person(opened.user),
        api_app_id: world.app.id,
        token: 'verification',
      };
      const sent = {
        ...common,
        trigger_id: trigger,
        view,
        response_urls: [],
        is_enterprise_install: false,
        enterprise: null,
      };
      const { acked, payload } = await delivery.raw('interactive', sent);
      const said = isObject(payload) ? payload : {};
      const errors = said['response_action'] === 'errors' && isObject(said['errors']) ? said['errors'] : null;
      if (said['response_action'] === 'update' && isObject(said['view'])) opened.view = said['view'];
      else if (acked && errors === null) opened.open = false;
      return { acked, errors: errors as Record<string, string> | null, payload: said };
    },
    openViews: (user) => [...world.views.values()].filter((one) => one.user === user && one.open),
    respond(id, body) {
      const url = urls.get(id);
      if (url === undefined) return { status: 404, body: { ok: false, error: 'invalid_url' } };
      if (world.now() - url.at > RESPONSE_MS) return { status: 404, body: { ok: false, error: 'expired_url' } };
      if (url.uses >= RESPONSE_USES) return { status: 404, body: { ok: false, error: 'used_url' } };
      url.uses += 1;
      return answered(slack, url, body);
    },
  };
}

function answered(
  slack: Slack,
  { user, channel, original, said }: ResponseUrl,
  body: Json,
): { readonly status: number; readonly body: Json } {
  const { world } = slack;
  const place = channelOf(world, channel);
  const message = original === null ? undefined : place.messages.get(original);
  const problem = blocksProblem(objects(body['blocks']));
  if (problem !== null) return { status: 400, body: { ok: false, error: problem } };
  const content = { text: words(body['text']), blocks: objects(body['blocks']) };
  if (body['delete_original'] === true && message !== undefined) takeAway(slack, place, message);
  else if (content.text === '' && content.blocks.length === 0)
    return { status: 400, body: { ok: false, error: 'no_text' } };
  else if (body['replace_original'] === true && message !== undefined)
    change(slack, place, message, { apply: () => Object.assign(message, content) });
  else if (body['response_type'] === 'in_channel') publish(slack, place, { ...own(slack, place.id), ...content });
  else {
    said.push(ephemeral(slack, { user, channel, answer: body, via: 'response_url' }));
    world.ephemerals.push(...said.slice(-1));
  }
  return { status: 200, body: { ok: true } };
}

function own({ world }: Slack, channel: string): Message {
  const { app } = world;
  return { ...blankMessage(world, channelOf(world, channel)), user: app.botUser, botId: app.botId, appId: app.id };
}

function ephemeral(
  { world }: Slack,
  given: { user: string; channel: string; answer: Json; via: Ephemeral['via'] },
): Ephemeral {
  const { user, channel, via } = given;
  const text = words(given.answer['text']);
  return {
    ts: nextTs(world),
    channel,
    user,
    threadTs: null,
    text,
    blocks: objects(given.answer['blocks']),
    via,
    at: world.now(),
  };
}

function isNamed(element: Json, name: string): boolean {
  const label = isObject(element['text']) ? element['text']['text'] : undefined;
  return element['action_id'] === name || element['value'] === name || label === name;
}

/** Returns Slack's `state.values`: for each input the given value, or its initial one. */
function valuesOf({ view }: View, values: Readonly<Record<string, string>>): Json {
  const inputs = objects(view['blocks']).flatMap((block) =>
    objects([block['element'], block['accessory'], ...objects(block['elements'])]).map((element) => ({
      block,
      element,
    })),
  );
  const all: Record<string, Json> = {};
  for (const { block, element } of inputs) {
    const action = String(element['action_id']);
    const state = { ...all[String(block['block_id'])], [action]: valueOf(element, values[action]) };
    all[String(block['block_id'])] = state;
  }
  return all;
}

function valueOf(element: Json, chosen: string | undefined): Json {
  const type = element['type'];
  if (type === 'multi_static_select') return { type, selected_options: severalOf(element, chosen) };
  if (type !== 'static_select' && type !== 'radio_buttons')
    return { type, value: chosen ?? element['initial_value'] ?? null };
  const initial = isObject(element['initial_option']) ? element['initial_option'] : null;
  const option = objects(element['options']).find(({ value }) => value === chosen);
  if (chosen !== undefined && option === undefined) throw new Error(`the view does not offer ${chosen}`);
  return { type, selected_option: option ?? initial };
}

/** Returns the options chosen in a menu, or its initial ones. `chosen`: their values with commas between. */
function severalOf(element: Json, chosen: string | undefined): readonly Json[] {
  if (chosen === undefined) return objects(element['initial_options']);
  const wanted = chosen === '' ? [] : chosen.split(',');
  const options = objects(element['options']).filter(({ value }) => wanted.includes(words(value)));
  if (options.length !== wanted.length) throw new Error(`the view does not offer ${chosen}`);
  return options;
}
