import { z } from 'zod';
import { lintRules } from '../../rules/rule-lint.ts';
import { MEMBERS, VERDICTS } from '../../rules/verdict.ts';
import type { ToolLists } from '../../rules/verdict.ts';
import type { Found } from '../error.ts';

/**
 * Checks the rules for tools: that each can be read, decides something and means what it seems to, and that whom they are for
 * has tools at all; and that somebody is left who can say yes. It reads whatever it can of the file.
 */
export const checkTools = (file: unknown): readonly Found[] => {
  const { tools, agents, channels, operators } = draftSchema.parse(file);
  const general = tools === null ? [] : [tools];
  const ids = agents.map(({ id }) => id);
  return [
    ...agents.flatMap(({ approvers }, index) => noApprovers(approvers, { index, ids, operators })),
    ...(tools === null ? [] : found(tools, [], ['tools'])),
    ...agents.flatMap((agent, index) =>
      agent.tools === null
        ? []
        : [
            ...found(agent.tools, general, ['agents', index, 'tools']),
            ...withoutTools(agent.kind, ['agents', index, 'tools']),
          ],
    ),
    ...channels.flatMap((channel, index) =>
      channel.tools === null ? [] : found(channel.tools, general, ['channels', index, 'tools']),
    ),
  ];
};

type Path = readonly PropertyKey[];

const rules = z.array(z.string()).optional().catch(undefined);
const listsDraft = z
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
  .transform((lists): ToolLists => Object.fromEntries(Object.entries(lists).filter(([, each]) => each !== undefined)))
  .nullable()
  .catch(null);

const draftSchema = z
  .object({
    tools: listsDraft,
    agents: z
      .array(
        z
          .object({
            id: z.string().optional().catch(undefined),
            tools: listsDraft,
            backend: z.object({ kind: z.string() }).optional().catch(undefined),
            approvers: z
              .union([z.literal('other'), z.array(z.string())])
              .optional()
              .catch(undefined),
          })
          .catch({ id: undefined, tools: null, backend: undefined, approvers: undefined })
          .transform(({ id = '', tools, backend, approvers }) => ({ id, tools, kind: backend?.kind ?? '', approvers })),
      )
      .catch([]),
    operators: z
      .object({ users: z.array(z.unknown()).optional(), roles: z.array(z.unknown()).optional() })
      .transform(({ users = [], roles = [] }) => users.length + roles.length)
      .catch(0),
    channels: z.array(z.object({ tools: listsDraft }).catch({ tools: null })).catch([]),
  })
  .catch({ tools: null, agents: [], channels: [], operators: 0 });

type Approving = { readonly index: number; readonly ids: readonly string[]; readonly operators: number };

/** Agents decide nothing, and with nobody but whoever sits at this machine there is no other. */
const noApprovers = (
  approvers: 'other' | readonly string[] | undefined,
  { index, ids, operators }: Approving,
): readonly Found[] => {
  const path = ['agents', index, 'approvers'];
  if (approvers === undefined) return [];
  if (approvers !== 'other')
    return approvers.flatMap((id, place) =>
      ids.includes(id) ? [{ path: [...path, place], message: `"${id}" is an agent, and agents decide nothing` }] : [],
    );
  if (operators > 0) return [];
  const message = 'There is no other: "operators" names nobody, so whoever asks at this machine can never say yes';
  return [{ path, message, weight: 'unwise' }];
};

const found = (lists: ToolLists, wider: readonly ToolLists[], path: Path): readonly Found[] =>
  lintRules(lists, wider).map(({ list, index, wrong, message }) => ({
    path: [...path, list, ...(index === null ? [] : [index])],
    message,
    ...(wrong ? {} : { weight: 'unwise' as const }),
  }));

const WITHOUT_TOOLS: Readonly<Record<string, string>> = {
  command: 'A program of the kind "command" is not asked before it acts: these rules hold for none of its work',
  scripted: 'A play-acted agent has no tools: take it away',
};

const withoutTools = (kind: string, path: Path): readonly Found[] => {
  const message = WITHOUT_TOOLS[kind];
  return message === undefined ? [] : [{ path, message, weight: 'unwise' }];
};
