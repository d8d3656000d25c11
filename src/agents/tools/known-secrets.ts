/** A secret and its name. */
type NamedSecret = { readonly name: string; readonly value: string };

/** The secrets that this program knows. Finds them in a text as plain text, in Base64, and percent-encoded. */
export class KnownSecrets {
  readonly #forms: readonly { readonly name: string; readonly form: string }[];

  constructor(secrets: readonly NamedSecret[]) {
    const long = secrets.filter(({ value }) => value.length >= SHORTEST);
    const forms = long.flatMap(({ name, value }) => formsOf(value).map((form) => ({ name, form })));
    this.#forms = forms.toSorted((one, other) => other.form.length - one.form.length);
  }

  /** The names of the secrets in a text, each once. */
  namesIn(text: string): readonly string[] {
    return [...new Set(this.#forms.filter(({ form }) => text.includes(form)).map(({ name }) => name))];
  }

  /** The text with each secret replaced by its name. */
  redact(text: string): string {
    return this.#forms.reduce((clean, { name, form }) => clean.replaceAll(form, `«${name}»`), text);
  }
}

/** Shorter secrets would match plain words. In characters. */
const SHORTEST = 8;

function formsOf(value: string): readonly string[] {
  const address = encodeURIComponent(value);
  return [...new Set([value, address, address.replaceAll('%20', '+'), ...base64Of(value)])];
}

/**
 * Returns the three forms of a value inside a longer Base64 text, one for each offset modulo 3. Characters at its
 * start and end are cut, because they also hold bits of neighbouring text.
 */
function base64Of(value: string): readonly string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(value)]);
    const [first, end] = [Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6)];
    const form = bytes.toString('base64').slice(first, end);
    return [form, form.replaceAll('+', '-').replaceAll('/', '_')];
  });
}
