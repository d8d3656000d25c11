import { toolRulesOf } from '../config/config.ts';
import type { Config } from '../config/config.ts';
import { didYouMean } from '../lib/nearest.ts';
import { offersFor } from '../rules/offers.ts';
import { labelsOf } from '../rules/labels.ts';
import type { CallLabels } from '../rules/labels.ts';
import { toolUse } from '../rules/tool-use.ts';
import { decideUse, toolRefusalText } from '../rules/verdict.ts';
import type { RuleScope, ToolVerdict } from '../rules/verdict.ts';
import { pageCaution, workPlaceOf } from '../runtime/runs/tool-judge.ts';
import { quoted } from '../turns/commands/parse.ts';
import { jsonOrNull } from '../lib/defined.ts';

/** A tool call to judge, without making it. */
export type ToolTest = {
  readonly agent: string;
  /** The name by which the agent calls the tool: `Bash`, `mcp__files__write`. */
  readonly tool: string;
  /** The input, as JSON. */
  readonly input: string;
  readonly channel: string | null;
};

type ToolTestResult =
  | { readonly ok: true; readonly verdict: ToolVerdict; readonly text: string }
  | { readonly ok: false; readonly message: string };

/**
 * Judges a tool call by an agent's rules, without always-allow rules. The labels assume that a server's tool may reach
 * more than its server and may change things.
 */
export function testTool(test: ToolTest, config: Config): ToolTestResult {
  const agent = config.agents.find(({ id }) => id === test.agent);
  if (agent === undefined) return unknown('agent', test.agent, config.agents);
  const { channels } = config;
  const channel = channels.find(({ id, name }) => id === test.channel || name === test.channel) ?? null;
  if (channel === null && test.channel !== null) return unknown('channel', test.channel, channels);
  const input = objectIn(test.input);
  if (input === null) return { ok: false, message: `Expected the input as JSON, such as '{"command":"npm test"}'.` };
  const use = toolUse({ name: test.tool, kind: null, input, locations: [] }, workPlaceOf(agent, config));
  const rules = toolRulesOf(config, agent, channel);
  const decided = decideUse(use, rules, { at: 0, definition: null, remembered: [] });
  const caution = decided.verdict === 'deny' ? null : pageCaution({ input, detail: '' }, config);
  const verdict = decided.verdict === 'allow' && caution !== null ? { ...decided, verdict: 'ask' as const } : decided;
  const lines = [`${verdict.verdict}: ${reasonOf(decided)}`];
  if (caution !== null) lines.push(`caution: ${caution}: asks even where a rule allows it`);
  const labels = labelsOf(use, rules, { open: true, isHarmless: false });
  lines.push(...labelLines(labels));
  if (verdict.verdict === 'allow' && labels.acts) lines.push(AFTER_READING);
  if (verdict.verdict === 'deny') lines.push(toolRefusalText(use, verdict, rules));
  if (verdict.verdict === 'ask' && caution === null) {
    const offers = offersFor(use, verdict, { shownWhole: true, tainted: false, trusted: true });
    lines.push(...offers.map(({ rule, words }) => `"Always" could mean ${words}: ${rule}`));
  }
  return { ok: true, verdict, text: lines.join('\n') };
}

const AFTER_READING = 'caution: asks even where a rule allows it, once the agent has read untrusted text';

const PLACES: Readonly<Record<RuleScope, string>> = {
  'built in': 'built in',
  bot: 'for every agent',
  agent: 'of this agent',
  channel: 'of this channel',
  run: 'of this run',
};

function labelLines({ untrusted, private: secret, outward, acts }: CallLabels): readonly string[] {
  return [
    ...(untrusted === null ? [] : [`untrusted: it reads untrusted text (${untrusted})`]),
    ...(secret === null ? [] : [`private: it reads private data (${secret})`]),
    ...(outward ? ['outward: it may send data out'] : []),
    ...(acts ? [] : ['what the agent has read before does not matter']),
  ];
}

function reasonOf({ by, rule }: ToolVerdict): string {
  if (rule === null) return 'no rule covers it, so the default applies';
  const place = 'scope' in rule ? `, ${PLACES[rule.scope]}` : '';
  return `rule ${quoted(rule.text)} of "${by.replace('!', '')}"${place}`;
}

function objectIn(text: string): object | null {
  const value = jsonOrNull(text);
  return typeof value === 'object' && !Array.isArray(value) ? value : null;
}

function unknown(kind: string, id: string, entries: readonly { readonly id: string }[]): ToolTestResult {
  const ids = entries.map((each) => each.id);
  return {
    ok: false,
    message: `There is no ${kind} ${quoted(id)} in the configuration.${didYouMean(id, ids)} There are: ${ids.join(', ')}.`,
  };
}
