import { z } from 'zod';
import { VERBS, isVerb } from '../../tools/verbs.ts';

/**
 * Whether a `session/request_permission` is for one of the floor's own tools, which agents may use unasked: the names that
 * the agent itself gives the tool (never its title, which models write) are all those of one verb of this session's server,
 * and the call holds the input of that verb and nothing else that could happen.
 */
export function isForOwnTool(params: unknown, server: string): boolean {
  const parsed = ownCall.safeParse(params);
  if (!parsed.success) return false;
  const { name, rawInput, _meta: meta } = parsed.data.toolCall;
  const names = [meta?.claudeCode?.toolName, meta?.toolName, name].filter((each) => typeof each === 'string');
  const [verb = '', ...others] = new Set(names.map((each) => verbIn(each, server)));
  return isVerb(verb) && others.length === 0 && VERBS[verb].input.strict().safeParse(rawInput).success;
}

const nothing = z.array(z.unknown()).length(0).nullish();
const text = z.string().nullish();

/** The names: `_meta.claudeCode.toolName` of Claude Code, `_meta.toolName` of Qwen Code, and the protocol's own. */
const ownCall = z.object({
  toolCall: z.object({
    name: text,
    kind: z.enum(['other', 'think']).nullish(),
    locations: nothing,
    content: nothing,
    rawInput: z.unknown(),
    _meta: z.object({ toolName: text, claudeCode: z.object({ toolName: text }).nullish() }).nullish(),
  }),
});

/** The verb that agents would spell so; '' when it is none of this server's. */
function verbIn(name: string, server: string): string {
  const spelling = [`mcp__${server}__`, `mcp_${server}_`, `${server}_`].find((prefix) => name.startsWith(prefix));
  return spelling === undefined ? '' : name.slice(spelling.length);
}
