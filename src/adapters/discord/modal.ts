import { z } from 'zod';
import { BoundedMap } from '../../lib/keyed.ts';
import { excerpt } from '../../turns/commands/clock-words.ts';
import type { Answer } from '../../turns/commands/context.ts';
import type { AskedField } from '../../turns/floor/settings.ts';
import { fieldHint, formWords, valuesListed } from '../../turns/text/form.ts';
import type { FilledForm } from '../../turns/text/form.ts';
import { customId, readCustomId } from './content.ts';
import type { PressedButton } from './content.ts';

/** A form with one field, whose words go behind the line of the button that opened it; `label`: what becomes of them. */
export function reasonModal(button: PressedButton, label: string): object {
  const field = { type: TEXT, custom_id: 'why', label, style: 2, max_length: LONGEST_REASON };
  return modal(button, { title: 'No because…', components: [{ type: 1, components: [field] }] });
}

/** What somebody has sent of a form, and what was wrong with it. */
type SentForm = { readonly filled: FilledForm; readonly wrong: Readonly<Record<string, string>> };

/**
 * A form as Discord draws it, under a note about who sees the answer: the question itself stands in the channel. It comes with
 * what the same person sent before, and what was wrong with that beside its fields. `null`: it has more fields or longer
 * choices than Discord draws.
 */
export function formModal(
  button: PressedButton,
  form: { readonly note: string; readonly fields: readonly AskedField[] },
  sent: SentForm | null,
): object | null {
  const { note, fields } = form;
  if (fields.length === 0 || fields.length > MOST_FIELDS || !fields.every(isDrawn)) return null;
  return modal(button, { title: fitted(note, LABEL_LENGTH), components: fields.map((field) => drawn(field, sent)) });
}

/** A form that was sent: the line and the turn that it stands for, and what was filled in; `null` when it is none of Conch's. */
export function readModal(data: unknown): (PressedButton & { readonly filled: FilledForm | null }) | null {
  const read = sentSchema.safeParse(data).data;
  const button = read === undefined ? null : readCustomId(read.custom_id);
  if (read === undefined || button === null) return null;
  const rows = read.components.flatMap((part) => ('components' in part ? part.components : []));
  const fields = read.components.flatMap((part) => ('component' in part ? [part.component] : []));
  const filled = Object.fromEntries(fields.map(({ custom_id: name, value, values }) => [name, value ?? values ?? '']));
  const reason = rows
    .map(({ value }) => value)
    .join(' ')
    .replaceAll(/\s+/g, ' ');
  const words = fields.length === 0 ? reason : formWords(filled);
  return { ...button, line: `${button.line} ${words}`.trim(), filled: fields.length === 0 ? null : filled };
}

/** What people sent of forms that was not taken, so that nobody has to write it twice. */
export class SentForms {
  readonly #kept = new BoundedMap<string, SentForm>(FORMS_KEPT);

  /** What this person sent last of the form that the button opens. */
  of(user: string, button: PressedButton): SentForm | null {
    return this.#kept.get(keyOf(user, button)) ?? null;
  }

  /** Keeps it until it is taken. */
  answered(user: string, button: PressedButton, { filled, answer }: SentAnswer): void {
    if (answer.ok) this.#kept.delete(keyOf(user, button));
    else this.#kept.set(keyOf(user, button), { filled, wrong: answer.fields ?? {} });
  }
}

type SentAnswer = { readonly filled: FilledForm; readonly answer: Answer };

const TEXT = 4;
const SELECT = 3;
const LABEL = 18;
const LONGEST_REASON = 500;
/** A command line has room for no longer text. */
const LONGEST_TEXT = 1_500;
const SHORT_TEXT = 100;
const MOST_FIELDS = 5;
const MOST_OPTIONS = 25;
const LABEL_LENGTH = 45;
const TEXT_LENGTH = 100;
const FORMS_KEPT = 500;

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

function keyOf(user: string, { line, drawnFor }: PressedButton): string {
  return `${user} ${customId({ line: line.split(' ', 2).join(' '), drawnFor })}`;
}

function modal({ line, drawnFor }: PressedButton, shown: object): object {
  return { custom_id: customId({ line, drawnFor }), ...shown };
}

function isDrawn({ options }: AskedField): boolean {
  return options.length <= MOST_OPTIONS && options.every(({ value }) => value !== '' && value.length <= TEXT_LENGTH);
}

function drawn(field: AskedField, sent: SentForm | null): object {
  const { name, label } = field;
  const wrong = sent?.wrong[name];
  const hint = fitted(wrong === undefined ? fieldHint(field) : `⚠ ${wrong}`, TEXT_LENGTH);
  const component = field.options.length > 0 || field.kind === 'boolean' ? choice(field, sent) : text(field, sent);
  const described = hint === '' ? {} : { description: hint };
  return { type: LABEL, label: fitted(label, LABEL_LENGTH), ...described, component };
}

function text({ name, kind, required, most, format, initial }: AskedField, sent: SentForm | null): object {
  const longest = Math.min((kind === 'text' ? most : undefined) ?? LONGEST_TEXT, LONGEST_TEXT);
  const isLong = kind === 'text' && format === undefined && longest > SHORT_TEXT;
  const before = sent === null ? (initial ?? '') : sent.filled[name];
  const value = typeof before === 'string' ? before.slice(0, longest) : '';
  const limits = { required, max_length: Math.max(longest, 1), ...(value === '' ? {} : { value }) };
  return { type: TEXT, custom_id: name, style: isLong ? 2 : 1, ...limits };
}

function choice(
  { name, kind, required, options, least, most, initial = '' }: AskedField,
  sent: SentForm | null,
): object {
  const offered = kind === 'boolean' ? YES_OR_NO : options;
  const given =
    sent === null ? (kind === 'some' ? valuesListed(initial) : [initial]) : [sent.filled[name] ?? []].flat();
  const count = Math.max(1, Math.min(kind === 'some' ? (most ?? offered.length) : 1, offered.length));
  return {
    type: SELECT,
    custom_id: name,
    required,
    min_values: required ? Math.max(1, Math.min(least ?? 1, count)) : 0,
    max_values: count,
    options: offered.map(({ value, label }) => ({
      value,
      label: fitted(label, TEXT_LENGTH) || value,
      ...(given.includes(value) ? { default: true } : {}),
    })),
  };
}

const YES_OR_NO = [
  { value: 'yes', label: 'Yes' },
  { value: 'no', label: 'No' },
];

function fitted(words: string, length: number): string {
  return excerpt(words, length).slice(0, length).toWellFormed();
}
