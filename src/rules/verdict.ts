import type { Instant } from '../lib/time.ts';
import { TOOL_KINDS, parseRule } from './rule.ts';
import type { Paths, RuleSpec, ToolKind, ToolRule, Wildcard } from './rule.ts';
import { isSafe, isSafeBeginning } from './safe-commands.ts';
import { elsewhereAt, programOf } from './shell-programs.ts';
import type { Argv } from './safe-commands.ts';
import type { NamedPath, PathFrom } from './paths.ts';
import type { ToolUse, UsePart } from './tool-use.ts';
import { GRANTING_NAMES } from './used-paths.ts';
import type { UsedPath } from './used-paths.ts';

/** The verdicts on a tool call, mildest first: run it, ask people, or deny it. */
export const VERDICTS = ['allow', 'ask', 'deny'] as const;

/**
 * Verdicts on calls that do more than read, in runs whose requester is not an operator. They limit what the rules
 * allow. `same`: the rules alone decide.
 */
export const MEMBERS = ['ask', 'deny', 'same'] as const;

/** Lists of rules that label calls. `trusted` removes all labels except `private`. */
export const LABEL_LISTS = ['untrusted', 'private', 'outward', 'trusted'] as const;

/**
 * The lists of rules of one scope of the configuration. A rule of `ask` that ends in `!` asks despite always-allow
 * rules.
 */
export type ToolLists = {
  readonly allow?: readonly string[];
  readonly ask?: readonly string[];
  readonly deny?: readonly string[];
  readonly default?: (typeof VERDICTS)[number];
  readonly members?: (typeof MEMBERS)[number];
} & { readonly [List in (typeof LABEL_LISTS)[number]]?: readonly string[] };

/** The part of the configuration that a rule stands in, widest first; `run`: the options of one run. */
export type RuleScope = 'built in' | 'bot' | 'agent' | 'channel' | 'run';

type ScopedRule = ToolRule & { readonly scope: RuleScope };

/** The rules that label calls, beside the built-in ones. */
export type LabelRules = { readonly [List in (typeof LABEL_LISTS)[number]]: readonly ScopedRule[] };

/** The rules of all scopes for one agent in one channel. */
export type ToolRules = LabelRules & {
  readonly deny: readonly ScopedRule[];
  readonly mustAsk: readonly ScopedRule[];
  readonly ask: readonly ScopedRule[];
  readonly allow: readonly ScopedRule[];
  /** The only tools of this run; `null` for no limit. */
  readonly only: readonly ScopedRule[] | null;
  readonly default: (typeof VERDICTS)[number];
  readonly members: (typeof MEMBERS)[number];
};

/** An always-allow rule. */
export type Remembered = {
  readonly rule: ToolRule;
  readonly until: Instant;
  /** Digest of the tool's definition when the rule was made; `null` for tools without one. */
  readonly definition: string | null;
};

/** The always-allow rules, the time of the call, and the digest of the tool's present definition. */
export type RuleMemory = {
  readonly at: Instant;
  readonly definition: string | null;
  readonly remembered: readonly Remembered[];
};

/** The verdict, the list or limit that decided (`by`), and the rule that matched; `null` for no rule. */
export type ToolVerdict = {
  readonly verdict: (typeof VERDICTS)[number];
  readonly by: 'deny' | 'run' | 'ask!' | 'remembered' | 'ask' | 'allow' | 'default' | 'members' | ReadOnly;
  readonly rule: ToolRule | ScopedRule | null;
};

/** The kinds of tools that are denied completely: a rule of `deny` without brackets covers them. */
export function kindsDenied({ deny }: Pick<ToolRules, 'deny'>): readonly ToolKind[] {
  return kindsIn(deny.filter(({ spec }) => spec === null));
}

function kindsIn(rules: readonly ToolRule[]): readonly ToolKind[] {
  return TOOL_KINDS.filter((kind) =>
    rules.some(({ covers }) => covers.by === 'any' || (covers.by === 'kind' && covers.kinds.includes(kind))),
  );
}

/**
 * The kinds of tools for which an agent must ask Conch, so that rules can be applied: a rule denies or asks for some
 * use, and no rule denies every use.
 */
export function kindsAsked(rules: Pick<ToolRules, 'deny' | 'mustAsk' | 'ask'>): readonly ToolKind[] {
  const denied = kindsDenied(rules);
  return kindsIn([...rules.deny, ...rules.mustAsk, ...rules.ask]).filter((kind) => !denied.includes(kind));
}

/** Rules without configuration: reading and searching in the agent's folder are allowed, everything else asks. */
const WITHOUT_RULES: ToolLists = { allow: ['read(**)', 'search(**)'], default: 'ask' };

/**
 * Joins the lists of all scopes, given widest first. The narrowest `default` applies, else "deny"; the narrowest
 * `members`, else "ask". Without a rule of `allow`, `ask` or `deny`, and without a `default`, the built-in rules apply.
 * `only` limits a run further. Throws for a text that is no rule.
 */
export function uniteRules(
  scopes: readonly { readonly scope: RuleScope; readonly lists: ToolLists | undefined }[],
  only: readonly string[] | null = null,
): ToolRules {
  const given = scopes.filter(({ lists: { allow = [], ask = [], deny = [], default: other } = {} }) =>
    [allow, ask, deny, other ?? []].some((list) => list.length > 0),
  );
  const all = given.length > 0 ? given : [{ scope: 'built in' as const, lists: WITHOUT_RULES }];
  const rulesIn = (places: typeof scopes, list: 'allow' | 'ask' | 'deny' | (typeof LABEL_LISTS)[number]) =>
    places.flatMap(({ scope, lists }) => (lists?.[list] ?? []).map((text) => scopedRule(text, scope)));
  const rulesOf = (list: 'allow' | 'ask' | 'deny'): readonly ScopedRule[] => rulesIn(all, list);
  const asking = rulesOf('ask');
  return {
    deny: rulesOf('deny'),
    mustAsk: asking.filter(({ text }) => text.endsWith('!')),
    ask: asking.filter(({ text }) => !text.endsWith('!')),
    allow: rulesOf('allow'),
    only: only?.map((text) => scopedRule(text, 'run')) ?? null,
    default: all.findLast(({ lists }) => lists?.default !== undefined)?.lists?.default ?? 'deny',
    untrusted: rulesIn(scopes, 'untrusted'),
    private: rulesIn(scopes, 'private'),
    outward: rulesIn(scopes, 'outward'),
    trusted: rulesIn(scopes, 'trusted'),
    members: scopes.findLast(({ lists }) => lists?.members !== undefined)?.lists?.members ?? 'ask',
  };
}

/**
 * Decides each part of a tool call by the first check that applies: deny rules, the limit `only`, `ask!` rules,
 * always-allow rules, ask rules, allow rules, the default. The strictest part decides, so a call is allowed only if
 * every part is.
 */
export function decideUse(use: ToolUse, rules: ToolRules, memory: RuleMemory): ToolVerdict {
  const [first, ...rest] = use.parts.map((part) => decidePart(part, rules, memory));
  if (first === undefined) throw new Error('impossible: a tool call without parts');
  return rest.reduce((strictest, each) => (strictness(each) > strictness(strictest) ? each : strictest), first);
}

/**
 * Returns the verdict in a run of a requester who is not an operator. Unless `members` is `same`, no rule allows more
 * than reading: tools of the kinds `read` and `search`. `isHarmless`: the tool's server says that the tool changes
 * nothing, and an operator vouches for the server; this counts as reading.
 */
export function decideForMember(
  { parts }: ToolUse,
  decided: ToolVerdict,
  { members, isHarmless }: Pick<ToolRules, 'members'> & { readonly isHarmless: boolean },
): ToolVerdict {
  const isReading = isHarmless || parts.every(({ kind }) => kind === 'read' || kind === 'search');
  if (members === 'same' || decided.verdict === 'deny' || isReading) return decided;
  return members === 'ask'
    ? { ...decided, verdict: 'ask', by: 'members' }
    : { verdict: 'deny', by: 'members', rule: null };
}

/** A turn in which an agent must not change the work: it reviews, or speaks for a merged ticket in a meeting. */
export type ReadOnly = 'review' | 'meeting';

/**
 * Returns the verdict in a turn in which the agent must not change the work: tools that edit, delete or move are
 * denied.
 */
export function decideReadOnly({ parts }: ToolUse, by: ReadOnly, decided: ToolVerdict): ToolVerdict {
  const isChanging = parts.some(({ kind }) => kind === 'edit' || kind === 'delete' || kind === 'move');
  return isChanging ? { verdict: 'deny', by, rule: null } : decided;
}

/** True when the rules may allow or ask for some call of a server's tool. `tool: null`: any tool of the server. */
export function reachesTool(rules: ToolRules, server: string, tool: string | null): boolean {
  const covers = ({ covers: each }: ToolRule): boolean => {
    if (each.by !== 'mcp') return each.by === 'any' || each.kinds.includes('other');
    return each.server(server) && (tool === null || each.name(tool));
  };
  const isWhole = (rule: ToolRule): boolean =>
    rule.spec === null && covers(rule) && (rule.covers.by !== 'mcp' || rule.covers.name(tool ?? ANYTHING));
  if (rules.deny.some(isWhole) || (rules.only !== null && !rules.only.some(covers))) return false;
  return rules.default !== 'deny' || [...rules.mustAsk, ...rules.ask, ...rules.allow].some(covers);
}

/** Returns why a call is denied, in words for people and agents. */
export function whyDenied({ by, rule }: Pick<ToolVerdict, 'by' | 'rule'>): string {
  return DENIED[by] ?? `rule "${rule?.text ?? ''}"`;
}

const DENIED: Partial<Record<ToolVerdict['by'], string>> = {
  default: 'no rule covers it',
  run: 'it is not among the tools of this run',
  review: 'a reviewer may not change the work',
  meeting: 'an agent that speaks for a merged ticket in a meeting may not change files',
  members: 'it was asked for by somebody who is not an operator, so it may only read',
};

/** Tells an agent why a call was denied and which tools it has, without naming other rules. */
export function toolRefusalText({ title }: ToolUse, decided: ToolVerdict, rules: ToolRules): string {
  const reason = `is denied${decided.rule === null ? ':' : ' by'} ${whyDenied(decided)}`;
  const names = (list: readonly ToolRule[]): string => [...new Set(list.map(({ tool }) => tool))].join(', ');
  const free = names(rules.allow);
  const asked = rules.default === 'ask' ? 'everything else' : names([...rules.ask, ...rules.mustAsk]);
  const may = [free, asked && `${asked} after approval`].filter(Boolean).join('; ');
  return `AGENT_TOOL_NOT_ALLOWED: ${title} ${reason}. You may: ${may || 'use no tools'}.`;
}

/** Returns the text of a rule without a trailing `!`. */
export function withoutMark(text: string): string {
  return text.trim().replace(/!$/, '');
}

/**
 * True when a rule covers a part. `isWide`, for rules that deny, ask or label: every command that may run counts, and a
 * path as written or resolved, in any letter case. Otherwise, for rules that allow, limit a run or trust, only certain
 * matches count.
 */
export function isAbout(rule: ToolRule, part: UsePart, isWide: boolean): boolean {
  const { covers, spec } = rule;
  const { kind, mcp, about } = part;
  if (isWide && namesRead(rule, part)) return true;
  if (covers.by === 'kind' && !covers.kinds.includes(kind)) return false;
  if (covers.by === 'mcp' && (mcp === null || !covers.server(mcp.server) || !covers.name(mcp.name))) return false;
  if (spec === null) return true;
  switch (spec.of) {
    case 'words':
      if (about.of !== 'words') return false;
      return isWide
        ? [...(about.words === null ? [] : [about.words]), ...about.seen].some((words) => begins(words, spec, true))
        : about.words !== null && begins(about.words, spec, false) && allowsMore(about.words, spec);
    case 'path':
      if (isWide && part.paths.some(({ isRest }) => isRest)) return true;
      if (about.of !== 'path') return false;
      return isWide
        ? [about.written, ...about.real].some((path) => lies(path, spec, true))
        : about.real.every((path) => lies(path, spec, false, kind === 'search'));
    case 'host':
      if (about.of !== 'host' || about.host === null || !(isWide || about.plain)) return false;
      return spec.below ? about.host.endsWith(`.${spec.host}`) : about.host === spec.host;
    case 'input': {
      if (about.of !== 'input') return false;
      const { values } = about;
      const fitting = (value: string, fits: Wildcard): boolean => fits(value) && (isWide || !LEADS_ASIDE.test(value));
      return [...spec.wanted].every(([key, fits]) => Object.hasOwn(values, key) && fitting(values[key] ?? '', fits));
    }
  }
}

/**
 * True when a command or a server's tool names a file that a rule on reading singles out. A rule on all files applies
 * only to tools that read, because nearly every word is some file's name.
 */
function namesRead(rule: ToolRule, { kind, mcp, paths }: UsePart): boolean {
  const { covers, spec } = rule;
  if (spec?.of !== 'path' || covers.by !== 'kind' || !(kind === 'execute' || mcp !== null)) return false;
  if (!covers.kinds.some((each) => each === 'read' || each === 'search') || spec.wide(ANYTHING)) return false;
  return paths.some((path) => isNamed(rule, path));
}

/** Matches a value that may leave its folder: `docs/../x` is not in `docs`. Escaped dots and slashes count, too. */
const LEADS_ASIDE = /(?:^|[\\/])\.\.(?:[\\/]|$)|%(?:2e|2f|5c)/i;

/**
 * True when a rule on paths covers this path, as written or resolved, in any letter case. Each rule on paths covers a
 * path with `isRest`. False for other rules.
 */
export function isNamed({ spec }: ToolRule, { written, real, isRest }: NamedPath & Pick<UsedPath, 'isRest'>): boolean {
  return spec?.of === 'path' && (isRest === true || [written, ...real].some((path) => lies(path, spec, true)));
}

function decidePart(part: UsePart, rules: ToolRules, memory: RuleMemory): ToolVerdict {
  const among = (list: readonly ToolRule[], isWide: boolean) => list.find((rule) => isAbout(rule, part, isWide));
  const denied = among(rules.deny, true);
  if (denied !== undefined) return { verdict: 'deny', by: 'deny', rule: denied };
  if (rules.only !== null && among(rules.only, false) === undefined) return { verdict: 'deny', by: 'run', rule: null };
  const always = granting(part) ?? among(rules.mustAsk, true);
  if (always !== undefined) return { verdict: 'ask', by: 'ask!', rule: always };
  const valid = memory.remembered.filter(
    (one) => memory.at < one.until && one.definition === memory.definition && !isTooWide(one.rule, part),
  );
  const remembered = among(
    valid.map(({ rule }) => rule),
    false,
  );
  if (remembered !== undefined) return { verdict: 'allow', by: 'remembered', rule: remembered };
  const asked = among(rules.ask, true);
  if (asked !== undefined) return { verdict: 'ask', by: 'ask', rule: asked };
  const allowed = among(rules.allow, false);
  if (allowed !== undefined) return { verdict: 'allow', by: 'allow', rule: allowed };
  return { verdict: rules.default, by: 'default', rule: null };
}

/**
 * True when an always-allow rule that ends in `*` covers more than the button *Always…* offers: unsafe words before the
 * `*`, or a command that names a path outside the folder.
 */
function isTooWide({ spec }: ToolRule, { about }: UsePart): boolean {
  if (spec?.of !== 'words' || !spec.open || about.of !== 'words') return false;
  return about.outside || !isSafeBeginning(spec.words);
}

/** Rules for files that grant permissions or run programs: changing them needs approval. */
const GRANTING_FILES = GRANTING_NAMES.map((file) => scopedRule(`Edit(${file})!`, 'built in'));

const OWN_CONFIG = scopedRule('Edit(turnConfig.json)!', 'built in');
const OWN_DATA = scopedRule('Read(.conch)!', 'built in');

/**
 * Returns the built-in rule for a protected file that a call may change, with any tool, in any folder. Conch's data
 * folder is protected from reading, too.
 */
function granting({ paths }: UsePart): ScopedRule | undefined {
  if (paths.some(({ own }) => own === 'data')) return OWN_DATA;
  if (paths.some(({ own, changed }) => own === 'config' && changed)) return OWN_CONFIG;
  const changed = paths.filter((path) => path.changed).flatMap(({ written, real }) => [written, ...real]);
  const anywhere = changed.map((path) => ({ ...path, folder: path.folder ?? path.disk }));
  if (anywhere.length === 0) return undefined;
  return GRANTING_FILES.find(({ spec }) => spec?.of === 'path' && anywhere.some((path) => lies(path, spec, true)));
}

function strictness({ verdict, by }: ToolVerdict): number {
  return VERDICTS.indexOf(verdict) * 2 + (by === 'ask!' ? 1 : 0);
}

/**
 * True when a rule that gives a command's beginning allows the rest. After a safe beginning, `*` allows safe commands
 * only. After other words, `*` allows all words that set no other working folder.
 */
function allowsMore(words: Argv, spec: Extract<RuleSpec, { of: 'words' }>): boolean {
  if (!spec.open) return true;
  return isSafeBeginning(spec.words) ? isSafe(words) : elsewhereAt(words) < spec.words.length;
}

function begins(words: Argv, spec: Extract<RuleSpec, { of: 'words' }>, isWide: boolean): boolean {
  if (words.length < spec.words.length || (!spec.open && words.length > spec.words.length)) return false;
  return spec.words.every(
    (word, at) => words[at] === word || (isWide && at === 0 && programOf(words[0] ?? '') === word),
  );
}

/** A path that no rule names: a rule that covers it covers every file of a folder. */
const ANYTHING = '\u0001/\u0001';

/** True when a rule covers a path. `isWhole`: also when the rule covers everything in a folder at that path. */
function lies(
  path: PathFrom,
  { root, exact, wide }: Extract<RuleSpec, { of: 'path' }>,
  isWide: boolean,
  isWhole = isWide,
): boolean {
  const from = path[root];
  if (from === null) return false;
  const fits: Paths = isWide ? wide : exact;
  if (from !== '' && fits(from)) return true;
  return isWhole && fits(from === '' ? ANYTHING : `${from}/${ANYTHING}`);
}

function scopedRule(text: string, scope: RuleScope): ScopedRule {
  const read = parseRule(withoutMark(text));
  if (!read.ok) throw new Error(`impossible: a rule that was checked, "${text}", cannot be read: ${read.message}`);
  return { ...read.rule, text: text.trim(), scope };
}
