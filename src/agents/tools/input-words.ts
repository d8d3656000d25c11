/**
 * A tool's input for people: one line per key. A text of several lines is indented below its key, so that it cannot
 * look like another key.
 */
export function inputWords(input: unknown): string {
  if (typeof input === 'string') return input;
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return asJson(input);
  return Object.entries(input)
    .map(([key, value]) => `${PLAIN_KEY.test(key) ? key : asJson(key)}: ${valueWords(value)}`)
    .join('\n');
}

function valueWords(value: unknown): string {
  if (typeof value !== 'string') return indented(asJson(value));
  return value.includes('\n') ? `\n  ${indented(value)}` : value;
}

const PLAIN_KEY = /^[\w-]+$/;

/** A value as JSON on several lines; empty for a value that JSON cannot hold. */
export function asJson(value: unknown): string {
  return JSON.stringify(value, null, 1) ?? '';
}

function indented(text: string): string {
  return text.replaceAll('\n', '\n  ');
}
