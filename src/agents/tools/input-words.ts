/**
 * Returns a tool's input for people. Each key of an object begins a line. Further lines of a value are indented, so
 * that no such line looks like a key. A text is returned as it is, any other input as JSON.
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

/** A value as JSON on several lines; empty for `undefined` and functions. */
export function asJson(value: unknown): string {
  return JSON.stringify(value, null, 1) ?? '';
}

function indented(text: string): string {
  return text.replaceAll('\n', '\n  ');
}
