type NamedSecret = { readonly name: string; readonly value: string };

/**
 * Finds named secrets in texts, also in JSON, URL-encoded or in Base64. Secrets shorter than 8 characters are ignored.
 */
export class KnownSecrets {
  readonly #patterns: readonly { readonly name: string; readonly forms: RegExp }[];

  constructor(secrets: readonly NamedSecret[]) {
    const long = secrets.filter(({ value }) => value.length >= SHORTEST);
    const longestFirst = long.toSorted((one, other) => other.value.length - one.value.length);
    this.#patterns = longestFirst.map(({ name, value }) => ({
      name,
      forms: new RegExp(secretForms(value).join('|'), 'g'),
    }));
  }

  /** The names of the secrets in a text, each once. */
  namesIn(text: string): readonly string[] {
    return [...new Set(this.#patterns.filter(({ forms }) => text.search(forms) !== -1).map(({ name }) => name))];
  }

  /** The text with each secret replaced by its name, as «NAME». */
  redact(text: string): string {
    return this.#patterns.reduce((clean, { name, forms }) => clean.replaceAll(forms, () => `«${name}»`), text);
  }
}

/** The shortest secret that is searched for, in characters. Shorter secrets would match plain words. */
const SHORTEST = 8;

/**
 * Returns regular expressions, as strings, for the forms of a secret in a text: plain, in JSON at any depth,
 * URL-encoded, in Base64. Each long line of a key is also a form, because a text may indent the lines.
 */
export function secretForms(secret: string): readonly string[] {
  const url = encodeURIComponent(secret.toWellFormed());
  const lowerUrl = url.replaceAll(/%[\dA-F]{2}/g, (byte) => byte.toLowerCase());
  const form = new URLSearchParams({ '': secret }).toString().slice(1);
  const inJson = literal(JSON.stringify(secret).slice(1, -1)).replaceAll(/(?:\\\\)+/g, String.raw`\\+`);
  const lines = secret.split(/[\r\n]+/).filter((line) => KEY_LINE.test(line));
  return [inJson, ...[secret, url, lowerUrl, form, ...base64Of(secret), ...lines].map(literal)];
}

/** A line of a key, such as those of a PEM file. Shorter lines and lines with spaces may be plain words. */
const KEY_LINE = /^\S{16,}$/;

function literal(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}/-]/g, String.raw`\$&`);
}

/**
 * The forms of a value inside a longer Base64 text, for each offset modulo 3 and both alphabets. The first and last
 * characters are cut if they also hold bits of neighbouring text.
 */
function base64Of(secret: string): readonly string[] {
  const bytes = Buffer.from(secret);
  return [0, 1, 2].flatMap((offset) => {
    const whole = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64');
    const own = whole.slice(Math.ceil((offset * 4) / 3), Math.floor(((offset + bytes.length) * 4) / 3));
    return own.length < SHORTEST_BASE64 ? [] : [own, own.replaceAll('+', '-').replaceAll('/', '_')];
  });
}

/** Shortest Base64 form that is searched for, in characters. */
const SHORTEST_BASE64 = 8;
