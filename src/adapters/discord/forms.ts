import { z } from 'zod';
import { BoundedMap } from '../../lib/keyed.ts';
import { excerpt } from '../../turns/commands/clock-words.ts';
import type { Answer } from '../../turns/commands/context.ts';
import type { AskedField } from '../../turns/floor/settings.ts';
import { fieldHint, formWords } from '../../turns/text/form.ts';
import type { FilledForm } from '../../turns/text/form.ts';
import { controlOf, isDrawable } from '../delivery/form-fields.ts';
import type { Control } from '../delivery/form-fields.ts';
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
  if (!isDrawable(fields, LIMITS)) return null;
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
const LABEL_LENGTH = 45;
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

function keyOf(user: string, { line, drawnFor }: PressedButton): string {
  return `${user} ${customId({ line: line.split(' ', 2).join(' '), drawnFor })}`;
}

function modal({ line, drawnFor }: PressedButton, shown: object): object {
  return { custom_id: customId({ line, drawnFor }), ...shown };
}

function drawn(field: AskedField, sent: SentForm | null): object {
  const { name, label } = field;
  const wrong = sent?.wrong[name];
  const hint = fitted(wrong === undefined ? fieldHint(field) : `⚠ ${wrong}`, TEXT_LENGTH);
  const control = controlOf(field);
  const before = sent === null ? [control.initial].flat() : [sent.filled[field.name] ?? []].flat();
  const component = control.what === 'choice' ? menu(field, control.options, before) : text(field, control, before);
  const described = hint === '' ? {} : { description: hint };
  return { type: LABEL, label: fitted(label, LABEL_LENGTH), ...described, component };
}

function text(
  { name, required }: AskedField,
  { longest, isLong }: Exclude<Control, { what: 'choice' }>,
  [before = '']: readonly string[],
): object {
  const value = before.slice(0, longest);
  const limits = { required, max_length: longest, ...(value === '' ? {} : { value }) };
  return { type: TEXT, custom_id: name, style: isLong ? 2 : 1, ...limits };
}

function menu(
  { name, kind, required, least, most }: AskedField,
  offered: AskedField['options'],
  given: readonly string[],
): object {
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

function fitted(words: string, length: number): string {
  return excerpt(words, length).slice(0, length).toWellFormed();
}
