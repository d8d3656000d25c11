/** A value that must not leave, and what it is called. */
type NamedSecret = { readonly name: string; readonly value: string };

/** The secrets that this program knows, as they may stand in a text: as they are, or as Base64 or part of an address. */
export class KnownSecrets {
  readonly #forms: readonly { readonly name: string; readonly form: string }[];

  constructor(secrets: readonly NamedSecret[]) {
    const long = secrets.filter(({ value }) => value.length >= SHORTEST);
    const forms = long.flatMap(({ name, value }) => formsOf(value).map((form) => ({ name, form })));
    this.#forms = forms.toSorted((one, other) => other.form.length - one.form.length);
  }

  /** The names of those that stand in a text, each once. */
  namesIn(text: string): readonly string[] {
    return [...new Set(this.#forms.filter(({ form }) => text.includes(form)).map(({ name }) => name))];
  }

  /** The text with the name of each in its place. */
  scrub(text: string): string {
    return this.#forms.reduce((clean, { name, form }) => clean.replaceAll(form, `«${name}»`), text);
  }
}

/** Shorter ones would be found in plain words. */
const SHORTEST = 8;

function formsOf(value: string): readonly string[] {
  const address = encodeURIComponent(value);
  return [...new Set([value, address, address.replaceAll('%20', '+'), ...base64Of(value)])];
}

/** In a longer text that is Base64 a value looks in one of three ways, by where it begins; its ends are mixed with what is beside it. */
function base64Of(value: string): readonly string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(value)]);
    const [first, end] = [Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6)];
    const form = bytes.toString('base64').slice(first, end);
    return [form, form.replaceAll('+', '-').replaceAll('/', '_')];
  });
}
