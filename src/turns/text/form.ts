import type { FormField } from '../floor/settings.ts';

/** The keyword in a form's schema that allows the channel to show the answer. */
export const PUBLIC = 'x-public';

/** The values of a form by field name. A list for a field with several values. */
export type FilledForm = Readonly<Record<string, string | readonly string[]>>;

/**
 * Returns the words that answer a form: "name=Ann colour=red". Empty values are left out. Ambiguous values are quoted.
 * When all values are empty, returns the first field without a value: "name=".
 */
export function formWords(filled: FilledForm): string {
  const pairs = Object.entries(filled).flatMap(([name, value]) => {
    const text = typeof value === 'string' ? value : listWords(value);
    return text === '' ? [] : [`${name}=${PLAIN.test(text) ? text : JSON.stringify(text)}`];
  });
  return pairs.length > 0 ? pairs.join(' ') : `${Object.keys(filled)[0] ?? ''}=`;
}

/** Joins several values of a field with commas, or as a JSON array if a value contains "," or "[". */
export function listWords(values: readonly string[]): string {
  return values.some((value) => /[,[]/.test(value)) ? JSON.stringify(values) : values.join(', ');
}

/** Parses several values of a field: a JSON array of texts, or values separated by commas. */
export function parseList(words: string): readonly string[] {
  return (words.startsWith('[') ? textsIn(words) : null) ?? words.split(',').map((value) => value.trim());
}

/**
 * Parses the words that answer a form into values by field name. For a form with one field the whole text can be its
 * value. Returns `null` when a value has no field name.
 */
export function parseFormWords(words: string, names: readonly string[]): ReadonlyMap<string, string> | null {
  if (names.length === 0) return new Map();
  const text = words.trim();
  const name = names.map((each) => each.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)).join('|');
  const here = new RegExp(`[\\s,;]*(${name})\\s*=\\s*`, 'y');
  const later = new RegExp(`(?<=[\\s,;])(?:${name})\\s*=`, 'g');
  const values = new Map<string, string>();
  for (let at = 0; at < text.length;) {
    here.lastIndex = at;
    const found = here.exec(text);
    if (found === null) return values.size === 0 && names.length === 1 ? new Map([[names[0] ?? '', text]]) : null;
    const from = here.lastIndex;
    const quoted = quotedAt(text, from);
    later.lastIndex = from;
    at = quoted?.end ?? later.exec(text)?.index ?? text.length;
    values.set(found[1] ?? '', quoted?.value ?? unquoted(text.slice(from, at)));
  }
  return values;
}

/** Returns example words for a form: "name=… colour=red". `<name>` for a form with one field; "done" without fields. */
export function exampleWords(form: readonly FormField[]): string {
  const [only] = form;
  if (only === undefined) return 'done';
  if (form.length === 1) return `<${only.name}>`;
  return form.map((field) => `${field.name}=${exampleOf(field)}`).join(' ');
}

function fieldFacts(field: FormField): string {
  const { required, initial } = field;
  const fallback = initial === undefined ? [] : [`${JSON.stringify(initial)} if left out`];
  return [required ? 'required' : 'may be left out', ...acceptedValues(field), ...fallback].join(', ');
}

/**
 * Returns the hint beside a form's field: the server's hint, and what the field accepts. Leaves out a kind or choices
 * that the form shows anyway.
 */
export function fieldHint(field: FormField): string {
  const { hint, kind, options, format } = field;
  const isPlain = options.length > 0 || kind === 'boolean' || (kind === 'text' && format === undefined);
  const takes = acceptedValues(field)
    .slice(isPlain ? 1 : 0)
    .join(', ');
  return [hint, takes].filter((text) => text !== '').join(' · ');
}

/** Returns a field as a line of a question: "color (required, one of red, green): Which one?". */
export function fieldLine(field: FormField): string {
  const { name, label, hint } = field;
  const about = [label === name ? '' : label, hint].filter((text) => text !== '').join(': ');
  return `${name} (${fieldFacts(field)})${about === '' ? '' : `: ${about}`}`;
}

function acceptedValues({ kind, options, least, most, format }: FormField): readonly string[] {
  const kindWords = kind === 'integer' ? 'a whole number' : kind === 'boolean' ? 'yes or no' : kind;
  const choices = options.map(({ value, label }) => (value === label ? value : `${value} (${label})`));
  const many = kind === 'text' ? ' characters' : kind === 'some' ? ' of them' : '';
  return [
    format ?? (choices.length === 0 ? kindWords : `${kind} of ${choices.join(', ')}`),
    ...(least === undefined ? [] : [`at least ${least}${many}`]),
    ...(most === undefined ? [] : [`at most ${most}${many}`]),
  ];
}

function exampleOf({ kind, options: [first] }: FormField): string {
  return first?.value ?? (kind === 'boolean' ? 'yes' : '…');
}

function quotedAt(text: string, from: number): { readonly value: string; readonly end: number } | null {
  const quoted = /"(?:[^"\\]|\\.)*"(?=[\s,;]|$)/y;
  quoted.lastIndex = from;
  const [literal] = quoted.exec(text) ?? [];
  const [value] = (literal === undefined ? null : textsIn(`[${literal}]`)) ?? [];
  return value === undefined ? null : { value, end: quoted.lastIndex };
}

function unquoted(text: string): string {
  return text.trim().replace(/[,;]$/, '').replaceAll(/^"|"$/g, '');
}

function textsIn(json: string): readonly string[] | null {
  try {
    const read: unknown = JSON.parse(json);
    return Array.isArray(read) && read.every((each) => typeof each === 'string') ? read : null;
  } catch {
    return null;
  }
}

const PLAIN = /^[^\s"=,;[]+(?: [^\s"=]*[^\s"=,;])*$/;
