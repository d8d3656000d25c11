import { z } from 'zod';
import type { FormField } from '../floor/settings.ts';
import { parseFormWords, parseList } from '../text/form.ts';
import { defined } from '../../lib/defined.ts';

type CheckedForm =
  | { readonly ok: true; readonly content: Record<string, FieldValue> }
  | { readonly ok: false; readonly text: string; readonly fields: Readonly<Record<string, string>> };

type FieldValue = string | number | boolean | string[];

/**
 * Parses the words that answer a form and checks each value. An empty value becomes the field's default; without a
 * default, the field is left out.
 */
export function checkForm(words: string, form: readonly FormField[]): CheckedForm {
  const values = parseFormWords(
    words,
    form.map(({ name }) => name),
  );
  if (values === null) return { ok: false, text: NAMELESS, fields: {} };
  const content = Object.fromEntries(
    form.flatMap((field) => {
      const text = values.get(field.name) || (field.initial ?? '');
      return text === '' ? [] : [[field.name, valueOf(text, field)]];
    }),
  );
  const properties = Object.fromEntries(form.map((field) => [field.name, checkedBy(field)]));
  const required = form.flatMap((field) => (field.required ? [field.name] : []));
  const checked = z.fromJSONSchema({ type: 'object', properties, required }).safeParse(content);
  if (checked.success) return { ok: true, content };
  const wrong = checked.error.issues.map(({ path: [name = ''], message }): [string, string] => {
    const isThere = Object.hasOwn(content, String(name));
    return [String(name), isThere ? message : 'it is missing'];
  });
  const fields = Object.fromEntries(wrong.toReversed());
  return { ok: false, text: wrong.map(([name, why]) => `${name}: ${why}`).join('\n'), fields };
}

function valueOf(text: string, { kind, options }: FormField): FieldValue {
  const chosen = (answer: string): string =>
    options.find((each) => [each.value, each.label].some((word) => word.toLowerCase() === answer.toLowerCase()))
      ?.value ?? answer;
  switch (kind) {
    case 'boolean':
      return YES.test(text) ? true : NO.test(text) ? false : text;
    case 'number':
    case 'integer':
      return text.trim() === '' || Number.isNaN(Number(text)) ? text : Number(text);
    case 'some':
      return parseList(text).map(chosen);
    case 'one':
    case 'text':
      return chosen(text);
  }
}

/** Returns the schema to check a value. Leaves out a server's regular expressions: a hostile one could block Conch. */
function checkedBy({ kind, options, least, most, format }: FormField): z.core.JSONSchema.JSONSchema {
  const limits = (from: string, to: string): object => ({
    ...(least === undefined ? {} : { [from]: least }),
    ...(most === undefined ? {} : { [to]: most }),
  });
  const values = options.length === 0 ? {} : { enum: options.map(({ value }) => value) };
  switch (kind) {
    case 'boolean':
      return { type: kind };
    case 'number':
    case 'integer':
      return { type: kind, ...limits('minimum', 'maximum') };
    case 'some':
      return { type: 'array', items: { type: 'string', ...values }, ...limits('minItems', 'maxItems') };
    case 'one':
      return { type: 'string', ...values };
    case 'text':
      return { type: 'string', ...limits('minLength', 'maxLength'), ...defined({ format }) };
  }
}

const YES = /^(?:yes|y|true|on)$/i;
const NO = /^(?:no|n|false|off)$/i;
const NAMELESS = 'Each value needs the name of its field before it: name=value.';
