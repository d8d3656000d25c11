import { randomBytes } from 'node:crypto';
import { Routes } from 'discord.js';
import type { REST } from 'discord.js';
import { z } from 'zod';
import { retry } from '../../lib/retry.ts';
import { BoundedMap } from '../../lib/keyed.ts';
import type { Instant } from '../../lib/time.ts';
import type { ChannelId, FormField } from '../../turns/floor/settings.ts';
import type { Answer } from '../../turns/commands/context.ts';
import { requestsOn } from '../../turns/floor/seats.ts';
import { formNote } from '../../turns/text/words.ts';
import type { FilledForm } from '../../turns/text/form.ts';
import { fieldHint, formWords } from '../../turns/text/form.ts';
import type { FloorView } from '../../turns/view.ts';
import { failedText } from '../port.ts';
import type { AdapterParts, Intake, Principal, ReactionKind } from '../port.ts';
import { openingButton, questionOpened, reasonFieldLabel, controlOf, isDrawable } from '../delivery/card.ts';
import type { OpenedQuestion, Control } from '../delivery/card.ts';
import { COMMAND_RULE, answerParts, createDeduplicator, createFirstTime, whyLine } from '../delivery/inbound.ts';
import type { Deduplicator, FirstTime } from '../delivery/inbound.ts';
import { EPHEMERAL, TEXT_LIMIT, answerBody, cutTo, readCustomId, rowsOf, textFile, customId } from './content.ts';
import type { PressedButton } from './content.ts';
import { choicesFor, commandDataSchema, lineOf, withMessageIds } from './commands.ts';
import { channelId, chatError, platformChannel, rejectionOf, wordsOf } from './client.ts';
import type { Calls, Self } from './client.ts';
import { authorOf, commandIn, humanMessage, memberSchema, writerName, userSchema } from './parse-message.ts';
import type { MessageContext, MessagePayload } from './parse-message.ts';
import { snowflakeSchema } from './places.ts';
import type { Places } from './places.ts';
import { excerpt } from '../../turns/commands/clock-words.ts';

type InteractionPorts = Pick<AdapterParts, 'queries' | 'clock' | 'timers' | 'log' | 'memory'> & {
  readonly rest: REST;
  readonly self: Self;
  readonly calls: Calls;
  readonly intake: Pick<Intake, 'command' | 'refusal'>;
  readonly places: Pick<Places, 'resolve'>;
  readonly context: MessageContext;
};

/** Answers commands, buttons, forms and reactions. Only `runReaction` rejects, when its command fails with an error. */
export type Interactions = {
  /**
   * Answers a slash command, its completions, a button or a form. Does nothing when Discord delivers it a second time.
   */
  take(payload: unknown): Promise<void>;
  /**
   * Runs a command that was typed as a message ("!floor skip"), at most once per message, also over restarts. Replies
   * to people, not to programs.
   */
  runTyped(message: MessagePayload): Promise<void>;
  /** Runs the command that a person's reaction means. Replies only with a refusal. */
  runReaction(reaction: ReactionEvent): Promise<void>;
  /** Tells people who mention the bot in a channel without a floor how to get one. */
  explainNoFloor(message: MessagePayload): void;
};

/** Returns the handlers of commands, buttons, forms and reactions. */
export function createInteractions(ports: InteractionPorts): Interactions {
  const deliveries = createDeduplicator(ports.clock);
  const handlerPorts: HandlerPorts = {
    ...ports,
    deliveries,
    forms: new BoundedMap(FORMS_KEPT),
    isFirst: createFirstTime(ports.memory),
  };
  return {
    async take(payload) {
      const parsed = interactionSchema.safeParse(payload);
      if (!parsed.success) {
        ports.log.warn({ issues: parsed.error.issues.length }, 'an interaction from Discord has an unexpected form');
        return;
      }
      const interaction = parsed.data;
      if (!deliveries.claim(interaction.id)) return;
      await answerInteraction(handlerPorts, interaction).catch((error: unknown) => {
        ports.log.warn({ interaction: interaction.id, why: wordsOf(error) }, 'a command or button was not answered');
      });
    },
    runTyped: (message) => runTyped(handlerPorts, message),
    runReaction: (reaction) => runReaction(handlerPorts, reaction),
    explainNoFloor: createNoFloorReply(ports),
  };
}

type HandlerPorts = InteractionPorts & {
  readonly deliveries: Deduplicator;
  readonly forms: BoundedMap<string, SentForm>;
  readonly isFirst: FirstTime;
};

const TYPES = { command: 2, button: 3, autocomplete: 4, form: 5 } as const;
const DEFERRED = 5;
const CHOICES = 8;
const MODAL = 9;
const EXPIRED = 10_062;
const ACKNOWLEDGED = 40_060;
/** A person waits for the answer, so the retries are few and short. */
const ANSWER_AGAIN = { firstMs: 1_000, longestMs: 10_000, attempts: 4 };
const LINES_OFFERED = 25;

const interactionSchema = z.object({
  id: snowflakeSchema,
  type: z.int(),
  token: z.string().min(1),
  channel_id: snowflakeSchema.nullish().catch(null),
  member: memberSchema.extend({ user: userSchema }).nullish().catch(null),
  user: userSchema.nullish().catch(null),
  data: z.unknown(),
});

type Interaction = z.infer<typeof interactionSchema>;

async function answerInteraction(ports: HandlerPorts, interaction: Interaction): Promise<void> {
  switch (interaction.type) {
    case TYPES.autocomplete:
      return sendCallback(ports, interaction, {
        type: CHOICES,
        data: { choices: await completionsFor(ports, interaction) },
      });
    case TYPES.command:
    case TYPES.button:
    case TYPES.form: {
      const refusal = await refusalOf(ports, interaction);
      const modal = refusal === null ? await modalFor(ports, interaction) : null;
      if (modal !== null) return sendCallback(ports, interaction, { type: MODAL, data: modal });
      if (await acknowledge(ports, interaction))
        await show(ports, interaction, refusal ?? (await carryOut(ports, interaction)));
    }
  }
}

async function refusalOf(ports: HandlerPorts, interaction: Interaction): Promise<ShownAnswer | null> {
  const pressed = interaction.type === TYPES.button ? requestOf(interaction) : null;
  const by = principalOf(interaction);
  if (pressed?.drawnFor === undefined || by === null) return null;
  if (pressed.opens === undefined || pressed.opens === 'input') return null;
  const location = await placeAt(ports, interaction);
  if (location === null) return null;
  const text = ports.intake.refusal(location.channel, by, pressed.line, pressed.drawnFor);
  return text === null ? null : { ok: false, text };
}

/**
 * Returns the form that a button opens; `null` for a button without a form. The form of a question is also `null` when
 * the question is closed or Discord cannot draw the form.
 */
async function modalFor(ports: HandlerPorts, interaction: Interaction): Promise<object | null> {
  const pressed = requestOf(interaction);
  if (pressed?.drawnFor === undefined || (pressed.opens !== 'reason' && pressed.opens !== 'form')) return null;
  const location = await placeAt(ports, interaction);
  const view = location === null ? null : ports.queries.view(location.channel);
  if (pressed.opens === 'reason') return reasonModal(pressed, reasonFieldLabel(view, pressed));
  const found = view === null ? null : openingButton(view, { ...pressed, opens: 'form' });
  if (found?.opens.what !== 'form') return null;
  const note = formNote(found.request.question.about ?? {});
  return formModal(pressed, { note, fields: found.opens.of }, ports.forms.get(formKey(interaction, pressed)) ?? null);
}

/**
 * Tells Discord that an answer follows, in at most two attempts. Returns false when Conch must not carry out the
 * interaction: it expired, or was acknowledged before the first attempt. Returns true after other failures.
 */
async function acknowledge(ports: InteractionPorts, interaction: Interaction): Promise<boolean> {
  const { log } = ports;
  for (let again = true; ; again = false) {
    try {
      await sendCallback(ports, interaction, { type: DEFERRED, data: { flags: EPHEMERAL } });
      return true;
    } catch (error) {
      const failed = chatError(error, { method: 'interaction', channel: placeOf(interaction) });
      const code = rejectionOf(failed)?.code ?? null;
      if (code === ACKNOWLEDGED && !again) return true;
      log.warn({ interaction: interaction.id, code, why: failed.message }, 'Discord refused an acknowledgement');
      if (code === EXPIRED || code === ACKNOWLEDGED) return false;
      if (!again) return true;
    }
  }
}

async function carryOut(ports: HandlerPorts, interaction: Interaction): Promise<ShownAnswer> {
  const request = requestOf(interaction);
  const by = principalOf(interaction);
  if (request === null || by === null) return { ok: false, text: OVER };
  let answer: Answer;
  try {
    const location = await ports.places.resolve(interaction.channel_id ?? '');
    if (location === null) return { ok: false, text: NOT_HERE };
    // A form button gets here when no form could be shown. Its command line answers that the question is closed, or how
    // to answer in words.
    if ('opens' in request && request.opens !== undefined && request.opens !== 'form')
      return openQuestion(ports.queries.view(location.channel), request);
    answer = await ports.intake.command(location.channel, by, request.line, request.drawnFor);
  } catch (error) {
    ports.log.error({ interaction: interaction.id, why: wordsOf(error) }, 'a command failed');
    answer = { ok: false, text: failedText(error, 'Nothing was changed.') };
  }
  return request.drawnFor === undefined ? answer : offerAgain(ports, { interaction, request: request, answer });
}

function offerAgain(
  { forms }: HandlerPorts,
  outcome: { readonly interaction: Interaction; readonly request: PressedForm; readonly answer: Answer },
): ShownAnswer {
  const { interaction, request, answer } = outcome;
  const { filled = null } = request;
  if (filled === null) return answer;
  const key = formKey(interaction, request);
  if (answer.ok) forms.delete(key);
  else forms.set(key, { filled, errors: answer.fields ?? {} });
  if (answer.fields === undefined) return answer;
  const [path = '', question = ''] = request.line.split(' ');
  const button = { label: 'Answer again…', line: `${path} ${question}`, drawnFor: request.drawnFor } as const;
  return { ...answer, buttons: [{ ...button, style: 'good', opens: { what: 'form', of: [] } }] };
}

const OVER = 'This button no longer works. Use the newest card, or /floor status.';
const QUESTION_OVER = 'That request is closed.';
const NOT_HERE =
  'Conch has no floor in this channel. Add the channel to turnConfig.json, or use the command where the agents are.';

type ShownAnswer = Answer & Pick<OpenedQuestion, 'buttons' | 'file'>;

function openQuestion(view: FloorView | null, { line, drawnFor, opens = 'input' }: PressedButton): ShownAnswer {
  const found = view === null ? null : questionOpened(view, { line, drawnFor, opens });
  return found === null ? { ok: false, text: QUESTION_OVER } : { ok: true, ...found };
}

type PressedForm = PressedButton & { readonly filled?: FilledForm | null };
type LineRequest = PressedForm | { readonly line: string; readonly drawnFor?: undefined };

function requestOf({ type, data }: Interaction): LineRequest | null {
  if (type === TYPES.form) return readModal(data);
  if (type === TYPES.button) {
    const button = z.object({ custom_id: z.string() }).safeParse(data);
    return button.success ? readCustomId(button.data.custom_id) : null;
  }
  const parsed = commandDataSchema.safeParse(data);
  return parsed.success ? { line: lineOf(parsed.data) } : null;
}

function principalOf({ member, user }: Interaction): Principal | null {
  const author = member?.user ?? user ?? null;
  if (author === null) return null;
  return { ...personOf({ author, member }), ...(author.bot === true ? { bot: true } : {}) };
}

async function completionsFor(ports: InteractionPorts, interaction: Interaction): Promise<readonly object[]> {
  const parsed = commandDataSchema.safeParse(interaction.data);
  const location = await placeAt(ports, interaction);
  if (!parsed.success) return [];
  const lines = location === null ? [] : ports.queries.lines(location.channel, LINES_OFFERED);
  const messages = lines.toReversed().flatMap(({ message, author, text }) => {
    return message === null ? [] : [{ id: message, summary: `${author.name}: ${excerpt(text)}` }];
  });
  const view = location === null ? null : ports.queries.view(location.channel);
  const requests = view === null ? [] : requestsOn(view);
  return choicesFor(parsed.data, { agents: ports.queries.agents(), messages, requests });
}

async function show(ports: InteractionPorts, interaction: Interaction, answer: ShownAnswer): Promise<void> {
  const { rest, self } = ports;
  const { text, buttons = [], file } = answer;
  const [first = '', ...others] = answerParts(text, TEXT_LIMIT);
  const components = buttons.length === 0 ? {} : { components: rowsOf(buttons) };
  const files = file === undefined ? {} : { files: [textFile(file)] };
  const firstMessage = { body: { ...answerBody(first, { ephemeral: true }), ...components }, auth: false, ...files };
  const original = Routes.webhookMessage(self.applicationId, interaction.token, '@original');
  await sendAnswer(ports, placeOf(interaction), () => rest.patch(original, firstMessage));
  const route = Routes.webhook(self.applicationId, interaction.token);
  for (const part of others) {
    const more = { body: answerBody(part, { ephemeral: true }), auth: false };
    await sendAnswer(ports, placeOf(interaction), () => rest.post(route, more));
  }
}

async function sendAnswer(
  { timers }: Pick<InteractionPorts, 'timers'>,
  channel: ChannelId,
  send: () => Promise<unknown>,
): Promise<void> {
  await retry(send, ANSWER_AGAIN, {
    timers,
    judge({ error }) {
      const failed = chatError(error, { method: 'answer', channel });
      if (failed.fault === 'refused') throw failed;
      return { notBeforeMs: failed.retryAfterMs ?? 0 };
    },
  });
}

async function sendCallback(ports: InteractionPorts, { id, token }: Interaction, body: object): Promise<void> {
  await ports.rest.post(Routes.interactionCallback(id, token), { body, auth: false });
}

function placeAt({ places }: InteractionPorts, interaction: Interaction): ReturnType<Places['resolve']> {
  return places.resolve(interaction.channel_id ?? '').catch(() => null);
}

function placeOf(interaction: Interaction): string {
  return channelId(interaction.channel_id ?? 'nowhere');
}

/** Runs a typed command. A program gets no reply: two programs could answer each other without end. */
async function runTyped(ports: HandlerPorts, message: MessagePayload): Promise<void> {
  const line = commandIn(message, ports.context);
  if (line === null) return;
  const isProgram = authorOf(message) !== 'person';
  const by = { ...personOf(message), ...(isProgram ? { bot: true } : {}) };
  let text: string;
  try {
    const location = await ports.places.resolve(message.channel_id);
    if (location === null || humanMessage(message, location, ports.context).ignore !== COMMAND_RULE) return;
    if (!(await ports.isFirst(location.channel, message.id))) return;
    const about = message.message_reference?.message_id ?? null;
    ({ text } = await ports.intake.command(location.channel, by, whyLine(withMessageIds(line), about)));
  } catch (error) {
    ports.log.error({ message: message.id, why: wordsOf(error) }, 'a typed command failed');
    text = failedText(error, 'Nothing was changed.');
  }
  if (!isProgram) await reply(ports, message, text);
}

function personOf(by: Pick<MessagePayload, 'author' | 'member'>): Principal {
  return { id: by.author.id, name: writerName(by), roles: by.member?.roles ?? [] };
}

type ReactionEvent = Pick<MessagePayload, 'author' | 'member'> & {
  readonly channel: ChannelId;
  readonly message_id: string;
  readonly kind: ReactionKind;
};

async function runReaction(
  ports: HandlerPorts,
  { channel, message_id: id, kind, ...person }: ReactionEvent,
): Promise<void> {
  const command = ports.queries.reaction?.(channel, id, kind) ?? null;
  if (command === null) return;
  const by = personOf(person);
  const answer = await ports.intake.command(command.channel, by, command.line, command.drawnFor);
  if (answer.ok || !ports.deliveries.claim(`${id} ${by.id} ${answer.text}`)) return;
  void reply(ports, { id, channel_id: platformChannel(channel) }, `${by.name}: ${answer.text}`);
}

/** Replies to a message. Never rejects. The nonce keeps a repeated attempt from posting a reply twice. */
async function reply(
  ports: InteractionPorts,
  { id, channel_id: snowflake }: Pick<MessagePayload, 'id' | 'channel_id'>,
  text: string,
): Promise<void> {
  const channel = channelId(snowflake);
  const route = Routes.channelMessages(snowflake);
  const about = { message_reference: { message_id: id, fail_if_not_exists: false } };
  try {
    for (const part of answerParts(text, TEXT_LIMIT)) {
      const nonceFields = { nonce: randomBytes(NONCE_BYTES).toString('base64url'), enforce_nonce: true };
      const body = { ...answerBody(part, { ephemeral: false }), ...about, ...nonceFields };
      await sendAnswer(ports, channel, () =>
        ports.calls.tell({ method: 'post', route, channel, what: 'answer', body }),
      );
    }
  } catch (error) {
    ports.log.warn({ message: id, why: wordsOf(error) }, 'the answer to a command could not be posted');
  }
}

const NONCE_BYTES = 15;

/** The wait before the bot explains itself again in a channel without a floor: everybody sees the reply. */
const UNPLACED_MS = 3_600_000;

function createNoFloorReply(ports: InteractionPorts): Interactions['explainNoFloor'] {
  const repliedAt = new BoundedMap<string, Instant>(CHANNELS_KEPT);
  return (message) => {
    const { channel_id: snowflake } = message;
    const now = ports.clock.now();
    if (authorOf(message) !== 'person' || now - (repliedAt.get(snowflake) ?? -Infinity) < UNPLACED_MS) return;
    repliedAt.set(snowflake, now);
    void reply(ports, message, NOT_HERE);
  };
}

const CHANNELS_KEPT = 1_000;

function reasonModal(button: PressedButton, label: string): object {
  const field = { type: TEXT, custom_id: 'why', label, style: 2, max_length: LONGEST_REASON };
  return modalOf(button, { title: 'Deny with reason', components: [{ type: 1, components: [field] }] });
}

type SentForm = { readonly filled: FilledForm; readonly errors: Readonly<Record<string, string>> };

/** Returns the form of a question; `null` when Discord cannot draw the fields. */
function formModal(
  button: PressedButton,
  form: { readonly note: string; readonly fields: readonly FormField[] },
  sent: SentForm | null,
): object | null {
  const { note, fields } = form;
  if (!isDrawable(fields, LIMITS)) return null;
  return modalOf(button, {
    title: cutTo(note, FIELD_LABEL_LENGTH),
    components: fields.map((field) => drawField(field, sent)),
  });
}

function readModal(data: unknown): (PressedButton & { readonly filled: FilledForm | null }) | null {
  const modal = sentSchema.safeParse(data).data;
  const button = modal === undefined ? null : readCustomId(modal.custom_id);
  if (modal === undefined || button === null) return null;
  const rows = modal.components.flatMap((part) => ('components' in part ? part.components : []));
  const fields = modal.components.flatMap((part) => ('component' in part ? [part.component] : []));
  const filled = Object.fromEntries(fields.map(({ custom_id: name, value, values }) => [name, value ?? values ?? '']));
  const reason = rows
    .map(({ value }) => value)
    .join(' ')
    .replaceAll(/\s+/g, ' ');
  const words = fields.length === 0 ? reason : formWords(filled);
  return { ...button, line: `${button.line} ${words}`.trim(), filled: fields.length === 0 ? null : filled };
}

const TEXT = 4;
const SELECT = 3;
const LABEL = 18;
const LONGEST_REASON = 500;
const FIELD_LABEL_LENGTH = 45;
const TEXT_LENGTH = 100;
const FORMS_KEPT = 500;
const LIMITS = { fields: 5, options: 25, valueLength: TEXT_LENGTH };

const sentSchema = z.object({
  custom_id: z.string(),
  components: z.array(
    z.union([
      z.object({ components: z.array(z.object({ value: z.string() })) }),
      z.object({
        component: z.object({
          custom_id: z.string(),
          value: z.string().optional(),
          values: z.array(z.string()).optional(),
        }),
      }),
    ]),
  ),
});

function formKey(interaction: Interaction, { line, drawnFor }: PressedButton): string {
  return `${interaction.channel_id} ${principalOf(interaction)?.id} ${customId({ line: line.split(' ', 2).join(' '), drawnFor })}`;
}

function modalOf({ line, drawnFor }: PressedButton, fields: object): object {
  return { custom_id: customId({ line, drawnFor }), ...fields };
}

function drawField(field: FormField, sent: SentForm | null): object {
  const { name, label } = field;
  const error = sent?.errors[name];
  const hint = cutTo(error === undefined ? fieldHint(field) : `⚠ ${error}`, TEXT_LENGTH);
  const control = controlOf(field);
  const before = sent === null ? [control.initial].flat() : [sent.filled[field.name] ?? []].flat();
  const component =
    control.what === 'choice' ? menu(field, control.options, before) : textInput(field, control, before);
  const described = hint === '' ? {} : { description: hint };
  return { type: LABEL, label: cutTo(label, FIELD_LABEL_LENGTH), ...described, component };
}

function textInput(
  { name, required }: FormField,
  { longest, isLong }: Exclude<Control, { what: 'choice' }>,
  [before = '']: readonly string[],
): object {
  const value = before.slice(0, longest).toWellFormed();
  const limits = { required, max_length: longest, ...(value === '' ? {} : { value }) };
  return { type: TEXT, custom_id: name, style: isLong ? 2 : 1, ...limits };
}

function menu(
  { name, kind, required, least, most }: FormField,
  choices: FormField['options'],
  initial: readonly string[],
): object {
  const count = Math.max(1, Math.min(kind === 'some' ? (most ?? choices.length) : 1, choices.length));
  return {
    type: SELECT,
    custom_id: name,
    required,
    min_values: required ? Math.max(1, Math.min(least ?? 1, count)) : 0,
    max_values: count,
    options: choices.map(({ value, label }) => ({
      value,
      label: cutTo(label, TEXT_LENGTH) || value,
      ...(initial.slice(0, count).includes(value) ? { default: true } : {}),
    })),
  };
}
