import { parseRule } from '../../src/rules/rule.ts';
import type { ToolRule } from '../../src/rules/rule.ts';
import { toolUse } from '../../src/rules/tool-use.ts';
import type { WorkPlace } from '../../src/rules/paths.ts';
import type { ToolRequest, ToolUse } from '../../src/rules/tool-use.ts';
import { decideUse, uniteRules } from '../../src/rules/verdict.ts';
import type { RuleMemory, Remembered, ToolLists, ToolVerdict } from '../../src/rules/verdict.ts';

export const AT = Date.UTC(2026, 10, 22, 12);

/** A disk where `/work/src`, `/work/docs`, `/home/ann` and `/etc` are folders. `links`: paths that lead elsewhere. */
export function place(links: Readonly<Record<string, string>> = {}): WorkPlace {
  const folders = new Set([
    '/',
    '/work',
    '/work/src',
    '/work/docs',
    '/home',
    '/home/ann',
    '/etc',
    '/etc/ssl',
    ...Object.values(links),
  ]);
  const realpath = (path: string): string | null => {
    const link = Object.keys(links).find((each) => path === each || path.startsWith(`${each}/`));
    const real = link === undefined ? path : `${links[link] ?? ''}${path.slice(link.length)}`;
    return folders.has(real) ? real : null;
  };
  return { folder: '/work', home: '/home/ann', realpath };
}

export function use(name: string, input: unknown, at: WorkPlace = place()): ToolUse {
  return toolUse({ name, kind: null, input, locations: [] }, at);
}

export function asked(request: Partial<ToolRequest>, at: WorkPlace = place()): ToolUse {
  return toolUse({ name: null, kind: null, input: {}, locations: [], ...request }, at);
}

export const bash = (command: string): ToolUse => use('Bash', { command });

export function rule(text: string): ToolRule {
  const read = parseRule(text);
  if (!read.ok) throw new Error(read.message);
  return read.rule;
}

export function remembering(...texts: readonly string[]): RuleMemory {
  const remembered = texts.map((text): Remembered => ({ rule: rule(text), until: AT + 1, definition: null }));
  return { at: AT, definition: null, remembered };
}

export const NOTHING: RuleMemory = remembering();

/** The verdict by the lists of one place. */
export function verdictOf(lists: ToolLists | undefined, one: ToolUse, memory: RuleMemory = NOTHING): ToolVerdict {
  return decideUse(one, uniteRules([{ scope: 'bot', lists }]), memory);
}

/** The verdict and its source as text: `allow by allow`. */
export function decided(lists: ToolLists | undefined, one: ToolUse, memory: RuleMemory = NOTHING): string {
  const { verdict, by } = verdictOf(lists, one, memory);
  return `${verdict} by ${by}`;
}
