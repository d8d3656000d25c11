import ignore from 'ignore';
import { readShell } from './shell.ts';

/** Kinds of tools in the Agent Client Protocol. */
export const TOOL_KINDS = [
  'read',
  'search',
  'edit',
  'delete',
  'move',
  'execute',
  'fetch',
  'think',
  'switch_mode',
  'other',
] as const;

export type ToolKind = (typeof TOOL_KINDS)[number];

/** Tool names of Claude Code, and the kinds that a rule with such a name covers. */
export const TOOL_ALIASES: Readonly<Record<string, readonly [ToolKind, ...ToolKind[]]>> = {
  Read: ['read'],
  Grep: ['search'],
  Glob: ['search'],
  Edit: ['edit', 'delete', 'move'],
  Write: ['edit', 'delete', 'move'],
  NotebookEdit: ['edit', 'delete', 'move'],
  Bash: ['execute'],
  WebFetch: ['fetch'],
  WebSearch: ['fetch'],
};

/** A tool of an MCP server. */
export type McpTool = { readonly server: string; readonly name: string };

/** The tools that a rule covers: all, some kinds, or some tools of MCP servers. */
export type Covered =
  | { readonly by: 'any' }
  | { readonly by: 'kind'; readonly kinds: readonly ToolKind[] }
  | { readonly by: 'mcp'; readonly server: Wildcard; readonly name: Wildcard };

/** The part of a rule in brackets. */
export type RuleSpec =
  /** The words of a command. `open`: more words may follow. */
  | { readonly of: 'words'; readonly words: readonly string[]; readonly open: boolean }
  /**
   * A pattern of paths below a root. Rules that allow, trust or limit a run match with `exact`. Other rules match with
   * `wide`, which ignores letter case.
   */
  | { readonly of: 'path'; readonly root: 'folder' | 'home' | 'disk'; readonly exact: Paths; readonly wide: Paths }
  /** A host, or every host below it. */
  | { readonly of: 'host'; readonly host: string; readonly below: boolean }
  /** Patterns for values of the input, by key. Every key must be there and its value match. */
  | { readonly of: 'input'; readonly wanted: ReadonlyMap<string, Wildcard> };

/** A rule as text and parsed. `spec` is `null` without brackets: the rule covers every use of its tools. */
export type ToolRule = {
  readonly text: string;
  readonly tool: string;
  readonly covers: Covered;
  readonly spec: RuleSpec | null;
};

/** Returns true when a text matches the pattern. */
export type Wildcard = (text: string) => boolean;

/** Returns true when a relative path matches the pattern. */
export type Paths = (path: string) => boolean;

type RuleReading = { readonly ok: true; readonly rule: ToolRule } | { readonly ok: false; readonly message: string };

/**
 * Parses `tool` or `tool(spec)`. The caller removes the trailing `!` of a rule that asks. For other texts, `message`
 * says what is wrong.
 */
export function parseRule(text: string): RuleReading {
  const { tool = '', spec } = /^(?<tool>[^()\s]+)(?:\((?<spec>[\s\S]*)\))?$/.exec(text.trim())?.groups ?? {};
  if (tool === '') return wrong('Expected a rule such as "execute", "Bash(npm test)" or "mcp__github__*"');
  const covers = coveredBy(tool);
  if (typeof covers === 'string') return wrong(covers);
  if (spec === undefined) return right({ text: text.trim(), tool, covers, spec: null });
  if (spec.trim() === '') return wrong(`There is nothing in the brackets: write "${tool}" for every use of this tool`);
  const read = readSpec(covers, spec.trim());
  return typeof read === 'string' ? wrong(read) : right({ text: text.trim(), tool, covers, spec: read });
}

/** Compiles a pattern in which `*` matches any text, also the empty text. */
export function wildcard(pattern: string): Wildcard {
  const [head = '', ...rest] = pattern.split('*');
  const tail = rest.pop();
  if (tail === undefined) return (text) => text === head;
  return (text) => {
    if (!text.startsWith(head) || text.length < head.length + tail.length || !text.endsWith(tail)) return false;
    const end = text.length - tail.length;
    let from = head.length;
    for (const part of rest) {
      const found = text.indexOf(part, from);
      if (found === -1 || found + part.length > end) return false;
      from = found + part.length;
    }
    return true;
  };
}

/** Returns the server and tool of a name such as `mcp__github__create_issue`; `null` for other names. */
export function mcpToolOf(name: string): McpTool | null {
  const { server, tool } = /^mcp__(?<server>[^_]+)__(?<tool>.+)$/s.exec(name)?.groups ?? {};
  return server === undefined || tool === undefined ? null : { server, name: tool };
}

function coveredBy(tool: string): Covered | string {
  if (tool === '*') return { by: 'any' };
  const kinds = TOOL_KINDS.filter((kind) => kind === tool);
  if (kinds.length > 0) return { by: 'kind', kinds };
  if (Object.hasOwn(TOOL_ALIASES, tool)) return { by: 'kind', kinds: TOOL_ALIASES[tool] ?? [] };
  if (!tool.startsWith('mcp__')) {
    return `There is no tool "${tool}": known are ${[...TOOL_KINDS, ...Object.keys(TOOL_ALIASES)].join(', ')}, and "mcp__<server>__<tool>"`;
  }
  const named = mcpToolOf(tool);
  if (named === null) return `Expected "mcp__<server>__<tool>"; a server's name has no "_", and "*" is any tool of it`;
  return { by: 'mcp', server: wildcard(named.server), name: wildcard(named.name) };
}

function readSpec(covers: Covered, spec: string): RuleSpec | string {
  if (covers.by === 'any') return 'Nothing can stand in brackets after "*": name a tool';
  if (covers.by === 'mcp') return readInput(spec);
  const [kind = 'other'] = covers.kinds;
  switch (kind) {
    case 'execute':
      return readWords(spec);
    case 'read':
    case 'search':
    case 'edit':
    case 'delete':
    case 'move':
      return readPath(spec);
    case 'fetch':
      return readHost(spec);
    case 'think':
    case 'switch_mode':
    case 'other':
      return readInput(spec);
  }
}

function readWords(spec: string): RuleSpec | string {
  const [, begin = spec] = /^(.*?)(?:(?:^|\s+)\*|:\*)$/s.exec(spec) ?? [];
  const open = begin !== spec;
  if (begin.trim() === '') return { of: 'words', words: [], open };
  const { parts } = readShell(begin, true);
  const [words] = parts ?? [];
  if (words === undefined || parts?.length !== 1) {
    return 'Expected the words of one command, without "&&", "|", ";", "$", ">" or an assignment; each part of a command line is checked by itself';
  }
  return { of: 'words', words, open };
}

function readPath(spec: string): RuleSpec | string {
  if (spec.startsWith('!')) return 'A path cannot begin with "!": remove it';
  if (spec.split('/').includes('..'))
    return 'Expected a path without "..": one outside the folder begins with "//" or "~/"';
  const root = spec.startsWith('//') ? 'disk' : spec.startsWith('~/') ? 'home' : 'folder';
  const pattern = root === 'folder' ? spec.replace(/^\.\//, '/') : spec.slice(1);
  return { of: 'path', root, exact: pathsOf(pattern, false), wide: pathsOf(pattern, true) };
}

/**
 * Compiles a pattern in the form of `.gitignore`, of one or more lines. `isWide` ignores letter case and Unicode
 * normalization (NFC, NFD).
 */
function pathsOf(pattern: string, isWide: boolean): Paths {
  const fold = (text: string): string => (isWide ? text.normalize('NFC') : text);
  const patterns = ignore({ ignorecase: isWide, allowRelativePaths: true }).add(fold(pattern));
  return (path) => patterns.ignores(fold(path));
}

function readHost(spec: string): RuleSpec | string {
  const { below, host } = /^domain:(?<below>\*\.)?(?<host>[^*/:@?#\s]+)$/.exec(spec)?.groups ?? {};
  const name = host === undefined ? null : hostOf(`https://${host}`);
  if (name === null) return 'Expected "domain:docs.example.org", or "domain:*.example.org" for every host below it';
  return { of: 'host', host: name, below: below !== undefined };
}

/** Returns the host of an http or https address, as browsers parse it; `null` for other texts. */
export function hostOf(address: string): string | null {
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol)) return null;
  return url.hostname.replace(/\.$/, '') || null;
}

function readInput(spec: string): RuleSpec | string {
  const wanted = new Map<string, Wildcard>();
  for (const pair of spec.split(/,\s*(?=[\w.-]+=)/)) {
    const { key, value } = /^(?<key>[\w.-]+)=(?<value>[\s\S]*)$/.exec(pair)?.groups ?? {};
    if (key === undefined || value === undefined)
      return 'Expected "key=value", such as "repo=acme/*", and commas between them';
    if (wanted.has(key)) return `"${key}" is given twice: remove one`;
    wanted.set(key, wildcard(value));
  }
  return { of: 'input', wanted };
}

function right(rule: ToolRule): RuleReading {
  return { ok: true, rule };
}

function wrong(message: string): RuleReading {
  return { ok: false, message };
}
