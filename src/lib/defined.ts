/** The fields without those whose value is undefined; a field that may be undefined becomes optional. */
type Defined<T> = { readonly [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  readonly [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** Returns the fields that are not undefined, in the same order. Null stays. */
export function defined<T extends object>(fields: T): Defined<T> {
  const found: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) found[name] = value;
  return found as Defined<T>;
}
