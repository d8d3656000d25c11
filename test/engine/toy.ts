import { z } from 'zod';
import type { CommandFor, Machine } from '../../src/engine/machine.ts';
import type { Instant } from '../../src/lib/time.ts';

/** A counter that falls back to zero a second after it was last counted up, and can have another one counted, too. */
export type Count = { readonly value: number; readonly resetAt: Instant | null };
type Act = z.infer<typeof actSchema>;
type Counted = z.infer<typeof countedSchema>;

const actSchema = z.union([
  z.strictObject({ type: z.literal('add'), by: z.number(), also: z.array(z.string()).optional() }),
  z.strictObject({ type: z.literal('tick') }),
]);
const countedSchema = z.union([
  z.strictObject({ type: z.literal('added'), by: z.number(), also: z.array(z.string()) }),
  z.strictObject({ type: z.literal('reset') }),
]);

/** Everything that it takes to have a machine hosted. */
export const counter: Machine<Count, Act, Counted, { readonly shown: number }> = {
  name: 'counter',
  version: 1,
  empty: () => ({ value: 0, resetAt: null }),
  decide: ({ resetAt }, act, at) => {
    if (act.type === 'add')
      return act.by > 0
        ? { ok: true, facts: [{ type: 'added', by: act.by, also: act.also ?? [] }] }
        : { ok: false, refusal: 'not-positive', facts: [] };
    const isDue = resetAt !== null && at >= resetAt;
    return isDue ? { ok: true, facts: [{ type: 'reset' }] } : { ok: false, refusal: 'not-due', facts: [] };
  },
  evolve: ({ value }, fact, at) =>
    fact.type === 'added' ? { value: value + fact.by, resetAt: at + 1_000 } : { value: 0, resetAt: null },
  react: (_fact, { value }) => [{ shown: value }],
  causes: (fact): readonly CommandFor[] =>
    fact.type === 'added'
      ? fact.also.map((key) => ({ machine: 'counter', key, command: { type: 'add', by: fact.by } }))
      : [],
  nextDeadline: ({ resetAt }) => resetAt,
  state: z.strictObject({ value: z.number(), resetAt: z.number().nullable() }),
  fact: countedSchema,
  command: actSchema,
};
