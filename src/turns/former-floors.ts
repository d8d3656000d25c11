import { z } from 'zod';
import { BUDGETS, seatSchema } from './floor/floor.ts';
import type { Floor, Held, Turn, Wait } from './floor/floor.ts';
import { floorSettingsSchema, seatSettingsSchema } from './floor/settings.ts';

/**
 * A floor as it was stored before floors had a version, as it is stored now. A turn that was under way is as after a restart:
 * its agent has to come back. Throws when it is not what was stored.
 */
export function formerFloor(stored: unknown): Floor {
  const { unattended, exchange, turn, parked, held, limit, choosing, called, ...same } = floorSchema.parse(stored);
  const used = exchange === null ? unattended : { ...unattended, ...exchange, turns: turnsOf(exchange, same.settings) };
  const { turns, tokens, costMicros, ms } = used;
  return {
    ...same,
    usageSincePerson: { turns, tokens, costMicros, ms },
    exchange: exchange === null ? null : { openedAt: exchange.openedAt, silent: exchange.silent },
    turn: turn === null ? null : turnOf(turn),
    parked: parked.map(turnOf),
    held: held.map((each): Held => ({ ...each, ...linedOf(each) })),
    prioritised: called,
    facilitation: choosing,
    limit: limit === null ? null : { ...limit, budget: BUDGETS.find((name) => name === limit.budget) ?? 'turns' },
  };
}

const bot = z.literal(true).optional();
const lined = z.object({ id: z.string(), line: z.number(), addressed: z.array(z.string()), bot });
const wait = z.object({
  reason: z.enum(['answer', 'human', 'approval']),
  deadlineAt: z.number(),
  graceEndAt: z.number().nullable(),
  ready: z.boolean(),
  answers: z.array(lined),
  approval: z
    .object({ question: z.number().default(0), title: z.string(), detail: z.string(), shown: z.boolean() })
    .nullable(),
});
const turnSchema = z.object({
  agent: z.string(),
  epoch: z.number(),
  startedAt: z.number(),
  deadlineAt: z.number().nullable(),
  hardEndAt: z.number().nullable(),
  leftMs: z.number().nullable(),
  said: z.boolean(),
  mentions: z.array(z.string()),
  injecting: z.array(lined),
  unseen: z.array(lined),
  given: z.array(z.object({ id: z.string(), begun: z.boolean() })),
  answered: z.array(z.string()),
  reprompts: z.number(),
  place: z.number().nullable(),
  wait: wait.nullable(),
});
const floorSchema = z.object({
  channel: z.string(),
  settings: floorSettingsSchema,
  configured: z.object({ settings: floorSettingsSchema, seats: z.array(seatSettingsSchema) }).nullable(),
  condition: z.enum(['resting', 'open', 'paused']),
  epoch: z.number(),
  asks: z.number(),
  questions: z.number().default(0),
  lines: z.number(),
  seats: z.array(seatSchema),
  queue: z.array(z.string()),
  day: z.object({ startedAt: z.number(), tokens: z.number(), costMicros: z.number(), ms: z.number() }),
  stopped: z.boolean(),
  catchingUp: z.boolean(),
  outage: z.boolean(),
  notice: z.object({ key: z.string(), count: z.number() }).nullable(),
  turn: turnSchema.nullable(),
  parked: z.array(turnSchema),
  held: z.array(
    z.object({
      id: z.string(),
      addressed: z.array(z.string()),
      order: z.string(),
      until: z.enum(['turn', 'prompt', 'next', 'agent', 'start']),
      line: z.number().nullable(),
      bot,
    }),
  ),
  called: z.array(
    z.object({ agent: z.string(), by: z.enum(['operator', 'person', 'agent']), messages: z.array(z.string()) }),
  ),
  choosing: z.object({ facilitator: z.string(), ask: z.number(), deadlineAt: z.number() }).nullable(),
  exchange: z
    .object({
      openedAt: z.number(),
      turns: z.number(),
      allowance: z.number(),
      silent: z.number(),
      tokens: z.number(),
      costMicros: z.number(),
    })
    .nullable(),
  unattended: z
    .object({ turns: z.number(), tokens: z.number(), costMicros: z.number(), ms: z.number() })
    .default({ turns: 0, tokens: 0, costMicros: 0, ms: 0 }),
  limit: z.object({ budget: z.string(), until: z.number().nullable() }).nullable(),
});

type Former = z.infer<typeof floorSchema>;
type FormerTurn = z.infer<typeof turnSchema>;

/** What an operator allowed beyond the limit counts as not used. */
function turnsOf({ turns, allowance }: NonNullable<Former['exchange']>, { maxTurns }: Former['settings']): number {
  return Math.max(0, turns - Math.max(0, allowance - maxTurns));
}

function turnOf({ wait: waits, deadlineAt, hardEndAt, leftMs, ...turn }: FormerTurn): Turn {
  const same = { ...turn, injecting: turn.injecting.map(linedOf), unseen: turn.unseen.map(linedOf) };
  const end = hardEndAt ?? deadlineAt ?? turn.startedAt;
  const left = leftMs ?? Math.max(0, end - turn.startedAt);
  if (waits === null)
    return { status: 'suspended', ...same, deadlineAt: deadlineAt ?? end, hardEndAt: end, leftMs: left };
  return { status: 'waiting', ...same, leftMs: left, wait: waitOf(waits) };
}

function waitOf({ reason, deadlineAt, ready, answers, graceEndAt, approval }: z.infer<typeof wait>): Wait {
  const waiting = { deadlineAt, ready, answers: answers.map(linedOf) };
  if (reason === 'approval' && approval !== null) return { reason, ...waiting, question: approval };
  return reason === 'human' ? { reason, ...waiting, graceEndAt } : { reason: 'answer', ...waiting };
}

function linedOf<Lined extends { readonly bot?: true | undefined }>({ bot: fromProgram, ...line }: Lined) {
  return fromProgram === true ? { ...line, fromProgram } : line;
}
