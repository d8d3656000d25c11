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
