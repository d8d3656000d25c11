import { fileURLToPath } from 'node:url';

const VARIABLE = 'NODE_COMPILE_CACHE';

/** Keeps the compiled code of every program that inherits this environment: with it, a program starts three times as fast. */
export function keepCompiled(): void {
  process.env[VARIABLE] ??= fileURLToPath(new URL('../../node_modules/.cache/tests', import.meta.url));
}

/** The variable that has a program use the compiled code, for programs whose environment is made by hand. */
export function compiledCode(): Readonly<Record<string, string>> {
  const folder = process.env[VARIABLE];
  return folder === undefined ? {} : { [VARIABLE]: folder };
}
