import { isObject } from './state-text.ts';
import type { Json } from './state.ts';

/** Names that a control request may not use. */
const HIDDEN = new Set(['close', 'world', 'respond']);

/**
 * Carries out one control request. `path` names a function or value of the server ("write", "events.drop",
 * "requests"), `args` its arguments. Values without a JSON form become `null`.
 */
export async function obey(target: object, path: string, args: unknown): Promise<{ status: number; body: Json }> {
  const [first = '', ...rest] = path.split('.');
  if (HIDDEN.has(first)) return { status: 404, body: { ok: false, error: `${path} is not for control` } };
  let found: unknown = target;
  for (const name of [first, ...rest]) {
    if (!isObject(found) || !Object.hasOwn(found, name))
      return { status: 404, body: { ok: false, error: `there is no ${path}` } };
    found = found[name];
  }
  try {
    const result: unknown = typeof found === 'function' ? await found(...(Array.isArray(args) ? args : [])) : found;
    return { status: 200, body: { ok: true, result: typeof result === 'function' ? null : (result ?? null) } };
  } catch (error) {
    return { status: 400, body: { ok: false, error: error instanceof Error ? error.message : 'failed' } };
  }
}
