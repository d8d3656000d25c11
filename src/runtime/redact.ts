const SHOWN = '[secret]';
/** Shorter values would blot out plain words. */
const SHORTEST = 6;
/** Of a base64 form only the characters that no neighbour changes can be looked for; fewer would be found everywhere. */
const SHORTEST_BASE64 = 8;

/** Begins a word: not after a letter, unless that ends a JSON escape ("\n"). */
const START = String.raw`(?<=^|[^\w-]|\\[bfnrt])`;

/** What tokens of known services look like; what stands in the first group is kept. */
const PATTERNS = [
  new RegExp(`()${START}(?:xox[a-z]-|xapp-|sk-)[\\w-]{10,}`, 'g'),
  new RegExp(`()${START}[MNO][\\w-]{22,28}\\.[\\w-]{6,7}\\.[\\w-]{27,}`, 'g'),
  /(webhooks(?:\/|%2F)\d{5,}(?:\/|%2F))[\w-]{10,}/gi,
  /(hooks\.slack\.com(?:\/|%2F)services(?:\/|%2F))[\w/%]{10,}/gi,
  /(\bBearer(?:\s|%20|\+)+)[\w.~+/=-]{8,}/gi,
  /(:\/\/[^\s/:@"\\]{0,64}:)[^\s/@"\\]{1,256}(?=@)/g,
] as const;

/**
 * Returns a function that takes secrets out of a line of JSON: the given values of at least six characters, plain,
 * escaped, URL-encoded and in base64, and whatever looks like a token of a known service. The line stays JSON.
 */
export function redactor(secrets: readonly string[]): (line: string) => string {
  const redact = textRedactor(secrets);
  const hasNumbers = secrets.some((secret) => secret.length >= SHORTEST && isNumber(secret));
  return hasNumbers ? (line) => redactValues(line, redact) : redact;
}

/** The same for a text that is not JSON, such as one for a channel. */
export function textRedactor(secrets: readonly string[]): (text: string) => string {
  const values = [...new Set(secrets)].filter((secret) => secret.length >= SHORTEST);
  const forms = [...new Set(values.flatMap(formsOf))].sort((a, b) => b.length - a.length);
  const known = forms.length === 0 ? null : new RegExp(forms.join('|'), 'g');
  return (text) => {
    const rest = known === null ? text : text.replaceAll(known, SHOWN);
    return PATTERNS.reduce((shown, pattern) => shown.replaceAll(pattern, `$1${SHOWN}`), rest);
  };
}

/** Expressions for a value as it is and as it may be written in a line, however often it was put into JSON on the way. */
function formsOf(secret: string): readonly string[] {
  const url = encodeURIComponent(secret.toWellFormed());
  const lowerUrl = url.replaceAll(/%[\dA-F]{2}/g, (byte) => byte.toLowerCase());
  const form = new URLSearchParams({ '': secret }).toString().slice(1);
  const inJson = literal(JSON.stringify(secret).slice(1, -1)).replaceAll(/(?:\\\\)+/g, String.raw`\\+`);
  return [inJson, ...[secret, url, lowerUrl, form, ...base64Of(secret)].map(literal)];
}

function literal(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}/-]/g, String.raw`\$&`);
}

/** How a value looks inside base64 that holds it, at each of the three places where it can begin. */
function base64Of(secret: string): readonly string[] {
  const bytes = Buffer.from(secret);
  return [0, 1, 2].flatMap((offset) => {
    const whole = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64');
    const own = whole.slice(Math.ceil((offset * 4) / 3), Math.floor(((offset + bytes.length) * 4) / 3));
    return own.length < SHORTEST_BASE64 ? [] : [own, own.replaceAll('+', '-').replaceAll('/', '_')];
  });
}

function isNumber(secret: string): boolean {
  return !Number.isNaN(Number(secret));
}

/** A secret that is a number may stand in a line without quotes, where a replacement would break the JSON. */
function redactValues(line: string, redact: (text: string) => string): string {
  const parsed: unknown = JSON.parse(line, (_, value: unknown) => {
    if (typeof value !== 'number') return value;
    const shown = redact(String(value));
    return shown === String(value) ? value : shown;
  });
  return `${redact(JSON.stringify(parsed))}\n`;
}
