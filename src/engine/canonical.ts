/**
 * Serializes a value as JSON with sorted keys and without spaces. Equal values give equal bytes. Drops keys with the
 * value `undefined`. Throws for functions, symbols, bigints, numbers that are not finite, and `undefined` elsewhere.
 */
export function canonical(value: unknown): string {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'number' && Number.isFinite(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object') throw new Error(`impossible: a ${typeof value} cannot be stored as JSON`);
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`).join(',')}}`;
}
