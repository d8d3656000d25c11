/** Carries out one control request: calls a method with arguments, or returns a property. */
export async function control(
  server: Readonly<Record<string, unknown>>,
  name: string,
  args: unknown,
): Promise<unknown> {
  if (!Object.hasOwn(server, name)) throw new Error(`no control command ${name}`);
  const it = server[name];
  if (typeof it !== 'function') return it;
  if (!Array.isArray(args)) throw new TypeError('Expected a JSON array of arguments');
  const act = it as (...given: unknown[]) => unknown;
  return act(...args);
}
