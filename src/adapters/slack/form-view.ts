import { z } from 'zod';
import { excerpt } from '../../turns/commands/clock-words.ts';
import type { AskedField } from '../../turns/floor/settings.ts';
import { fieldHint, valuesListed } from '../../turns/text/form.ts';
import type { FilledForm } from '../../turns/text/form.ts';
import { textObject } from './content.ts';
import { defined } from '../../lib/defined.ts';

/** The name of such a form in Slack's payloads. */
export const ANSWER_FORM = 'conch:answer';

/** A form that a server of tools asks people to fill in, as Slack draws it; `null`: it has more fields or longer choices than that. */
export function formView(
  form: { readonly title: string; readonly note: string; readonly fields: readonly AskedField[] },
  metadata: string,
): object | null {
  const { title, note, fields } = form;
  if (fields.length === 0 || fields.length > MOST_FIELDS || !fields.every(isDrawn)) return null;
  return {
    type: 'modal',
    callback_id: ANSWER_FORM,
    private_metadata: metadata,
    title: textObject('Answer'),
    submit: textObject('Answer'),
    close: textObject('Back'),
    blocks: [
      { type: 'section', text: textObject(title.slice(0, TITLE_LENGTH)) },
      ...fields.map(fieldBlock),
      { type: 'context', elements: [textObject(`${note}.`)] },
    ],
  };
}

/** A field of a form with its label; its name is what it is known by. */
export function inputBlock(
  id: string,
  field: { readonly label: string; readonly element: object; readonly optional?: boolean; readonly hint?: string },
): object {
  const { label, element, optional = false, hint = '' } = field;
  const hinted = hint === '' ? {} : { hint: textObject(hint) };
  return { type: 'input', block_id: id, label: textObject(label), element, optional, ...hinted };
}

/** What was filled in, as Slack sends it. */
export const filledSchema = z.record(
  z.string(),
  z.record(
    z.string(),
    z.looseObject({
      value: z.string().nullish(),
      selected_option: z.looseObject({ value: z.string() }).nullish(),
      selected_options: z.array(z.looseObject({ value: z.string() })).nullish(),
    }),
  ),
);

/** What was filled in, by the names of the fields. */
export function filledOf(values: z.output<typeof filledSchema>): FilledForm {
  return Object.fromEntries(
    Object.entries(values).map(([name, elements]) => {
      const [given] = Object.values(elements);
      const many = given?.selected_options?.map(({ value }) => value);
      return [name, many ?? given?.selected_option?.value ?? given?.value ?? ''];
    }),
  );
}

const MOST_FIELDS = 48;
const MOST_OPTIONS = 100;
const OPTION_LENGTH = 75;
const VALUE_LENGTH = 150;
const LABEL_LENGTH = 300;
const TITLE_LENGTH = 3_000;
/** A command line has room for no longer text. */
const LONGEST_TEXT = 1_500;
const SHORT_TEXT = 100;

function isDrawn({ options }: AskedField): boolean {
  return options.length <= MOST_OPTIONS && options.every(({ value }) => value !== '' && value.length <= VALUE_LENGTH);
}

function fieldBlock(field: AskedField): object {
  const { name, label, required } = field;
  const hint = excerpt(fieldHint(field), LABEL_LENGTH);
  return inputBlock(name, {
    label: excerpt(label, LABEL_LENGTH),
    element: elementOf(field),
    optional: !required,
    hint,
  });
}

function elementOf(field: AskedField): object {
  const { name, kind, options, initial = '' } = field;
  if (kind === 'boolean') return choice(field, YES_OR_NO);
  if (options.length > 0) return choice(field, options);
  const isNumber = kind === 'integer' || kind === 'number';
  const before = initial === '' || (isNumber && Number.isNaN(Number(initial))) ? {} : { initial_value: initial };
  const named = { action_id: name, ...before };
  if (isNumber) return { type: 'number_input', is_decimal_allowed: kind === 'number', ...named };
  const longest = Math.max(1, Math.min((kind === 'text' ? field.most : undefined) ?? LONGEST_TEXT, LONGEST_TEXT));
  const multiline = kind === 'text' && field.format === undefined && longest > SHORT_TEXT;
  return { type: 'plain_text_input', multiline, max_length: longest, ...named };
}

function choice({ name, kind, most, initial = '' }: AskedField, offered: AskedField['options']): object {
  const options = offered.map(({ value, label }) => ({
    text: textObject(excerpt(label, OPTION_LENGTH) || value),
    value,
  }));
  const given = kind === 'some' ? valuesListed(initial) : [initial];
  const chosen = options.filter(({ value }) => given.includes(value));
  const [first] = chosen;
  if (kind !== 'some') {
    const before = defined({ initial_option: first });
    return { type: 'static_select', action_id: name, options, ...before };
  }
  const limit = most === undefined || most < 1 ? {} : { max_selected_items: most };
  const before = first === undefined ? {} : { initial_options: chosen };
  return { type: 'multi_static_select', action_id: name, options, ...limit, ...before };
}

const YES_OR_NO = [
  { value: 'yes', label: 'Yes' },
  { value: 'no', label: 'No' },
];
