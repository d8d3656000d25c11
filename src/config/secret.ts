import { inspect } from 'node:util';

/** A value that must not be shown: however it is printed it reads `[secret]`; only `reveal` gives it. */
export class Secret {
  /** The variable that it comes from; `null`: it stands in the file. */
  readonly name: string | null;
  readonly #value: string;

  constructor(value: string, name: string | null = null) {
    this.#value = value;
    this.name = name;
  }

  /** The value itself, for whoever must send it or keep it out of a log. */
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

/** Whether a variable of this name holds a secret. */
export const isSecretName = (name: string): boolean => /TOKEN|KEY|SECRET|PASSWORD/i.test(name);

/** Pieces of a text that look like the tokens of known services. */
export const secretsIn = (text: string): readonly string[] =>
  text.match(/(?<![\w-])(?:(?:xox[a-z]-|xapp-|sk-)[\w-]{10,}|[MNO][\w-]{22,28}\.[\w-]{6,7}\.[\w-]{27,})/g) ?? [];

/** The password of an address such as that of a proxy, if it has one. */
export const passwordsIn = (text: string): readonly string[] =>
  [...text.matchAll(/^\w+:\/\/[^\s/:@]*:([^\s/@]+)@/g)].flatMap(([, password]) => password ?? []);

/** The text with every secret taken out. Secrets shorter than six characters stay: they would blot out plain words. */
export const withoutSecrets = (text: string, secrets: readonly Secret[]): string =>
  secrets.reduce((shown, secret) => {
    const value = secret.reveal();
    return value.length < 6 ? shown : shown.replaceAll(value, '[secret]');
  }, text);

/** Where a text of the file stands: its path, and the element before it in a list. */
type TextPlace = { readonly path: readonly PropertyKey[]; readonly before: unknown };

/**
 * The secrets that stand in a text of the file in clear: tokens of known services anywhere, values of fields and options whose names say
 * that they are secret, passwords and keys of addresses. A value given by `${NAME}` is none.
 */
export const writtenSecrets = (text: string, { path, before }: TextPlace): readonly string[] => {
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
  const passwords = passwordsIn(written).filter((password) => password !== '');
  return [...new Set([...secretsIn(text), ...certain, ...passwords, ...queryKeys(written)])].filter(
    (each) => each !== '',
  );
};

/** Fields for secrets, and variables and headers whose names say so. */
const isSecretField = (path: readonly PropertyKey[]): boolean => {
  const [group, field] = path.slice(-2).map(String);
  if (group === 'headers') return /^(?:authorization|cookie)$/i.test(field ?? '') || isSecretName(field ?? '');
  return group === 'env' ? isSecretName(field ?? '') : field === 'apiKey' || field === 'clientSecret';
};

/** Local servers want any key: "ollama", "not-needed". Such words are no secrets, and taking them out of the log would spoil it. */
const looksSecret = (value: string): boolean => value.length >= 10 && /\d/.test(value);

const queryKeys = (text: string): readonly string[] =>
  URL.canParse(text)
    ? [...new URL(text).searchParams].flatMap(([name, value]) =>
        isSecretName(name) && looksSecret(value) ? value : [],
      )
    : [];
