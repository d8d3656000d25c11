import { z } from 'zod';
import type { ChannelId, FormField } from '../../turns/floor/settings.ts';
import { floorAt } from './parse-message.ts';
import type { SlackLocation } from './parse-message.ts';
import { NO_FLOOR, SETTINGS, answer, command, commandRefusal, lineOf, obey, acknowledgeInTime } from './commands.ts';
import type { Ack, CommandPorts, Order, Recipient } from './commands.ts';
import {
  OPTION_LENGTH,
  SECTION_LIMIT,
  SETTINGS_ACTION,
  readButtonValue,
  clip,
  inSlackWords,
  textObject,
} from './content.ts';
import type { ButtonValue } from './content.ts';
import { excerpt } from '../../turns/commands/clock-words.ts';
import type { Answer } from '../../turns/commands/context.ts';
import { readDrawnFor } from '../../turns/drawn-for.ts';
import { INTERRUPT_MODES, MODES, ORDERS, POLICIES } from '../../turns/floor/policies.ts';
import { requestByKey } from '../../turns/floor/seats.ts';
import { fieldHint, formWords } from '../../turns/text/form.ts';
import type { FilledForm } from '../../turns/text/form.ts';
import { formNote } from '../../turns/text/words.ts';
import type { FloorView } from '../../turns/view.ts';
import { defined, parsedJson } from '../../lib/defined.ts';
import { forFloor, openingButton, reasonFieldLabel, controlOf, isDrawable } from '../delivery/card.ts';
import { reasonOf } from '../delivery/connect-retry.ts';

/** Handles clicks, forms and `/conch`, and runs typed commands. */
export type Interactions = {
  /** Handles a click, a form or `/conch`. Resolves with `false` for any other payload. */
  take(body: unknown, ack: Ack): Promise<boolean>;
  /**
   * Runs a command line that a person wrote as a message, or that a reaction or Slack's Stop button means. Resolves
   * when the command is stored or has failed. Never rejects.
   */
  runTyped(command: TypedCommand): Promise<void>;
  /** Answers a person who wrote to the app in a channel without a floor. */
  explainNoFloor(user: string, at: SlackLocation): void;
};

type TypedCommand = Order & { readonly user: string; readonly at: SlackLocation };

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

/** Returns the handlers of clicks, forms and commands. */
export function createInteractions(ports: CommandPorts): Interactions {
  return {
    async take(body, ack) {
      const slashCommand = slashSchema.safeParse(body);
      if (slashCommand.success) {
        await slash(ports, slashCommand.data, ack);
        return true;
      }
      const click = clickSchema.safeParse(body);
      if (click.success) {
        await clicked(ports, click.data, ack);
        return true;
      }
      return takeForm(ports, body, ack);
    },
    runTyped: ({ user, at, ...order }) => command(ports, { user, at, responseUrl: null }, order),
    explainNoFloor: (user, at) => void answer(ports, { user, at, responseUrl: null }, NO_FLOOR),
  };
}

async function clicked(ports: CommandPorts, click: Click, ack: Ack): Promise<void> {
  await ack();
  const [action] = click.actions;
  if (action === undefined || !action.action_id.startsWith('conch:')) return;
  if (!ports.deduplicator.claim(`trigger:${click.trigger_id}`)) return;
  const at = locationOf(click);
  if (at === null) return;
  const asker: Recipient = { user: click.user.id, at, responseUrl: click.response_url ?? null };
  const floor = floorAt(ports.queries, at);
  const button = floor === null ? null : readButtonValue(action.value ?? action.selected_option?.value ?? '');
  if (floor !== null && action.action_id === SETTINGS_ACTION) {
    return openSettings(ports, { asker, floor, trigger: click.trigger_id });
  }
  if (floor === null || button === null) return answer(ports, asker, OLD_BUTTON);
  const pressed = { asker, floor, trigger: click.trigger_id, button };
  const { line, drawnFor, opens } = button;
  const refusal = opens === undefined ? null : await commandRefusal(ports, click.user.id, { floor, line, drawnFor });
  if (refusal !== null) return answer(ports, asker, refusal);
  if (await openPressed(ports, pressed)) return;
  await command(ports, asker, { floor, line, drawnFor });
}

const OLD_BUTTON = { ok: false, text: 'This button is out of date. Use the newest card, or `/conch help`.' };

function locationOf(click: Click): SlackLocation | null {
  const channel = click.container?.channel_id ?? click.channel?.id;
  if (channel === undefined) return null;
  const messageTs = click.container?.message_ts ?? click.message?.ts;
  const thread = click.container?.thread_ts ?? click.message?.thread_ts ?? null;
  return { channel, thread: thread === messageTs ? null : thread, broadcast: false };
}

const slashSchema = z.looseObject({
  command: z.string(),
  text: z.string().default(''),
  user_id: z.string().min(1),
  channel_id: z.string().min(1),
  trigger_id: z.string().min(1),
  response_url: z.url().nullish().catch(null),
});

async function slash(ports: CommandPorts, slashCommand: z.output<typeof slashSchema>, ack: Ack): Promise<void> {
  await ack();
  if (!ports.deduplicator.claim(`trigger:${slashCommand.trigger_id}`)) return;
  const at: SlackLocation = { channel: slashCommand.channel_id, thread: null, broadcast: false };
  const asker: Recipient = { user: slashCommand.user_id, at, responseUrl: slashCommand.response_url ?? null };
  const floor = floorAt(ports.queries, at);
  if (floor === null) return answer(ports, asker, NO_FLOOR);
  const line = lineOf(slashCommand.text);
  if (line !== SETTINGS) return command(ports, asker, { floor, line });
  await openSettings(ports, { asker, floor, trigger: slashCommand.trigger_id });
}

/** A pressed button, and who pressed it. `trigger`: Slack's id with which a form can be opened. */
type Pressed = {
  readonly asker: Recipient;
  readonly floor: ChannelId;
  readonly trigger: string;
  readonly button: ButtonValue;
};

/**
 * Opens the form of a pressed button. Resolves with `false` when there is no form to open. Slack accepts a form only
 * within 3 s after the click.
 */
async function openPressed(ports: CommandPorts, pressed: Pressed): Promise<boolean> {
  const { opens, line } = pressed.button;
  const form = opens === undefined ? null : VIEWS[opens](ports, pressed);
  if (form === null) return false;
  await show(ports, pressed, { ...form, instead: `Use \`${line}\`${ADDS[form.name] ?? ''}.` });
  return true;
}

async function openSettings(ports: CommandPorts, pressed: Omit<Pressed, 'button'>): Promise<void> {
  const { asker, floor } = pressed;
  const refusal = await commandRefusal(ports, asker.user, { floor, line: '/floor mode inject' });
  if (refusal !== null) return answer(ports, asker, refusal);
  const view = ports.queries.view(floor);
  if (view === null)
    return answer(ports, asker, { ok: false, text: 'There is no floor here yet. Write a message first.' });
  const instead = 'Try again, or use `/conch floor mode …` and `/conch floor order …`.';
  const button = { line: '/floor', drawnFor: forFloor(view) };
  await show(ports, { ...pressed, button }, { ...settingsForm(view), instead });
}

async function takeForm(ports: CommandPorts, body: unknown, ack: Ack): Promise<boolean> {
  const submission = sentSchema.safeParse(body).data;
  if (submission === undefined) return false;
  const { user, view } = submission;
  const formData = parsedJson(view.private_metadata, formDataSchema);
  if (!ports.deduplicator.claim(`trigger:${submission.trigger_id}`) || formData === null) await ack();
  else {
    const { channel, thread } = formData;
    const asker: Recipient = { user: user.id, at: { channel, thread }, responseUrl: null };
    await SUBMITS[view.callback_id](ports, { formData, asker, filled: filledOf(view.state.values), ack });
  }
  return true;
}

type FormName = 'conch:reason' | 'conch:rule' | 'conch:answer' | 'conch:settings';

type Form = {
  readonly name: FormName;
  readonly title: string;
  readonly submit: string;
  readonly close: string;
  readonly blocks: readonly object[];
};

/** The data that Slack stores with an open form and returns on submit. */
const formDataSchema = z.object({
  floor: z.string(),
  line: z.string().startsWith('/'),
  drawnFor: z.string(),
  channel: z.string(),
  thread: z.string().nullable(),
});

async function show(ports: CommandPorts, pressed: Pressed, form: Form & { readonly instead: string }): Promise<void> {
  const { asker, floor, trigger, button } = pressed;
  const { line, drawnFor } = button;
  const { channel, thread } = asker.at;
  const formData: z.output<typeof formDataSchema> = { floor, line, drawnFor, channel, thread };
  const view = {
    type: 'modal',
    callback_id: form.name,
    private_metadata: JSON.stringify(formData),
    title: textObject(form.title),
    submit: textObject(form.submit),
    close: textObject(form.close),
    blocks: form.blocks,
  };
  try {
    await ports.web.apiCall('views.open', { trigger_id: trigger, view });
  } catch (error) {
    ports.log.warn({ channel: floor, why: reasonOf(error) }, 'a form could not be shown');
    await answer(ports, asker, { ok: false, text: `Slack did not show the form. ${form.instead}` });
  }
}

const ADDS: Readonly<Partial<Record<FormName, string>>> = {
  'conch:reason': ' and your reason',
  'conch:answer': ' and your answer',
};

const VIEWS = { reason: reasonForm, form: questionForm, rule: ruleForm } as const;

const LONGEST_REASON = 500;
const TITLE_LENGTH = 3_000;
const LABEL_LENGTH = 300;
const ERROR_LENGTH = 300;
const LIMITS = { fields: 48, options: 100, valueLength: 150 };

function reasonForm({ queries }: CommandPorts, { floor, button }: Pressed): Form {
  const element = { type: 'plain_text_input', action_id: 'why', multiline: true, max_length: LONGEST_REASON };
  const blocks = [inputBlock('why', { label: reasonFieldLabel(queries.view(floor), button), element })];
  return { name: 'conch:reason', title: 'Deny with reason', submit: 'Deny', close: 'Back', blocks };
}

function questionForm({ queries }: CommandPorts, { floor, button }: Pressed): Form | null {
  const view = queries.view(floor);
  const found = view === null ? null : openingButton(view, { ...button, opens: 'form' });
  if (found?.opens.what !== 'form' || !isDrawable(found.opens.of, LIMITS)) return null;
  const { title, about = {} } = found.request.question;
  const blocks = [
    { type: 'section', text: textObject(clip(title, TITLE_LENGTH)) },
    ...found.opens.of.map(fieldBlock),
    { type: 'context', elements: [textObject(`${formNote(about)}.`)] },
  ];
  return { name: 'conch:answer', title: 'Answer', submit: 'Answer', close: 'Back', blocks };
}

function ruleForm({ queries }: CommandPorts, { floor, button }: Pressed): Form | null {
  const view = queries.view(floor);
  const drawnFor = readDrawnFor(button.drawnFor);
  const request = view === null || drawnFor?.of !== 'question' ? null : requestByKey(view, drawnFor.key);
  const rule = request?.question.always?.[Number(button.line.split(' ').at(-1)) - 1];
  if (rule === undefined) return null;
  const end = 'Allowed for 30 days, for this agent in this channel. To revoke the rule: /conch run approvals.';
  const blocks = [`${rule.words}\n${rule.rule}`, end].map((text) => ({
    type: 'section',
    text: textObject(clip(text, SECTION_LIMIT)),
  }));
  return { name: 'conch:rule', title: 'Allow from now on?', submit: 'Allow', close: 'Back', blocks };
}

const SECONDS = {
  type: 'number_input',
  action_id: 'extend',
  is_decimal_allowed: false,
  min_value: '1',
  max_value: '86400',
};

/** Returns the form with a floor's settings. Each field has the name of its command: "mode" is for `/floor mode`. */
function settingsForm(view: FloorView): Form {
  const modes = INTERRUPT_MODES.map((mode) => ({ value: mode, label: `${mode}: ${MODES[mode].summary}` }));
  const orders = ORDERS.map((order) => ({ value: order, label: `${order}: ${POLICIES[order].summary}` }));
  const blocks = [
    inputBlock('mode', { label: 'A message during a turn', element: menu('mode', modes, [view.mode]) }),
    inputBlock('order', { label: 'Who is next', element: menu('order', orders, [view.order]) }),
  ];
  if (view.holder !== null)
    blocks.push(
      inputBlock('extend', { label: 'More seconds for the turn under way', element: SECONDS, optional: true }),
    );
  return { name: 'conch:settings', title: 'Conch', submit: 'Save', close: 'Cancel', blocks };
}

function inputBlock(
  id: string,
  field: { readonly label: string; readonly element: object; readonly optional?: boolean; readonly hint?: string },
): object {
  const { label, element, optional = false, hint = '' } = field;
  const hintField = hint === '' ? {} : { hint: textObject(hint) };
  return { type: 'input', block_id: id, label: textObject(label), element, optional, ...hintField };
}

function fieldBlock(field: FormField): object {
  const label = excerpt(field.label, LABEL_LENGTH);
  const hint = excerpt(fieldHint(field), LABEL_LENGTH);
  return inputBlock(field.name, { label, element: elementOf(field), optional: !field.required, hint });
}

function elementOf(field: FormField): object {
  const { name, kind, most } = field;
  const control = controlOf(field);
  if (control.what === 'choice')
    return menu(name, control.options, control.initial, kind === 'some' ? { most: most ?? 0 } : null);
  const { what, initial, longest: max_length, isLong: multiline } = control;
  const hasInitial = initial !== '' && !(what === 'number' && Number.isNaN(Number(initial)));
  const common = { action_id: name, ...(hasInitial ? { initial_value: initial } : {}) };
  return what === 'number'
    ? { type: 'number_input', is_decimal_allowed: kind === 'number', ...common }
    : { type: 'plain_text_input', multiline, max_length, ...common };
}

/** Returns a menu of options. `multiple` null: one choice. Otherwise several, at most `multiple.most`, where 0 is no limit. */
function menu(
  name: string,
  offered: FormField['options'],
  initial: readonly string[],
  multiple: { readonly most: number } | null = null,
): object {
  const options = offered.map(({ value, label }) => ({
    text: textObject(excerpt(label, OPTION_LENGTH) || value),
    value,
  }));
  const chosen = options.filter(({ value }) => initial.includes(value));
  const common = { action_id: name, options };
  if (multiple === null) return { type: 'static_select', ...common, ...defined({ initial_option: chosen[0] }) };
  return {
    type: 'multi_static_select',
    ...common,
    ...(multiple.most < 1 ? {} : { max_selected_items: multiple.most }),
    ...(chosen.length === 0 ? {} : { initial_options: chosen }),
  };
}

const selected = z.looseObject({ value: z.string() });
const filledSchema = z.record(
  z.string(),
  z.record(
    z.string(),
    z.looseObject({
      value: z.string().nullish(),
      selected_option: selected.nullish(),
      selected_options: z.array(selected).nullish(),
    }),
  ),
);

const sentSchema = z.looseObject({
  type: z.literal('view_submission'),
  user: z.looseObject({ id: z.string().min(1) }),
  trigger_id: z.string().min(1),
  view: z.looseObject({
    callback_id: z.enum(['conch:reason', 'conch:rule', 'conch:answer', 'conch:settings']),
    private_metadata: z.string().min(1),
    state: z.looseObject({ values: filledSchema }).default({ values: {} }),
  }),
});

function filledOf(values: z.output<typeof filledSchema>): FilledForm {
  return Object.fromEntries(
    Object.entries(values).map(([name, elements]) => {
      const [element] = Object.values(elements);
      const chosenValues = element?.selected_options?.map(({ value }) => value);
      return [name, chosenValues ?? element?.selected_option?.value ?? element?.value ?? ''];
    }),
  );
}

type Submission = {
  readonly formData: z.output<typeof formDataSchema>;
  readonly asker: Recipient;
  readonly filled: FilledForm;
  readonly ack: Ack;
};

const SUBMITS: Readonly<Record<FormName, (ports: CommandPorts, submission: Submission) => Promise<void>>> = {
  'conch:reason': takeWords,
  'conch:rule': takeWords,
  'conch:answer': takeAnswer,
  'conch:settings': takeSettings,
};

async function takeWords(ports: CommandPorts, { formData, asker, filled, ack }: Submission): Promise<void> {
  await ack();
  const words = [filled['why'] ?? ''].flat().join(' ').replaceAll(/\s+/g, ' ');
  const order = { ...formData, line: `${formData.line} ${words}`.trim() };
  await answer(ports, asker, await obey(ports, asker.user, order));
}

/**
 * Answers a question with a sent form. Errors known within 2.3 s appear beside their fields, and the form stays open.
 * Later errors are sent as a message to the person.
 */
async function takeAnswer(ports: CommandPorts, { formData, asker, filled, ack }: Submission): Promise<void> {
  const line = `${formData.line} ${formWords(filled)}`;
  const errors: Record<string, string> = {};
  let lastAnswer: Answer | null = null;
  const running = (async () => {
    lastAnswer = await obey(ports, asker.user, { ...formData, line });
    if (!lastAnswer.ok) Object.assign(errors, besideFields(lastAnswer, filled));
  })();
  const lateErrors = await acknowledgeInTime(ports, ack, { running, errors });
  if (lateErrors.length > 0)
    await answer(ports, asker, { ok: false, text: [...lateErrors, `You wrote: ${line}`].join('\n') });
  else if (Object.keys(errors).length === 0 && lastAnswer !== null) await answer(ports, asker, lastAnswer);
}

/** Returns the errors of an answer by field. An error without a field belongs to the first field. */
function besideFields({ text, fields = {} }: Answer, filled: FilledForm): Record<string, string> {
  const fieldErrors = Object.entries(fields).filter(([name]) => Object.hasOwn(filled, name));
  if (fieldErrors.length > 0) return Object.fromEntries(fieldErrors.map(([name, why]) => [name, errorText(why)]));
  return { [Object.keys(filled)[0] ?? '']: errorText(text) };
}

function errorText(words: string): string {
  return clip(inSlackWords(words, false), ERROR_LENGTH);
}

async function takeSettings(ports: CommandPorts, { formData, asker, filled, ack }: Submission): Promise<void> {
  const view = ports.queries.view(formData.floor);
  const now: FilledForm = { mode: view?.mode ?? '', order: view?.order ?? '', extend: '' };
  const errors: Record<string, string> = {};
  const running = (async () => {
    for (const field of ['mode', 'order', 'extend']) {
      const value = [filled[field] ?? ''].flat().join('').trim();
      if (value === '' || value === now[field]) continue;
      const { ok, text } = await obey(ports, asker.user, { ...formData, line: `/floor ${field} ${value}` });
      if (!ok) errors[field] = errorText(text);
    }
  })();
  const lateErrors = (await acknowledgeInTime(ports, ack, { running, errors })).join('\n');
  if (lateErrors !== '') await answer(ports, asker, { ok: false, text: lateErrors });
}
