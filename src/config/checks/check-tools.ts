import { z } from 'zod';
import { lintRules } from '../../rules/rule-lint.ts';
import { VERDICTS } from '../../rules/verdict.ts';
import type { ToolLists } from '../../rules/verdict.ts';
import type { Found } from '../error.ts';

/**
 * Checks the rules for tools: that each can be read, decides something and means what it seems to, and that whom they are for
 * has tools at all. It reads whatever it can of the file.
 */
export const checkTools = (file: unknown): readonly Found[] => {
  const { tools, agents, channels } = draftSchema.parse(file);
  const general = tools === null ? [] : [tools];
  return [
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
  .object({ allow: rules, ask: rules, deny: rules, default: z.enum(VERDICTS).optional().catch(undefined) })
  .transform((lists): ToolLists => Object.fromEntries(Object.entries(lists).filter(([, each]) => each !== undefined)))
  .nullable()
  .catch(null);

const draftSchema = z
  .object({
    tools: listsDraft,
    agents: z
      .array(
        z
          .object({ tools: listsDraft, backend: z.object({ kind: z.string() }).optional().catch(undefined) })
          .catch({ tools: null, backend: undefined })
          .transform(({ tools, backend }) => ({ tools, kind: backend?.kind ?? '' })),
      )
      .catch([]),
    channels: z.array(z.object({ tools: listsDraft }).catch({ tools: null })).catch([]),
  })
  .catch({ tools: null, agents: [], channels: [] });

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
