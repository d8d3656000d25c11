import { pathText } from './error.ts';
import type { Found, Problem } from './error.ts';
import { isSecretName, Secret, writtenSecrets } from './secret.ts';

/** The values of environment variables, by name. */
export type Env = Readonly<Record<string, string | undefined>>;

/** A JSON value with every `${NAME}` replaced. */
export type Filled = {
  readonly value: unknown;
  readonly problems: readonly Found[];
  /** Values of referenced variables with secret names. */
  readonly secrets: readonly Secret[];
  /** Secrets written into the file. */
  readonly written: readonly Secret[];
  /** Warnings with the places of these secrets. */
  readonly tokens: readonly Found[];
};

/**
 * Replaces `${NAME}` in every string of a JSON value by the variable's value. `$${NAME}` becomes `${NAME}`. A missing
 * variable is a problem.
 */
export const fillReferences = (value: unknown, env: Env): Filled => {
  const found = {
    problems: [] as Found[],
    secrets: [] as Secret[],
    written: [] as Secret[],
    tokens: [] as Found[],
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

/** Adds the line to a problem. */
export const placed = (problem: Found, lineOf: (path: readonly PropertyKey[]) => number): Problem => ({
  path: pathText(problem.path),
  line: lineOf(problem.path),
  message: problem.message,
});

const WRITTEN = 'A secret is written here in clear text: move it to .env and write ${NAME} instead';

const missing = (name: string): string =>
  /^[A-Za-z_]\w*$/.test(name)
    ? `The environment variable ${name} is not set: set it, or add it to .env`
    : `"\${${name}}" names no environment variable: write "$\${${name}}" if it is only text`;
