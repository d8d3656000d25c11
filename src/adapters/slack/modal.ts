import { INTERRUPT_MODES, MODES } from '../../turns/floor/modes.ts';
import { z } from 'zod';
import { ORDERS, POLICIES } from '../../turns/floor/policies.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import type { FloorView } from '../../turns/view.ts';
import type { Answer } from '../port.ts';
import type { Ack, Asker, CommandPorts, Order } from './commands.ts';
import { platformChannel } from './ids.ts';

/** The form's name in Slack's payloads. */
export const SETTINGS_FORM = 'conch:settings';

const selected = z.looseObject({ selected_option: z.looseObject({ value: z.string() }).nullish() });

/** What a submitted form sends. */
export const submissionSchema = z.looseObject({
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
export type Submission = z.output<typeof submissionSchema>;

/** What commands lend to a form, so that the two need not know each other. */
export type FormPorts = {
  readonly ports: CommandPorts;
  readonly obey: (user: string, order: Order) => Promise<Answer>;
  readonly answer: (asker: Asker, answer: Answer) => Promise<void>;
};

/** Shows the form with a floor's mode and order; must come within 3 s of the click. */
export async function openSettings(
  { ports, answer }: Pick<FormPorts, 'ports' | 'answer'>,
  asked: { readonly asker: Asker; readonly floor: ChannelId; readonly trigger: string },
): Promise<void> {
  const view = ports.queries.view(asked.floor);
  if (view === null) return answer(asked.asker, { ok: false, text: 'There is no floor here yet.' });
  try {
    await ports.web.apiCall('views.open', { trigger_id: asked.trigger, view: settingsForm(view) });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    ports.log.warn({ channel: asked.floor, why }, 'the settings could not be shown');
    const text = 'Slack did not show the form. Try again, or use `/conch floor mode …` and `/conch floor order …`.';
    await answer(asked.asker, { ok: false, text });
  }
}

/** Runs the command lines that a form stands for. What is refused is shown beside its field, and the form stays open. */
export async function submitted(form: FormPorts, sent: Submission, ack: Ack): Promise<void> {
  const { ports } = form;
  if (!ports.deduplicator.claim(`trigger:${sent.trigger_id}`)) return ack();
  const floor = sent.view.private_metadata;
  const errors: Record<string, string> = {};
  const running = (async () => {
    for (const { field, line } of linesOf(sent, ports.queries.view(floor))) {
      const { ok, text } = await form.obey(sent.user.id, { floor, line });
      if (!ok) errors[field] = text.slice(0, ERROR_LIMIT);
    }
  })();
  const late = Promise.withResolvers<'late'>();
  const timer = ports.timers.after(ACK_WITHIN_MS, () => late.resolve('late'));
  const outcome = await Promise.race([running, late.promise]);
  timer.cancel();
  const isRefused = Object.keys(errors).length > 0;
  await ack(isRefused ? { response_action: 'errors', errors: { ...errors } } : undefined);
  if (outcome !== 'late' || isRefused) return;
  await running;
  const refused = Object.values(errors).join('\n');
  const asker: Asker = { user: sent.user.id, at: platformChannel(floor), responseUrl: null };
  if (refused !== '') await form.answer(asker, { ok: false, text: refused });
}

/** The form as Slack's Block Kit. Its fields have the names of the commands they stand for. */
export function settingsForm(view: FloorView): object {
  const modes = INTERRUPT_MODES.map((mode) => option(mode, `${mode}: ${MODES[mode].summary}`));
  const orders = ORDERS.map((order) => option(order, `${order}: ${POLICIES[order].summary}`));
  return {
    type: 'modal',
    callback_id: SETTINGS_FORM,
    private_metadata: view.channel,
    title: plain('Conch'),
    submit: plain('Save'),
    close: plain('Cancel'),
    blocks: [
      input('mode', 'A message during a turn', choice('mode', modes, view.mode)),
      input('order', 'Who is next', choice('order', orders, view.order)),
      ...(view.holder === null ? [] : [input('extend', 'More seconds for the turn under way', SECONDS, true)]),
    ],
  };
}

const ACK_WITHIN_MS = 2_300;
/** What Slack shows of an error beside a field. */
const ERROR_LIMIT = 300;
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
  return { text: plain(text.length > OPTION_LIMIT ? `${text.slice(0, OPTION_LIMIT - 1)}…` : text), value };
}

function choice(name: string, options: readonly Option[], current: string): object {
  const initial = options.find(({ value }) => value === current);
  return {
    type: 'static_select',
    action_id: name,
    options,
    ...(initial === undefined ? {} : { initial_option: initial }),
  };
}

function input(id: string, label: string, element: object, optional = false): object {
  return { type: 'input', block_id: id, label: plain(label), element, optional };
}

function plain(text: string): object {
  return { type: 'plain_text', text };
}
