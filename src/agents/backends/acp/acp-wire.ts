import { z } from 'zod';
import { oneLine } from '../../../lib/visible.ts';

/**
 * This file has the schemas of what agents send and Conch reads. Agents differ, so most fields are optional. A
 * malformed optional field counts as missing; unknown fields are ignored. `flag`: a missing or malformed boolean is
 * false.
 */
const flag = z.boolean().catch(false);
const present = z.unknown().transform((value) => value !== undefined && value !== null && value !== false);

const capabilities = z.object({
  loadSession: flag,
  mcpCapabilities: z.object({ http: flag }).catch({ http: false }),
  sessionCapabilities: z.object({ resume: present }).catch({ resume: false }),
});

const plain = z.string().transform((text) => oneLine(text).slice(0, LONGEST_NAME));
const LONGEST_NAME = 100;

/** Answer to `initialize`. `agentInfo`: the agent's name and version; `null` when it does not report them. */
export const initialized = z.object({
  protocolVersion: z.number(),
  agentCapabilities: capabilities.catch(() => capabilities.parse({})),
  agentInfo: z
    .object({ name: plain, version: plain.catch('') })
    .transform(({ name, version }) => (name === '' ? null : `${name} ${version}`.trim()))
    .nullable()
    .catch(null),
  authMethods: z.array(z.object({ id: z.string() })).catch([]),
  _meta: z.object({ steering: z.object({ supported: flag }) }).catch({ steering: { supported: false } }),
});

const modes = z
  .object({ currentModeId: z.string(), availableModes: z.array(z.object({ id: z.string() })) })
  .nullable()
  .catch(null);

/** An entry in an option's list: one value, or a group of values. */
const optionValue = z.union([
  z.object({ value: z.string() }).transform(({ value }) => [value]),
  z
    .object({ options: z.array(z.object({ value: z.string() })) })
    .transform((group) => group.options.map((o) => o.value)),
]);

const configOption = z.object({
  id: z.string(),
  category: z.string().nullish().catch(null),
  currentValue: z.string(),
  options: z.array(optionValue).transform((values) => values.flat()),
});

/** The options of a session. Malformed options, such as options without a list of values, are skipped. */
const configOptions = z
  .array(configOption.nullable().catch(null))
  .transform((options) => options.filter((option) => option !== null))
  .catch([]);

const models = z
  .object({ currentModelId: z.string(), availableModels: z.array(z.object({ modelId: z.string() })).catch([]) })
  .nullable()
  .catch(null);

/** Answer to `session/new`. */
export const newSession = z.object({ sessionId: z.string().min(1).max(1_024), modes, models, configOptions });

export type NewSession = z.output<typeof newSession>;

/** Answer to `session/load` and `session/resume`. */
export const oldSession = z
  .object({ modes, models, configOptions })
  .catch({ modes: null, models: null, configOptions: [] });

/** Answer to `session/set_config_option`. */
export const configured = z.object({ configOptions });

const count = z.number().nonnegative();
const someTokens = count.nullish().catch(null);

const promptUsage = z.object({
  totalTokens: count,
  inputTokens: someTokens,
  outputTokens: someTokens,
  cachedReadTokens: someTokens,
  cachedWriteTokens: someTokens,
  thoughtTokens: someTokens,
});

export type PromptUsage = z.output<typeof promptUsage>;

/**
 * Answer to `session/prompt`. The stop reason may be a word that the protocol does not define; a missing one becomes
 * `end_turn`.
 */
export const prompted = z.object({
  stopReason: z.string().catch('end_turn'),
  usage: promptUsage.nullish().catch(null),
});

/** Answer to `_session/steering`. */
export const steered = z.object({ outcome: z.string() });

const toolCall = z.object({
  toolCallId: z.string(),
  title: z.string().nullish().catch(null),
  name: z.string().nullish().catch(null),
  kind: z.string().nullish().catch(null),
  status: z.string().nullish().catch(null),
  rawInput: z.unknown().optional(),
  rawOutput: z.unknown().optional(),
  content: z.unknown().optional(),
  locations: z
    .array(z.object({ path: z.string(), line: z.number().nullish().catch(null) }))
    .nullish()
    .catch(null),
  _meta: z.unknown().optional(),
});

export type ToolCall = z.output<typeof toolCall>;

const chunk = z.object({
  sessionUpdate: z.literal('agent_message_chunk'),
  content: z.object({ type: z.literal('text'), text: z.string() }),
  messageId: z.string().nullish().catch(null),
});

const tool = toolCall.extend({ sessionUpdate: z.enum(['tool_call', 'tool_call_update']) });

/** Updates that only show activity. */
const thinking = z.object({ sessionUpdate: z.enum(['agent_thought_chunk', 'plan', 'plan_update']) });

const usage = z.object({
  sessionUpdate: z.literal('usage_update'),
  used: z.number().nonnegative().catch(0),
  cost: z.object({ amount: z.number(), currency: z.string() }).nullish().catch(null),
});

const modeUpdate = z.object({ sessionUpdate: z.literal('current_mode_update'), currentModeId: z.string() });
const optionsUpdate = z.object({ sessionUpdate: z.literal('config_option_update'), configOptions });

/** A `session/update`. Unknown kinds, and malformed updates of known kinds, become `other`. */
export const sessionUpdate = z.object({
  sessionId: z.string(),
  update: z.union([
    chunk,
    tool,
    thinking,
    usage,
    modeUpdate,
    optionsUpdate,
    z.object({ sessionUpdate: z.string() }).transform(() => OTHER),
  ]),
});

export type Update = z.output<typeof sessionUpdate>['update'];

const OTHER = { sessionUpdate: 'other' } as const;

/**
 * The kinds of options that Conch selects. `allow_always` is missing, because agents store such a decision themselves.
 */
const KINDS = ['allow_once', 'reject_once', 'reject_always'] as const;

/** A `session/request_permission`. Options of other kinds are skipped. */
export const permissionRequest = z.object({
  sessionId: z.string(),
  toolCall,
  options: z
    .array(
      z
        .object({ optionId: z.string(), kind: z.enum(KINDS), name: z.string().catch('') })
        .nullable()
        .catch(null),
    )
    .transform((options) => options.filter((option) => option !== null)),
});

export type Permission = Omit<z.output<typeof permissionRequest>, 'sessionId'>;
export type PermissionOption = Permission['options'][number];
