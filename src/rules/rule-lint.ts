import { parseRule } from './rule.ts';
import type { Covered, RuleSpec, ToolRule } from './rule.ts';
import { isSafeBeginning, safeVerbs } from './safe-commands.ts';
import { LABEL_LISTS, withoutMark } from './verdict.ts';
import type { ToolLists } from './verdict.ts';

type RuleFinding = {
  readonly list: (typeof LISTS)[number] | (typeof LABEL_LISTS)[number] | 'default';
  /** The position of the rule in its list, from 0; `null` for the key `default`. */
  readonly index: number | null;
  /** True for an error, with which Conch does not start; false for a warning. */
  readonly wrong: boolean;
  readonly message: string;
};

/**
 * Finds rules that cannot be parsed, never decide, never match, or allow more or deny less than they seem to, and a
 * `default` of `allow`. `wider`: the lists of wider scopes, which also apply; their rules are not reported.
 */
export function lintRules(lists: ToolLists, wider: readonly ToolLists[] = []): readonly RuleFinding[] {
  const entriesOf = (each: ToolLists): readonly Entry[] =>
    LISTS.flatMap((list) => (each[list] ?? []).map((text, index) => entryOf(list, index, text)));
  const entries = entriesOf(lists);
  const outer = wider.flatMap(entriesOf);
  const others = [...outer, ...entries];
  const unwise = (entry: Entry, message: string): RuleFinding => ({ ...entry.place, wrong: false, message });
  const found: RuleFinding[] = entries.flatMap((entry): readonly RuleFinding[] => {
    if (entry.rule === null) return [{ ...entry.place, wrong: true, message: entry.message }];
    const { rule } = entry;
    const before = others.find(
      (other) => other !== entry && isBefore(other, entry, outer) && contains(other.rule, rule),
    );
    const shadow = before === undefined ? [] : [unwise(entry, shadowed(before))];
    const never = neverFits(rule);
    const wide = entry.place.list === 'allow' ? allowsMuch(rule) : null;
    const half = entry.place.list === 'allow' ? halfHeld(entry, others) : halfHolds(entry, outer);
    return [...shadow, ...[never, wide, half].flatMap((message) => (message === null ? [] : [unwise(entry, message)]))];
  });
  found.push(
    ...LABEL_LISTS.flatMap((list) => (lists[list] ?? []).flatMap((text, index) => lintLabel(list, index, text))),
  );
  if (lists.default !== 'allow') return found;
  const message = 'Tools that no rule names run without a request. Set "default" to "ask".';
  return [...found, { list: 'default', index: null, wrong: false, message }];
}

const LISTS = ['deny', 'ask', 'allow'] as const;

type Entry = {
  readonly place: { readonly list: (typeof LISTS)[number] | (typeof LABEL_LISTS)[number]; readonly index: number };
  readonly text: string;
  readonly rule: ToolRule | null;
  readonly message: string;
};

function lintLabel(list: (typeof LABEL_LISTS)[number], index: number, text: string): readonly RuleFinding[] {
  const { place, rule, message } = entryOf(list, index, text);
  if (rule === null) return [{ ...place, wrong: true, message }];
  const isWide = rule.covers.by === 'any' || (rule.spec === null && rule.covers.by === 'kind');
  const wide =
    list === 'trusted' && isWide
      ? `"${text}" makes Conch trust everything these tools return. Name a host, a command or a tool.`
      : null;
  return [neverFits(rule), wide].flatMap((each) => (each === null ? [] : [{ ...place, wrong: false, message: each }]));
}

function entryOf(list: Entry['place']['list'], index: number, text: string): Entry {
  const place = { list, index };
  if (list !== 'ask' && text.trim().endsWith('!')) {
    return { place, text, rule: null, message: 'Only rules of "ask" may end in "!": remove the "!"' };
  }
  const read = parseRule(withoutMark(text));
  return read.ok ? { place, text, rule: read.rule, message: '' } : { place, text, rule: null, message: read.message };
}

/**
 * For two rules of which `one` covers `other`: true when `one` decides first. The order is deny, `ask!`, ask, allow. In
 * one list, the wider rule counts as first; of equal rules, the rule of `outer`, then the rule that stands first.
 */
function isBefore(one: Entry, other: Entry, outer: readonly Entry[]): boolean {
  const orderOf = ({ place }: Entry): number => LISTS.findIndex((list) => list === place.list);
  const [first, second] = [orderOf(one), orderOf(other)];
  if (first !== second) return first < second;
  const isAlways = one.text.trim().endsWith('!');
  if (isAlways !== other.text.trim().endsWith('!')) return isAlways;
  return !contains(other.rule, one.rule) || outer.includes(one) || one.place.index < other.place.index;
}

function shadowed({ place, text }: Entry): string {
  return `This rule has no effect: "${text}" of "${place.list}" covers it and is at least as strict. Remove one.`;
}

/** True when the texts show that `wider` covers everything that `narrower` covers. False proves nothing. */
function contains(wider: ToolRule | null, narrower: ToolRule | null): boolean {
  if (wider === null || narrower === null || !coversAll(wider, narrower)) return false;
  if (wider.spec === null) return true;
  return narrower.spec !== null && (specOf(wider) === specOf(narrower) || beginsWith(narrower.spec, wider.spec));
}

function coversAll(wider: ToolRule, narrower: ToolRule): boolean {
  const [one, other]: readonly [Covered, Covered] = [wider.covers, narrower.covers];
  if (one.by === 'any') return true;
  if (one.by === 'kind') return other.by === 'kind' && other.kinds.every((kind) => one.kinds.includes(kind));
  const [, server = '', name = ''] = /^mcp__([^_]+)__(.+)$/s.exec(narrower.tool) ?? [];
  return other.by === 'mcp' && one.server(server) && one.name(name);
}

function beginsWith(spec: RuleSpec, begin: RuleSpec): boolean {
  if (spec.of !== 'words' || begin.of !== 'words' || !begin.open) return false;
  if (isSafeBeginning(begin.words) && !isSafeBeginning(spec.words)) return false;
  return begin.words.every((word, at) => spec.words[at] === word);
}

function specOf({ text }: ToolRule): string {
  return text.slice(text.indexOf('('));
}

/** Returns a warning when a rule allows commands that can reach files protected by a rule on paths; else `null`. */
function halfHeld(entry: Entry, others: readonly Entry[]): string | null {
  const path = others.find((other) => reaches(entry, other));
  if (path === undefined) return null;
  return `"${path.text}" of "${path.place.list}" protects a file only from commands that name the file. Allowed commands can still reach the file through its folder.`;
}

/**
 * Returns a warning for a rule on paths when a wider scope allows commands that can reach the protected files; else
 * `null`.
 */
function halfHolds(entry: Entry, wider: readonly Entry[]): string | null {
  const commands = wider.find((other) => reaches(other, entry));
  if (commands === undefined) return null;
  return `This rule protects a file only from commands that name the file. "${commands.text}" can still reach the file through its folder.`;
}

/**
 * True when `commands` allows a command that can reach the files of `path`, a rule on paths. Safe commands write
 * nothing, so for them only rules on reading and searching count. Safe git commands do not count: they show files under
 * version control.
 */
function reaches(commands: Entry, path: Entry): boolean {
  if (path.place.list === 'allow' || path.rule?.spec?.of !== 'path' || !isCommands(commands)) return false;
  const { covers } = path.rule;
  const words = commands.rule?.spec?.of === 'words' ? commands.rule.spec.words : [];
  if (words.length === 0 || !isSafeBeginning(words)) return true;
  return (
    words[0] !== 'git' && covers.by === 'kind' && covers.kinds.some((kind) => kind === 'read' || kind === 'search')
  );
}

function isCommands({ place, rule }: Entry): boolean {
  if (place.list !== 'allow' || rule === null) return false;
  const { covers, spec } = rule;
  const isOpen = spec === null || (spec.of === 'words' && spec.open);
  return isOpen && (covers.by === 'any' || (covers.by === 'kind' && covers.kinds.includes('execute')));
}

const ROOTS =
  /^\/(?:etc|home|root|usr|var|tmp|opt|bin|sbin|dev|proc|sys|mnt|srv|Users|Library|private|Volumes)(?:\/|$)/;

function neverFits({ text, spec }: ToolRule): string | null {
  if (spec?.of === 'words') {
    const star = spec.words.find((word) => word.includes('*'));
    if (star === undefined) return null;
    const end = `"${spec.words
      .map((word) => word.replaceAll('*', ''))
      .join(' ')
      .trim()} *"`;
    return `"*" inside a word matches only itself, as in "${star}". For any further words, write a separate "*" at the end: ${end}`;
  }
  const path = /\((.*)\)$/s.exec(text)?.[1]?.trim() ?? '';
  if (spec?.of !== 'path' || !ROOTS.test(path)) return null;
  return `This path begins at the agent's folder: write "/${path}" for the root of the disk`;
}

function allowsMuch({ covers, spec }: ToolRule): string | null {
  if (spec === null) {
    if (covers.by === 'any') return 'Every tool runs without a request, commands too: name the tools';
    const isCommand = covers.by === 'kind' && covers.kinds.includes('execute');
    return isCommand ? 'Every command runs without a request: name the commands, such as "Bash(npm test)"' : null;
  }
  if (spec.of !== 'words' || !spec.open) return null;
  const begin = spec.words.join(' ');
  if (begin === '')
    return 'This rule allows only commands that are known to start no program, write nothing and send nothing. To allow every command, write "Bash"';
  if (!isSafeBeginning(spec.words)) {
    return `This rule can run any program: with some arguments, "${begin}" may start a program, write a file or send data. Name the whole command, such as "Bash(${begin})"`;
  }
  const [program = '', verb] = spec.words;
  const verbs = verb === undefined ? safeVerbs(program) : null;
  if (verbs === null) return null;
  return `Of "${program}" this rule allows only ${verbs.join(', ')}, with options that start, write and send nothing: name other verbs, such as "Bash(${program} commit *)"`;
}
