import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { TOOL_ALIASES, TOOL_KINDS, hostOf, mcpToolOf } from './rule.ts';
import type { McpTool, ToolKind } from './rule.ts';
import { readShell } from './shell.ts';
import type { Argv } from './shell.ts';

/** A tool call as it is asked for. */
export type ToolRequest = {
  /** The tool's own name, never its title: `Bash`, `mcp__github__create_issue`; `null` when only the kind is known. */
  readonly name: string | null;
  readonly kind: ToolKind | null;
  readonly input: unknown;
  /** Paths that are told beside the input. */
  readonly locations: readonly string[];
};

/** Where an agent works; all paths are absolute. */
export type WorkPlace = {
  readonly folder: string;
  readonly home: string;
  /** Where a path leads when its links are followed; `null` for what is not there. */
  readonly realpath: (path: string) => string | null;
};

/** One thing that a call would do: rules look at each by itself. */
export type UsePart = { readonly kind: ToolKind; readonly mcp: McpTool | null; readonly about: About };

/** What a part is about. */
export type About =
  /** `words` is `null` when they are not known with certainty; `seen` is what else may run. */
  | { readonly of: 'words'; readonly words: Argv | null; readonly seen: readonly Argv[] }
  /** `real`: where it leads; two places when links make it mean different things to the system and to a program. */
  | { readonly of: 'path'; readonly written: PathFrom; readonly real: readonly PathFrom[] }
  | { readonly of: 'host'; readonly host: string | null }
  | { readonly of: 'input'; readonly values: Readonly<Record<string, string>> }
  | { readonly of: 'nothing' };

/** A path as seen from the agent's folder, from its home and from the root; `null` where it does not lie. */
export type PathFrom = { readonly folder: string | null; readonly home: string | null; readonly disk: string };

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
    return { title: name, parts: [{ kind: 'other', mcp, about: { of: 'input', values: scalarsIn(request.input) } }] };
  }
  const kind = kindOf(request);
  const input = kind === 'execute' && typeof request.input === 'string' ? { command: request.input } : request.input;
  const command = commandIn(input);
  const commands = command === null ? [] : commandParts(command);
  const others = kind === 'execute' ? [] : aboutOf(kind, request, place).map((about) => ({ kind, mcp: null, about }));
  const [first = { kind, mcp: null, about: NO_COMMAND }, ...rest] = [...others, ...commands];
  return { title: command === null ? kind : `${kind}(${shortened(command)})`, parts: [first, ...rest] };
}

/**
 * Where a path leads when its links are followed: those of the nearest parent that is there, when it is not there itself. After
 * a link, `..` leads elsewhere for the system than for a program that shortens paths itself: both places are given then.
 */
export function realPathsOf(path: string, place: WorkPlace): readonly string[] {
  const direct = followed(absolute(path, place), place);
  return path.split(/[\\/]/).includes('..') ? [...new Set([direct, walked(path, place)])] : [direct];
}

const NO_COMMAND: About = { of: 'words', words: null, seen: [] };

const LONGEST_TITLE = 80;

/** By its own name, else by the kind that is told; a name that nobody knows is no kind. */
function kindOf({ name, kind }: ToolRequest): ToolKind {
  const named = TOOL_KINDS.find((each) => each === name);
  return (
    named ?? (name !== null && Object.hasOwn(TOOL_ALIASES, name) ? TOOL_ALIASES[name]?.[0] : null) ?? kind ?? 'other'
  );
}

function commandParts(command: string): readonly UsePart[] {
  const { parts, seen } = readShell(command);
  const whole = parts === null ? [null] : parts;
  return whole.map((words, at) => ({
    kind: 'execute',
    mcp: null,
    about: { of: 'words', words, seen: at === 0 ? seen : [] },
  }));
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
      return paths.map((path) => ({
        of: 'path',
        written: pathFrom(absolute(path, place), place.folder, place.home),
        real: realPathsOf(path, place).map((real) =>
          pathFrom(real, followed(place.folder, place), followed(place.home, place)),
        ),
      }));
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
      return [{ of: 'input', values: scalarsIn(input) }];
  }
}

const PATH_KEYS: ReadonlySet<string> = new Set(
  (
    'path file file_path filePath absolute_path notebook_path notebookPath dir directory ' +
    'source destination from to old_path new_path oldPath newPath paths files'
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

function scalarsIn(input: unknown): Readonly<Record<string, string>> {
  if (!isRecord(input)) return {};
  const scalars = Object.entries(input).filter(([, each]) => ['string', 'number', 'boolean'].includes(typeof each));
  return Object.fromEntries(scalars.map(([key, each]) => [key, String(each)]));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function absolute(path: string, { folder, home }: WorkPlace): string {
  return path === '~' || path.startsWith('~/') ? resolve(home, path.slice(2)) : resolve(folder, path);
}

function followed(path: string, { realpath }: WorkPlace): string {
  let [there, rest] = [path, ''];
  for (let real = realpath(there); ; real = realpath(there)) {
    if (real !== null) return join(real, rest);
    const parent = dirname(there);
    if (parent === there) return path;
    rest = join(relative(parent, there), rest);
    there = parent;
  }
}

/** Step by step, as the system goes. */
function walked(path: string, place: WorkPlace): string {
  const from = path.startsWith('~/') ? place.home : isAbsolute(path) ? '/' : place.folder;
  const steps = path.replace(/^~\//, '').split(/[\\/]/);
  return steps.reduce((at, step) => followed(join(at, step), place), followed(from, place));
}

function pathFrom(path: string, folder: string, home: string): PathFrom {
  return { folder: below(folder, path), home: below(home, path), disk: below('/', path) ?? '' };
}

/** A path below another, with slashes; empty for that one itself. */
function below(root: string, path: string): string | null {
  const from = relative(root, path);
  if (from === '..' || from.startsWith(`..${sep}`) || isAbsolute(from)) return null;
  return from.split(sep).join('/');
}

function shortened(text: string): string {
  const [line = ''] = text.split('\n', 1);
  return line.length === text.length && line.length <= LONGEST_TITLE ? line : `${line.slice(0, LONGEST_TITLE - 1)}…`;
}
