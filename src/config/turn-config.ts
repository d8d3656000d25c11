import { z } from 'zod';

/** The specification's four modes: what a human message does to a turn that is under way. */
const MODE_NAMES = ['inject', 'queue', 'interrupt', 'parallel'] as const;

/** Other names of the modes, accepted wherever a mode is. */
const MODE_ALIASES = { steer: 'inject', followup: 'queue', collect: 'queue', concurrent: 'parallel' } as const;

const WEEK_SECONDS = 604_800;

const flag = (text: string) => z.boolean().describe(text);
const count = (min: number, max: number) => z.int().min(min).max(max);
const duration = (text: string) => z.number().min(0.1).max(WEEK_SECONDS).describe(text);
const durationOrNone = (text: string) => z.number().min(0).max(WEEK_SECONDS).describe(text);
const agentOrNone = (text: string) => z.string().min(1).nullable().describe(text);

const mode = z
  .enum([...MODE_NAMES, 'steer', 'followup', 'collect', 'concurrent'])
  .transform((name) => (name in MODE_ALIASES ? MODE_ALIASES[name as keyof typeof MODE_ALIASES] : name))
  .pipe(z.enum(MODE_NAMES))
  .describe(
    'What a human message does while an agent is ACTIVE: "inject" hands it to the agent at once, "queue" keeps it until the turn ends, "interrupt" pauses the turn to answer it, "parallel" lets every agent see it and touches no turn. "steer" means inject, "followup" and "collect" mean queue, "concurrent" means parallel.',
  );

const order = z
  .enum(['round-robin', 'priority', 'manual', 'mention', 'facilitator'])
  .describe(
    'Who is next: "round-robin" in the order of the channel\'s agents, "priority" by the agents\' numbers, "manual" when an operator grants, "mention" only who is addressed, "facilitator" whom the facilitator names.',
  );

/** Every key of `turnConfig`, with its default. A channel may override any of them. */
export const turnKeys = {
  defaultTimeoutSeconds: duration(
    'How long a turn lasts without a sign of work, in seconds, for agents without a timeoutSeconds of their own.',
  ).default(60),
  humanInterruptMode: mode.prefault('inject'),
  announceTimeouts: flag('Tell the channel when a turn timed out.').default(true),
  announceDisconnects: flag('Tell the channel when an agent disconnected and its turn was skipped.').default(true),
  autoDetectTurnEnd: flag('End a turn after a silence once the agent has spoken, even without its signal.').default(
    false,
  ),
  autoDetectSilenceSeconds: duration('How long that silence lasts, in seconds.').default(10),
  maxTurnSeconds: duration('The hard end of a turn, in seconds, however much the agent works.').default(900),
  waitTimeoutSeconds: duration('How long an agent may be WAITING before it forfeits its turn, in seconds.').default(
    600,
  ),
  waitPolicy: z
    .enum(['hold', 'release'])
    .describe(
      'What becomes of the floor while its holder is WAITING: "hold" keeps it, "release" lends it to the others.',
    )
    .default('hold'),
  heartbeatSeconds: duration('How often a connected agent is asked for a sign of life, in seconds.').default(15),
  heartbeatTimeoutSeconds: duration(
    'After how many seconds without one the agent is OFFLINE; more than heartbeatSeconds.',
  ).default(45),
  reconnectGraceSeconds: durationOrNone(
    'How long an agent whose connection closed may take to come back and keep its turn, in seconds.',
  ).default(10),
  coalesceMs: count(0, 60_000)
    .describe('Human messages that come within so many milliseconds are handed over together.')
    .default(500),
  order: order.default('round-robin'),
  rounds: count(0, 1_000)
    .describe('Turns for every queued agent after a human message; 0 is without end, up to maxTurns.')
    .default(1),
  maxTurns: count(1, 10_000).describe('Agent turns since the last human message, in all.').default(12),
  turnCompleteSignal: z
    .string()
    .regex(/^\S{3,64}$/, 'Expected one word of 3 to 64 characters')
    .describe(
      'One word that ends a turn at the very end of what an agent says; it is never posted. An agent whose protocol has an end of its own need not say it.',
    )
    .default('TURN_COMPLETE'),
  passWords: z
    .array(
      z
        .string()
        .regex(/[\p{L}\p{N}]/u, 'Expected a word')
        .max(60),
    )
    .max(50)
    .describe(
      'An answer that is only one of these, in any case and whatever marks stand around it, is a pass and never posted. The first is the one that agents are told.',
    )
    .default(['PASS', 'SKIP', 'NO_REPLY', 'NO_ANSWER', 'nothing to add', 'no comment', 'no response']),
  onRestart: z
    .enum(['resume', 'forfeit'])
    .describe('What becomes of a turn that a restart of Conch cut short.')
    .default('resume'),
  rejoin: z
    .enum(['manual', 'auto'])
    .nullable()
    .describe(
      'Whether an agent that comes back is queued again by itself ("auto") or by an operator ("manual"); null leaves it to the kind of backend.',
    )
    .default(null),
  interruptGraceSeconds: durationOrNone(
    'How long a generation that was interrupted may take to stop before it is stopped by force, in seconds.',
  ).default(5),
  maxConsecutiveErrors: count(1, 1_000)
    .describe('An agent whose session fails so many times in a row is stopped, until "/agent restart".')
    .default(5),
  maxTotalErrors: count(1, 100_000)
    .describe('An agent whose session failed so many times in all is stopped, until "/agent restart".')
    .default(20),
  interruptResponder: agentOrNone(
    'The agent that answers a human in interrupt mode; null is the interrupted one.',
  ).default(null),
  facilitator: agentOrNone('The agent that names the next speaker under the order "facilitator".').default(null),
  defaultAgent: agentOrNone('The agent that answers unaddressed messages under the order "mention".').default(null),
  threads: z
    .enum(['own', 'parent', 'ignore'])
    .describe('A thread has a floor of its own, shares the floor of its channel, or is ignored.')
    .default('own'),
  allowBots: z
    .enum(['off', 'mentions', 'all'])
    .describe(
      'Which programs beside the agents are heard: none ("off"), those that mention an agent ("mentions"), or "all". Their messages renew no budget.',
    )
    .default('off'),
  receipts: flag('Mark every human message with what became of it.').default(true),
  announceLimits: flag('Tell the channel when a budget is used up.').default(true),
  announceNobody: flag('Tell the channel when no agent is available.').default(true),
  announceRecovery: flag('Tell the channel about a resumed turn or missing history after a restart.').default(true),
  contextTokens: count(500, 2_000_000)
    .describe(
      'How long a request to an agent may be in all, in tokens of four characters: rules, conversation and news. The oldest lines go first. Set it below the window of a small model.',
    )
    .default(48_000),
  maxHeld: count(1, 100_000).describe('How many human messages a channel keeps for later, at most.').default(500),
};

/** The specification's `turnConfig` object. */
export const turnConfigSchema = z.strictObject(turnKeys);

/** The settings of a channel's floor, complete. */
export type TurnConfig = Readonly<z.output<typeof turnConfigSchema>>;

type Overrides<Keys extends Record<string, z.ZodDefault | z.ZodPrefault>> = {
  [Key in keyof Keys]: z.ZodExactOptional<Keys[Key]['def']['innerType']>;
};

const withoutDefaults = <Keys extends Record<string, z.ZodDefault | z.ZodPrefault>>(keys: Keys): Overrides<Keys> =>
  Object.fromEntries(
    Object.entries(keys).map(([key, schema]) => [key, z.exactOptional(schema.def.innerType)]),
  ) as Overrides<Keys>;

/** The same keys without their defaults, for a channel that overrides some. */
export const turnOverrides = withoutDefaults(turnKeys);
