import { inspect } from 'node:util';
import { isSecretName, passwordIn } from '../lib/unsafe-variables.ts';
import type { PathProblem } from './error.ts';
import type { Env } from './world.ts';

/** A secret value. It prints as `[secret]`; only `reveal` returns it. */
export class Secret {
  /** The environment variable that holds the value; `null` when no variable was given. */
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
  values.sort((a, b) => b.length - a.length);
  return values.reduce((redacted, value) => redacted.replaceAll(value, '[secret]'), text);
};

/** Where a text stands in the file: its path, and the list element before the text. */
type TextPlace = { readonly path: readonly PropertyKey[]; readonly before: unknown };

/**
 * Returns secrets written in a text of the file: tokens of known services, values of fields and options with secret
 * names, passwords and keys in addresses. Values of fields and options, except `clientSecret`, count only if they look
 * secret. The value of a `${NAME}` does not count.
 */
const writtenSecrets = (text: string, { path, before }: TextPlace): readonly string[] => {
  const written = text.replaceAll(/\$\{[^{}]*\}/g, '');
  const option = /^--?([\w-]+)=(.*)$/s.exec(written);
  const candidates = isSecretPlace({ path, before })
    ? [written.replace(SCHEME, '')]
    : option !== null && isSecretName(option[1] ?? '')
      ? [option[2] ?? '']
      : [];
  const isSecret = path.at(-1) === 'clientSecret' ? () => true : isKeyField(path) ? looksKey : looksSecret;
  const certain = candidates.filter(isSecret);
  const password = passwordIn(written) ?? '';
  return [...new Set([...secretsIn(text), ...certain, password, ...queryKeys(written)])].filter((each) => each !== '');
};

const SCHEME = /^(?:Bearer|Basic|Token|Bot) /i;

const isSecretPlace = ({ path, before }: TextPlace): boolean => {
  const [group, field = ''] = path.slice(-2).map(String);
  const isNamed = group === 'env' || group === 'set' || group === 'headers';
  if (isKeyField(path) || (isNamed && isSecretName(field))) return true;
  return typeof before === 'string' && /^--?[\w-]+$/.test(before) && isSecretName(before);
};

const isKeyField = (path: readonly PropertyKey[]): boolean => {
  const [group, field = ''] = path.slice(-2).map(String);
  if (group === 'headers') return /^(?:authorization|cookie)$/i.test(field);
  if (group === 'env' || group === 'set') return false;
  return (
    /^(?:apiKey|clientSecret)$/.test(field) || (field === 'token' && /^(?:tickets|pullRequests)$/.test(group ?? ''))
  );
};

const looksKey = (value: string): boolean =>
  value.length >= 10 && isNoPlaceholder(value) && !/^[A-Z]+(?:_[A-Z]+)+$/.test(value);

/** False for words such as "ollama", which people write as the key for a server without keys. */
const isNoPlaceholder = (value: string): boolean =>
  !/^(?:ollama|lm-?studio|no-?(?:api-?)?key|not-?(?:needed|required|used)|dummy-?key|placeholder|sk-no-key-required)$/i.test(
    value,
  );

/**
 * False for a placeholder, a whole number, and a path that begins with `/`, `~` or `.`. Such a value is a setting, also
 * under a secret name.
 */
const isNoSetting = (value: string): boolean => isNoPlaceholder(value) && !/^(?:\d+$|[~/.])/.test(value);

/** True for a text of at least 10 characters with a digit. Redacting other texts would spoil the log. */
const looksSecret = (value: string): boolean => value.length >= 10 && /\d/.test(value);

const queryKeys = (text: string): readonly string[] =>
  URL.canParse(text)
    ? [...new URL(text).searchParams].flatMap(([name, value]) =>
        isSecretName(name) && looksSecret(value) ? value : [],
      )
    : [];

/** A JSON value with `${NAME}` replaced, and the problems and secrets that were found. */
export type Filled = ReturnType<typeof fillReferences>;

/**
 * Replaces `${NAME}` in every string of a JSON value by the variable's value. `$${NAME}` becomes `${NAME}`. A missing
 * variable is a problem.
 */
export const fillReferences = (value: unknown, env: Env) => {
  // `secrets`: values of variables with secret names, and of variables that fill a field for a secret. `written`:
  // secrets in the file. `tokens`: a warning for each text with a written secret.
  const results = {
    problems: [] as PathProblem[],
    secrets: [] as Secret[],
    written: [] as Secret[],
    tokens: [] as PathProblem[],
  };
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
    results.written.push(...written);
    if (written.length > 0) results.tokens.push({ path, weight: 'unwise', message: WRITTEN });
    // A variable without a secret name is secret if it fills a field for a secret. Exceptions: a value that is a
    // placeholder; outside of key fields, also a value that looks like a setting.
    const isWhole = isSecretPlace({ path, before }) && /^\$\{[^{}]*\}$/.test(part.replace(SCHEME, ''));
    const mayBeSecret = isKeyField(path) ? isNoPlaceholder : isNoSetting;
    return part.replaceAll(/(\$?)\$\{([^{}]*)\}/g, (whole: string, escape: string, name: string) => {
      if (escape !== '') return whole.slice(1);
      const variableValue = Object.hasOwn(env, name) ? env[name] : undefined;
      if (variableValue === undefined) results.problems.push({ path, message: missing(name) });
      else if (isSecretName(name) || (isWhole && mayBeSecret(variableValue)))
        results.secrets.push(new Secret(variableValue, name));
      return variableValue ?? whole;
    });
  };
  return { value: fill(value, []), ...results };
};

const WRITTEN = 'A secret is written here in clear text: move it to .env and write ${NAME} instead';

const missing = (name: string): string =>
  /^[A-Za-z_]\w*$/.test(name)
    ? `The environment variable ${name} is not set: set it, or add it to .env`
    : `"\${${name}}" names no environment variable: write "$\${${name}}" if it is only text`;
