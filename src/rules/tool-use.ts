import { TOOL_ALIASES, TOOL_KINDS, hostOf, mcpToolOf } from './rule.ts';
import type { McpTool, ToolKind } from './rule.ts';
import { isThere, namedPath } from './paths.ts';
import type { NamedPath, WorkPlace } from './paths.ts';
import { onlyReads } from './shell-programs.ts';
import type { Argv } from './shell-programs.ts';
import { readShell } from './shell.ts';

/** A tool call as it is asked for. */
export type ToolRequest = {
  /** The tool's own name, never its title: `Bash`, `mcp__github__create_issue`; `null` when only the kind is known. */
  readonly name: string | null;
  readonly kind: ToolKind | null;
  readonly input: unknown;
  /** Paths that are told beside the input. */
  readonly locations: readonly string[];
};

/** One thing that a call would do: rules look at each by itself. */
export type UsePart = {
  readonly kind: ToolKind;
  readonly mcp: McpTool | null;
  readonly about: About;
  /** Every path that it names, as far as that can be told of such a tool. */
  readonly paths: readonly UsedPath[];
};

/** A path that a call names: whether it is one for certain, and whether what is there may be another afterwards. */
export type UsedPath = NamedPath & { readonly known: boolean; readonly changed: boolean };

/** What a part is about. */
export type About =
  /** `words` is `null` when they are not known with certainty; `seen` is what else may run. */
  | { readonly of: 'words'; readonly words: Argv | null; readonly seen: readonly Argv[] }
  | ({ readonly of: 'path' } & NamedPath)
  | { readonly of: 'host'; readonly host: string | null }
  | { readonly of: 'input'; readonly values: Readonly<Record<string, string>>; readonly keys: readonly string[] }
  | { readonly of: 'nothing' };

/** A tool call as rules see it. */
export type ToolUse = {
  /** What it is called in words for people and models. */
  readonly title: string;
  readonly parts: readonly [UsePart, ...UsePart[]];
};

/**
 * Takes a tool call apart. A command in the input is one whatever kind of tool is claimed. Without a place, of an agent on another
 * machine, nobody knows where its paths lead.
 */
export function toolUse(request: ToolRequest, place: WorkPlace | null): ToolUse {
  const { name } = request;
  const mcp = name === null ? null : mcpToolOf(name);
  if (mcp !== null && name !== null) {
    const about = inputOf(request.input);
    const changed = !READING_NAME.test(mcp.name);
    return { title: name, parts: [{ kind: 'other', mcp, about, paths: used(textsIn(request.input), changed, place) }] };
  }
  const kind = kindOf(request);
  const input = kind === 'execute' && typeof request.input === 'string' ? { command: request.input } : request.input;
  const command = commandIn(input);
  const commands = command === null ? [] : commandParts(command, place);
  const others = kind === 'execute' ? [] : partsOf(kind, request, place);
  const [first = { kind, mcp: null, about: NO_COMMAND, paths: [] }, ...rest] = [...others, ...commands];
  return { title: command === null ? kind : `${kind}(${shortened(command)})`, parts: [first, ...rest] };
}

const NO_COMMAND: About = { of: 'words', words: null, seen: [] };

const LONGEST_TITLE = 80;

/** By its own name, else by the kind that is told; a name that nobody knows is no kind, but one that speaks of the web is `fetch`. */
function kindOf({ name, kind }: ToolRequest): ToolKind {
  const named = TOOL_KINDS.find((each) => each === name);
  return (
    named ??
    (name !== null && Object.hasOwn(TOOL_ALIASES, name) ? TOOL_ALIASES[name]?.[0] : null) ??
    (name !== null && kind !== 'execute' && WEB_NAME.test(name) ? 'fetch' : null) ??
    kind ??
    'other'
  );
}

const WEB_NAME = /web[-_ ]?(?:search|fetch|page|get|read)|google|browse|^fetch(?:[-_]|$)|[-_]fetch$/i;

function commandParts(command: string, place: WorkPlace | null): readonly UsePart[] {
  const { parts, seen, written } = readShell(command);
  const whole = parts === null ? [null] : parts;
  const paths = [
    ...seen.flatMap((words) => used(pathWords(words), !onlyReads(words), place)),
    ...used(written, true, place),
  ];
  return whole.map((words, at) => ({
    kind: 'execute',
    mcp: null,
    about: { of: 'words', words, seen: at === 0 ? seen : [] },
    paths: at === 0 ? paths : [],
  }));
}

/** Each thing that a tool of a kind is about by itself; where no path is known, any text of its input may be one. */
function partsOf(kind: ToolKind, request: ToolRequest, place: WorkPlace | null): readonly UsePart[] {
  const changed = !READING_KINDS.has(kind);
  return aboutOf(kind, request, place).map((about, at) => {
    if (about.of === 'path') return { kind, mcp: null, about, paths: [{ ...about, known: true, changed }] };
    const texts = at === 0 && about.of !== 'host' ? [...textsIn(request.input), ...request.locations] : [];
    return { kind, mcp: null, about, paths: used(texts, changed, place) };
  });
}

const READING_KINDS: ReadonlySet<ToolKind> = new Set(['read', 'search', 'fetch', 'think']);
/** The names of servers' tools that only look. */
const READING_NAME = /^(?:read|get|list|search|find|view|show|stat|describe|query|glob|grep|directory)(?:[_-]|$)/i;
/** What is written into files or compared with what stands in them is no path. */
const CONTENT_KEYS: ReadonlySet<string> = new Set(
  'content contents text body data message oldText newText old_text new_text old_string new_string oldString newString'.split(
    ' ',
  ),
);
/** So many paths of one call are looked at, and so long ones. */
const MOST_PATHS = 64;
const LONGEST_PATH = 1_000;
/** Of an agent on another machine paths are taken as they are written. */
const ELSEWHERE: WorkPlace = { folder: '/', home: '/', realpath: (path) => path };

function used(texts: readonly string[], changed: boolean, place: WorkPlace | null): readonly UsedPath[] {
  return texts
    .filter((text) => text !== '' && text.length <= LONGEST_PATH && !/[\n\0]/.test(text))
    .slice(0, MOST_PATHS)
    .map((text) => {
      const path = text.replace(/^(?:file:\/\/|@)/, '');
      const known = place !== null && isThere(path.replace(/[*?[{].*$/s, ''), place);
      return { ...namedPath(path, place ?? ELSEWHERE), known, changed };
    });
}

/** What a command's words may name: also what stands behind "=" or is joined to an option of one letter. */
function pathWords(words: Argv): readonly string[] {
  return words.slice(1).flatMap((word) => {
    if (!word.startsWith('-')) return [word, ...(word.includes('=') ? [word.slice(word.indexOf('=') + 1)] : [])];
    return word.includes('=') ? [word.slice(word.indexOf('=') + 1)] : word.length > 2 ? [word.slice(2)] : [];
  });
}

function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  if (Array.isArray(value)) return value.flatMap((each: unknown) => textsIn(each));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, each]) => (CONTENT_KEYS.has(key) ? [] : [...textsIn(each)]));
}

function aboutOf(kind: ToolKind, { name, input, locations }: ToolRequest, place: WorkPlace | null): readonly About[] {
  switch (kind) {
    case 'read':
    case 'search':
    case 'edit':
    case 'delete':
    case 'move': {
      if (place === null) return [{ of: 'nothing' }];
      const named = [...new Set([...pathsIn(input), ...locations])];
      const searched =
        kind === 'search' ? [...(named.length === 0 ? [place.folder] : []), ...patternsIn(input, name)] : [];
      const paths = [...named, ...searched];
      if (paths.length === 0) return [{ of: 'nothing' }];
      return paths.map((path) => ({ of: 'path', ...namedPath(path, place) }));
    }
    case 'fetch': {
      const addresses = stringsAt(input, ADDRESS_KEYS);
      return addresses.length === 0
        ? [{ of: 'nothing' }]
        : addresses.map((each) => ({ of: 'host', host: hostOf(each) }));
    }
    case 'execute':
    case 'think':
    case 'switch_mode':
    case 'other':
      return [inputOf(input)];
  }
}

const PATH_KEYS: ReadonlySet<string> = new Set(
  (
    'path file file_path filePath absolute_path notebook_path notebookPath dir directory ' +
    'source destination from to old_path new_path oldPath newPath paths files ' +
    'filename file_name fileName target target_file targetFile relative_path relativePath'
  ).split(' '),
);
const ADDRESS_KEYS: ReadonlySet<string> = new Set(['url', 'uri', 'urls']);
const PATTERN_KEYS: ReadonlySet<string> = new Set(['pattern', 'glob', 'glob_pattern', 'include']);

/** Codex names the files of a patch as the keys of `changes`. */
function pathsIn(input: unknown): readonly string[] {
  const changes = isRecord(input) ? input['changes'] : null;
  return [...stringsAt(input, PATH_KEYS), ...(isRecord(changes) ? Object.keys(changes) : [])];
}

/** Where patterns for names of files lead out of the folder. Those of `Grep` are for what stands in files. */
function patternsIn(input: unknown, name: string | null): readonly string[] {
  const patterns = stringsAt(input, PATTERN_KEYS).filter(
    (each) => name !== 'Grep' || !stringsAt(input, PATTERN).includes(each),
  );
  return patterns.flatMap((each) =>
    ASIDE.test(each) ? ['..'] : ABSOLUTE.test(each) ? [each.replace(/[*?[{].*$/s, '')] : [],
  );
}

const PATTERN: ReadonlySet<string> = new Set(['pattern']);
const ABSOLUTE = /^[~/]/;
const ASIDE = /(?:^|[/{,])\.\.(?:[/},]|$)/;

/** A line for a shell, or the words of a command; `bash -c` with one script is that script. */
function commandIn(input: unknown): string | null {
  if (!isRecord(input)) return null;
  const given = [input['command'], input['cmd'], input['script']].find((each) => each !== undefined);
  if (given === undefined) return null;
  if (typeof given === 'string') return given;
  if (!Array.isArray(given)) return '';
  const words = given.map(String);
  const [shell = '', option = '', script, more] = words;
  if (/^(?:\/bin\/)?(?:ba)?sh$/.test(shell) && /^-l?c$/.test(option) && script !== undefined && more === undefined) {
    return script;
  }
  return words.map((word) => `'${word.replaceAll("'", String.raw`'\''`)}'`).join(' ');
}

/** All texts that stand under such keys, however deep: a call may hold a list of what it would do. */
function stringsAt(value: unknown, keys: ReadonlySet<string>, isMeant = false): readonly string[] {
  if (typeof value === 'string') return isMeant && value !== '' ? [value] : [];
  if (Array.isArray(value)) return value.flatMap((each: unknown) => stringsAt(each, keys, isMeant));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, each]) => stringsAt(each, keys, keys.has(key)));
}

function inputOf(input: unknown): Extract<About, { of: 'input' }> {
  return { of: 'input', values: scalarsIn(input), keys: isRecord(input) ? Object.keys(input) : [] };
}

function scalarsIn(input: unknown): Readonly<Record<string, string>> {
  if (!isRecord(input)) return {};
  const scalars = Object.entries(input).filter(([, each]) => ['string', 'number', 'boolean'].includes(typeof each));
  return Object.fromEntries(scalars.map(([key, each]) => [key, String(each)]));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shortened(text: string): string {
  const [line = ''] = text.split('\n', 1);
  return line.length === text.length && line.length <= LONGEST_TITLE ? line : `${line.slice(0, LONGEST_TITLE - 1)}…`;
}
