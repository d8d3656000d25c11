import { z } from 'zod';
import { ANNOUNCEMENT_TEXTS } from './announcements.ts';
import { adaptersSchema } from './adapters.ts';
import { MEMBERS, VERDICTS } from '../rules/verdict.ts';
import { backendSchema, remoteSchema, serverSchema } from './backends.ts';
import { turnConfigSchema, turnOverrides } from './turn-config.ts';

/** The adapters that a channel's id can begin with. */
export const ADAPTERS = ['console', 'discord', 'slack'] as const;

const SNOWFLAKE = 'Write it in quotes: a long id loses its last digits as a number';

const idText = z.string({ error: (issue) => (typeof issue.input === 'number' ? SNOWFLAKE : undefined) }).min(1);

const agentId = idText.regex(/^[\w-]{1,64}$/, 'Expected up to 64 letters, digits, "_" and "-"');

/** An address, an emoji by Slack's name for it, or a text with a picture in it. */
const PICTURE = /^https:\/\/\S+$|^:[\w+-]{1,100}:$|^(?=.*(?:\p{Extended_Pictographic}|\p{RI}|\p{So}))\P{ASCII}{1,16}$/u;

const ruleList = (text: string) => z.array(z.string().max(1_000)).max(10_000).exactOptional().describe(text);

const tools = z.strictObject({
  allow: ruleList('Rules of tools that run unasked, such as "Read", "Bash(npm test)" or "mcp__files__read_*".'),
  ask: ruleList('Rules of tools that ask people first; with "!" at the end whatever was remembered.'),
  deny: ruleList('Rules of tools that are refused; they go before all others.'),
  untrusted: ruleList(
    'Rules of tools that bring in text that nobody vouches for, beside those that are known to. Whoever has read it is asked before it changes or sends anything.',
  ),
  private: ruleList('Rules of tools that bring in what should not leave, beside files that are known to hold keys.'),
  outward: ruleList('Rules of tools that may carry something away, beside those that are known to.'),
  trusted: ruleList(
    'Rules of tools that are vouched for: what they bring in makes no difference, and they are not asked about because of what was read before.',
  ),
  default: z
    .enum(VERDICTS)
    .exactOptional()
    .describe(
      'What becomes of a tool that no rule names. Without it, "deny"; without any rules, "ask", and reading in the agent\'s folder is free.',
    ),
  members: z
    .enum(MEMBERS)
    .exactOptional()
    .describe(
      'What becomes of tools beyond reading when somebody who is no operator asked: "ask" asks even for what is allowed, "deny" refuses them, "same" makes no difference. Without it, "ask".',
    ),
});

const steps = (work: string, usual: number) =>
  z
    .int()
    .min(1)
    .max(200)
    .exactOptional()
    .describe(`How many steps ${work} takes before people are asked. Without it, ${usual}.`);

const runs = z.strictObject({
  task: steps('work on a ticket', 50),
  conversational: steps('a turn', 100),
  background: steps('a background run', 200),
});

const agent = z.strictObject({
  id: agentId.describe('How channels, commands and logs call the agent; people address it as @id.'),
  name: z.string().min(1).max(80).exactOptional().describe('The name under which it speaks. Without one, its id.'),
  backend: backendSchema.describe('What runs the agent.'),
  persona: z.string().max(20_000).default('').describe('Who the agent is, in words for itself.'),
  description: z.string().max(500).default('').describe('What the agent is good at, in words for the others.'),
  avatar: z
    .string()
    .max(500)
    .regex(PICTURE, 'Expected an emoji, or an address that begins with "https://"')
    .nullable()
    .default(null)
    .describe('An emoji or the https address of a picture; null for none.'),
  priority: z.int().min(1).max(1_000).default(10).describe('Under the order "priority" 1 goes before 10.'),
  timeoutSeconds: z
    .number()
    .min(0.1)
    .max(604_800)
    .nullable()
    .default(null)
    .describe('How long its turn lasts without a sign of work, in seconds; null is defaultTimeoutSeconds.'),
  rejoin: z
    .enum(['manual', 'auto'])
    .nullable()
    .default(null)
    .describe('Whether it is queued again by itself when it comes back; null is turnConfig.rejoin.'),
  trusted: z
    .boolean()
    .exactOptional()
    .describe(
      'Whether it is used although it is known to change files without asking, whatever Conch sets. Without it Conch does not start such an agent.',
    ),
  tools: tools.exactOptional().describe('What it may do with tools, beside the general rules.'),
  approvers: z
    .union([z.literal('other'), z.array(idText).min(1).max(1_000)], {
      error: 'Expected "other" or a list of ids of people or roles',
    })
    .exactOptional()
    .describe(
      'Who may say yes or no to its tools: the people or roles with these ids alone, or any operator but the one who asked for the work ("other"). Without it, every operator.',
    ),
  runs: runs.exactOptional().describe('How many steps its work may take, each key in place of the general one.'),
});

const limit = z.number().positive().nullable();

const tokens = limit.describe('Tokens of all agents together; null is no limit.');
const costUsd = limit.describe('US dollars of all agents together; null is no limit.');
const minutes = limit.describe('Minutes of turns; null is no limit.');

const EXCHANGE = 'What the agents may spend after one human message.';
const DAY = 'What the agents may spend in a day.';

const spending = z.strictObject({
  tokens: tokens.default(null),
  costUsd: costUsd.default(null),
  minutes: minutes.default(null),
});

const budgets = z.strictObject({
  exchange: spending.prefault({}).describe(EXCHANGE),
  day: spending.prefault({}).describe(DAY),
});

const ownSpending = z.strictObject({
  tokens: tokens.exactOptional(),
  costUsd: costUsd.exactOptional(),
  minutes: minutes.exactOptional(),
});

const ownBudgets = z.strictObject({
  exchange: ownSpending.exactOptional().describe(EXCHANGE),
  day: ownSpending.exactOptional().describe(DAY),
});

const days = z
  .int()
  .min(1)
  .max(36_500)
  .nullable()
  .describe('After how many days messages, posts and entries of the journal are taken away; null keeps them.');

const channel = z.strictObject({
  id: idText
    .regex(/^[a-z]+:\S+$/, 'Expected "<adapter>:<id on the platform>", for example "console:demo"')
    .describe('Where the channel is: the adapter, a colon, and the id on that platform.'),
  name: z
    .string()
    .min(1)
    .max(100)
    .exactOptional()
    .describe('The name in logs and lists. Without one, the id after the colon.'),
  topic: z.string().max(500).exactOptional().describe('What the channel is about, in words for its agents.'),
  agents: z.array(agentId).max(100).describe('The ids of the agents at this floor, in the order of their turns.'),
  tools: tools.exactOptional().describe('What agents may do with tools here, beside the general and their own rules.'),
  runs: runs.exactOptional().describe('How many steps work here may take, each key in place of that of its agent.'),
  budgets: ownBudgets.exactOptional().describe('Budgets of this channel, each key in place of the general one.'),
  retention: z.strictObject({ days }).exactOptional().describe('How long what is said in this channel is kept.'),
  ...turnOverrides,
});

const operators = z.strictObject({
  users: z
    .array(idText)
    .default([])
    .describe(
      "Ids of the people who may change the floor. Whoever has the console's page open is one without being named.",
    ),
  roles: z.array(idText).default([]).describe('Ids of the roles or groups whose members may.'),
});

const template = (kind: keyof typeof ANNOUNCEMENT_TEXTS, when: string) =>
  z
    .union([z.string().min(1).max(500), z.literal(false)], {
      error: 'Expected the text in quotes, or false to switch it off',
    })
    .meta({ default: ANNOUNCEMENT_TEXTS[kind], description: `${when} false switches it off.` })
    .exactOptional();

const announcements = z.strictObject({
  timeout: template('timeout', 'The text when a turn is over by time.'),
  waitTimeout: template('waitTimeout', 'The text when the wait of an agent is over by time.'),
  approval: z
    .string({ error: 'Expected the text in quotes; what asks for a yes cannot be switched off' })
    .min(1)
    .max(500)
    .meta({
      default: ANNOUNCEMENT_TEXTS.approval,
      description: 'The text when a tool of an agent needs a yes. What would run always follows it, whole.',
    })
    .exactOptional(),
  answered: template('answered', 'The text that takes the place of a question once somebody, or nobody, answered it.'),
  forbidden: template('forbidden', 'The text when the rules refuse a tool for the first time in a run.'),
  unasked: template('unasked', 'The text when a tool needs a yes that nobody can be asked for.'),
  aside: template('aside', 'The text when a background run starts or ends.'),
  revoked: template('revoked', 'The text when a yes that was remembered is taken back.'),
  toolsGone: template('toolsGone', 'The text when a server of tools that an agent uses is given up.'),
  toolsBack: template('toolsBack', 'The text when it can be used again.'),
  disconnect: template('disconnect', 'The text when an agent leaves in its turn.'),
  nobody: template('nobody', 'The text when a message comes and every agent is OFFLINE.'),
  unaddressed: template('unaddressed', 'The text when a message names no agent that can answer, where it must.'),
  limit: template('limit', 'The text when a budget is used up; a text of your own can name which with {budget}.'),
  stopped: template('stopped', 'The text when a person stopped the exchange.'),
  skipped: template('skipped', 'The text when an operator ended a turn.'),
  recovered: template('recovered', 'The text when a turn goes on after a restart of Conch.'),
  undelivered: template('undelivered', 'The text when the platform refuses what an agent said.'),
  gap: template('gap', 'The text when history is missing after a restart.'),
});

const log = z.strictObject({
  level: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace'])
    .default('info')
    .describe('The least important lines that are logged. CONCH_LOG_LEVEL goes before it.'),
  pretty: z
    .union([z.boolean(), z.literal('auto')], { error: 'Expected true, false or "auto"' })
    .default('auto')
    .describe('Lines for people in place of JSON; "auto" does so on a terminal.'),
});

/** The whole of `turnConfig.json`, as people write it. */
export const fileSchema = z.strictObject({
  $schema: z.string().exactOptional().describe('Where editors find the description of this file; Conch ignores it.'),
  turnConfig: turnConfigSchema.prefault({}).describe('How turns are taken, in every channel that says nothing else.'),
  agents: z
    .array(agent)
    .min(1, 'Expected at least one agent; without this key there are the three of the demo')
    .max(1_000)
    .exactOptional()
    .describe('Who can be given a seat. Without this key, the three agents of the demo.'),
  channels: z
    .array(channel)
    .min(1, 'Expected at least one channel')
    .exactOptional()
    .describe('Where there is a floor. Without this key, one channel "console:demo" with every agent.'),
  remote: remoteSchema.prefault({}).describe('The door for agents that connect by themselves.'),
  adapters: adaptersSchema.prefault({}).describe('The chat platforms.'),
  operators: operators.prefault({}).describe('Who may change the floor; reading is open to all.'),
  budgets: budgets.prefault({}).describe('What one channel may spend.'),
  tools: tools.exactOptional().describe('What every agent may do with tools.'),
  runs: runs.exactOptional().describe('How many steps work may take.'),
  mcp: z
    .record(z.string(), serverSchema)
    .default({})
    .describe('Servers of tools (the Model Context Protocol) for agents of the kinds "llm" and "acp", by their ids.'),
  retention: z
    .strictObject({ days: days.default(null) })
    .prefault({})
    .describe('How long what is said is kept.'),
  announcements: announcements.prefault({}).describe('What people are told. Names in braces are filled in.'),
  log: log.prefault({}).describe('What is logged.'),
});

/** `turnConfig.json` after reading, with the defaults filled in. */
export type ConfigFile = z.output<typeof fileSchema>;
