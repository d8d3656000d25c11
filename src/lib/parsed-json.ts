import type { z } from 'zod';

/** What a JSON text of this shape says; `null` for any other text. */
export function parsedJson<T>(text: string, schema: z.ZodType<T>): T | null {
  try {
    return schema.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}
