/** The type of an object without its undefined fields: a field that may be undefined becomes optional. */
type Defined<T> = { readonly [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  readonly [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** Returns the fields that are not undefined, in the same order. Null stays. */
export function defined<T extends object>(fields: T): Defined<T> {
  const found: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) found[name] = value;
  return found as Defined<T>;
}

/** The value of a JSON text; `null` when the text is not JSON. */
export function jsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * Parses a JSON text by a schema of zod. A text that is not JSON is checked as `null`. Returns `null` when the value
 * does not match.
 */
export function parsedJson<T>(
  text: string,
  schema: { safeParse(value: unknown): { readonly data?: T | undefined } },
): T | null {
  return schema.safeParse(jsonOrNull(text)).data ?? null;
}

/** The message of an error; the text of any other value that was thrown. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
