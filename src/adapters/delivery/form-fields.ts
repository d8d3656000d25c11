import type { AskedField } from '../../turns/floor/settings.ts';
import { valuesListed } from '../../turns/text/form.ts';

/** What a platform's forms take. */
type FormLimits = { readonly fields: number; readonly options: number; readonly valueLength: number };

/** Whether a platform can draw a form: one with more fields or longer choices is answered in words. */
export function isDrawable(fields: readonly AskedField[], limits: FormLimits): boolean {
  const fits = ({ options }: AskedField): boolean =>
    options.length <= limits.options &&
    options.every(({ value }) => value !== '' && value.length <= limits.valueLength);
  return fields.length > 0 && fields.length <= limits.fields && fields.every(fits);
}

/** What a field is drawn as: a choice among options, or a text of at most `longest` letters. */
export type Control =
  | { readonly what: 'choice'; readonly options: AskedField['options']; readonly initial: readonly string[] }
  | { readonly what: 'text' | 'number'; readonly longest: number; readonly isLong: boolean; readonly initial: string };

/** A command line has room for no longer text. */
const LONGEST_TEXT = 1_500;
/** Longer texts get a field of several lines. */
const SHORT_TEXT = 100;
const YES_OR_NO = [
  { value: 'yes', label: 'Yes' },
  { value: 'no', label: 'No' },
];

/** How a field is drawn on every platform. */
export function controlOf({ kind, options, most, format, initial = '' }: AskedField): Control {
  if (kind === 'boolean' || options.length > 0)
    return {
      what: 'choice',
      options: kind === 'boolean' ? YES_OR_NO : options,
      initial: kind === 'some' ? valuesListed(initial) : [initial],
    };
  const longest = Math.max(1, Math.min((kind === 'text' ? most : undefined) ?? LONGEST_TEXT, LONGEST_TEXT));
  const isLong = kind === 'text' && format === undefined && longest > SHORT_TEXT;
  return { what: kind === 'integer' || kind === 'number' ? 'number' : 'text', longest, isLong, initial };
}
