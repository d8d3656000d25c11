import { z } from 'zod';
import type { Answer } from '../../turns/commands/context.ts';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { formWords } from '../../turns/text/form.ts';
import { formNote } from '../../turns/text/words.ts';
import type { FilledForm } from '../../turns/text/form.ts';
import { readDrawnFor } from '../../turns/drawn-for.ts';
import { askedWith } from '../../turns/floor/seats.ts';
import { openingButton, reasonAsked } from '../delivery/card.ts';
import { reasonOf } from '../delivery/connect-retry.ts';
import { parsedJson } from '../delivery/inbound.ts';
import { ERROR_LIMIT, answer, obey, toldInTime } from './commands.ts';
import type { Ack, CommandPorts, Recipient } from './commands.ts';
import { clipped, inSlackWords, textObject } from './content.ts';
import type { ButtonValue } from './content.ts';
import { ANSWER_FORM, filledOf, filledSchema, formView, inputBlock } from './form-view.ts';

/** Shows what a pressed button opens, within 3 s of that; `false`: nothing, or what it opens is over or cannot be drawn. */
export async function openPressed(ports: CommandPorts, pressed: Pressed): Promise<boolean> {
  const { opens } = pressed.meant;
  if (opens === undefined) return false;
  const view = VIEWS[opens](ports, pressed);
  if (view !== null) await openView(ports, pressed, view);
  return view !== null;
}

/** Runs the line of a form that was sent, with its words; `false`: it is another form. */
export async function takeForm(ports: CommandPorts, body: unknown, ack: Ack): Promise<boolean> {
  const reason = reasonSchema.safeParse(body);
  if (reason.success) await explained(ports, reason.data, ack);
  const rule = ruleSchema.safeParse(body);
  if (rule.success) await explained(ports, rule.data, ack);
  const form = answerSchema.safeParse(body);
  if (form.success) await filledForm(ports, form.data, ack);
  return reason.success || rule.success || form.success;
}

const REASON_FORM = 'conch:reason';
const LONGEST_REASON = 500;

const whySchema = z.looseObject({
  values: z.looseObject({ why: z.looseObject({ why: z.looseObject({ value: z.string().nullish() }) }) }),
});

const reasonSchema = z.looseObject({
  type: z.literal('view_submission'),
  user: z.looseObject({ id: z.string().min(1) }),
  trigger_id: z.string().min(1),
  view: z.looseObject({
    callback_id: z.literal(REASON_FORM),
    private_metadata: z.string().min(1),
    state: whySchema,
  }),
});

const RULE_FORM = 'conch:rule';

const ruleSchema = z.looseObject({
  ...reasonSchema.shape,
  view: z.looseObject({ callback_id: z.literal(RULE_FORM), private_metadata: z.string().min(1) }),
});

const answerSchema = z.looseObject({
  type: z.literal('view_submission'),
  user: z.looseObject({ id: z.string().min(1) }),
  trigger_id: z.string().min(1),
  view: z.looseObject({
    callback_id: z.literal(ANSWER_FORM),
    private_metadata: z.string().min(1),
    state: z.looseObject({ values: filledSchema }),
  }),
});

/** What a form for the words of a button keeps until it is sent. */
const refusedSchema = z.object({
  floor: z.string(),
  line: z.string().startsWith('/'),
  drawnFor: z.string(),
  channel: z.string(),
  thread: z.string().nullable(),
});

/** A button that opens a form, and who pressed it where. */
type Pressed = {
  readonly asker: Recipient;
  readonly floor: ChannelId;
  readonly trigger: string;
  readonly meant: ButtonValue;
};

/** What stays with a form until it is sent. */
function keptWith({ asker, floor, meant: { line, drawnFor } }: Pressed): string {
  const { channel, thread } = asker.at;
  return JSON.stringify({ floor, line, drawnFor, channel, thread });
}

/** Asks for the words that go behind the line of a button. */
function reasonView({ queries }: CommandPorts, pressed: Pressed): object {
  const field = { type: 'plain_text_input', action_id: 'why', multiline: true, max_length: LONGEST_REASON };
  return {
    type: 'modal',
    callback_id: REASON_FORM,
    private_metadata: keptWith(pressed),
    title: textObject('No because…'),
    submit: textObject('No'),
    close: textObject('Back'),
    blocks: [inputBlock('why', { label: reasonAsked(queries.view(pressed.floor), pressed.meant), element: field })],
  };
}

/** The form of an open question; `null`: it is over, or Slack cannot draw it, and the line of its button says which. */
function questionView(ports: CommandPorts, pressed: Pressed): object | null {
  const floor = ports.queries.view(pressed.floor);
  const found = floor === null ? null : openingButton(floor, { ...pressed.meant, opens: 'form' });
  if (found?.opens.what !== 'form') return null;
  const { title, about = {} } = found.asked.question;
  return formView({ title, note: formNote(about), fields: found.opens.of }, keptWith(pressed));
}

/** Asks whether a rule is meant, which stands there whole; `null`: the question is over. */
function ruleView({ queries }: CommandPorts, pressed: Pressed): object | null {
  const floor = queries.view(pressed.floor);
  const drawnFor = readDrawnFor(pressed.meant.drawnFor);
  const asked = floor === null || drawnFor?.of !== 'question' ? null : askedWith(floor, drawnFor.key);
  const rule = asked?.question.always?.[Number(pressed.meant.line.split(' ').at(-1)) - 1];
  if (rule === undefined) return null;
  const end = 'For 30 days it is not asked about, for this agent in this channel. /conch run approvals takes it back.';
  return {
    type: 'modal',
    callback_id: RULE_FORM,
    private_metadata: keptWith(pressed),
    title: textObject('Allow from now on?'),
    submit: textObject('Allow'),
    close: textObject('Back'),
    blocks: [`${rule.words}\n${rule.rule}`, end].map((text) => ({
      type: 'section',
      text: textObject(clipped(text, SECTION_LENGTH)),
    })),
  };
}

const SECTION_LENGTH = 2_900;

const VIEWS = { reason: reasonView, form: questionView, rule: ruleView } as const;

async function openView(ports: CommandPorts, { asker, floor, trigger, meant }: Pressed, view: object): Promise<void> {
  try {
    await ports.web.apiCall('views.open', { trigger_id: trigger, view });
  } catch (error) {
    ports.log.warn({ channel: floor, why: reasonOf(error) }, 'a form could not be shown');
    await answer(ports, asker, { ok: false, text: `Slack did not show the form. Say ${meant.line} and the words.` });
  }
}

/** Runs the line of a form with what was filled in. What is refused is shown beside its field, and the form stays open. */
async function filledForm(ports: CommandPorts, sent: z.output<typeof answerSchema>, ack: Ack): Promise<void> {
  if (!ports.deduplicator.claim(`trigger:${sent.trigger_id}`)) return ack();
  const { private_metadata: kept, state } = sent.view;
  const asked = parsedJson(kept, refusedSchema);
  if (asked === null) return ack();
  const { floor, drawnFor, channel, thread } = asked;
  const filled = filledOf(state.values);
  const line = `${asked.line} ${formWords(filled)}`;
  const errors: Record<string, string> = {};
  let said: Answer | null = null;
  const running = (async () => {
    said = await obey(ports, sent.user.id, { floor, line, drawnFor });
    if (!said.ok) Object.assign(errors, besideFields(said, filled));
  })();
  const late = await toldInTime(ports, ack, { running, errors });
  const asker: Recipient = { user: sent.user.id, at: { channel, thread }, responseUrl: null };
  if (late.length > 0) await answer(ports, asker, { ok: false, text: [...late, `You wrote: ${line}`].join('\n') });
  else if (Object.keys(errors).length === 0 && said !== null) await answer(ports, asker, said);
}

/** What is wrong beside its field; what is about no field stands beside the first. */
function besideFields({ text, fields = {} }: Answer, filled: FilledForm): Record<string, string> {
  const shown = (words: string): string => inSlackWords(words, false).slice(0, ERROR_LIMIT);
  const known = Object.entries(fields).filter(([name]) => Object.hasOwn(filled, name));
  if (known.length > 0) return Object.fromEntries(known.map(([name, why]) => [name, shown(why)]));
  return { [Object.keys(filled)[0] ?? '']: shown(text) };
}

/** Runs the line of a form, with the words that were written into it. */
async function explained(
  ports: CommandPorts,
  sent: z.output<typeof reasonSchema> | z.output<typeof ruleSchema>,
  ack: Ack,
): Promise<void> {
  await ack();
  if (!ports.deduplicator.claim(`trigger:${sent.trigger_id}`)) return;
  const { private_metadata: kept } = sent.view;
  const refused = parsedJson(kept, refusedSchema);
  if (refused === null) return;
  const { floor, line, drawnFor, channel, thread } = refused;
  const words = (
    'state' in sent.view ? (whySchema.safeParse(sent.view.state).data?.values.why.why.value ?? '') : ''
  ).replaceAll(/\s+/g, ' ');
  const asker: Recipient = { user: sent.user.id, at: { channel, thread }, responseUrl: null };
  const order = { floor, line: `${line} ${words}`.trim(), drawnFor };
  await answer(ports, asker, await obey(ports, sent.user.id, order));
}
