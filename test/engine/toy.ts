import { z } from 'zod';
import type { CommandFor, Machine } from '../../src/engine/machine.ts';
import type { MachineUses } from '../../src/engine/machine-uses.ts';
import type { Instant } from '../../src/lib/time.ts';

/** A counter that resets to zero a second after its last count. A command can count other counters, too. */
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

/** The counter as a complete machine. */
export const counter: Machine<Count, Act, Counted, { readonly shown: number }> = {
  name: 'counter',
  channelOf: (key) => key.slice(0, key.lastIndexOf(' ')),
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
  isCommand: (command): command is Act => actSchema.safeParse(command).success,
};

/** A board: pinned texts are posted, and each person's message is noted once. `tell`: an effect for watchers. */
export type Pinned = { readonly count: number };
type Pin = { readonly type: 'pin'; readonly text: string } | { readonly type: 'note'; readonly id: string };
type Happened = z.infer<typeof happenedSchema>;

const happenedSchema = z.union([
  z.strictObject({ type: z.literal('pinned'), text: z.string() }),
  z.strictObject({ type: z.literal('noted'), id: z.string() }),
]);

export const board: Machine<Pinned, Pin, Happened, Happened, 'unknown' | 'again'> = {
  name: 'board',
  channelOf: (key) => key,
  version: 1,
  empty: () => ({ count: 0 }),
  decide: (_state, pin) => ({
    ok: true,
    facts: [pin.type === 'pin' ? { type: 'pinned', text: pin.text } : { type: 'noted', id: pin.id }],
  }),
  evolve: ({ count }) => ({ count: count + 1 }),
  react: (fact) => [fact],
  nextDeadline: () => null,
  state: z.strictObject({ count: z.number() }),
  fact: happenedSchema,
};

/** The board uses the inbox and the outbox. Its key is its channel. */
export const boardUses: MachineUses<Pin, Happened, Happened, 'unknown' | 'again'> = {
  inbox: {
    refusal: (channel, pin, inbox) => {
      if (pin.type !== 'note') return null;
      const message = inbox.read(pin.id);
      if (message?.channel !== channel) return 'unknown';
      return message.fate === null ? null : 'again';
    },
    fate: (fact) => (fact.type === 'noted' ? { message: fact.id, fate: { state: 'noted' } } : null),
  },
  outbox: {
    entries: (channel, { type, ...effect }) => [
      {
        type: 'add',
        lasting: type === 'pinned',
        channel,
        lane: type === 'pinned' ? 'posts' : 'watchers',
        effect: { type },
        texts: 'text' in effect ? effect.text.split('|') : [null],
        key: 'text' in effect ? `pin:${effect.text}` : null,
        repeats: 0,
        kind: type,
        epoch: null,
      },
    ],
  },
};
