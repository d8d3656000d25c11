import { z } from 'zod';
import { INTERRUPT_MODES, MODES, ORDERS, POLICIES } from '../../turns/floor/policies.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { FloorView } from '../../turns/view.ts';
import { forFloor } from '../delivery/card.ts';
import { reasonOf } from '../delivery/connect-retry.ts';
import { parsedJson } from '../delivery/inbound.ts';
import { SETTINGS_ACTION, inSlackWords, textObject, readButtonValue } from './content.ts';
import {
  ERROR_LIMIT,
  NO_FLOOR,
  SETTINGS,
  answer,
  command,
  lineOf,
  obey,
  commandRefusal,
  toldInTime,
} from './commands.ts';
import type { Ack, Recipient, CommandPorts } from './commands.ts';
import { inputBlock } from './form-view.ts';
import { openPressed, takeForm } from './question-forms.ts';
import { floorAt } from './parse-message.ts';
import type { Spot } from './parse-message.ts';
import { platformChannel } from './client.ts';
import { defined } from '../../lib/defined.ts';

/** What clicks, forms and `/conch` are answered with. */
export type Interactions = {
  /** Does what a payload asks, if it is one of these; `false` for any other. Rejects only when Slack had better send it again. */
  take(body: unknown, ack: Ack): Promise<boolean>;
};

const clickSchema = z.looseObject({
  type: z.literal('block_actions'),
  user: z.looseObject({ id: z.string().min(1) }),
  trigger_id: z.string().min(1),
  response_url: z.url().nullish().catch(null),
  channel: z.looseObject({ id: z.string() }).nullish(),
  container: z
    .looseObject({
      channel_id: z.string().nullish(),
      message_ts: z.string().nullish(),
      thread_ts: z.string().nullish(),
    })
    .nullish(),
  message: z.looseObject({ ts: z.string().nullish(), thread_ts: z.string().nullish() }).nullish().catch(null),
  actions: z
    .array(
      z.looseObject({
        action_id: z.string(),
        value: z.string().nullish(),
        selected_option: z.looseObject({ value: z.string() }).nullish(),
      }),
    )
    .min(1),
});
type Click = z.output<typeof clickSchema>;

/** Answers everything that people do beside writing. */
export function createInteractions(ports: CommandPorts): Interactions {
  return {
    async take(body, ack) {
      const asked = slashSchema.safeParse(body);
      if (asked.success) {
        await slash(ports, asked.data, ack);
        return true;
      }
      const click = clickSchema.safeParse(body);
      if (click.success) {
        await clicked(ports, click.data, ack);
        return true;
      }
      const submission = submissionSchema.safeParse(body);
      if (submission.success) await submitted(ports, submission.data, ack);
      return submission.success || (await takeForm(ports, body, ack));
    },
  };
}

async function clicked(ports: CommandPorts, click: Click, ack: Ack): Promise<void> {
  await ack();
  const [action] = click.actions;
  if (action === undefined || !action.action_id.startsWith('conch:')) return;
  if (!ports.deduplicator.claim(`trigger:${click.trigger_id}`)) return;
  const at = spotOf(click);
  if (at === null) return;
  const asker: Recipient = { user: click.user.id, at, responseUrl: click.response_url ?? null };
  const floor = floorAt(ports.queries, at);
  const meant = floor === null ? null : readButtonValue(action.value ?? action.selected_option?.value ?? '');
  if (floor !== null && action.action_id === SETTINGS_ACTION) {
    return settings(ports, { asker, floor, trigger: click.trigger_id });
  }
  if (floor === null || meant === null) return answer(ports, asker, OLD_BUTTON);
  const pressed = { asker, floor, trigger: click.trigger_id, meant };
  const { line, drawnFor, opens } = meant;
  const refusal = opens === undefined ? null : await commandRefusal(ports, click.user.id, { floor, line, drawnFor });
  if (refusal !== null) return answer(ports, asker, refusal);
  if (await openPressed(ports, pressed)) return;
  await command(ports, asker, { floor, line, drawnFor });
}

/** Opens the settings for whoever may change them; whoever may not is told so before. */
async function settings(ports: CommandPorts, asked: Parameters<typeof openSettings>[1]): Promise<void> {
  const { asker, floor } = asked;
  const refusal = await commandRefusal(ports, asker.user, { floor, line: '/floor mode inject' });
  await (refusal === null ? openSettings(ports, asked) : answer(ports, asker, refusal));
}

const OLD_BUTTON = { ok: false, text: 'This button is no longer in use. Use the newest card, or `/conch help`.' };

function spotOf(click: Click): Spot | null {
  const channel = click.container?.channel_id ?? click.channel?.id;
  if (channel === undefined) return null;
  const own = click.container?.message_ts ?? click.message?.ts;
  const thread = click.container?.thread_ts ?? click.message?.thread_ts ?? null;
  return { channel, thread: thread === own ? null : thread, broadcast: false };
}

/** What `/conch` sends. */
const slashSchema = z.looseObject({
  command: z.string(),
  text: z.string().default(''),
  user_id: z.string().min(1),
  channel_id: z.string().min(1),
  trigger_id: z.string().min(1),
  response_url: z.url().nullish().catch(null),
});

/** Answers `/conch …`: at once that it has arrived, then with what became of it. */
async function slash(ports: CommandPorts, sent: z.output<typeof slashSchema>, ack: Ack): Promise<void> {
  await ack();
  if (!ports.deduplicator.claim(`trigger:${sent.trigger_id}`)) return;
  const at: Spot = { channel: sent.channel_id, thread: null, broadcast: false };
  const asker: Recipient = { user: sent.user_id, at, responseUrl: sent.response_url ?? null };
  const floor = floorAt(ports.queries, at);
  if (floor === null) return answer(ports, asker, NO_FLOOR);
  const line = lineOf(sent.text);
  if (line !== SETTINGS) return command(ports, asker, { floor, line });
  await settings(ports, { asker, floor, trigger: sent.trigger_id });
}

/** The form's name in Slack's payloads. */
const SETTINGS_FORM = 'conch:settings';

const selected = z.looseObject({ selected_option: z.looseObject({ value: z.string() }).nullish() });

/** What a submitted form sends. */
const submissionSchema = z.looseObject({
  type: z.literal('view_submission'),
  user: z.looseObject({ id: z.string().min(1) }),
  trigger_id: z.string().min(1),
  view: z.looseObject({
    callback_id: z.literal(SETTINGS_FORM),
    private_metadata: z.string().min(1),
    state: z.looseObject({
      values: z.looseObject({
        mode: z.looseObject({ mode: selected }).optional(),
        order: z.looseObject({ order: selected }).optional(),
        extend: z.looseObject({ extend: z.looseObject({ value: z.string().nullish() }) }).optional(),
      }),
    }),
  }),
});
type Submission = z.output<typeof submissionSchema>;

/** Shows the form with a floor's mode and order; must come within 3 s of the click. */
async function openSettings(
  ports: CommandPorts,
  asked: { readonly asker: Recipient; readonly floor: ChannelId; readonly trigger: string },
): Promise<void> {
  const view = ports.queries.view(asked.floor);
  if (view === null) return answer(ports, asked.asker, { ok: false, text: 'There is no floor here yet.' });
  try {
    await ports.web.apiCall('views.open', { trigger_id: asked.trigger, view: settingsForm(view) });
  } catch (error) {
    ports.log.warn({ channel: asked.floor, why: reasonOf(error) }, 'the settings could not be shown');
    const text = 'Slack did not show the form. Try again, or use `/conch floor mode …` and `/conch floor order …`.';
    await answer(ports, asked.asker, { ok: false, text });
  }
}

/** What the form keeps until it is sent: its floor, and the turn that it was drawn for. */
const keptSchema = z.object({ floor: z.string().min(1), drawnFor: z.string() });

/** Runs the command lines that a form stands for. What is refused is shown beside its field, and the form stays open. */
export async function submitted(ports: CommandPorts, sent: Submission, ack: Ack): Promise<void> {
  if (!ports.deduplicator.claim(`trigger:${sent.trigger_id}`)) return ack();
  const kept = parsedJson(sent.view.private_metadata, keptSchema);
  if (kept === null) return ack();
  const { floor, drawnFor } = kept;
  const errors: Record<string, string> = {};
  const running = (async () => {
    for (const { field, line } of linesOf(sent, ports.queries.view(floor))) {
      const { ok, text } = await obey(ports, sent.user.id, { floor, line, drawnFor });
      if (!ok) errors[field] = inSlackWords(text, false).slice(0, ERROR_LIMIT);
    }
  })();
  const refused = (await toldInTime(ports, ack, { running, errors })).join('\n');
  const asker: Recipient = { user: sent.user.id, at: platformChannel(floor), responseUrl: null };
  if (refused !== '') await answer(ports, asker, { ok: false, text: refused });
}

/** The form as Slack's Block Kit. Its fields have the names of the commands they stand for. */
function settingsForm(view: FloorView): object {
  const modes = INTERRUPT_MODES.map((mode) => option(mode, `${mode}: ${MODES[mode].summary}`));
  const orders = ORDERS.map((order) => option(order, `${order}: ${POLICIES[order].summary}`));
  return {
    type: 'modal',
    callback_id: SETTINGS_FORM,
    private_metadata: JSON.stringify({ floor: view.channel, drawnFor: forFloor(view) }),
    title: textObject('Conch'),
    submit: textObject('Save'),
    close: textObject('Cancel'),
    blocks: [
      inputBlock('mode', { label: 'A message during a turn', element: choice('mode', modes, view.mode) }),
      inputBlock('order', { label: 'Who is next', element: choice('order', orders, view.order) }),
      ...(view.holder === null
        ? []
        : [inputBlock('extend', { label: 'More seconds for the turn under way', element: SECONDS, optional: true })]),
    ],
  };
}

const OPTION_LIMIT = 75;
const SECONDS = {
  type: 'number_input',
  action_id: 'extend',
  is_decimal_allowed: false,
  min_value: '1',
  max_value: '86400',
};

/** Only what differs from what is in force is a command. */
function linesOf(
  sent: Submission,
  view: FloorView | null,
): readonly { readonly field: string; readonly line: string }[] {
  const { mode, order, extend } = sent.view.state.values;
  const chosenMode = mode?.mode.selected_option?.value;
  const chosenOrder = order?.order.selected_option?.value;
  const seconds = extend?.extend.value?.trim();
  return [
    ...(chosenMode === undefined || chosenMode === view?.mode
      ? []
      : [{ field: 'mode', line: `/floor mode ${chosenMode}` }]),
    ...(chosenOrder === undefined || chosenOrder === view?.order
      ? []
      : [{ field: 'order', line: `/floor order ${chosenOrder}` }]),
    ...(seconds ? [{ field: 'extend', line: `/floor extend ${seconds}` }] : []),
  ];
}

type Option = { readonly text: object; readonly value: string };

function option(value: string, text: string): Option {
  return { text: textObject(text.length > OPTION_LIMIT ? `${text.slice(0, OPTION_LIMIT - 1)}…` : text), value };
}

function choice(name: string, options: readonly Option[], current: string): object {
  const initial = options.find(({ value }) => value === current);
  return {
    type: 'static_select',
    action_id: name,
    options,
    ...defined({ initial_option: initial }),
  };
}
