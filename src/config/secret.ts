import { inspect } from 'node:util';
import { isSecretName, passwordIn } from '../lib/unsafe-variables.ts';
import type { Found } from './error.ts';
import type { Env } from './world.ts';

/** A secret value. It prints as `[secret]`; only `reveal` returns it. */
export class Secret {
  /** The variable that holds the value; `null` when it is unknown or the value is written in the file. */
  readonly name: string | null;
  readonly #value: string;

  constructor(value: string, name: string | null = null) {
    this.#value = value;
    this.name = name;
  }

  /** Returns the value, to send it or to redact it. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return '[secret]';
  }

  toJSON(): string {
    return '[secret]';
  }

  [inspect.custom](): string {
    return '[secret]';
  }
}

/** Returns parts of a text that look like tokens of known services. */
const secretsIn = (text: string): readonly string[] =>
  text.match(/(?<![\w-])(?:(?:xox[a-z]-|xapp-|sk-)[\w-]{10,}|[MNO][\w-]{22,28}\.[\w-]{6,7}\.[\w-]{27,})/g) ?? [];

/** Redacts every secret in a text. Secrets shorter than 6 characters stay, because they would redact ordinary words. */
export const withoutSecrets = (text: string, secrets: readonly Secret[]): string => {
  const values = secrets.map((secret) => secret.reveal()).filter((value) => value.length >= 6);
  // The longest first: a secret may be a part of another one.
  values.sort((one, other) => other.length - one.length);
  return values.reduce((shown, value) => shown.replaceAll(value, '[secret]'), text);
};

/** The path of a text in the file, and the element before it in a list. */
type TextPlace = { readonly path: readonly PropertyKey[]; readonly before: unknown };

/**
 * Returns secrets written in a text of the file: tokens of known services, values of fields and options with secret
 * names, passwords and keys in addresses. The value of a `${NAME}` does not count.
 */
const writtenSecrets = (text: string, { path, before }: TextPlace): readonly string[] => {
  const written = text.replaceAll(/\$\{[^{}]*\}/g, '');
  const field = String(path.at(-1));
  const option = /^--?([\w-]+)=(.*)$/s.exec(written);
  const given =
    isSecretField(path) || (typeof before === 'string' && /^--?[\w-]+$/.test(before) && isSecretName(before))
      ? [written.replace(/^(?:Bearer|Basic|Token|Bot) /i, '')]
      : option !== null && isSecretName(option[1] ?? '')
        ? [option[2] ?? '']
        : [];
  const certain = field === 'clientSecret' ? given : given.filter(looksSecret);
  const password = passwordIn(written) ?? '';
  return [...new Set([...secretsIn(text), ...certain, password, ...queryKeys(written)])].filter((each) => each !== '');
};

/** True for `apiKey`, `clientSecret` and login headers, and for secret names in `env`, `set` and `headers`. */
const isSecretField = (path: readonly PropertyKey[]): boolean => {
  const [group, field] = path.slice(-2).map(String);
  if (group === 'headers') return /^(?:authorization|cookie)$/i.test(field ?? '') || isSecretName(field ?? '');
  return group === 'env' || group === 'set'
    ? isSecretName(field ?? '')
    : field === 'apiKey' || field === 'clientSecret';
};

/**
 * True for a text of at least 10 characters with a digit. Redacting other texts, such as the placeholder key "ollama",
 * would spoil the log.
 */
const looksSecret = (value: string): boolean => value.length >= 10 && /\d/.test(value);

const queryKeys = (text: string): readonly string[] =>
  URL.canParse(text)
    ? [...new URL(text).searchParams].flatMap(([name, value]) =>
        isSecretName(name) && looksSecret(value) ? value : [],
      )
    : [];

/** A JSON value with every `${NAME}` replaced. */
export type Filled = ReturnType<typeof fillReferences>;

/**
 * Replaces `${NAME}` in every string of a JSON value by the variable's value. `$${NAME}` becomes `${NAME}`. A missing
 * variable is a problem.
 */
export const fillReferences = (value: unknown, env: Env) => {
  // `secrets`: values of referenced variables with secret names. `written`: secrets in the file. `tokens`: warnings of
  // these.
  const found = { problems: [] as Found[], secrets: [] as Secret[], written: [] as Secret[], tokens: [] as Found[] };
  const fill = (part: unknown, path: readonly PropertyKey[], before: unknown = null): unknown => {
    if (typeof part === 'string') return text(part, path, before);
    if (Array.isArray(part)) {
      return part.map((element: unknown, index) => fill(element, [...path, index], part[index - 1]));
    }
    if (typeof part !== 'object' || part === null) return part;
    return Object.fromEntries(Object.entries(part).map(([key, member]) => [key, fill(member, [...path, key])]));
  };
  const text = (part: string, path: readonly PropertyKey[], before: unknown): string => {
    const written = writtenSecrets(part, { path, before }).map((token) => new Secret(token));
    found.written.push(...written);
    if (written.length > 0) found.tokens.push({ path, weight: 'unwise', message: WRITTEN });
    return part.replaceAll(/(\$?)\$\{([^{}]*)\}/g, (whole: string, escape: string, name: string) => {
      if (escape !== '') return whole.slice(1);
      const known = Object.hasOwn(env, name) ? env[name] : undefined;
      if (known === undefined) found.problems.push({ path, message: missing(name) });
      else if (isSecretName(name)) found.secrets.push(new Secret(known, name));
      return known ?? whole;
    });
  };
  return { value: fill(value, []), ...found };
};

const WRITTEN = 'A secret is written here in clear text: move it to .env and write ${NAME} instead';

const missing = (name: string): string =>
  /^[A-Za-z_]\w*$/.test(name)
    ? `The environment variable ${name} is not set: set it, or add it to .env`
    : `"\${${name}}" names no environment variable: write "$\${${name}}" if it is only text`;
