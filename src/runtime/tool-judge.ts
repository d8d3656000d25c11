import { realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { toolRulesOf } from '../config/config.ts';
import type { AgentConfig, Config } from '../config/config.ts';
import { toolUse } from '../rules/tool-use.ts';
import type { ToolRequest, WorkPlace } from '../rules/tool-use.ts';
import { decideUse } from '../rules/verdict.ts';
import type { ToolVerdict } from '../rules/verdict.ts';

/** What the rules in force say about a tool call of an agent in a channel; nothing is remembered yet. */
export function judgeTool(
  config: Config,
  seat: { readonly agent: string; readonly channel: string },
  request: ToolRequest,
): ToolVerdict['verdict'] {
  const agent = config.agents.find(({ id }) => id === seat.agent);
  if (agent === undefined) return 'ask';
  const channel = config.channels.find(({ id }) => id === seat.channel) ?? null;
  const rules = toolRulesOf(config, agent, channel);
  return decideUse(toolUse(request, workPlaceOf(agent)), rules, { at: 0, definition: null, remembered: [] }).verdict;
}

/** Where an agent works; `null` for one that connects from a machine whose files nobody sees from here. */
export function workPlaceOf({ backend }: AgentConfig): WorkPlace | null {
  if (backend.kind === 'remote') return null;
  const folder = resolve('cwd' in backend && backend.cwd !== undefined ? backend.cwd : '.');
  return { folder, home: homedir(), realpath };
}

function realpath(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}
