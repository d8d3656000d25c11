import { realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { resolve } from 'node:path';
import { toolRulesOf } from '../config/config.ts';
import type { AgentConfig, Config } from '../config/config.ts';
import { toolUse } from '../rules/tool-use.ts';
import type { ToolRequest, WorkPlace } from '../rules/tool-use.ts';
import type { GatedCall } from '../agents/tools/tool-gate.ts';
import type { Instant } from '../lib/time.ts';
import { offersFor } from '../rules/offers.ts';
import { parseRule } from '../rules/rule.ts';
import { VERDICTS, decideUse, reachesTool, toolRefusalText } from '../rules/verdict.ts';
import type { Remembered, ToolVerdict } from '../rules/verdict.ts';
import type { RunSeat } from '../work/runs/floor-binding.ts';
import type { RunState } from '../work/runs/run.ts';
import type { CallJudgement } from './run-gate.ts';

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

/** What the rules in force say about a call of an agent in a channel: the strictest of what they say about each account of it. */
export function judgeCall(
  config: Config,
  seat: RunSeat,
  call: GatedCall,
  { at, remembered }: { readonly at: Instant; readonly remembered: RunState['remembered'] },
): CallJudgement {
  const agent = config.agents.find(({ id }) => id === seat.agent);
  if (agent === undefined) return UNJUDGED;
  const rules = toolRulesOf(config, agent, config.channels.find(({ id }) => id === seat.channel) ?? null);
  const place = workPlaceOf(agent);
  const memory = { at, definition: call.definition, remembered: remembered.flatMap(readYes) };
  const { tool: name, input, accounts = [{ name, kind: null, input, locations: [] }] } = call;
  const uses = accounts.map((account) => toolUse(account, place));
  const judged = uses.map((use) => ({ use, decided: decideUse(use, rules, memory) }));
  const strictest = judged.toSorted((a, b) => rank(b.decided) - rank(a.decided))[0];
  if (strictest === undefined) return UNJUDGED;
  const { use, decided } = strictest;
  const { caution, unaskable, server = { trusted: false } } = call;
  const facts = { shownWhole: unaskable === undefined, tainted: caution !== null, ...server };
  const offered = judged.map((each) => offersFor(each.use, each.decided, facts));
  const [first = [], ...rest] = decided.verdict === 'ask' ? offered : [];
  return {
    verdict: decided.verdict,
    rule: decided.rule?.text ?? null,
    words: toolRefusalText(use, decided, rules),
    offers: first.filter(({ rule }) => rest.every((offers) => offers.some((other) => other.rule === rule))),
  };
}

const UNJUDGED: CallJudgement = { verdict: 'ask', rule: null, words: '', offers: [] };

function rank({ verdict }: ToolVerdict): number {
  return VERDICTS.indexOf(verdict);
}

/** A rule that was offered is one; what a later version can no longer read is forgotten. */
function readYes({ rule: text, until, definition }: RunState['remembered'][number]): readonly Remembered[] {
  const read = parseRule(text);
  return read.ok ? [{ rule: read.rule, until, definition }] : [];
}

/** Whether the rules in force let an agent ever use any tool of a server, or this one. */
export function reachesServer(config: Config, seat: RunSeat, server: string, tool: string | null): boolean {
  const agent = config.agents.find(({ id }) => id === seat.agent);
  if (agent === undefined) return false;
  const channel = config.channels.find(({ id }) => id === seat.channel) ?? null;
  return reachesTool(toolRulesOf(config, agent, channel), server, tool);
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
