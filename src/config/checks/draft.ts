import { z } from 'zod';
import { MEMBERS, VERDICTS } from '../../rules/verdict.ts';
import type { ToolLists } from '../../rules/verdict.ts';
import { backendSchema } from '../schema.ts';

/**
 * Returns a schema that reads the given keys of an object and skips others. It reads a value that is no object as `{}`.
 * Every schema in `shape` must accept undefined.
 */
const lenient = <Shape extends z.core.$ZodLooseShape>(shape: Shape) => {
  const schema = z.object(shape);
  return schema.catch(() => schema.parse({}));
};

const text = z.string().nullish().catch(null);
const number = z.number().positive().optional().catch(undefined);
const flag = z.boolean().optional().catch(undefined);
const strings = z.array(z.string()).catch([]);
const some = z.array(z.unknown()).catch([]);
const rules = z.array(z.string()).optional().catch(undefined);

const lists = z
  .object({
    allow: rules,
    ask: rules,
    deny: rules,
    untrusted: rules,
    private: rules,
    outward: rules,
    trusted: rules,
    default: z.enum(VERDICTS).optional().catch(undefined),
    members: z.enum(MEMBERS).optional().catch(undefined),
  })
  .transform((parsedLists): ToolLists =>
    Object.fromEntries(Object.entries(parsedLists).filter(([, each]) => each !== undefined)),
  )
  .nullable()
  .catch(null);

/** Reads the program of an `acp` backend, also when the rest of the backend is wrong; `null` for other kinds. */
const started = z
  .object({
    kind: z.literal('acp'),
    profile: z.string().catch('generic'),
    args: strings,
    env: strings,
    set: z.record(z.string(), z.unknown()).catch({}),
  })
  .nullable()
  .catch(null);

const backend = z.unknown().transform((value) => ({
  kind: z.object({ kind: z.string() }).safeParse(value).data?.kind ?? '',
  /** The backend; `null` when the schema refuses it. */
  whole: backendSchema.safeParse(value).data ?? null,
  started: started.parse(value),
}));

const worker = {
  id: text,
  tools: lists,
  trusted: flag,
  backend: backend.optional().transform((value) => value ?? backend.parse(undefined)),
};

const agent = lenient({
  ...worker,
  name: text,
  approvers: z
    .union([z.literal('other'), z.array(z.string())])
    .optional()
    .catch(undefined),
});

const turn = {
  order: text,
  facilitator: text,
  interruptResponder: text,
  defaultAgent: text,
  defaultTimeoutSeconds: number,
  autoDetectTurnEnd: flag,
  autoDetectSilenceSeconds: number,
  coalesceMs: number,
};
const turnConfig = lenient({ ...turn, heartbeatSeconds: number, heartbeatTimeoutSeconds: number });
const channel = lenient({
  ...turn,
  id: text,
  tools: lists,
  review: lenient({ primary: text, reviewer: text, fallback: text }),
  agents: z.array(text).catch([]),
});
const names = z.record(z.string(), z.unknown()).catch({});

const draft = lenient({
  turnConfig,
  agents: z.array(agent).optional().catch([]),
  channels: z.array(channel).optional().catch([]),
  tools: lists,
  mcp: names,
  crews: z
    .array(
      lenient({
        ...worker,
        channel: text,
        repo: text,
        merge: text,
        votes: number,
        review: lenient({ by: text }),
      }),
    )
    .optional()
    .catch([]),
  announcements: names,
  operators: lenient({ users: some, roles: some }),
  adapters: lenient({ console: lenient({ enabled: flag }) }),
});

/** The parts of a file that have the right type, so that checks also run on a file with other problems. */
export type Draft = z.output<typeof draft>;
export type TurnConfigDraft = z.output<typeof turnConfig>;
export type AgentDraft = z.output<typeof agent>;
export type ChannelDraft = Pick<z.output<typeof channel>, 'id' | 'agents'> &
  Partial<Pick<z.output<typeof channel>, 'review'>> &
  TurnConfigDraft;

/** Reads a draft of the file. Leaves out parts that have a wrong type. */
export const draftOf = (file: unknown): Draft => draft.parse(file);
