import type { z } from 'zod';

/** The value of a JSON text; `null` when the text is not JSON. */
export function jsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Parses a JSON text by a schema. Returns `null` when the text does not match. */
export function parsedJson<T>(text: string, schema: z.ZodType<T>): T | null {
  return schema.safeParse(jsonOrNull(text)).data ?? null;
}
