import { z } from 'zod';

/** A type whose fields and lists are readonly at every depth. */
export type Frozen<T> = T extends readonly (infer E)[]
  ? readonly Frozen<E>[]
  : T extends object
    ? { readonly [K in keyof T]: Frozen<T[K]> }
    : T;

type Shapes = Readonly<Record<string, z.ZodRawShape>>;

/** A union of objects, one for each of the shapes, told apart by the field `Tag`. */
export type Tagged<Tag extends string, S extends Shapes> = {
  [Name in keyof S]: Frozen<z.infer<z.ZodObject<S[Name] & Record<Tag, z.ZodLiteral<Name & string>>>>>;
}[keyof S];

/**
 * Makes a function that returns whether a value is an object of a `Tagged` union. The function checks the tag only.
 * The other fields are not checked: do not pass values from outside the program.
 */
export function hasTagOf<Tag extends string, S extends Shapes>(
  tag: Tag,
  shapes: S,
): (value: unknown) => value is Tagged<Tag, S> {
  const names: ReadonlySet<unknown> = new Set(Object.keys(shapes));
  return (value): value is Tagged<Tag, S> => value instanceof Object && names.has(Reflect.get(value, tag));
}

/** Returns the schema of a `Tagged` union. It refuses unknown tags and unknown fields. */
export function taggedUnion<Tag extends string, S extends Shapes>(tag: Tag, shapes: S): z.ZodType<Tagged<Tag, S>> {
  const [first, ...others] = Object.entries(shapes).map(([name, shape]) =>
    z.strictObject({ ...shape, [tag]: z.literal(name) }),
  );
  if (first === undefined) throw new Error('impossible: a union of nothing');
  // Asserted, because zod infers from a list of shapes only their common fields.
  return z.discriminatedUnion(tag, [first, ...others]) as unknown as z.ZodType<Tagged<Tag, S>>;
}
